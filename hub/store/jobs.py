"""Jobs: holds, waiting reasons, cancels, and the ends that no runner brought about.

Every change repeats in its WHERE the state it starts from. A cancel writes nothing that says when
a runner was last heard of: the lease runs on as its runner renewed it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import Change
from hub.store.settle import changes_of, settle
from hub.store.sql import MAX_ROWS, each
from hub.store.writer import Batch, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A queued job is passed over for a better runner; `awaited` None: for none any more."""

    job: int
    since_ms: int  # of its first pass; what is stored already stays
    awaited: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Why a job waits, as last worked out: JSON of wire Waiting."""

    job: int
    waiting: str


_HOLD = """
    UPDATE jobs
    SET held_since_ms = COALESCE(jobs.held_since_ms, input.since_ms), held_for = input.awaited
    FROM INPUT
    WHERE jobs.id = input.job AND jobs.status = 'queued'
    RETURNING jobs.id
"""

_WAITING = """
    UPDATE jobs SET waiting = input.waiting FROM INPUT
    WHERE jobs.id = input.job AND jobs.status IN ('queued', 'blocked')
"""

_CANCEL_WAITING = """
    UPDATE jobs
    SET status = 'canceled', finished_ms = :now_ms, cancel_ms = :now_ms, waiting = NULL, held_for = NULL
    WHERE {which} AND status IN ('queued', 'blocked')
    RETURNING id, run_id, status
"""

_CANCEL_OUT = """
    UPDATE jobs SET status = 'canceling', cancel_ms = :now_ms
    WHERE {which} AND status IN ('assigned', 'preparing', 'running')
    RETURNING id, run_id, status
"""

# An attempt out for a canceled job whose runner will never ask: its lease is over, or nobody took it.
_CLOSE_SILENT = """
    UPDATE attempts
    SET ended_ms = :now_ms, ended = 'canceled', reason =
        CASE WHEN confirmed_ms IS NULL THEN 'its claim was not confirmed'
             ELSE 'its runner was already silent' END
    WHERE ended_ms IS NULL AND job_id IN (SELECT id FROM jobs WHERE {which} AND status = 'canceling')
      AND (expires_ms <= :now_ms OR (confirmed_ms IS NULL AND assigned_ms <= :unconfirmed_ms))
    RETURNING job_id
"""

_CANCEL_SILENT = """
    UPDATE jobs SET status = 'canceled', finished_ms = :now_ms
    FROM INPUT
    WHERE jobs.id = input.job AND jobs.status = 'canceling'
    RETURNING jobs.id, jobs.run_id, jobs.status
"""

_FAIL = """
    UPDATE jobs SET status = 'error', error = :error, finished_ms = :now_ms, waiting = NULL, held_for = NULL
    WHERE id = :job AND attempt = :attempt AND status IN ('queued', 'blocked')
    RETURNING id, run_id, status
"""


async def hold(writer: Writer, held: Held) -> bool:
    """Note that a job is held; False: it is queued no more."""
    return await writer.put(HOLDS, held)


async def _hold_many(conn: AsyncConnection, rows: Sequence[Held]) -> list[bool]:
    values = [{"job": row.job, "since_ms": row.since_ms, "awaited": row.awaited} for row in rows]
    matched = {row.id for row in await each(conn, _HOLD, "job bigint, since_ms bigint, awaited text", values)}
    return [row.job in matched for row in rows]


HOLDS: Batch[Held, bool] = Batch(name="hold", key=lambda row: ("job", row.job), many=_hold_many)


async def save_waiting(writer: Writer, rows: Sequence[Waited]) -> None:
    """Keep the last known waiting reasons, for those jobs that still wait."""
    for start in range(0, len(rows), MAX_ROWS):
        some = rows[start : start + MAX_ROWS]

        async def unit(conn: AsyncConnection, some: Sequence[Waited] = some) -> None:
            await each(conn, _WAITING, "job bigint, waiting text", [asdict(row) for row in some])

        await writer.run(unit, key="waiting")


async def cancel_run(writer: Writer, run_id: int, *, now_ms: int, start_ms: int) -> tuple[Change, ...]:
    """Cancel every job of a run that is not final; see `cancel_job`."""
    return await writer.run(lambda conn: _cancel(conn, "run_id = :id", run_id, now_ms, start_ms))


async def cancel_job(writer: Writer, job_id: int, *, now_ms: int, start_ms: int) -> tuple[Change, ...]:
    """What waits is canceled at once; what is out is canceling until its runner says that it stopped.

    An attempt whose lease has run out, or that nobody confirmed within `start_ms`, is canceled at
    once: its runner would never ask. The changes include those of jobs that needed the canceled
    ones; empty: there was nothing to cancel.
    """
    return await writer.run(lambda conn: _cancel(conn, "id = :id", job_id, now_ms, start_ms))


async def _cancel(
    conn: AsyncConnection, which: str, id_: int, now_ms: int, start_ms: int
) -> tuple[Change, ...]:
    changes: dict[int, Change] = {}
    for statement in (_CANCEL_WAITING, _CANCEL_OUT):
        found = await conn.execute(text(statement.format(which=which)), {"id": id_, "now_ms": now_ms})
        changes |= {row.id: Change(job=row.id, run=row.run_id, status=row.status) for row in found}
    silent = await conn.execute(
        text(_CLOSE_SILENT.format(which=which)),
        {"id": id_, "now_ms": now_ms, "unconfirmed_ms": now_ms - start_ms},
    )
    jobs = [{"job": row.job_id} for row in silent]
    for row in await each(conn, _CANCEL_SILENT, "job bigint", jobs, now_ms=now_ms) if jobs else ():
        changes[row.id] = Change(job=row.id, run=row.run_id, status=row.status)
    followed = await settle(conn, {change.run for change in changes.values()}, now_ms=now_ms)
    return (*changes.values(), *changes_of(followed))


async def fail_queued(
    writer: Writer, *, job: int, attempt: int, error: str, now_ms: int
) -> tuple[Change, ...]:
    """End a waiting job that cannot run: it waited too long, or its row is not valid.

    `attempt`: the number it had when that was found; empty: the job has moved on since then.
    """

    async def unit(conn: AsyncConnection) -> tuple[Change, ...]:
        parameters = {"job": job, "attempt": attempt, "error": error, "now_ms": now_ms}
        row = (await conn.execute(text(_FAIL), parameters)).one_or_none()
        if row is None:
            return ()
        followed = await settle(conn, {row.run_id}, now_ms=now_ms)
        return (Change(job=row.id, run=row.run_id, status=row.status), *changes_of(followed))

    return await writer.run(unit, key=("job", job))
