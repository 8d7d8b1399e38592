"""Squashfs metadata: what is not content lies in blocks of 8 KiB, each behind a head of two bytes.

The invariant: a place is (offset of a block in its table) << 16 | (offset within the block's plain
bytes), and things may lie across blocks. Only the squashfs writer uses this.
"""

import struct
from collections.abc import Callable
from typing import BinaryIO

MAX_EPOCH = 2**32 - 1  # a time in squashfs has 32 bits
METADATA = 8192  # the format's own
RAW = 0x8000  # set in a block's head: it is not compressed

Pack = Callable[[bytes], bytes]


class Metadata:
    """A table that grows by `put` and is taken by `close`. `pack` None: nothing is compressed."""

    def __init__(self, pack: Pack | None) -> None:
        self._pack = pack
        self._out = bytearray()
        self._block = bytearray()

    def place(self) -> int:
        """Where the next thing will lie."""
        return len(self._out) << 16 | len(self._block)

    def put(self, data: bytes) -> int:
        """Add bytes and give their place."""
        at = self.place()
        self._block += data
        while len(self._block) >= METADATA:
            self._out += _framed(bytes(self._block[:METADATA]), self._pack)
            del self._block[:METADATA]
        return at

    def close(self) -> bytes:
        """The whole table."""
        if self._block:
            self._out += _framed(bytes(self._block), self._pack)
            self._block.clear()
        return bytes(self._out)


def write_index(file: BinaryIO, data: bytes, pack: Pack | None, head: bytes = b"") -> int:
    """Write a table in blocks and behind it `head` and the blocks' places; gives the place of `head`."""
    places = []
    for start in range(0, len(data), METADATA):
        places.append(file.tell())
        file.write(_framed(data[start : start + METADATA], pack))
    at = file.tell()
    file.write(head + struct.pack(f"<{len(places)}Q", *places))
    return at


def _framed(block: bytes, pack: Pack | None) -> bytes:
    packed = pack(block) if pack else block
    if len(packed) >= len(block):
        return struct.pack("<H", len(block) | RAW) + block
    return struct.pack("<H", len(packed)) + packed
