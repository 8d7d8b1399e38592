"""The board of a simulation, and the policies that it compares: ways to choose among what fits.

A policy replaces only the choice. Whether a job fits, who is better and what is left are asked of
`fit`, `rank` and `headroom`, and `choose` is the product's own. Invariant: `VirtualBoard` answers as
`PlainBoard` does at the same instant; a test holds it to that.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, hold_is_over, offer
from hub.placement.fit import Shape, first_lack, shape, shape_lacks, with_jobs
from hub.placement.headroom import Headroom, headroom
from hub.placement.images import HOLDS
from hub.placement.model import Demand, Fleet, HubImage, Plan, QueuedJob, Runner, Settings
from hub.placement.rank import is_there, preference, rank

HOLDS_MS = (0, 5_000, 15_000, 30_000)


class VirtualBoard:
    """`choose.Board` in virtual time: the plain board's answers, with lasting verdicts remembered."""

    def __init__(self, runners: Iterable[Runner], images: Mapping[str, HubImage], settings: Settings) -> None:
        self.now_ms = 0
        self.held: Mapping[str, int] = {}  # a trace has one owner, so that fairness decides nothing
        self.settings = settings
        self.runners = {one.name: one for one in sorted(runners, key=lambda one: one.name)}
        self.fleet = Fleet(runners=self.runners, images=images, settings=settings)
        self.queue: dict[int, QueuedJob] = {}
        self._rooms: dict[str, Headroom] = {}
        self._groups: dict[tuple[Demand, int | None], list[QueuedJob]] = {}
        self._numbers: dict[Demand | Shape, int] = {}
        self._lasting: dict[tuple[int, int], bool] = {}
        self._shapes: dict[str, int] = {}
        self._demands: dict[int, int] = {}
        for one in self.runners.values():
            self.set_runner(one)

    def plain(self) -> PlainBoard:
        """The same instant, to be judged from scratch."""
        return PlainBoard(self.fleet, self.queue.values(), self.now_ms)

    def set_runner(self, runner: Runner) -> None:
        """`runner` is like this from now on."""
        before = self.runners[runner.name]
        self.runners[runner.name] = runner
        self._rooms[runner.name] = headroom(runner, self.settings)
        if before.offer is not runner.offer or runner.name not in self._shapes:
            self._shapes[runner.name] = self._numbers.setdefault(shape(runner), len(self._numbers))

    def add(self, job: QueuedJob) -> None:
        """`job` waits from now on, or waits with other facts of its own."""
        if job.id in self.queue:
            self.remove(job.id)
        self.queue[job.id] = job
        insort(self._groups.setdefault(_group(job), []), job, key=_order)
        self._demands[job.id] = self._numbers.setdefault(job.demand, len(self._numbers))

    def remove(self, job_id: int) -> QueuedJob:
        """`job_id` waits no more."""
        job = self.queue.pop(job_id)
        group = self._groups[_group(job)]
        del group[bisect_left(group, job.order, key=_order)]
        if not group:
            del self._groups[_group(job)]
        return job

    def can_ever(self, job: QueuedJob, runner: str) -> bool:
        """Whether the runner's shape lacks nothing for `job`, which is or was in the queue."""
        key = (self._demands[job.id], self._shapes[runner])
        if key not in self._lasting:
            self._lasting[key] = not shape_lacks(job.demand, shape(self.runners[runner]), self.fleet)
        return self._lasting[key]

    def groups(self, runner: str) -> Iterator[Sequence[QueuedJob]]:
        return (group for group in self._groups.values() if self.can_ever(group[0], runner))

    def fits(self, job: QueuedJob, runner: str) -> bool:
        return self._fits(job, self.runners[runner], self._rooms[runner])

    def better(self, job: QueuedJob, runner: str) -> list[str]:
        least = rank(job.demand, self.runners[runner], job.lost_on)
        return self._best_first(
            job,
            (
                one
                for one in self.runners.values()
                if is_there(one, self.now_ms, self.settings) and rank(job.demand, one, job.lost_on) > least
            ),
        )

    def waiting(self, job: QueuedJob) -> list[str]:
        return self._best_first(job, (one for one in self.runners.values() if one.standing.waiting))

    def awaited_by(self, runner: str) -> Sequence[QueuedJob]:
        held = (job for job in self.queue.values() if job.held_for == runner)
        going_on = (job for job in held if not hold_is_over(job, self.now_ms, self.settings))
        return sorted(going_on, key=_order)

    def fits_beside(self, job: QueuedJob, runner: str, promised: Sequence[QueuedJob]) -> bool:
        later = with_jobs(self.runners[runner], promised, self.fleet)
        return self._fits(job, later, headroom(later, self.settings))

    def _fits(self, job: QueuedJob, runner: Runner, room: Headroom) -> bool:
        if not self.can_ever(job, runner.name):
            return False
        lack = first_lack(job, runner, self.fleet, self.now_ms, room=room, lasting=())
        return lack is None

    def _best_first(self, job: QueuedJob, runners: Iterable[Runner]) -> list[str]:
        keys = [
            preference(
                job.demand, one, self._rooms[one.name], self.now_ms, self.settings, job.lost_on, job.wish
            )
            for one in runners
            if self.fits(job, one.name)
        ]
        return [key[-1][-1] for key in sorted(keys)]


