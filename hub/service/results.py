"""Test results and coverage: read off the files that runners send, once, and kept.

A file is read when it arrives, in a thread, one at a time; that it cannot be read is told with the
results and fails nobody's job. What is told of a job's results is in `results_show`.
"""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

from hub.dispatch.attempts import LiveAttempt
from hub.errors import BadRequest, Conflict
from hub.reports.bounded import Unreadable
from hub.reports.coverage import read_coverage
from hub.reports.junit import read_junit
from hub.service.hub import Hub
from hub.store import results as store
from hub.wire.base import to_json
from hub.wire.results import REPORT_KINDS, ReportBody, ReportKind, TestCounts
from hub.wire.runs import JobView

MAX_FILES = 500  # of one attempt that are read: build tools write one for each class of tests
MAX_CHARACTERS = 4 * 2**20  # kept of one attempt: of failed tests, their words and their output
MAX_OF_FILE = 2**20  # of these, of one file


def kind_of(text: str) -> ReportKind:
    """The kind that a runner names. Raises BadRequest."""
    for kind in REPORT_KINDS:
        if text == kind:
            return kind
    raise BadRequest(f"`report` is one of {', '.join(REPORT_KINDS)}")


async def put(hub: Hub, attempt: LiveAttempt, kind: ReportKind, path: str, file: Path) -> None:
    """Read a file of an open attempt and keep what it says. Raises Conflict where the attempt is over."""
    async with hub.store.read() as conn:
        held = await store.held(conn, job=attempt.job.id, attempt=attempt.number, path=path)
    room = min(MAX_OF_FILE, MAX_CHARACTERS - held.characters)
    if held.files >= MAX_FILES:
        new = _not_read(
            attempt, kind, path, f"{MAX_FILES} files of one job are read, and there were more before it"
        )
    else:
        async with hub.reading:
            new = await asyncio.to_thread(_read, attempt, kind, path, file, max(0, room))
    if not await store.put(hub.store.writer, new):
        raise Conflict("the attempt is over: stop what runs of it and drop the job")
    hub.events.tell(("job", attempt.job.id), ("run", attempt.job.run.id))


def _read(attempt: LiveAttempt, kind: ReportKind, path: str, file: Path, room: int) -> store.NewReport:
    try:
        if kind == "junit":
            tests = read_junit(file, room=room)
            body = ReportBody(failures=list(tests.failures), slowest=list(tests.slowest))
            return store.NewReport(
                job=attempt.job.id,
                lease=attempt.lease,
                path=path,
                kind=kind,
                notes=json.dumps(tests.notes),
                total=tests.total,
                failed=tests.failed,
                errors=tests.errors,
                skipped=tests.skipped,
                duration_ms=tests.duration_ms,
                body=to_json(body),
                fell=json.dumps(tests.fell),
                passed=tests.passed,
            )
        found = read_coverage(file)
    except Unreadable as error:
        return _not_read(attempt, kind, path, str(error))
    return store.NewReport(
        job=attempt.job.id,
        lease=attempt.lease,
        path=path,
        kind=kind,
        notes=json.dumps(found.notes),
        lines=found.lines,
        covered=found.covered,
        body=to_json(ReportBody(packages=list(found.packages))),
    )


def _not_read(attempt: LiveAttempt, kind: ReportKind, path: str, fault: str) -> store.NewReport:
    return store.NewReport(job=attempt.job.id, lease=attempt.lease, path=path, kind=kind, fault=fault)


async def with_results(hub: Hub, views: Sequence[JobView]) -> list[JobView]:
    """The views, each with its newest attempt's results in figures, where it left any."""
    async with hub.store.read() as conn:
        found = await store.totals(conn, [view.id for view in views if view.attempt])
    return [
        view.model_copy(update={"tests": counts_of(found[view.id]), "coverage": rate_of(found[view.id])})
        if view.id in found
        else view
        for view in views
    ]


def counts_of(row: store.TotalsRow) -> TestCounts | None:
    """A job's tests in figures; None: no file of tests was read."""
    if row.total is None:
        return None
    return TestCounts(
        total=row.total,
        failed=row.failed,
        errors=row.errors,
        skipped=row.skipped,
        duration_s=row.duration_ms / 1000,
    )


def rate_of(row: store.TotalsRow) -> float | None:
    """A job's coverage, from 0 to 1; None: no file of it was read."""
    return round(row.covered / row.lines, 4) if row.lines else None
