"""Why jobs wait: looked at for all jobs of a demand at once, remembered, and told to any reader.

A look costs a tenth of a judgement and comes to the same kind and headline (`placement.lineup`), so
that views of many jobs read what was looked at; one job that somebody asks about is judged in full.
What is remembered says when it was looked at. Nobody composes a reason here: the kind is `cause`'s, the
words are `headline`'s.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from hub.dispatch.board import LiveBoard
from hub.dispatch.lines import LiveLineup
from hub.dispatch.queue import Group, GroupKey, group_key
from hub.dispatch.stored import Stored
from hub.placement.cause import Best, Cause, Fitting, GroupFull, cause, held
from hub.placement.fit import codes
from hub.placement.headroom import Headroom
from hub.placement.judgement import Judgement, judge
from hub.placement.model import QueuedJob
from hub.placement.rank import is_there, preference
from hub.placement.turn import Rivals, ahead
from hub.placement.waiting import Waiting, reason

KEPT_MS = 1000  # a judgement: silence and the ends of holds come with time alone
FRESH_MS = 15_000  # what was looked at so lately is told without another look
PLACE_LOOKS = 2000  # verdicts to find one job's place in line: some 3 ms; without one it is told no place


@dataclass(slots=True, eq=False)
class Known:
    """Why the jobs of a group wait, as last looked at; for its first job where they differ."""

    kind: str
    meaning: tuple[str, ...]
    since_ms: int  # since when the kind has held
    cause: Cause | None = None  # None: nobody has looked since the hub was started
    looked_ms: int = 0
    version: int = -1  # `Reasons.version` when it was looked at
    bests: frozenset[Best] = frozenset()  # of the runners that fitted


class Reasons:
    """The reasons of the queue. `version` counts the changes that may have made one another's."""

    def __init__(self, board: LiveBoard) -> None:
        self._board = board
        self._kept: dict[GroupKey, Judgement] = {}
        self._kept_ms = 0
        self.lines = LiveLineup(board)
        self.version = 0
        self.changed: Callable[[], None] = lambda: None
        self.noticed: Callable[[Group, Known], None] = lambda group, known: None  # another meaning
        self.judged = 0  # demands judged in full so far
        self.looks = 0  # verdicts of looks so far: the measure of the work

    def forget(self) -> None:
        """Something changed: what is remembered is of before."""
        self.version += 1
        self._kept.clear()
        self.changed()

    # -- one job, in full -----------------------------------------------------------------------

    def of(
        self,
        job: QueuedJob,
        now_ms: int,
        *,
        needs: Sequence[str] = (),
        group: GroupFull | None = None,
        visible: Collection[str] | None = None,
    ) -> Waiting:
        """Why `job` waits, for one reader, all runners judged (see `placement.waiting.reason`)."""
        if needs or group is not None:
            return reason(job, None, needs=needs, group=group)
        judgement = self.judgement(job, now_ms)
        place = self._place(job, judgement.fitting, now_ms) if judgement.fitting else 1
        return reason(job, judgement, place, visible=visible, fleet=self._board.fleet.value)

    def since_ms(self, job: QueuedJob, waiting: Waiting | Cause, now_ms: int) -> int:
        """Since when a reason of this kind has held for `job`, as far as anybody looked."""
        group = self._board.queue.groups.get(group_key(job))
        if waiting.kind == "held" or group is None:  # `group` None: it waits for its needs or its group
            return job.queued_ms if job.held_since_ms is None else job.held_since_ms
        known: Known | None = group.known
        if known is None or known.kind != waiting.kind:
            known = self.look(group, now_ms)
        return max(job.queued_ms, known.since_ms)

    def judgement(self, job: QueuedJob, now_ms: int) -> Judgement:
        """`job` judged on every runner, now; kept until something changes."""
        if not 0 <= now_ms - self._kept_ms < KEPT_MS:
            self._kept.clear()
            self._kept_ms = now_ms
        key = group_key(job)
        if key not in self._kept:
            self.judged += 1
            lasting = self._board.lasting(job) if key in self._board.queue.groups else None
            self._kept[key] = judge(job, self._board.fleet.value, now_ms, self.rooms(), lasting)
        return self._kept[key]

    def judgement_of_open(self, group: Group, now_ms: int) -> Judgement:
        """A group's first job, judged only on runners that lack nothing for good: others can do nothing."""
        fleet, job = self._board.fleet, group.jobs[0]
        names = [name for entry in group.verdicts for name in entry.members]
        some = replace(fleet.value, runners={name: fleet[name] for name in names})
        return judge(job, some, now_ms, {name: fleet.room(name) for name in names}, lambda _: ())

    def rooms(self) -> dict[str, Headroom]:
        """Every runner's headroom, as remembered."""
        fleet = self._board.fleet
        return {name: live.headroom(fleet.settings) for name, live in fleet.live.items()}

    # -- many jobs ------------------------------------------------------------------------------

    def look(self, group: Group, now_ms: int, lag_ms: int = 0) -> Known:
        """Look at the jobs of a group, and remember why they wait; `lag_ms`: see `LiveLineup.at`."""
        line = self.lines.at(now_ms, self.version, lag_ms)
        head = group.jobs[0]
        asks = head if head.held_for is None else replace(head, held_for=None)  # each hold is its job's own
        before = line.looks
        seen = line.look(asks, self.lines.open_to(group))
        found = cause(asks, seen)
        self.looks += line.looks - before
        known: Known | None = group.known
        if known is None:
            known = group.known = Known(kind=found.kind, meaning=(), since_ms=head.queued_ms)
        elif known.kind != found.kind:
            known.kind, known.since_ms = found.kind, now_ms
        is_new = known.meaning != found.meaning
        known.meaning, known.cause = found.meaning, found
        known.looked_ms, known.version = line.now_ms, self.lines.version
        known.bests = frozenset(one.best for one in seen.fitting)
        if is_new:
            self.noticed(group, known)
        return known

    def brief(self, job: QueuedJob, now_ms: int, *, looks: int) -> Cause:
        """Why a queued job waits, without the runners: as remembered, if need be after a look.

        `looks`: what `Reasons.looks` may come to; beyond it what is remembered is told if it is no
        older than FRESH_MS. The caller's bound for a view of many.
        """
        group = self._board.queue.group_of(job.id)
        known: Known | None = group.known
        if known is None or not self._will_do(known, now_ms, may_look=self.looks < looks):
            known = self.look(group, now_ms)
        assert known.cause is not None, "it was looked at"
        if job.held_for is not None and (hold := self._held(job, known, now_ms)) is not None:
            return hold
        return self.for_job(job, known.cause)

    def _will_do(self, known: Known, now_ms: int, *, may_look: bool) -> bool:
        if known.version == self.version and known.looked_ms == now_ms:
            return True
        fresh = known.cause is not None and 0 <= now_ms - known.looked_ms <= FRESH_MS
        return fresh and not may_look

    def for_job(self, job: QueuedJob, found: Cause) -> Cause:
        """The cause of a group as it is for one of its jobs: a runner is kept for one job alone."""
        if found.kept is None:
            return found
        live = self._board.fleet.live.get(found.kept)
        is_its = live is not None and live.kept is not None and live.kept.job == job.id
        return found if is_its else replace(found, kept=None)

    def placed_in_line(self, job: QueuedJob, found: Cause, now_ms: int, *, looks: int) -> Cause:
        """A `turn` with the place in line, while `looks` allow (see `brief`)."""
        if found.kind != "turn" or self.looks >= looks:
            return found
        line = self.lines.at(now_ms, self.version)
        before = line.looks + self._board.looks
        seen = line.look(job, self.lines.open_to(self._board.queue.group_of(job.id)))
        place = self._place(job, [one.runner.name for one in seen.fitting], now_ms)
        self.looks += line.looks + self._board.looks - before
        return replace(found, place=place)

    def looked_ms(self, job: QueuedJob, now_ms: int) -> int:
        """When the answer of `brief` was worked out."""
        known: Known | None = self._board.queue.group_of(job.id).known
        return now_ms if known is None or known.cause is None or job.held_for is not None else known.looked_ms

    def recall(self, job_id: int, stored: Stored) -> bool:
        """What was stored of a queued job, at the start; whether it is what is known of its group."""
        group = self._board.queue.group_of(job_id)
        if group.known is None:
            group.known = Known(kind=stored.kind, meaning=stored.meaning, since_ms=stored.since_ms)
        known: Known = group.known
        return known.cause is None and known.meaning == stored.meaning

    def _held(self, job: QueuedJob, known: Known, now_ms: int) -> Cause | None:
        fleet = self._board.fleet
        live = fleet.live.get(job.held_for or "")
        if live is None:
            return None
        self.looks += 1
        room, lasting = live.headroom(fleet.settings), self._board.lasting(job)(live.name)
        if codes(job, live.model, fleet.value, now_ms, room=room, lasting=lasting):
            return None
        best = preference(job.demand, live.model, room, now_ms, fleet.settings, job.lost_on, job.wish)[:3]
        there = is_there(live.model, now_ms, fleet.settings)
        awaited = Fitting(runner=live.model, best=best, there=there)
        return held(job, awaited, known.bests, now_ms, fleet.settings)

    def _place(self, job: QueuedJob, wanted: Sequence[str], now_ms: int) -> int | None:
        """1 more than the queued jobs ahead that could be given a runner on which `job` fits too.

        None: to find that out takes more than PLACE_LOOKS.
        """
        rivals: dict[str, Rivals] = {}
        self._board.now_ms = now_ms
        until = self._board.looks + PLACE_LOOKS
        for group in self._board.queue.groups.values():
            if group.priority < job.priority or not self._contends(group, wanted):
                continue
            if self._board.looks > until:
                return None
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

    def _contends(self, other: Group, wanted: Sequence[str]) -> bool:
        """Whether a group's jobs fit on one of `wanted`, as far as PLACE_LOOKS of these say."""
        live, head, looks = self._board.fleet.live, other.jobs[0], self._board.looks
        for name in wanted:
            if self._board.looks - looks > PLACE_LOOKS:
                return False
            if live[name].entry in other.verdicts and self._board.fits(head, name):
                return True
        return False
