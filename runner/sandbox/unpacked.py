"""Images unpacked to folders, for machines that cannot mount them: once per image, read-only by custom.

Invariant: a folder that has its final name is whole. A plain user's files in it are all that user's,
so a job could write to them if it could reach them: it sees them only as the lower layer of an overlay.
At most KEPT stay; one that a job uses is locked and stays in any case.
"""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from runner import leftovers
from runner.sandbox.base import SandboxBroken
from runner.sandbox.place import program

KEPT = 8  # unpacked images beside the packed ones; each is some hundred MiB to some GiB
UNPACK_S = 1800.0  # as preparing may take
NOT_ALL = 2  # how unsquashfs says that it left out what only root may make: devices


class Unpacked:
    """The folder of unpacked images."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def use(self, name: str, image: Path) -> Iterator[Path]:
        """The folder of an image, unpacked if it is not yet; it stays while the context is open.

        Raises SandboxBroken or OSError.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        target = self._folder / name
        lock = self._share(target, image)
        try:
            os.utime(lock)
            self._make_room()
            yield target
        finally:
            os.close(lock)

    def _share(self, target: Path, image: Path) -> int:
        """The descriptor that holds a shared lock on an unpacked image, which is then there.

        Whoever finds it missing unpacks it under a lock of his own; and looks again, for between the two
        locks it may have been removed.
        """
        while True:
            lock = self._locked(target.with_suffix(".lock"), fcntl.LOCK_SH)
            if target.is_dir():
                return lock
            os.close(lock)
            lock = self._locked(target.with_suffix(".lock"), fcntl.LOCK_EX)  # one unpacks, the others wait
            try:
                if not target.is_dir():
                    self._unpack(image, target)
            finally:
                os.close(lock)

    @staticmethod
    def _locked(path: Path, kind: int) -> int:
        """The descriptor of a lock file that nobody has removed meanwhile."""
        while True:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, kind)
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == os.fstat(lock).st_ino:
                    return lock
            os.close(lock)

    def _unpack(self, image: Path, target: Path) -> None:
        unsquashfs = program("unsquashfs")
        if unsquashfs is None:
            raise SandboxBroken("squashfs-tools is not installed")
        part = target.with_name(f"{target.name}.part")
        leftovers.remove(part)
        words = [unsquashfs, "-q", "-n", "-no-xattrs", "-d", str(part), str(image)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=UNPACK_S, check=False)  # noqa: S603 - our own words
        if done.returncode not in (0, NOT_ALL):
            leftovers.remove(part)
            raise SandboxBroken(f"the image cannot be unpacked: {done.stderr.strip()[-300:]}")
        part.rename(target)

    def _make_room(self) -> None:
        """Remove the least recently used beyond KEPT, but for those in use."""
        found = [path for path in self._folder.iterdir() if path.suffix == ".lock"]
        found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
        for path in found[KEPT:]:
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            else:
                leftovers.remove(path.with_suffix(""))
                leftovers.remove(path.with_suffix(".part"))
                path.unlink()
            finally:
                os.close(lock)
