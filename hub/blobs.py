"""Bytes that never change, by name: workspaces, artifacts and packs, in a folder or in a bucket.

A blob is written whole under its final name or not at all. What travels in at the door is first
spooled to a local file, hashed on the way, and only then put here; a pack is small enough to come
from memory. A full disk is an OSError with its number, whichever store it is.
"""

import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.exceptions import BaseError
from obstore.store import LocalStore, ObjectStore, from_url

PIECE_BYTES = 1024 * 1024  # what is held in memory per transfer
GAP_BYTES = 64 * 1024  # between two pieces that are read together: reading it costs less than a request
_FULL = re.compile(r"os error (28|122)\b")  # ENOSPC and EDQUOT, as the library words them on Linux


@dataclass(frozen=True, slots=True)
class Blobs:
    """A store of blobs. Names are made by the hub from hashes and ids, never from what a client says."""

    store: ObjectStore

    @classmethod
    def open(cls, where: str | None, data: Path) -> "Blobs":
        """A folder (default: `blobs` in `data`) or a URL such as `s3://bucket/prefix`."""
        if where and "://" in where:
            return cls(from_url(where))
        folder = Path(where) if where else data / "blobs"
        folder.mkdir(parents=True, exist_ok=True)
        return cls(LocalStore(folder))

    async def put(self, name: str, file: Path) -> None:
        """Keep the bytes of `file` as `name`. Durable in a bucket; in a folder, once the disk says so."""
        with _telling_of_a_full_disk():
            await obstore.put_async(self.store, name, file)

    def keep(self, name: str, body: bytes) -> None:
        """Keep `body` as `name`; durable when this returns, in a folder too. Blocks: for a thread.

        Raises OSError with ENOSPC or EDQUOT where there is no room; `name` is not there then.
        """
        with _telling_of_a_full_disk():
            obstore.put(self.store, name, body)
        if isinstance(self.store, LocalStore) and self.store.prefix is not None:
            path = Path(self.store.prefix) / name
            _flush(path)
            for folder in path.parents:  # its name, and those of folders made for it
                _flush(folder)
                if folder == Path(self.store.prefix):
                    break

    def spans(self, name: str, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (start, length) of `name`, near ones in one read. Blocks: for a thread.

        Raises FileNotFoundError where there is no such blob, EOFError where it is shorter; what else
        keeps it from being read, a network say, tells nothing of the bytes and is raised as it is.
        """
        starts, lengths = [start for start, _ in spans], [length for _, length in spans]
        try:
            found = obstore.get_ranges(self.store, name, starts=starts, lengths=lengths, coalesce=GAP_BYTES)
        except BaseError as error:
            needed = max(start + length for start, length in spans)
            if (has := int(obstore.head(self.store, name)["size"])) < needed:
                raise EOFError(f"{name} has {has} bytes and ends before {needed}") from error
            raise
        if [len(piece) for piece in found] != lengths:
            raise EOFError(f"{name} ends too early")
        return [bytes(piece) for piece in found]

    def names(self, prefix: str) -> Iterator[list[tuple[str, int]]]:
        """Names below `prefix` with their bytes, some hundred at a time. Blocks: for a thread."""
        for page in obstore.list(self.store, prefix, chunk_size=500):
            yield [(str(one["path"]), int(one["size"])) for one in page]

    def delete(self, name: str) -> None:
        """Let go of a blob; one that is not there is gone already. Blocks: for a thread."""
        try:
            obstore.delete(self.store, name)
        except FileNotFoundError:
            return

    async def size(self, name: str) -> int | None:
        """Length in bytes; None: not there."""
        try:
            return int((await obstore.head_async(self.store, name))["size"])
        except FileNotFoundError:
            return None

    async def read(self, name: str) -> AsyncIterator[bytes]:
        """The bytes of `name`, in pieces. Raises FileNotFoundError."""
        answer = await obstore.get_async(self.store, name)
        async for piece in answer.stream(min_chunk_size=PIECE_BYTES):
            yield bytes(piece)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _telling_of_a_full_disk() -> Iterator[None]:
    try:
        yield
    except BaseError as error:
        if (found := _FULL.search(str(error))) is not None:
            raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
        raise
