"""All that a starting hub must know again, read once.

What is final stays where it is: the queries touch unfinished jobs and open attempts only, through
the partial indices made for them.
"""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import AttemptRow, DeclineRow, JobRow, RunnerRow, RunRow, columns, read
from hub.store.tables import UNFINISHED

_STATUSES = ", ".join(f"'{status}'" for status in UNFINISHED)

_RUNS = f"""
    SELECT {columns(RunRow, "runs", without=("pipeline", "jobs_total", "jobs_done"))}, '' AS pipeline,
           0 AS jobs_total, 0 AS jobs_done
    FROM runs WHERE runs.status IN ('queued', 'running') ORDER BY runs.id
"""  # noqa: S608 - names of our own fields

# Both conditions, so that each query begins at the index of unfinished jobs.
_UNFINISHED = f"jobs.finished_ms IS NULL AND jobs.status IN ({_STATUSES})"

_JOBS = f"""
    SELECT {columns(JobRow, "jobs")} FROM jobs WHERE {_UNFINISHED} ORDER BY jobs.id
"""  # noqa: S608 - names of our own fields

_ATTEMPTS = f"""
    SELECT {columns(AttemptRow, "attempts")} FROM jobs
    JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
    WHERE {_UNFINISHED} AND attempts.ended_ms IS NULL ORDER BY attempts.id
"""  # noqa: S608 - names of our own fields

_LOST = f"""
    SELECT attempts.job_id, attempts.runner FROM jobs JOIN attempts ON attempts.job_id = jobs.id
    WHERE {_UNFINISHED} AND jobs.losses > 0
      AND (attempts.ended IN ('lost', 'runner removed')
           OR (attempts.outcome = 'error' AND attempts.short IS NULL))
"""  # noqa: S608 - words of our own

_DECLINES = f"""
    SELECT {columns(DeclineRow, "declines")} FROM jobs JOIN declines ON declines.job_id = jobs.id
    WHERE {_UNFINISHED} AND declines.at_ms > :since_ms ORDER BY declines.id
"""  # noqa: S608 - names of our own fields

_RUNNERS = f"SELECT {columns(RunnerRow, 'runners')} FROM runners ORDER BY runners.name"  # noqa: S608 - ours


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """What was unfinished when the hub stopped."""

    runs: tuple[RunRow, ...]  # without pipelines and counts
    jobs: tuple[JobRow, ...]
    attempts: tuple[AttemptRow, ...]  # open ones
    declines: tuple[DeclineRow, ...]
    lost_on: dict[int, frozenset[str]]  # by job: runners that failed under it
    runners: tuple[RunnerRow, ...]


async def load(conn: AsyncConnection, *, declines_since_ms: int) -> Loaded:
    """Everything of unfinished runs, open attempts, declines after `declines_since_ms`, and all runners."""
    lost_on: dict[int, frozenset[str]] = {}
    for row in await conn.execute(text(_LOST)):
        lost_on[row.job_id] = lost_on.get(row.job_id, frozenset()) | {row.runner}
    declines = await conn.execute(text(_DECLINES), {"since_ms": declines_since_ms})
    return Loaded(
        runs=tuple([read(RunRow, row) for row in await conn.execute(text(_RUNS))]),
        jobs=tuple([read(JobRow, row) for row in await conn.execute(text(_JOBS))]),
        attempts=tuple([read(AttemptRow, row) for row in await conn.execute(text(_ATTEMPTS))]),
        declines=tuple([read(DeclineRow, row) for row in declines]),
        lost_on=lost_on,
        runners=tuple([read(RunnerRow, row) for row in await conn.execute(text(_RUNNERS))]),
    )