def _order(job: QueuedJob) -> tuple[int, int, int]:
    return job.order


def _group(job: QueuedJob) -> tuple[Demand, int | None]:
    """Jobs with a wish stand alone, as `choose.Board` asks."""
    return job.demand, None if job.wish is None else job.id


# -- policies -----------------------------------------------------------------------------------


class Policy(Protocol):
    """A way to choose among what fits."""

    @property
    def name(self) -> str: ...
    @property
    def hold_ms(self) -> int: ...

    def ready(self, board: VirtualBoard, job: QueuedJob) -> Plan:
        """Which open claim is given `job` now."""

    def claim(self, board: VirtualBoard, runner: str) -> Plan:
        """What a claiming runner takes."""


@dataclass(frozen=True, slots=True)
class Held:
    """This product's rules, with a hold of `hold_ms`."""

    hold_ms: int

    @property
    def name(self) -> str:
        return f"hold {self.hold_ms / 1000:g} s"

    def ready(self, board: VirtualBoard, job: QueuedJob) -> Plan:
        return offer(board, job)

    def claim(self, board: VirtualBoard, runner: str) -> Plan:
        return choose(board, runner)


class FirstPoller:
    """Whoever asks takes the first job that fits; a job goes to the claim that is open the longest."""

    name = "first poller"
    hold_ms = 0  # so that `choose` takes the first that fits

    def ready(self, board: VirtualBoard, job: QueuedJob) -> Plan:
        waiting = board.waiting(job)
        return Plan(take=job, runner=self.pick(board, job, waiting)) if waiting else Plan()

    def claim(self, board: VirtualBoard, runner: str) -> Plan:
        return choose(board, runner)

    def pick(self, board: VirtualBoard, job: QueuedJob, waiting: Sequence[str]) -> str:
        """One of the runners that wait."""
        return min(waiting, key=lambda name: (board.runners[name].standing.polled_ms or 0, name))


class RandomRunner(FirstPoller):
    """Whoever asks takes the first job that fits; a job goes to any open claim."""

    name = "random runner"

    def __init__(self, seed: int) -> None:
        self._dice = Random(f"policy/{seed}")  # noqa: S311 - a made choice, not a secret

    def pick(self, board: VirtualBoard, job: QueuedJob, waiting: Sequence[str]) -> str:
        return self._dice.choice(waiting)


class Locality(FirstPoller):
    """Images first: a claim takes the first job whose images it holds, else the first that fits."""

    name = "image locality"

    def claim(self, board: VirtualBoard, runner: str) -> Plan:
        one = board.runners[runner]
        fitting = [group[0] for group in board.groups(runner) if board.fits(group[0], runner)]
        if not fitting:
            return Plan()
        return Plan(take=min(fitting, key=lambda job: (-rank(job.demand, one)[1], job.order)), runner=runner)

    def pick(self, board: VirtualBoard, job: QueuedJob, waiting: Sequence[str]) -> str:
        holding = [name for name in waiting if rank(job.demand, board.runners[name])[1] == HOLDS]
        return super().pick(board, job, holding or waiting)


def policies(seed: int, holds_ms: Sequence[int] = HOLDS_MS) -> list[Policy]:
    """The policies to compare, the simplest first."""
    return [FirstPoller(), RandomRunner(seed), Locality(), *(Held(hold_ms) for hold_ms in holds_ms)]
