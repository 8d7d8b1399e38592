"""The tier `microvm`: a job's steps run in guests with a kernel of their own, apart from the machine's.

Steps in one image run in one guest; a step in another image has another guest, which is booted when the
first such step begins and takes the place of the former, for a job has the memory it asked for once. What
a step left running goes on as long as its guest does.

The job's files lie on one scratch disk (ext4, as large as the job asked), which is handed from guest to
guest: the workspace and, for each image, a layer for what is written over it. So nothing is copied between
steps, and what the job may write has one limit. The workspace goes in and comes back as a tar over a
port of its own, not by a file system that is read here: a stream needs no second disk and keeps modes and
links, and what a hostile guest sends is unpacked like any stranger's pack (see `unpack`), where ext4's
tools would read a hostile disk with this process's rights. It comes back only if the job leaves something.

A job of this tier never gets a weaker one. Memory is limited within the guest, so that a job that takes too
much is killed and told so; the guest itself has GUEST_MIB more.
"""

import contextlib
import fcntl
import os
import shlex
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hub.wire.claim import Short
from runner import facts, leftovers
from runner.sandbox import cgroups, microvm_line
from runner.sandbox.base import Command, Sandbox, SandboxBroken, Stop, Usage
from runner.sandbox.gauge import FULL_SHARE
from runner.sandbox.microvm_guest import KILLED, Guest, Port
from runner.sandbox.microvm_kernel import Kernel
from runner.sandbox.microvm_line import PORTS, Accel, Boot
from runner.sandbox.microvm_said import Taken
from runner.sandbox.namespace import PROCESSES, SCRIPTS, SHELL, SPARE_DISK_MIB, WORK, Asked, image_env
from runner.sandbox.place import IDS, Ids, Place, make_scratch
from runner.sandbox.process import ProcessSandbox
from runner.unpack import BadPack, NoRoom, unpack_tar

GUEST_MIB = 160  # of a guest's RAM for its kernel and first files, beside what the job may take
GUEST_SHARE = 32  # and this part of the job's, for the kernel's tables of it
QEMU_MIB = 512  # of QEMU's own beside the RAM, translated code among it
DEFAULT_MEMORY_MIB = 2048  # of a job that asks for no figure; of half the machine's, if that is less
MAX_CPUS = 64  # what a guest is given; q35 takes more only with other words
PACK_S = 1800.0  # for the workspace to come back, as preparing may take
NS_GET_USERNS = 0xB701  # ioctl_ns(2): the user namespace that owns another
_MIB = 2**20
_RESOLVER = b"nameserver 10.0.2.3\n"  # slirp4netns's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What this machine has for the tier; see `microvm_check`."""

    kernel: Kernel
    accel: Accel
    as_root: bool
    homes: Mapping[cgroups.Controller, cgroups.Home]
    ids: Path = IDS


