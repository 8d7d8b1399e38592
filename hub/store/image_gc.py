"""What of the packs is garbage, and how it goes.

Invariant: a chunk goes only in a write that finds no image listing it and no claim on it; a pack only
in a write that finds no chunk in it. All this is in the writer's order, so that a push beside it
either was first, and keeps the chunk, or finds it missing and sends it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.image_chunks import KEY, ChunkRow, NewChunk
from hub.store.rows import read
from hub.store.sql import MAX_ROWS, each, values_of
from hub.store.writer import Writer

STEP = 4 * MAX_ROWS  # chunks that go in one write: some 20 ms of the one writer


@dataclass(frozen=True, slots=True, kw_only=True)
class PackRow:
    """A pack; `live`, `live_bytes`: its chunks that are held, and their length as encoded.

    `doomed`, `doomed_bytes`: those of them that no image lists and no claim protects. `claimed`: those
    that no image lists, and that stay for now because a claim protects them. `bad`: marked so.
    """

    id: int
    name: str
    bytes: int
    live: int
    live_bytes: int
    doomed: int
    doomed_bytes: int
    claimed: int
    bad: int


# `leaving`: images that are to go in the same collection, so that a plan tells what it will bring
_UNLISTED = "NOT EXISTS (SELECT 1 FROM image_links AS l WHERE l.chunk_id = c.id {but_of_leaving})"
_CLAIMED = "EXISTS (SELECT 1 FROM image_claims AS k WHERE k.chunk_id = c.id AND k.until_ms > :now_ms)"
_GARBAGE = f"({_UNLISTED} AND NOT {_CLAIMED})"

_PACKS = f"""
    SELECT p.id, p.name, p.bytes, count(c.id) AS live, coalesce(sum(c.length), 0) AS live_bytes,
           coalesce(sum(CASE WHEN {_GARBAGE} THEN 1 ELSE 0 END), 0) AS doomed,
           coalesce(sum(CASE WHEN {_GARBAGE} THEN c.length ELSE 0 END), 0) AS doomed_bytes,
           coalesce(sum(CASE WHEN {_UNLISTED} AND {_CLAIMED} THEN 1 ELSE 0 END), 0) AS claimed,
           count(c.bad_ms) AS bad
    FROM image_packs AS p LEFT JOIN image_chunks AS c ON c.pack_id = p.id
    GROUP BY p.id, p.name, p.bytes ORDER BY p.id
"""  # noqa: S608 - conditions of our own

_DOOMED = f"""
    SELECT c.id FROM image_chunks AS c WHERE {_GARBAGE.format(but_of_leaving="")} AND c.id > :after
    ORDER BY c.id LIMIT :most
"""  # noqa: S608 - a condition of our own

_DROP_CLAIMS = """
    DELETE FROM image_claims WHERE EXISTS (SELECT 1 FROM INPUT WHERE input.id = image_claims.chunk_id)
"""

_DROP_CHUNKS = """
    DELETE FROM image_chunks WHERE EXISTS (SELECT 1 FROM INPUT WHERE input.id = image_chunks.id)
    RETURNING length
"""

_DROP_PACK = """
    DELETE FROM image_packs WHERE id = :id
      AND NOT EXISTS (SELECT 1 FROM image_chunks AS c WHERE c.pack_id = image_packs.id)
    RETURNING id
"""

_IN_PACK = """
    SELECT c.hash, p.name AS pack, c.start, c.length, c.bytes
    FROM image_chunks AS c JOIN image_packs AS p ON p.id = c.pack_id
    WHERE p.id = :id AND (c.bad_ms IS NULL) = :sound ORDER BY c.start
"""

_MOVE = """
    UPDATE image_chunks SET pack_id = CAST(:pack AS integer), start = input.start FROM INPUT
    WHERE image_chunks.hash = input.hash AND image_chunks.start = input.was
      AND image_chunks.bad_ms IS NULL
      AND image_chunks.pack_id = (SELECT id FROM image_packs WHERE name = input.pack)
