"""The decision: what a claiming runner takes, or who is given a job that became ready.

One algorithm over a `Board`. The plain board judges everything anew and is what the rules mean;
the hub's own board remembers verdicts. A test holds both to the same answers.

Invariants: a job is held at most `hold_limit_ms` in all, counted from its first pass; a runner is
awaited by at most as many jobs as it has room for, in their turn; a job that is held or does not
fit never stops the scan.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from hub.placement.model import Hold, Plan, QueuedJob, Settings
from hub.placement.turn import turn


class Board(Protocol):
    """The fleet and the queue at one instant, as the decision looks at them."""

    @property
    def now_ms(self) -> int: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def held(self) -> Mapping[str, int]:
        """How many jobs each owner has on the runners (`turn.holding`)."""

    def groups(self, runner: str) -> Iterable[Sequence[QueuedJob]]:
        """Queued jobs that `runner` could ever take, grouped so that a group has one verdict.

        A group is of one owner and in queue order; jobs with declines, losses or a wish stand alone.
        """

    def fits(self, job: QueuedJob, runner: str) -> bool:
        """Whether `runner` lacks nothing for `job` now."""

    def better(self, job: QueuedJob, runner: str) -> Iterable[str]:
        """Runners that rank above `runner` for `job` and are there to take it, best first."""

    def waiting(self, job: QueuedJob) -> Iterable[str]:
        """Runners with an open claim that lack nothing for `job`, best first."""

    def awaited_by(self, runner: str) -> Sequence[QueuedJob]:
        """Jobs that are held for `runner` now, in their turn."""

    def fits_beside(self, job: QueuedJob, runner: str, promised: Sequence[QueuedJob]) -> bool:
        """Whether `job` still fits on `runner` once `promised` are placed there too."""


def hold_limit_ms(job: QueuedJob, settings: Settings) -> int:
    """How long `job` may be held in all: the setting, or its usual duration where that is shorter."""
    return settings.hold_ms if job.usual_ms is None else min(settings.hold_ms, job.usual_ms)


def hold_is_over(job: QueuedJob, now_ms: int, settings: Settings) -> bool:
    """Whether `job` may be held no longer. A job that was never passed over has its whole hold left."""
    held_ms = 0 if job.held_since_ms is None else now_ms - job.held_since_ms
    return held_ms >= hold_limit_ms(job, settings)


def choose(board: Board, runner: str) -> Plan:
    """What `runner` takes now, and what it passes over for a better runner."""
    holds: list[Hold] = []
    promised: dict[str, list[QueuedJob]] = {}
    for job in _in_order(board, runner):
        awaited = _awaited(board, job, runner, promised)
        if awaited is None:
            return Plan(take=job, runner=runner, holds=tuple(holds))
        holds.append(Hold(job=job.id, awaited=awaited))
        promised.setdefault(awaited, []).append(job)
    return Plan(holds=tuple(holds))


def offer(board: Board, job: QueuedJob) -> Plan:
    """Which open claim is given `job` now: the best, unless a better runner is to be awaited."""
    best = next(iter(board.waiting(job)), None)
    if best is None:
        return Plan()
    awaited = _awaited(board, job, best, {})
    if awaited is None:
        return Plan(take=job, runner=best)
    return Plan(holds=(Hold(job=job.id, awaited=awaited),))


def _awaited(board: Board, job: QueuedJob, runner: str, promised: dict[str, list[QueuedJob]]) -> str | None:
    """The better runner that `job` should wait for instead of going to `runner`; None: do not wait.

    `promised`: the jobs that this decision already holds, by the runner they await from now on.
    """
    if hold_is_over(job, board.now_ms, board.settings):
        return None
    decided = {held.id for jobs in promised.values() for held in jobs}
    mine = turn(job, board.held)
    for name in board.better(job, runner):
        ahead = [
            other
            for other in board.awaited_by(name)
            if turn(other, board.held) < mine and other.id not in decided
        ]
        ahead.extend(promised.get(name, ()))
        if board.fits_beside(job, name, ahead):
            return name
    return None


def _in_order(board: Board, runner: str) -> Iterator[QueuedJob]:
    """Jobs that fit on `runner` now, in their turn. A group that does not fit is left as a whole."""
    held = board.held
    groups = enumerate(board.groups(runner))
    heap = [(turn(group[0], held), number, 0, group) for number, group in groups if group]
    heapq.heapify(heap)
    while heap:
        _, number, index, group = heap[0]
        job = group[index]
        if not board.fits(job, runner):
            heapq.heappop(heap)
            continue
        yield job
        if index + 1 < len(group):
            heapq.heapreplace(heap, (turn(group[index + 1], held), number, index + 1, group))
        else:
            heapq.heappop(heap)
