"""How attempts end: finished, given back, never delivered, lost with their runner.

One end wins. Each is a compare-and-set on the open attempt (its number, for a runner's call its
lease, for a sweep the moment up to which the lease must have run out), so that what was read
before cannot overwrite what has happened since. The job, what follows for its run, and the count
of losses are written in the same transaction.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import Change
from hub.store.settle import FINAL, settle
from hub.store.sql import each
from hub.store.tables import OPEN
from hub.store.writer import Batch, Writer

MAX_LOSSES = 3  # attempts that a job may lose to machinery: one that kills its runners must end

How = Literal["finished", "declined", "released", "not delivered", "lost", "runner removed", "canceled"]
_LOST = ("lost", "runner removed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """One end of one attempt. With `lease`: its runner says so; without: the hub does."""

    job: int
    number: int
    how: How
    now_ms: int
    lease: str | None = None
    horizon_ms: int | None = None  # only if its lease had run out by then; None: whatever its lease
    reason: str = ""
    outcome: str | None = None  # of "finished": succeeded, failed, timed_out, canceled, error
    exit_code: int | None = None
    error: str | None = None
    peak_memory_mib: int | None = None
    peak_disk_mib: int | None = None
    results: str | None = None  # JSON list of wire StepResult
    log_bytes: int = 0
    short: str | None = None  # of outcome "failed" or "error": for want of memory or disk
    shortages: str | None = None  # JSON list of wire Shortage, as the job has them now; None: as before
    requeue: bool = False  # of a failure of the machinery, or for want: queue it again, as its losses allow


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What came of an ending.

    `applied`: it is so now. `repeated`: the very same end was written before. `over`: the attempt
    had ended in another way, was renewed, or never was; nothing changed.
    """

    state: Literal["applied", "repeated", "over"]
    changes: tuple[Change, ...] = ()  # the job itself first, then those that it frees or skips
    run_status: str | None = None  # None: nothing changed, or the run stays as it is


_FIND = """
    SELECT jobs.id AS job, jobs.run_id AS run, jobs.status, jobs.losses, jobs.attempt,
           attempts.runner, attempts.lease, attempts.confirmed_ms, attempts.expires_ms,
           attempts.ended_ms, attempts.ended, attempts.outcome, attempts.exit_code
    FROM INPUT
    JOIN attempts ON attempts.job_id = input.job AND attempts.number = input.number
    JOIN jobs ON jobs.id = attempts.job_id
"""

_LOSSES = """
    SELECT attempts.job_id AS job, attempts.runner, attempts.memory_mib, attempts.short
    FROM INPUT JOIN attempts ON attempts.job_id = input.job AND attempts.number <= input.number
    WHERE attempts.ended IN ('lost', 'runner removed') OR attempts.short IS NOT NULL
       OR attempts.number = input.number
    ORDER BY attempts.job_id, attempts.number
"""

_END_ATTEMPT = """
    UPDATE attempts
    SET ended_ms = input.now_ms, ended = input.how, reason = input.reason, outcome = input.outcome,
        exit_code = input.exit_code, short = input.short
    FROM INPUT
    WHERE attempts.job_id = input.job AND attempts.number = input.number AND attempts.ended_ms IS NULL
    RETURNING attempts.job_id
"""
_END_ATTEMPT_COLUMNS = (
    "job bigint, number bigint, now_ms bigint, how text, reason text, outcome text, exit_code bigint, "
    "short text"
)

# Queued again: its place in the queue is kept, and what was true of the attempt only is forgotten.
_END_JOB = """
    UPDATE jobs
    SET status = input.status, losses = input.losses, exit_code = input.exit_code, error = input.error,
        peak_memory_mib = input.peak_memory_mib, peak_disk_mib = input.peak_disk_mib,
        results = input.results, log_bytes = input.log_bytes, waiting = NULL, held_for = NULL,
        shortages = COALESCE(input.shortages, jobs.shortages),
        finished_ms = CASE WHEN input.status = 'queued' THEN NULL ELSE input.now_ms END,
        started_ms = CASE WHEN input.status = 'queued' THEN NULL ELSE jobs.started_ms END,
        runner = CASE WHEN input.status = 'queued' THEN NULL ELSE jobs.runner END,
        placed = CASE WHEN input.status = 'queued' THEN '' ELSE jobs.placed END,
        held_since_ms = CASE WHEN input.losses > jobs.losses THEN NULL ELSE jobs.held_since_ms END
    FROM INPUT
    WHERE jobs.id = input.job AND jobs.status = input.was AND jobs.attempt = input.number
    RETURNING jobs.id
"""
_END_JOB_COLUMNS = (
    "job bigint, number bigint, now_ms bigint, was text, status text, losses bigint, exit_code bigint, "
    "error text, peak_memory_mib bigint, peak_disk_mib bigint, results text, log_bytes bigint, "
    "shortages text"
)

