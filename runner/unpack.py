"""A packed folder unpacked, as if its maker were an enemy.

Invariant: nothing is written, linked or opened outside the target, whatever the names and links in
the pack. Every part of a name is opened below the folder before it, and never through a link; the
filter of `tarfile` is not relied on, for its releases before 2025 could be led out by long paths.
"""

import contextlib
import os
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

import zstandard

MAX_FILES = 1_000_000  # twice what `shunter run submit` packs, for folders on the way to them
MAX_BYTES = 64 * 2**30  # unpacked; a pack that holds more is no source tree
MAX_DEPTH = 200  # folders above a file: each costs an open
MAX_WINDOW_BYTES = 2**27  # what zstd may ask of our memory: level 19 needs 8 MiB, --long=27 the whole
SPARE_BYTES = 256 * 2**20  # left free on the disk, for the agent's own logs
MAX_HEADER_BYTES = 2**20  # names and links may be long, but not so long
_COPY = 2**18


class BadPack(Exception):
    """The pack is not what a pack may be: its words say which entry, and why."""


class Unwanted(BadPack):
    """One entry that is not taken, whatever may be said of the others."""


class NoRoom(Exception):
    """The disk has no room for what is in the pack."""


class Stream(Protocol):
    """Bytes that come one after the other."""

    def read(self, size: int, /) -> bytes:
        """Some bytes, `size` at most; none: there are no more."""


@dataclass(slots=True)
class Unpacked:
    """What was written."""

    files: int = 0
    bytes: int = 0


def unpack(
    pack: IO[bytes],
    target: Path,
    *,
    max_bytes: int = MAX_BYTES,
    spare_bytes: int = SPARE_BYTES,
    go_on: Callable[[], None] = lambda: None,
) -> Unpacked:
    """Unpack a tar compressed with zstd into the empty folder `target`.

    `go_on` is called for each entry and may raise; `spare_bytes` are left free on the target's disk.
    Raises BadPack, NoRoom, or OSError of the disk; what was written until then stays.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(pack, read_across_frames=False) as stream:
            return unpack_tar(stream, target, max_bytes=max_bytes, spare_bytes=spare_bytes, go_on=go_on)
    except zstandard.ZstdError as error:
        raise BadPack(f"the pack cannot be read: {error}") from None


def unpack_tar(
    stream: Stream,
    target: Path,
    *,
    max_bytes: int = MAX_BYTES,
    spare_bytes: int = SPARE_BYTES,
    go_on: Callable[[], None] = lambda: None,
    left_out: Callable[[str], None] | None = None,
) -> Unpacked:
    """The same, of a tar that is not compressed.

    `left_out` is told of each entry that is no file, folder or link, or has no place below the folder,
    which is then passed over; and links may lead anywhere, for a folder in which somebody worked has such.
    None: any of that is refused.
    """
    room = os.statvfs(target)
    free = room.f_bavail * room.f_frsize - spare_bytes
    root = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    writer = _Writer(root, max_bytes, free, links_out=left_out is not None)
    try:
        with _reading(source := _Metered(stream)) as tar:
            while (member := tar.next()) is not None:
                go_on()
                source.allow(member.size)
                try:
                    writer.put(tar, member)
                except Unwanted as error:
                    if left_out is None:
                        raise
                    left_out(str(error))
                source.allow(0)
                vars(tar)["members"].clear()  # it would remember every entry, and every global header
                vars(tar)["pax_headers"].clear()
    except (tarfile.TarError, EOFError, UnicodeError, RecursionError) as error:
        raise BadPack(f"the pack cannot be read: {error}") from None
    finally:
        writer.close()
    return writer.done


class _Metered:
    """A stream that ends in BadPack where a header would be read for ever, into memory."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._left = MAX_HEADER_BYTES

    def allow(self, size: int) -> None:
        """So much of content comes next, and then a header."""
        self._left = size + MAX_HEADER_BYTES

    def read(self, size: int) -> bytes:
        """As any stream."""
        piece = self._stream.read(size)
        self._left -= len(piece)
        if self._left < 0:
            raise BadPack(f"an entry's header has more than {MAX_HEADER_BYTES} bytes")
        return piece


def _reading(source: _Metered) -> tarfile.TarFile:
    return tarfile.open(
        fileobj=cast(IO[bytes], source), mode="r|", encoding="utf-8", errors="surrogateescape"
    )


