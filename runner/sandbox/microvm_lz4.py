"""LZ4's old frame, in which Debian packs its kernels, read without a library: 2 s for 50 MB, once a kernel.

Format: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md ("Legacy Frame") and
lz4_Block_format.md. Here it is for files that apt has checked, and for nothing that a stranger sends.
"""

import struct

MAGIC = b"\x02\x21\x4c\x18"
_MORE = 15  # a length that goes on in the next bytes
_LEAST_MATCH = 4


class BadFrame(Exception):
    """It is not such a frame, or unpacks to more than was allowed."""


def unpack(packed: bytes, most: int) -> bytes:
    """What a frame holds, `most` bytes at most; what stands behind it is left alone. Raises BadFrame."""
    if not packed.startswith(MAGIC):
        raise BadFrame("it does not begin as an LZ4 frame")
    at, out = len(MAGIC), bytearray()
    try:
        while at + 4 <= len(packed):
            (size,) = struct.unpack_from("<I", packed, at)
            at += 4
            if size == 0 or size > len(packed) - at:  # Linux writes the unpacked size behind the last block
                break
            _block(packed[at : at + size], out, most)
            at += size
    except IndexError:
        raise BadFrame("a block is cut off") from None
    return bytes(out)


def _block(block: bytes, out: bytearray, most: int) -> None:
    """Unpack one block; each stands for itself."""
    at, end, begin = 0, len(block), len(out)
    while at < end:
        token = block[at]
        at += 1
        length, at = _length(block, at, token >> 4)
        out += block[at : at + length]
        at += length
        if at >= end:
            if at > end:
                raise BadFrame("a block is cut off")
            return
        back = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & _MORE)
        length += _LEAST_MATCH
        source = len(out) - back
        if back == 0 or source < begin or len(out) + length > most:
            raise BadFrame("a block refers to what is not there, or unpacks to too much")
        if back >= length:
            out += out[source : source + length]
        else:  # it overlaps what it writes: a repeated pattern
            pattern = out[source:]
            out += (pattern * (length // back + 1))[:length]


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    """A length that may go on, and where what follows it begins."""
    if length == _MORE:
        while True:
            more = block[at]
            at += 1
            length += more
            if more != 255:
                break
    return length, at