_DECLINE = """
    INSERT INTO declines (job_id, runner, reason, at_ms) SELECT job, runner, reason, now_ms FROM INPUT
"""


async def end(writer: Writer, ending: Ending) -> Ended:
    """End an attempt, and bring its job and its run to where they then stand."""
    return await writer.put(ENDINGS, ending)


async def end_many(conn: AsyncConnection, endings: Sequence[Ending]) -> list[Ended]:
    """End attempts of different jobs, inside the caller's transaction."""
    asked = [{"job": ending.job, "number": ending.number} for ending in endings]
    found = {row.job: row for row in await each(conn, _FIND, "job bigint, number bigint", asked)}
    answers = [_judge(ending, found.get(ending.job)) for ending in endings]
    won = [ending for ending, answer in zip(endings, answers, strict=True) if answer == "applied"]
    if not won:
        return [Ended(state=answer) for answer in answers]
    statuses = await _write(conn, won, found)
    final = {ending.job: found[ending.job].run for ending in won if statuses[ending.job] in FINAL}
    settled = await settle(conn, set(final.values()), now_ms=max(ending.now_ms for ending in won))
    last_of_run = {run: job for job, run in final.items()}  # what follows is told once, with the last
    results: list[Ended] = []
    for ending, answer in zip(endings, answers, strict=True):
        if answer != "applied":
            results.append(Ended(state=answer))
            continue
        run = found[ending.job].run
        own = Change(job=ending.job, run=run, status=statuses[ending.job])
        follows = settled.get(run) if last_of_run.get(run) == ending.job else None
        results.append(
            Ended(
                state="applied",
                changes=(own, *(follows.changes if follows else ())),
                run_status=settled[run].run_status if run in settled and ending.job in final else None,
            )
        )
    return results


def _judge(ending: Ending, row: Any) -> Literal["applied", "repeated", "over"]:
    """Whether `ending` still meets the attempt that it is meant for. `row` None: there is none."""
    if row is None or (ending.lease is not None and ending.lease != row.lease):
        return "over"
    if row.ended_ms is not None:
        same = (row.ended, row.outcome, row.exit_code) == (ending.how, ending.outcome, ending.exit_code)
        return "repeated" if same and ending.lease is not None else "over"
    if row.status not in OPEN or row.attempt != ending.number:
        return "over"
    if ending.horizon_ms is not None and row.expires_ms > ending.horizon_ms:
        return "over"
    if ending.how == "not delivered" and row.confirmed_ms is not None:
        return "over"
    return "applied"


