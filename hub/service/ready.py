"""From rows to live jobs: what the dispatcher is told when jobs appear, become ready or end."""

import json

from hub.dispatch.attempts import LiveAttempt, LiveJob, LiveRun
from hub.errors import NotFound
from hub.placement.model import Decline, Demand, Shortage
from hub.placement.need import DiskNeed, disk_need, usual_ms
from hub.placement.shortage import raised
from hub.service import history, shortages
from hub.service.hub import Hub
from hub.store import endings, startup
from hub.store import jobs as job_store
from hub.store import runs as run_store
from hub.store.endings import Ending
from hub.store.rows import AttemptRow, Change, JobRow
from hub.wire.base import plain_text
from hub.wire.runs import FINAL
from hub.wire.spec import JobSpec


async def new_job(
    hub: Hub, job_id: int, live: LiveRun, stored: run_store.NewJob, spec: JobSpec, run: run_store.NewRun
) -> LiveJob:
    """The live form of a job that was just stored, as `stored` says; `spec` is its spec as a value."""
    found = shortages.from_json(stored.shortages)
    recent = await history.learned(hub, run.project, spec.name)
    return LiveJob(
        id=job_id,
        run=live,
        name=spec.name,
        spec=stored.spec,
        demand=demand_of(run.project, spec, disk_need(recent.peaks_disk_mib, spec.disk_mib), found),
        priority=run.priority,
        queued_ms=run.created_ms,
        usual_ms=usual_ms(recent.durations_ms),
        group=spec.concurrency,
        shortages=found,
    )


async def live_job(hub: Hub, row: JobRow, run: LiveRun) -> LiveJob:
    """The live form of an unfinished job; its demand takes in what its recent runs took.

    Raises ValueError where the row does not say a valid job.
    """
    spec = JobSpec.model_validate_json(row.spec)
    found = shortages.from_json(row.shortages)
    learned = await history.learned(hub, row.project, row.name)
    disk = disk_need(learned.peaks_disk_mib, spec.disk_mib)
    return LiveJob(
        id=row.id,
        run=run,
        name=row.name,
        spec=row.spec,
        demand=demand_of(row.project, spec, disk, found),
        priority=row.priority,
        queued_ms=row.queued_ms or row.created_ms,
        attempt=row.attempt,
        losses=row.losses,
        usual_ms=usual_ms(learned.durations_ms),
        held_since_ms=row.held_since_ms,
        awaited=row.held_for,
        group=spec.concurrency,
        shortages=found,
    )


def demand_of(
    project: str, spec: JobSpec, disk: DiskNeed | None = None, found: tuple[Shortage, ...] = ()
) -> Demand:
    """What a job asks of a runner. `disk` None: nothing was learned, what the pipeline asks.

    `found`: what it has run out of before.
    """
    demand = Demand(
        project=project,
        tier=spec.tier,
        arch=spec.arch,
        images=frozenset(image.hash for image in spec.images),
        labels=frozenset(spec.labels),
        memory_mib=spec.memory_mib,
        cpus=spec.cpus,
        disk_mib=spec.disk_mib if disk is None else disk.disk_mib,
        disk_peak_mib=None if disk is None else disk.disk_peak_mib,
    )
    return raised(demand, found)


async def follow(
    hub: Hub,
    changes: tuple[Change, ...],
    *,
    runner: str | None = None,
    ending: Ending | None = None,
    lost_on: str | None = None,
) -> None:
    """Take what a write changed into the live fleet, and tell who listens.

    `runner` and `ending`: of the attempt whose end brought the changes about. `lost_on`: the runner
    that was removed under all of these jobs.
    """
    for change in changes:
        job = hub.dispatch.jobs.get(change.job)
        if change.status == "queued" and job is not None:
            if ending is not None and change.job == ending.job and runner is not None:
                _requeued(job, runner, ending)
            elif lost_on is not None:
                _lost(job, lost_on)
            else:
                job.queued_ms = hub.now_ms() if ending is None else ending.now_ms
            hub.dispatch.ready(job)
        elif change.status == "canceling":
            if (attempt := hub.dispatch.attempts.get(change.job)) is not None:
                attempt.canceling = True
        elif change.status in FINAL:
            if (attempt := hub.dispatch.attempts.get(change.job)) is not None:
                hub.dispatch.leases.over(attempt)
            hub.dispatch.final(change.job)
            if job is not None:
                _remember(hub, job, ending if ending is not None and ending.job == job.id else None)
        hub.events.tell(("job", change.job), ("log", change.job), ("run", change.run), ("queue",))