class MicrovmSandbox:
    """One job's sandbox. See `base.Sandbox` for the promise."""

    def __init__(self, folder: Path, means: Means, asked: Asked, *, grace_s: float, leaves: bool) -> None:
        """`leaves`: the workspace is wanted back at the end."""
        self.folder = folder
        self.workspace = folder / "workspace"
        self.own_disk = False  # it is filled here first
        self._means, self._asked, self._grace_s, self._leaves = means, asked, grace_s, leaves
        self._outside = ProcessSandbox(folder, grace_s=grace_s)
        self._ids = Ids(means.ids) if means.as_root else None
        self._user: int | None = None
        self._group = cgroups.Group(self._outside.mark, means.homes)
        self._images: dict[str, Path] = {}
        self._disk_mib = 0
        self._guest: Guest | None = None
        self._laid = ""  # the image of the guest
        self._network: Place | None = None
        self._filled = False
        self._stop: Stop | None = None  # of the last command
        self._meter = _Meter()

    def prepare(self) -> None:
        """Make the folder. See `base.Sandbox.prepare`."""
        self._outside.prepare()

    def lay(self, images: Mapping[str, Path]) -> None:
        """Boot the first image's guest. See `base.Sandbox.lay`. Raises SandboxBroken, OSError."""
        if not images:
            raise SandboxBroken("a job of the microvm tier needs an image")
        self._images = dict(images)
        self._disk_mib = self._asked.disk_mib or self._spare_disk_mib()
        limits = cgroups.Limits(
            memory_mib=self._ram_mib() + QEMU_MIB, cpus=self._asked.cpus, processes=PROCESSES
        )
        self._group.make(limits)
        self._user = None if self._ids is None else self._ids.take()
        make_scratch(self.folder / "scratch.img", self._disk_mib)
        self._boot(next(iter(images)), None)

    def env(self) -> dict[str, str]:
        """See `base.Sandbox.env`. Nothing of the agent's own."""
        return image_env()

    def run(self, command: Command, sink: Callable[[bytes], None], stop: Stop, until: float) -> int:
        """See `base.Sandbox.run`. Raises SandboxBroken where the guest fails or the image was not laid."""
        if command.outside:
            return self._outside.run(command, sink, stop, until)
        self._stop = stop
        image = command.image or next(iter(self._images), "")
        if image not in self._images:
            raise SandboxBroken(f"image {image[:12]} was not laid")
        self._meter.begin_step()
        try:
            if self._guest is None or image != self._laid:
                self._change(image, stop)
            if not self._filled and (code := self._fill(stop, until)) != 0:
                sink(b"the workspace could not be put onto the job's disk\n")
                return code
        except SandboxBroken:  # it is also how a wait ends that was told to
            full = self._meter.was_full  # a step before left no room for another image's layer
            if not full and not _asked_to_end(stop, until):
                raise
            self._end_guest()
            if full:
                sink(b"the job's disk is full\n")
            return KILLED
        assert self._guest is not None
        script = (command.script or "").encode("utf-8", "surrogateescape")
        script += b"" if script.endswith(b"\n") else b"\n"
        code, kills = self._guest.run(launcher(command), script, sink, stop, until, self._grace_s)
        self._meter.note_kills(kills, self._asked.memory_mib)
        if stop.reason is not None and (stop.at_once or not self._guest.kill()):
            self._end_guest()
        return code

    def usage(self) -> Usage:
        """See `base.Sandbox.usage`: as the guest says, and before there is one, of the folder."""
        return self._meter.usage if self._filled else self._outside.usage()

    def short_of(self, code: int) -> Short | None:
        """See `base.Sandbox.short_of`: from the guest's own count of kills, and the room on its disk."""
        if code == 0:
            return None
        if self._meter.killed:
            return "memory"
        return "disk" if self._meter.was_full or self._outside.short_of(1) == "disk" else None

    def end(self) -> None:
        """See `base.Sandbox.end`. The workspace comes back first, if it is wanted.

        Raises SandboxBroken, once, where it cannot.
        """
        try:
            if self._guest is not None and self._leaves and self._filled and self._is_wanted():
                self._bring_back(self._guest)
        finally:
            self._end_guest()
            self._outside.end()
            self._group.kill()

    def destroy(self) -> None:
        """See `base.Sandbox.destroy`."""
        self._leaves = False
        self.end()
        self._group.remove()
        if self._ids is not None:
            self._ids.give_back()
        self._outside.destroy()

    def _spare_disk_mib(self) -> int:
        return max(0, (shutil.disk_usage(self.folder).free >> 20) - SPARE_DISK_MIB)

    def _job_mib(self) -> int:
        """What the job may take."""
        if self._asked.memory_mib is not None:
            return self._asked.memory_mib
        machine = facts.memory()
        return DEFAULT_MEMORY_MIB if machine is None else min(DEFAULT_MEMORY_MIB, machine.total_mib // 2)

    def _ram_mib(self) -> int:
        return self._job_mib() + GUEST_MIB + self._job_mib() // GUEST_SHARE

    def _is_wanted(self) -> bool:
        return self._stop is None or not self._stop.reached("canceled")

    def _change(self, image: str, stop: Stop) -> None:
        """Put the guest of another image in the place of the one that runs."""
        if self._guest is not None:
            self._guest.kill()
            self._guest.off()
            self._end_guest()
        self._boot(image, stop)

    def _boot(self, image: str, stop: Stop | None) -> None:
        """Boot the guest of an image. Raises SandboxBroken, OSError."""
        with contextlib.ExitStack() as opened:

            def make(ports: tuple[int, ...], info: int) -> tuple[tuple[str, ...], list[int]]:
                boot = self._plan(image, ports, info, opened)
                words = microvm_line.words(
                    boot, mark=self._outside.mark, user=self._user, entrances=self._group.entrances
                )
                needed = [boot.kernel_fd, boot.initrd_fd, boot.image_fd, boot.scratch_fd]
                return words, needed if boot.resolver_fd is None else [*needed, boot.resolver_fd]

            self._guest, self._laid = Guest(self._meter.note), image
            self._guest.start(make, PORTS, self._outside.mark)
        self._guest.wait_ready(stop, float("inf"))
        # Not sooner: bubblewrap fails if its loopback, which slirp4netns brings up, has an address already.
        if self._asked.network:
            self._connect(self._guest.pid)
        self._meter.begin()

    def _plan(self, image: str, ports: tuple[int, ...], info: int, opened: contextlib.ExitStack) -> Boot:
        def opens(path: Path, flags: int = os.O_RDONLY) -> int:
            handle = os.open(path, flags | os.O_CLOEXEC)
            opened.callback(os.close, handle)
            return handle

        resolver = None
        if self._asked.network:
            (self.folder / "resolv.conf").write_bytes(_RESOLVER)
            resolver = opens(self.folder / "resolv.conf")
        return Boot(
            accel=self._means.accel,
            memory_mib=self._ram_mib(),
            job_memory_mib=self._job_mib(),
            cpus=min(self._asked.cpus or facts.cpus(), facts.cpus(), MAX_CPUS),
            processes=PROCESSES,
            layer=list(self._images).index(image),
            network=self._asked.network,
            kernel_fd=opens(self._means.kernel.kernel),
            initrd_fd=opens(self._means.kernel.initrd),
            image_fd=opens(self._images[image]),
            scratch_fd=opens(self.folder / "scratch.img", os.O_RDWR),
            port_fds=ports,
            info_fd=info,
            resolver_fd=resolver,
        )

    def _connect(self, pid: int) -> None:
        """Give QEMU's own network a way out, and not to this machine's 127.0.0.1, as `Place` does."""
        if pid == 0:
            raise SandboxBroken("no network: the guest's first process is not known")
        self._network = Place(self.folder, ids=None)
        with contextlib.ExitStack() as opened:
            net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, net)
            # Not the process's own: bubblewrap goes on into a further one, with no right to the network.
            user = fcntl.ioctl(net, NS_GET_USERNS)
            opened.callback(os.close, user)
            paths = (f"/proc/self/fd/{user}", f"/proc/self/fd/{net}")
            self._network.connect_namespaces(*paths, self._outside.mark, (user, net))

    def _end_guest(self) -> None:
        if self._guest is not None:
            self._guest.end()
            self._guest = None
        if self._network is not None:
            self._network.close()
            self._network = None

    def _fill(self, stop: Stop, until: float) -> int:
        """Bring the workspace in, and remove it here: it would take its room twice."""
        assert self._guest is not None
        code = self._guest.fill(lambda port: write_tar(self.workspace, port), stop, until)
        if code == 0:
            self._filled = True
            leftovers.remove(self.workspace)
            self.workspace.mkdir(mode=0o700)
        return code

    def _bring_back(self, guest: Guest) -> None:
        """Unpack the guest's workspace into the folder's. Raises SandboxBroken."""
        self._leaves = False
        stop = self._stop or Stop()

        def read(port: Port) -> None:
            unpack_tar(
                port, self.workspace, max_bytes=(self._disk_mib + 1) * _MIB, left_out=lambda said: None
            )

        if not guest.kill():
            raise SandboxBroken("the workspace cannot be brought back: the guest does not answer")
        try:
            guest.pack(read, stop, time.monotonic() + PACK_S)
        except (BadPack, NoRoom, OSError) as error:
            raise SandboxBroken(f"the workspace cannot be brought back: {error}") from None


