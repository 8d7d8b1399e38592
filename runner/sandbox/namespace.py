"""The tier `namespace`: a job's steps run in the images they name, apart from the machine and each other.

Each step is a bubblewrap sandbox in the job's own user and network namespaces (see `holder`), with
process, IPC and host names of its own, a system call filter, a dozen capabilities over nothing but
itself, and an environment that holds what the pipeline says. It sees its image with a writable layer
that lasts as long as the job, the workspace at /work, and nothing else of the machine. Steps in
different images share the workspace, the network and the limits.

Never start bubblewrap here as the machine's root without the job's user namespace: it could then open
/proc/sys/kernel/core_pattern for writing, whatever capabilities it has lost.

What a step left running goes on until the job's end, as in the process tier: its processes stand below
the job's keeper, and in its control group. Whoever kills the init of a step kills all below it.
"""

import contextlib
import json
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hub.wire.claim import Short
from runner.sandbox import cgroups, seccomp
from runner.sandbox.base import Command, Sandbox, SandboxBroken, Stop, Usage
from runner.sandbox.gauge import Gauge
from runner.sandbox.place import IDS, Ids, Place, Ready, program
from runner.sandbox.process import DEFAULT_PATH, ProcessSandbox
from runner.sandbox.unpacked import Unpacked

WORK = "/work"
SCRIPTS = "/run/shunter"
PROCESSES = 4096  # at a time: the largest builds have hundreds
SPARE_DISK_MIB = 512  # of the machine's, kept from a job that asks for no figure: for logs and the agent
DATA_SLACK_MIB = 1024  # what memory fills in a few samples' time
SHARED_SHARE = 2  # /dev/shm holds half of the memory asked for, as it is the kernel's default
# What a distribution's own tools need to install packages; without the network's raw sockets and devices.
CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
    "CAP_SETPCAP", "CAP_SETFCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_AUDIT_WRITE",
)  # fmt: skip
# Opens the files that bubblewrap is given as descriptors, joins the control groups, becomes the rest.
_START = """exec 6>"$1" 7<"$2" 8<"$3" 9<"$4"; shift 4
while [ "$1" != -- ]; do echo 0 >"$1" || exit 125; shift; done
shift; exec "$@"
"""
SHELL = """if [ -x /bin/bash ]; then exec /bin/bash --noprofile --norc -e "$1"; fi; exec /bin/sh -e "$1"
"""
_RESOLVER = "mkdir -p /etc; rm -f /etc/resolv.conf; echo nameserver 10.0.2.3 >/etc/resolv.conf"  # slirp's


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What this machine has for the tier; see `namespace_check`."""

    as_root: bool
    mounts: bool  # images are mounted as they are; else they are unpacked once
    homes: Mapping[cgroups.Controller, cgroups.Home]
    unpacked: Path
    ids: Path = IDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a job asks for. None: no limit; for `disk_mib`, what the machine can spare."""

    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None
    network: bool = False


