"""Rows and live facts as the API, the pages and the command line show them.

Sentences about placement come from `hub.placement` and are passed on unchanged. What the reader
may not see is counted, not named.
"""

import json
from collections.abc import Sequence

from hub.dispatch import fleet as live_fleet
from hub.dispatch.attempts import LiveAttempt
from hub.dispatch.fleet import LiveRunner
from hub.dispatch.show import waiting_view
from hub.placement.choose import hold_limit_ms
from hub.placement.model import Kept, Shortage
from hub.placement.need import recent_peak, takes_phrase
from hub.placement.rank import is_silent
from hub.placement.shortage import could_have_mib
from hub.service import history, shortages
from hub.service.access import Principal, reaches
from hub.service.hub import Hub
from hub.service.waiting import reason
from hub.store.rows import AttemptRow, JobRow, RunRow
from hub.wire.claim import StepResult, Workspace
from hub.wire.fleet import HeldJob, KeptFor, LastAwaited, RunnerView, Scope
from hub.wire.runs import FINAL, AttemptView, JobView, RunView, Waiting
from hub.wire.spec import JobSpec


def run_view(row: RunRow, jobs: list[JobView] | None = None) -> RunView:
    """A run; its jobs where they are given."""
    return RunView(
        id=row.id,
        project=row.project,
        status=row.status,
        title=row.title,
        ref=row.ref,
        commit=row.commit,
        priority=row.priority,
        submitted_by=row.submitted_by,
        retry_of=row.retry_of,
        workspace=_workspace_of(row),
        created_at=row.created_ms,
        finished_at=row.finished_ms,
        jobs_total=row.jobs_total,
        jobs_done=row.jobs_done,
        jobs=jobs or [],
    )


def job_view(
    hub: Hub,
    principal: Principal,
    row: JobRow,
    attempts: Sequence[AttemptRow] = (),
    undone: Sequence[str] = (),
    looks: int | None = None,
) -> JobView:
    """A job as every view shows it. `undone`: what it still needs; `looks`: see `waiting.reason`."""
    spec = _spec_of(row)
    recent = history.known(hub, row.project, row.name)
    recent_memory, recent_disk = recent_peak(recent.peaks_memory_mib), recent_peak(recent.peaks_disk_mib)
    live = hub.dispatch.attempts.get(row.id)
    log_bytes = hub.logs.size(row.id, row.attempt) if row.attempt else 0
    return JobView(
        id=row.id,
        run=row.run_id,
        project=row.project,
        name=row.name,
        status=row.status,
        attempt=row.attempt,
        runner=row.runner if row.attempt else None,
        placed=row.placed,
        exit_code=row.exit_code,
        error=row.error,
        queued_at=row.queued_ms,
        held_at=row.held_since_ms,
        held_until=_held_until_ms(hub, row),
        started_at=row.started_ms,
        finished_at=row.finished_ms,
        needs=[str(name) for name in json.loads(row.needs)],
        tier=spec.tier,
        arch=spec.arch,
        labels=spec.labels,
        images=spec.images,
        memory_mib=spec.memory_mib,
        cpus=spec.cpus,
        disk_mib=spec.disk_mib,
        timeout_s=spec.timeout_s,
        peak_memory_mib=row.peak_memory_mib,
        peak_disk_mib=row.peak_disk_mib,
        recent_memory_peak_mib=recent_memory,
        recent_disk_peak_mib=recent_disk,
        shortages=shortages.views(_shortages_of(row)),
        takes=_takes(row, spec, live, attempts, recent_memory, recent_disk),
        step=live.step if live is not None else None,
        steps=[step.name for step in spec.steps],
        results=[StepResult.model_validate(one) for one in json.loads(row.results or "[]")],
        log_bytes=log_bytes,
        waiting=waiting_of(hub, principal, row, undone, looks),
        attempts=[attempt_view(attempt) for attempt in attempts],
    )


def _takes(
    row: JobRow,
    spec: JobSpec,
    live: LiveAttempt | None,
    attempts: Sequence[AttemptRow],
    recent_memory_mib: int | None,
    recent_disk_mib: int | None,
) -> str:
    """Memory and disk in words: what was used, of what the job could have, and what recent runs used."""
    newest = attempts[-1] if attempts and row.status in FINAL else None
    short = newest.short if newest is not None and newest.number == row.attempt else None
    found = _shortages_of(row)
    memory_mib = row.peak_memory_mib if live is None else live.memory_mib
    disk_mib = row.peak_disk_mib if live is None else live.disk_mib
    parts = (
        takes_phrase(
            "memory", memory_mib, could_have_mib("memory", spec.memory_mib, found, short), recent_memory_mib
        ),
        takes_phrase("disk", disk_mib, could_have_mib("disk", spec.disk_mib, found, short), recent_disk_mib),
    )
    return ", ".join(part for part in parts if part)


def _held_until_ms(hub: Hub, row: JobRow) -> int | None:
    """When the hold of a job is over at the latest: of one that is done, by the setting alone."""
    if row.held_since_ms is None:
        return None
    live, settings = hub.dispatch.jobs.get(row.id), hub.dispatch.settings
    return row.held_since_ms + (settings.hold_ms if live is None else hold_limit_ms(live.queued(), settings))


