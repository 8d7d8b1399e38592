"""What a runner is told of the job it was given."""

from hub.dispatch.attempts import LiveAttempt
from hub.wire.claim import AssignedJob, Assignment, Lease, Workspace
from hub.wire.spec import JobSpec


def assignment(attempt: LiveAttempt, sentence: str, lease_ms: int) -> Assignment:
    """The answer to the claim that `attempt` came from; the same each time it is asked for."""
    job, run = attempt.job, attempt.job.run
    spec = JobSpec.model_validate_json(job.spec)
    env = {
        "CI": "true",
        "SHUNTER": "true",
        "SHUNTER_PROJECT": run.project,
        "SHUNTER_RUN": str(run.id),
        "SHUNTER_JOB": str(job.id),
        "SHUNTER_JOB_NAME": job.name,
        "SHUNTER_ATTEMPT": str(attempt.number),
    }
    if run.ref:
        env["SHUNTER_REF"] = run.ref
    if run.commit:
        env["SHUNTER_COMMIT"] = run.commit
    assigned = AssignedJob(
        id=job.id,
        run=run.id,
        project=run.project,
        name=job.name,
        attempt=attempt.number,
        tier=spec.tier,
        images=spec.images,
        memory_mib=spec.memory_mib,
        cpus=spec.cpus,
        disk_mib=job.demand.disk_mib,
        timeout_s=spec.timeout_s,
        env=env | spec.env,
        steps=spec.steps,
        workspace=Workspace.model_validate_json(run.workspace) if run.workspace else None,
        artifacts=spec.artifacts,
        reports=spec.reports,
        keep=spec.keep,
    )
    return Assignment(job=assigned, placed=sentence, lease=Lease(token=attempt.lease, ttl_s=lease_ms / 1000))
