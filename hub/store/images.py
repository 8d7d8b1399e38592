"""Images: what each lists, who may use it, and how one comes and goes.

A push writes the image's row and its links first: they keep its chunks from being collected while the
whole is checked. `accept` then gives it its first owner, in one write that finds every chunk sound.
Until then nobody sees it; what a killed hub left in that state is dropped when it starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.image_chunks import KEY, Claimant, slices, usable_by
from hub.store.image_owners import Holder, may_read
from hub.store.rows import columns, read
from hub.store.sql import MAX_ROWS, each, values_of
from hub.store.writer import Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewImage:
    """An image whose manifest has come. `chunks`: in order, repeats counted. `arch` None: not told."""

    hash: str
    bytes: int
    arch: str | None
    cutter: str
    chunks: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRow:
    """An image that somebody owns."""

    id: int
    hash: str
    bytes: int
    arch: str | None
    cutter: str
    chunks: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRow:
    """Who may use an image."""

    image_id: int
    owner: str
    project: str
    created_ms: int
    used_ms: int | None

    @property
    def holder(self) -> Holder:
        return Holder(self.owner, self.project)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The chunks of an image in order, packed; and the BLAKE3 of that when the whole was checked."""

    body: bytes
    digest: str


_SELECT = f"SELECT {columns(ImageRow, 'images')} FROM images"  # noqa: S608 - names of our own fields
_OWNED = "EXISTS (SELECT 1 FROM image_owners AS o WHERE o.image_id = images.id)"

_BEGIN = """
    INSERT INTO images (hash, bytes, arch, cutter, chunks, created_ms)
    VALUES (:hash, :bytes, :arch, :cutter, :chunks, :created_ms)
    ON CONFLICT (hash) DO UPDATE SET hash = excluded.hash RETURNING id
"""

_UNUSABLE = """
    SELECT input.hash FROM INPUT LEFT JOIN image_chunks AS c ON c.hash = input.hash AND {usable}
    WHERE c.id IS NULL
"""

_LINK = """
    INSERT INTO image_links (image_id, chunk_id)
    SELECT CAST(:image AS integer), c.id FROM INPUT JOIN image_chunks AS c ON c.hash = input.hash WHERE 1 = 1
    ON CONFLICT (image_id, chunk_id) DO NOTHING
"""

_BAD = """
    SELECT c.hash FROM image_links AS l JOIN image_chunks AS c ON c.id = l.chunk_id
    WHERE l.image_id = :image AND c.bad_ms IS NOT NULL LIMIT 20
"""

_MANIFEST = """
    INSERT INTO image_manifests (image_id, body, digest) VALUES (:image, :body, :digest)
    ON CONFLICT (image_id) DO UPDATE SET body = excluded.body, digest = excluded.digest
"""

_OWN = """
    INSERT INTO image_owners (image_id, owner, project, created_ms) VALUES (:image, :owner, :project, :now_ms)
    ON CONFLICT (image_id, owner, project) DO NOTHING
"""

_ARCH = "UPDATE images SET arch = :arch WHERE id = :image AND (arch IS NULL OR :always = 1)"

_DAMAGED = """
    SELECT images.hash, count(*) AS missing FROM image_chunks AS c
    JOIN image_links AS l ON l.chunk_id = c.id JOIN images ON images.id = l.image_id
    WHERE c.bad_ms IS NOT NULL GROUP BY images.hash ORDER BY images.hash
"""

_DAMAGE = """
    SELECT c.hash AS chunk, images.hash AS image FROM image_chunks AS c
    LEFT JOIN image_links AS l ON l.chunk_id = c.id LEFT JOIN images ON images.id = l.image_id
    WHERE c.bad_ms IS NOT NULL ORDER BY c.hash, images.hash
"""

_UNOWNED = """
    SELECT id, hash FROM images
    WHERE NOT EXISTS (SELECT 1 FROM image_owners AS o WHERE o.image_id = images.id)
"""

