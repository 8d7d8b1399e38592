"""How long the queue was and how long jobs waited, bucket by bucket, from the rows of jobs and attempts.

A job waits from when it was queued until its first attempt was assigned, or until it was final without
one. What it waits after an attempt that was lost or given back does not count: it had its turn.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import read

MAX_BUCKETS = 500  # rows of one answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What happened in one stretch of time. `waiting`: jobs that waited at its end."""

    start_ms: int
    waiting: int
    taken: int  # jobs that a runner took
    mean_ms: int | None  # that those had waited; None: nobody took any
    most_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """Stretches of `bucket_ms`, oldest first. `as_of_ms`: when this was read, within the last of them."""

    as_of_ms: int
    bucket_ms: int
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    at: int  # number of the bucket; -1: before all of them
    came: int
    gone: int
    taken: int
    waited_ms: int
    most_ms: int


_BY_BUCKET = """
    WITH seen AS (
        SELECT jobs.queued_ms AS came_ms, attempts.assigned_ms AS taken_ms,
               coalesce(attempts.assigned_ms, jobs.finished_ms) AS gone_ms
        FROM jobs LEFT JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = 1
        WHERE jobs.queued_ms >= :since_ms AND {scope}
    )
    SELECT at, sum(came) AS came, sum(gone) AS gone, sum(taken) AS taken, sum(waited_ms) AS waited_ms,
           max(waited_ms) AS most_ms
    FROM (
        SELECT CASE WHEN came_ms < :start_ms THEN -1 ELSE (came_ms - :start_ms) / :bucket_ms END AS at,
               1 AS came, 0 AS gone, 0 AS taken, 0 AS waited_ms
        FROM seen
        UNION ALL
        SELECT CASE WHEN gone_ms < :start_ms THEN -1 ELSE (gone_ms - :start_ms) / :bucket_ms END,
               0, 1, CASE WHEN taken_ms IS NULL THEN 0 ELSE 1 END,
               CASE WHEN taken_ms > came_ms THEN taken_ms - came_ms ELSE 0 END
        FROM seen WHERE gone_ms IS NOT NULL
    ) AS edges
    GROUP BY at ORDER BY at
"""


async def day(
    conn: AsyncConnection,
    *,
    now_ms: int,
    bucket_ms: int,
    count: int,
    longest_ms: int,
    owner: str | None = None,
    project: str | None = None,
) -> Day:
    """The last `count` buckets up to now, of one owner's or one project's jobs, or of all (both None).

    `longest_ms`: no job waits longer, so that those queued earlier need not be looked at.
    """
    assert 0 < count <= MAX_BUCKETS, "a bounded answer"
    start_ms = (now_ms // bucket_ms - count + 1) * bucket_ms
    values: dict[str, str | int] = {
        "since_ms": start_ms - longest_ms,
        "start_ms": start_ms,
        "bucket_ms": bucket_ms,
    }
    scope = "TRUE"
    if project is not None:
        scope, values["project"] = "jobs.project = :project", project
    elif owner is not None:
        scope, values["owner"] = "substr(jobs.project, 1, length(:owner)) = :owner", f"{owner}/"
    found = await conn.execute(text(_BY_BUCKET.format(scope=scope)), values)
    rows = {row.at: row for row in map(_row, found)}
    waiting = _change(rows.get(-1))
    buckets = []
    for at in range(count):
        row = rows.get(at)
        waiting += _change(row)
        taken = row.taken if row is not None else 0
        buckets.append(
            Bucket(
                start_ms=start_ms + at * bucket_ms,
                waiting=waiting,
                taken=taken,
                mean_ms=row.waited_ms // taken if row is not None and taken else None,
                most_ms=row.most_ms if row is not None and taken else None,
            )
        )
    return Day(as_of_ms=now_ms, bucket_ms=bucket_ms, buckets=tuple(buckets))


def _row(row: Row[Any]) -> _Row:
    found = read(_Row, row)
    # a sum of integers is a decimal to PostgreSQL
    return _Row(**{name: int(getattr(found, name)) for name in _Row.__slots__})


def _change(row: _Row | None) -> int:
    return 0 if row is None else row.came - row.gone
