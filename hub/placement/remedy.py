"""What would make a job fit on a runner: the fewest changes, found by applying them and judging again.

THE REMEDY RULE: the remedies of a runner, applied together, make the job fit on it, and with any one
left out it does not. Whether it fits is asked of `fit.lacks` and of nothing else; a lack's own change
(`lack`) is the building block. An alternative is told only where, in the place of the change beside
it, it makes the job fit too. A name that the reader may not see does not occur.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeVar

from hub.placement.fit import first_lack, image_fetch_mib, lacks
from hub.placement.headroom import headroom
from hub.placement.judgement import Verdict
from hub.placement.lack import ORDER, ROOM
from hub.placement.model import Demand, Fleet, HubImage, Lack, Offer, QueuedJob, Remedy, Runner, Standing
from hub.placement.words import MAX_NAMED, count, listing, named, short_hash, size

LOOKED_AT = 20  # runners that the fewest changes are sought on, nearest first: a page waits for it
NEAR_NAMES = 200  # different names that one is compared with; each comparison takes some 10 µs
NEARNESS = 0.75  # of difflib, 0 to 1: linux-x46 is near linux-x64, ssd is not near gpu

T = TypeVar("T", Demand, Offer, Standing)
Change = tuple[str, Mapping[str, Any]]  # ("runner.labels", {"add": ["gpu"]})

_DEMAND = {"tier", "arch", "labels", "memory_mib", "cpus"}
_STANDING = {"state", "waiting"}
# Applied before the others: an offer before what changes it, room on a disk before what takes it.
_FIRST = {"runner.offer": 0, "runner.free_disk_mib": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One job and one runner as they are, or as they would be."""

    job: QueuedJob
    runner: Runner
    fleet: Fleet
    now_ms: int

    def lacks(self) -> tuple[Lack, ...]:
        return lacks(self.job, self.runner, self.fleet, self.now_ms)

    def after(self, changes: Iterable[Change]) -> "_Case":
        job, runner, fleet = _apply(changes, self.job, self.runner, self.fleet)
        return replace(self, job=job, runner=runner, fleet=fleet)

    def fits_after(self, changes: Iterable[Change]) -> bool:
        job, runner, fleet = _apply(changes, self.job, self.runner, self.fleet)
        return first_lack(job, runner, fleet, self.now_ms) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mend:
    """A lack, and the changes to mend it: the first is proposed, the others where they do as well."""

    lack: Lack
    ways: tuple[Change, ...]


def remedies(
    job: QueuedJob,
    runner: Runner,
    fleet: Fleet,
    now_ms: int,
    *,
    visible: Collection[str] | None = None,
) -> tuple[Remedy, ...]:
    """The changes that together make `job` fit on `runner`, none of them to spare; empty: it fits.

    Each is one change, as words and as a value for `apply`. `visible`: names the reader may see;
    None: all. Where it may not see the runner, neither words nor values name it.
    """
    case = _Case(job=job, runner=runner, fleet=fleet, now_ms=now_ms)
    return _in_words(case, _mends(case), visible)


def fewest(
    job: QueuedJob, nearest: Sequence[Verdict], fleet: Fleet, now_ms: int, visible: Collection[str] | None
) -> tuple[Remedy, ...]:
    """The remedies of that runner among the LOOKED_AT nearest which needs the fewest; of equals, the nearest.

    `nearest`: the runners judged for `job`, nearest to a fit first. Empty: there is none, or it fits.
    """
    best: tuple[tuple[int, int], _Case, tuple[_Mend, ...]] | None = None
    looked_at = sorted(enumerate(nearest[:LOOKED_AT]), key=lambda one: len(one[1].lacks))
    for place, verdict in looked_at:
        if best is not None and (len(verdict.lacks), place) > best[0]:
            continue  # each lack takes a change of its own
        case = _Case(job=job, runner=verdict.runner, fleet=fleet, now_ms=now_ms)
        mends = _mends(case)
        if best is None or (len(mends), place) < best[0]:
            best = (len(mends), place), case, mends
    return () if best is None else _in_words(best[1], best[2], visible)


