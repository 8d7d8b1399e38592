"""What follows for the rest of a run when one of its jobs has ended.

In the same transaction as that end, always: a job that waits for its needs is queued or skipped,
and the run's status says what its jobs say. Never called by itself.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import Change
from hub.store.sql import each

FINAL = frozenset({"succeeded", "failed", "canceled", "timed_out", "skipped", "error"})
_BEGUN = FINAL - {"skipped", "canceled"} | {"preparing", "running"}  # a runner has worked on it

_BLOCKED = """
    SELECT jobs.id, jobs.run_id, jobs.name, jobs.needs FROM INPUT JOIN jobs ON jobs.run_id = input.run
    WHERE jobs.status = 'blocked' ORDER BY jobs.id
"""

_STATUSES = """
    SELECT jobs.run_id, jobs.name, jobs.status FROM INPUT JOIN jobs ON jobs.run_id = input.run
"""

_COUNTS = """
    SELECT jobs.run_id, jobs.status, count(*) AS jobs FROM INPUT JOIN jobs ON jobs.run_id = input.run
    GROUP BY jobs.run_id, jobs.status
"""

_UNBLOCK = """
    UPDATE jobs
    SET status = input.status, waiting = NULL, held_since_ms = NULL, held_for = NULL,
        queued_ms = CASE WHEN input.status = 'queued' THEN :now_ms ELSE jobs.queued_ms END,
        finished_ms = CASE WHEN input.status = 'skipped' THEN CAST(:now_ms AS bigint) END
    FROM INPUT
    WHERE jobs.id = input.job AND jobs.status = 'blocked'
"""

_RUN_STATUS = """
    UPDATE runs
    SET status = CASE WHEN input.status = '' THEN runs.status ELSE input.status END,
        finished_ms = input.finished_ms
    FROM INPUT
    WHERE runs.id = input.run AND runs.finished_ms IS NULL
    RETURNING runs.id, runs.status
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of a run: the jobs that were waiting for others, and its status."""

    changes: tuple[Change, ...]
    run_status: str


async def settle(conn: AsyncConnection, runs: Collection[int], *, now_ms: int) -> dict[int, Settled]:
    """Bring the runs up to date after jobs of theirs changed; one answer for each run that is not over."""
    if not runs:
        return {}
    asked = [{"run": run} for run in sorted(runs)]
    changes = await _unblock(conn, asked, now_ms)
    counts: dict[int, dict[str, int]] = {}
    for row in await each(conn, _COUNTS, "run bigint", asked):
        counts.setdefault(row.run_id, {})[row.status] = row.jobs
    rows: list[dict[str, str | int | None]] = [
        {"run": run, "status": status or "", "finished_ms": now_ms if set(jobs) <= FINAL else None}
        for run, jobs in counts.items()
        for status in [run_status(jobs)]
    ]
    updated = await each(conn, _RUN_STATUS, "run bigint, status text, finished_ms bigint", rows)
    return {
        row.id: Settled(
            changes=tuple(change for change in changes if change.run == row.id), run_status=row.status
        )
        for row in updated
    }


def run_status(statuses: Collection[str]) -> str | None:
    """A run's status from those of its jobs; None: it stays what it was (queued, or running).

    Skipped jobs follow from the others, so that they decide nothing.
    """
    if set(statuses) <= FINAL:
        for status, reasons in (
            ("error", {"error"}),
            ("failed", {"failed", "timed_out"}),
            ("canceled", {"canceled"}),
        ):
            if reasons & set(statuses):
                return status
        return "succeeded"
    return "running" if _BEGUN & set(statuses) else None


def changes_of(settled: Mapping[int, Settled]) -> tuple[Change, ...]:
    """All changes of what `settle` answered."""
    return tuple(change for one in settled.values() for change in one.changes)


async def _unblock(conn: AsyncConnection, asked: list[dict[str, int]], now_ms: int) -> list[Change]:
    blocked = await each(conn, _BLOCKED, "run bigint", asked)
    if not blocked:
        return []
    statuses: dict[int, dict[str, str]] = {}
    for row in await each(conn, _STATUSES, "run bigint", asked):
        statuses.setdefault(row.run_id, {})[row.name] = row.status
    changes: list[Change] = []
    for run, known in statuses.items():
        changes += _follow([row for row in blocked if row.run_id == run], known)
    if changes:
        rows = [{"job": change.job, "status": change.status} for change in changes]
        await each(conn, _UNBLOCK, "job bigint, status text", rows, now_ms=now_ms)
    return changes


def _follow(blocked: Iterable[Any], known: Mapping[str, str]) -> list[Change]:
    """What becomes of the `blocked` jobs of one run: a skipped one may make others be skipped."""
    statuses = dict(known)
    waiting = {row: json.loads(row.needs) for row in blocked}
    changes: list[Change] = []
    moved = True
    while moved:
        moved = False
        for row, needs in list(waiting.items()):
            ends = {statuses.get(name, "skipped") for name in needs}
            if ends == {"succeeded"} or not ends:
                status = "queued"
            elif ends & (FINAL - {"succeeded"}):
                status = "skipped"
            else:
                continue
            statuses[row.name] = status
            changes.append(Change(job=row.id, run=row.run_id, status=status))
            del waiting[row]
            moved = True
    return changes