class _Meter:
    """What a guest says that its job uses, remembered; and whether that was too much."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.was_full = False
        self.killed = False
        self._kills = 0
        self._base: Taken | None = None  # of an empty disk
        self._is_full = False

    def begin(self) -> None:
        """A guest has booted: its count of kills begins anew."""
        self._kills = 0

    def begin_step(self) -> None:
        """Forget what the last step lacked; a disk that is still full is full."""
        self.was_full, self.killed = self._is_full, False

    def note(self, taken: Taken) -> None:
        """What the guest says now."""
        base = self._base = self._base or taken
        memory = -(-taken.memory_bytes // _MIB)
        disk = -(-max(0, taken.disk_bytes - base.disk_bytes) // _MIB)
        self._is_full = taken.room_bytes < max(_MIB, base.room_bytes // FULL_SHARE)
        self.was_full = self.was_full or self._is_full
        self._set(memory, disk)

    def note_kills(self, kills: int | None, limit_mib: int | None) -> None:
        """How often its job was killed so far for want of memory; None: not known."""
        if kills is not None and kills > self._kills:
            self._kills, self.killed = kills, True
            self._set(limit_mib or self.usage.memory_mib or 0, self.usage.disk_mib or 0)

    def _set(self, memory: int, disk: int) -> None:
        old = self.usage
        self.usage = Usage(
            memory_mib=memory,
            disk_mib=disk,
            peak_memory_mib=max(memory, old.peak_memory_mib or 0),
            peak_disk_mib=max(disk, old.peak_disk_mib or 0),
        )


def launcher(command: Command) -> bytes:
    """What the guest's first shell runs for a step, in the job's namespaces and limits.

    Every word is quoted; $1 is the holder of the namespaces, 9 the file of the control group.
    """
    argv = command.argv
    if command.script is not None:
        argv = ("/bin/sh", "-c", SHELL, "sh", f"{SCRIPTS}/step")
    env = [f"{name}={text}" for name, text in command.env.items()]
    enter = f'echo 0 >&9; exec 9>&-; cd {WORK} && exec "$@"'
    words = ["/bin/env", "-i", "--", *env]
    inner = [f"{SCRIPTS}/busybox", "sh", "-c", enter, "sh", *argv]
    text = f'exec setsid {shlex.join(words)} /bin/nsenter -t "$1" -m -p -i -u {shlex.join(inner)}\n'
    return text.encode("utf-8", "surrogateescape")


def write_tar(folder: Path, port: Port) -> None:
    """Write what is in a folder as a tar, as root's own. Sockets and devices are left out."""
    # A stream's writer asks for `write` alone, and its type for a whole file.
    with tarfile.open(fileobj=port, mode="w|", format=tarfile.GNU_FORMAT, bufsize=2**18) as tar:  # type: ignore[call-overload]  # see above
        for path in _below(folder):
            name = os.path.relpath(path, folder)
            info = tar.gettarinfo(path, name)
            if info is None or not (info.isreg() or info.isdir() or info.issym() or info.islnk()):
                continue
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            if info.isreg():
                with Path(path).open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
            tar.members.clear()  # it would remember every entry


def _below(folder: Path) -> Iterator[str]:
    """All below a folder, folders before what they hold; links are not followed."""
    ahead = [str(folder)]
    while ahead:
        with os.scandir(ahead.pop()) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                yield entry.path
                if entry.is_dir(follow_symlinks=False):
                    ahead.append(entry.path)


def _asked_to_end(stop: Stop, until: float) -> bool:
    """Whether the job is to stop; asks for it, where its time is over."""
    if time.monotonic() >= until:
        stop.ask("timed_out")
    return stop.reason is not None


def as_sandbox(made: MicrovmSandbox) -> Sandbox:
    """The same, as the promise: a type checker holds the one to the other here."""
    return made
