"""Why jobs wait, worked out for views: each demand judged once for all jobs that share it.

A judgement is kept for as long as nothing changed, and a second at most, because silence and the
ends of holds come with time alone.
"""

from collections.abc import Collection, Sequence

from hub.dispatch.board import LiveBoard
from hub.dispatch.queue import GroupKey, group_key
from hub.placement.headroom import Headroom
from hub.placement.judgement import Judgement, judge_job
from hub.placement.model import QueuedJob
from hub.placement.waiting import GroupFull, Waiting, reason

KEPT_MS = 1000


class Reasons:
    """The judgements of one moment."""

    def __init__(self, board: LiveBoard) -> None:
        self._board = board
        self._kept: dict[GroupKey, Judgement] = {}
        self._kept_ms = 0
        self.judged = 0  # demands judged so far: the measure of a pass's work

    def forget(self) -> None:
        """Something changed: judge anew."""
        self._kept.clear()

    def of(
        self,
        job: QueuedJob,
        now_ms: int,
        *,
        needs: Sequence[str] = (),
        group: GroupFull | None = None,
        visible: Collection[str] | None = None,
    ) -> Waiting:
        """Why `job` waits, for one reader (see `placement.waiting.reason`)."""
        if needs or group is not None:
            return reason(job, None, needs=needs, group=group)
        judgement = self._judgement(job, now_ms)
        place = self._place(job, judgement) if judgement.fitting else 1
        return reason(job, judgement, place, visible=visible)

    def _judgement(self, job: QueuedJob, now_ms: int) -> Judgement:
        if not 0 <= now_ms - self._kept_ms < KEPT_MS:
            self._kept.clear()
            self._kept_ms = now_ms
        key = group_key(job)
        if key not in self._kept:
            self.judged += 1
            fleet = self._board.fleet
            self._kept[key] = judge_job(job, fleet.value, now_ms, self.rooms())
        return self._kept[key]

    def rooms(self) -> dict[str, Headroom]:
        """Every runner's headroom, as remembered."""
        fleet = self._board.fleet
        return {name: live.headroom(fleet.settings) for name, live in fleet.live.items()}

    def _place(self, job: QueuedJob, judgement: Judgement) -> int:
        """1 more than the queued jobs ahead that could be given a runner on which `job` fits too."""
        wanted = judgement.fitting
        ahead = 0
        self._board.now_ms = judgement.now_ms
        for group in self._board.queue.groups.values():
            before = group.ahead_of(job.order)
            if before and self._contends(group.jobs[0], wanted):
                ahead += before
        return 1 + ahead

    def _contends(self, other: QueuedJob, wanted: Sequence[str]) -> bool:
        entries = self._board.queue.group_of(other.id).verdicts
        live = self._board.fleet.live
        return any(live[name].entry in entries and self._board.fits(other, name) for name in wanted)
