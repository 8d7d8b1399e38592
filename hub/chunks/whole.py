"""An image as a whole: described in one pass, and checked against its name.

Invariant: what passes here hashes, as one file, to the name it is filed under. Chunks that each have
their name prove nothing of their order or of what is left out; only the whole does.

Hashing, cutting and opening frames all let go of the interpreter's lock, so threads really run beside
each other. Blocking: not to be called on an event loop. Not to be done here: opening files, or fetching.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from blake3 import blake3

from hub.chunks.chunk import BadChunk, decode, name_of
from hub.chunks.cutter import Cutter, cut, cutter, require_native
from hub.chunks.manifest import MAX_CHUNKS, MAX_IMAGE_BYTES, BadManifest, Manifest

# Handed to a thread at once: handing over costs as much as hashing some 50 KiB.
BATCH_BYTES = 2**20
# Batches under way per thread: enough that none waits, and what bounds the memory: with four threads
# twelve batches, each of BATCH_BYTES and one chunk.
AHEAD = 3
MAX_THREADS = 4  # beyond that the hashing in order is what all wait for

Work = TypeVar("Work")
Done = TypeVar("Done")


class BadImage(ValueError):
    """Chunks that are not together the image that they should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lot:
    """Bodies that one thread opens: (index in the manifest, name, encoded body, raw bytes)."""

    bodies: tuple[tuple[int, str, bytes, int], ...]
    max_bytes: int


def verify(chunks: Iterable[bytes], *, name: str, bytes_: int) -> None:
    """Check that raw `chunks`, in order, are `bytes_` bytes with the name `name`. BadImage if not.

    One thread, and no more memory than one chunk.
    """
    hasher, done = blake3(), 0
    for raw in chunks:
        done += len(raw)
        if done > bytes_:
            raise BadImage(f"the chunks have more than the {bytes_} bytes of the image")
        hasher.update(raw)
    _judge(hasher.hexdigest(), done, name=name, bytes_=bytes_)


def verify_encoded(
    bodies: Iterable[tuple[str, bytes]],
    manifest: Manifest,
    name: str,
    *,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Check that encoded chunks, (name, body) in the manifest's order with repeats, are the image `name`.

    Frames are opened and chunks checked in threads, while this one reads `bodies` and hashes the whole in
    order. `progress` is told the bytes done. BadChunk names the first chunk that is not what it should
    be; BadImage: another order, too few or too many chunks, or another whole. Reading `bodies` may raise
    what it likes.
    """
    hasher, done = blake3(), 0
    threads = min(MAX_THREADS, max(2, os.cpu_count() or 1))
    with ThreadPoolExecutor(threads, thread_name_prefix="open-chunks") as pool:
        for raws in _in_order(pool, _open, _lots(bodies, manifest), limit=threads * AHEAD):
            for raw in raws:
                hasher.update(raw)
                done += len(raw)
            if progress is not None:
                progress(done)
    _judge(hasher.hexdigest(), done, name=name, bytes_=manifest.bytes)


def describe(
    file: BinaryIO,
    cutter: Cutter,
    *,
    arch: str | None = None,
    progress: Callable[[int], None] | None = None,
    allow_slow: bool = False,
) -> tuple[str, Manifest]:
    """The name and the manifest of `file`, from where it stands to its end, in one pass.

    This thread reads and cuts, another hashes. `progress` is told the bytes done. SlowCutter: see
    `require_native`; BadManifest: an empty file, or one beyond the bounds.
    """
    require_native(cutter, allow_slow=allow_slow)
    whole = blake3()
    chunks: list[tuple[str, int]] = []
    done = 0

    def hash_batch(batch: list[bytes]) -> list[tuple[str, int]]:
        named = [(name_of(raw), len(raw)) for raw in batch]
        for raw in batch:
            whole.update(raw)
        return named

    # One thread: the whole's hash needs its batches in order.
    with ThreadPoolExecutor(1, thread_name_prefix="hash-chunks") as pool:
        for named in _in_order(pool, hash_batch, _batches(cut(cutter, file)), limit=AHEAD):
            chunks += named
            done += sum(size for _, size in named)
            if done > MAX_IMAGE_BYTES or len(chunks) > MAX_CHUNKS:
                raise BadManifest(f"an image has {MAX_IMAGE_BYTES} bytes in {MAX_CHUNKS} chunks at most")
            if progress is not None:
                progress(done)
    if not chunks:
        raise BadManifest("the file is empty; an image has at least one byte")
    return whole.hexdigest(), Manifest(bytes=done, cutter=cutter.name, chunks=tuple(chunks), arch=arch)


def _judge(found: str, done: int, *, name: str, bytes_: int) -> None:
    if done != bytes_:
        raise BadImage(f"the chunks have {done} bytes together; the image has {bytes_}")
    if found != name:
        raise BadImage(f"the chunks are together {found}, not {name}")


def _in_order(
    pool: ThreadPoolExecutor, do: Callable[[Work], Done], works: Iterable[Work], *, limit: int
) -> Iterator[Done]:
    """What `do` makes of each of `works`, in their order, with at most `limit` under way."""
    waiting: deque[Future[Done]] = deque()
    try:
        for work in works:
            waiting.append(pool.submit(do, work))
            if len(waiting) >= limit:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _batches(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Chunks in lists of BATCH_BYTES or a little more."""
    batch: list[bytes] = []
    size = 0
    for raw in chunks:
        batch.append(raw)
        size += len(raw)
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _lots(bodies: Iterable[tuple[str, bytes]], manifest: Manifest) -> Iterator[_Lot]:
    """Bodies held against the manifest, in lots of BATCH_BYTES of what they will be or a little more."""
    largest = cutter(manifest.cutter).max_bytes
    given = iter(bodies)
    lot: list[tuple[int, str, bytes, int]] = []
    size = 0
    for index, (name, raw_bytes) in enumerate(manifest.chunks):
        pair = next(given, None)
        if pair is None:
            raise BadImage(f"{index} chunks of {len(manifest.chunks)}; {name} is missing")
        if pair[0] != name:
            raise BadImage(f"chunks[{index}] is {pair[0]}; the manifest says {name}")
        lot.append((index, name, pair[1], raw_bytes))
        size += raw_bytes
        if size >= BATCH_BYTES:
            yield _Lot(bodies=tuple(lot), max_bytes=largest)
            lot, size = [], 0
    if next(given, None) is not None:
        raise BadImage(f"more than the {len(manifest.chunks)} chunks of the manifest")
    if lot:
        yield _Lot(bodies=tuple(lot), max_bytes=largest)


def _open(lot: _Lot) -> list[bytes]:
    raws = []
    for index, name, body, raw_bytes in lot.bodies:
        try:
            raws.append(decode(body, name=name, bytes_=raw_bytes, max_bytes=lot.max_bytes))
        except BadChunk as error:
            raise BadChunk(f"chunks[{index}] {name}: {error}") from error
    return raws
