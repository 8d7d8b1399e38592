"""Runs: submitted whole, and read for the pages.

A run and its jobs appear in one transaction. The same key in the same project gives the same run,
also when two submitters come at once. What a reader may see is decided by the caller: here are
filters, not rights.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import AttemptRow, JobRow, RunRow, columns, read
from hub.store.sql import MAX_ROWS, each
from hub.store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A run as it is submitted. `workspace`: JSON of wire Workspace."""

    project: str
    pipeline: str
    created_ms: int
    title: str | None = None
    ref: str | None = None
    commit: str | None = None
    priority: int = 0
    key: str | None = None  # chosen by the submitter; None: each submission is a new run
    submitted_by: str | None = None
    retry_of: int | None = None
    workspace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job of a new run. `needs`: names of jobs of the same run. `spec`: JSON of wire JobSpec.

    `shortages`: JSON list of wire Shortage, of the job that this one runs again; None: it has none.
    """

    name: str
    spec: str
    needs: tuple[str, ...] = ()
    shortages: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The run that a submission gave. `existed`: its key was known, and nothing was written."""

    run_id: int
    job_ids: tuple[int, ...]  # in the order of the submission
    existed: bool


_INSERT_RUN = """
    INSERT INTO runs (project, status, title, ref, "commit", priority, "key", submitted_by, retry_of,
                      pipeline, workspace, created_ms)
    VALUES (:project, 'queued', :title, :ref, :commit, :priority, :key, :submitted_by, :retry_of,
            :pipeline, :workspace, :created_ms)
    ON CONFLICT (project, "key") DO NOTHING
    RETURNING id
"""

_INSERT_JOBS = """
    INSERT INTO jobs (run_id, position, project, name, status, spec, needs, priority, attempt, losses,
                      placed, queued_ms, created_ms, log_bytes, shortages)
    SELECT :run, position, :project, name, status, spec, needs, :priority, 0, 0, '',
           CASE WHEN status = 'queued' THEN CAST(:created_ms AS bigint) END, :created_ms, 0, shortages
    FROM INPUT
    ORDER BY position
    RETURNING id, position
"""

_RUN = f"""
    SELECT {columns(RunRow, "runs", without=("pipeline", "jobs_total", "jobs_done"))},
           {{pipeline}} AS pipeline,
           (SELECT count(*) FROM jobs WHERE jobs.run_id = runs.id) AS jobs_total,
           (SELECT count(*) FROM jobs
            WHERE jobs.run_id = runs.id AND jobs.finished_ms IS NOT NULL) AS jobs_done
    FROM runs
"""  # noqa: S608 - names of our own fields

_JOBS = f"SELECT {columns(JobRow, 'jobs')} FROM jobs"  # noqa: S608 - names of our own fields

_JOBS_BY_ID = f"{_JOBS} JOIN INPUT ON input.job = jobs.id ORDER BY jobs.id"

_ATTEMPTS = f"""
    SELECT {columns(AttemptRow, "attempts")} FROM INPUT JOIN attempts ON attempts.job_id = input.job
    ORDER BY attempts.job_id, attempts.number
"""  # noqa: S608 - names of our own fields


async def submit(writer: Writer, run: NewRun, jobs: Sequence[NewJob]) -> Submitted:
    """Store a run: jobs without needs are queued, the others blocked.

    Raises ValueError where there is no job, two have one name, or a need is not among them.
    """
    names = {job.name for job in jobs}
    if not jobs or len(names) < len(jobs) or not all(names.issuperset(job.needs) for job in jobs):
        raise ValueError("a run has at least one job, each with its own name, that needs only its fellows")
    rows: list[dict[str, str | int | None]] = [
        {
            "position": position,
            "name": job.name,
            "status": "blocked" if job.needs else "queued",
            "spec": job.spec,
            "needs": json.dumps(job.needs),
            "shortages": job.shortages,
        }
        for position, job in enumerate(jobs)
    ]
    return await writer.run(lambda conn: _submit(conn, run, rows), key="submit")


async def _submit(conn: AsyncConnection, run: NewRun, rows: list[dict[str, str | int | None]]) -> Submitted:
    made = (await conn.execute(text(_INSERT_RUN), asdict(run))).scalar_one_or_none()
    if made is None:
        return await _known(conn, run)
    created = await each(
        conn,
        _INSERT_JOBS,
        "position bigint, name text, status text, spec text, needs text, shortages text",
        rows,
        run=made,
        project=run.project,
        priority=run.priority,
        created_ms=run.created_ms,
    )
    ids = {row.position: row.id for row in created}
    return Submitted(run_id=made, job_ids=tuple(ids[position] for position in sorted(ids)), existed=False)


