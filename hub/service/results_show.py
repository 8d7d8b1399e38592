"""A job's test results and coverage as a reader sees them: what failed, what is slow, what is flaky.

Files of one job add up. Flaky tests are worked out when somebody asks, from the last runs of the job:
see `hub.reports.flaky`.
"""

import asyncio
from heapq import nlargest

from pydantic import TypeAdapter

from hub.reports.flaky import Seen, flaky
from hub.reports.junit import SLOWEST
from hub.service import jobs
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.service.results import kind_of
from hub.store import results as store
from hub.wire.results import (
    Coverage,
    FlakyTest,
    PackageCoverage,
    ReportBody,
    ReportFile,
    Results,
    SlowTest,
    TestCounts,
)

MAX_FAILURES = 500  # in one answer; the rest is counted
MAX_PACKAGES = 500
MAX_FILES = 100

_NAMES: TypeAdapter[list[str]] = TypeAdapter(list[str])


async def view(hub: Hub, principal: Principal, job_id: int) -> Results:
    """The results of a job's newest attempt; empty where it left none."""
    job = await jobs.find(hub, principal, job_id)
    async with hub.store.read() as conn:
        rows = await store.of_job(conn, job_id)
        tested = any(row.kind == "junit" and row.fault is None for row in rows)
        outcomes = (
            await store.outcomes(conn, project=job.project, name=job.name, job=job_id) if tested else []
        )
    return await asyncio.to_thread(_results, job_id, job.attempt, rows, outcomes)


def _results(
    job_id: int, attempt: int, rows: list[store.ReportRow], outcomes: list[store.OutcomesRow]
) -> Results:
    read = [row for row in rows if row.fault is None]
    tests = [row for row in read if row.kind == "junit"]
    bodies = [ReportBody.model_validate_json(row.body) for row in read]
    failures = [one for body in bodies for one in body.failures]
    fallen = sum(row.failed + row.errors for row in tests)
    return Results(
        job=job_id,
        attempt=attempt,
        tests=_counted(tests) if tests else None,
        failures=failures[:MAX_FAILURES],
        more_failures=fallen - len(failures[:MAX_FAILURES]),
        slowest=nlargest(SLOWEST, [one for body in bodies for one in body.slowest], key=_duration_s),
        flaky=_flaky(outcomes),
        coverage=_coverage(
            [row for row in read if row.kind == "coverage"],
            [one for body in bodies for one in body.packages],
        ),
        files=[
            ReportFile(
                path=row.path, kind=kind_of(row.kind), fault=row.fault, notes=_NAMES.validate_json(row.notes)
            )
            for row in sorted(rows, key=lambda one: (one.fault is None, one.path))[:MAX_FILES]
        ],
        more_files=max(0, len(rows) - MAX_FILES),
    )


def _duration_s(test: SlowTest) -> float:
    return test.duration_s


def _file(row: store.ReportRow) -> ReportFile:
    notes = _NAMES.validate_json(row.notes)
    return ReportFile(path=row.path, kind=kind_of(row.kind), fault=row.fault, notes=notes)


def _counted(rows: list[store.ReportRow]) -> TestCounts:
    return TestCounts(
        total=sum(row.total for row in rows),
        failed=sum(row.failed for row in rows),
        errors=sum(row.errors for row in rows),
        skipped=sum(row.skipped for row in rows),
        duration_s=sum(row.duration_ms for row in rows) / 1000,
    )


def _flaky(outcomes: list[store.OutcomesRow]) -> list[FlakyTest]:
    by_job: dict[int, list[store.OutcomesRow]] = {}
    for row in reversed(outcomes):  # the oldest first
        by_job.setdefault(row.job_id, []).append(row)
    return flaky(
        [
            Seen(
                job=job,
                commit=rows[0].commit,
                fell=frozenset(name for row in rows for name in _NAMES.validate_json(row.fell)),
                passed=tuple(row.passed for row in rows if row.passed is not None),
            )
            for job, rows in by_job.items()
        ]
    )


def _coverage(rows: list[store.ReportRow], packages: list[PackageCoverage]) -> Coverage | None:
    """Files of one job add up: each is taken to be of other code, or of other tests."""
    if not rows:
        return None
    merged: dict[str, PackageCoverage] = {}
    for one in packages:
        before = merged.get(one.name)
        merged[one.name] = PackageCoverage(
            name=one.name,
            lines=one.lines + (before.lines if before else 0),
            covered=one.covered + (before.covered if before else 0),
        )
    least = sorted(merged.values(), key=lambda one: (one.covered / max(1, one.lines), one.name))
    lines, covered = sum(row.lines for row in rows), sum(row.covered for row in rows)
    return Coverage(
        rate=round(covered / lines, 4),
        lines=lines,
        covered=covered,
        packages=least[:MAX_PACKAGES],
        more_packages=max(0, len(least) - MAX_PACKAGES),
    )
