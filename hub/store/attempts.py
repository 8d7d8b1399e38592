"""Attempts while they are out: claimed, confirmed, kept alive. How they end is in `endings`.

The fence is the lease of one attempt: a row that is ended is never touched again, whoever sends
what. Only `confirm` and `beat`, the runner's own calls, move the end of a lease, and never back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.endings import Ended, Ending, How, end
from hub.store.rows import AttemptRow, columns, read
from hub.store.sql import each, values_of
from hub.store.writer import Batch, Writer

__all__ = [
    "Beat",
    "Beaten",
    "Claimed",
    "Confirmed",
    "Ended",
    "Ending",
    "How",
    "beat",
    "by_lease",
    "claim",
    "confirm",
    "end",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A runner takes a queued job as attempt `number`, one more than the last."""

    job: int
    number: int
    runner: str
    instance: str | None
    claim_id: str | None
    lease: str
    placed: str
    comparison: str | None  # JSON: `runners` (wire Considered) and `more`
    now_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """The runner has the claim's answer, and prepares or runs the job."""

    job: int
    lease: str
    phase: Literal["preparing", "running"]
    now_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Beaten:
    """A sign of life of an attempt. A figure that is None leaves what was told before."""

    job: int
    lease: str
    now_ms: int
    expires_ms: int
    memory_mib: int | None = None
    disk_mib: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """The attempt is open: `number` is its own, `cancel` says that it is to stop."""

    cancel: bool
    number: int


_CLAIM = """
    UPDATE jobs
    SET status = 'assigned', attempt = input.number, runner = input.runner, placed = input.placed,
        held_for = NULL, waiting = NULL
    FROM INPUT
    WHERE jobs.id = input.job AND jobs.status = 'queued' AND jobs.attempt = input.number - 1
    RETURNING jobs.id
"""

_ATTEMPT = """
    INSERT INTO attempts (job_id, number, runner, instance, claim_id, lease, placed,
                          assigned_ms, expires_ms, reason)
    SELECT job, number, runner, instance, claim_id, lease, placed, now_ms, expires_ms, ''
    FROM INPUT
"""
_CLAIM_COLUMNS = "job bigint, number bigint, runner text, placed text"
_COMPARISON = """
    INSERT INTO comparisons (job_id, number, body) SELECT job, number, body FROM INPUT
"""
_ATTEMPT_COLUMNS = (
    "job bigint, number bigint, runner text, instance text, claim_id text, lease text, placed text, "
    "now_ms bigint, expires_ms bigint"
)

_CONFIRM = """
    UPDATE attempts
    SET confirmed_ms = COALESCE(attempts.confirmed_ms, input.now_ms),
        running_ms = CASE WHEN input.phase = 'running' THEN COALESCE(attempts.running_ms, input.now_ms)
                          ELSE attempts.running_ms END,
        expires_ms = CASE WHEN input.expires_ms > attempts.expires_ms THEN input.expires_ms
                          ELSE attempts.expires_ms END
    FROM INPUT
    WHERE attempts.job_id = input.job AND attempts.lease = input.lease AND attempts.ended_ms IS NULL
    RETURNING attempts.job_id, attempts.number
"""

# `preparing` told again by a runner that already runs does not go back.
_BEGIN = """
    UPDATE jobs
    SET status = CASE WHEN jobs.status = 'canceling' THEN 'canceling'
                      WHEN jobs.status = 'running' OR input.phase = 'running' THEN 'running'
                      ELSE 'preparing' END,
        started_ms = CASE WHEN input.phase = 'running' THEN COALESCE(jobs.started_ms, input.now_ms)
                          ELSE jobs.started_ms END
    FROM INPUT
    WHERE jobs.id = input.job AND jobs.status IN ('assigned', 'preparing', 'running', 'canceling')
    RETURNING jobs.id, jobs.status
"""

_RUN_BEGINS = """
    UPDATE runs SET status = 'running'
    WHERE runs.status = 'queued'
      AND runs.id IN (SELECT run_id FROM jobs WHERE jobs.id IN (SELECT job FROM INPUT))
"""
_CONFIRM_COLUMNS = "job bigint, lease text, phase text, now_ms bigint, expires_ms bigint"

