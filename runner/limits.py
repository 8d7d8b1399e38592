"""What control groups leave of the machine: memory and CPUs, version 1 and 2, and both at once.

And how often the kernel killed for want of memory: in the innermost group where that counts, for what
it does elsewhere on the machine is no word about us.

A limit of any group above this process holds. `root` is the root of the file system, so that tests
can show made-up trees. A tree that cannot be read limits nothing.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MAX_BYTES = 2**60  # version 1 says "no limit" as the largest number of pages; no machine has an EiB


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit:
    """The tightest limit, and what its group uses without the page cache it could drop; in bytes."""

    limit_bytes: int
    used_bytes: int


def memory_limit(root: Path = Path("/")) -> MemoryLimit | None:
    """The tightest memory limit on this process; None: there is none."""
    found = []
    for group in groups(root, "memory"):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _number(group / limit_name), _number(group / used_name)
            if limit is not None and used is not None and limit < MAX_BYTES:
                found.append(MemoryLimit(limit_bytes=limit, used_bytes=max(0, used - _inactive_file(group))))
    return min(found, key=lambda each: each.limit_bytes, default=None)


def cpu_quota(root: Path = Path("/")) -> float | None:
    """The tightest CPU quota on this process, in CPUs; None: there is none."""
    found = []
    for group in groups(root, "cpu"):
        with contextlib.suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            if quota != "max":
                found.append(int(quota) / int(period))
        quota_us, period_us = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
        if quota_us is not None and quota_us > 0 and period_us:
            found.append(quota_us / period_us)
    return min((each for each in found if math.isfinite(each) and each > 0), default=None)


def oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes the kernel has killed for want of memory, since this group, or the machine, began.

    Counted in this process's own group; where that does not count, on the whole machine. None: unknown.
    """
    for group in groups(root, "memory"):
        if (kills := oom_kills_of(group)) is not None:
            return kills
        break  # a group above counts what others run
    return _count(root / "proc/vmstat")


def oom_kills_of(group: Path) -> int | None:
    """How many processes of one group the kernel has killed for want of memory; None: it does not count."""
    found = (_count(group / name) for name in ("memory.events", "memory.oom_control"))
    return next((kills for kills in found if kills is not None), None)


def used_bytes(group: Path) -> int | None:
    """What one group uses, without the page cache it could drop at once; None: it does not tell."""
    for name in ("memory.current", "memory.usage_in_bytes"):
        if (used := _number(group / name)) is not None:
            return max(0, used - _inactive_file(group))
    return None


def _count(path: Path) -> int | None:
    """The figure behind `oom_kill` in a file of such lines; None: there is none."""
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, figure = line.partition(" ")
            if name == "oom_kill":
                return int(figure)
    return None


def groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of this process's groups that may limit `controller`, the innermost first."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return
    inside = {}
    for line in lines:
        _, controllers, place = line.split(":", 2)
        for name in controllers.split(","):
            inside[name] = place
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        options = kind[2].split(",")
        path = inside.get("") if kind[0] == "cgroup2" else inside.get(controller)
        if path is None or (kind[0] != "cgroup2" and (kind[0] != "cgroup" or controller not in options)):
            continue
        yield from _chain(root / fields[4].lstrip("/"), PurePosixPath(fields[3]), PurePosixPath(path))


def _chain(mount: Path, shown: PurePosixPath, path: PurePosixPath) -> Iterator[Path]:
    """From the group `path` up to the top of the mount, which shows the hierarchy from `shown` on.

    Within a container the path may be the host's, of which the mount shows only the end, or nothing.
    """
    inside = path.relative_to(shown) if path.is_relative_to(shown) else PurePosixPath(str(path).lstrip("/"))
    parts = inside.parts
    for count in range(len(parts), -1, -1):
        group = mount.joinpath(*parts[:count])
        if ".." not in parts and group.is_dir():
            yield group
    if ".." in parts:
        yield mount


def _number(path: Path) -> int | None:
    """A number in a file; None: no such file, or a word such as `max`."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _inactive_file(group: Path) -> int:
    """Page cache that the group could drop at once, children included."""
    figures = {}
    with contextlib.suppress(OSError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, number = line.partition(" ")
            with contextlib.suppress(ValueError):
                figures[name] = int(number)
    return figures.get("total_inactive_file", figures.get("inactive_file", 0))