def apply(
    changes: Iterable[tuple[str, object]], job: QueuedJob, runner: Runner, fleet: Fleet
) -> tuple[QueuedJob, Runner, Fleet]:
    """The job, the runner and the fleet as they would be with `changes` (see `Remedy.change`) made.

    An image put on a runner takes its size of the runner's disk, and is not put there where there is
    no room for it; one that is sent to the hub has still to be fetched. The order does not matter.
    """
    job, changed, fleet = _apply(changes, job, runner, fleet)
    if runner.name in fleet.runners and changed is not runner:
        fleet = replace(fleet, runners={**fleet.runners, runner.name: changed})
    return job, changed, fleet


def _mends(case: _Case) -> tuple[_Mend, ...]:
    """What mends each lack of `case`, and each that comes up once those are mended.

    None is to spare: a change mends no other code than its own (a test tries to leave each out).
    """
    mends: tuple[_Mend, ...] = ()
    for _ in ORDER:  # each round mends at least one code for good
        then = case.after(_changes(mends))
        found = then.lacks()
        if not found:
            break
        mends += tuple(_Mend(lack=lack, ways=_ways(lack, then)) for lack in found)
    assert case.fits_after(_changes(mends)), "each lack has a change that mends it"
    return mends


def _changes(mends: Iterable[_Mend]) -> list[Change]:
    return [mend.ways[0] for mend in mends]


def _ways(lack: Lack, case: _Case) -> tuple[Change, ...]:
    """The changes that may mend `lack`, each by itself; the first does, the others are tried before told."""
    demand, runner, offer = case.job.demand, case.runner, case.runner.offer
    key, change = _own(lack)
    own = (key, change)
    if offer is None:
        # What a runner offers that never polled is not known: it must offer what the job asks for.
        first = {"tiers": [demand.tier], "labels": sorted(demand.labels), "images": sorted(demand.images)}
        return (("runner.offer", {"set": first}),) if lack.code == "silent" else (own,)
    room = headroom(runner, case.fleet.settings)
    match lack.code:
        case "memory":
            return _room_ways("memory_mib", demand.memory_mib or 0, room.free_memory_mib or 0)
        case "cpus":
            return _room_ways("cpus", demand.cpus or 0, room.free_cpus or 0)
        case "tier":
            return (own, *(("job.tier", {"set": tier}) for tier in offer.tiers))
        case "label" if key == "runner.labels":
            return (own, ("job.labels", {"remove": change["add"]}))
        case "label" if key == "job.labels":
            return (own, ("runner.exclusive", {"set": False}))
        case "image" if key == "hub.images":
            return (own, ("runner.images", change))
        case "image":
            return (own, ("runner.fetches_images", {"set": True}))
    return (own,)


def _own(lack: Lack) -> Change:
    """The change that the lack itself carries."""
    assert lack.remedy is not None, "each lack carries a change"
    [(key, change)] = lack.remedy.change
    assert isinstance(change, Mapping)
    return key, change


def _room_ways(field: str, need: int, free: int) -> tuple[Change, ...]:
    """To ask for what is free now, where anything is, or to give the runner what is missing."""
    more = (f"runner.{field}", {"add": need - free})
    return ((f"job.{field}", {"set": free}), more) if free > 0 else (more,)


# -- changes, applied ---------------------------------------------------------------------------


def _apply(
    changes: Iterable[tuple[str, Any]], job: QueuedJob, runner: Runner, fleet: Fleet
) -> tuple[QueuedJob, Runner, Fleet]:
    for key, change in sorted(changes, key=lambda one: _FIRST.get(one[0], len(_FIRST))):
        whose, _, field = key.partition(".")
        if key == "hub.images":
            held = {name for name, one in fleet.images.items() if one.serves(job.demand.project)}
            sent = {image: HubImage() for image in change["add"] if image not in held}
            fleet = replace(fleet, images=dict(fleet.images) | sent)
        elif key == "job.declines":
            left = tuple(decline for decline in job.declines if decline.runner not in change["remove"])
            job = replace(job, declines=left)
        elif key == "job.priority":
            job = replace(job, order=(-change["set"], *job.order[1:]))
        elif whose == "job" and field in _DEMAND:
            job = replace(job, demand=_with(job.demand, field, change))
        elif whose == "runner":
            runner = _changed_runner(runner, field, change, fleet, job.demand.project)
        else:
            raise ValueError(f"no such change: {key}")
    return job, runner, fleet