async def _known(conn: AsyncConnection, run: NewRun) -> Submitted:
    query = 'SELECT id FROM runs WHERE project = :project AND "key" = :key'
    run_id = (await conn.execute(text(query), {"project": run.project, "key": run.key})).scalar_one()
    jobs = await conn.execute(
        text("SELECT id FROM jobs WHERE run_id = :run ORDER BY position"), {"run": run_id}
    )
    return Submitted(run_id=run_id, job_ids=tuple(jobs.scalars()), existed=True)


async def get(conn: AsyncConnection, run_id: int) -> RunRow | None:
    """One run, with its pipeline's text."""
    query = _RUN.format(pipeline="runs.pipeline") + "WHERE runs.id = :id"
    row = (await conn.execute(text(query), {"id": run_id})).one_or_none()
    return None if row is None else read(RunRow, row)


async def page(
    conn: AsyncConnection,
    *,
    owner: str | None = None,
    project: str | None = None,
    status: str | None = None,
    search: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[RunRow]:
    """The newest `limit` runs that meet every filter, without their pipelines.

    `owner`: those whose project is of this owner; `search`: words in the title, whatever their case;
    `before`: only runs with a smaller id. None: any.
    """
    filters: dict[str, tuple[str, str | int | None]] = {
        "owner": ("substr(runs.project, 1, length(:owner)) = :owner", owner and f"{owner}/"),
        "project": ("runs.project = :project", project),
        "status": ("runs.status = :status", status),
        "search": (r"lower(runs.title) LIKE :search ESCAPE '\'", search and f"%{_literal(search.lower())}%"),
        "before": ("runs.id < :before", before),
    }
    used = {name: both for name, both in filters.items() if both[1] is not None and both[1] != ""}
    where = " AND ".join(condition for condition, _ in used.values()) or "TRUE"
    query = _RUN.format(pipeline="''") + f"WHERE {where} ORDER BY runs.id DESC LIMIT :limit"
    values = {name: value for name, (_, value) in used.items()}
    return [read(RunRow, row) for row in await conn.execute(text(query), {**values, "limit": limit})]


def _literal(words: str) -> str:
    r"""`words` with what LIKE would take as a pattern escaped by `\`."""
    return words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


async def jobs_of(conn: AsyncConnection, run_id: int) -> list[JobRow]:
    """The jobs of a run, in the pipeline's order."""
    query = f"{_JOBS} WHERE jobs.run_id = :run ORDER BY jobs.position"
    return [read(JobRow, row) for row in await conn.execute(text(query), {"run": run_id})]


async def jobs_by_id(conn: AsyncConnection, job_ids: Collection[int]) -> list[JobRow]:
    """These jobs, by id; those that are not there are left out."""
    found: list[JobRow] = []
    ids = sorted(job_ids)
    for start in range(0, len(ids), MAX_ROWS):
        asked = [{"job": job_id} for job_id in ids[start : start + MAX_ROWS]]
        found += [read(JobRow, row) for row in await each(conn, _JOBS_BY_ID, "job bigint", asked)]
    return found


async def job(conn: AsyncConnection, job_id: int) -> JobRow | None:
    """One job."""
    row = (await conn.execute(text(f"{_JOBS} WHERE jobs.id = :id"), {"id": job_id})).one_or_none()
    return None if row is None else read(JobRow, row)


async def attempts_of(conn: AsyncConnection, job_ids: Collection[int]) -> Mapping[int, list[AttemptRow]]:
    """The attempts at these jobs by job, oldest first; a job without any is not among them."""
    ids = sorted(job_ids)
    found: dict[int, list[AttemptRow]] = {}
    for start in range(0, len(ids), MAX_ROWS):
        asked = [{"job": job_id} for job_id in ids[start : start + MAX_ROWS]]
        for row in await each(conn, _ATTEMPTS, "job bigint", asked):
            found.setdefault(row.job_id, []).append(read(AttemptRow, row))
    return found


async def comparison(conn: AsyncConnection, job_id: int, number: int) -> str | None:
    """The whole comparison behind an attempt's placement: see tables.Comparison."""
    query = "SELECT body FROM comparisons WHERE job_id = :job AND number = :number"
    found: str | None = (
        await conn.execute(text(query), {"job": job_id, "number": number})
    ).scalar_one_or_none()
    return found
