"""The store in a PostgreSQL database.

One hub per database, by an advisory lock of the write connection's session. A batch whose
connection breaks is written again on a new one, unless the server says that it was committed.
"""

import asyncio
import logging
from typing import Any

from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from hub.store.errors import InUse
from hub.store.migrate import upgrade

log = logging.getLogger(__name__)

MAX_READERS = 8  # of the 100 connections that a server allows by default
LOCK_KEY = 0x5348554E544552  # "SHUNTER": the one key that every hub takes in its database
LOCK_TRIES = 12  # a session whose hub was killed holds its lock until the server notices
LOCK_PAUSE_S = 0.25
_RETRY = {"40001", "40P01", "55P03"}  # serialization failure, deadlock, lock not available


class Postgres:
    """One database of a server. See `engine.Database` for what each method promises."""

    def __init__(self, url: URL) -> None:
        url = url.set(drivername="postgresql+asyncpg")
        self.name = url.render_as_string(hide_password=True)
        self.writing = self._engine(url, pool_size=None, read_only=False)
        self.reading = self._engine(url, pool_size=MAX_READERS, read_only=True)
        self._first: AsyncConnection | None = None

    def _engine(self, url: URL, *, pool_size: int | None, read_only: bool) -> AsyncEngine:
        settings = {
            "application_name": "shunter",
            "default_transaction_read_only": "on" if read_only else "off",
        }
        # hide_parameters: an error is logged, and leases and hashes are not for logs
        given: dict[str, Any] = {"connect_args": {"server_settings": settings}, "hide_parameters": True}
        if pool_size is None:
            return create_async_engine(url, poolclass=NullPool, **given)
        return create_async_engine(url, pool_size=pool_size, max_overflow=0, pool_pre_ping=True, **given)

    async def lock(self) -> None:
        self._first = await self._locked()

    async def _locked(self) -> AsyncConnection:
        conn = await self.writing.connect()
        try:
            for left in reversed(range(LOCK_TRIES)):
                taken = (
                    await conn.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": LOCK_KEY})
                ).scalar()
                await conn.commit()
                if taken:
                    return conn
                if left:
                    await asyncio.sleep(LOCK_PAUSE_S)
            raise InUse(
                f"another hub has the database {self.name} open: stop it first, or give this one a database "
                f"of its own"
            )
        except BaseException:
            await conn.close()
            raise

    async def migrate(self) -> None:
        await upgrade(self.writing, file=None)

    async def connect(self) -> AsyncConnection:
        """The session that took the lock, or a new one that takes it again."""
        first, self._first = self._first, None
        return first or await self._locked()

    async def mark(self, conn: AsyncConnection) -> object:
        return (
            await conn.execute(text("SELECT CAST(pg_current_xact_id_if_assigned() AS text)"))
        ).scalar() or ""

    async def was_committed(self, conn: AsyncConnection, mark: object) -> bool:
        if not mark:
            return False  # it wrote nothing: doing it again is as good
        query = text("SELECT pg_xact_status(CAST(CAST(:mark AS text) AS xid8))")
        status = (await conn.execute(query, {"mark": mark})).scalar()
        await conn.commit()
        log.warning("the line broke during a commit, which the server calls %s", status)
        return status == "committed"

    def should_retry(self, error: Exception) -> bool:
        if isinstance(error, DBAPIError):
            return error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _RETRY
        return isinstance(error, OSError | InUse)  # the server is away, or has not noticed that we were

    async def close(self) -> None:
        if self._first is not None:
            await self._first.close()
            self._first = None
        await self.reading.dispose()
        await self.writing.dispose()
