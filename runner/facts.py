"""What this machine is and has, read with the standard library in about a millisecond.

Memory in use is total minus available, within the limits of control groups; CPUs are what this
process may run on, within its quota. None: not known, which is never the same as zero. `root` is
the root of the file system, so that tests can show made-up trees.
"""

import contextlib
import math
import os
import platform
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from hub.wire.base import plain_text
from runner.limits import cpu_quota, memory_limit

_MIB = 2**20
MAX_WORD = 200  # characters of a name, as the wire bounds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """In MiB."""

    total_mib: int
    used_mib: int


def memory(root: Path = Path("/")) -> Memory | None:
    """What there is for this process and what is used of it; None: not known."""
    figures = {}
    with contextlib.suppress(OSError):
        for line in (root / "proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            with contextlib.suppress(ValueError, IndexError):
                figures[name] = int(rest.split()[0]) * 1024
    total, available = figures.get("MemTotal"), figures.get("MemAvailable")
    if total is None or available is None:
        return None
    used = total - available
    limit = memory_limit(root)
    if limit is not None and limit.limit_bytes < total:
        # The machine may be short of memory while the group is not: the worse of the two readings.
        used = max(limit.used_bytes, limit.limit_bytes - available)
        total = limit.limit_bytes
    return Memory(total_mib=total // _MIB, used_mib=max(0, min(used, total)) // _MIB)


def cpus(root: Path = Path("/"), affinity: int | None = None) -> int:
    """CPUs that this process may keep busy, at least 1; a quota of 1.5 counts as 1."""
    allowed = len(os.sched_getaffinity(0)) if affinity is None else affinity
    quota = cpu_quota(root)
    return max(1, allowed if quota is None else min(allowed, math.floor(quota)))


def free_disk_mib(folder: Path) -> int | None:
    """What this user may still write below `folder`."""
    try:
        return shutil.disk_usage(folder).free // _MIB
    except OSError:
        return None


def load1() -> float | None:
    """The load average of the last minute."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def arch() -> str | None:
    """As `uname -m` says it; None where that is no plain word."""
    name = platform.machine().lower()
    return name if re.fullmatch(r"[a-z0-9_]{1,32}", name) else None


def kernel() -> str | None:
    """The kernel's release."""
    return _word(platform.release())


def os_name() -> str | None:
    """As the distribution calls itself."""
    try:
        return _word(platform.freedesktop_os_release().get("PRETTY_NAME", ""))
    except OSError:
        return _word(platform.system())


def cpu_model(root: Path = Path("/")) -> str | None:
    """The processor's name; None where the kernel does not tell it (ARM)."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model", "cpu model")):
                return _word(line.partition(":")[2])
    return None


def machine_id(root: Path = Path("/")) -> str:
    """What tells this machine from a copy of its disk elsewhere; empty where nothing does."""
    with contextlib.suppress(OSError):
        return (root / "etc/machine-id").read_text().strip()
    return ""


def _word(text: str) -> str | None:
    word = " ".join(plain_text(text.strip(), MAX_WORD).split())
    return word or None
