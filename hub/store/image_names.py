"""Names of images, each with what it pointed to before. The newest row of a name is what it says now."""

from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.image_chunks import KEY
from hub.store.image_owners import Holder
from hub.store.rows import columns, read
from hub.store.writer import Writer

MAX_HISTORY = 100  # of one name: two years of weekly images; older ones are forgotten


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRow:
    """A name was pointed to `hash`; None: it was taken away."""

    owner: str
    project: str
    name: str
    number: int
    hash: str | None
    set_ms: int
    set_by: str

    @property
    def holder(self) -> Holder:
        return Holder(self.owner, self.project)


_POINT = """
    INSERT INTO image_names (owner, project, name, number, hash, set_ms, set_by)
    SELECT CAST(:owner AS text), CAST(:project AS text), CAST(:name AS text),
           coalesce(max(number), 0) + 1, CAST(:hash AS text), CAST(:now_ms AS bigint), CAST(:by AS text)
    FROM image_names WHERE owner = :owner AND project = :project AND name = :name
    RETURNING number
"""

_FORGET = """
    DELETE FROM image_names WHERE owner = :owner AND project = :project AND name = :name AND number <= :oldest
"""


async def point(
    writer: Writer,
    holder: Holder,
    name: str,
    hash: str | None,  # noqa: A002 - its name
    *,
    by: str,
    now_ms: int,
) -> None:
    """Let `name` of `holder` mean the image `hash` from now on; None: nothing any more."""
    values = {**holder.parameters, "name": name}

    async def unit(conn: AsyncConnection) -> None:
        given = {**values, "hash": hash, "by": by, "now_ms": now_ms}
        number = (await conn.execute(text(_POINT), given)).scalar_one()
        await conn.execute(text(_FORGET), {**values, "oldest": number - MAX_HISTORY})

    await writer.run(unit, key=KEY)


async def listing(conn: AsyncConnection) -> list[NameRow]:
    """Every name with its history, a name's newest row first."""
    sql = f"""
        SELECT {columns(NameRow, "n")} FROM image_names AS n
        ORDER BY n.name, n.owner, n.project, n.number DESC
    """  # noqa: S608 - names of our own fields
    return [read(NameRow, row) for row in await conn.execute(text(sql))]
