"""Opening the store: one hub per database, every acknowledged row on the disk."""

import asyncio
import contextlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import text

from hub.store import postgres
from hub.store.engine import Store, database_of, open_store
from hub.store.errors import BadUrl, InUse
from tests.store.making import job_row, submit

# A hub that submits as fast as it can, and says each run's first job once that is acknowledged.
_SUBMITS = """
import asyncio, sys
from hub.store import runs
from hub.store.engine import open_store

async def submit(store, number):
    while True:
        run = runs.NewRun(project="a/b", pipeline="x" * 2000, created_ms=number)
        made = await runs.submit(store.writer, run, [runs.NewJob(name="build", spec="{}")])
        sys.stdout.write(f"{made.job_ids[0]}\\n")
        sys.stdout.flush()

async def main():
    store = await open_store(sys.argv[1])
    await asyncio.gather(*(submit(store, number) for number in range(20)))

asyncio.run(main())
"""


async def test_nothing_is_acknowledged_that_a_killed_hub_does_not_know_again(url: str) -> None:
    acknowledged: list[int] = []
    with subprocess.Popen([sys.executable, "-c", _SUBMITS, url], stdout=subprocess.PIPE, text=True) as hub:
        assert hub.stdout is not None
        for line in hub.stdout:
            acknowledged.append(int(line))
            if len(acknowledged) == 200:
                hub.send_signal(signal.SIGKILL)
                break
        # what it had written to the pipe before it died; the last line may be cut off
        acknowledged += [int(line) for line in hub.stdout if line.endswith("\n")]
    store = await open_store(url)
    async with store.read() as conn:
        known = set((await conn.execute(text("SELECT id FROM jobs"))).scalars())
        runs = (await conn.execute(text("SELECT count(*) FROM runs"))).scalar_one()
    assert set(acknowledged) <= known
    assert runs == len(known), "a run and its job appear together"
    (job,) = await submit(store)
    assert job not in known
    await store.close()


async def test_a_second_hub_is_refused_and_told_why(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "LOCK_TRIES", 2)
    first = await open_store(url)
    with pytest.raises(InUse, match=r"another hub .* open: stop it first"):
        await open_store(url)
    (job,) = await submit(first)
    assert (await job_row(first, job)).status == "queued"
    await first.close()
    second = await open_store(url)
    assert (await job_row(second, job)).status == "queued"
    await second.close()


async def test_a_store_is_closed_twice_without_harm(store: Store) -> None:
    await store.close()
    await store.close()


async def test_a_sqlite_file_is_written_by_one_connection_with_every_commit_on_the_disk(
    tmp_path: Path,
) -> None:
    file = tmp_path / "a folder with 100%, ? and #" / "hub%20.sqlite"
    store = await open_store(f"sqlite:///{quote(str(file))}")

    async def settings(conn: object) -> dict[str, object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return {name: (await conn.exec_driver_sql(f"PRAGMA {name}")).scalar() for name in names}  # type: ignore[attr-defined]

    assert await store.writer.run(settings) == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    await submit(store)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    await store.close()
    assert not file.with_name(f"{file.name}-wal").exists(), "a hub that stops leaves one whole file"
    with contextlib.closing(sqlite3.connect(file)) as conn:
        assert conn.execute("SELECT count(*) FROM jobs").fetchone() == (1,)


async def test_a_process_that_ends_without_closing_the_store_ends(url: str) -> None:
    program = """
import asyncio, sys
from hub.store.engine import open_store

async def main():
    await open_store(sys.argv[1])
    raise SystemExit(7)

asyncio.run(main())
"""
    command = [sys.executable, "-W", "ignore", "-c", program, url]
    assert (await asyncio.to_thread(subprocess.run, command, check=False, timeout=60)).returncode == 7


async def test_a_lock_file_left_by_a_hub_that_died_does_not_matter(tmp_path: Path) -> None:
    lock = tmp_path / "hub.sqlite.lock"
    lock.write_text("99999999\n")
    store = await open_store(f"sqlite:///{tmp_path / 'hub.sqlite'}")
    assert lock.read_text() == f"{os.getpid()}\n"
    await store.close()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=rw&uri=true", "mysql://x/y"]
)
def test_a_url_of_another_kind_is_refused_with_what_to_give(url: str) -> None:
    with pytest.raises(BadUrl, match="sqlite:////path/to/file"):
        database_of(url)


async def test_readers_see_one_state_while_the_writer_goes_on(store: Store) -> None:
    await submit(store)
    count = text("SELECT count(*) FROM runs")
    async with store.read() as conn:
        if conn.dialect.name == "postgresql":
            await conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        assert (await conn.execute(count)).scalar() == 1
        await asyncio.wait_for(submit(store), timeout=10)
        assert (await conn.execute(count)).scalar() == 1
    async with store.read() as conn:
        assert (await conn.execute(count)).scalar() == 2
