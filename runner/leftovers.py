"""What an earlier life left in the work folder: its processes are killed, its groups and files removed.

Mounts are never among it: a sandbox makes them in a namespace that ends with its last process.
Every process of a sandbox carries the sandbox's random mark in its environment, and the mark is kept
in the sandbox's folder: a process is killed here only if its mark is one of ours, or if it stands
below such a one. A process number alone proves nothing.
"""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import stat
import time
from pathlib import Path

from runner.sandbox import cgroups
from runner.sandbox.keeper import descendants, processes, signal_one

log = logging.getLogger(__name__)

MARK = "SHUNTER_SANDBOX"  # the variable; its value is random per sandbox
MARK_FILE = "mark"
KILL_S = 10.0  # what is still there then hangs in the kernel


class FolderInUse(Exception):
    """Another runner works in this folder."""


def take(work: Path) -> int:
    """Make the work folder and lock it for this process; the descriptor that holds the lock.

    Raises FolderInUse where another process holds it: each would remove what the other runs.
    """
    (work / "jobs").mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise FolderInUse(f"another runner works in {work}: give each one a folder with --work") from None
    return handle


def clean(work: Path) -> int:
    """End and remove what is left of earlier jobs; how many there were. The lock must be held."""
    count, homes = 0, cgroups.homes()
    for folder in sorted((work / "jobs").iterdir()):
        with contextlib.suppress(OSError):
            mark = (folder / MARK_FILE).read_text()
            kill_marked(mark)
            if mark:
                kill_marked(held_mark(mark))
                cgroups.left_over(mark, homes)
        remove(folder)
        count += 1
    return count


def held_mark(mark: str) -> str:
    """The mark of what holds a job's mounts and network: it outlives the job, until its files are read."""
    return f"{mark}-held"


def kill_marked(mark: str) -> list[int]:
    """Kill every process with this mark, and all below them; those that would not die."""
    if not mark:
        return []
    until = time.monotonic() + KILL_S
    while found := _marked(mark):
        if time.monotonic() > until:
            return found
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in found:
                signal_one(pid, number)
        time.sleep(0.005)
    return []


def _marked(mark: str) -> list[int]:
    wanted = f"{MARK}={mark}".encode()
    found: set[int] = set()
    for pid, (_, state) in processes().items():
        if state in "ZX" or pid == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.update((pid, *descendants(pid)))
    return sorted(found - {os.getpid()})


def remove(folder: Path) -> None:
    """Remove a folder that a job has written to, with folders it has shut to its own user too.

    Logs what could not be removed (files of another user): it stays, and is tried again at the next start.
    """
    if folder.is_symlink() or not folder.is_dir():
        folder.unlink(missing_ok=True)
        return
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    _open_up(folder)
    for at, names, _ in os.walk(folder):
        for name in names:
            _open_up(Path(at, name))
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        left = next((str(path) for path in folder.rglob("*") if not path.is_dir()), str(folder))
        log.warning("%s cannot be removed: %s is another user's, say", folder, left)


def _open_up(folder: Path) -> None:
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            folder.chmod(stat.S_IRWXU)