async def _write(conn: AsyncConnection, won: Sequence[Ending], found: dict[int, Any]) -> dict[int, str]:
    """Write the ends that won; the status of each job afterwards."""
    verdicts = {ending.job: _verdict(ending, found[ending.job]) for ending in won}
    await _say_lost(conn, won, verdicts)
    attempts = [
        {
            "job": ending.job,
            "number": ending.number,
            "now_ms": ending.now_ms,
            "how": ending.how,
            "reason": ending.reason or ending.error or "",
            "outcome": ending.outcome,
            "exit_code": ending.exit_code,
            "short": ending.short,
        }
        for ending in won
    ]
    jobs = [verdicts[ending.job].row(ending, found[ending.job].status) for ending in won]
    closed = await each(conn, _END_ATTEMPT, _END_ATTEMPT_COLUMNS, attempts)
    moved = await each(conn, _END_JOB, _END_JOB_COLUMNS, jobs)
    assert len(closed) == len(moved) == len(won), "the writer is alone: what it read still stands"
    declines = [
        {
            "job": ending.job,
            "runner": found[ending.job].runner,
            "reason": ending.reason,
            "now_ms": ending.now_ms,
        }
        for ending in won
        if ending.how == "declined"
    ]
    if declines:
        await each(conn, _DECLINE, "job bigint, runner text, reason text, now_ms bigint", declines)
    return {job: verdict.status for job, verdict in verdicts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """Where a job stands after an end."""

    status: str
    losses: int
    error: str | None = None
    exhausted: bool = False  # final because of its losses: the error is still to be worded

    def row(self, ending: Ending, was: str) -> dict[str, str | int | None]:
        """What is written of the job; queued again, it keeps of the attempt only what it ran out of."""
        kept = self.status != "queued"
        return {
            "job": ending.job,
            "number": ending.number,
            "now_ms": ending.now_ms,
            "was": was,
            "status": self.status,
            "losses": self.losses,
            "error": self.error,
            "exit_code": ending.exit_code if kept else None,
            "peak_memory_mib": ending.peak_memory_mib if kept else None,
            "peak_disk_mib": ending.peak_disk_mib if kept else None,
            "results": ending.results if kept else None,
            "log_bytes": ending.log_bytes if kept else 0,
            "shortages": ending.shortages,
        }


def _verdict(ending: Ending, row: Any) -> _Verdict:
    """What an end makes of its job. A job that is to be canceled is never queued again."""
    losses: int = row.losses
    canceling = row.status == "canceling"
    if ending.how == "finished":
        assert ending.outcome is not None, "a finish says how"
        if ending.outcome != "error" and ending.short is None:
            return _Verdict(status=ending.outcome, losses=losses, error=ending.error)
        if canceling and ending.outcome == "error":
            return _Verdict(status="canceled", losses=losses, error=ending.error)
        if ending.requeue and not canceling and losses + 1 < MAX_LOSSES:
            return _Verdict(status="queued", losses=losses + 1)
        return _Verdict(status=ending.outcome, losses=losses + 1, error=ending.error)
    if canceling or ending.how == "canceled":
        return _Verdict(status="canceled", losses=losses)
    if ending.how not in _LOST:
        return _Verdict(status="queued", losses=losses)
    exhausted = losses + 1 >= MAX_LOSSES
    return _Verdict(status="error" if exhausted else "queued", losses=losses + 1, exhausted=exhausted)


async def _say_lost(conn: AsyncConnection, won: Sequence[Ending], verdicts: dict[int, _Verdict]) -> None:
    """Word the errors of the jobs that lost too many runners: which they were, and what the job took."""
    asked = [{"job": ending.job, "number": ending.number} for ending in won if verdicts[ending.job].exhausted]
    if not asked:
        return
    rows = await each(conn, _LOSSES, "job bigint, number bigint", asked)
    for job in {row.job for row in rows}:
        error = lost_text([row for row in rows if row.job == job], verdicts[job].losses)
        verdicts[job] = replace(verdicts[job], error=error)


def lost_text(attempts: Iterable[Any], losses: int) -> str:
    """Why a job whose runners were lost is not tried again.

    `attempts`: those that were lost, and those that ended for want of memory or disk, in order.
    """
    found = list(attempts)
    lost = [attempt for attempt in found if attempt.short is None]
    short = [attempt.short for attempt in found if attempt.short is not None]
    names = ", ".join(attempt.runner for attempt in lost)
    failures = losses - len(found)
    before = [f"the machinery failed {_times(failures)}"] if failures > 0 else []
    before += [f"it ran out of {what} {_times(short.count(what))}" for what in dict.fromkeys(short)]
    if before:
        runners = "runner was" if len(lost) == 1 else "runners were"
        said = f"{', '.join(before)}, and {len(lost)} {runners} lost ({names})"
    else:
        said = f"its runner was lost {len(lost)} times ({names})"
    told = [attempt.memory_mib for attempt in lost if attempt.memory_mib is not None]
    return f"{said}; it last took {max(told)} MiB of memory" if told else said


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


ENDINGS: Batch[Ending, Ended] = Batch(name="end", key=lambda row: ("job", row.job), many=end_many)
