"""The runners at one instant, set up so that many demands can be looked at: how each waits, no more.

Runners of one shape and speed class stand in one camp, those that are heard from in the order in
which they would be given a job. A look takes the camps that lack nothing for good, walks them best
first, and stops where no other runner could change the answer; what the others lack it counts only
where nothing else can be said. Whether a runner fits is asked of `fit`, with what it lacks for good
passed in; the kind is decided in `cause`. A property test holds a look to the full judgement.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hub.placement.cause import Fitting, Seen, Stuck, StuckOf
from hub.placement.fit import Shape, codes, first_lack, shape, shape_lacks
from hub.placement.headroom import Headroom, headroom
from hub.placement.model import Fleet, Lack, QueuedJob, Runner
from hub.placement.rank import Ease, Rank, ease, is_silent, is_there, preference, rank

Member = tuple[Ease, Runner, Headroom]  # the ease ends with the name: no two are equal
SHAPE_COST = 4  # looks that working out one shape's lasting lacks costs as much as


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Camp:
    """Runners of one shape and speed class, with the same images on their way. Never empty."""

    shape: Shape
    sample: Runner  # any of them: all rank alike, but for jobs with losses or a wish of their own
    heard: list[Member]  # active and heard from, best first
    silent: list[Member]
    out: list[Member]  # not active


Open = Sequence[tuple[Rank, Camp]]  # the camps that lack nothing for good for a demand, with their rank


def camp(of: Shape, members: Iterable[tuple[Runner, Headroom]], fleet: Fleet, now_ms: int) -> Camp:
    """The camp of `members`, of which there is one at least."""
    heard: list[Member] = []
    silent: list[Member] = []
    out: list[Member] = []
    for runner, room in members:
        sample = runner
        one = (ease(runner, room, now_ms, fleet.settings), runner, room)
        if runner.standing.state != "active":
            out.append(one)
        elif is_silent(runner, now_ms, fleet.settings):
            silent.append(one)
        else:
            heard.append(one)
    heard.sort()
    return Camp(shape=of, sample=sample, heard=heard, silent=silent, out=out)


class Lineup:
    """All camps of a fleet. `looks`: verdicts asked of `fit` so far: the measure of the work."""

    def __init__(self, fleet: Fleet, camps: Iterable[Camp], now_ms: int) -> None:
        self.fleet = fleet
        self.now_ms = now_ms
        self.camps = tuple(camps)
        self.looks = 0
        self.kept: dict[int, tuple[str, Camp]] = {
            one[1].standing.kept.job: (one[1].name, its)
            for its in self.camps
            for one in (*its.heard, *its.silent)
            if one[1].standing.kept is not None
        }

    def open_to(self, job: QueuedJob) -> list[tuple[Rank, Camp]]:
        """The camps that lack nothing for good, each judged now."""
        self.looks += SHAPE_COST * len(self.camps)
        return [
            (rank(job.demand, one.sample), one)
            for one in self.camps
            if not shape_lacks(job.demand, one.shape, self.fleet)
        ]

    def look(self, job: QueuedJob, open_: Open) -> Seen:
        """What is to be seen of the runners for `job`. `open_`: see `open_to`."""
        fitting: list[Fitting] = []
        nearest: tuple[int, Runner, Headroom] | None = None
        settings, now_ms = self.fleet.settings, self.now_ms
        for best, its_ease, runner, room in self._best_first(job, open_):
            if its_ease[0] >= 0 and (fitting or (nearest is not None and nearest[0] == 1)):
                continue  # no slot is free: it does not fit, nor is it nearer than one that lacks one thing
            lacking = len(self._codes(job, runner, room))
            if not lacking:
                there = is_there(runner, now_ms, settings)
                fitting.append(Fitting(runner=runner, best=best, there=there))
            elif nearest is None or lacking < nearest[0]:
                nearest = lacking, runner, room
        kept_on, kept_in = self.kept.get(job.id, (None, None))
        unheard = sum(len(its.silent) for _, its in open_)
        return Seen(
            now_ms=now_ms,
            settings=settings,
            fitting=fitting,
            could=unheard + sum(len(its.heard) for _, its in open_),
            unheard=unheard,
            nearest=None if fitting or nearest is None else self._with_lack(job, *nearest[1:]),
            kept=kept_on if any(its is kept_in for _, its in open_) else None,
            stuck=lambda: self._stuck(job, {id(its) for _, its in open_}),
        )

    def lasting(self, job: QueuedJob) -> Callable[[Camp], tuple[Lack, ...]]:
        """What a camp lacks for good for `job`, worked out once for each."""
        known: dict[int, tuple[Lack, ...]] = {}

        def of(one: Camp) -> tuple[Lack, ...]:
            if id(one) not in known:
                self.looks += SHAPE_COST
                known[id(one)] = shape_lacks(job.demand, one.shape, self.fleet)
            return known[id(one)]

        return of

    def _codes(
        self, job: QueuedJob, runner: Runner, room: Headroom, lasting: tuple[Lack, ...] = ()
    ) -> tuple[str, ...]:
        self.looks += 1
        return codes(job, runner, self.fleet, self.now_ms, room=room, lasting=lasting)

    def _with_lack(self, job: QueuedJob, runner: Runner, room: Headroom) -> tuple[str, Lack]:
        lack = first_lack(job, runner, self.fleet, self.now_ms, room=room, lasting=())
        assert lack is not None, "it was just counted"
        return runner.name, lack

    def _best_first(
        self, job: QueuedJob, open_: Open
    ) -> Iterator[tuple[tuple[int, int, int], Ease, Runner, Headroom]]:
        """Those that are heard from, best first."""
        if job.lost_on or job.wish is not None:
            yield from self._one_by_one(job, open_)
            return
        levels: dict[Rank, list[list[Member]]] = {}
        for its, one in open_:
            if one.heard:
                levels.setdefault(its, []).append(one.heard)
        for level in sorted(levels, reverse=True):
            best = (-level[0], -level[1], -level[2])
            lists = levels[level]
            for its_ease, runner, room in lists[0] if len(lists) == 1 else heapq.merge(*lists):
                yield best, its_ease, runner, room

    def _one_by_one(
        self, job: QueuedJob, open_: Open
    ) -> Iterator[tuple[tuple[int, int, int], Ease, Runner, Headroom]]:
        """The same for a job with losses or a wish of its own, whose rank differs within a camp."""
        found: list[tuple[Any, Runner, Headroom]] = [
            (self._preference(job, runner, room), runner, room)
            for _, one in open_
            for _, runner, room in one.heard
        ]
        self.looks += len(found)
        found.sort()
        for key, runner, room in found:
            yield key[:3], key[4], runner, room

    def _preference(self, job: QueuedJob, runner: Runner, room: Headroom) -> Any:
        return preference(job.demand, runner, room, self.now_ms, self.fleet.settings, job.lost_on, job.wish)

    def _stuck(self, job: QueuedJob, open_: set[int]) -> Stuck | None:
        """Where no runner could take it: what those lack for good that serve it, and which is nearest."""
        whole, camp_lacks = StuckOf(), self.lasting(job)
        fewest: tuple[int, int] | None = None
        near: list[tuple[Member, tuple[Lack, ...]]] = []
        for one in self.camps:
            lasting = () if id(one) in open_ else camp_lacks(one)
            if any(lack.code == "scope" for lack in lasting):
                continue
            if active := [*one.heard, *one.silent]:
                whole.add(active[0][1].name, lasting, len(active))
                key = len(lasting), len(lasting)
                if fewest is None or key <= fewest:
                    near = near if key == fewest else []
                    fewest = key
                    near += [(member, lasting) for member in active]
            for member in one.out:
                also = (self._with_state(job, member, lasting), *lasting)
                whole.add(member[1].name, also)
                key = len(lasting), len(also)
                if fewest is None or key <= fewest:
                    near = near if key == fewest else []
                    fewest = key
                    near.append((member, also))
        return whole.done(*self._nearest(job, near)) if near else None

    def _with_state(self, job: QueuedJob, member: Member, lasting: tuple[Lack, ...]) -> Lack:
        self.looks += SHAPE_COST
        _, runner, room = member
        lack = first_lack(job, runner, self.fleet, self.now_ms, room=room, lasting=lasting)
        assert lack is not None, "it is not active"
        return lack

    def _nearest(
        self, job: QueuedJob, near: Sequence[tuple[Member, tuple[Lack, ...]]]
    ) -> tuple[str, tuple[Lack, ...]]:
        """Of runners with as many lasting lacks: the one with the fewest others, then the best."""
        order = sorted(
            (
                (self._preference(job, runner, room), runner, room, lasting)
                for (_, runner, room), lasting in near
            ),
            key=lambda one: one[0],
        )
        self.looks += len(order)
        found: tuple[int, str, tuple[Lack, ...]] | None = None
        for _, runner, room, lasting in order:
            state = len([lack for lack in lasting if lack.code in ("quarantined", "draining")])
            number = len(self._codes(job, runner, room, lasting[state:]))
            if found is None or number < found[0]:
                found = number, runner.name, lasting
            if number == len(lasting):
                break
        assert found is not None, "there is one at least"
        return found[1:]


def lineup(fleet: Fleet, now_ms: int, rooms: Mapping[str, Headroom] | None = None) -> Lineup:
    """The lineup of a plain fleet. `rooms`: the runners' headroom by name, where the caller has it."""
    camps: dict[object, list[tuple[Runner, Headroom]]] = {}
    shapes: dict[object, Shape] = {}
    for name, runner in fleet.runners.items():
        of, offer = shape(runner), runner.offer
        key = (of, None, None) if offer is None else (of, offer.speed_class, offer.fetching)
        shapes[key] = of
        room = headroom(runner, fleet.settings) if rooms is None else rooms[name]
        camps.setdefault(key, []).append((runner, room))
    frozen = replace(fleet, runners=dict(fleet.runners))
    return Lineup(frozen, (camp(shapes[key], its, frozen, now_ms) for key, its in camps.items()), now_ms)
