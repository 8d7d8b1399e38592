"""How much memory and disk a job takes, sampled: now, and at most so far.

Memory is the sum over the job's whole process tree, four times a second: the proportional share
(PSS) while that is cheap, else the resident size, which counts shared pages more than once. The
tier measures and does not limit. Disk is what the job's folder takes in blocks, walked without
following links, never for more than a twentieth of the time. Beside them it remembers how little room
the folder's file system had at the worst, for a file that was too large is often removed at once.
"""

import contextlib
import os
import threading
import time
from pathlib import Path

from runner.sandbox.base import Usage
from runner.sandbox.keeper import descendants

MEMORY_EVERY_S = 0.25
DISK_EVERY_S = 2.0
DISK_SHARE = 20  # a walk that took T is followed by at least 20 T without one
MAX_ENTRIES = 2_000_000  # files looked at in one walk; what is beyond is not counted
PSS_S = 0.025  # a sample that takes longer is taken as RSS from then on
FULL_BYTES = 16 * 2**20  # a file system with less free is full: a compiler's next file does not fit
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MIB = 2**20


class Meter:
    """Samples in a thread of its own from `start` to `stop`."""

    every_s = MEMORY_EVERY_S

    def __init__(self, root: int, folder: Path) -> None:
        self._root = root
        self._folder = folder
        self._usage = Usage()
        self._ended = threading.Event()
        self._cheap = True
        self._was_full = False
        self._seen: dict[int, int] = {}
        self._thread = threading.Thread(target=self._sample, name="meter", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sampling; a walk that is under way is given up."""
        self._ended.set()
        self._thread.join()

    def look_last(self) -> None:
        """A last look at the disk, after `stop`: what the job took may have grown since."""
        self._note_disk(disk_bytes(self._folder))

    def begin_step(self) -> None:
        """Forget that the file system was full, before the step that begins now."""
        self._was_full = False

    def was_full(self) -> bool:
        """Whether, since `begin_step`, the folder's file system was seen with less than FULL_BYTES free."""
        self._look_at_room()
        return self._was_full

    @property
    def usage(self) -> Usage:
        """As last measured."""
        return self._usage

    @property
    def seen(self) -> dict[int, int]:
        """The processes of the last sample, with their start times: who they were, should they flee."""
        return self._seen

    def _sample(self) -> None:
        disk_due = 0.0
        while not self._ended.wait(self.every_s):
            self._measure_memory()
            self._look_at_room()
            if time.monotonic() >= disk_due:
                took_s = self._measure_disk()
                disk_due = time.monotonic() + max(DISK_EVERY_S, DISK_SHARE * took_s)

    def _measure_memory(self) -> None:
        began = time.monotonic()
        total, seen = 0, {}
        for pid in descendants(self._root):
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += _pss(pid) if self._cheap else _rss(pid)
                seen[pid] = started(pid)
        self._cheap = self._cheap and time.monotonic() - began < PSS_S
        self._seen = seen
        self._note(memory_mib=-(-total // _MIB))

    def _look_at_room(self) -> None:
        with contextlib.suppress(OSError):
            if free_bytes(self._folder) < FULL_BYTES:
                self._was_full = True

    def _measure_disk(self) -> float:
        began = time.monotonic()
        self._note_disk(disk_bytes(self._folder, self._ended))
        return time.monotonic() - began

    def _note_disk(self, size: int | None) -> None:
        if size is not None:
            self._note(disk_mib=-(-size // _MIB))

    def _note(self, *, memory_mib: int | None = None, disk_mib: int | None = None) -> None:
        old = self._usage
        memory = old.memory_mib if memory_mib is None else memory_mib
        disk = old.disk_mib if disk_mib is None else disk_mib
        self._usage = Usage(
            memory_mib=memory,
            disk_mib=disk,
            peak_memory_mib=_larger(memory, old.peak_memory_mib),
            peak_disk_mib=_larger(disk, old.peak_disk_mib),
        )


def free_bytes(folder: Path) -> int:
    """What this user may still write on the file system of `folder`. Raises OSError where there is none."""
    room = os.statvfs(folder)
    return (room.f_bfree if os.geteuid() == 0 else room.f_bavail) * room.f_frsize  # root may use it all


def disk_bytes(folder: Path, ended: threading.Event | None = None) -> int | None:
    """Bytes on disk of all below `folder`; a file with two names counts once. Links are not followed.

    None: `ended` was set before all was seen.
    """
    total, count = 0, 0
    linked: set[tuple[int, int]] = set()
    ahead = [str(folder)]
    while ahead and count < MAX_ENTRIES:
        if ended is not None and ended.is_set():
            return None
        with contextlib.suppress(OSError), os.scandir(ahead.pop()) as entries:
            for entry in entries:
                count += 1
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if found.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                        if (found.st_dev, found.st_ino) in linked:
                            continue
                        linked.add((found.st_dev, found.st_ino))
                    total += found.st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
    return total


def started(pid: int) -> int:
    """When a process began, in clock ticks since boot: with its number it names it for ever.

    Raises OSError where there is none.
    """
    return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])


def _pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_bytes().splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE


def _larger(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
