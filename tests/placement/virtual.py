"""A hub in virtual time: it carries out plans as the hub does, on the plain board, and nothing else.

It holds the decision to its promises while it runs: a pass after the hold is over, a clock that
starts again, or more promises than a runner has room for fail the test at once.
"""

from dataclasses import replace
from itertools import pairwise

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, hold_is_over, hold_limit_ms, offer
from hub.placement.fit import as_placed, lacks, with_jobs
from hub.placement.model import Fleet, Plan, QueuedJob
from tests.fleets import NOW_MS


class VirtualHub:
    """Runners, a queue and the time. `placed` says who got which job, and when."""

    def __init__(self, fleet: Fleet) -> None:
        self.now_ms = NOW_MS
        self.fleet = fleet
        self.queue: dict[int, QueuedJob] = {}
        self.placed: dict[int, tuple[str, int]] = {}
        self.first_pass: dict[int, int] = {}

    @property
    def board(self) -> PlainBoard:
        return PlainBoard(self.fleet, self.queue.values(), self.now_ms)

    def ready(self, job: QueuedJob) -> None:
        """A job becomes ready: the best open claim is given it."""
        self.queue[job.id] = job
        self._carry_out(offer(self.board, job))

    def poll(self, name: str) -> None:
        """A claim comes in; it stays open unless it is answered with a job."""
        self._change(name, waiting=True, polled_ms=self.now_ms, heard_ms=self.now_ms)
        self._carry_out(choose(self.board, name))

    def hang_up(self, name: str) -> None:
        """An open claim ends without a job."""
        self._change(name, waiting=False)

    def finish(self, name: str) -> None:
        """The oldest job there ends and gives its room back."""
        placed = self.fleet.runners[name].standing.placed
        self._change(name, placed=placed[1:])

    def drain(self, name: str) -> None:
        """The runner takes nothing more."""
        self._change(name, state="draining", waiting=False)

    def wait(self, ms: int) -> None:
        """Let time pass; a job whose hold ends on the way is offered at once."""
        until = self.now_ms + ms
        ends = sorted(
            (job.held_since_ms + hold_limit_ms(job, self.fleet.settings), job.id)
            for job in self.queue.values()
            if job.held_since_ms is not None
        )
        for end_ms, job_id in ends:
            if self.now_ms <= end_ms <= until and job_id in self.queue:
                self.now_ms = end_ms
                self._carry_out(offer(self.board, self.queue[job_id]))
                if job_id in self.queue:
                    left = list(self.board.waiting(self.queue[job_id]))
                    assert not left, f"the hold of job {job_id} is over and {left} wait for a job"
        self.now_ms = until

    def _carry_out(self, plan: Plan) -> None:
        self._check_promises(plan)
        for hold in plan.holds:
            job = self.queue[hold.job]
            first = self.first_pass.setdefault(job.id, self.now_ms)
            limit_ms = min(15_000, 15_000 if job.usual_ms is None else job.usual_ms)
            assert self.now_ms - first < limit_ms, f"job {job.id} was passed over after its hold"
            assert job.held_since_ms in (None, first), "the clock of a hold was started again"
            self.queue[job.id] = replace(job, held_since_ms=first, held_for=hold.awaited)
        if plan.take is not None:
            assert plan.runner is not None
            job = self.queue.pop(plan.take.id)
            runner = self.fleet.runners[plan.runner]
            assert lacks(job, runner, self.fleet, self.now_ms) == ()
            placed = (*runner.standing.placed, as_placed(job, runner, self.fleet))
            self._change(plan.runner, waiting=False, placed=placed)
            self.placed[job.id] = (plan.runner, self.now_ms)

    def _check_promises(self, plan: Plan) -> None:
        orders = [self.queue[hold.job].order for hold in plan.holds]
        assert all(one < next_ for one, next_ in pairwise(orders)), "holds are in queue order"
        promised: dict[str, list[QueuedJob]] = {}
        held_now = {hold.job for hold in plan.holds}
        settings = self.fleet.settings
        for hold in plan.holds:
            job = self.queue[hold.job]
            ahead = promised.setdefault(hold.awaited, [])
            before = [
                other
                for other in self.queue.values()
                if other.held_for == hold.awaited
                and other.id not in held_now
                and other.order < job.order
                and not hold_is_over(other, self.now_ms, settings)
            ]
            later = with_jobs(self.fleet.runners[hold.awaited], [*before, *ahead], self.fleet)
            found = lacks(job, later, self.fleet, self.now_ms)
            assert found == (), f"{hold.awaited} is awaited by more than it has room for"
            ahead.append(job)

    def _change(self, name: str, **changes: object) -> None:
        runner = self.fleet.runners[name]
        standing = replace(runner.standing, **changes)  # type: ignore[arg-type]  # the callers' names are fields
        runners = {**self.fleet.runners, name: replace(runner, standing=standing)}
        self.fleet = replace(self.fleet, runners=runners)
