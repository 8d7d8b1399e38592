"""Why a job runs where it runs: the sentence, and the comparison that is kept beside it.

Both are made at the moment of the decision, of the runner as it was before the job was placed, and
stored as they are: nobody composes them again. The comparison is bounded: on a large fleet it names
the runners that mattered and counts the others.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hub.placement.fit import lacks
from hub.placement.headroom import Headroom, headroom
from hub.placement.images import images_phrase
from hub.placement.lack import as_told, distance
from hub.placement.margin import Told, held_for, margin, waited
from hub.placement.model import Fleet, Lack, Offer, QueuedJob, Runner
from hub.placement.rank import Preference, Rank, preference, rank
from hub.placement.shortage import asking_parts
from hub.placement.words import count

_NO_OFFER = Offer(tiers=())
COMPARED = 20  # runners kept with each placement: what fits a page, and about 4 KiB in the store


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """One runner as it was looked at. None: not reported."""

    runner: str
    rank: Rank
    holds_images: bool
    speed_class: int | None
    free_slots: int
    load1: float | None
    facts_age_s: float | None  # since the claim that told them; None: it never polled
    waiting: bool  # its claim was open
    chosen: bool
    lacks: tuple[Lack, ...]  # empty: it fits
    margin: Told | None = None  # by what the chosen one was ahead of it; None: it is that, or lacks something


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The runners that were looked at: the chosen one, those that fit best first, those that lack least."""

    runners: tuple[Considered, ...]
    more: int  # runners that were not looked at, or not kept
    margin: Told  # by what the chosen one was ahead
    waited: Told | None = None  # what it was held for; None: it was not held
    paid: bool | None = None  # the one it was held for took it; None: not held, or not known


def placed_sentence(job: QueuedJob, runner: Runner, fleet: Fleet, now_ms: int) -> str:
    """Why `job` goes to `runner`, which must have polled and must not yet have the job placed on it."""
    offer = runner.offer
    if offer is None:
        raise ValueError(f"runner {runner.name} never polled; nothing can be placed on it")
    others = offer.max_jobs - headroom(runner, fleet.settings).free_slots
    parts = [
        images_phrase(job.demand, offer),
        f"running {count(others, 'other job')}" if others else "idle",
        _speed(job, offer),
        _held(job, fleet, now_ms),
        _wish_not_met(job, runner, fleet, now_ms),
        *asking_parts(job.demand),
    ]
    return ", ".join(part for part in parts if part)


def compare(
    job: QueuedJob,
    chosen: str,
    fleet: Fleet,
    now_ms: int,
    *,
    among: Iterable[str] | None = None,
    rooms: Callable[[str], Headroom] | None = None,
    lasting: Callable[[str], tuple[Lack, ...]] | None = None,
    limit: int = COMPARED,
) -> Comparison:
    """The comparison behind giving `job` to `chosen`: at most `limit` runners, the others counted.

    `among`: the names to look at, best first, for a caller that has them in order; only the first
    `limit` of them are judged. None: every runner is judged, which a large fleet cannot afford.
    `rooms` gives a runner's headroom and `lasting` its `shape_lacks`, where the caller has them.
    None: they are worked out.
    """
    names = list(fleet.runners) if among is None else _first(among, chosen, limit)
    looked: list[_Looked] = []
    for name in dict.fromkeys((chosen, *names)):
        if (runner := fleet.runners.get(name)) is None:
            continue
        room = headroom(runner, fleet.settings) if rooms is None else rooms(name)
        known = None if lasting is None else lasting(name)
        found = lacks(job, runner, fleet, now_ms, room=room, lasting=known)
        key = preference(job.demand, runner, room, now_ms, fleet.settings, job.lost_on, job.wish)
        looked.append((name != chosen, distance(found), key, runner, room, found))
    looked.sort(key=lambda one: one[:3])  # the key ends with the name
    first = looked[0]
    kept = [_considered(job, one, first, now_ms) for one in looked[:limit]]
    second = next((one.margin for one in kept[1:2]), None)
    ahead = second or margin(job.demand, first[3], first[2], None, None)
    told, paid = waited(job, chosen, now_ms, fleet.settings) or (None, None)
    more = len(fleet.runners) - len(kept)
    return Comparison(runners=tuple(kept), more=more, margin=ahead, waited=told, paid=paid)


def _first(names: Iterable[str], chosen: str, limit: int) -> list[str]:
    """The first names, so many that with the chosen one they are `limit`."""
    found: list[str] = []
    for name in names:
        if len(found) >= limit - 1:
            break
        if name != chosen:
            found.append(name)
    return found


# Whether it is another than the chosen one, how far from a fit, its preference, and what it was judged by.
_Looked = tuple[bool, tuple[int, int, int], Preference, Runner, Headroom, tuple[Lack, ...]]


def _considered(job: QueuedJob, one: _Looked, first: _Looked, now_ms: int) -> Considered:
    """One that was looked at; `first` is the chosen one."""
    is_other, _, key, runner, room, found = one
    offer = runner.offer or _NO_OFFER
    ahead = margin(job.demand, first[3], first[2], runner, key) if is_other and not found else None
    return Considered(
        runner=runner.name,
        rank=(-key[0], -key[1], -key[2]),
        holds_images=job.demand.images <= offer.images,
        speed_class=offer.speed_class,
        free_slots=room.free_slots,
        load1=offer.load1,
        facts_age_s=None if (told_ms := runner.standing.polled_ms) is None else (now_ms - told_ms) / 1000,
        waiting=runner.standing.waiting,
        chosen=not is_other,
        lacks=as_told(found, everywhere=False),  # kept for any reader
        margin=ahead,
    )


def _speed(job: QueuedJob, offer: Offer) -> str:
    """The speed, which is the machine's own, and whether the job has that."""
    emulated = "emulated (tcg)" if job.demand.tier == "microvm" and offer.accel == "tcg" else ""
    if offer.speed is not None:
        words = f"speed {offer.speed}"
        words += "" if offer.speed_class is None else f" (class {offer.speed_class})"
    else:
        words = "" if offer.speed_class is None else f"speed class {offer.speed_class}"
    return ", ".join(word for word in (words, emulated) if word)


def _held(job: QueuedJob, fleet: Fleet, now_ms: int) -> str:
    if job.held_since_ms is None:
        return ""
    return f"after {held_for(job, now_ms, fleet.settings)} held for a better runner"


def _wish_not_met(job: QueuedJob, runner: Runner, fleet: Fleet, now_ms: int) -> str:
    if job.wish is None or job.wish.runner == runner.name:
        return ""
    wished = fleet.runners.get(job.wish.runner)
    if wished is None:
        why = "is no longer registered"
    elif found := lacks(job, wished, fleet, now_ms):
        why = as_told(found, everywhere=False)[0].text
    elif rank(job.demand, runner, job.lost_on) > rank(job.demand, wished, job.lost_on):
        why = "is not the better one"
    else:
        why = "was not asking for a job"
    return f"not on {job.wish.runner}, where the last job of this run ran: it {why}"
