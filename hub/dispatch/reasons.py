"""Why jobs wait, worked out for views: each demand judged once for all jobs that share it.

A judgement is kept for as long as nothing changed, and a second at most, because silence and the
ends of holds come with time alone.
"""

from collections.abc import Callable, Collection, Sequence

from hub.dispatch.board import LiveBoard
from hub.dispatch.queue import GroupKey, group_key
from hub.placement.headroom import Headroom
from hub.placement.judgement import Judgement, judge
from hub.placement.model import QueuedJob
from hub.placement.turn import Rivals, ahead
from hub.placement.waiting import GroupFull, Waiting, reason

KEPT_MS = 1000
ROUND_VERDICTS = 3000  # of one look round, some 20 ms: the loop has claims to answer, and goes on later


class Reasons:
    """The judgements of one moment."""

    def __init__(self, board: LiveBoard) -> None:
        self._board = board
        self._kept: dict[GroupKey, Judgement] = {}
        self._kept_ms = 0
        self._round: list[GroupKey] = []  # demands still to be looked at in this round
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
        mend: bool = True,
    ) -> Waiting:
        """Why `job` waits, for one reader (see `placement.waiting.reason`).

        `mend`: work out what would mend a lasting reason too; a look that nobody reads does without.
        """
        if needs or group is not None:
            return reason(job, None, needs=needs, group=group)
        judgement = self._judgement(job, now_ms)
        place = self._place(job, judgement) if judgement.fitting else 1
        fleet = self._board.fleet.value if mend else None
        return reason(job, judgement, place, visible=visible, fleet=fleet)

    def since_ms(self, job: QueuedJob, waiting: Waiting, now_ms: int) -> int:
        """Since when a reason of this kind has held for `job`, as far as anybody looked.

        Every demand is looked at now and then (`look_round`), so that a change is not missed for long.
        """
        queued_ms = job.order[1]
        group = self._board.queue.groups.get(group_key(job))
        if waiting.kind == "held" or group is None:  # `group` None: it waits for its needs or its group
            return queued_ms if job.held_since_ms is None else job.held_since_ms
        if group.kind != waiting.kind:
            group.kind_since_ms = queued_ms if group.kind is None else now_ms
            group.kind = waiting.kind
        return max(queued_ms, group.kind_since_ms)

    def look_round(self, now_ms: int, look: Callable[[QueuedJob, Judgement], None]) -> list[QueuedJob]:
        """Look at the next demands in turn, a bounded number; the jobs whose kind of reason changed.

        `look` hears of the first job of each with its judgement.
        """
        changed: list[QueuedJob] = []
        if not self._round:
            self._round = list(self._board.queue.groups)
        demands = max(1, ROUND_VERDICTS // max(1, len(self._board.fleet)))
        for key in [self._round.pop() for _ in range(min(demands, len(self._round)))]:
            group = self._board.queue.groups.get(key)
            if group is None:
                continue
            before = group.kind
            head = group.jobs[0]
            self.since_ms(head, self.of(head, now_ms, mend=False), now_ms)
            look(head, self._judgement(head, now_ms))
            if before is not None and group.kind != before:
                changed += group.jobs
        return changed

    def _judgement(self, job: QueuedJob, now_ms: int) -> Judgement:
        if not 0 <= now_ms - self._kept_ms < KEPT_MS:
            self._kept.clear()
            self._kept_ms = now_ms
        key = group_key(job)
        if key not in self._kept:
            self.judged += 1
            fleet = self._board.fleet
            self._kept[key] = judge(job, fleet.value, now_ms, self.rooms())
        return self._kept[key]

    def rooms(self) -> dict[str, Headroom]:
        """Every runner's headroom, as remembered."""
        fleet = self._board.fleet
        return {name: live.headroom(fleet.settings) for name, live in fleet.live.items()}

    def _place(self, job: QueuedJob, judgement: Judgement) -> int:
        """1 more than the queued jobs ahead that could be given a runner on which `job` fits too."""
        wanted = judgement.fitting
        rivals: dict[str, Rivals] = {}
        self._board.now_ms = judgement.now_ms
        for group in self._board.queue.groups.values():
            if group.priority < job.priority or not self._contends(group.jobs[0], wanted):
                continue
            its = rivals.setdefault(group.demand.owner, Rivals())
            if group.priority > job.priority:
                its.higher += len(group.jobs)
            else:
                its.equal += len(group.jobs)
                its.older += group.ahead_of(job.order)
        own = rivals.get(job.demand.owner)
        if own is not None:
            own.equal -= 1  # the job itself
        return 1 + ahead(job, rivals, self._board.held)

    def _contends(self, other: QueuedJob, wanted: Sequence[str]) -> bool:
        entries = self._board.queue.group_of(other.id).verdicts
        live = self._board.fleet.live
        return any(live[name].entry in entries and self._board.fits(other, name) for name in wanted)
