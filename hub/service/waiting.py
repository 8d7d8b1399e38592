"""Why a job waits, for one reader: the live answer, what was stored, or that its needs are not done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from hub.dispatch.attempts import LiveJob
from hub.dispatch.reasons import Known
from hub.dispatch.stored import from_text
from hub.placement import headline
from hub.placement.cause import Cause, GroupFull, Kind
from hub.placement.model import QueuedJob
from hub.placement.waiting import Waiting
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.service.reach import visible_runners
from hub.store.rows import JobRow

VIEW_LOOKS = 3000  # verdicts for one view of many jobs, some 6 ms: beyond it what is remembered is told


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A reason, since when it has held and when it was worked out."""

    waiting: Waiting
    since_ms: int
    as_of_ms: int


def looks_for_view(hub: Hub) -> int:
    """What `Reasons.looks` may come to in a view of many jobs that begins now."""
    return hub.dispatch.reasons.looks + VIEW_LOOKS


def reason(
    hub: Hub, principal: Principal, row: JobRow, undone: Sequence[str], looks: int | None = None
) -> Told | None:
    """Why the job of `row` waits. `undone`: what it needs. None: it waits no more.

    `looks`: of a view of many jobs, which tells no runners (`looks_for_view`); None: of this job alone.
    From a start of the hub until the job is looked at for the first time, who sees all is told what was
    stored; the stored words are not for others, who are answered anew.
    """
    reasons, job = hub.dispatch.reasons, hub.dispatch.queue.get(row.id)
    live = hub.dispatch.jobs.get(row.id)
    if live is None or (job is None and not undone and row.id not in hub.dispatch.concurrency.waiting):
        return None
    now_ms, visible = hub.now_ms(), visible_runners(hub, principal)
    if job is not None and visible is None and (stored := _stored(hub, job, row)) is not None:
        return stored
    if job is not None and looks is not None and not undone:
        found = cause_of_queued(hub, job, looks)
        words = headline.of(found, now_ms, visible)
        return Told(
            waiting=Waiting(kind=found.kind, headline=words, more=len(hub.dispatch.fleet)),
            since_ms=reasons.since_ms(job, found, now_ms),
            as_of_ms=reasons.looked_ms(job, now_ms),
        )
    job = job or live.queued()
    full = reasons.of(
        job,
        now_ms,
        needs=undone,
        group=_group(hub, live) if row.id in hub.dispatch.concurrency.waiting else None,
        visible=visible,
    )
    return Told(waiting=full, since_ms=reasons.since_ms(job, full, now_ms), as_of_ms=now_ms)


def _stored(hub: Hub, job: QueuedJob, row: JobRow) -> Told | None:
    """What was stored before the hub was started; None: nothing, or the job was looked at since then."""
    known: Known | None = hub.dispatch.queue.group_of(job.id).known
    stored = from_text(row.waiting) if known is not None and known.cause is None else None
    if stored is None:
        return None
    return Told(
        waiting=Waiting(kind=cast(Kind, stored.kind), headline=stored.headline),
        since_ms=max(job.queued_ms, stored.since_ms),
        as_of_ms=stored.looked_ms,
    )


def cause_of_queued(hub: Hub, job: QueuedJob, looks: int) -> Cause:
    """Why a job that is ready waits: for its group, or for a runner, as remembered (`Reasons.brief`)."""
    live = hub.dispatch.concurrency.waiting.get(job.id)
    if live is not None:
        return Cause(kind="group", group=_group(hub, live))
    now_ms, reasons = hub.now_ms(), hub.dispatch.reasons
    return reasons.placed_in_line(job, reasons.brief(job, now_ms, looks=looks), now_ms, looks=looks)


def _group(hub: Hub, live: LiveJob) -> GroupFull | None:
    """The full group that keeps a job back. Its runs are of the same project, so the reader may see them."""
    if live.group is None:
        return None
    runs = hub.dispatch.concurrency.held_by(live)
    return GroupFull(name=live.group.group, limit=live.group.limit, runs=runs)
