"""Test results and coverage at rest: written while their attempt is open, as its lease says.

The newest attempt's rows are a job's results. What is needed to tell a flaky test, the digests of the
tests that passed, is kept for the last KEPT jobs of a name; all else stays.
"""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import columns, read
from hub.store.sql import MAX_ROWS, each
from hub.store.writer import Writer

KEPT = 20  # jobs of one project and name whose passed tests are known: as many as are compared
MAX_READ = 2000  # rows of these jobs that are read at once


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReport:
    """A file of the attempt that holds the lease, read or (`fault`) not. JSON as the table has it."""

    job: int
    lease: str
    path: str
    kind: str
    fault: str | None = None
    notes: str = "[]"
    total: int = 0
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    duration_ms: int = 0
    lines: int = 0
    covered: int = 0
    body: str = "{}"
    fell: str = "[]"
    passed: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """A file that was read, without what only comparisons need."""

    path: str
    kind: str
    fault: str | None
    notes: str
    total: int
    failed: int
    errors: int
    skipped: int
    duration_ms: int
    lines: int
    covered: int
    body: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalsRow:
    """A job's results in figures. None: no file of that kind was read."""

    job_id: int
    total: int | None
    failed: int
    errors: int
    skipped: int
    duration_ms: int
    lines: int | None
    covered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomesRow:
    """The tests of one file, by how they ended. `fell`: JSON list; `passed` None: no longer known."""

    job_id: int
    commit: str | None
    fell: str
    passed: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """What is there of an attempt already."""

    files: int
    characters: int  # of all bodies


_PUT = """
    INSERT INTO reports (job_id, attempt, path, kind, project, name, "commit", fault, notes, total, failed,
                         errors, skipped, duration_ms, lines, covered, body, fell, passed)
    SELECT attempts.job_id, attempts.number, :path, :kind, jobs.project, jobs.name, runs."commit",
           :fault, :notes, :total, :failed, :errors, :skipped, :duration_ms, :lines, :covered, :body, :fell,
           :passed
    FROM attempts JOIN jobs ON jobs.id = attempts.job_id JOIN runs ON runs.id = jobs.run_id
    WHERE attempts.job_id = :job AND attempts.lease = :lease AND attempts.ended_ms IS NULL
    ON CONFLICT (job_id, attempt, path) DO UPDATE SET
        kind = excluded.kind, fault = excluded.fault, notes = excluded.notes, total = excluded.total,
        failed = excluded.failed, errors = excluded.errors, skipped = excluded.skipped,
        duration_ms = excluded.duration_ms, lines = excluded.lines, covered = excluded.covered,
        body = excluded.body, fell = excluded.fell, passed = excluded.passed
    RETURNING project, name
"""

# The job that has just left the last KEPT of its name; or this one, if it is older still.
_FORGET = """
    UPDATE reports SET passed = NULL
    WHERE project = :project AND name = :name AND job_id IN (:job, (
        SELECT job_id FROM reports WHERE project = :project AND name = :name
        GROUP BY job_id ORDER BY job_id DESC LIMIT 1 OFFSET :kept
    )) AND job_id <= (
        SELECT job_id FROM reports WHERE project = :project AND name = :name
        GROUP BY job_id ORDER BY job_id DESC LIMIT 1 OFFSET :kept
    )
"""

_HELD = """
    SELECT count(*) AS files, coalesce(sum(length(body)), 0) AS characters FROM reports
    WHERE job_id = :job AND attempt = :attempt AND path <> :path
"""

_OF_JOB = f"""
    SELECT {columns(ReportRow, "reports")} FROM reports
    JOIN jobs ON jobs.id = reports.job_id AND jobs.attempt = reports.attempt
    WHERE reports.job_id = :job ORDER BY reports.path
"""  # noqa: S608 - names of our own fields

_TOTALS = """
    SELECT reports.job_id, sum(CASE WHEN kind = 'junit' THEN total END) AS total,
           sum(failed) AS failed, sum(errors) AS errors, sum(skipped) AS skipped,
           sum(reports.duration_ms) AS duration_ms,
           sum(CASE WHEN kind = 'coverage' THEN lines END) AS lines, sum(covered) AS covered
    FROM INPUT JOIN jobs ON jobs.id = input.job
    JOIN reports ON reports.job_id = jobs.id AND reports.attempt = jobs.attempt
    WHERE reports.fault IS NULL
    GROUP BY reports.job_id
"""

_OUTCOMES = """
    SELECT job_id, "commit", fell, passed FROM reports
    WHERE project = :project AND name = :name AND kind = 'junit' AND fault IS NULL AND job_id <= :job
      AND job_id >= coalesce((
        SELECT job_id FROM reports WHERE project = :project AND name = :name AND job_id <= :job
        GROUP BY job_id ORDER BY job_id DESC LIMIT 1 OFFSET :before
      ), 0)
    ORDER BY job_id DESC, id LIMIT :limit
"""


async def put(writer: Writer, report: NewReport) -> bool:
    """Keep what was read of a file; False: the attempt is over."""

    async def unit(conn: AsyncConnection) -> bool:
        made = (await conn.execute(text(_PUT), asdict(report))).one_or_none()
        if made is not None and report.kind == "junit":
            values = {"project": made.project, "name": made.name, "job": report.job, "kept": KEPT}
            await conn.execute(text(_FORGET), values)
        return made is not None

    return await writer.run(unit, key=("job", report.job))


async def held(conn: AsyncConnection, *, job: int, attempt: int, path: str) -> HeldRow:
    """How much there is of an attempt beside the file at `path`."""
    row = (await conn.execute(text(_HELD), {"job": job, "attempt": attempt, "path": path})).one()
    return read(HeldRow, row)


async def of_job(conn: AsyncConnection, job_id: int) -> list[ReportRow]:
    """The files of a job's newest attempt, by path."""
    return [read(ReportRow, row) for row in await conn.execute(text(_OF_JOB), {"job": job_id})]


async def totals(conn: AsyncConnection, job_ids: Collection[int]) -> Mapping[int, TotalsRow]:
    """The figures of these jobs' newest attempts, by job; one without any is not among them."""
    ids = sorted(job_ids)
    found: dict[int, TotalsRow] = {}
    for start in range(0, len(ids), MAX_ROWS):
        asked = [{"job": job_id} for job_id in ids[start : start + MAX_ROWS]]
        for row in await each(conn, _TOTALS, "job bigint", asked):
            values: dict[str, Any] = {  # a sum of integers is a decimal to PostgreSQL
                name: None if value is None else int(value) for name, value in row._mapping.items()
            }
            found[row.job_id] = TotalsRow(**values)
    return found


async def outcomes(conn: AsyncConnection, *, project: str, name: str, job: int) -> list[OutcomesRow]:
    """The tests of `job` and of the jobs of this name before it, KEPT in all at most; the newest first."""
    values = {"project": project, "name": name, "job": job, "before": KEPT - 1, "limit": MAX_READ}
    return [read(OutcomesRow, row) for row in await conn.execute(text(_OUTCOMES), values)]
