"""Who would do a job better, and who is there to take it.

Tuples compared from left to right, so that no weight can outgrow another. Only a higher rank makes a
runner better: equals do not wait for each other. The order among runners that could be given a job
in the same instant ends with the name, so that the same fleet always gives the same answer.
Whether a job fits is not asked here.
"""

from hub.placement.headroom import Headroom
from hub.placement.model import QueuedJob, Runner, Settings

Rank = tuple[int, int, int]  # (was not lost under the job, holds every image, speed class); more is better
Preference = tuple[int, int, float]  # (-free slots, load unknown, load); less is better
Order = tuple[int, int, int, int, Preference, str]  # rank negated, wish not met, preference, name


def rank(job: QueuedJob, runner: Runner) -> Rank:
    """The rank of `runner` for `job`; it does not change from minute to minute.

    A runner that was lost under the job ranks below all others. A speed class that was not reported
    counts as 0, so that nobody is awaited for the mere want of a figure.
    """
    offer = runner.offer
    if offer is None:
        return (0, 0, 0)
    return (
        int(runner.name not in job.lost_on),
        int(job.demand.images <= offer.images),
        offer.speed_class or 0,
    )


def preference(runner: Runner, room: Headroom) -> Preference:
    """The sort key among runners of one rank, smallest first: most free slots, then least load.

    An unknown load comes last. Whoever is there has claimed within `polling_ms`, and its load came
    with that claim; one that is not there is given nothing, so a stale load decides nothing.
    """
    load = runner.offer.load1 if runner.offer is not None else None
    return (-room.free_slots, int(load is None), load or 0.0)


def order(job: QueuedJob, runner: Runner, room: Headroom) -> Order:
    """The whole sort key among runners of the same instant; the smallest is given the job."""
    kept, held, speed = rank(job, runner)
    unwished = job.wish is not None and job.wish.runner != runner.name
    return (-kept, -held, -speed, int(unwished), preference(runner, room), runner.name)


def is_silent(runner: Runner, settings: Settings, now_ms: int) -> bool:
    """Whether it never polled, or nothing came from it for too long; not while its claim is open."""
    if runner.offer is None:
        return True
    if runner.standing.waiting:
        return False
    heard_ms = runner.standing.heard_ms
    return heard_ms is None or now_ms - heard_ms > settings.silent_ms


def is_there(runner: Runner, settings: Settings, now_ms: int) -> bool:
    """Whether `runner` may be awaited: active, polling now or of late, and true to its promises.

    That the job fits on it is the caller's to ask, of `fit`.
    """
    standing = runner.standing
    if standing.state != "active" or standing.broken_promises >= settings.patience:
        return False
    if standing.waiting:
        return True
    return standing.polled_ms is not None and now_ms - standing.polled_ms <= settings.polling_ms
