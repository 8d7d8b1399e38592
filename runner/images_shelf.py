"""Images at rest in a runner's folder: what is held, since when it was not used, what is left of fetches.

    HASH.img        an image, whole and read-only
    HASH.json       its record: size and time of the file as it was found right; this file's own time
                    is when the image was last used
    HASH.manifest   its chunks, so that a similar image is fetched only as far as it differs
    HASH.part       an image that is being fetched, or was

Invariant: an image is held only while its file is as its record says. A file that is not, or has no
record because its life ended in between, becomes a part file, of which a fetch takes no more than what it
finds to have its name. One process uses the folder: the runner's lock says so.

Not to be done here: fetching, and choosing what to remove.
"""

import contextlib
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hub.carry.part import hash_of, sync_folder
from hub.chunks.manifest import BadManifest, Manifest

log = logging.getLogger(__name__)

_FILE = re.compile(r"([0-9a-f]{64})\.(img|json|manifest|part)")
_UNFINISHED = "tmp-"  # a small file that is being written
MAX_RECORD_BYTES = 10_000  # a record has under 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An image that is here. `arch` None: not known."""

    hash: str
    path: Path
    bytes: int
    mtime_ns: int
    arch: str | None
    used_ns: int  # when it was last used


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A part file, with what it takes of the disk and when it was last written."""

    hash: str
    path: Path
    disk_bytes: int
    written_ns: int


class Shelf:
    """The folder. Not thread-safe: `Images` holds its lock around each call but `verify`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held: dict[str, Held] = {}
        for path in sorted(folder.iterdir()):
            found = _FILE.fullmatch(path.name)
            if path.name.startswith(_UNFINISHED):
                path.unlink(missing_ok=True)
            elif found is None or path.is_symlink() or path.is_dir():
                log.warning("%s is not the runner's: left as it is", path)
            elif found[2] == "img":
                self._find(found[1])
        self._sweep()

    @property
    def held(self) -> dict[str, Held]:
        """What is here, by hash."""
        return dict(self._held)

    def get(self, image: str) -> Held | None:
        """An image that is here, its file looked at once more."""
        if image in self._held:
            self._find(image)
        return self._held.get(image)

    def rests(self) -> list[Rest]:
        """All part files."""
        found = []
        for path in self.folder.glob("*.part"):
            if (named := _FILE.fullmatch(path.name)) is not None:
                with contextlib.suppress(OSError):
                    status = path.stat()
                    taken = status.st_blocks * 512
                    found.append(
                        Rest(hash=named[1], path=path, disk_bytes=taken, written_ns=status.st_mtime_ns)
                    )
        return found

    def path(self, image: str, kind: str) -> Path:
        """Where a file of `image` stands or would: kind is img, json, manifest or part."""
        return self.folder / f"{image}.{kind}"

    def keep(self, image: str, arch: str | None) -> Held:
        """Record an image whose file was just found right, as used now."""
        status = self.path(image, "img").stat()
        record = {"bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "arch": arch}
        self._write(self.path(image, "json"), json.dumps(record))
        self._find(image)
        self.touch(image)
        return self._held[image]

    def keep_manifest(self, image: str, manifest: Manifest) -> None:
        """Keep the chunks of an image, before its first chunk is."""
        self._write(self.path(image, "manifest"), manifest.to_json())

    def manifest(self, image: str) -> Manifest | None:
        """The chunks of an image that is here, or begun; None: not kept, or not readable any more."""
        try:
            return Manifest.from_json(self.path(image, "manifest").read_bytes())
        except (OSError, BadManifest):
            return None

    def touch(self, image: str) -> None:
        """Used now."""
        if image in self._held:
            with contextlib.suppress(OSError):
                now_ns = time.time_ns()  # the kernel's own "now" is 4 ms coarse
                os.utime(self.path(image, "json"), ns=(now_ns, now_ns))
                self._find(image)

    def remove(self, image: str) -> None:
        """Remove an image with all that belongs to it, and its part file. Raises OSError."""
        self._held.pop(image, None)
        for kind in ("json", "img", "part", "manifest"):  # the record first: without it nothing is held
            self.path(image, kind).unlink(missing_ok=True)

    def demote(self, image: str, why: str) -> None:
        """Hold it no longer: its file becomes a part file."""
        self._held.pop(image, None)
        self.path(image, "json").unlink(missing_ok=True)
        path = self.path(image, "img")
        log.warning("image %s is dropped: %s", image[:12], why)
        with contextlib.suppress(FileNotFoundError):
            path.chmod(0o600)
            os.utime(path)  # as a part it is as young as this
            path.rename(self.path(image, "part"))

    def wrong(self) -> Iterator[str]:
        """Hash every image that is held; those that do not have their name any more."""
        for image, one in self.held.items():
            try:
                fd = os.open(one.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                yield image
                continue
            try:
                if hash_of(fd) != image:
                    yield image
            except OSError:
                yield image
            finally:
                os.close(fd)

    def _find(self, image: str) -> None:
        """Hold an image if its file is as its record says; else drop it."""
        record, path = self.path(image, "json"), self.path(image, "img")
        try:
            status, used_ns = path.stat(), record.stat().st_mtime_ns
            with record.open("rb") as file:
                said = json.loads(file.read(MAX_RECORD_BYTES))
            right = (said["bytes"], said["mtime_ns"]) == (status.st_size, status.st_mtime_ns)
            arch = said["arch"]
        except (OSError, ValueError, KeyError, TypeError):
            self.demote(image, "it has no record")
            return
        if not right or not isinstance(arch, str | None):
            self.demote(image, "its file has changed")
            return
        self._held[image] = Held(
            hash=image,
            path=path,
            bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            arch=arch,
            used_ns=used_ns,
        )

    def _sweep(self) -> None:
        """Remove records and manifests of what is neither here nor begun, and parts of what is here."""
        for path in self.folder.iterdir():
            named = _FILE.fullmatch(path.name)
            if named is None or named[2] == "img":
                continue
            if named[2] == "part":
                if named[1] in self._held:
                    path.unlink(missing_ok=True)
                continue
            begun = named[2] == "manifest" and self.path(named[1], "part").exists()
            if named[1] not in self._held and not begun:
                path.unlink(missing_ok=True)

    def _write(self, path: Path, text: str) -> None:
        """Write a small file as a whole or not at all."""
        with tempfile.NamedTemporaryFile("w", dir=self.folder, prefix=_UNFINISHED, delete=False) as file:
            try:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).rename(path)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise
        sync_folder(self.folder)
