"""A job is given to a claim: the attempt, why it goes there, and what its runner is told.

All that can fail of giving a job is done here, before anything is on the books.
"""

import secrets

from hub.dispatch.attempts import LiveAttempt, LiveJob, OpenClaim
from hub.dispatch.board import LiveBoard
from hub.dispatch.show import comparison_json
from hub.placement.model import QueuedJob
from hub.placement.placed import compare, placed_sentence
from hub.store.attempts import Claimed
from hub.wire.claim import AssignedJob, Assignment, Lease, Workspace
from hub.wire.spec import JobSpec


def draw_up(
    board: LiveBoard, queued: QueuedJob, job: LiveJob, claim: OpenClaim, lease_ms: int
) -> tuple[LiveAttempt, Claimed]:
    """The attempt at giving `job` to the runner of `claim`, and the row to be written of it.

    Raises ValueError where the job's own rows say nothing valid.
    """
    now_ms, fleet = board.now_ms, board.fleet
    sentence = placed_sentence(queued, fleet[claim.runner], fleet.value, now_ms)
    compared = compare(
        queued,
        claim.runner,
        fleet.value,
        now_ms,
        among=board.nearest(queued),
        rooms=fleet.room,
        lasting=board.lasting(queued),
    )
    attempt = LiveAttempt(
        job=job,
        number=job.attempt + 1,
        runner=claim.runner,
        instance=claim.instance,
        claim_id=claim.claim_id,
        lease=secrets.token_urlsafe(24),
        assigned_ms=now_ms,
        expires_ms=now_ms + lease_ms,
        placed=sentence,
    )
    attempt.answer = assignment(attempt, lease_ms)
    row = Claimed(
        job=job.id,
        number=attempt.number,
        runner=attempt.runner,
        instance=attempt.instance,
        claim_id=attempt.claim_id,
        lease=attempt.lease,
        placed=sentence,
        comparison=comparison_json(compared),
        now_ms=now_ms,
        expires_ms=attempt.expires_ms,
    )
    return attempt, row


def assignment(attempt: LiveAttempt, lease_ms: int) -> Assignment:
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
        memory_mib=job.demand.memory_mib,
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
    return Assignment(
        job=assigned, placed=attempt.placed, lease=Lease(token=attempt.lease, ttl_s=lease_ms / 1000)
    )
