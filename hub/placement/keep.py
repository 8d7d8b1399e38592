"""Bounded bypass: a large job that smaller ones keep out gets a runner kept for it in the end.

A runner's room comes back in small pieces, and smaller jobs, each of which fits sooner, may take every
one of them. After `Settings.bypass_ms` of that, the runner is kept: `fit` tells every other job of no
higher priority that it is, until the large job has begun. Whether the job fits is asked of `fit` alone.
"""

from dataclasses import replace

from hub.placement.fit import lacks
from hub.placement.judgement import Judgement
from hub.placement.lack import ROOM, SIZE
from hub.placement.model import Fleet, Kept, Placed, QueuedJob, Runner


def runner_to_keep(job: QueuedJob, judgement: Judgement, fleet: Fleet) -> str | None:
    """The runner that is to be kept for `job` from now on; None: none, or not yet.

    `judgement`: of `job` on `fleet`. Among runners that all it wants is room on, and that have room
    enough when they are empty, the best by the order of `rank`; not one that is kept for a job which
    stands before it in the queue.
    """
    waited_ms = judgement.now_ms - job.queued_ms
    if waited_ms < fleet.settings.bypass_ms or judgement.fitting:
        return None
    could = (
        verdict
        for verdict in sorted(judgement.verdicts, key=lambda verdict: verdict.preference)
        if not _is_kept_from(job, verdict.runner)
        and {lack.code for lack in verdict.lacks if not lack.lasting} & SIZE
        and any(_came_later(placed, job) for placed in verdict.runner.standing.placed)
        and could_take(job, verdict.runner, fleet, judgement.now_ms)
    )
    return next((verdict.runner.name for verdict in could), None)


def could_take(job: QueuedJob, runner: Runner, fleet: Fleet, now_ms: int) -> bool:
    """Whether all that `runner` lacks for `job` is room, which it has when nothing runs there."""
    free = replace(runner, standing=replace(runner.standing, kept=None))
    return all(lack.code in ROOM for lack in lacks(job, free, fleet, now_ms)) and not lacks(
        job, emptied(free), fleet, now_ms
    )


def kept_for(job: QueuedJob) -> Kept:
    """What a runner that is kept for `job` is kept for."""
    return Kept(job=job.id, demand=job.demand, priority=job.priority, queued_ms=job.queued_ms)


def emptied(runner: Runner) -> Runner:
    """`runner` as it will be when all that runs there has ended: idle use, and its disk given back."""
    offer, standing = runner.offer, runner.standing
    if offer is None:
        return runner
    back_mib = sum(placed.disk_taken_mib or 0 for placed in standing.placed)
    idle = replace(
        offer,
        live=(),
        memory_used_mib=standing.idle_memory_mib if standing.placed or offer.live else offer.memory_used_mib,
        free_disk_mib=None if offer.free_disk_mib is None else offer.free_disk_mib + back_mib,
    )
    return replace(runner, offer=idle, standing=replace(standing, placed=()))


def _is_kept_from(job: QueuedJob, runner: Runner) -> bool:
    kept = runner.standing.kept
    return kept is not None and (-kept.priority, kept.queued_ms, kept.job) < job.order


def _came_later(placed: Placed, job: QueuedJob) -> bool:
    """Whether what is placed there stood behind `job` in the queue, by priority or by age."""
    return placed.order is not None and placed.order > job.order