_BEAT = """
    UPDATE attempts
    SET expires_ms = CASE WHEN input.expires_ms > attempts.expires_ms THEN input.expires_ms
                          ELSE attempts.expires_ms END,
        memory_mib = COALESCE(input.memory_mib, attempts.memory_mib),
        disk_mib = COALESCE(input.disk_mib, attempts.disk_mib),
        step = COALESCE(input.step, attempts.step)
    FROM INPUT
    WHERE attempts.job_id = input.job AND attempts.lease = input.lease AND attempts.ended_ms IS NULL
    RETURNING attempts.job_id, attempts.number,
              (SELECT status FROM jobs WHERE jobs.id = attempts.job_id) AS status
"""
_BEAT_COLUMNS = "job bigint, lease text, expires_ms bigint, memory_mib bigint, disk_mib bigint, step bigint"


async def claim(writer: Writer, claimed: Claimed) -> bool:
    """Give the job to the runner; False: it is not queued any more, or another was quicker."""
    return await writer.put(CLAIMS, claimed)


async def confirm(writer: Writer, confirmed: Confirmed) -> Beat | None:
    """The runner has the job; None: the attempt is over, it must not run it."""
    return await writer.put(CONFIRMS, confirmed)


async def beat(writer: Writer, beaten: Beaten) -> Beat | None:
    """Renew the lease and keep the figures; None: the attempt is over."""
    return await writer.put(BEATS, beaten)


async def by_lease(conn: AsyncConnection, job_id: int, lease: str) -> AttemptRow | None:
    """The attempt at a job that has or had this lease."""
    query = f"SELECT {_COLUMNS} FROM attempts WHERE job_id = :job AND lease = :lease"  # noqa: S608 - our names
    row = (await conn.execute(text(query), {"job": job_id, "lease": lease})).one_or_none()
    return None if row is None else read(AttemptRow, row)


_COLUMNS = columns(AttemptRow, "attempts")


async def _claim_many(conn: AsyncConnection, rows: Sequence[Claimed]) -> list[bool]:
    values = {row.job: values_of(row) for row in rows}
    for value in values.values():
        del value["comparison"]  # some KiB, which go down once and by themselves
    slim = [
        {"job": row.job, "number": row.number, "runner": row.runner, "placed": row.placed} for row in rows
    ]
    given = {row.id for row in await each(conn, _CLAIM, _CLAIM_COLUMNS, slim)}
    if given:
        await each(conn, _ATTEMPT, _ATTEMPT_COLUMNS, [values[job] for job in sorted(given)])
        compared = [
            {"job": row.job, "number": row.number, "body": row.comparison}
            for row in rows
            if row.comparison is not None and row.job in given
        ]
        await each(conn, _COMPARISON, "job bigint, number bigint, body text", compared)
    return [row.job in given for row in rows]


async def _confirm_many(conn: AsyncConnection, rows: Sequence[Confirmed]) -> list[Beat | None]:
    values = {row.job: values_of(row) for row in rows}
    found = await each(conn, _CONFIRM, _CONFIRM_COLUMNS, values.values())
    numbers = {row.job_id: row.number for row in found}
    if not numbers:
        return [None] * len(rows)
    open_now = [values[job] for job in sorted(numbers)]
    begun = await each(conn, _BEGIN, _CONFIRM_COLUMNS, open_now)
    await each(conn, _RUN_BEGINS, _CONFIRM_COLUMNS, open_now)
    statuses = {row.id: row.status for row in begun}
    return [_beat(row.job, numbers, statuses) for row in rows]


async def _beat_many(conn: AsyncConnection, rows: Sequence[Beaten]) -> list[Beat | None]:
    values = []
    for row in rows:
        value = values_of(row)
        del value["now_ms"]
        values.append(value)
    found = await each(conn, _BEAT, _BEAT_COLUMNS, values)
    numbers = {row.job_id: row.number for row in found}
    statuses = {row.job_id: row.status for row in found}
    return [_beat(row.job, numbers, statuses) for row in rows]


def _beat(job: int, numbers: dict[int, int], statuses: dict[int, str]) -> Beat | None:
    if job not in numbers:
        return None
    return Beat(cancel=statuses.get(job) == "canceling", number=numbers[job])


CLAIMS: Batch[Claimed, bool] = Batch(name="claim", key=lambda row: ("job", row.job), many=_claim_many)
CONFIRMS: Batch[Confirmed, Beat | None] = Batch(
    name="confirm", key=lambda row: ("job", row.job), many=_confirm_many
)
BEATS: Batch[Beaten, Beat | None] = Batch(name="beat", key=lambda row: ("job", row.job), many=_beat_many)
