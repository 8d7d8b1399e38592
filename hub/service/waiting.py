"""Why a job waits, for one reader: the live answer, or that its needs are not done."""

from collections.abc import Sequence

from hub.dispatch.attempts import LiveJob
from hub.placement.model import QueuedJob
from hub.placement.waiting import GroupFull, Waiting
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.service.reach import visible_runners
from hub.store.rows import JobRow


def reason(hub: Hub, principal: Principal, row: JobRow, undone: Sequence[str]) -> tuple[Waiting, int] | None:
    """Why the job of `row` waits, and since when. `undone`: what it needs. None: it waits no more."""
    live = hub.dispatch.jobs.get(row.id)
    job = hub.dispatch.queue.get(row.id)
    if live is None or (job is None and not undone and row.id not in hub.dispatch.concurrency.waiting):
        return None
    now_ms, job = hub.now_ms(), job or live.queued()
    found = hub.dispatch.reasons.of(
        job,
        now_ms,
        needs=undone,
        group=_group(hub, live) if row.id in hub.dispatch.concurrency.waiting else None,
        visible=visible_runners(hub, principal),
    )
    return found, hub.dispatch.reasons.since_ms(job, found, now_ms)


def _group(hub: Hub, live: LiveJob) -> GroupFull | None:
    """The full group that keeps a job back. Its runs are of the same project, so the reader may see them."""
    if live.group is None:
        return None
    runs = hub.dispatch.concurrency.held_by(live)
    return GroupFull(name=live.group.group, limit=live.group.limit, runs=runs)


def reason_of_queued(hub: Hub, principal: Principal, job: QueuedJob) -> Waiting:
    """Why a job that is ready waits: for a runner, or for its group."""
    live = hub.dispatch.concurrency.waiting.get(job.id)
    return hub.dispatch.reasons.of(
        job,
        hub.now_ms(),
        group=None if live is None else _group(hub, live),
        visible=visible_runners(hub, principal),
    )
