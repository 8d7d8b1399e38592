"""What waits and why, and what the fleet has left.

Views of the whole queue read what is remembered of each demand's reason (`dispatch.reasons`), so that
none of them judges the queue; the demands that changed since are looked at again within a bound.
"""

import heapq
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from hub.placement import headline
from hub.placement.cause import Cause
from hub.placement.model import QueuedJob
from hub.placement.turn import Turn, turn
from hub.placement.wants import Machine, machine, wants
from hub.service import ready
from hub.service.access import Principal, authorise, reaches
from hub.service.hub import Hub
from hub.service.reach import sees, visible_runners
from hub.service.views import job_view, runner_view
from hub.service.waiting import cause_of_queued, looks_for_view
from hub.store import jobs as job_store
from hub.store import runs as store
from hub.wire.fleet import FleetView, QueueGroup, QueueView, Shape

log = logging.getLogger(__name__)

MAX_SHOWN = 200  # jobs in one answer; the rest is counted
MAX_SHAPES = 200
MAX_GROUPS = 200
FIRST = 5  # jobs named with a reason: where a person begins to look


@dataclass(slots=True)
class _Waits:
    """Jobs counted together: how many, since when the oldest waits, and whose turn comes first."""

    jobs: int = 0
    oldest_ms: int = 2**63
    first: list[tuple[Turn, int]] = field(default_factory=list)
    headline: str = ""
    most: int = 0  # jobs of the demand that the headline is of

    def add(self, jobs: Sequence[QueuedJob], oldest_ms: int, hub: Hub) -> None:
        held = hub.dispatch.fleet.held
        self.jobs += len(jobs)
        self.oldest_ms = min(self.oldest_ms, oldest_ms)
        first = [(turn(job, held), job.id) for job in jobs[:FIRST]]
        self.first = heapq.nsmallest(FIRST, (*self.first, *first))


async def view(hub: Hub, principal: Principal) -> QueueView:
    """The queued jobs within the reader's reach, in their turn, each with its reason, and all by reason."""
    authorise(principal, "read")
    lines = _lines(hub, principal)
    number = sum(len(line) for line in lines)
    by_turn = partial(turn, held=hub.dispatch.fleet.held)
    # Of a line, whose jobs are in their turn already, no more can be shown than of the whole.
    mine = list(_some(heapq.merge(*(line[:MAX_SHOWN] for line in lines), key=by_turn)))
    async with hub.store.read() as conn:
        rows = await store.jobs_by_id(conn, [job.id for job in mine])
    found = {row.id: row for row in rows}
    looks = looks_for_view(hub)
    shown = [job_view(hub, principal, found[job.id], looks=looks) for job in mine if job.id in found]
    return QueueView(jobs=shown, more=max(0, number - MAX_SHOWN), groups=_groups(hub, principal, looks))


def _some(jobs: Iterator[QueuedJob]) -> Iterator[QueuedJob]:
    for _, job in zip(range(MAX_SHOWN), jobs, strict=False):
        yield job


def _lines(hub: Hub, principal: Principal) -> list[Sequence[QueuedJob]]:
    """All jobs that could run, within reach: those of one owner and priority in a row, in their order.

    Those in the queue by demand, then each that waits for its group by itself.
    """
    queued = [
        group.jobs
        for group in hub.dispatch.queue.groups.values()
        if reaches(principal.scope, group.demand.project)
    ]
    waiting = [
        [live.queued()]
        for live in hub.dispatch.concurrency.waiting.values()
        if reaches(principal.scope, live.run.project)
    ]
    return [*queued, *waiting]


