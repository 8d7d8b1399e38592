"""Whose turn it is: priority first, then fairness between owners, then age.

Of jobs of one priority, those of the owner go first who has the fewest jobs on the runners; so a
thousand jobs of one owner do not keep out the one job of another. Within an owner the older goes
first. What an owner holds changes with every job that is given out, so the turn is asked at each
decision and never stored.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from hub.placement.model import Fleet, QueuedJob

Turn = tuple[int, int, int, int]  # (-priority, jobs its owner holds, queued_ms, id); smaller goes first


def holding(fleet: Fleet) -> Counter[str]:
    """How many jobs each owner has placed on the fleet's runners."""
    return Counter(
        placed.owner
        for runner in fleet.runners.values()
        for placed in runner.standing.placed
        if placed.owner is not None
    )


def turn(job: QueuedJob, held: Mapping[str, int]) -> Turn:
    """The sort key of `job` while its owner holds what `held` says; absent: nothing."""
    first, queued_ms, number = job.order
    return first, held.get(job.demand.owner, 0), queued_ms, number


def in_turn(jobs: Iterable[QueuedJob], held: MutableMapping[str, int]) -> Iterator[QueuedJob]:
    """`jobs` in their turn. The caller counts each that is given in `held` before it asks for the next."""
    by_owner: dict[str, list[QueuedJob]] = {}
    for job in sorted(jobs, key=lambda one: one.order, reverse=True):
        by_owner.setdefault(job.demand.owner, []).append(job)  # each owner's next is the last
    heap = [(turn(line[-1], held), owner) for owner, line in by_owner.items()]
    heapq.heapify(heap)
    while heap:
        _, owner = heap[0]
        line = by_owner[owner]
        yield line.pop()
        if line:
            heapq.heapreplace(heap, (turn(line[-1], held), owner))
        else:
            heapq.heappop(heap)


@dataclass(slots=True, kw_only=True)
class Rivals:
    """Queued jobs of one owner that could be given a runner which another job waits for too."""

    higher: int = 0  # of a higher priority than that job
    equal: int = 0  # of the same priority
    older: int = 0  # of these, those that were queued before it


def ahead(job: QueuedJob, rivals: Mapping[str, Rivals], held: Mapping[str, int]) -> int:
    """How many of the rivals, by owner, are given a runner before `job` if no job ends meanwhile.

    Each job that an owner is given puts its next one back. So before `job`, whose owner comes to hold
    `mine` by its own older jobs, another owner has its jobs given until it holds as many, and one more
    where that one is older.
    """
    owner = job.demand.owner
    own = rivals.get(owner, Rivals())
    mine = held.get(owner, 0) + own.higher + own.older
    total = own.higher + own.older
    for other, its in rivals.items():
        if other == owner:
            continue
        spare = max(0, mine - held.get(other, 0) - its.higher)
        first = min(its.equal, spare)
        holds_as_many = held.get(other, 0) + its.higher + spare == mine
        total += its.higher + first + int(its.older > first and holds_as_many)
    return total