class _Writer:
    """Writes entries below one folder. Keeps the last entry's folder open: entries come in order."""

    def __init__(self, root: int, max_bytes: int, free: int, *, links_out: bool) -> None:
        self._links_out = links_out
        self.done = Unpacked()
        self._root = root
        self._max, self._free = max_bytes, free
        self._entries = 0
        self._path: tuple[str, ...] = ()
        self._folder = root

    def close(self) -> None:
        """Give the descriptors back."""
        if self._folder != self._root:
            os.close(self._folder)
        os.close(self._root)

    def put(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Write one entry."""
        self._entries += 1
        if self._entries > MAX_FILES:
            raise BadPack(f"the pack has more than {MAX_FILES} entries")
        parts = _parts(member.name)
        try:
            if member.isdir():
                self._enter(parts)
            elif parts and member.isreg():
                self._file(tar, member, parts)
            elif parts and member.issym():
                self._symlink(member, parts)
            elif parts and member.islnk():
                self._hardlink(member, parts)
            else:
                raise Unwanted(f"{member.name!r} is neither a file, a folder nor a link")
        except (NotADirectoryError, IsADirectoryError, FileExistsError) as error:
            raise Unwanted(f"{member.name!r} stands in the way of another entry: {error.strerror}") from None
        except ValueError as error:  # a NUL in a name
            raise Unwanted(f"{member.name!r}: {error}") from None

    def _file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        if not 0 <= member.size <= self._max - self.done.bytes:
            raise BadPack(f"the pack holds more than {self._max} bytes")
        if member.size > self._free - self.done.bytes:
            raise NoRoom(f"no space left for the workspace: it needs more than {self._free >> 20} MiB")
        source = tar.extractfile(member)
        assert source is not None  # it is a regular file
        folder = self._enter(parts[:-1])
        mode = 0o755 if member.mode & 0o100 else 0o644
        handle = self._create(parts[-1], mode, folder)
        with os.fdopen(handle, "wb", buffering=0) as file:
            left = member.size
            while left > 0:
                piece = source.read(min(left, _COPY))
                if not piece:
                    raise BadPack(f"{member.name!r} is cut off")
                file.write(piece)
                left -= len(piece)
            if 0 <= member.mtime < 2**40:
                os.utime(handle, (member.mtime, member.mtime))
        self.done.files += 1
        self.done.bytes += member.size

    def _symlink(self, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        if not self._links_out and _leads_out(member.linkname, len(parts) - 1):
            raise Unwanted(f"{member.name!r} is a link that leads out, to {member.linkname!r}")
        folder = self._enter(parts[:-1])
        _make_way(parts[-1], folder)
        os.symlink(member.linkname, parts[-1], dir_fd=folder)
        self.done.files += 1

    def _hardlink(self, member: tarfile.TarInfo, parts: tuple[str, ...]) -> None:
        of = _parts(member.linkname)
        if not of or of == parts:
            raise Unwanted(f"{member.name!r} is a link to nothing")
        source = self._walk(of[:-1], make=False)
        try:
            folder = self._enter(parts[:-1])
            _make_way(parts[-1], folder)
            os.link(of[-1], parts[-1], src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, PermissionError) as error:
            raise Unwanted(
                f"{member.name!r} links to {member.linkname!r}, which is no file: {error.strerror}"
            ) from None
        finally:
            os.close(source)
        self.done.files += 1

    def _create(self, name: str, mode: int, folder: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(name, flags, mode, dir_fd=folder)
        except FileExistsError:
            _make_way(name, folder)
            handle = os.open(name, flags, mode, dir_fd=folder)
        os.fchmod(handle, mode)
        return handle

    def _enter(self, parts: tuple[str, ...]) -> int:
        """The folder, made where it is missing, and kept open until another is entered."""
        if parts != self._path:
            folder = self._walk(parts, make=True)
            if self._folder != self._root:
                os.close(self._folder)
            self._folder, self._path = folder, parts
        return self._folder

    def _walk(self, parts: tuple[str, ...], *, make: bool) -> int:
        """The folder below the root, each part opened below the one before and never through a link."""
        at = os.dup(self._root)
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, 0o755, dir_fd=at)
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                below = os.open(part, flags, dir_fd=at)
                os.close(at)
                at = below
        except FileNotFoundError:
            os.close(at)
            raise Unwanted(f"{'/'.join(parts)!r} is linked to before it is there") from None
        except BaseException:
            os.close(at)
            raise
        return at


def _leads_out(link: str, depth: int) -> bool:
    """Whether a link that lies `depth` folders deep leads out of them."""
    for part in link.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(part, 1)
        if depth < 0:
            return True
    return link.startswith("/")


def _make_way(name: str, folder: int) -> None:
    """A later entry replaces an earlier file or link of the same name, as tar does."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _parts(name: str) -> tuple[str, ...]:
    """A name's parts; `./` before them is usual. Raises BadPack for a name that leads out."""
    if name.startswith("/"):
        raise Unwanted(f"{name!r} is not a name below the folder")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise Unwanted(f"{name!r} leads out of the folder")
    if len(parts) > MAX_DEPTH:
        raise Unwanted(f"{name[:100]!r}… lies more than {MAX_DEPTH} folders deep")
    return parts
