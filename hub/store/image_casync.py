"""What casync calls a chunk, beside its own name: worked out once, when somebody first asks for it.

Invariant: an id belongs to the chunk's bytes, which never change, so a row is right for as long as its
chunk is held, wherever it rests. It goes with the chunk, in the same write (ON DELETE CASCADE): that an
id is known keeps nothing from being collected.
"""

from collections.abc import Mapping

from sqlalchemy import Column, ForeignKey, Integer, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import Field, SQLModel

from hub.store.image_chunks import KEY, slices
from hub.store.sql import each
from hub.store.writer import Writer


class ImageCasync(SQLModel, table=True):
    """A chunk's id in a casync store: SHA-512/256 of its raw bytes, in hexadecimal."""

    __tablename__ = "image_casync"

    chunk_id: int = Field(
        sa_column=Column(Integer, ForeignKey("image_chunks.id", ondelete="CASCADE"), primary_key=True)
    )
    casync: str = Field(unique=True)


_OF_IMAGE = """
    SELECT c.hash, k.casync FROM image_links AS l JOIN image_chunks AS c ON c.id = l.chunk_id
    LEFT JOIN image_casync AS k ON k.chunk_id = c.id WHERE l.image_id = :image
"""

# A chunk that was collected meanwhile has no row to belong to, and needs none.
_RECORD = """
    INSERT INTO image_casync (chunk_id, casync)
    SELECT c.id, input.casync FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash WHERE 1 = 1
    ON CONFLICT (chunk_id) DO NOTHING
"""

_NAMED = """
    SELECT c.hash FROM image_casync AS k JOIN image_chunks AS c ON c.id = k.chunk_id WHERE k.casync = :id
"""


async def of_image(conn: AsyncConnection, image: int) -> dict[str, str | None]:
    """The chunks that an image lists, by hash, each with its casync id; None: not worked out yet."""
    return {row.hash: row.casync for row in await conn.execute(text(_OF_IMAGE), {"image": image})}


async def record(writer: Writer, ids: Mapping[str, str]) -> None:
    """Keep what was worked out: casync ids by the chunks' hashes. The same again changes nothing."""
    for some in slices(list(ids.items())):
        rows = [{"hash": name, "casync": casync} for name, casync in some]

        async def unit(conn: AsyncConnection, rows: list[dict[str, str]] = rows) -> None:
            await each(conn, _RECORD, "hash text, casync text", rows)

        await writer.run(unit, key=KEY)


async def named(conn: AsyncConnection, casync: str) -> str | None:
    """The hash of the chunk with this casync id; None: none is held, or nobody asked for an image of it."""
    found = (await conn.execute(text(_NAMED), {"id": casync})).first()
    return None if found is None else str(found.hash)
