"""Attempts that are out: whether they were confirmed in time, whether their leases run, and their room.

A deadline that passes ends nothing by itself: `on_lapsed` writes the end, and the store decides
whether the runner was quicker. Renewals need no timer of their own: a look that comes too early
plans the next one.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from hub.dispatch.attempts import LiveAttempt
from hub.dispatch.fleet import ENDED_ROOM_MS, Fleet, LiveRunner
from hub.dispatch.tasks import Tasks
from hub.dispatch.timers import Timers
from hub.placement.fit import as_placed
from hub.store.endings import How

OVERDUE_MS = 10_000  # a lease that ran out this long ago was missed by its timer
LOOK_AGAIN_MS = 1000  # after an end that its runner's word overtook

Lapsed = Callable[[LiveAttempt, How], Coroutine[Any, Any, None]]


async def _nobody(attempt: LiveAttempt, how: How) -> None:
    """Until the service says who ends an attempt."""


class Leases:
    """The attempts by job, and what is due of them. `room_changed` hears of every change of room."""

    def __init__(
        self,
        *,
        fleet: Fleet,
        timers: Timers,
        tasks: Tasks,
        now_ms: Callable[[], int],
        start_ms: int,
        room_changed: Callable[[LiveRunner], None],
    ) -> None:
        self.attempts: dict[int, LiveAttempt] = {}
        self.on_lapsed: Lapsed = _nobody
        self._fleet = fleet
        self._timers = timers
        self._tasks = tasks
        self._now_ms = now_ms
        self._start_ms = start_ms
        self._room_changed = room_changed

    def add(self, attempt: LiveAttempt, runner: LiveRunner) -> None:
        """A job was given to `runner`; not yet written, and so not yet timed."""
        self.attempts[attempt.job.id] = runner.attempts[attempt.job.id] = attempt

    def time(self, attempt: LiveAttempt) -> None:
        """Plan the looks at an attempt: was it confirmed in time, has its lease run out."""
        if not attempt.confirmed:
            self._timers.at(attempt.assigned_ms + self._start_ms, lambda now_ms: self._look(attempt, now_ms))
        self._timers.at(attempt.expires_ms, lambda now_ms: self._look(attempt, now_ms))

    def look_again(self, attempt: LiveAttempt) -> None:
        """What was due did not come about: look again soon, when the renewal is known here too."""
        self._timers.at(self._now_ms() + LOOK_AGAIN_MS, lambda now_ms: self._look(attempt, now_ms))

    def take_over(self, attempt: LiveAttempt) -> None:
        """An attempt that was out when the hub stopped goes on."""
        runner = self._fleet.live.get(attempt.runner)
        if runner is None:
            self.attempts[attempt.job.id] = attempt
        else:
            self.add(attempt, runner)
            runner.placed[attempt.job.id] = as_placed(attempt.job.queued(), runner.model, self._fleet.value)
            self._room_changed(runner)
        self.time(attempt)

    def over(self, attempt: LiveAttempt, *, room_back: bool = False) -> None:
        """The attempt has ended. Its room comes back when its runner says that its sandbox is gone.

        `room_back`: nothing of it runs there: it was never started, given back, or has ended for good.
        """
        self.forget(attempt)
        runner = self._fleet.live.get(attempt.runner)
        if runner is None:
            return
        job_id = attempt.job.id
        if room_back:
            runner.forget(job_id)
        elif job_id in runner.placed:
            until_ms = self._now_ms() + ENDED_ROOM_MS
            runner.ended[job_id] = until_ms
            self._timers.at(until_ms, lambda now_ms: self._room_back(runner, job_id, now_ms))
        self._room_changed(runner)

    def forget(self, attempt: LiveAttempt) -> None:
        """Take an attempt off the books; its room is another matter."""
        job_id = attempt.job.id
        if self.attempts.get(job_id) is attempt:
            del self.attempts[job_id]
        runner = self._fleet.live.get(attempt.runner)
        if runner is not None and runner.attempts.get(job_id) is attempt:
            del runner.attempts[job_id]

    def sweep(self, now_ms: int) -> int:
        """Look at attempts whose lease ran out and that no timer looked at; returns how many."""
        overdue = [
            attempt
            for attempt in self.attempts.values()
            if attempt.committed.is_set() and now_ms >= attempt.expires_ms + OVERDUE_MS
        ]
        for attempt in overdue:
            self._look(attempt, now_ms)
        return len(overdue)

    def _look(self, attempt: LiveAttempt, now_ms: int) -> None:
        if self.attempts.get(attempt.job.id) is not attempt:
            return
        if not attempt.confirmed and now_ms >= attempt.assigned_ms + self._start_ms:
            self._tasks.spawn(self.on_lapsed(attempt, "not delivered"))
        elif now_ms >= attempt.expires_ms:
            self._tasks.spawn(self.on_lapsed(attempt, "lost"))
        elif attempt.confirmed:
            self._timers.at(attempt.expires_ms, lambda later_ms: self._look(attempt, later_ms))

    def _room_back(self, runner: LiveRunner, job_id: int, now_ms: int) -> None:
        if runner.ended.get(job_id, now_ms + 1) <= now_ms:
            runner.forget(job_id)
            self._room_changed(runner)
