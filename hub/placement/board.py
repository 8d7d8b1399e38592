"""The plain board: every question of the decision answered from scratch.

It is what the rules mean. The hub's own board remembers verdicts and must give the same answers; a
test compares the two. Nothing is remembered here but each runner's headroom, and no rule stands here.
"""

from collections.abc import Iterable, Iterator, Sequence

from hub.placement.choose import hold_is_over
from hub.placement.fit import first_lack, with_jobs
from hub.placement.headroom import Headroom, headroom
from hub.placement.model import Fleet, QueuedJob, Runner, Settings
from hub.placement.rank import Preference, is_there, preference, rank
from hub.placement.turn import holding, turn


class PlainBoard:
    """A fleet and a queue at one instant."""

    def __init__(self, fleet: Fleet, jobs: Iterable[QueuedJob], now_ms: int) -> None:
        self.fleet = fleet
        self.jobs = sorted(jobs, key=lambda job: job.order)
        self.rooms: dict[str, Headroom] = {
            name: headroom(runner, fleet.settings) for name, runner in fleet.runners.items()
        }
        self.held = holding(fleet)
        self._now_ms = now_ms

    @property
    def now_ms(self) -> int:
        return self._now_ms

    @property
    def settings(self) -> Settings:
        return self.fleet.settings

    def groups(self, runner: str) -> Iterator[Sequence[QueuedJob]]:
        """Every queued job by itself: what `runner` can never take does not fit on it either."""
        if runner in self.fleet.runners:
            for job in self.jobs:
                yield (job,)

    def fits(self, job: QueuedJob, runner: str) -> bool:
        return self._fits(job, self.fleet.runners[runner], self.rooms[runner])

    def better(self, job: QueuedJob, runner: str) -> Sequence[str]:
        least = rank(job.demand, self.fleet.runners[runner], job.lost_on)
        return self._best_first(
            job,
            (
                one
                for one in self.fleet.runners.values()
                if rank(job.demand, one, job.lost_on) > least
                and is_there(one, self.now_ms, self.settings)
                and self.fits(job, one.name)
            ),
        )

    def waiting(self, job: QueuedJob) -> Sequence[str]:
        return self._best_first(
            job,
            (one for one in self.fleet.runners.values() if one.standing.waiting and self.fits(job, one.name)),
        )

    def awaited_by(self, runner: str) -> Sequence[QueuedJob]:
        awaiting = [
            job
            for job in self.jobs
            if job.held_for == runner and not hold_is_over(job, self.now_ms, self.settings)
        ]
        return sorted(awaiting, key=lambda job: turn(job, self.held))

    def fits_beside(self, job: QueuedJob, runner: str, promised: Sequence[QueuedJob]) -> bool:
        later = with_jobs(self.fleet.runners[runner], promised, self.fleet)
        return self._fits(job, later, headroom(later, self.settings))

    def _fits(self, job: QueuedJob, runner: Runner, room: Headroom) -> bool:
        return first_lack(job, runner, self.fleet, self.now_ms, room=room) is None

    def _best_first(self, job: QueuedJob, runners: Iterable[Runner]) -> list[str]:
        def key(runner: Runner) -> Preference:
            room = self.rooms[runner.name]
            return preference(job.demand, runner, room, self.now_ms, self.settings, job.lost_on, job.wish)

        return [runner.name for runner in sorted(runners, key=key)]
