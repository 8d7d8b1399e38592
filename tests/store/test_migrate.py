"""Migrations: from nothing to exactly the tables, in one transaction, and never backwards."""

import asyncio
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from sqlmodel import SQLModel

import hub.store.image_casync
import hub.store.image_tables
import hub.store.result_tables
import hub.store.tables  # noqa: F401 - all fill SQLModel.metadata
from hub import assets
from hub.store import migrate as migrations
from hub.store.engine import migrate, open_store
from hub.store.errors import SchemaError
from tests.store.making import job_row, submit

_HEAD = max(path.name[:4] for path in (assets.migrations() / "versions").glob("[0-9]*.py"))

_NEXT = '''
"""A column more."""

import sqlalchemy as sa
from alembic import op

revision = "9999"
down_revision = "HEAD"


def upgrade():
    with op.batch_alter_table("jobs") as jobs:
        jobs.add_column(sa.Column("colour", sa.String()))
        jobs.alter_column("placed", new_column_name="placed_because")
    {fault}
'''.replace("HEAD", _HEAD)


async def look(url: str, what: Callable[[Connection], Any]) -> Any:
    """What a connection that knows nothing of the hub finds."""
    engine = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"), poolclass=NullPool)
    async with engine.begin() as conn:
        found = await conn.run_sync(what)
    await engine.dispose()
    return found


def tables(conn: Connection) -> list[str]:
    return sorted(inspect(conn).get_table_names())


def version(conn: Connection) -> str | None:
    return MigrationContext.configure(conn).get_current_revision()


@pytest.fixture
def newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A chain with one migration more, which is in force once its file is written."""
    folder = tmp_path / "migrations"
    shutil.copytree(assets.migrations(), folder)
    monkeypatch.setattr(assets, "migrations", lambda: folder)
    return folder / "versions" / "9999_a_column_more.py"


async def test_the_chain_makes_exactly_the_tables(empty_url: str) -> None:
    await migrate(empty_url)

    def differences(conn: Connection) -> list[Any]:
        context = MigrationContext.configure(
            conn, opts={"compare_type": True, "compare_server_default": True}
        )
        return list(compare_metadata(context, SQLModel.metadata))

    assert await look(empty_url, differences) == []
    assert set(await look(empty_url, tables)) == {*SQLModel.metadata.tables, "alembic_version"}

    def conditions(conn: Connection) -> set[str]:
        found = inspect(conn)
        return {
            str(index["name"])
            for table in ("jobs", "attempts")
            for index in found.get_indexes(table)
            if any("where" in option for option in index.get("dialect_options", {}))
        }

    assert await look(empty_url, conditions) == {"jobs_unfinished", "attempts_open"}


async def test_a_database_that_is_up_to_date_is_left_alone(empty_url: str, tmp_path: Path) -> None:
    await migrate(empty_url)
    before = await look(empty_url, version)
    await migrate(empty_url)
    assert await look(empty_url, version) == before
    assert list(tmp_path.glob("*.before-*")) == []


async def test_a_schema_that_is_newer_than_the_code_is_refused_and_left_as_it_is(empty_url: str) -> None:
    await migrate(empty_url)
    await look(empty_url, lambda conn: conn.execute(text("UPDATE alembic_version SET version_num = '0999'")))
    with pytest.raises(SchemaError, match=r"schema 0999, which this version .* does not know"):
        await open_store(empty_url)
    assert await look(empty_url, version) == "0999"
    with pytest.raises(SchemaError):  # the first refusal left nothing locked
        await open_store(empty_url)


async def test_a_hub_that_is_killed_during_a_migration_leaves_schema_and_version_agreeing(
    empty_url: str,
) -> None:
    """Field bug A02: after any statement of it; then the next start makes it whole."""
    program = """
import asyncio, os, signal, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
from hub.store.engine import migrate

left = int(sys.argv[2])

@event.listens_for(Engine, "after_cursor_execute")
def count(conn, cursor, statement, *rest):
    global left
    if statement.lstrip().startswith(("CREATE", "INSERT", "UPDATE")):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(migrate(sys.argv[1]))
"""
    for statement in (1, 2, 5, 9, 14, 15):
        done = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", program, empty_url, str(statement)],
            check=False,
            timeout=60,
        )
        assert done.returncode == -signal.SIGKILL
        found = await look(empty_url, tables)
        assert (found, await look(empty_url, version)) == ([], None)
    await migrate(empty_url)
    assert len(await look(empty_url, tables)) > len(SQLModel.metadata.tables)


async def test_an_upgrade_keeps_the_rows(url: str, newer: Path) -> None:
    store = await open_store(url)
    jobs = await submit(store, {"a": (), "b": ("a",)})
    await store.close()
    newer.write_text(_NEXT.format(fault=""))
    await migrate(url)
    assert await look(url, version) == "9999"
    query = text("SELECT id, name, placed_because, colour FROM jobs ORDER BY id")
    rows = await look(url, lambda conn: [tuple(row) for row in conn.execute(query)])
    assert rows == [(jobs[0], "a", "", None), (jobs[1], "b", "", None)]


async def test_an_upgrade_that_fails_half_way_changes_nothing(url: str, newer: Path) -> None:
    """Field bug A02: neither the schema nor the version moves."""
    store = await open_store(url)
    (job,) = await submit(store)
    await store.close()
    newer.write_text(_NEXT.format(fault='raise RuntimeError("no")'))
    with pytest.raises(RuntimeError, match="no"):
        await migrate(url)
    assert await look(url, version) == _HEAD
    newer.unlink()
    store = await open_store(url)
    assert (await job_row(store, job)).placed == ""
    await store.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_sqlite_file_is_copied_before_it_is_altered(url: str, newer: Path, tmp_path: Path) -> None:
    store = await open_store(url)
    (job,) = await submit(store)
    await store.close()
    newer.write_text(_NEXT.format(fault=""))
    await migrate(url)
    (copy,) = tmp_path.glob("hub.sqlite.before-*")
    assert copy.name == "hub.sqlite.before-9999"
    assert copy.stat().st_mode & 0o077 == 0
    newer.unlink()
    store = await open_store(f"sqlite:///{copy}")  # the way back after a downgrade
    assert (await job_row(store, job)).status == "queued"
    await store.close()


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_upgrade_without_room_for_the_copy_is_refused_before_it_begins(
    url: str, newer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer.write_text(_NEXT.format(fault=""))
    monkeypatch.setattr(migrations, "ROOM_FACTOR", 2**40)
    with pytest.raises(SchemaError, match="make room"):
        await migrate(url)
    assert await look(url, version) == _HEAD
    assert list(tmp_path.glob("hub.sqlite.before-*")) == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_an_upgrade_that_would_leave_orphans_is_undone(url: str, newer: Path, tmp_path: Path) -> None:
    orphan = "INSERT INTO declines (job_id, runner, reason, at_ms) VALUES (77, 'x', 'x', 1)"
    newer.write_text(_NEXT.format(fault=f'op.execute("{orphan}")'))
    with pytest.raises(SchemaError, match="was undone"):
        await migrate(url)
    with sqlite3.connect(tmp_path / "hub.sqlite") as conn:
        assert conn.execute("SELECT count(*) FROM declines").fetchone() == (0,)
    conn.close()
    assert await look(url, version) == _HEAD