_USED = """
    UPDATE image_owners SET used_ms = :now_ms
    WHERE image_id IN (SELECT id FROM images WHERE hash = :hash) AND (used_ms IS NULL OR used_ms < :before_ms)
      AND owner IN ('', :owner) AND project IN ('', :project)
"""


async def begin(writer: Writer, image: NewImage) -> int:
    """A row for an image that is being pushed, its own or the one that is there; its id."""
    values = values_of(image)

    async def unit(conn: AsyncConnection) -> int:
        return int((await conn.execute(text(_BEGIN), values)).scalar_one())

    return await writer.run(unit, key=KEY)


async def link(writer: Writer, image: int, claimant: Claimant, hashes: Sequence[str]) -> list[str]:
    """Let a pushed image list chunks. Those that the claimant may not count on come back, first of all;
    if there are any among some hundred, these hundred are not listed. `hashes`: each once."""
    missing: list[str] = []
    usable = _UNUSABLE.format(usable=usable_by(claimant.holder))
    parameters = {"now_ms": claimant.now_ms, **claimant.holder.parameters}
    for some in slices(hashes):
        rows = [{"hash": one} for one in some]

        async def unit(conn: AsyncConnection, rows: list[dict[str, str]] = rows) -> list[str]:
            lacking = [row.hash for row in await each(conn, usable, "hash text", rows, **parameters)]
            if not lacking:
                await each(conn, _LINK, "hash text", rows, image=image)
            return lacking

        missing += await writer.run(unit, key=KEY)
    return missing


async def accept(
    writer: Writer, image: int, holder: Holder, *, manifest: Manifest | None, arch: str | None, now_ms: int
) -> list[str]:
    """Give a checked image to `holder`; the chunks that turned out bad meanwhile, with which nothing is
    given. `manifest` None: the one that is there stays. Who may everything corrects the architecture;
    another tells it where it is not known."""

    async def unit(conn: AsyncConnection) -> list[str]:
        if bad := [row.hash for row in await conn.execute(text(_BAD), {"image": image})]:
            return bad
        if manifest is not None:
            await conn.execute(text(_MANIFEST), {"image": image, **values_of(manifest)})
        if arch is not None:
            values = {"image": image, "arch": arch, "always": 0 if holder.owner else 1}
            await conn.execute(text(_ARCH), values)
        await conn.execute(text(_OWN), {"image": image, "now_ms": now_ms, **holder.parameters})
        return []

    return await writer.run(unit, key=KEY)


async def disown(writer: Writer, image: int, holders: Sequence[Holder]) -> bool:
    """Take an image from `holders`; True: nobody has it any more, and it is to be dropped."""

    async def unit(conn: AsyncConnection) -> bool:
        rows = [holder.parameters for holder in holders]
        sql = """
            DELETE FROM image_owners WHERE image_id = :image AND EXISTS (
                SELECT 1 FROM INPUT
                WHERE input.owner = image_owners.owner AND input.project = image_owners.project
            )
        """
        await each(conn, sql, "owner text, project text", rows, image=image)
        left = await conn.execute(
            text("SELECT 1 FROM image_owners WHERE image_id = :id LIMIT 1"), {"id": image}
        )
        return left.first() is None

    return await writer.run(unit, key=KEY)


async def drop(writer: Writer, image: int) -> None:
    """Remove an image that nobody owns, some hundred links at a time; one that is owned stays."""
    unowned = "NOT EXISTS (SELECT 1 FROM image_owners AS o WHERE o.image_id = :id)"
    links = f"""
        DELETE FROM image_links WHERE image_id = :id AND {unowned} AND chunk_id IN (
            SELECT chunk_id FROM image_links WHERE image_id = :id LIMIT :most
        ) RETURNING chunk_id
    """  # noqa: S608 - a condition of our own

    async def some(conn: AsyncConnection) -> int:
        return len((await conn.execute(text(links), {"id": image, "most": 20 * MAX_ROWS})).all())

    async def rest(conn: AsyncConnection) -> None:
        for table, column in (("image_links", "image_id"), ("image_manifests", "image_id"), ("images", "id")):
            sql = f"DELETE FROM {table} WHERE {column} = :id AND {unowned}"  # noqa: S608 - our own names
            await conn.execute(text(sql), {"id": image})

    while await writer.run(some, key=KEY):
        pass
    await writer.run(rest, key=KEY)


