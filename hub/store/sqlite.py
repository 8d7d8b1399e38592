"""The store in a SQLite file: WAL, every commit on the disk before it is acknowledged.

Exactly one connection may write; the readers' are opened read-only, so that not even a fault can
make a second writer. A lock file beside the database refuses a second hub.
"""

import fcntl
import logging
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiosqlite
from sqlalchemy import URL, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from hub.store.errors import BadUrl, InUse
from hub.store.migrate import upgrade

log = logging.getLogger(__name__)

MAX_READERS = 4  # each is a thread; more only wait for one another's disk
MAX_IDLE_WAL_BYTES = 64 * 2**20  # what the log keeps of the disk after a burst
BUSY_MS = 10_000  # for a person's `sqlite3` shell that holds the file; the hub's own never collide


class Sqlite:
    """One file. See `engine.Database` for what each method promises."""

    def __init__(self, url: URL) -> None:
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise BadUrl("the hub keeps its database in a file: give sqlite:////path/to/file")
        self.file = Path(url.database).absolute()
        self._lock: int | None = None
        self.writing = self._writing("foreign_keys = ON")
        self.reading = self._engine("ro", ("query_only = ON",), begin="BEGIN", connections=MAX_READERS)

    def _engine(self, mode: str, pragmas: tuple[str, ...], *, begin: str, connections: int) -> AsyncEngine:
        uri = f"file:{quote(str(self.file))}?mode={mode}"

        async def connect() -> aiosqlite.Connection:
            opening = aiosqlite.connect(uri, uri=True, isolation_level=None)
            # a process that ends without closing the store must end: what is not committed is not promised
            if isinstance(thread := getattr(opening, "_thread", None), threading.Thread):
                thread.daemon = True
            conn = await opening
            try:
                for pragma in (f"busy_timeout = {BUSY_MS}", *pragmas):
                    await conn.execute(f"PRAGMA {pragma}")
            except BaseException:  # a reader that is cancelled here must not leave its thread behind
                conn.stop()
                raise
            return conn

        engine = create_async_engine(
            "sqlite+aiosqlite://",
            async_creator=connect,
            hide_parameters=True,  # an error is logged: leases and hashes are not for logs
            poolclass=AsyncAdaptedQueuePool,
            pool_size=connections,
            max_overflow=0,
        )

        @event.listens_for(engine.sync_engine, "begin")
        def _begin(conn: Any) -> None:  # Python's driver begins too late, and never before a SELECT
            conn.exec_driver_sql(begin)

        return engine

    def _writing(self, *pragmas: str) -> AsyncEngine:
        # FULL: a power cut must not take back what was acknowledged; in batches it costs next to nothing
        durable = ("journal_mode = WAL", "synchronous = FULL", f"journal_size_limit = {MAX_IDLE_WAL_BYTES}")
        return self._engine("rwc", (*durable, *pragmas), begin="BEGIN IMMEDIATE", connections=1)

    async def lock(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        path = self.file.with_name(f"{self.file.name}.lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 20, 0).decode(errors="replace").strip()
            os.close(lock)
            raise InUse(
                f"another hub (process {holder or 'unknown'}) has {self.file} open: stop it first, or give "
                f"this one a data folder of its own"
            ) from error
        os.truncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock
        if not self.file.exists():
            os.close(os.open(self.file, os.O_CREAT | os.O_CLOEXEC, 0o600))  # it holds tokens' hashes
        log.info("SQLite %s in %s", sqlite3.sqlite_version, self.file)

    async def migrate(self) -> None:
        # A column is altered by copying its table and dropping the old one, which with foreign keys on
        # would take the rows that refer to it along.
        engine = self._writing("foreign_keys = OFF")
        try:
            await upgrade(engine, file=self.file)
        finally:
            await engine.dispose()

    async def connect(self) -> AsyncConnection:
        return await self.writing.connect()

    async def mark(self, conn: AsyncConnection) -> object:
        return self.file

    async def was_committed(self, conn: AsyncConnection, mark: object) -> bool:
        return False  # a COMMIT of SQLite that raised has not been done

    def should_retry(self, error: Exception) -> bool:
        return False  # a full or broken disk is no better in a moment, and its users should hear of it

    async def close(self) -> None:
        await self.reading.dispose()
        await self.writing.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
