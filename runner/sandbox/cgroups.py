"""One job's control groups: its limits where the machine lets us set them, and what it uses.

Each controller (memory, pids, cpu) is looked for by itself, for machines have version 1, version 2 or
both at once, and may delegate only some. What cannot be limited is told, with its reason, never
assumed. Groups are made below the runner's own, so that limits set on the runner hold for its jobs.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner import limits
from runner.sandbox.keeper import descendants, signal_one

Controller = Literal["memory", "pids", "cpu"]
CONTROLLERS: tuple[Controller, ...] = ("memory", "pids", "cpu")
PREFIX = "shunter-job-"
LEAF = "shunter-agent"  # version 2 keeps processes out of a group that has limited groups below it
PERIOD_US = 100_000  # the kernel's default for CPU quotas
KILL_S = 10.0  # as in `keeper`
REMOVE_S = 2.0  # a group of which the last process has just ended is busy for a moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """Where groups of jobs are made for one controller. `version` None: nowhere, for `why`."""

    version: Literal[1, 2] | None
    folder: Path | None = None
    why: str = ""


def homes(root: Path = Path("/")) -> dict[Controller, Home]:
    """Where each controller's groups can be made by this process. Changes nothing."""
    return {controller: _home(root, controller) for controller in CONTROLLERS}


def _home(root: Path, controller: Controller) -> Home:
    why = f"no control group with {controller} is mounted"
    for group in limits.groups(root, controller):
        if not (group / "cgroup.controllers").exists():
            if os.access(group, os.W_OK):
                return Home(version=1, folder=group)
            return Home(version=None, why=f"{group} is not this user's")
        if controller in _words(group / "cgroup.controllers"):
            home = group.parent if group.name == LEAF else group
            if not os.access(home, os.W_OK) or not os.access(home / "cgroup.subtree_control", os.W_OK):
                return Home(version=None, why=f"{home} is not delegated to this user")
            return Home(version=2, folder=home)
    return Home(version=None, why=why)


def ready(found: Mapping[Controller, Home]) -> dict[Controller, Home]:
    """The same, with version 2 made to pass its controllers on; for those that it will not, why.

    The runner's own processes move to a group below for that, if no foreign one is beside them.
    """
    return {
        controller: _pass_on(home, controller) if home.version == 2 else home
        for controller, home in found.items()
    }


def _pass_on(home: Home, controller: Controller) -> Home:
    assert home.folder is not None
    control = home.folder / "cgroup.subtree_control"
    try:
        if controller not in _words(control):
            try:
                control.write_text(f"+{controller}")
            except OSError:  # EBUSY: it has processes of its own
                _step_down(home.folder)
                control.write_text(f"+{controller}")
    except OSError as error:
        return Home(version=None, why=f"{home.folder} does not pass {controller} on: {error.strerror}")
    return home


def _step_down(folder: Path) -> None:
    """Move this process, and those below it, out of its group. Raises OSError where others are in it."""
    ours = {os.getpid(), *descendants(os.getpid())}
    here = [int(pid) for pid in _words(folder / "cgroup.procs")]
    if not set(here) <= ours:
        raise OSError(0, "other processes are in it: run as a service, with Delegate=yes")
    (folder / LEAF).mkdir(exist_ok=True)
    for pid in here:
        with contextlib.suppress(ProcessLookupError):
            (folder / LEAF / "cgroup.procs").write_text(str(pid))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a job may take; None: as much as there is."""

    memory_mib: int | None = None
    cpus: int | None = None
    processes: int | None = None


class Group:
    """One job's groups, one for each hierarchy that has any of the controllers."""

    def __init__(self, name: str, found: Mapping[Controller, Home]) -> None:
        self._folders = {
            controller: home.folder / f"{PREFIX}{name}"
            for controller, home in found.items()
            if home.folder is not None
        }

    def make(self, asked: Limits) -> None:
        """Make the groups and set the limits. Raises OSError."""
        for folder in self._folders.values():
            folder.mkdir(exist_ok=True)
        memory, pids, cpu = (self._folders.get(controller) for controller in CONTROLLERS)
        if memory is not None and asked.memory_mib is not None:
            self._limit_memory(memory, asked.memory_mib * 2**20)
        if pids is not None and asked.processes is not None:
            (pids / "pids.max").write_text(str(asked.processes))
        if cpu is not None and asked.cpus is not None:
            quota = asked.cpus * PERIOD_US
            if (cpu / "cpu.max").exists():
                (cpu / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            else:
                (cpu / "cpu.cfs_quota_us").write_text(str(quota))

    def _limit_memory(self, folder: Path, size: int) -> None:
        """Memory, and no swap beside it: a job that swaps slows down the others instead of ending."""
        if (folder / "memory.max").exists():
            (folder / "memory.max").write_text(str(size))
            with contextlib.suppress(OSError):  # a kernel without swap accounting has no such file
                (folder / "memory.swap.max").write_text("0")
            return
        (folder / "memory.limit_in_bytes").write_text(str(size))
        with contextlib.suppress(OSError):
            (folder / "memory.memsw.limit_in_bytes").write_text(str(size))

    def limits(self, controller: Controller) -> bool:
        """Whether it can limit this."""
        return controller in self._folders

    @property
    def entrances(self) -> tuple[str, ...]:
        """The files to write a process's number into, so that it and all that it starts are in."""
        return tuple(sorted({str(folder / "cgroup.procs") for folder in self._folders.values()}))

    def memory_bytes(self) -> int | None:
        """What it uses now, without page cache that could be dropped at once; None: not known."""
        if (folder := self._folders.get("memory")) is None:
            return None
        return limits.used_bytes(folder)

    def oom_kills(self) -> int | None:
        """How many of its processes the kernel has killed for want of memory; None: not known."""
        if (folder := self._folders.get("memory")) is None:
            return None
        return limits.oom_kills_of(folder)

    def processes(self) -> set[int]:
        """Who is in it, groups below not counted: a job cannot make any."""
        found: set[int] = set()
        for folder in self._folders.values():
            found.update(int(pid) for pid in _words(folder / "cgroup.procs"))
        return found

    def kill(self) -> set[int]:
        """Kill all that is in it; those that would not die."""
        return _kill(self.processes)

    def remove(self) -> None:
        """Kill what is in it and remove the groups."""
        self.kill()
        _remove(self._folders.values())


def left_over(name: str, found: Mapping[Controller, Home]) -> None:
    """End and remove an earlier life's group, wherever it may be."""
    Group(name, found).remove()


def _kill(processes: Callable[[], set[int]]) -> set[int]:
    until = time.monotonic() + KILL_S
    while found := processes():
        for pid in found:
            signal_one(pid, signal.SIGKILL)
        if time.monotonic() > until:
            return found
        time.sleep(0.005)
    return set()


def _remove(folders: Iterable[Path]) -> None:
    until = time.monotonic() + REMOVE_S
    for folder in set(folders):
        while True:
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > until:
                    break
                time.sleep(0.005)
            else:
                break


def _words(path: Path) -> list[str]:
    """A file's words; none, where it cannot be read."""
    try:
        return path.read_text().split()
    except OSError:
        return []
