"""Chunks at rest: which are held and where, who may count on them, and which turned out bad.

Invariant: a chunk's row exists only while its pack does, and is written only after the pack's bytes
are durable. Whatever decides whether a chunk may go is written by the one writer, so that a claim and
a collection never both succeed. A chunk marked bad counts as missing to everybody.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.image_owners import Holder, may_read
from hub.store.rows import read
from hub.store.sql import MAX_ROWS, each, values_of
from hub.store.writer import Writer

T = TypeVar("T")

KEY = "images"  # all writes about images keep their order among themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """A chunk in a pack that is durable: where it begins, its length as encoded, its raw bytes."""

    hash: str
    start: int
    length: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """Where a chunk rests: in which blob, from which byte, how long; and how many bytes it stands for."""

    hash: str
    pack: str
    start: int
    length: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usable:
    """A held chunk that somebody may count on. `until_ms`: of their claim on it, None: they have none."""

    hash: str
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """Whose push counts on chunks, at which moment, and until when."""

    holder: Holder
    now_ms: int
    until_ms: int


def usable_by(holder: Holder) -> str:
    """SQL: whether `holder` may count on the chunk `c`. Refers to `owner`, `project` and `now_ms`.

    Who may read everything learns nothing by being told that a chunk is held.
    """
    if not holder.owner:
        return "c.bad_ms IS NULL"
    listed = f"""EXISTS (
        SELECT 1 FROM image_links AS l JOIN image_owners AS o ON o.image_id = l.image_id
        WHERE l.chunk_id = c.id AND {may_read(holder, "o")}
    )"""  # noqa: S608 - a condition of our own
    claimed = """EXISTS (
        SELECT 1 FROM image_claims AS k WHERE k.chunk_id = c.id
          AND k.owner = :owner AND k.project = :project AND k.until_ms > :now_ms
    )"""
    return f"c.bad_ms IS NULL AND ({listed} OR {claimed})"


def _usable(holder: Holder) -> str:
    return f"""
        SELECT c.hash, mine.until_ms FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash
        LEFT JOIN image_claims AS mine
          ON mine.chunk_id = c.id AND mine.owner = :owner AND mine.project = :project
        WHERE {usable_by(holder)}
    """  # noqa: S608 - a condition of our own


def _claim(holder: Holder) -> str:
    return f"""
        INSERT INTO image_claims (owner, project, chunk_id, until_ms)
        SELECT CAST(:owner AS text), CAST(:project AS text), c.id, CAST(:until_ms AS bigint)
        FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash WHERE {usable_by(holder)}
        ON CONFLICT (owner, project, chunk_id) DO UPDATE SET until_ms = excluded.until_ms
        RETURNING (SELECT hash FROM image_chunks WHERE id = chunk_id) AS hash
    """  # noqa: S608 - a condition of our own


# Whoever sent a chunk may count on it, whoever else holds it: it has shown that it has the bytes.
_CLAIM_SENT = """
    INSERT INTO image_claims (owner, project, chunk_id, until_ms)
    SELECT CAST(:owner AS text), CAST(:project AS text), c.id, CAST(:until_ms AS bigint)
    FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash WHERE c.bad_ms IS NULL
    ON CONFLICT (owner, project, chunk_id) DO UPDATE SET until_ms = excluded.until_ms
    RETURNING (SELECT hash FROM image_chunks WHERE id = chunk_id) AS hash
"""

_HELD = """
    SELECT c.hash FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash WHERE c.bad_ms IS NULL
"""

_PACK = "INSERT INTO image_packs (name, bytes, created_ms) VALUES (:name, :bytes, :now_ms) RETURNING id"

_ADD = """
    INSERT INTO image_chunks (hash, pack_id, start, length, bytes)
    SELECT input.hash, CAST(:pack AS integer), input.start, input.length, input.bytes FROM INPUT WHERE 1 = 1
    ON CONFLICT (hash) DO UPDATE SET pack_id = excluded.pack_id, start = excluded.start,
      length = excluded.length, bytes = excluded.bytes, bad_ms = NULL
    WHERE image_chunks.bad_ms IS NOT NULL
"""
_ADD_COLUMNS = "hash text, start bigint, length integer, bytes integer"

_LOCATE = """
    SELECT c.hash, p.name AS pack, c.start, c.length, c.bytes
    FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash JOIN image_packs AS p ON p.id = c.pack_id
    WHERE c.bad_ms IS NULL AND {readable}
"""

# Only where it still rests where it was found bad: it may have been sent again in the meantime.
_PLACE = "hash text, pack text, start bigint"
_BAD = """
    UPDATE image_chunks SET bad_ms = CAST(:now_ms AS bigint) FROM INPUT
    WHERE image_chunks.hash = input.hash AND image_chunks.bad_ms IS NULL AND image_chunks.start = input.start
      AND image_chunks.pack_id = (SELECT id FROM image_packs WHERE name = input.pack)
    RETURNING image_chunks.hash
"""

_GOOD = """
    UPDATE image_chunks SET bad_ms = NULL FROM INPUT
    WHERE image_chunks.hash = input.hash AND image_chunks.bad_ms IS NOT NULL
      AND image_chunks.start = input.start
      AND image_chunks.pack_id = (SELECT id FROM image_packs WHERE name = input.pack)
    RETURNING image_chunks.hash
