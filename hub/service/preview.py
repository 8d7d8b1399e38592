"""Where would the jobs of a pipeline go now, and why not elsewhere? Nothing is stored or queued."""

import asyncio
from dataclasses import replace

from hub.dispatch.show import preview_view
from hub.placement.model import QueuedJob
from hub.placement.need import disk_need, usual_ms
from hub.placement.preview import preview as previewed
from hub.service import history, ready, runs
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.reach import visible_runners
from hub.wire.runs import Preview, Submit


async def preview(hub: Hub, principal: Principal, message: Submit) -> Preview:
    """All jobs together, as if they were ready now. Raises Unprocessable with every fault."""
    authorise(principal, "read", message.project)
    pipeline = await runs.read_pipeline(hub, message.project, message.pipeline)
    now_ms = hub.now_ms()
    jobs: list[QueuedJob] = []
    for number, spec in enumerate(pipeline.jobs, start=1):
        recent = await history.learned(hub, message.project, spec.name)
        disk = disk_need(recent.peaks_disk_mib, spec.disk_mib)
        jobs.append(
            QueuedJob(
                id=-number,  # it does not exist, and is not to be taken for one that does
                demand=ready.demand_of(message.project, spec, disk),
                order=(-message.priority, now_ms, 2**62 + number),
                usual_ms=usual_ms(recent.durations_ms),
            )
        )
    live = hub.dispatch.fleet
    found = await asyncio.to_thread(  # beside a long queue it takes seconds, in which claims are answered
        previewed,
        replace(live.value, runners={name: one.model for name, one in live.live.items()}),
        list(hub.dispatch.queue),
        jobs,
        now_ms,
        visible=visible_runners(hub, principal),
    )
    return Preview(
        jobs=[preview_view(spec.name, one) for spec, one in zip(pipeline.jobs, found, strict=True)]
    )
