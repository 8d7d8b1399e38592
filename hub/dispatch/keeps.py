"""Runners that are kept for large jobs which smaller ones kept out too long.

Which runner is kept for which job is decided in `placement.keep`; here it is remembered and ended.
Invariant: a runner is kept for at most one job, which is in the queue, could take it when it is empty,
and has no other kept for it. Nothing of it is stored: after a restart the next looks find it again.
"""

from collections.abc import Callable

from hub.dispatch.fleet import Fleet, LiveRunner
from hub.dispatch.queue import Queue
from hub.placement.judgement import Judgement
from hub.placement.keep import could_take, kept_for, runner_to_keep
from hub.placement.model import QueuedJob


class Keeps:
    """The kept runners, by the job each is kept for. `changed` hears of every change of a runner."""

    def __init__(self, fleet: Fleet, queue: Queue, changed: Callable[[LiveRunner], None]) -> None:
        self._fleet = fleet
        self._queue = queue
        self._changed = changed
        self.runners: dict[int, str] = {}

    def look(self, job: QueuedJob, judgement: Judgement) -> None:
        """Keep a runner for `job` if it is due; `judgement` is of `job`, just now."""
        if job.id in self.runners:
            return
        name = runner_to_keep(job, judgement, self._fleet.value)
        if name is not None:
            runner = self._fleet.live[name]
            if runner.kept is not None:
                del self.runners[runner.kept.job]
            runner.kept = kept_for(job)
            self.runners[job.id] = name
            self._changed(runner)

    def recheck(self, now_ms: int) -> None:
        """Let go of runners that could not take their job any more, even if they were empty."""
        for job_id, name in list(self.runners.items()):
            job, runner = self._queue.get(job_id), self._fleet.live.get(name)
            if job is None or runner is None:
                self.leave(job_id)
            elif not could_take(job, runner.model, self._fleet.value, now_ms):
                self.leave(job_id)
                self._changed(runner)

    def leave(self, job_id: int) -> LiveRunner | None:
        """The job is out of the queue, or is to have another: the runner that is kept no more."""
        name = self.runners.pop(job_id, None)
        runner = None if name is None else self._fleet.live.get(name)
        if runner is not None:
            runner.kept = None
        return runner
