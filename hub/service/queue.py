"""What waits and why, and what the fleet has left."""

import logging

from hub.placement.model import QueuedJob
from hub.service import ready
from hub.service.access import Principal, authorise, reaches
from hub.service.hub import Hub
from hub.service.reach import sees
from hub.service.views import job_view, runner_view
from hub.service.waiting import reason_of_queued
from hub.store import jobs as job_store
from hub.store import runs as store
from hub.wire.fleet import FleetView, QueueView, Shape

log = logging.getLogger(__name__)

MAX_SHOWN = 200  # jobs in one answer; the rest is counted
MAX_SHAPES = 200


async def view(hub: Hub, principal: Principal) -> QueueView:
    """The queued jobs within the reader's reach, in queue order, each with its reason."""
    authorise(principal, "read")
    mine = [job for job in _ready(hub) if reaches(principal.scope, job.demand.project)]
    mine.sort(key=lambda job: job.order)
    async with hub.store.read() as conn:
        rows = await store.jobs_by_id(conn, [job.id for job in mine[:MAX_SHOWN]])
    found = {row.id: row for row in rows}
    shown = [found[job.id] for job in mine[:MAX_SHOWN] if job.id in found]
    return QueueView(
        jobs=[job_view(hub, principal, row) for row in shown], more=max(0, len(mine) - MAX_SHOWN)
    )


def _ready(hub: Hub) -> list[QueuedJob]:
    """All jobs that could run: those in the queue, and those that wait for their groups."""
    return [*hub.dispatch.queue, *(job.queued() for job in hub.dispatch.concurrency.waiting.values())]


async def fleet(hub: Hub, principal: Principal) -> FleetView:
    """Each runner's headroom, and by shape what waits: the signal to start machines by."""
    authorise(principal, "read")
    live = sorted(hub.dispatch.fleet.live.values(), key=lambda one: one.name)
    runners = [runner_view(hub, principal, one) for one in live if sees(principal, one)]
    now_ms = hub.now_ms()
    shapes: list[Shape] = []
    for group in list(hub.dispatch.queue.groups.values()):
        demand = group.demand
        if not reaches(principal.scope, demand.project):
            continue
        waiting = reason_of_queued(hub, principal, group.jobs[0])
        shapes.append(
            Shape(
                jobs=len(group.jobs),
                project=demand.project,
                tier=demand.tier,
                arch=demand.arch,
                labels=sorted(demand.labels),
                images=sorted(demand.images),
                memory_mib=demand.memory_mib,
                cpus=demand.cpus,
                disk_mib=demand.disk_mib,
                kind=waiting.kind,
                headline=waiting.headline,
                oldest_s=max(0, now_ms - min(job.order[1] for job in group.jobs)) / 1000,
            )
        )
    shapes.sort(key=lambda shape: -shape.jobs)
    return FleetView(runners=runners, lacking=shapes[:MAX_SHAPES])


async def expire(hub: Hub) -> None:
    """End in error what no runner took within the queue's limit, with the last reason attached."""
    limit_ms = int(hub.config.queue_s * 1000)
    now_ms = hub.now_ms()
    everyone = Principal(name="hub", kind="admin")
    for job in [one for one in _ready(hub) if now_ms - one.order[1] >= limit_ms]:
        live = hub.dispatch.jobs.get(job.id)
        if live is None:
            continue
        hours = hub.config.queue_s / 3600
        error = f"no runner took it in {hours:g} h: {reason_of_queued(hub, everyone, job).headline}"
        changes = await job_store.fail_queued(
            hub.store.writer, job=job.id, attempt=live.attempt, error=error, now_ms=now_ms
        )
        log.warning("job %d: %s", job.id, error)
        await ready.follow(hub, changes)
