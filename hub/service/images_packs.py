"""Chunks at rest: packs are written whole, then indexed; chunks are read, checked, and given out.

Invariant: a pack's bytes are durable before a row names them, and no chunk leaves that is not what its
name says. One that is not is marked bad at once, and counts as missing from then on.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hub.blobs import Blobs
from hub.chunks.chunk import BadChunk, decode
from hub.chunks.cutter import CUTTERS
from hub.service import images_live
from hub.service.hub import Hub
from hub.store import image_chunks as store
from hub.store import images as image_store
from hub.store.image_chunks import ChunkRow, Claimant, NewChunk

log = logging.getLogger(__name__)

PACK_BYTES = 8 * 2**20  # one write to the disk or the bucket, and what an upload holds in memory
PACK_CHUNKS = 4096  # of chunks of a few bytes: one write of the index must stay short
READ_BYTES = 2**20  # read and checked in one go: some milliseconds of a thread
READ_CHUNKS = 256  # in one go, where chunks are small
AHEAD = 2  # reads begun before the last was sent: as many as there are cores on a small machine
MAX_CHUNK_BYTES = max(cutter.max_bytes for cutter in CUTTERS.values())
FOLDER = "packs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A chunk that came in and was checked: its name, its encoded body, its raw bytes."""

    name: str
    body: bytes
    bytes: int