async def unowned(conn: AsyncConnection) -> list[tuple[int, str]]:
    """Images (id, hash) that nobody owns: being pushed, being collected, or left by a hub that was killed."""
    return [(row.id, row.hash) for row in await conn.execute(text(_UNOWNED))]


async def damage(conn: AsyncConnection) -> dict[str, list[str]]:
    """The chunks that are bad, each with the hashes of the images that list it."""
    found: dict[str, list[str]] = {}
    for row in await conn.execute(text(_DAMAGE)):
        found.setdefault(row.chunk, []).extend([row.image] if row.image is not None else [])
    return found


async def touch(writer: Writer, hashes: Sequence[str], project: str, *, now_ms: int, before_ms: int) -> None:
    """A job of `project` asks for these images. Written only where the last use is before `before_ms`."""
    owner = project.partition("/")[0]
    values = {"owner": owner, "project": project, "now_ms": now_ms, "before_ms": before_ms}

    async def unit(conn: AsyncConnection) -> None:
        for one in hashes:
            await conn.execute(text(_USED), {"hash": one, **values})

    await writer.run(unit, key=KEY)


async def listing(conn: AsyncConnection) -> list[ImageRow]:
    """Every image that somebody owns, oldest first."""
    found = await conn.execute(text(f"{_SELECT} WHERE {_OWNED} ORDER BY images.id"))
    return [read(ImageRow, row) for row in found]


async def owners(conn: AsyncConnection) -> list[OwnerRow]:
    """Who may use which image."""
    sql = f"SELECT {columns(OwnerRow, 'o')} FROM image_owners AS o ORDER BY image_id, owner, project"  # noqa: S608 - names of columns
    return [read(OwnerRow, row) for row in await conn.execute(text(sql))]


async def manifest(conn: AsyncConnection, image: int) -> Manifest | None:
    """The packed manifest of an image; None: there is none yet."""
    sql = text("SELECT body, digest FROM image_manifests WHERE image_id = :id")
    row = (await conn.execute(sql, {"id": image})).one_or_none()
    return None if row is None else Manifest(body=bytes(row.body), digest=row.digest)


async def damaged(conn: AsyncConnection) -> dict[str, int]:
    """How many chunks are missing of each image that lacks any, by its hash."""
    return {row.hash: row.missing for row in await conn.execute(text(_DAMAGED))}


async def sizes(conn: AsyncConnection, reader: Holder) -> dict[int, tuple[int, int]]:
    """By image: bytes of its chunks at rest, each once, and raw bytes of those that another lists too.

    Only images within `reader`'s reach count, so that nobody learns what others have.
    """
    sql = f"""
        WITH seen AS (
            SELECT l.image_id, l.chunk_id FROM image_links AS l WHERE EXISTS (
                SELECT 1 FROM image_owners AS o WHERE o.image_id = l.image_id AND {may_read(reader, "o")}
            )
        ), common AS (SELECT chunk_id FROM seen GROUP BY chunk_id HAVING count(*) > 1)
        SELECT seen.image_id, sum(c.length) AS stored,
               sum(CASE WHEN common.chunk_id IS NULL THEN 0 ELSE c.bytes END) AS shared
        FROM seen JOIN image_chunks AS c ON c.id = seen.chunk_id
        LEFT JOIN common ON common.chunk_id = seen.chunk_id
        GROUP BY seen.image_id
    """  # noqa: S608 - a condition of our own
    found = await conn.execute(text(sql), reader.parameters)
    return {row.image_id: (int(row.stored), int(row.shared)) for row in found}
