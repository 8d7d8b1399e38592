"""Workspaces: packed folders that runs of a project may use. One project cannot use another's by its hash."""

from dataclasses import asdict

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import WorkspaceRow, columns, read
from hub.store.writer import Writer

_PUT = """
    INSERT INTO workspaces (hash, project, bytes, created_ms) VALUES (:hash, :project, :bytes, :created_ms)
    ON CONFLICT (hash, project) DO NOTHING
"""

_SELECT = f"""
    SELECT {columns(WorkspaceRow, "workspaces")} FROM workspaces WHERE hash = :hash AND project = :project
"""  # noqa: S608 - names of our own fields


async def put(writer: Writer, workspace: WorkspaceRow) -> None:
    """Let runs of the project use a folder whose bytes are kept already; again changes nothing."""

    async def unit(conn: AsyncConnection) -> None:
        await conn.execute(text(_PUT), asdict(workspace))

    await writer.run(unit, key=("workspace", workspace.hash))


async def get(conn: AsyncConnection, *, project: str, hash: str) -> WorkspaceRow | None:  # noqa: A002 - its name
    """The folder, if runs of this project may use it."""
    row = (await conn.execute(text(_SELECT), {"project": project, "hash": hash})).one_or_none()
    return None if row is None else read(WorkspaceRow, row)


async def exists(conn: AsyncConnection, *, project: str, hash: str) -> bool:  # noqa: A002 - its name
    """Whether runs of this project may use the folder."""
    return await get(conn, project=project, hash=hash) is not None