@dataclass(slots=True, kw_only=True)
class Kept:
    """What became of chunks that arrived: how many came, how many are new, and their encoded length."""

    received: int = 0
    kept: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one read gave: sound chunks with their bodies, and those that are not what they should be."""

    sound: tuple[tuple[ChunkRow, bytes], ...] = ()
    bad: tuple[tuple[ChunkRow, str], ...] = ()  # with what is wrong


# -- writing ------------------------------------------------------------------------------------


async def keep(hub: Hub, claimant: Claimant, chunks: Sequence[Arrived], kept: Kept) -> None:
    """Keep checked chunks, those that are new in one pack; durable and claimed when this returns.

    A chunk that somebody else is writing just now is waited for, not written twice. Raises OSError for
    a full disk: then nothing of the pack is kept.
    """
    new = {one.name: one for one in chunks}
    live = hub.images
    while waited := [live.arriving[name] for name in new if name in live.arriving]:
        await waited[0].wait()  # before any of its own is announced: nobody ever waits in a circle
    done = asyncio.Event()
    live.arriving.update(dict.fromkeys(new, done))
    try:
        async with hub.store.read() as conn:
            held = await store.held(conn, list(new))
        if held:
            held = await store.claim_sent(hub.store.writer, claimant, sorted(held))
        fresh = [one for name, one in new.items() if name not in held]
        if fresh:
            await hub.dispatch.tasks.whole(_write(hub, claimant, fresh))
    finally:
        for name in new:
            del live.arriving[name]
        done.set()
    kept.received += len(chunks)
    kept.kept += len(fresh)
    kept.bytes += sum(len(one.body) for one in fresh)


async def _write(hub: Hub, claimant: Claimant, chunks: Sequence[Arrived]) -> None:
    name = new_name()
    hub.images.writing.add(name)
    try:
        await asyncio.to_thread(hub.blobs.keep, name, b"".join(one.body for one in chunks))
        await store.add_pack(hub.store.writer, name, list(_placed(chunks)), claimant)
    finally:
        hub.images.writing.discard(name)
    if any(image.missing for image in hub.images.images.values()):
        await see_damage(hub)  # it may be healed now


def new_name() -> str:
    """A name for a pack that no other has."""
    word = secrets.token_hex(16)
    return f"{FOLDER}/{word[:2]}/{word}"


def _placed(chunks: Iterable[Arrived]) -> Iterator[NewChunk]:
    start = 0
    for one in chunks:
        yield NewChunk(hash=one.name, start=start, length=len(one.body), bytes=one.bytes)
        start += len(one.body)


def check(bodies: Sequence[tuple[str, bytes]]) -> list[Arrived]:
    """Open each body and hold it to its name. Blocks: for a thread. Raises BadChunk naming the chunk."""
    arrived = []
    for name, body in bodies:
        try:
            raw = decode(body, name=name, max_bytes=MAX_CHUNK_BYTES)
        except BadChunk as error:
            raise BadChunk(f"{name}: {error}") from None
        arrived.append(Arrived(name=name, body=body, bytes=len(raw)))
    return arrived


# -- reading ------------------------------------------------------------------------------------


async def read(hub: Hub, rows: Iterable[ChunkRow]) -> AsyncIterator[tuple[tuple[ChunkRow, bytes], ...]]:
    """The sound ones of `rows` with their encoded bodies, in the order of the packs, some at a time.

    Those that are not sound are marked bad and left out.
    """
    waiting: deque[asyncio.Task[Found]] = deque()
    try:
        for group in groups(rows):
            waiting.append(asyncio.create_task(look(hub, group)))
            if len(waiting) > AHEAD:
                yield (await waiting.popleft()).sound
        while waiting:
            yield (await waiting.popleft()).sound
    finally:
        for task in waiting:
            task.cancel()


def groups(rows: Iterable[ChunkRow]) -> Iterator[list[ChunkRow]]:
    """`rows` in the order in which they rest, as many of one pack together as one read takes."""
    group: list[ChunkRow] = []
    for row in sorted(rows, key=lambda one: (one.pack, one.start)):
        over = group and (
            row.pack != group[0].pack
            or row.start + row.length - group[0].start > READ_BYTES
            or len(group) >= READ_CHUNKS
        )
        if over:
            yield group
            group = []
        group.append(row)
    if group:
        yield group


async def look(hub: Hub, group: list[ChunkRow]) -> Found:
    """One read of one of `groups`; what is bad is marked.

    A pack that is gone was rewritten meanwhile: its chunks are looked for where they are now.
    """
    try:
        found = await asyncio.to_thread(_look, hub.blobs, group)
    except FileNotFoundError:
        async with hub.store.read() as conn:
            now = await store.locate(conn, [row.hash for row in group])
        lost = [row for row in now.values() if row.pack == group[0].pack]
        if lost:
            await quarantine(hub, lost)
        found = Found(bad=tuple((row, "its pack is gone") for row in lost))
        for moved in groups(row for row in now.values() if row.pack != group[0].pack):
            more = await look(hub, moved)
            found = Found(sound=found.sound + more.sound, bad=found.bad + more.bad)
        return found
    if found.bad:
        await quarantine(hub, [row for row, _ in found.bad])
    return found


def _look(blobs: Blobs, group: list[ChunkRow]) -> Found:
    """Read and open the chunks of one pack. Raises FileNotFoundError where the pack is gone."""
    sound, bad = [], []
    for row, body in zip(group, _bodies(blobs, group), strict=True):
        try:
            if body is None:
                raise BadChunk("its pack ends before it")
            decode(body, name=row.hash, bytes_=row.bytes, max_bytes=MAX_CHUNK_BYTES)
        except BadChunk as error:
            log.error("chunk %s in %s at %d is damaged: %s", row.hash, row.pack, row.start, error)
            bad.append((row, str(error)))
        else:
            sound.append((row, body))
    return Found(sound=tuple(sound), bad=tuple(bad))


def _bodies(blobs: Blobs, group: list[ChunkRow]) -> list[bytes | None]:
    """The encoded bodies; None: the pack ends before it."""
    pack = group[0].pack
    try:
        return list(blobs.spans(pack, [(row.start, row.length) for row in group]))
    except EOFError:
        return [_body(blobs, row) for row in group]


def _body(blobs: Blobs, row: ChunkRow) -> bytes | None:
    try:
        return blobs.spans(row.pack, [(row.start, row.length)])[0]
    except EOFError:
        return None


async def quarantine(hub: Hub, bad: Iterable[ChunkRow]) -> None:
    """Let chunks that are not what their names say count as missing, and images that list them as damaged."""
    if await store.mark_bad(hub.store.writer, list(bad), hub.now_ms()):
        await see_damage(hub)


async def see_damage(hub: Hub) -> None:
    """Take into the live images which of them lack chunks, and tell the fleet what it can fetch now."""
    async with hub.store.read() as conn:
        damaged = await image_store.damaged(conn)
    changed = [
        image for image in hub.images.images.values() if image.missing != damaged.get(image.row.hash, 0)
    ]
    for image in changed:
        image.missing = damaged.get(image.row.hash, 0)
        if image.missing:
            log.error("image %s is damaged: %d chunks of it are lost", image.row.hash, image.missing)
    tell_fleet(hub, changed)


def tell_fleet(hub: Hub, images: Iterable[images_live.LiveImage]) -> None:
    """These images are held now, or held otherwise: jobs that wait for them may be placed."""
    if known := {image.row.hash: image.in_placement for image in images}:
        hub.dispatch.images_changed(known)
