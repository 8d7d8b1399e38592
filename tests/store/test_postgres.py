"""PostgreSQL's own troubles: lines that break, at the worst moments, and servers that restart."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncTransaction

from hub.store.engine import Store, open_store
from hub.store.errors import is_disk_full
from tests.postgres import Cluster
from tests.store.making import claim, job_row, submit

pytestmark = pytest.mark.postgres


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[Store]:
    store = await open_store(postgres_url)
    yield store
    await store.close()


async def backend(conn: AsyncConnection) -> int:
    """The server's process behind a connection."""
    return int((await conn.execute(text("SELECT pg_backend_pid()"))).scalar_one())


async def test_a_line_that_broke_while_idle_is_made_anew(store: Store, postgres_cluster: Cluster) -> None:
    first = await store.writer.run(backend)
    await postgres_cluster.admin(f"SELECT pg_terminate_backend({first})")
    (job,) = await submit(store)
    assert await store.writer.run(backend) != first
    assert (await job_row(store, job)).status == "queued"


async def test_a_batch_whose_line_breaks_is_written_once_on_a_new_one(
    store: Store, postgres_cluster: Cluster
) -> None:
    tries: list[int] = []

    async def unit(conn: AsyncConnection) -> int:
        tries.append(await backend(conn))
        await conn.execute(text("INSERT INTO workspaces VALUES ('h', 'a/b', 1, 1)"))
        if len(tries) == 1:
            await postgres_cluster.admin(f"SELECT pg_terminate_backend({tries[0]})")
        return int((await conn.execute(text("SELECT count(*) FROM workspaces"))).scalar_one())

    counted, _ = await asyncio.gather(store.writer.run(unit), submit(store))
    assert counted == 1
    assert len(set(tries)) == len(tries) == 2


@pytest.mark.parametrize("applied", [True, False])
async def test_a_commit_whose_answer_was_lost_is_asked_after(
    store: Store, postgres_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, applied: bool
) -> None:
    """The claim is given once and told once, whichever side of the commit the line broke on."""
    (job,) = await submit(store)
    commit = AsyncTransaction.commit
    broken: list[int] = []

    async def break_once(transaction: AsyncTransaction) -> None:
        if not broken:
            broken.append(await backend(transaction.connection))
            if applied:
                await commit(transaction)
            await postgres_cluster.admin(f"SELECT pg_terminate_backend({broken[0]})")
            if applied:
                raise DBAPIError("COMMIT", None, OSError("the line broke"), connection_invalidated=True)
        await commit(transaction)

    monkeypatch.setattr(AsyncTransaction, "commit", break_once)
    await claim(store, job, confirm=False)
    assert len(broken) == 1
    row = await job_row(store, job)
    assert (row.status, row.attempt) == ("assigned", 1)


async def test_a_server_that_restarts_delays_writes_and_loses_none(
    store: Store, postgres_cluster: Cluster
) -> None:
    await submit(store)
    writing = True
    jobs: list[int] = []

    async def submit_all_the_time() -> None:
        while writing:
            jobs.extend(await submit(store))

    tasks = [asyncio.create_task(submit_all_the_time()) for _ in range(4)]
    await asyncio.to_thread(postgres_cluster.control, "-m", "fast", "stop")
    await asyncio.to_thread(postgres_cluster.start)
    before = len(jobs)
    async with asyncio.timeout(20):
        while len(jobs) < before + 20:
            await asyncio.sleep(0.01)
    writing = False
    await asyncio.gather(*tasks)
    async with store.read() as conn:
        known = list((await conn.execute(text("SELECT id FROM jobs ORDER BY id"))).scalars())
    assert sorted(jobs) == known[1:]


async def test_a_serialization_failure_is_tried_again_and_other_errors_are_not(store: Store) -> None:
    tries: list[str] = []

    async def raising(conn: AsyncConnection, code: str) -> None:
        tries.append(code)
        if tries.count(code) == 1:
            await conn.execute(text(f"DO $$ BEGIN RAISE SQLSTATE '{code}'; END $$"))

    with pytest.raises(DBAPIError) as full:
        await store.writer.run(lambda conn: raising(conn, "53100"))
    assert is_disk_full(full.value)
    tries.clear()
    await store.writer.run(lambda conn: raising(conn, "40001"))
    assert tries == ["40001", "40001"]
    with pytest.raises(DBAPIError):
        await store.writer.run(lambda conn: raising(conn, "22012"))
    assert tries.count("22012") == 1