"""

_PURGE = """
    DELETE FROM image_claims WHERE until_ms <= :now_ms AND (owner, project, chunk_id) IN (
        SELECT owner, project, chunk_id FROM image_claims WHERE until_ms <= :now_ms LIMIT :most
    ) RETURNING chunk_id
"""


async def packs(conn: AsyncConnection, *, now_ms: int, leaving: Sequence[int] = ()) -> list[PackRow]:
    """Every pack, and how much of it is garbage once the images `leaving` are gone."""
    but = "AND NOT EXISTS (SELECT 1 FROM INPUT WHERE input.id = l.image_id)" if leaving else ""
    sql = _PACKS.format(but_of_leaving=but)
    rows = await each(conn, sql, "id integer", [{"id": one} for one in leaving], now_ms=now_ms)
    return [
        PackRow(
            id=row.id,
            name=row.name,
            bytes=row.bytes,
            live=row.live,
            live_bytes=int(row.live_bytes),  # a sum is a Decimal on PostgreSQL
            doomed=row.doomed,
            doomed_bytes=int(row.doomed_bytes),
            claimed=row.claimed,
            bad=row.bad,
        )
        for row in rows
    ]


async def drop_chunks(writer: Writer, *, now_ms: int) -> tuple[int, int]:
    """Forget every chunk that nobody lists or claims; how many, and their length as encoded."""
    count = size = 0

    async def unit(conn: AsyncConnection) -> list[int]:
        values = {"now_ms": now_ms, "after": 0, "most": STEP}
        ids = [{"id": row.id} for row in await conn.execute(text(_DOOMED), values)]
        await each(conn, _DROP_CLAIMS, "id integer", ids)
        return [row.length for row in await each(conn, _DROP_CHUNKS, "id integer", ids)]

    while gone := await writer.run(unit, key=KEY):
        count, size = count + len(gone), size + sum(gone)
    return count, size


async def drop_pack(writer: Writer, pack: int) -> bool:
    """Forget a pack; False: it holds a chunk, or is gone already. Its blob may go once this is True."""

    async def unit(conn: AsyncConnection) -> bool:
        return (await conn.execute(text(_DROP_PACK), {"id": pack})).first() is not None

    return await writer.run(unit, key=KEY)


async def in_pack(conn: AsyncConnection, pack: int, *, sound: bool = True) -> list[ChunkRow]:
    """The chunks that rest in a pack, in its order: those not known to be bad, or those that are."""
    values = {"id": pack, "sound": sound}
    return [read(ChunkRow, row) for row in await conn.execute(text(_IN_PACK), values)]


async def move(
    writer: Writer, name: str, chunks: Sequence[tuple[ChunkRow, NewChunk]], *, now_ms: int
) -> None:
    """Index a pack that was made of others' chunks; one that has moved or gone meanwhile stays out."""
    size = sum(new.length for _, new in chunks)
    rows = [{**values_of(new), "was": old.start, "pack": old.pack} for old, new in chunks]

    async def unit(conn: AsyncConnection) -> None:
        sql = "INSERT INTO image_packs (name, bytes, created_ms) VALUES (:name, :bytes, :now_ms) RETURNING id"
        values = {"name": name, "bytes": size, "now_ms": now_ms}
        pack = (await conn.execute(text(sql), values)).scalar_one()
        names = "hash text, start bigint, was bigint, pack text"
        for start in range(0, len(rows), MAX_ROWS):
            await each(conn, _MOVE, names, rows[start : start + MAX_ROWS], pack=pack)

    await writer.run(unit, key=KEY)


async def purge_claims(writer: Writer, *, now_ms: int) -> int:
    """Forget claims that have ended; how many."""

    async def unit(conn: AsyncConnection) -> int:
        return len((await conn.execute(text(_PURGE), {"now_ms": now_ms, "most": STEP})).all())

    count = 0
    while gone := await writer.run(unit, key=KEY):
        count += gone
    return count


async def names_of_packs(conn: AsyncConnection, names: Sequence[str]) -> frozenset[str]:
    """Those of `names` that are indexed."""
    sql = "SELECT p.name FROM INPUT JOIN image_packs AS p ON p.name = input.name"
    return frozenset(row.name for row in await each(conn, sql, "name text", [{"name": one} for one in names]))
