"""The live fleet and queue as the decision looks at them, with what was judged before remembered.

The lasting half of a verdict is judged once per demand and entry (runners of one shape and speed
class), by `placement.fit` like everything else; the passing half is judged anew at each look.
`tests/dispatch` holds this board to the plain one on random fleets.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from hub.dispatch.fleet import Entry, Fleet
from hub.dispatch.queue import Group, Queue
from hub.placement.choose import hold_is_over
from hub.placement.fit import first_lack, shape, shape_lacks, with_jobs
from hub.placement.headroom import Headroom, headroom
from hub.placement.model import Lack, QueuedJob, Runner, Settings
from hub.placement.rank import Ease, Rank, is_there, preference, rank
from hub.placement.turn import turn


class LiveBoard:
    """`choose.Board` over what is live. `now_ms` is set before each decision."""

    def __init__(self, fleet: Fleet, queue: Queue) -> None:
        self.fleet = fleet
        self.queue = queue
        self.now_ms = 0
        fleet.entry_made, fleet.entry_gone = self.entry_made, self.entry_gone
        self.looks = 0  # verdicts of the passing half so far: the measure of a decision's work

    @property
    def settings(self) -> Settings:
        return self.fleet.settings

    @property
    def held(self) -> Mapping[str, int]:
        return self.fleet.held

    # -- what is remembered ---------------------------------------------------------------------

    def group_made(self, group: Group) -> None:
        """Judge a new demand on every entry."""
        for entry in self.fleet.entries.values():
            self._judge(group, entry)

    def entry_made(self, entry: Entry) -> None:
        """Judge every demand on a new entry."""
        for group in self.queue.groups.values():
            self._judge(group, entry)

    def entry_gone(self, entry: Entry) -> None:
        """Forget an entry whose last runner left it."""
        for group in entry.groups:
            group.verdicts.pop(entry, None)

    def group_gone(self, group: Group) -> None:
        """Forget a demand that nobody asks any more."""
        for entry in group.verdicts:
            entry.groups.discard(group)

    def images_changed(self, images: AbstractSet[str]) -> list[Group]:
        """Judge anew every demand that asks for one of `images`, of which the hub's holding changed."""
        changed = [
            group for group in self.queue.groups.values() if not images.isdisjoint(group.demand.images)
        ]
        for group in changed:
            self.group_gone(group)
            group.verdicts.clear()
            self.group_made(group)
        return changed

    def _judge(self, group: Group, entry: Entry) -> None:
        member = self.fleet[next(iter(entry.members))]
        if not shape_lacks(group.demand, entry.key[0], self.fleet.value):
            group.verdicts[entry] = rank(group.demand, member)
            entry.groups.add(group)

    # -- choose.Board ---------------------------------------------------------------------------

    def groups(self, runner: str) -> Iterable[Sequence[QueuedJob]]:
        entry = self.fleet.live[runner].entry
        return [] if entry is None else [group.jobs for group in entry.groups]

    def fits(self, job: QueuedJob, runner: str) -> bool:
        live = self.fleet.live[runner]
        return self._fits(job, live.model, live.headroom(self.settings))

    def _fits(self, job: QueuedJob, runner: Runner, room: Headroom) -> bool:
        """Only runners of entries with a verdict are asked about: their shape lacks nothing."""
        self.looks += 1
        fleet = self.fleet.value
        return first_lack(job, runner, fleet, self.now_ms, room=room, lasting=()) is None

    def better(self, job: QueuedJob, runner: str) -> Iterable[str]:
        mine = rank(job.demand, self.fleet[runner], job.lost_on)
        for name in self._best_first(job, waiting=False, above=mine):
            if self.is_there(name) and self.fits(job, name):
                yield name

    def waiting(self, job: QueuedJob) -> Iterable[str]:
        return (name for name in self._best_first(job, waiting=True) if self.fits(job, name))

    def awaited_by(self, runner: str) -> Sequence[QueuedJob]:
        held = self.fleet.live[runner].awaited_by.values()
        going_on = (job for job in held if not hold_is_over(job, self.now_ms, self.settings))
        return sorted(going_on, key=lambda job: turn(job, self.held))

    def fits_beside(self, job: QueuedJob, runner: str, promised: Sequence[QueuedJob]) -> bool:
        later = with_jobs(self.fleet[runner], promised, self.fleet.value)
        return self._fits(job, later, headroom(later, self.settings))

    def nearest(self, job: QueuedJob) -> Iterator[str]:
        """Runners to compare for `job`: those that are about best first, then all others."""
        yield from self._best_first(job, waiting=False)
        yield from self.fleet.live

    def lasting(self, job: QueuedJob) -> Callable[[str], tuple[Lack, ...]]:
        """What a runner lacks for `job` for good, by name; nothing where its entry has a verdict."""
        verdicts = self.queue.group_of(job.id).verdicts

        def of(runner: str) -> tuple[Lack, ...]:
            entry = self.fleet.live[runner].entry
            if entry in verdicts:
                return ()
            key = shape(self.fleet[runner]) if entry is None else entry.key[0]
            return shape_lacks(job.demand, key, self.fleet.value)

        return of

    def is_there(self, runner: str) -> bool:
        """Whether a runner may be awaited now."""
        return is_there(self.fleet[runner], self.now_ms, self.settings)

    # -- order ----------------------------------------------------------------------------------

    def _best_first(self, job: QueuedJob, *, waiting: bool, above: Rank | None = None) -> Iterator[str]:
        """Runners that can ever take `job`, best first; those above a rank only, where one is given."""
        group = self.queue.group_of(job.id)
        if job.lost_on or job.wish is not None:
            yield from self._one_by_one(job, group, waiting=waiting, above=above)
            return
        levels: dict[Rank, list[list[Ease]]] = {}
        for entry, its in group.verdicts.items():
            runners = entry.waiting if waiting else entry.about
            if runners and (above is None or its > above):
                levels.setdefault(its, []).append(runners)
        for level in sorted(levels, reverse=True):
            lists = levels[level]
            for ease in lists[0] if len(lists) == 1 else heapq.merge(*lists):
                yield ease[-1]

    def _one_by_one(
        self, job: QueuedJob, group: Group, *, waiting: bool, above: Rank | None
    ) -> Iterator[str]:
        """The same for a job with losses or a wish of its own, whose rank differs within an entry."""
        found = []
        for entry in group.verdicts:
            for ease in entry.waiting if waiting else entry.about:
                live = self.fleet.live[ease[-1]]
                if above is None or rank(job.demand, live.model, job.lost_on) > above:
                    room = live.headroom(self.settings)
                    found.append(
                        preference(
                            job.demand, live.model, room, self.now_ms, self.settings, job.lost_on, job.wish
                        )
                    )
        return (found_one[-1][-1] for found_one in sorted(found))
