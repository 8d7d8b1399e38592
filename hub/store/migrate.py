"""Brings a database's schema up to the code's, in one transaction, or refuses.

A schema that this code does not know is newer: it is left as it is. An existing SQLite file is
copied beside itself before it is altered. Only the holder of the database's lock may migrate.
"""

import logging
import shutil
import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from hub import assets
from hub.store.errors import SchemaError

log = logging.getLogger(__name__)

ROOM_FACTOR = 2  # free space that altering a SQLite file takes, in its own size: the copy, and the log


async def upgrade(engine: AsyncEngine, *, file: Path | None) -> None:
    """Bring the schema up to date. `file`: of a SQLite database, None for a server's.

    Raises SchemaError, with nothing changed, where the schema is newer than the code or there is
    no room for the copy.
    """
    config = _config()
    async with engine.begin() as conn:
        current = await conn.run_sync(_current)
    head = _head(config, current)
    if current == head:
        return
    if file is not None and current is not None:
        back_up(file, f"before-{head}")
    log.info("the schema goes from %s to %s", current or "nothing", head)
    async with engine.begin() as conn:
        config.attributes["connection"] = await conn.run_sync(lambda sync: sync)
        await conn.run_sync(lambda _: command.upgrade(config, "head"))
        if file is not None and (await conn.exec_driver_sql("PRAGMA foreign_key_check")).first() is not None:
            raise SchemaError("the upgrade left rows that refer to nothing, and was undone: report this")


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(assets.migrations()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _head(config: Config, current: str | None) -> str:
    """The newest schema that the code knows. Raises SchemaError where `current` is beyond it."""
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    head = scripts.get_current_head()
    assert head is not None, "there is at least one migration"
    if current is not None and current not in known:
        raise SchemaError(
            f"the database has schema {current}, which this version (schema {head}) does not know: it was "
            f"written by a newer hub. Install that version again, or restore the copy made before its upgrade"
        )
    return head


def back_up(file: Path, suffix: str) -> Path:
    """A whole copy of a SQLite file beside it, readable by its owner only; one that is there stays.

    Raises SchemaError where there is no room for it.
    """
    copy = file.with_name(f"{file.name}.{suffix}")
    if copy.exists():
        return copy
    size = file.stat().st_size
    if shutil.disk_usage(file.parent).free < ROOM_FACTOR * size:
        raise SchemaError(
            f"an upgrade of {file} takes {ROOM_FACTOR * size // 2**20 + 1} MiB of free space: make room and "
            f"start again"
        )
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    source, target = sqlite3.connect(file), sqlite3.connect(unfinished)
    try:
        source.backup(target)
    finally:
        target.close()
        source.close()
    unfinished.rename(copy)
    log.info("copied %s to %s before its schema is altered", file, copy)
    return copy
