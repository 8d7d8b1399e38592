"""Where a source's bytes lie: spans of open files, files on disk, and what was packed, spread out.

The invariant: what is read has exactly the length that was told, or there is an error; nothing is
held in memory but a block. What a packed source spreads to lies in the workspace, a folder beside the
output that is removed however the import ends.
"""

import lzma
import os
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO

from hub.cli.errors import CliError

PIECE = 1 << 20
WINDOW = 2**27  # bytes of history that packed data may ask for: what zstd takes unless told otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Some bytes of an open file. `extents`: where they belong, (start, length) in order, if it has holes."""

    label: str
    file: IO[bytes]
    offset: int
    stored: int  # bytes in the file
    size: int  # bytes with the holes
    extents: tuple[tuple[int, int], ...] | None = None

    def read(self, at: int, count: int) -> bytes:
        """`count` bytes from `at` on, fewer only at the end of the span. Holes are not filled in."""
        count = max(0, min(count, self.stored - at))
        data = os.pread(self.file.fileno(), count, self.offset + at) if count else b""
        while len(data) < count:
            more = os.pread(self.file.fileno(), count - len(data), self.offset + at + len(data))
            if not more:
                raise CliError(f"{self.label}: is shorter than it was: it changed while it was read")
            data += more
        return data

    def blocks(self, size: int) -> Iterator[bytes]:
        """All bytes in pieces of `size`, only the last shorter; holes as zeros."""
        if self.extents is None:
            for at in range(0, self.stored, size):
                yield self.read(at, size)
            return
        piece = bytearray()
        for part in self._parts(size):
            piece += part
            while len(piece) >= size:
                yield bytes(piece[:size])
                del piece[:size]
        if piece:
            yield bytes(piece)

    def _parts(self, size: int) -> Iterator[bytes]:
        at = end = 0
        for start, length in (*(self.extents or ()), (self.size, 0)):
            for hole in range(end, start, size):
                yield bytes(min(size, start - hole))
            for done in range(0, length, size):
                yield self.read(at + done, min(size, length - done))
            at += length
            end = start + length


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """A file of a folder that is read when its turn comes."""

    path: bytes
    size: int
    identity: tuple[int, int]  # device and inode, so that nothing else is read in its place

    def blocks(self, size: int) -> Iterator[bytes]:
        """All bytes in pieces of `size`, only the last shorter. Raises CliError where it changed."""
        with self.open() as file:
            label = os.fsdecode(self.path)
            yield from Span(label=label, file=file, offset=0, stored=self.size, size=self.size).blocks(size)

    def open(self) -> BinaryIO:
        """The file, if it is still the one that was seen. Raises CliError."""
        name = os.fsdecode(self.path)
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise CliError(f"{name}: cannot be read: {error.strerror}") from None
        found = os.fstat(descriptor)
        same = (found.st_dev, found.st_ino) == self.identity and stat.S_ISREG(found.st_mode)
        if not same or found.st_size != self.size:
            os.close(descriptor)
            raise CliError(f"{name}: changed while it was read")
        return os.fdopen(descriptor, "rb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The folder that an import may write in, and the files that stay open until it ends."""

    folder: Path
    files: ExitStack
    max_bytes: int  # of each thing that is spread out

    def open(self, source: Path | OnDisk) -> Span:
        """A file as a span that stays open. Raises CliError where it cannot be read."""
        if isinstance(source, OnDisk):
            file, label = source.open(), os.fsdecode(source.path)
        else:
            label = str(source)
            try:
                file = source.open("rb")
            except OSError as error:
                raise CliError(f"{label}: cannot be read: {error.strerror}") from None
        self.files.enter_context(file)
        size = os.fstat(file.fileno()).st_size
        return Span(label=label, file=file, offset=0, stored=size, size=size)

    def spread(self, span: Span) -> Span:
        """The span itself where it is not packed, else what it spreads to, in a file of the workspace.

        Raises CliError where it is damaged, cut off, or over the bound.
        """
        magic = span.read(0, 6)
        for sign, piece, new in _FORMATS:
            if magic.startswith(sign):
                file = self._new_file()
                size = 0
                for data in _spread(span, piece, new):
                    size += len(data)
                    if size > self.max_bytes:
                        over = f"spreads to more than {self.max_bytes >> 20} MiB (see --max-mib)"
                        raise CliError(f"{span.label}: {over}")
                    file.write(data)
                file.flush()
                return Span(label=span.label, file=file, offset=0, stored=size, size=size)
        return span

    def _new_file(self) -> IO[bytes]:
        """A file without a name, on the disk that the output is on."""
        return self.files.enter_context(tempfile.TemporaryFile(dir=self.folder))


def _spread(span: Span, piece: int, new: Callable[[], Any]) -> Iterator[bytes]:
    """The plain bytes of all packed members that stand one behind the other."""
    at = 0
    unpacker = None
    try:
        while data := span.read(at, piece):
            at += len(data)
            while data:
                if unpacker is None:
                    data = data.lstrip(b"\0")  # padding between members, or behind the last
                    if not data:
                        break
                    unpacker = new()
                yield unpacker.decompress(data)
                data = unpacker.unused_data if unpacker.eof else b""
                unpacker = None if unpacker.eof else unpacker
    except _damage() as error:
        raise CliError(f"{span.label}: is damaged: {error}") from None
    if unpacker is not None:
        raise CliError(f"{span.label}: is cut off: the packed data has no end")


def _damage() -> tuple[type[Exception], ...]:
    from zstandard import ZstdError

    return (zlib.error, lzma.LZMAError, ZstdError)


def _new_zstd() -> Any:
    from zstandard import ZstdDecompressor

    return ZstdDecompressor(max_window_size=WINDOW).decompressobj()


# What each begins with, and how much of it is read at once, so that the most that it can spread to
# (1,000, 7,000 and 32,000 times as much) stays under 64 MiB.
_FORMATS: tuple[tuple[bytes, int, Callable[[], Any]], ...] = (
    (b"\x1f\x8b", 64 << 10, lambda: zlib.decompressobj(wbits=31)),
    (b"\xfd7zXZ\0", 8 << 10, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=2 * WINDOW)),
    (b"\x28\xb5\x2f\xfd", 2 << 10, _new_zstd),
)