def _changed_runner(
    runner: Runner, field: str, change: Mapping[str, Any], fleet: Fleet, project: str
) -> Runner:
    offer, standing = runner.offer, runner.standing
    if field == "scope":
        scope = {"owner": None, "project": None} | change["set"]
        return replace(runner, standing=replace(standing, **scope))
    if field in _STANDING:
        return replace(runner, standing=_with(standing, field, change))
    if field == "offer":
        said = change["set"]
        first = Offer(
            tiers=tuple(said["tiers"]), labels=frozenset(said["labels"]), images=frozenset(said["images"])
        )
        return replace(runner, offer=first, standing=replace(standing, waiting=True))
    if offer is None:
        return runner  # it has no offer to change
    if field == "images":
        return _with_images(runner, offer, change, fleet, project)
    return replace(runner, offer=_with(offer, field, change))


def _with_images(
    runner: Runner, offer: Offer, change: Mapping[str, Any], fleet: Fleet, project: str
) -> Runner:
    """`runner` with images put on it, as far as its disk has room for them: else as it is.

    They take what fetching them would: less where jobs that are placed there fetch them already.
    """
    changed = replace(runner, offer=_with(offer, "images", change))
    before, after = (headroom(one, fleet.settings).free_disk_mib for one in (runner, changed))
    if before is None or after is None or offer.free_disk_mib is None:
        return changed
    added = Demand(project=project, tier="", images=frozenset(change["add"]))
    takes_mib = image_fetch_mib(added, runner, fleet)
    if takes_mib and takes_mib > before:
        return runner
    left = replace(
        _with(offer, "images", change), free_disk_mib=offer.free_disk_mib + before - takes_mib - after
    )
    return replace(runner, offer=left)


def _with(holder: T, field: str, change: Mapping[str, Any]) -> T:
    """`holder` with one field set, added to, or with some of it removed."""
    old: Any = getattr(holder, field)
    new: Any
    if "set" in change:
        new = change["set"]
    elif "remove" in change:
        new = old - frozenset(change["remove"])
    elif isinstance(old, int):
        new = old + change["add"]
    else:
        new = type(old)((*old, *change["add"]))
    return replace(holder, **{field: new})


# -- changes, in words --------------------------------------------------------------------------


def _in_words(case: _Case, mends: tuple[_Mend, ...], visible: Collection[str] | None) -> tuple[Remedy, ...]:
    seen = visible is None or case.runner.name in visible
    called = case.runner.name if seen else "a runner"
    told = []
    for mend in mends:
        key, change = mend.ways[0]
        others = _changes(one for one in mends if one is not mend)
        ways = [mend.ways[0], *(way for way in mend.ways[1:] if case.fits_after([*others, way]))]
        said = [_say(way, case, called) for way in ways[:MAX_NAMED]]
        said += _by_waiting(mend.lack, case, called)
        text = "; ".join([", or ".join(said), *_did_you_mean(mend.lack, case, visible)])
        if key == "job.declines" and not seen:
            change = {"remove": [called]}
        told.append(Remedy(text=text, change=((key, change),)))
    return tuple(told)


def _say(way: Change, case: _Case, called: str) -> str:
    """One change as a request: `add the label gpu to earth-9`."""
    key, change = way
    if key == "runner.state":
        first = (
            "mend what it was quarantined for, then " if case.runner.standing.state == "quarantined" else ""
        )
        return f"{first}resume {called} (`shunter runners resume`)"
    if key == "runner.offer":
        return _say_first_offer(change["set"], called)
    if key == "job.labels":
        if "add" in change:
            return f"make the job ask for {_labels(change['add'])}"
        return f"drop {_labels(change['remove'])} from the job"
    return _SAID[key](change.get("set", change.get("add")), case, called)


def _labels(labels: Sequence[str]) -> str:
    return f"the {named('label', labels)}"


def _images(images: Sequence[str]) -> str:
    return named("image", [short_hash(image) for image in images])


