"""An image's chunks as casync knows them: their ids, and the index that lists them (`.caibx`).

The format is casync's (its src/caformat.h and caindex.c): all numbers 64 bits, little-endian. An index
header with the bounds of the chunk sizes, a table of (byte after the chunk, id), a tail that repeats
where the table begins and how long it is. Invariant: what is written here is read by casync 2 and by
desync; a chunk's id is casync's default digest, SHA-512/256 of its raw bytes, which the index's flag says.

Not to be done here: reading an index. Others' images come in by `shunter image push`.
"""

import hashlib
import struct
from collections.abc import Iterable

from hub.chunks.cutter import Cutter

ID_DIGITS = 64
SUFFIX = ".caibx"
CHUNK_SUFFIX = ".cacnk"

_INDEX = 0x96824D9C7B129FF9
_TABLE = 0xE75B9E112F17417D
_TAIL = 0x4B4F050E5549ECD1
_SHA512_256 = 0x2000000000000000  # the feature flag that names the digest; without it ids are SHA-256
_OPEN_END = 2**64 - 1  # the table's size stands at its end, so that it can be written as a stream

_HEADER = struct.Struct("<6Q")  # own size, type, flags, chunk sizes: min, average, max
_TABLE_HEADER = struct.Struct("<2Q")  # size, type
_ITEM = struct.Struct("<Q32s")  # the byte after the chunk, its id
_TABLE_TAIL = struct.Struct("<5Q")  # two zeros, where the table begins, its size, the marker


def id_of(raw: bytes | memoryview) -> str:
    """A chunk's id: the 64 hexadecimal digits of its SHA-512/256."""
    return hashlib.new("sha512_256", raw, usedforsecurity=False).hexdigest()


def index(chunks: Iterable[tuple[str, int]], cutter: Cutter) -> bytes:
    """The index of an image: `chunks` are (id, raw bytes) in order, as `cutter` made them.

    ValueError for a size that the cutter does not make, which casync would refuse.
    """
    parts = [
        _HEADER.pack(
            _HEADER.size, _INDEX, _SHA512_256, cutter.min_bytes, cutter.average_bytes, cutter.max_bytes
        ),
        _TABLE_HEADER.pack(_OPEN_END, _TABLE),
    ]
    end = 0
    for id_, size in chunks:
        if not 1 <= size <= cutter.max_bytes:
            raise ValueError(f"{cutter.name} makes 1 to {cutter.max_bytes} bytes, not {size}")
        end += size
        parts.append(_ITEM.pack(end, bytes.fromhex(id_)))
    table_bytes = _TABLE_HEADER.size + (len(parts) - 2) * _ITEM.size + _TABLE_TAIL.size
    parts.append(_TABLE_TAIL.pack(0, 0, _HEADER.size, table_bytes, _TAIL))
    return b"".join(parts)
