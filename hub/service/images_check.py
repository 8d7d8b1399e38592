"""Checking: every chunk at rest is read and held to its name, every manifest to what it was.

Invariant: an image is sound exactly if all its chunks are and its manifest is as it was when the whole
was hashed. What is found damaged is marked on the way, so that the next push heals it.
"""

from collections.abc import AsyncIterator

from hub.chunks.chunk import name_of
from hub.service import images_packs as packs
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.images_gc import orphans
from hub.store import image_chunks, image_gc
from hub.store import images as store
from hub.store.image_chunks import ChunkRow
from hub.wire.images import MAX_TOLD, CheckProgress, CheckReport, DamagedChunk

FOUND_BEFORE = "it was found damaged before, and nobody has sent it since"


async def check(hub: Hub, principal: Principal) -> AsyncIterator[CheckProgress | CheckReport]:
    """Read everything: how far it came after each pack, and at last what was found."""
    authorise(principal, "admin")
    async with hub.store.read() as conn:
        rows = await image_gc.packs(conn, now_ms=hub.now_ms())
    total = sum(row.live_bytes for row in rows)
    chunks = read_bytes = 0
    reasons: dict[str, str] = {}
    for number, row in enumerate(rows, start=1):
        async with hub.store.read() as conn:
            standing = await image_gc.in_pack(conn, row.id)
            marked = await image_gc.in_pack(conn, row.id, sound=False)
        await _look_again(hub, marked)
        for group in packs.groups(standing):
            found = await packs.look(hub, group)
            reasons.update((chunk.hash, why) for chunk, why in found.bad)
            chunks += len(group)
            read_bytes += sum(chunk.length for chunk in group)
        yield CheckProgress(packs=number, of_packs=len(rows), bytes=read_bytes, of_bytes=total)
    yield await _report(hub, chunks, read_bytes, reasons)


async def _look_again(hub: Hub, marked: list[ChunkRow]) -> None:
    """Take the mark from chunks that read well now: a folder may have been away for a while."""
    well: list[ChunkRow] = []
    for group in packs.groups(marked):
        well += [chunk for chunk, _ in (await packs.look(hub, group)).sound]
    if well and await image_chunks.mark_good(hub.store.writer, well, hub.now_ms()):
        await packs.see_damage(hub)


async def _report(hub: Hub, chunks: int, read_bytes: int, reasons: dict[str, str]) -> CheckReport:
    async with hub.store.read() as conn:
        damage = await store.damage(conn)
        owned = await store.listing(conn)
    broken = {image for listing in damage.values() for image in listing}
    for image in owned:
        async with hub.store.read() as conn:
            manifest = await store.manifest(conn, image.id)
        if manifest is None or name_of(manifest.body) != manifest.digest:
            broken.add(image.hash)
    listed = [
        DamagedChunk(hash=chunk, reason=reasons.get(chunk, FOUND_BEFORE), images=listing[:MAX_TOLD])
        for chunk, listing in damage.items()
    ]
    return CheckReport(
        chunks=chunks,
        bytes=read_bytes,
        images=len(owned),
        damaged_chunks=listed[:MAX_TOLD],
        damaged_images=sorted(broken & {image.hash for image in owned})[:MAX_TOLD],
        more_damaged=max(0, len(listed) - MAX_TOLD),
        orphan_packs=len(await orphans(hub)),
        sound=not damage and not broken,
    )
