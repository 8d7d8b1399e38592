"""Every queued demand looked at again and again, in slices, and what became of its reason told and stored.

Invariant: no demand goes without a look for longer than FRESH_MS, however many there are, as long as
a round's looks take less; and between two slices the loop answers its callers. A round begins soon
after a change, but not sooner than its own cost allows (`gap_ms`).

What is stored, for whom: each queued job's kind, headline as one who sees all is told it, since when
and when it was looked at; written when the job came, and when its reason came to another meaning
(`Cause.meaning`), not when figures or the runner named changed. A place in line is not stored, nor
that a job is held: the hold is (`store.jobs.hold`). A job that waits for others or for its group has
nothing stored: both are plain from the rows.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import islice

from hub.dispatch.board import LiveBoard
from hub.dispatch.keeps import Keeps
from hub.dispatch.queue import Group, GroupKey
from hub.dispatch.reasons import FRESH_MS, Known, Reasons
from hub.dispatch.stored import Stored, from_text
from hub.placement import headline
from hub.store.jobs import Waited, save_waiting
from hub.store.sql import MAX_ROWS
from hub.store.writer import Writer

log = logging.getLogger(__name__)

SLICE_LOOKS = 2500  # verdicts between two turns of the loop: some 5 ms
LAG_MS = 1000  # how old the lineup of a round may be: one is worth a slice at 1,000 runners
MIN_GAP_MS = 1000  # from the begin of a round to the next: what a person takes for at once
MAX_GAP_MS = FRESH_MS - 5_000  # leaves the rest of FRESH_MS to the round itself
LOOKS_A_MS = 50  # a look takes some 2 µs, so that rounds take a tenth of one core at most
SAVED_A_ROUND = 10_000  # jobs; more of a change waits for the next round, and is then told as it is then
TOLD = 1000  # jobs of one demand whose listeners are told of a change: a page reads again by itself, too
KEPT_A_ROUND = 20  # jobs for which a runner to keep is sought: each judges all runners that could take it

_FIGURES = re.compile(r"\d+")


class Rounds:
    """The rounds over the queue. `tell` hears of each job whose reason changed."""

    def __init__(
        self,
        *,
        board: LiveBoard,
        reasons: Reasons,
        keeps: Keeps,
        writer: Writer,
        now_ms: Callable[[], int],
        tell: Callable[[int], None],
    ) -> None:
        self._board = board
        self._reasons = reasons
        self._keeps = keeps
        self._writer = writer
        self._now_ms = now_ms
        self._tell = tell
        self._left: list[GroupKey] = []  # still to be looked at in this round
        self._keeps_left = 0
        self._unsaved: dict[int, None] = {}  # jobs whose stored reason is not the present one
        self._said: dict[Group, str] = {}
        self._changed = asyncio.Event()
        self.began_ms = now_ms()
        self.looks = 0  # of the last whole round
        self.demands = 0
        reasons.changed = self._changed.set
        reasons.noticed = self._noticed

    # -- what is told ---------------------------------------------------------------------------

    def joined(self, job_id: int) -> None:
        """A job is in the queue from now on; what is stored of its reason, if anything, is of before."""
        self._unsaved[job_id] = None

    def left(self, job_id: int) -> None:
        """A job is in the queue no more."""
        self._unsaved.pop(job_id, None)

    def recall(self, job_id: int, stored: str | None) -> None:
        """What was stored of a queued job, at the start. It is told until the first look."""
        found = from_text(stored)
        if found is not None and job_id in self._board.queue and self._reasons.recall(job_id, found):
            self.left(job_id)

    def _noticed(self, group: Group, known: Known) -> None:
        """The reason of a group came to another meaning."""
        for job in group.jobs:
            self._unsaved[job.id] = None

    # -- a round --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Go round for ever; each time after a change, and every MAX_GAP_MS without one."""
        while True:
            self._changed.clear()
            await self.round()
            await self._rest(self.began_ms + MAX_GAP_MS, self._changed.wait)
            await self._rest(self.began_ms + self.gap_ms, asyncio.Event().wait)

    @property
    def gap_ms(self) -> int:
        """From the begin of the last round to that of the next, if something changed."""
        return min(max(MIN_GAP_MS, self.looks // LOOKS_A_MS), MAX_GAP_MS)

    async def _rest(self, until_ms: int, wait: Callable[[], Awaitable[object]]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, until_ms - self._now_ms()) / 1000):
                await wait()

    async def round(self) -> None:
        """Look at every demand once, and store what changed."""
        self.began_ms, before = self._now_ms(), self._reasons.looks
        self._begin()
        going_on = True
        while going_on:
            going_on = self.look_some(self._now_ms())
            await asyncio.sleep(0)  # whoever waits for the loop goes first
        self.looks = self._reasons.looks - before
        await self._save()

    def _begin(self) -> None:
        self._left = list(self._board.queue.groups)
        self.demands = len(self._left)
        self._keeps_left = KEPT_A_ROUND
        self._said = {group: said for group, said in self._said.items() if group.jobs}

    def look_some(self, now_ms: int) -> bool:
        """One slice of a round; whether something of it is left."""
        until = self._reasons.looks + SLICE_LOOKS
        while self._left and self._reasons.looks < until:
            group = self._board.queue.groups.get(self._left.pop())
            if group is not None:
                self._look(group, now_ms)
        return bool(self._left)

    def _look(self, group: Group, now_ms: int) -> None:
        known = self._reasons.look(group, now_ms, LAG_MS)
        assert known.cause is not None, "it was looked at"
        said = _FIGURES.sub("", headline.of(known.cause, now_ms))
        if (before := self._said.get(group)) != said:
            self._said[group] = said
            if before is not None:
                self._tell_all(job.id for job in group.jobs[:TOLD])
        head = group.jobs[0]
        due = now_ms - head.queued_ms >= self._board.settings.bypass_ms
        if due and known.kind == "busy" and self._keeps_left and head.id not in self._keeps.runners:
            self._keeps_left -= 1
            judgement = self._reasons.judgement_of_open(group, now_ms)
            self._reasons.looks += SLICE_LOOKS  # it costs a slice of its own
            self._keeps.look(head, judgement)

    def _tell_all(self, job_ids: Iterable[int]) -> None:
        for job_id in job_ids:
            self._tell(job_id)

    # -- what is stored -------------------------------------------------------------------------

    async def _save(self) -> None:
        """Store the reasons that changed, in batches of one statement each."""
        for _ in range(0, SAVED_A_ROUND, MAX_ROWS):
            if not (rows := self._next_rows()):
                return
            try:
                await save_waiting(self._writer, rows)
            except Exception:
                log.exception("the waiting reasons of %d jobs could not be stored", len(rows))
                for row in rows:
                    if row.job in self._board.queue:
                        self._unsaved.setdefault(row.job)
                return

    def _next_rows(self) -> list[Waited]:
        """The next batch; its jobs are taken for stored from now on."""
        rows: list[Waited] = []
        texts: dict[tuple[Group, bool], str] = {}
        for job_id in list(islice(self._unsaved, MAX_ROWS)):
            del self._unsaved[job_id]
            job = self._board.queue.get(job_id)
            if job is None:
                continue
            group = self._board.queue.group_of(job_id)
            known: Known | None = group.known
            if known is None or known.cause is None:
                known = self._reasons.look(group, self._now_ms(), LAG_MS)
            assert known.cause is not None, "it was looked at"
            found = self._reasons.for_job(job, known.cause)
            key = (group, found.kept is not None)
            if key not in texts:
                texts[key] = Stored(
                    kind=found.kind,
                    headline=headline.of(found, known.looked_ms),
                    meaning=found.meaning,
                    since_ms=known.since_ms,
                    looked_ms=known.looked_ms,
                ).text()
            rows.append(Waited(job=job_id, waiting=texts[key]))
        return rows
