"""One chunk: its name, and the zstd frame in which it travels and rests.

Invariant: a body that `decode` lets pass is exactly one whole frame of exactly the bytes asked for, and
nothing of what it claims of itself has cost memory beyond the bound. Bodies come from other machines.

Not to be done here: decompressing without asking the frame's header first, and keeping what is bad.
"""

import zstandard
from blake3 import blake3

LEVEL = 3  # level 9 saves 5 % more and takes 2.7 times as long
WORTHWHILE = 0.95  # a frame above this share of its chunk is not worth the time to open it
# Frames of foreign encoders may name a larger window than their content. RFC 8878 (3.1.1.1.2) asks every
# decoder to take 8 MiB; a broken frame can cost no more than that.
MAX_WINDOW_BYTES = 8 * 1024 * 1024
NAME_DIGITS = 64

_MAGIC = b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1; skippable frames begin otherwise
_BLOCK_BYTES = 128 * 1024  # RFC 8878, 3.1.1.2: the largest block
_ONE_SEGMENT_8 = b"\xe0"  # header: content size in 8 bytes, one segment (no window), no checksum
FRAME_OVERHEAD = len(_MAGIC) + 1 + 1 + 8 + 4  # header: descriptor, window, content size; checksum
BLOCK_OVERHEAD = 3

Body = bytes | bytearray | memoryview


class BadChunk(ValueError):
    """A body that is not the chunk it should be, in words for whoever sent it."""


def name_of(raw: Body) -> str:
    """The name of a chunk or of a whole file: the 64 hexadecimal digits of its BLAKE3."""
    return blake3(raw).hexdigest()


def is_name(text: object) -> bool:
    """Whether `text` is written as a name is: 64 lower-case hexadecimal digits."""
    return isinstance(text, str) and len(text) == NAME_DIGITS and not text.strip("0123456789abcdef")


def max_encoded_bytes(raw_bytes: int) -> int:
    """The most that a chunk of `raw_bytes` becomes: raw blocks, in a frame with all that it may state."""
    blocks = max(1, -(-raw_bytes // _BLOCK_BYTES))
    return FRAME_OVERHEAD + blocks * BLOCK_OVERHEAD + raw_bytes


def encode(raw: bytes) -> bytes:
    """A chunk as one zstd frame that states its content size: compressed, or raw blocks where that
    would save less than 5 %. The same bytes give the same frame. ValueError for an empty chunk."""
    if not raw:
        raise ValueError("a chunk has at least one byte")
    packed = zstandard.ZstdCompressor(level=LEVEL).compress(raw)
    return packed if len(packed) <= len(raw) * WORTHWHILE else _stored(raw)


def _stored(raw: bytes) -> bytes:
    """A frame of raw blocks (RFC 8878, 3.1.1.2: 3 bytes little-endian: last, type 0, size)."""
    parts = [_MAGIC, _ONE_SEGMENT_8, len(raw).to_bytes(8, "little")]
    for start in range(0, len(raw), _BLOCK_BYTES):
        block = raw[start : start + _BLOCK_BYTES]
        last = start + _BLOCK_BYTES >= len(raw)
        parts += [(last | len(block) << 3).to_bytes(BLOCK_OVERHEAD, "little"), block]
    return b"".join(parts)


def decode(body: Body, *, name: str | None = None, bytes_: int | None = None, max_bytes: int) -> bytes:
    """The raw bytes of a chunk, with the `name` and of the length `bytes_` (None: not checked).

    BadChunk for whatever is not one whole zstd frame that states its size: no size, none or more than
    `max_bytes`, another than `bytes_`, a frame cut off, anything behind it, another name. Sizes are
    compared before anything is allocated.
    """
    header = _header(body)
    stated, window = header.content_size, header.window_size
    if stated > max_bytes:
        raise BadChunk(f"the frame states {stated} bytes; a chunk has {max_bytes} at most")
    if bytes_ is not None and stated != bytes_:
        raise BadChunk(f"the frame states {stated} bytes; the chunk has {bytes_}")
    if window > (bound := max(MAX_WINDOW_BYTES, max_bytes)):
        raise BadChunk(f"the frame asks for a window of {window} bytes; {bound} at most")
    decompressor = zstandard.ZstdDecompressor(max_window_size=bound)
    try:
        raw = decompressor.decompress(body, read_across_frames=False, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadChunk(f"not one whole zstd frame: {error}") from error
    if name is not None and (found := name_of(raw)) != name:
        raise BadChunk(f"the chunk's bytes have the name {found}, not {name}")
    return raw


def _header(body: Body) -> zstandard.FrameParameters:
    """What a frame's header states; one that states its content size, and stands by itself."""
    if bytes(body[: len(_MAGIC)]) != _MAGIC:
        raise BadChunk("not a zstd frame")
    try:
        header = zstandard.get_frame_parameters(body)
    except zstandard.ZstdError as error:
        raise BadChunk(f"not a whole zstd header: {error}") from error
    if header.content_size == zstandard.CONTENTSIZE_UNKNOWN:
        raise BadChunk("the frame does not state its content size")
    if header.content_size == 0:
        raise BadChunk("the frame states that it is empty")
    if header.dict_id:
        raise BadChunk(f"the frame needs the dictionary {header.dict_id}")
    return header