class NamespaceSandbox:
    """One job's sandbox. See `base.Sandbox` for the promise."""

    def __init__(
        self, folder: Path, means: Means, asked: Asked, *, grace_s: float, words: tuple[str, ...] = ()
    ) -> None:
        """`words`: more for bubblewrap, for the check, which has no image with programs."""
        self.folder = folder
        self.workspace = folder / "workspace"
        self.own_disk = means.as_root
        self._means, self._asked, self._words = means, asked, words
        self._outside = ProcessSandbox(folder, grace_s=grace_s, meter=self._make_gauge)
        self._gauge: Gauge | None = None
        self._ids = Ids(means.ids) if means.as_root else None
        self._place: Place | None = None
        self._ready: Ready | None = None
        self._group = cgroups.Group(self._outside.mark, means.homes)
        self._images: dict[str, int] = {}
        self._connected: set[int] = set()
        self._held = contextlib.ExitStack()  # the unpacked images in use
        self._oom_kills: int | None = None
        self._runs = 0

    def prepare(self) -> None:
        """Make the folder and start the keeper. See `base.Sandbox.prepare`."""
        self._outside.prepare()

    def lay(self, images: Mapping[str, Path]) -> None:
        """See `base.Sandbox.lay`. Raises SandboxBroken where there is no image at all."""
        if not images:
            raise SandboxBroken("a job of the namespace tier needs an image")
        filters = seccomp.program(platform.machine())
        if filters is None:
            raise SandboxBroken(f"no system call filter is known for {platform.machine()}")
        (self.folder / "filter").write_bytes(filters)
        layers = list(images.values())
        if not self._means.mounts:
            unpacked = Unpacked(self._means.unpacked)
            layers = [self._held.enter_context(unpacked.use(name, path)) for name, path in images.items()]
        self._images = {name: number for number, name in enumerate(images)}
        self._group.make(
            cgroups.Limits(memory_mib=self._asked.memory_mib, cpus=self._asked.cpus, processes=PROCESSES)
        )
        self._place = Place(self.folder, ids=None if self._ids is None else self._ids.take())
        disk_mib = self._asked.disk_mib or self._spare_disk_mib()
        self._ready = self._place.build(layers, disk_mib, self._outside.mark)
        if self._asked.network:
            self._place.connect(self._ready, self._outside.mark)
        self.workspace = self._outside.workspace = (
            self._ready.seen / "s/work" if self._means.as_root else self._place.scratch / "work"
        )
        assert self._gauge is not None
        self._gauge.watch(
            group=self._group,
            scratch=self._ready.seen / "s" if self._means.as_root else None,
            file=self._place.scratch,
            memory_mib=self._asked.memory_mib,
            disk_mib=self._asked.disk_mib,
        )

    def env(self) -> dict[str, str]:
        """See `base.Sandbox.env`. Nothing of the agent's own."""
        return image_env()

    def run(self, command: Command, sink: Callable[[bytes], None], stop: Stop, until: float) -> int:
        """See `base.Sandbox.run`. Raises SandboxBroken where the image's sandbox cannot be entered."""
        if command.outside:
            return self._outside.run(command, sink, stop, until)
        number = 0 if command.image is None else self._images.get(command.image, -1)
        if self._ready is None or number < 0:
            raise SandboxBroken(f"image {(command.image or '')[:12]} was not laid")
        if self._asked.network and number not in self._connected:
            self._connected.add(number)
            resolver = Command(script=_RESOLVER, env=self.env())
            self._outside.run(self._wrapped(self._ready, number, resolver), sink, stop, until)
        self._oom_kills = self._group.oom_kills()
        code = self._outside.run(self._wrapped(self._ready, number, command), sink, stop, until)
        if code != 0 and stop.reason is None and not self._entered():
            raise SandboxBroken("the sandbox could not be entered: see the end of the log")
        return code

    def usage(self) -> Usage:
        """See `base.Sandbox.usage`."""
        return self._outside.usage()

    def short_of(self, code: int) -> Short | None:
        """See `base.Sandbox.short_of`: from the group's own count of kills, and the room on scratch."""
        gauge = self._gauge
        if code == 0 or gauge is None:
            return None
        if gauge.over is not None:
            return gauge.over
        before, kills = self._oom_kills, self._group.oom_kills()
        if before is not None and kills is not None:
            if kills > before:
                gauge.note_whole_memory(self._asked.memory_mib or 0)
                return "memory"
            return "disk" if gauge.was_full() else None
        return self._outside.short_of(code)

    def end(self) -> None:
        """See `base.Sandbox.end`."""
        self._outside.end()
        self._group.kill()

    def destroy(self) -> None:
        """See `base.Sandbox.destroy`."""
        self.end()
        if self._place is not None:
            self._place.close()
        self._group.remove()
        self._held.close()
        if self._ids is not None:
            self._ids.give_back()
        self._outside.destroy()

    def _make_gauge(self, root: int, folder: Path) -> Gauge:
        self._gauge = Gauge(root, folder)
        return self._gauge

    def _spare_disk_mib(self) -> int:
        return max(0, (shutil.disk_usage(self.folder).free >> 20) - SPARE_DISK_MIB)

    def _entered(self) -> bool:
        """Whether bubblewrap came as far as starting the step's own program."""
        with contextlib.suppress(OSError, ValueError):
            for line in (self.folder / f"status-{self._runs}").read_text().splitlines():
                if "child-pid" in json.loads(line):
                    return True
        return False

    def _wrapped(self, ready: Ready, number: int, command: Command) -> Command:
        """The command that runs `command` in image `number`."""
        self._runs += 1
        names = [self.folder / f"{what}-{self._runs}" for what in ("status", "script", "words")]
        status, script, words = (str(name) for name in names)
        text = command.script or ""
        Path(script).write_text(text if text.endswith("\n") else text + "\n")
        options = "\0".join(self._bubblewrap(ready, number, command)) + "\0"
        Path(words).write_bytes(options.encode("utf-8", "surrogateescape"))
        argv = command.argv
        if command.script is not None:
            argv = ("/bin/sh", "-c", SHELL, "sh", f"{SCRIPTS}/step")
        start = ("/bin/sh", "-c", _START, "sh", status, script, words, str(self.folder / "filter"))
        inner = (*self._rlimits(), *ready.enter(), f"{ready.spot}/bwrap", "--args", "8", "--", *argv)
        return Command(
            argv=(*start, *self._group.entrances, "--", *inner),
            env={"PATH": DEFAULT_PATH, "LC_ALL": "C"},
            nice=command.nice,
        )

    def _rlimits(self) -> list[str]:
        """What the kernel holds each process to, where there is no group to hold all of them.

        A core limit of 1 byte is how the kernel is told not to start its handler of core dumps either.
        Data beyond the limit by DATA_SLACK_MIB is only there to stop what grows faster than is sampled.
        """
        words = [program("prlimit") or "prlimit", "--core=1:1"]
        if not self._group.limits("pids"):
            words.append(f"--nproc={PROCESSES}:{PROCESSES}")
        if not self._group.limits("memory") and self._asked.memory_mib is not None:
            size = (self._asked.memory_mib + DATA_SLACK_MIB) << 20
            words.append(f"--data={size}:{size}")
        return [*words, "--"]

    def _bubblewrap(self, ready: Ready, number: int, command: Command) -> list[str]:
        """Its options, which it reads from a file: an environment is no business of other users' `ps`."""
        words = ["--bind", f"{ready.spot}/r{number}", "/", *self._words]
        words += ["--proc", "/proc", "--dev", "/dev"]
        words += self._shared_memory()
        words += ["--perms", "1777", "--dir", "/tmp", "--dir", "/root"]  # noqa: S108 - the job's own
        words += ["--bind", f"{ready.spot}/work", WORK, "--chdir", WORK]
        words += ["--size", str(2**24), "--tmpfs", SCRIPTS]
        words += ["--perms", "0444", "--ro-bind-data", "7", f"{SCRIPTS}/step", "--remount-ro", SCRIPTS]
        words += ["--remount-ro", "/dev"]  # else it were memory that nothing counts
        words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
        words += ["--hostname", "job", "--new-session", "--json-status-fd", "6", "--seccomp", "9"]
        words += ["--cap-drop", "ALL"]
        for capability in CAPABILITIES:
            words += ["--cap-add", capability]
        words.append("--clearenv")
        for name, value in command.env.items():
            words += ["--setenv", name, value]
        return words

    def _shared_memory(self) -> list[str]:
        mib = self._asked.memory_mib
        size = [] if mib is None else ["--size", str((mib << 20) // SHARED_SHARE)]
        return ["--perms", "1777", *size, "--tmpfs", "/dev/shm"]  # noqa: S108 - the job's own


def image_env() -> dict[str, str]:
    """What a step in an image is given, in whatever tier."""
    return {
        "PATH": DEFAULT_PATH,
        "HOME": "/root",
        "TMPDIR": "/tmp",  # noqa: S108 - the job's own
        "USER": "root",
        "LOGNAME": "root",
        "LANG": "C.UTF-8",
        "CI": "true",
        "SHUNTER_WORKSPACE": WORK,
    }


def as_sandbox(made: NamespaceSandbox) -> Sandbox:
    """The same, as the promise: a type checker holds the one to the other here."""
    return made
