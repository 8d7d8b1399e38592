"""Who would do a job better, and who is there to take it.

Tuples compared from left to right, so that no weight can outgrow another. Only a higher rank makes a
runner better: equals do not wait for each other. The preference among runners that could be given a
job in the same instant ends with the name, so that the same fleet always gives the same answer.
Whether a job fits is not asked here.
"""

from hub.placement.headroom import Headroom
from hub.placement.images import images_rank
from hub.placement.model import Demand, Runner, Settings, Wish

Rank = tuple[int, int, int]  # (was not lost under the job, images, speed class); more is better
Ease = tuple[int, int, float, str]  # (-free slots, load unknown, load, name); less is better
Preference = tuple[int, int, int, int, Ease]  # the rank negated, wish not met, ease; less is better

_NOBODY: frozenset[str] = frozenset()


def rank(demand: Demand, runner: Runner, lost_on: frozenset[str] = _NOBODY) -> Rank:
    """The rank of `runner` for `demand`; it does not change from minute to minute.

    A runner that was lost under the job ranks below all others. A speed class that was not reported
    counts as 0, so that nobody is awaited for the mere want of a figure.
    """
    offer = runner.offer
    if offer is None:
        return (0, 0, 0)
    return (int(runner.name not in lost_on), images_rank(demand, offer), offer.speed_class or 0)


def ease(runner: Runner, room: Headroom, now_ms: int, settings: Settings) -> Ease:
    """The sort key among runners of one rank: most free slots, then least load, then name.

    A load that is unknown, or stale because the runner no longer polls, comes last.
    """
    load = runner.offer.load1 if runner.offer is not None else None
    if load is not None and not polls(runner, now_ms, settings):
        load = None
    return (-room.free_slots, int(load is None), load or 0.0, runner.name)


def preference(
    demand: Demand,
    runner: Runner,
    room: Headroom,
    now_ms: int,
    settings: Settings,
    lost_on: frozenset[str] = _NOBODY,
    wish: Wish | None = None,
) -> Preference:
    """The whole sort key among runners of the same instant; the smallest is given the job."""
    kept, held, speed = rank(demand, runner, lost_on)
    unwished = wish is not None and wish.runner != runner.name
    return (-kept, -held, -speed, int(unwished), ease(runner, room, now_ms, settings))


def is_silent(runner: Runner, now_ms: int, settings: Settings) -> bool:
    """Whether it never polled, or nothing came from it for too long; not while its claim is open."""
    if runner.offer is None:
        return True
    if runner.standing.waiting:
        return False
    heard_ms = runner.standing.heard_ms
    return heard_ms is None or now_ms - heard_ms > settings.silent_ms


def polls(runner: Runner, now_ms: int, settings: Settings) -> bool:
    """Whether its claim is open, or came within `polling_ms`, so that another is to be expected."""
    standing = runner.standing
    if standing.waiting:
        return True
    return standing.polled_ms is not None and now_ms - standing.polled_ms <= settings.polling_ms


def is_there(runner: Runner, now_ms: int, settings: Settings) -> bool:
    """Whether `runner` may be awaited: active, polling now or of late, and true to its promises.

    That the job fits on it is the caller's to ask, of `fit`.
    """
    standing = runner.standing
    return (
        standing.state == "active"
        and standing.broken_promises < settings.patience
        and polls(runner, now_ms, settings)
    )
