"""Who would take each job of a batch now, and why not another: the real rules, nothing queued.

It is assumed that every runner that is there claims in this instant, and that the jobs are given out
in their turn, those already queued among them; so ten jobs never go to one slot. What is
given takes its room before the next is looked at. Room only shrinks on the way, so a runner that
lacked something for a demand is not looked at again, and one whose room changed is judged anew:
this gives the answers of `choose.offer` on the plain board, without judging every runner every time.
"""

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from hub.placement.fit import Shape, first_lack, shape, shape_lacks, with_jobs
from hub.placement.headroom import Headroom, headroom
from hub.placement.judgement import Judgement, judge
from hub.placement.model import Fleet, QueuedJob, Runner
from hub.placement.placed import placed_sentence
from hub.placement.rank import Preference, is_there, preference
from hub.placement.turn import holding, in_turn
from hub.placement.waiting import RunnerLacks, Waiting, list_runners, place_in_line, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """Where one job would go. Either `runner` and `placed` are set, or `waiting` is."""

    job: QueuedJob
    runner: str | None = None
    placed: str = ""  # the sentence it would have
    waiting: Waiting | None = None  # what it would be told once all before it are given out
    runners: tuple[RunnerLacks, ...] = ()  # the other runners as they are now, nearest to a fit first
    more: int = 0  # runners counted, not named


def preview(
    fleet: Fleet,
    queue: Iterable[QueuedJob],
    jobs: Iterable[QueuedJob],
    now_ms: int,
    *,
    visible: Collection[str] | None = None,
) -> tuple[Previewed, ...]:
    """Preview `jobs` together, in their own order, beside what waits in `queue`.

    Their ids must differ from those in `queue`, and their `order` says where they would stand in it.
    `visible`: names the reader may see; None: all. A job that would go to another is told `a runner`.
    """
    batch = list(jobs)
    wanted = {job.id for job in batch}
    given = _GivenOut(fleet, now_ms)
    held = holding(fleet)
    left: list[QueuedJob] = []
    for job in in_turn((*queue, *batch), held):
        if given.give(job, tell=job.id in wanted):
            held[job.demand.owner] += 1
        else:
            left.append(job)
    later = given.fleet()
    now, then = _Judgements(fleet, now_ms), _Judgements(later, now_ms)
    answers = []
    for job in batch:
        if job.id in given.told:
            name, sentence = given.told[job.id]
            runners, more = list_runners(now.of(job), visible, without=name)
            if visible is not None and name not in visible:
                name = "a runner"
            answers.append(Previewed(job=job, runner=name, placed=sentence, runners=runners, more=more))
            continue
        judgement = then.of(job)
        place = place_in_line(job, judgement, later, left, then.rooms) if judgement.fitting else 1
        waiting = reason(job, judgement, place, visible=visible, fleet=later)
        runners, more = list_runners(now.of(job), visible)
        answers.append(Previewed(job=job, waiting=waiting, runners=runners, more=more))
    return tuple(answers)


def _key(job: QueuedJob) -> object:
    """Equal for jobs that are judged and ranked alike everywhere."""
    return job.id if job.declines or job.lost_on or job.wish else (job.demand, job.priority)


class _Judgements:
    """Judgements on one fleet, each demand judged once."""

    def __init__(self, fleet: Fleet, now_ms: int) -> None:
        self._fleet, self._now_ms = fleet, now_ms
        self.rooms = {name: headroom(runner, fleet.settings) for name, runner in fleet.runners.items()}
        self._known: dict[object, Judgement] = {}

    def of(self, job: QueuedJob) -> Judgement:
        key = _key(job)
        if key not in self._known:
            self._known[key] = judge(job, self._fleet, self._now_ms, self.rooms)
        return self._known[key]


class _GivenOut:
    """The fleet while jobs are given out one by one, as if all who are there claimed."""

    def __init__(self, fleet: Fleet, now_ms: int) -> None:
        self._base, self._now_ms = fleet, now_ms
        self._runners: dict[str, Runner] = dict(fleet.runners)
        self._claiming = [
            name
            for name, runner in fleet.runners.items()
            if runner.standing.waiting or is_there(runner, now_ms, fleet.settings)
        ]
        self._rooms: dict[str, Headroom] = {}
        self._changes = dict.fromkeys(self._claiming, 0)  # how often the runner's room has changed
        self._by_shape: dict[Shape, list[str]] = {}  # room does not change a shape
        for name in self._claiming:
            self._by_shape.setdefault(shape(fleet.runners[name]), []).append(name)
        self._contests: dict[object, list[tuple[Preference, str, int]]] = {}
        self.told: dict[int, tuple[str, str]] = {}  # job -> (runner, placed sentence)
        for name in self._claiming:
            runner = fleet.runners[name]
            self._set(replace(runner, standing=replace(runner.standing, waiting=True)))

    def give(self, job: QueuedJob, *, tell: bool) -> bool:
        """Give `job` to the best runner that it fits on; False: it fits on none that claims."""
        contest = self._contests.get(_key(job))
        if contest is None:
            contest = self._contests[_key(job)] = []
            for of, names in self._by_shape.items():
                if not shape_lacks(job.demand, of, self._base):
                    for name in names:
                        self._enter(contest, job, name)
        while contest:
            _, name, change = contest[0]
            if change != self._changes[name]:
                heapq.heappop(contest)
                self._enter(contest, job, name)
                continue
            runner = self._runners[name]
            if tell:
                self.told[job.id] = (name, placed_sentence(job, runner, self._base, self._now_ms))
            self._set(with_jobs(runner, (job,), self._base))
            self._changes[name] += 1
            return True
        return False

    def fleet(self) -> Fleet:
        """The fleet with all that was given out; open claims as they really are."""
        real = self._base.runners
        runners = {
            name: replace(runner, standing=replace(runner.standing, waiting=real[name].standing.waiting))
            for name, runner in self._runners.items()
        }
        return replace(self._base, runners=runners)

    def _set(self, runner: Runner) -> None:
        self._runners[runner.name] = runner
        self._rooms[runner.name] = headroom(runner, self._base.settings)

    def _enter(self, contest: list[tuple[Preference, str, int]], job: QueuedJob, name: str) -> None:
        """Let the runner, whose shape lacks nothing, compete with the room it has now, if `job` fits."""
        runner, room, settings = self._runners[name], self._rooms[name], self._base.settings
        if first_lack(job, runner, self._base, self._now_ms, room=room, lasting=()) is None:
            key = preference(job.demand, runner, room, self._now_ms, settings, job.lost_on, job.wish)
            heapq.heappush(contest, (key, name, self._changes[name]))
