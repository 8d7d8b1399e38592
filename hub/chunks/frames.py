"""Many chunks in one body, written and read as a stream.

A frame: the body's length (4 bytes, big-endian), the chunk's name (32 bytes), the body. The stream ends
with a length of 0 and nothing behind it, so that a body that was cut off is never taken for a whole one.

Invariant: a reader holds at most one frame that is not whole, and has compared its length with the bound
before it keeps a byte of it. Not to be done here: opening bodies; a frame that arrives is not yet a chunk.
"""

from hub.chunks.chunk import NAME_DIGITS, is_name, max_encoded_bytes
from hub.chunks.cutter import CUTTERS

LENGTH_BYTES = 4
HEAD_BYTES = LENGTH_BYTES + NAME_DIGITS // 2
END = bytes(LENGTH_BYTES)
MEDIA_TYPE = "application/vnd.shunter.chunks"
# The largest body that any cutter's largest chunk makes. A foreign encoder's frame of bytes that do not
# shrink is no longer: zstd stores those in the same blocks.
MAX_BODY_BYTES = max_encoded_bytes(max(cutter.max_bytes for cutter in CUTTERS.values()))
MAX_FRAMES = 4096  # chunks in one body: as many as one call may ask for


class BadFrames(ValueError):
    """A stream of frames that is cut off, or says what cannot be."""


def frame(name: str, body: bytes) -> bytes:
    """A chunk as it stands in the stream. ValueError: no name, an empty body, or one beyond the bound."""
    if not is_name(name):
        raise ValueError(f"a chunk's name is 64 hexadecimal digits, not {name!r:.80}")
    if not 1 <= len(body) <= MAX_BODY_BYTES:
        raise ValueError(f"a chunk's body has 1 to {MAX_BODY_BYTES} bytes, not {len(body)}")
    return b"".join((len(body).to_bytes(LENGTH_BYTES, "big"), bytes.fromhex(name), body))


class Frames:
    """Reads a stream of frames, in pieces of any length.

    Holds what is not yet a whole frame, and nothing else: at most one body of `max_body_bytes`.
    """

    def __init__(self, *, max_body_bytes: int = MAX_BODY_BYTES, max_frames: int = MAX_FRAMES) -> None:
        self._max_body_bytes = max_body_bytes
        self._max_frames = max_frames
        self._rest = bytearray()
        self._count = 0
        self._ended = False
        self._fault = ""

    @property
    def ended(self) -> bool:
        """Whether the end has been read."""
        return self._ended

    def feed(self, data: bytes | bytearray | memoryview) -> list[tuple[str, bytes]]:
        """The (name, body) pairs that became whole, in order.

        BadFrames for a length beyond the bound, more frames than allowed, or anything behind the end;
        and again for whatever is fed after that.
        """
        if self._fault:
            raise BadFrames(self._fault)
        self._rest += data
        found, start, was_over = [], 0, self._ended
        with memoryview(self._rest) as view:
            while not self._ended and (frame_ := self._next(view[start:])) is not None:
                name, body, length = frame_
                found.append((name, body))
                start += length
        if self._ended and not was_over:
            start += LENGTH_BYTES
        del self._rest[:start]
        if self._ended and self._rest:
            raise self._bad(f"{len(self._rest)} bytes stand behind the end")
        return found

    def close(self) -> None:
        """To be called when the stream is over. BadFrames where it was cut off."""
        if self._fault:
            raise BadFrames(self._fault)
        if not self._ended:
            raise self._bad(f"cut off after {self._count} chunks: the end is missing")

    def _next(self, view: memoryview) -> tuple[str, bytes, int] | None:
        """The frame at the front, with its length in the stream; None: not whole yet, or the end."""
        if len(view) < LENGTH_BYTES:
            return None
        length = int.from_bytes(view[:LENGTH_BYTES], "big")
        if length == 0:
            self._ended = True
            return None
        if length > self._max_body_bytes:
            raise self._bad(f"chunk {self._count} states {length} bytes; {self._max_body_bytes} at most")
        if self._count >= self._max_frames:
            raise self._bad(f"more than {self._max_frames} chunks in one body")
        if len(view) < HEAD_BYTES + length:
            return None
        self._count += 1
        name = view[LENGTH_BYTES:HEAD_BYTES].hex()
        return name, bytes(view[HEAD_BYTES : HEAD_BYTES + length]), HEAD_BYTES + length

    def _bad(self, fault: str) -> BadFrames:
        self._fault = fault
        return BadFrames(fault)