_SAID: Mapping[str, Callable[[Any, _Case, str], str]] = {
    "runner.waiting": lambda _, case, on: f"start {on}, or find out why it does not reach the hub",
    "runner.scope": lambda _, case, on: (
        f"widen the scope of {on} so that it serves {case.job.demand.project}"
    ),
    "runner.tiers": lambda tiers, case, on: f"offer the tier {listing(tiers)} on {on}",
    "runner.labels": lambda labels, case, on: f"add {_labels(labels)} to {on}",
    "runner.exclusive": lambda _, case, on: f"let {on} take jobs that ask for none of its labels",
    "runner.images": lambda images, case, on: f"put {_images(images)} on {on}",
    "runner.fetches_images": lambda _, case, on: f"let {on} fetch images from the hub",
    "runner.memory_mib": lambda mib, case, on: f"give {on} {mib} MiB more memory",
    "runner.cpus": lambda cpus, case, on: f"give {on} {count(cpus, 'more CPU')}",
    "runner.free_disk_mib": lambda mib, case, on: f"free {size(mib)} on the disk of {on}",
    "runner.max_jobs": lambda jobs, case, on: f"let {on} take {count(jobs, 'job')} at a time",
    "job.tier": lambda tier, case, on: f"ask for the tier {tier} in the job",
    "job.arch": lambda arch, case, on: f"make the job ask for {arch}",
    "job.memory_mib": lambda mib, case, on: f"make the job ask for {mib} MiB or less",
    "job.cpus": lambda cpus, case, on: f"make the job ask for {count(cpus, 'CPU')}",
    "job.priority": lambda priority, case, on: f"give the job a priority of {priority}",
    "job.declines": lambda _, case, on: f"mend what {on} declined it for",
    "hub.images": lambda images, case, on: f"send {_images(images)} to the hub with `shunter image push`",
}


def _say_first_offer(offer: Mapping[str, Any], called: str) -> str:
    """What a runner that never polled has to say of itself when it does."""
    musts = [f"the tier {listing(offer['tiers'])}"]
    if offer["labels"]:
        musts.append(_labels(offer["labels"]))
    if offer["images"]:
        musts.append(_images(offer["images"]))
    return f"start {called}, which never polled; it must offer {' and '.join(musts)}"


def _by_waiting(lack: Lack, case: _Case, called: str) -> list[str]:
    """What waiting mends, by itself or for a job that asks for no more than the runner has."""
    if lack.code == "declined":
        return ["wait until it is asked again"]
    if lack.code == "kept":
        return [f"wait until the job that {called} is kept for has begun"]
    if lack.code == "memory" and not lack.lasting:
        return [f"wait until memory is free on {called}"]
    if lack.code in ROOM - {"disk"} and not lack.lasting:
        return [f"wait until a job on {called} ends"]
    if lack.code in ("memory", "cpus"):
        room = headroom(case.runner, case.fleet.settings)
        free = room.free_memory_mib if lack.code == "memory" else room.free_cpus
        most = _own(lack)[1]["set"]
        if most > max(0, free or 0):
            return [f"{_say(_own(lack), case, called)} and wait until that is free"]
    return []


def _did_you_mean(lack: Lack, case: _Case, visible: Collection[str] | None) -> list[str]:
    """Names that runners of the reader's have, and that nearly are what the job asks for in vain."""
    demand = case.job.demand
    offers = [
        one.offer
        for one in case.fleet.runners.values()
        if one.offer is not None and (visible is None or one.name in visible)
    ]
    had: list[Collection[str]]
    match lack.code:
        case "label":
            wanted, had = demand.labels, [offer.labels for offer in offers]
        case "tier":
            wanted, had = frozenset({demand.tier}), [offer.tiers for offer in offers]
        case "image":
            wanted, had = demand.images, [offer.images for offer in offers]
        case _:
            return []
    key, change = _own(lack)
    missing = [] if key.startswith("job.") else sorted(wanted & frozenset(change.get("add", ())))
    known = sorted(frozenset[str]().union(*had) - wanted)[:NEAR_NAMES]
    by_fold = {name.casefold(): name for name in known}
    said = []
    for name in missing[:MAX_NAMED]:
        for near in get_close_matches(name.casefold(), by_fold, n=1, cutoff=NEARNESS):
            which = by_fold[near]
            number = sum(1 for names in had if which in names)
            instead = "" if len(missing) == 1 else f" for {name}"
            have = "has" if number == 1 else "have"
            said.append(f"did you mean {which}{instead}, which {count(number, 'runner')} {have}?")
    return said
