"""Chunks come and go: which of them need not be sent, many in one body, one by itself, and out again.

Invariant: what a caller is told of chunks it could find out by itself: those of images that it may read,
and those that it sent. Another's are missing, are taken again, and are not kept twice.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from hub.chunks.chunk import BadChunk
from hub.chunks.cutter import DEFAULT_CUTTER, cutter
from hub.chunks.frames import END, MAX_BODY_BYTES, MAX_FRAMES, BadFrames, Frames, frame
from hub.chunks.manifest import MAX_CHUNKS, MAX_IMAGE_BYTES
from hub.errors import BadImage, NotFound, TooLarge
from hub.service import images_packs as packs
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.images_live import holder_of, target_of
from hub.store import image_chunks as store
from hub.store.image_chunks import Claimant
from hub.store.image_owners import Holder
from hub.wire.images import MAX_CALL_CHUNKS, ChunksKept, Fetch, ImageSettings, Missing, MissingAnswer

HOUR_MS = 3_600_000  # a chunk that was sent, or need not be, is not collected for so long
SLACK_MS = 900_000  # a claim is made so much longer, so that asking again soon writes nothing
MAX_STREAM_BYTES = 2**30  # of one framed body: 4096 chunks of 256 KiB; it is written pack by pack
STALLED_S = 60.0  # without a byte: longer than any way between living machines breaks off
CHECK_BYTES = 2**20  # opened in one go of a thread


def settings(hub: Hub, principal: Principal) -> ImageSettings:
    """The hub's one cutter, and its bounds."""
    one = cutter(DEFAULT_CUTTER)
    return ImageSettings(
        cutter=one.name,
        min_bytes=one.min_bytes,
        average_bytes=one.average_bytes,
        max_bytes=one.max_bytes,
        max_chunks=MAX_CALL_CHUNKS,
        max_image_bytes=MAX_IMAGE_BYTES,
        max_image_chunks=MAX_CHUNKS,
        batch_bytes=packs.PACK_BYTES,
    )


def claimant_of(hub: Hub, principal: Principal) -> Claimant:
    """Whose push counts on chunks from now on, for an hour at least."""
    now_ms = hub.now_ms()
    return Claimant(holder=holder_of(principal), now_ms=now_ms, until_ms=now_ms + HOUR_MS + SLACK_MS)


async def missing(hub: Hub, principal: Principal, message: Missing) -> MissingAnswer:
    """Those of the chunks that have to be sent. The others are claimed: they stay for an hour."""
    target_of(principal, message.owner)
    claimant = claimant_of(hub, principal)
    asked = list(dict.fromkeys(message.chunks))
    async with hub.store.read() as conn:
        found = await store.usable(conn, claimant.holder, asked, claimant.now_ms)
    soon_ms = claimant.now_ms + HOUR_MS
    counted_on = {one.hash for one in found.values() if (one.until_ms or 0) >= soon_ms}
    claimed = await store.claim(hub.store.writer, claimant, sorted(found.keys() - counted_on))
    return MissingAnswer(missing=[one for one in asked if one not in counted_on and one not in claimed])


async def put(hub: Hub, principal: Principal, name: str, body: bytes) -> ChunksKept:
    """Keep one chunk. Raises BadImage unless it opens, within the bound, to its name."""
    authorise(principal, "images")
    return await put_many(hub, principal, _framed(name, body))


async def _framed(name: str, body: bytes) -> AsyncIterator[bytes]:
    try:
        yield frame(name, body)
    except ValueError as error:
        raise BadImage(
            f"{error}: send a chunk as one zstd frame, named by the BLAKE3 of what it holds"
        ) from None
    yield END


