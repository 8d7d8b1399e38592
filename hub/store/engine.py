"""Opens the store: SQLite in a file, or PostgreSQL.

One hub per database, held by a lock for as long as the store is open: the live fleet is in one
process's memory. One connection writes, the writer's; the others are read-only. (SQLite before
3.51.3 can corrupt a file that several connections write and checkpoint at once.)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from hub.store.errors import BadUrl
from hub.store.postgres import Postgres
from hub.store.sqlite import Sqlite
from hub.store.writer import Link, Writer


class Database(Link, Protocol):
    """What differs between the databases."""

    writing: AsyncEngine
    reading: AsyncEngine

    async def lock(self) -> None:
        """Keep every other hub out. Raises InUse."""

    async def migrate(self) -> None:
        """Bring the schema up to date. Raises SchemaError."""

    async def close(self) -> None:
        """Close every connection, the lock last."""


class Store:
    """An open database: one writer, many readers."""

    def __init__(self, database: Database, writer: Writer) -> None:
        self._database = database
        self.writer = writer

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """A connection that sees one committed state and cannot write; use it soon and do not keep it."""
        async with self._database.reading.connect() as conn:
            yield conn

    async def ping(self) -> None:
        """Read something; raises what keeps the database from answering."""
        async with self.read() as conn:
            await conn.execute(text("SELECT 1"))

    async def close(self) -> None:
        """Write what has been accepted, then let go of the database."""
        try:
            await self.writer.close()
        finally:
            await self._database.close()


async def open_store(url: str) -> Store:
    """Lock the database, bring its schema up to date, and open it.

    `url` is SQLAlchemy's: `sqlite:////path/to/file` or `postgresql://user@host/name`, with or without
    its driver. Raises BadUrl, InUse or SchemaError; nothing is open or locked then.
    """
    database = database_of(url)
    try:
        await database.lock()
        await database.migrate()
        writer = Writer(database)
        await writer.start()
    except BaseException:
        await database.close()
        raise
    return Store(database, writer)


async def migrate(url: str) -> None:
    """Bring the schema up to date, and nothing else. Raises as `open_store` does."""
    database = database_of(url)
    try:
        await database.lock()
        await database.migrate()
    finally:
        await database.close()


def database_of(url: str) -> Database:
    """The database that `url` names, not yet touched. Raises BadUrl."""
    parsed = make_url(url)
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        return Sqlite(parsed)
    if kind == "postgresql":
        return Postgres(parsed)
    raise BadUrl(
        f"{kind} is no database that the hub can use: give sqlite:////path/to/file or postgresql://…"
    )