"""


def slices(rows: Sequence[T], length: int = MAX_ROWS) -> Iterator[Sequence[T]]:
    """`rows` in pieces of at most `length`."""
    return (rows[start : start + length] for start in range(0, len(rows), length))


async def usable(
    conn: AsyncConnection, holder: Holder, hashes: Sequence[str], now_ms: int
) -> dict[str, Usable]:
    """Those of `hashes` that `holder` may count on now, by hash."""
    found: dict[str, Usable] = {}
    for some in slices(hashes):
        rows = [{"hash": one} for one in some]
        for row in await each(conn, _usable(holder), "hash text", rows, now_ms=now_ms, **holder.parameters):
            found[row.hash] = read(Usable, row)
    return found


async def claim(writer: Writer, claimant: Claimant, hashes: Sequence[str]) -> frozenset[str]:
    """Claim those of `hashes` that the claimant may count on; which they are."""
    found: set[str] = set()
    for some in slices(hashes):
        found |= await writer.run(partial(_claimed, claimant=claimant, hashes=some), key=KEY)
    return frozenset(found)


async def claim_sent(writer: Writer, claimant: Claimant, hashes: Sequence[str]) -> frozenset[str]:
    """Claim those of `hashes`, all of which the claimant has sent, that are held; which they are."""
    found: set[str] = set()
    for some in slices(hashes):
        found |= await writer.run(partial(_sent, claimant=claimant, hashes=some), key=KEY)
    return frozenset(found)


async def _claimed(conn: AsyncConnection, claimant: Claimant, hashes: Sequence[str]) -> set[str]:
    found = await each(
        conn,
        _claim(claimant.holder),
        "hash text",
        [{"hash": one} for one in hashes],
        now_ms=claimant.now_ms,
        until_ms=claimant.until_ms,
        **claimant.holder.parameters,
    )
    return {row.hash for row in found}


async def _sent(conn: AsyncConnection, claimant: Claimant, hashes: Sequence[str]) -> set[str]:
    rows = [{"hash": one} for one in hashes]
    until_ms, parameters = claimant.until_ms, claimant.holder.parameters
    found = await each(conn, _CLAIM_SENT, "hash text", rows, until_ms=until_ms, **parameters)
    return {row.hash for row in found}


async def held(conn: AsyncConnection, hashes: Sequence[str]) -> frozenset[str]:
    """Those of `hashes` that are kept and not known to be bad, whoever sent them."""
    found: set[str] = set()
    for some in slices(hashes):
        rows = await each(conn, _HELD, "hash text", [{"hash": one} for one in some])
        found |= {row.hash for row in rows}
    return frozenset(found)


async def add_pack(writer: Writer, name: str, chunks: Sequence[NewChunk], claimant: Claimant) -> None:
    """Index a pack whose bytes are durable, and claim its chunks for whoever sent them.

    A chunk that is held already stays where it is; one that was bad is healed.
    """
    rows = [values_of(one) for one in chunks]
    size = sum(one.length for one in chunks)

    async def unit(conn: AsyncConnection) -> None:
        values = {"name": name, "bytes": size, "now_ms": claimant.now_ms}
        pack = (await conn.execute(text(_PACK), values)).scalar_one()
        for some in slices(rows):
            await each(conn, _ADD, _ADD_COLUMNS, some, pack=pack)
            await _sent(conn, claimant, [str(row["hash"]) for row in some])

    await writer.run(unit, key=KEY)


async def locate(
    conn: AsyncConnection, hashes: Sequence[str], reader: Holder | None = None
) -> dict[str, ChunkRow]:
    """Where those of `hashes` rest that are held, and that an image lists which `reader` may read.

    `reader` None: the hub itself, which asks for every chunk.
    """
    readable, parameters = "1 = 1", {}
    if reader is not None:
        parameters = reader.parameters
        readable = f"""EXISTS (
            SELECT 1 FROM image_links AS l JOIN image_owners AS o ON o.image_id = l.image_id
            WHERE l.chunk_id = c.id AND {may_read(reader, "o")}
        )"""  # noqa: S608 - a condition of our own
    found: dict[str, ChunkRow] = {}
    for some in slices(hashes):
        rows = [{"hash": one} for one in some]
        sql = _LOCATE.format(readable=readable)
        found |= {
            row.hash: read(ChunkRow, row) for row in await each(conn, sql, "hash text", rows, **parameters)
        }
    return found


async def mark_bad(writer: Writer, chunks: Iterable[ChunkRow], now_ms: int) -> frozenset[str]:
    """Mark chunks that are not what their names say; which of them still rested where they were read."""
    return await _mark(writer, _BAD, chunks, now_ms)


async def mark_good(writer: Writer, chunks: Iterable[ChunkRow], now_ms: int) -> frozenset[str]:
    """Take the mark from chunks that read well again, where they were found bad; which of them had it."""
    return await _mark(writer, _GOOD, chunks, now_ms)


async def _mark(writer: Writer, sql: str, chunks: Iterable[ChunkRow], now_ms: int) -> frozenset[str]:
    rows = [{"hash": one.hash, "pack": one.pack, "start": one.start} for one in chunks]

    async def unit(conn: AsyncConnection) -> frozenset[str]:
        found: set[str] = set()
        for some in slices(rows):
            found |= {row.hash for row in await each(conn, sql, _PLACE, some, now_ms=now_ms)}
        return frozenset(found)

    return await writer.run(unit, key=KEY)
