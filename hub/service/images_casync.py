"""An image as casync reads it: its index, and its chunks under the ids that casync gives them.

Invariant: it is the same chunks under the same rule of who may read them; only what they are called
differs. An id is worked out when an image's index is first asked for, from checked bytes, and kept.

Not to be done here: deciding who reads what (`images`, `images_chunks` do).
"""

import asyncio
from dataclasses import dataclass

from hub.chunks import caibx
from hub.chunks.chunk import decode, is_name
from hub.chunks.cutter import cutter
from hub.errors import Conflict, NotFound
from hub.service import images, images_chunks
from hub.service import images_packs as packs
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.service.images_live import LiveImage
from hub.store import image_casync as store
from hub.store.image_chunks import ChunkRow, locate, slices
from hub.store.image_owners import Holder
from hub.wire.images import ManifestView

WINDOW = 4096  # chunks named at a time: 256 MiB as a rule; what is done stays done if the hub is stopped


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """An index as casync reads it, and the hash of the image."""

    hash: str
    body: bytes


def resolve(hub: Hub, principal: Principal, image: str) -> str:
    """The hash that a hash or a name means to the caller. Raises NotFound, Conflict for several.

    As for a job: its own project's name comes before its owner's, and that before everybody's.
    """
    if is_name(image):
        return image
    reader = images_chunks.reader_of(hub, principal)
    whose = {
        holder: one
        for (holder, name), one in hub.images.names.items()
        if name == image and reader.reads(holder)
    }
    for holder in (reader, Holder(reader.owner), Holder()):
        if holder in whose:
            return whose[holder]
    found = set(whose.values())
    if not found:
        raise NotFound("no image is named so here, or not for you: GET /api/v1/images/names lists them")
    if len(found) > 1:
        raise Conflict(f"this name means {len(found)} images to different owners: ask by the hash")
    return found.pop()


async def index(hub: Hub, principal: Principal, image_hash: str) -> Index:
    """The index of an image. The first time it takes reading all of it, about a second for a GB.

    Raises NotFound, also where it is beyond the reader's reach, and where chunks of it are damaged.
    """
    image = images.find(hub, principal, image_hash)
    manifest = await images.manifest_of(hub, principal, image_hash)
    ids = await _ids(hub, image)
    if any(name not in ids for name, _ in manifest.chunks):
        raise NotFound("chunks of this image are damaged: push it again, and it is healed")
    return Index(hash=image_hash, body=await asyncio.to_thread(_written, manifest, ids))


def _written(manifest: ManifestView, ids: dict[str, str]) -> bytes:
    return caibx.index(((ids[name], size) for name, size in manifest.chunks), cutter(manifest.cutter))


async def _ids(hub: Hub, image: LiveImage) -> dict[str, str]:
    """The casync ids of an image's chunks, by their hashes; those that are damaged are left out."""
    ids = await _known(hub, image)
    if None not in ids.values():
        return {name: one for name, one in ids.items() if one is not None}
    async with hub.images.naming:
        ids = await _known(hub, image)  # whoever was here before may have named them
        for some in slices([name for name, one in ids.items() if one is None], WINDOW):
            async with hub.store.read() as conn:
                rows = await locate(conn, some)
            async for group in packs.read(hub, rows.values()):
                named = await asyncio.to_thread(_name, group)
                await store.record(hub.store.writer, named)
                ids.update(named)
    return {name: one for name, one in ids.items() if one is not None}


async def _known(hub: Hub, image: LiveImage) -> dict[str, str | None]:
    async with hub.store.read() as conn:
        return await store.of_image(conn, image.row.id)


def _name(group: tuple[tuple[ChunkRow, bytes], ...]) -> dict[str, str]:
    """The ids of chunks that were checked when they were read. Blocks: for a thread."""
    return {row.hash: caibx.id_of(decode(body, bytes_=row.bytes, max_bytes=row.bytes)) for row, body in group}


async def chunk(hub: Hub, principal: Principal, casync: str) -> bytes:
    """A chunk by its casync id, as it rests: a zstd frame. Raises NotFound, also beyond the reach."""
    images_chunks.reader_of(hub, principal)
    async with hub.store.read() as conn:
        name = await store.named(conn, casync)
    if name is None:
        raise NotFound("no such chunk is held for you: ask for the image's index again")
    return await images_chunks.get(hub, principal, name)
