"""Bytes that never change, by name: workspaces and artifacts, in a folder or in a bucket.

A blob is written whole under its final name or not at all. What travels in at the door is first
spooled to a local file, hashed on the way, and only then put here.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import obstore
from obstore.store import LocalStore, ObjectStore, from_url

PIECE_BYTES = 1024 * 1024  # what is held in memory per transfer


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
        await obstore.put_async(self.store, name, file)

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
