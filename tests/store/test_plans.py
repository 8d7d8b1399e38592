"""No hot statement reads a whole table: what it costs does not grow with what the hub has ever done."""

import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from hub.store import artifacts, history, queue_day, results, runners, runs, startup, tokens
from hub.store import attempts as attempt_store
from hub.store import jobs as job_store
from hub.store.engine import Store
from tests.store.making import beat, claim, end, finish, start, submit

ALLOWED = ("SCAN runners USING INDEX",)  # at a start all of them are wanted, in order
TABLES = "jobs|attempts|runs|runners|tokens|artifacts|declines|workspaces|reports"


@pytest.fixture
async def said(store: Store) -> AsyncIterator[list[tuple[str, Any]]]:
    """The statements of this test, with what they were given."""
    statements: list[tuple[str, Any]] = []

    def note(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", statement):
            statements.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    yield statements
    event.remove(Engine, "before_cursor_execute", note)


async def work(store: Store) -> None:
    """Every operation that is done for each job, each heartbeat, each call or each page."""
    await runners.add(store.writer, runners.NewRunner(name="earth-9", token_hash="h", created_ms=1))
    jobs = await submit(store, {"a": (), "after": ("a",), "b": (), "c": (), "d": ()}, key="k")
    await submit(store, {"a": ()}, key="k")
    await job_store.hold(store.writer, job_store.Held(job=jobs[0], since_ms=1, awaited="x"))
    await job_store.save_waiting(store.writer, [job_store.Waited(job=jobs[0], waiting="{}")])
    lease = await claim(store, jobs[0], confirm=False)
    await start(store, jobs[0], lease)
    await beat(store, jobs[0], lease, now_ms=3000)
    file = artifacts.NewArtifact(job=jobs[0], lease=lease, path="a", bytes=1, hash="00")
    await artifacts.put(store.writer, file)
    await results.put(store.writer, results.NewReport(job=jobs[0], lease=lease, path="a", kind="junit"))
    await finish(store, jobs[0], lease)
    for number in (1, 2, 3):
        await claim(store, jobs[2], number=number)
        await end(store, jobs[2], "lost", number=number)
    await end(store, jobs[3], "declined", lease=await claim(store, jobs[3]))
    await claim(store, jobs[4])
    await runners.save(store.writer, runners.Saved(name="earth-9", heard_ms=1))
    await runners.remove(store.writer, "earth-9", now_ms=5000)
    await job_store.fail_queued(store.writer, job=jobs[1], attempt=0, error="x", now_ms=6000)
    await job_store.cancel_job(store.writer, jobs[3], now_ms=7000, start_ms=1)
    await job_store.cancel_run(store.writer, 1, now_ms=7000, start_ms=1)
    async with store.read() as conn:
        await attempt_store.by_lease(conn, jobs[0], lease)
        await runs.get(conn, 1)
        await runs.page(conn, project="andy/demo", before=9)
        await runs.jobs_of(conn, 1)
        await runs.jobs_by_id(conn, jobs)
        await runs.attempts_of(conn, jobs)
        await runs.comparison(conn, jobs[0], 1)
        await history.recent(conn, project="andy/demo", name="a")
        await artifacts.listing(conn, jobs[0])
        await queue_day.day(conn, now_ms=9000, bucket_ms=100, count=9, longest_ms=100)
        await results.held(conn, job=jobs[0], attempt=1, path="a")
        await results.of_job(conn, jobs[0])
        await results.totals(conn, jobs)
        await results.outcomes(conn, project="andy/demo", name="a", job=jobs[0])
        await runners.by_hash(conn, "h")
        await tokens.by_hash(conn, "h")
        await startup.load(conn, declines_since_ms=0)


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_sqlite_finds_every_row_by_an_index(
    store: Store, said: list[tuple[str, Any]], tmp_path: Path
) -> None:
    await work(store)
    await store.close()
    scans: list[str] = []
    with contextlib.closing(sqlite3.connect(tmp_path / "hub.sqlite")) as conn:
        for statement, parameters in said:
            plan = [row[3] for row in conn.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            scans += [f"{line}: {statement}" for line in plan if re.match(rf"SCAN ({TABLES})\b", line)]
    assert len(said) > 50
    wholly = [scan for scan in scans if not scan.startswith(ALLOWED)]
    assert not wholly, "\n".join(wholly)