def _remember(hub: Hub, job: LiveJob, ending: Ending | None) -> None:
    """Learn from a job that is final, or ask the store anew where it is not known how it went."""
    ended_itself = ending is not None and ending.outcome in ("succeeded", "failed")
    if ending is None or not ended_itself or job.running_ms is None or job.shortages or ending.short:
        history.forget(hub, job.run.project, job.name)
    else:
        history.add(hub, job.run.project, job.name, ending, ending.now_ms - job.running_ms)


def _requeued(job: LiveJob, runner: str, ending: Ending) -> None:
    if ending.how == "declined":
        declined = Decline(runner=runner, at_ms=ending.now_ms, reason=ending.reason)
        job.declines = (*[one for one in job.declines if one.runner != runner], declined)
    elif ending.short is not None:  # no fault of the runner's
        job.losses += 1
        job.held_since_ms = job.awaited = None
        job.shortages = shortages.from_json(ending.shortages)
        job.demand = raised(job.demand, job.shortages)
    elif ending.how in ("lost", "finished"):  # "finished" and queued again: the machinery failed
        _lost(job, runner)


def _lost(job: LiveJob, runner: str) -> None:
    job.losses += 1
    job.lost_on = job.lost_on | {runner}
    job.held_since_ms = job.awaited = None


async def start_up(hub: Hub) -> None:
    """Rebuild the live fleet from the store, once, before the first call is answered.

    A lease lasts at least its whole length from now: while the hub was away nobody could renew it.
    A row that says nothing valid fails alone, and is told once.
    """
    now_ms = hub.now_ms()
    async with hub.store.read() as conn:
        loaded = await startup.load(conn, declines_since_ms=now_ms - hub.dispatch.settings.decline_ms)
    runs = {
        row.id: LiveRun(
            id=row.id, project=row.project, workspace=row.workspace, ref=row.ref, commit=row.commit
        )
        for row in loaded.runs
    }
    broken: list[tuple[JobRow, str]] = []
    queued: list[LiveJob] = []
    reasons: dict[int, str | None] = {}
    for row in loaded.jobs:
        try:
            job = await live_job(hub, row, runs[row.run_id])
        except (ValueError, KeyError) as error:
            broken.append((row, str(error)))
            continue
        hub.dispatch.jobs[job.id] = job
        if row.status == "queued":
            queued.append(job)
            reasons[job.id] = row.waiting
    for decline in loaded.declines:
        if (declined := hub.dispatch.jobs.get(decline.job_id)) is not None:
            one = Decline(runner=decline.runner, at_ms=decline.at_ms, reason=decline.reason)
            declined.declines = (*declined.declines, one)
    for job_id, names in loaded.lost_on.items():
        if (lost := hub.dispatch.jobs.get(job_id)) is not None:
            lost.lost_on = names
    for attempt in loaded.attempts:
        _take_over(hub, attempt, now_ms)
    for job in sorted(queued, key=lambda one: one.queued().order):
        hub.dispatch.ready(job)
        if job.held_since_ms is not None and (waiting := hub.dispatch.queue.get(job.id)) is not None:
            hub.dispatch.holds.time(waiting)
        hub.dispatch.rounds.recall(job.id, reasons[job.id])
    out = {attempt.job_id for attempt in loaded.attempts}
    for row, why in broken:
        await _fail(hub, row.id, row.attempt, why, is_out=row.id in out)