async def put_many(hub: Hub, principal: Principal, stream: AsyncIterator[bytes]) -> ChunksKept:
    """Keep the chunks of a framed body, pack by pack while it comes in; each durable and claimed after.

    Raises BadImage for the first that is not what it should be, or where the body is cut off: whole
    packs before it are kept, so that a push goes on where it stopped. TooLarge beyond the bound.
    """
    authorise(principal, "images")
    kept = packs.Kept()
    pack: list[packs.Arrived] = []
    size = 0
    try:
        async with hub.images.uploads:
            async for checked in _checked(stream):
                pack += checked
                size += sum(len(one.body) for one in checked)
                if size >= packs.PACK_BYTES or len(pack) >= packs.PACK_CHUNKS:
                    await packs.keep(hub, claimant_of(hub, principal), pack, kept)
                    pack, size = [], 0
            if pack:
                await packs.keep(hub, claimant_of(hub, principal), pack, kept)
    except BadChunk as error:
        raise BadImage(f"{error}: cut and compress it again; what came before it is kept") from None
    except BadFrames as error:
        raise BadImage(f"the body is not whole frames: {error}. Ask what is missing and send it") from None
    return ChunksKept(received=kept.received, kept=kept.kept, bytes=kept.bytes)


async def _checked(stream: AsyncIterator[bytes]) -> AsyncIterator[list[packs.Arrived]]:
    """The chunks of a framed body, opened in a thread some at a time."""
    frames = Frames(max_body_bytes=MAX_BODY_BYTES, max_frames=MAX_FRAMES)
    came: list[tuple[str, bytes]] = []
    size = total = 0
    async for piece in _pieces(stream):
        total += len(piece)
        if total > MAX_STREAM_BYTES:
            raise TooLarge(f"a body of chunks has {MAX_STREAM_BYTES} bytes at most: send the rest in another")
        for name, body in frames.feed(piece):
            came.append((name, body))
            size += len(body)
            if size >= CHECK_BYTES:
                yield await asyncio.to_thread(packs.check, came)
                came, size = [], 0
    frames.close()
    if came:
        yield await asyncio.to_thread(packs.check, came)


async def _pieces(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces of a body. A sender that stalls must not keep its place from others for ever."""
    while True:
        try:
            async with asyncio.timeout(STALLED_S):
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise BadImage(f"nothing came for {STALLED_S:g} s: ask what is missing and send it") from None
        yield piece


async def get(hub: Hub, principal: Principal, name: str) -> bytes:
    """One chunk as it rests. Raises NotFound where no image that the caller may read lists it."""
    bodies = [body for _, body in await _collect(await fetch(hub, principal, Fetch(chunks=[name])))]
    if not bodies:
        raise NotFound("this chunk is damaged: push an image that lists it, and it is healed")
    return bodies[0]


async def _collect(stream: AsyncIterator[bytes]) -> list[tuple[str, bytes]]:
    frames = Frames()
    return [pair async for piece in stream for pair in frames.feed(piece)]


async def fetch(hub: Hub, principal: Principal, message: Fetch) -> AsyncIterator[bytes]:
    """Frames of those chunks that are held and listed by an image that the caller may read, each once.

    In the order in which they rest; what is not held, or turns out damaged, is left out. Raises
    NotFound where that would be all of them.
    """
    reader = reader_of(hub, principal)
    async with hub.store.read() as conn:
        rows = await store.locate(conn, list(dict.fromkeys(message.chunks)), reader)
    if not rows:
        raise NotFound("the hub holds none of these chunks for you: ask for the image's manifest again")
    return _frames(hub, list(rows.values()))


async def _frames(hub: Hub, rows: Sequence[store.ChunkRow]) -> AsyncIterator[bytes]:
    async for some in packs.read(hub, rows):
        yield b"".join(frame(row.hash, body) for row, body in some)
    yield END


def reader_of(hub: Hub, principal: Principal) -> Holder:
    """What a token may read of images: a runner, what it serves."""
    if principal.kind == "runner":
        live = hub.dispatch.fleet.live.get(principal.name)
        if live is None:
            raise NotFound("this runner is not registered any more")
        return holder_of(principal, (live.owner, live.project))
    authorise(principal, "read")
    return holder_of(principal)
