"""A file that is being put together from chunks, in any order and over several lives of the process.

Invariant: what counts as there was read or written here under its name, so that a part file needs no
record beside it: whoever opens it again reads what it holds and goes on. It becomes the image only as a
whole: hashed from its first byte to its last, on the disk, and only then under its name. A part file
has one writer: a lock on it says who.

Not to be done here: asking anybody for chunks, and judging whether there is room.
"""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from blake3 import blake3

from hub.chunks.chunk import name_of
from hub.chunks.manifest import Manifest, plan

READ_BYTES = 8 * 2**20  # at once, for the hash of the whole: two threads hash it faster than it is read
HASH_THREADS = 2
READ_ONLY = 0o444  # an image never changes; nobody writes to it by mistake

GoOn = Callable[[], None]  # called between pieces; may raise


class PartInUse(Exception):
    """Another process puts the same file together."""


class NotWhole(Exception):
    """Every chunk has its name, and the whole has not: the manifest is not the image's."""


def no_check() -> None:
    """For a caller that is never to stop."""


class Part:
    """The part file at `path`, to become the image `name`. `put` is safe in several threads at once.

    Raises PartInUse, and OSError as the disk does.
    """

    def __init__(self, path: Path, name: str, manifest: Manifest) -> None:
        self.path = path
        self.name = name
        self.manifest = manifest
        self._places: dict[str, list[int]] = {}
        for chunk, _, offset in _walk(manifest):
            self._places.setdefault(chunk, []).append(offset)
        self._lacking = dict(manifest.names)
        self._lock = threading.Lock()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._fd, manifest.bytes)
        except BlockingIOError:
            os.close(self._fd)
            raise PartInUse(f"{path} is being written by another process") from None
        except OSError:
            os.close(self._fd)
            raise

    def __enter__(self) -> "Part":
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._fd)

    @property
    def lacking(self) -> tuple[tuple[str, int], ...]:
        """Chunks that are not there yet, (name, bytes), in the order of first need."""
        with self._lock:
            return tuple(self._lacking.items())

    @property
    def grows_bytes(self) -> int:
        """What it will still take of the disk, at most."""
        return max(0, self.manifest.bytes - 512 * os.fstat(self._fd).st_blocks)

    def recall(self, go_on: GoOn = no_check) -> int:
        """Find what an earlier life has written; the bytes of it. Nothing is believed unread."""
        before = self._lacking_bytes()
        written = list(_written(self._fd, self.manifest.bytes))
        at = 0
        for name, size, offset in _walk(self.manifest):
            while at < len(written) and written[at][1] <= offset:
                at += 1
            if at == len(written):
                break
            if name in self._lacking and written[at][0] < offset + size:
                go_on()
                self._take(name, os.pread(self._fd, size, offset), stands_at=offset)
        return before - self._lacking_bytes()

    def copy(self, held: Mapping[str, tuple[Path, Manifest]], go_on: GoOn = no_check) -> int:
        """Take what other files have, each with the manifest it once had; the bytes taken.

        A piece that is not what the manifest says, and a file that cannot be read, are passed over.
        """
        before = self._lacking_bytes()
        with contextlib.ExitStack() as opened:
            files: dict[str, int] = {}
            for image, (path, _) in held.items():
                with contextlib.suppress(OSError):
                    files[image] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                    opened.callback(os.close, files[image])
            found = plan(self.manifest, {image: held[image][1] for image in files})
            for piece in found.pieces:
                if piece.held is None or piece.held_offset is None or piece.name not in self._lacking:
                    continue
                go_on()
                try:
                    raw = os.pread(files[piece.held], piece.bytes, piece.held_offset)
                except OSError:  # a bad spot of the disk; the hub has it
                    continue
                self._take(piece.name, raw)
        return before - self._lacking_bytes()

    def put(self, name: str, raw: bytes) -> None:
        """Write a chunk, which has been found to have its name, to all its places."""
        self._put(name, raw, None)

    def complete(self, target: Path, go_on: GoOn = no_check, *, mode: int = READ_ONLY) -> None:
        """Check the whole, and give it its place: durable, with `mode`, at once.

        Raises NotWhole; ValueError while chunks are lacking.
        """
        if self._lacking:
            raise ValueError(f"{len(self._lacking)} chunks are lacking")
        if (found := hash_of(self._fd, go_on)) != self.name:
            raise NotWhole(f"the chunks are together {found}, not {self.name}")
        os.fchmod(self._fd, mode)
        os.fsync(self._fd)
        self.path.rename(target)
        sync_folder(target.parent)

    def remove(self) -> None:
        """Give it up with all it holds."""
        self.path.unlink(missing_ok=True)
        with self._lock:
            self._lacking = dict(self.manifest.names)

    def _take(self, name: str, raw: bytes, *, stands_at: int | None = None) -> None:
        """Put what was read, if it is what it should be."""
        if name_of(raw) == name:
            self._put(name, raw, stands_at)

    def _put(self, name: str, raw: bytes, stands_at: int | None) -> None:
        """Write a chunk to all its places but the one where it stands already."""
        for offset in self._places[name]:
            if offset != stands_at:
                _write(self._fd, raw, offset)
        with self._lock:
            self._lacking.pop(name, None)

    def _lacking_bytes(self) -> int:
        with self._lock:
            return sum(self._lacking.values())


def hash_of(fd: int, go_on: GoOn = no_check) -> str:
    """The BLAKE3 of a whole open file, read from its first byte to its last."""
    hasher = blake3(max_threads=HASH_THREADS)
    buffer = memoryview(bytearray(READ_BYTES))
    offset = 0
    while got := os.preadv(fd, [buffer], offset):
        go_on()
        hasher.update(buffer[:got])
        offset += got
    return hasher.hexdigest()


def sync_folder(folder: Path) -> None:
    """Make a rename within `folder` durable."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _walk(manifest: Manifest) -> Iterator[tuple[str, int, int]]:
    """(name, bytes, offset) of every chunk in order."""
    offset = 0
    for name, size in manifest.chunks:
        yield name, size, offset
        offset += size


def _written(fd: int, length: int) -> Iterator[tuple[int, int]]:
    """The stretches of a sparse file that were written, (first byte, byte after the last).

    A saving only: where the file system cannot tell, all of it.
    """
    at = 0
    while at < length:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
            at = os.lseek(fd, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: no data behind `at`
                yield at, length
            return
        yield start, at


def _write(fd: int, raw: bytes, offset: int) -> None:
    """Write all of it; a disk that fills takes a part and then says so."""
    view = memoryview(raw)
    while view:
        done = os.pwrite(fd, view, offset)
        view, offset = view[done:], offset + done
