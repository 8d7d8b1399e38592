"""Artifacts: files that attempts left. The bytes are blobs; here is which attempt left which, by path.

An artifact is accepted only while its attempt is open, as its lease says; the same path again
replaces what was there.
"""

from dataclasses import asdict, dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.rows import ArtifactRow, columns, read
from hub.store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """A file of the attempt that holds the lease. `path` is data, as the job named it."""

    job: int
    lease: str
    path: str
    bytes: int
    hash: str


_PUT = """
    INSERT INTO artifacts (job_id, attempt, path, bytes, hash)
    SELECT job_id, number, :path, :bytes, :hash FROM attempts
    WHERE job_id = :job AND lease = :lease AND ended_ms IS NULL
    ON CONFLICT (job_id, attempt, path) DO UPDATE SET bytes = excluded.bytes, hash = excluded.hash
    RETURNING job_id
"""

_SELECT = f"""
    SELECT {columns(ArtifactRow, "artifacts")} FROM artifacts
    JOIN jobs ON jobs.id = artifacts.job_id AND jobs.attempt = artifacts.attempt
    WHERE artifacts.job_id = :job
"""  # noqa: S608 - names of our own fields


async def put(writer: Writer, artifact: NewArtifact) -> bool:
    """Note a file whose bytes are kept already; False: the attempt is over."""

    async def unit(conn: AsyncConnection) -> bool:
        return (await conn.execute(text(_PUT), asdict(artifact))).scalar_one_or_none() is not None

    return await writer.run(unit, key=("job", artifact.job))


async def listing(conn: AsyncConnection, job_id: int) -> list[ArtifactRow]:
    """What the newest attempt at a job left, by path."""
    found = await conn.execute(text(f"{_SELECT} ORDER BY artifacts.path"), {"job": job_id})
    return [read(ArtifactRow, row) for row in found]


async def get(conn: AsyncConnection, job_id: int, path: str) -> ArtifactRow | None:
    """One file that the newest attempt left."""
    query = text(f"{_SELECT} AND artifacts.path = :path")
    row = (await conn.execute(query, {"job": job_id, "path": path})).one_or_none()
    return None if row is None else read(ArtifactRow, row)
