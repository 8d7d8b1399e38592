"""Holds: jobs that are kept waiting for a better runner, from their first pass to the end of their time.

Which job is held for whom is decided in `placement.choose`; here it is carried out. Invariants: a job's
clock starts once, at its first pass; what is held for a runner that cannot or need not take it any more
is offered elsewhere at once; a hold that ends without its runner's claim is a promise broken by it.
"""

from collections.abc import Callable
from dataclasses import replace

from hub.dispatch.attempts import LiveJob
from hub.dispatch.board import LiveBoard
from hub.dispatch.fleet import LastAwaited, LiveRunner
from hub.dispatch.timers import Timers
from hub.placement.choose import hold_is_over, hold_limit_ms
from hub.placement.model import Hold, QueuedJob


class Holds:
    """The holds of all queued jobs.

    `offer` offers a queued job to the open claims; `changed` lists a runner anew; `save` stores a hold
    and tells of it.
    """

    def __init__(
        self,
        *,
        board: LiveBoard,
        timers: Timers,
        jobs: dict[int, LiveJob],
        now_ms: Callable[[], int],
        offer: Callable[[int], bool],
        changed: Callable[[LiveRunner], None],
        save: Callable[[QueuedJob], None],
    ) -> None:
        self._board = board
        self._fleet, self._queue, self._settings = board.fleet, board.queue, board.settings
        self._timers = timers
        self._jobs = jobs
        self._now_ms = now_ms
        self._offer = offer
        self._changed = changed
        self._save = save
        self.won = self.lost = 0  # holds whose runner took the job, and that ran out without it

    def begin(self, hold: Hold) -> None:
        """A job was passed over for a better runner."""
        job = self._queue.get(hold.job)
        if job is None or job.held_for == hold.awaited:
            return
        self.leave(job)
        first = job.held_since_ms is None
        since_ms = self._board.now_ms if job.held_since_ms is None else job.held_since_ms
        job = replace(job, held_since_ms=since_ms, held_for=hold.awaited, awaited=hold.awaited)
        self._queue.replace(job)
        live, awaited = self._jobs[job.id], self._fleet.live[hold.awaited]
        live.held_since_ms, live.awaited = since_ms, hold.awaited
        awaited.last_awaited = LastAwaited(job=job.id, project=job.demand.project, at_ms=self._board.now_ms)
        awaited.awaited_by[job.id] = job
        self._save(job)
        if first:
            self.time(job)
        self.recheck(awaited)
        if awaited.open_claim is not None:
            self._offer(job.id)  # a better runner that waits in a claim gets it at once

    def time(self, job: QueuedJob) -> None:
        """Plan the end of a hold that has begun."""
        since_ms = job.held_since_ms
        assert since_ms is not None, "a hold begins at its first pass"
        self._timers.at(
            since_ms + hold_limit_ms(job, self._settings), lambda now_ms: self._is_over(job.id, now_ms)
        )

    def end(self, job_id: int) -> None:
        """The job is awaited by nobody any more; its clock runs on."""
        job = self._queue.get(job_id)
        if job is None or job.held_for is None:
            return
        self.leave(job)
        job = replace(job, held_for=None)
        self._queue.replace(job)
        self._save(job)

    def taken(self, job: QueuedJob, runner: LiveRunner) -> None:
        """`job` goes to `runner`: whether that is the one it was held for."""
        if job.awaited is not None and (awaited := self._fleet.live.get(job.awaited)) is not None:
            self.won += job.held_for == runner.name
            _told(awaited, job.id, took=awaited is runner)

    def leave(self, job: QueuedJob) -> None:
        """Nobody awaits `job`, which goes elsewhere or out of the queue."""
        if job.held_for in self._fleet.live:
            self._fleet.live[job.held_for].awaited_by.pop(job.id, None)

    def recheck(self, runner: LiveRunner) -> None:
        """Offer elsewhere what is held for a runner that cannot or need not take it any more."""
        if not runner.awaited_by:
            return
        self._board.now_ms = self._now_ms()
        kept: list[QueuedJob] = []
        dropped: list[int] = []
        there = self._board.is_there(runner.name)
        for job in self._board.awaited_by(runner.name):
            if there and self._board.fits_beside(job, runner.name, kept):
                kept.append(job)
            else:
                dropped.append(job.id)
        for job_id in dropped:
            self.end(job_id)
        for job_id in dropped:
            self._offer(job_id)

    def _is_over(self, job_id: int, now_ms: int) -> None:
        job = self._queue.get(job_id)
        if job is None or not hold_is_over(job, now_ms, self._settings):
            return
        if job.held_for is not None and (awaited := self._fleet.live.get(job.held_for)) is not None:
            self.lost += 1
            awaited.broken_promises += 1
            _told(awaited, job_id, took=False)
            self._changed(awaited)
        self.end(job_id)
        self._offer(job_id)


def _told(runner: LiveRunner, job_id: int, *, took: bool) -> None:
    """What came of the hold for `runner`, where that is still the last one."""
    last = runner.last_awaited
    if last is not None and last.job == job_id:
        runner.last_awaited = replace(last, took=took)