async def superseded(hub: Hub, job_ids: list[int]) -> None:
    """A newer run wants these out of its way: cancel them, as a person would."""
    for job_id in job_ids:
        changes = await job_store.cancel_job(
            hub.store.writer, job_id, now_ms=hub.now_ms(), start_ms=hub.config.start_ms
        )
        await follow(hub, changes)


async def invalid(hub: Hub, job_id: int, error: str) -> None:
    """A job of the queue turned out to say nothing valid: it ends, once, with the reason."""
    job = hub.dispatch.jobs.get(job_id)
    if job is not None:
        await _fail(hub, job_id, job.attempt, error)


async def _fail(hub: Hub, job_id: int, attempt: int, error: str, *, is_out: bool = False) -> None:
    """End a job that is not valid; `is_out`: an attempt at it is on a runner, and is over with it."""
    told = plain_text(f"the job is not valid: {error}", 500)
    now_ms = hub.now_ms()
    if is_out:
        ending = Ending(
            job=job_id, number=attempt, how="finished", now_ms=now_ms, outcome="error", error=told
        )
        changes = (await endings.end(hub.store.writer, ending)).changes
    else:
        changes = await job_store.fail_queued(
            hub.store.writer, job=job_id, attempt=attempt, error=told, now_ms=now_ms
        )
    await follow(hub, changes)


async def reload(hub: Hub, job_id: int) -> None:
    """Put an unfinished job where the store says that it stands; what is on the books stays."""
    async with hub.store.read() as conn:
        row = await run_store.job(conn, job_id)
        attempts = (await run_store.attempts_of(conn, [job_id])).get(job_id, [])
    job = hub.dispatch.jobs.get(job_id)
    if job is None or job_id in hub.dispatch.queue or job_id in hub.dispatch.attempts:
        return
    if row is None or row.status in FINAL:
        hub.dispatch.final(job_id)
        return
    job.attempt, job.losses, job.held_since_ms = row.attempt, row.losses, row.held_since_ms
    if row.status == "queued":
        hub.dispatch.ready(job)
    for attempt in attempts:
        if attempt.ended_ms is None:
            _take_over(hub, attempt, hub.now_ms())


def _take_over(hub: Hub, row: AttemptRow, now_ms: int) -> None:
    job = hub.dispatch.jobs.get(row.job_id)
    if job is None:
        return
    hub.dispatch.concurrency.enter(job, out=True)
    attempt = _attempt(job, row)
    attempt.expires_ms = max(row.expires_ms, now_ms + hub.config.lease_ms)
    attempt.assigned_ms = max(row.assigned_ms, now_ms) if row.confirmed_ms is None else row.assigned_ms
    hub.dispatch.leases.take_over(attempt)


def _attempt(job: LiveJob, row: AttemptRow) -> LiveAttempt:
    attempt = LiveAttempt(
        job=job,
        number=row.number,
        runner=row.runner,
        instance=row.instance,
        claim_id=row.claim_id,
        lease=row.lease,
        assigned_ms=row.assigned_ms,
        expires_ms=row.expires_ms,
        placed=row.placed,
        confirmed=row.confirmed_ms is not None,
        memory_mib=row.memory_mib,
        disk_mib=row.disk_mib,
    )
    attempt.committed.set()
    return attempt


async def ended_attempt(hub: Hub, row: AttemptRow) -> LiveAttempt:
    """An attempt that is over, for a call that may be repeated; it is on nobody's books."""
    async with hub.store.read() as conn:
        job = await run_store.job(conn, row.job_id)
    if job is None:
        raise NotFound("there is no such job here for this runner")
    run = LiveRun(id=job.run_id, project=job.project)
    demand = demand_of(job.project, JobSpec.model_validate_json(job.spec))
    live = LiveJob(id=job.id, run=run, name=job.name, spec=job.spec, demand=demand, priority=0, queued_ms=0)
    return _attempt(live, row)


def needs_of(row: JobRow) -> list[str]:
    """Names of the jobs that this one needs."""
    return [str(name) for name in json.loads(row.needs)]
