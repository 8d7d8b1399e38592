"""What a job of the namespace tier takes, and its end where only sampling can hold it to a limit.

Memory is its control group's, without the page cache that could be dropped, where there is one; else
the sum over its processes, as the process tier counts it, and a job that is seen above its limit is
killed. Disk is its scratch file system's, whose size is the limit; a plain user has none, so there it
is the walk of the folder, and again a job seen above its limit is killed. What was seen too late was
taken: a limit that is sampled bounds a job, and not the instant.
"""

import contextlib
import os
import signal
from pathlib import Path

from hub.wire.claim import Short
from runner.sandbox import keeper
from runner.sandbox.cgroups import Group
from runner.sandbox.meter import Meter

EVERY_S = 0.05  # what a group uses is two small files
FULL_SHARE = 64  # scratch with less than this part of it free is full, and with less than 1 MiB at any rate
_MIB = 2**20


class Gauge(Meter):
    """A meter that knows the job's group and limits, once `watch` has told it."""

    every_s = EVERY_S

    def __init__(self, root: int, folder: Path) -> None:
        super().__init__(root, folder)
        self._root_pid = root
        self._scratch: Path | None = None
        self._file: Path | None = None  # that holds the scratch file system
        self._base = 0  # what an empty scratch file system says that it takes, in bytes
        self._base_bytes = 0  # and its file
        self._room = 0  # what could be written to it: less than is free, of which ext4 keeps a part back
        self._group: Group | None = None
        self._limit_memory: int | None = None
        self._limit_disk: int | None = None
        self.over: Short | None = None

    def watch(
        self,
        *,
        group: Group,
        scratch: Path | None,
        file: Path | None,
        memory_mib: int | None,
        disk_mib: int | None,
    ) -> None:
        """`scratch`: the mounted file system, in `file`, whose size is the limit; None: disk is sampled."""
        if group.limits("memory"):
            self._group = group
        else:
            self._limit_memory = memory_mib
        if scratch is None:
            self._limit_disk = disk_mib
        else:
            room = os.statvfs(scratch)
            self._base = (room.f_blocks - room.f_bfree) * room.f_frsize
            self._room = room.f_bavail * room.f_frsize
            self._scratch, self._file = scratch, file
            self._base_bytes = self._file_bytes()

    def look_last(self) -> None:
        """A last look at the disk."""
        if self._scratch is None:
            super().look_last()
        else:
            self._look_at_room()
            # What was deleted before it was seen is in the file all the same: it never shrinks.
            self._note_disk(max(0, self._file_bytes() - self._base_bytes))

    def note_whole_memory(self, memory_mib: int) -> None:
        """It was killed at its limit, which a sample in between need not have seen."""
        self._note(memory_mib=memory_mib)

    def _measure_memory(self) -> None:
        used = None if self._group is None else self._group.memory_bytes()
        if used is not None:
            self._note(memory_mib=-(-used // _MIB))
            return
        super()._measure_memory()
        if self._limit_memory is not None and (self.usage.memory_mib or 0) > self._limit_memory:
            self._end("memory")

    def _look_at_room(self) -> None:
        if self._scratch is None:
            super()._look_at_room()
            return
        with contextlib.suppress(OSError):  # it was unmounted
            room = os.statvfs(self._scratch)
            self._note_disk(max(0, (room.f_blocks - room.f_bfree) * room.f_frsize - self._base))
            super()._look_at_room()  # the machine's disk, which the scratch file may find full too
            if room.f_bavail * room.f_frsize < self._margin():
                self._was_full = True

    def _margin(self) -> int:
        """With less free it is full; in bytes."""
        return max(_MIB, self._room // FULL_SHARE)

    def _file_bytes(self) -> int:
        """What the scratch file takes on the machine's disk."""
        if self._file is None:
            return 0
        with contextlib.suppress(OSError):
            return self._file.stat().st_blocks * 512
        return 0

    def _measure_disk(self) -> float:
        if self._scratch is not None:
            return 0.0
        took_s = super()._measure_disk()
        if self._limit_disk is not None and (self.usage.disk_mib or 0) > self._limit_disk:
            self._end("disk")
        return took_s

    def _end(self, short: Short) -> None:
        """Kill the job's processes. Each stands below the init of its step, and goes with it."""
        self.over = short
        for pid in keeper.descendants(self._root_pid):
            keeper.signal_one(pid, signal.SIGKILL)
