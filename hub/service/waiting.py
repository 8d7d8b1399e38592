"""Why a job waits, for one reader: the live answer, or that its needs are not done."""

from collections.abc import Sequence

from hub.placement.model import QueuedJob
from hub.placement.waiting import Waiting
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.service.reach import visible_runners
from hub.store.rows import JobRow


def reason(hub: Hub, principal: Principal, row: JobRow, undone: Sequence[str]) -> Waiting | None:
    """Why the job of `row` waits. `undone`: jobs it needs that are not done. None: it waits no more."""
    job = hub.dispatch.queue.get(row.id)
    if job is None:
        live = hub.dispatch.jobs.get(row.id)
        if live is None or not undone:
            return None
        job = live.queued()
    return hub.dispatch.reasons.of(job, hub.now_ms(), needs=undone, visible=visible_runners(hub, principal))


def reason_of_queued(hub: Hub, principal: Principal, job: QueuedJob) -> Waiting:
    """Why a job of the queue waits."""
    return hub.dispatch.reasons.of(job, hub.now_ms(), visible=visible_runners(hub, principal))