def _groups(hub: Hub, principal: Principal, looks: int) -> list[QueueGroup]:
    """The queue by reason. Those that are in line for a runner are one: places differ from job to job."""
    now_ms, visible = hub.now_ms(), visible_runners(hub, principal)
    found: dict[tuple[str, str], _Waits] = {}

    def add(cause: Cause, jobs: Sequence[QueuedJob], oldest_ms: int) -> None:
        key = (cause.kind, headline.of(cause, now_ms, visible))
        found.setdefault(key, _Waits()).add(jobs, oldest_ms, hub)

    for line in _lines(hub, principal):
        own = [job for job in line if job.held_for is not None]  # a runner's room bounds their number
        others = [job for job in line if job.held_for is None] if own else line
        for job in own:
            add(_cause(hub, job, looks), [job], job.queued_ms)
        if others:
            add(_cause(hub, others[0], looks), others, min(job.queued_ms for job in others))
    groups = [
        QueueGroup(
            kind=kind,
            headline=text,
            jobs=its.jobs,
            oldest_s=max(0, now_ms - its.oldest_ms) / 1000,
            first=[job_id for _, job_id in its.first],
        )
        for (kind, text), its in found.items()
    ]
    return sorted(groups, key=lambda group: (-group.jobs, -group.oldest_s))[:MAX_GROUPS]


def _cause(hub: Hub, job: QueuedJob, looks: int) -> Cause:
    """As `cause_of_queued`, without a place in line."""
    if job.id in hub.dispatch.concurrency.waiting:
        return cause_of_queued(hub, job, looks)
    return hub.dispatch.reasons.brief(job, hub.now_ms(), looks=looks)


async def fleet(hub: Hub, principal: Principal) -> FleetView:
    """Each runner's headroom, and by machine wanted what waits: the signal to start machines by.

    Jobs are counted together that would do with one machine and wait for one kind of reason; the headline
    is that of the demand with the most jobs.
    """
    authorise(principal, "read")
    live = sorted(hub.dispatch.fleet.live.values(), key=lambda one: one.name)
    runners = [runner_view(hub, principal, one) for one in live if sees(principal, one)]
    now_ms, visible, looks = hub.now_ms(), visible_runners(hub, principal), looks_for_view(hub)
    found: dict[tuple[Machine, str], _Waits] = {}
    for group in list(hub.dispatch.queue.groups.values()):
        if not reaches(principal.scope, group.demand.project):
            continue
        one = next((job for job in group.jobs if job.held_for is None), group.jobs[0])
        cause = hub.dispatch.reasons.brief(one, now_ms, looks=looks)
        its = found.setdefault((machine(group.demand), cause.kind), _Waits())
        its.add(group.jobs, group.jobs[0].queued_ms, hub)
        if len(group.jobs) > its.most:
            its.most, its.headline = len(group.jobs), headline.of(cause, now_ms, visible)
    most = heapq.nsmallest(MAX_SHAPES, found.items(), key=lambda one: -one[1].jobs)
    shapes = [_shape(hub, of, kind, its, now_ms) for (of, kind), its in most]
    return FleetView(runners=runners, lacking=shapes)


def _shape(hub: Hub, of: Machine, kind: str, its: _Waits, now_ms: int) -> Shape:
    names = {one: name for name, one in hub.images.names_for(of.project).items()} if of.images else {}
    return Shape(
        jobs=its.jobs,
        project=of.project,
        tier=of.tier,
        arch=of.arch,
        labels=sorted(of.labels),
        images=sorted(of.images),
        memory_mib=of.memory_mib,
        cpus=of.cpus,
        disk_mib=of.disk_mib,
        wants=wants(its.jobs, of, names.get),
        kind=kind,
        headline=its.headline,
        oldest_s=max(0, now_ms - its.oldest_ms) / 1000,
    )


async def expire(hub: Hub) -> None:
    """End in error what no runner took within the queue's limit, with the last reason attached."""
    limit_ms = int(hub.config.queue_s * 1000)
    now_ms = hub.now_ms()
    everyone, looks = Principal(name="hub", kind="admin"), looks_for_view(hub)
    old = [job for line in _lines(hub, everyone) for job in line if now_ms - job.queued_ms >= limit_ms]
    for job in old:
        live = hub.dispatch.jobs.get(job.id)
        if live is None or not (job.id in hub.dispatch.queue or job.id in hub.dispatch.concurrency.waiting):
            continue  # it went while another was ended
        hours = hub.config.queue_s / 3600
        last = headline.of(cause_of_queued(hub, job, looks), now_ms)
        error = f"no runner took it in {hours:g} h: {last}"
        changes = await job_store.fail_queued(
            hub.store.writer, job=job.id, attempt=live.attempt, error=error, now_ms=now_ms
        )
        log.warning("job %d: %s", job.id, error)
        await ready.follow(hub, changes)