def _shortages_of(row: JobRow) -> tuple[Shortage, ...]:
    """What the job ran out of. A row that says nothing valid is still shown."""
    try:
        return shortages.from_json(row.shortages)
    except ValueError:
        return ()


def _spec_of(row: JobRow) -> JobSpec:
    """What was asked. A row that says nothing valid is still shown, with the reason why it failed."""
    try:
        return JobSpec.model_validate_json(row.spec)
    except ValueError:
        return JobSpec(name=row.name, tier="", steps=[])


def _workspace_of(row: RunRow) -> Workspace | None:
    try:
        return Workspace.model_validate_json(row.workspace) if row.workspace else None
    except ValueError:
        return None


def waiting_of(
    hub: Hub, principal: Principal, row: JobRow, undone: Sequence[str] = (), looks: int | None = None
) -> Waiting | None:
    """Why the job waits; None: it does not. `looks`: see `waiting.reason`."""
    if row.status not in ("queued", "blocked"):
        return None
    found = reason(hub, principal, row, undone, looks)
    if found is None:
        return None
    return waiting_view(found.waiting, since_ms=found.since_ms, as_of_ms=found.as_of_ms)


def undone_needs(row: JobRow, jobs: Sequence[JobRow]) -> list[str]:
    """Names of the jobs that `row` needs and that are not done; `jobs`: all of its run."""
    if row.status != "blocked":
        return []
    done = {job.name for job in jobs if job.status in FINAL}
    return [str(name) for name in json.loads(row.needs) if name not in done]


def attempt_view(row: AttemptRow) -> AttemptView:
    """One attempt; the runner's name is as it was then."""
    return AttemptView(
        number=row.number,
        runner=row.runner,
        placed=row.placed,
        assigned_at=row.assigned_ms,
        started_at=row.running_ms,
        ended_at=row.ended_ms,
        ended=row.ended,
        reason=row.reason,
    )


def runner_view(hub: Hub, principal: Principal, live: LiveRunner) -> RunnerView:
    """A runner: what it said, what the hub knows, and what is left on it."""
    now_ms = hub.now_ms()
    settings = hub.dispatch.settings
    room = live.headroom(settings)
    claim, offer = live.claim, live.offer
    facts = claim.facts if claim is not None else None
    held = [
        HeldJob(
            job=placed.job,
            run=attempt.job.run.id if attempt is not None and seen else None,
            name=attempt.job.name if attempt is not None and seen else None,
            state="ending" if attempt is None else "running" if attempt.confirmed else "assigned",
            memory_mib=placed.memory_mib,
            cpus=placed.cpus,
        )
        for placed in live.placed.values()
        for attempt in [live.attempts.get(placed.job)]
        for seen in [attempt is not None and reaches(principal.scope, attempt.job.run.project)]
    ]
    return RunnerView(
        name=live.name,
        state=live.state,
        state_reason=live.state_reason,
        waiting=live.open_claim is not None,
        heard_at=live.heard_ms,
        heard_s_ago=None if live.heard_ms is None else max(0, now_ms - live.heard_ms) / 1000,
        facts_at=live.polled_ms,
        silent=is_silent(live.model, now_ms, settings),
        scope=Scope(owner=live.owner, project=live.project),
        labels=sorted(live.labels if offer is None else offer.labels),
        arch=offer.arch if offer is not None else None,
        tiers=list(offer.tiers) if offer is not None else [],
        images=sorted(offer.images) if offer is not None else [],
        fetches_images=offer is not None and offer.fetches_images,
        max_jobs=offer.max_jobs if offer is not None else None,
        free_slots=room.free_slots if offer is not None else None,
        cpus=offer.cpus if offer is not None else None,
        free_cpus=room.free_cpus,
        memory_mib=offer.memory_mib if offer is not None else None,
        memory_used_mib=offer.memory_used_mib if offer is not None else None,
        memory_committed_mib=room.committed_mib,
        free_memory_mib=room.free_memory_mib,
        reserve_mib=offer.reserve_mib if offer is not None else None,
        free_disk_mib=room.free_disk_mib,
        speed=offer.speed if offer is not None else None,
        speed_class=offer.speed_class if offer is not None else None,
        load1=offer.load1 if offer is not None else None,
        kernel=facts.kernel if facts is not None else None,
        os=facts.os if facts is not None else None,
        cpu=facts.cpu if facts is not None else None,
        jobs=held,
        awaited_by=sorted(
            job.id for job in live.awaited_by.values() if reaches(principal.scope, job.demand.project)
        ),
        broken_promises=live.broken_promises,
        last_awaited=_last_awaited(principal, live.last_awaited),
        kept_for=_kept_for(principal, live.kept),
        instances=[address for address, _ in live.addresses.values()] if principal.everywhere else [],
    )


def _last_awaited(principal: Principal, last: live_fleet.LastAwaited | None) -> LastAwaited | None:
    if last is None:
        return None
    job = last.job if reaches(principal.scope, last.project) else None
    return LastAwaited(job=job, at=last.at_ms, took=last.took)


def _kept_for(principal: Principal, kept: Kept | None) -> KeptFor | None:
    if kept is None:
        return None
    job = kept.job if reaches(principal.scope, kept.demand.project) else None
    return KeptFor(job=job, queued_at=kept.queued_ms)
