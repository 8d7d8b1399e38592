"""Collecting: what nobody needs is planned, shown, and then taken away, beside pushes and fetches.

Never taken: an image with a name, one that a job which is not final needs, one that was pushed or used
of late; a chunk that an image lists or a claim protects. What was planned is asked again at the moment
it is taken, so that a plan can be old and no harm comes of it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hub.errors import Forbidden
from hub.service import images
from hub.service import images_packs as packs
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.images_live import LiveImage
from hub.store import image_gc as store
from hub.store import images as image_store
from hub.store.image_chunks import ChunkRow, NewChunk
from hub.store.image_gc import PackRow
from hub.store.image_owners import Holder
from hub.wire.images import MAX_TOLD, GcImage, GcPlan, GcReport

DAY_MS = 86_400_000
KEEP_MS = 7 * DAY_MS  # an image without a name stays so long after its push and its last use
MOSTLY_GARBAGE = 0.5  # a pack of which less is needed is written anew: each byte is moved once on average
SMALL_BYTES = packs.PACK_BYTES // 8  # packs of single chunks: two or more are put together


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a collection would take now. `thin`: packs written anew without their garbage."""

    images: tuple[LiveImage, ...]
    kept_images: int
    dead: tuple[PackRow, ...]
    thin: tuple[PackRow, ...]
    orphans: tuple[tuple[str, int], ...]
    chunks: int
    claimed: int

    @property
    def bytes(self) -> int:
        """At rest, that this frees."""
        thinned = sum(pack.bytes - pack.live_bytes + pack.doomed_bytes for pack in self.thin)
        return sum(pack.bytes for pack in self.dead) + thinned + sum(size for _, size in self.orphans)


async def plan(hub: Hub, principal: Principal) -> GcPlan:
    """What a collection would take now; nothing is changed."""
    _authorise(principal)
    return GcPlan(**_figures(hub, await _plan(hub)))


async def collect(hub: Hub, principal: Principal) -> GcReport:
    """Take away what nobody needs. One collection at a time; the figures are those of what was taken."""
    _authorise(principal)
    return await hub.dispatch.tasks.whole(_collect(hub))


def _authorise(principal: Principal) -> None:
    authorise(principal, "images")
    if not principal.everywhere:
        raise Forbidden("this concerns the images of all: it takes an images or admin token for all projects")


def _figures(hub: Hub, planned: _Plan) -> dict[str, object]:
    told = [
        GcImage(hash=one.row.hash, bytes=one.row.bytes, reason=_reason(one, hub.now_ms()))
        for one in planned.images[:MAX_TOLD]
    ]
    return {
        "images": told,
        "more_images": len(planned.images) - len(told),
        "chunks": planned.chunks,
        "packs": len(planned.dead) + len(planned.thin) + len(planned.orphans),
        "bytes": planned.bytes,
        "kept_images": planned.kept_images,
        "kept_chunks": planned.claimed,
    }


def _reason(image: LiveImage, now_ms: int) -> str:
    used = [owner.used_ms for owner in image.owners.values() if owner.used_ms is not None]
    if used:
        return f"no name, last used {(now_ms - max(used)) // DAY_MS} days ago"
    pushed_ms = max((owner.created_ms for owner in image.owners.values()), default=now_ms)
    return f"no name, never used, pushed {(now_ms - pushed_ms) // DAY_MS} days ago"


async def _plan(hub: Hub) -> _Plan:
    leaving, kept = _leaving(hub)
    now_ms = hub.now_ms()
    async with hub.store.read() as conn:
        rows = await store.packs(conn, now_ms=now_ms, leaving=[one.row.id for one in leaving])
    return _Plan(
        images=tuple(leaving),
        kept_images=kept,
        dead=tuple(row for row in rows if row.live == row.doomed),
        thin=tuple(_thin(rows)),
        orphans=tuple(await orphans(hub)),
        chunks=sum(row.doomed for row in rows),
        claimed=sum(row.claimed for row in rows),
    )


def _leaving(hub: Hub) -> tuple[list[LiveImage], int]:
    """Images that nobody needs now, and how many stay because a name or a job needs them."""
    needed = images.in_use(hub, Holder()) | set(hub.images.names.values())
    old_ms = hub.now_ms() - KEEP_MS
    leaving = [
        image
        for image_hash, image in hub.images.images.items()
        if image_hash not in needed and not hub.images.is_busy(image_hash) and _last_ms(image) <= old_ms
    ]
    return leaving, sum(1 for image_hash in hub.images.images if image_hash in needed)


def _last_ms(image: LiveImage) -> int:
    return max(max(owner.created_ms, owner.used_ms or 0) for owner in image.owners.values())


def _thin(rows: Iterable[PackRow]) -> list[PackRow]:
    """Packs to write anew: mostly garbage, or small where there are several to put together."""
    # one with a bad chunk stays until that is healed: then nothing stands in its way
    living = [row for row in rows if row.live > row.doomed and not row.bad]
    mostly = [row for row in living if row.live_bytes - row.doomed_bytes < MOSTLY_GARBAGE * row.bytes]
    thin = {row.id for row in mostly}
    small = [row for row in living if row.bytes < SMALL_BYTES and row.id not in thin]
    return mostly + (small if len(small) > 1 else [])


async def orphans(hub: Hub) -> list[tuple[str, int]]:
    """Blobs of packs that no row names: a hub was killed, or the disk was full, between the two.

    A pack that is being written is known by name from before its first byte until its row is there;
    so what is listed first, and then in neither, never will be.
    """
    found: list[tuple[str, int]] = []
    pages = hub.blobs.names(packs.FOLDER)
    while page := await asyncio.to_thread(next, pages, None):
        mine = [(name, size) for name, size in page if name not in hub.images.writing]
        async with hub.store.read() as conn:
            known = await store.names_of_packs(conn, [name for name, _ in mine])
        found += [(name, size) for name, size in mine if name not in known]
    return found


async def _collect(hub: Hub) -> GcReport:
    began_ms = hub.now_ms()
    async with hub.images.collecting:
        planned = await _plan(hub)
        taken = [image for image in planned.images if await _take_image(hub, image)]
        await _drop_unowned(hub)
        await store.purge_claims(hub.store.writer, now_ms=hub.now_ms())
        chunks, _ = await store.drop_chunks(hub.store.writer, now_ms=hub.now_ms())
        async with hub.store.read() as conn:
            rows = await store.packs(conn, now_ms=hub.now_ms())
        dead = [row for row in rows if not row.live and await _drop(hub, row)]
        thin = _thin(rows)
        await _write_anew(hub, thin)
        thinned = [row for row in thin if await _drop(hub, row)]
        for name, _ in planned.orphans:
            await asyncio.to_thread(hub.blobs.delete, name)
    hub.images.sizes.clear()
    done = _Plan(
        images=tuple(taken),
        kept_images=planned.kept_images,
        dead=tuple(dead),
        thin=tuple(thinned),
        orphans=planned.orphans,
        chunks=chunks,
        claimed=sum(row.claimed for row in rows),
    )
    return GcReport(**_figures(hub, done), took_s=(hub.now_ms() - began_ms) / 1000)


async def _take_image(hub: Hub, image: LiveImage) -> bool:
    """Take an image that is still not needed; asked and taken without an await between."""
    image_hash = image.row.hash
    if (
        hub.images.images.get(image_hash) is not image
        or hub.images.is_busy(image_hash)
        or image_hash in hub.images.pins
        or image_hash in hub.images.names.values()
        or any(image_hash in job.demand.images for job in hub.dispatch.jobs.values())
        or _last_ms(image) > hub.now_ms() - KEEP_MS
    ):
        return False
    await images.take_away(hub, image, list(image.owners))
    return True


async def _drop_unowned(hub: Hub) -> None:
    """Drop what a push that failed could not clean up after itself."""
    async with hub.store.read() as conn:
        left = await image_store.unowned(conn)
    for image, image_hash in left:
        if not hub.images.is_busy(image_hash):
            async with hub.images.alone_with(image_hash):
                await image_store.drop(hub.store.writer, image)


async def _drop(hub: Hub, row: PackRow) -> bool:
    """Let go of a pack in which no chunk stands: its row, then its blob. False: one does, and it stays."""
    if not await store.drop_pack(hub.store.writer, row.id):
        return False
    await asyncio.to_thread(hub.blobs.delete, row.name)
    return True


async def _write_anew(hub: Hub, thin: Sequence[PackRow]) -> None:
    """Move the chunks of these packs into new ones, each chunk checked on the way."""
    batch: list[tuple[ChunkRow, bytes]] = []
    size = 0
    for row in thin:
        async with hub.store.read() as conn:
            rows = await store.in_pack(conn, row.id)
        async for some in packs.read(hub, rows):
            batch += some
            size += sum(len(body) for _, body in some)
            if size >= packs.PACK_BYTES or len(batch) >= packs.PACK_CHUNKS:
                await _move(hub, batch)
                batch, size = [], 0
    if batch:
        await _move(hub, batch)


async def _move(hub: Hub, batch: Sequence[tuple[ChunkRow, bytes]]) -> None:
    name = packs.new_name()
    hub.images.writing.add(name)
    try:
        await asyncio.to_thread(hub.blobs.keep, name, b"".join(body for _, body in batch))
        moves: list[tuple[ChunkRow, NewChunk]] = []
        start = 0
        for row, body in batch:
            new = NewChunk(hash=row.hash, start=start, length=len(body), bytes=row.bytes)
            moves.append((row, new))
            start += len(body)
        await store.move(hub.store.writer, name, moves, now_ms=hub.now_ms())
    finally:
        hub.images.writing.discard(name)
