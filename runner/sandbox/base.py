"""What every tier promises, and the one way to stop a job.

A sandbox runs steps one after another, each with its output as a stream, and at its end nothing of
the job is left: no process, no mount, no file. `Stop` is how anybody asks a job to stop: it only ever becomes
more urgent, and who waits for anything on behalf of a job waits on it.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hub.wire.claim import Short

Reason = Literal["timed_out", "canceled", "released", "over"]
# From polite to urgent; the first two leave the job its grace, the last two nothing.
URGENCY: Mapping[Reason, int] = {"timed_out": 1, "canceled": 2, "released": 3, "over": 4}


class SandboxBroken(Exception):
    """The sandbox itself failed, not the job: its words say how."""


class Stop:
    """Whether a job is to stop, and why. Safe to use from any thread.

    `timed_out` and `canceled`: politely. `released`: now, the job is given back. `over`: now, and
    nothing more is reported: its attempt belongs to nobody here.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reason: Reason | None = None
        self._events = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    @property
    def reason(self) -> Reason | None:
        """The most urgent reason so far; None: go on."""
        return self._reason

    @property
    def at_once(self) -> bool:
        """Whether there is no time for anything polite."""
        return self._reason in ("released", "over")

    def ask(self, reason: Reason) -> None:
        """Ask the job to stop. A less urgent reason than the one that stands changes nothing."""
        with self._changed:
            if self._reason is not None and URGENCY[reason] <= URGENCY[self._reason]:
                return
            self._reason = reason
            if self._events >= 0:
                os.eventfd_write(self._events, 1)
            self._changed.notify_all()

    def wait(self, seconds: float, *, until: Reason = "timed_out") -> bool:
        """Wait; True as soon as a reason at least as urgent as `until` stands."""
        with self._changed:
            return self._changed.wait_for(lambda: self.reached(until), seconds)

    def reached(self, reason: Reason) -> bool:
        """Whether a reason at least as urgent as `reason` stands."""
        return self._reason is not None and URGENCY[self._reason] >= URGENCY[reason]

    def fileno(self) -> int:
        """Readable after each change, until `seen`: for whoever waits for other things as well."""
        return self._events

    def seen(self) -> None:
        """Take the change, as its one reader."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._events)

    def close(self) -> None:
        """Give the descriptor back. `ask` and `reason` go on working."""
        with self._changed:
            os.close(self._events)
            self._events = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a sandbox uses, in MiB; None: not measured."""

    memory_mib: int | None = None
    disk_mib: int | None = None
    peak_memory_mib: int | None = None
    peak_disk_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing to run in the workspace, with exactly this environment: a program, or a shell script.

    `image`: in which of the job's images, by its hash; None: its first, or the machine's own files where
    the tier has no images. `outside`: on the machine itself, for what the runner does and no job may
    (its owner's credentials for git); never for anything that a job says.
    """

    argv: tuple[str, ...] = ()
    env: Mapping[str, str]
    script: str | None = None  # for the shell, instead of `argv`; it ends at the first command that fails
    image: str | None = None
    outside: bool = False
    nice: int = 10


class Sandbox(Protocol):
    """One job's place. Used by one thread, except for `usage`."""

    folder: Path  # the runner's own files about the job; no job can reach it where the tier keeps apart
    workspace: Path  # the job's files, as the agent sees them, once `lay` has returned
    own_disk: bool  # whether they are on a disk of the job's own, as large as it asked for

    def prepare(self) -> None:
        """Make the folder. Raises OSError (a full disk) or SandboxBroken."""

    def lay(self, images: Mapping[str, Path]) -> None:
        """Make the workspace, and lay these image files, by their hashes, under the job's steps.

        The first is that of commands that name none. Raises OSError or SandboxBroken.
        """

    def env(self) -> dict[str, str]:
        """What a step is given beside what the pipeline says. Of the agent's own, PATH at most."""

    def run(self, command: Command, sink: Callable[[bytes], None], stop: Stop, until: float) -> int:
        """Run `command`, its output into `sink` in order, and return its exit code.

        A signal N is 128 + N. Once `stop` says so, or `until` (a monotonic time) is past, which asks
        `stop` for `timed_out`, all of the job's processes are ended: SIGTERM, and SIGKILL after the
        grace; or SIGKILL at once. What the command left running goes on until then or until `end`.
        """

    def usage(self) -> Usage:
        """What it uses now and used at most, as last measured."""

    def short_of(self, code: int) -> Short | None:
        """What the command that `run` last ran, and that ended with `code`, failed for want of.

        None: of nothing that is known, or it did not fail.
        """

    def end(self) -> None:
        """Kill every process of the job. Its files stay."""

    def destroy(self) -> None:
        """Kill every process of the job and remove its files."""


def now() -> float:
    """Monotonic seconds, as `Sandbox.run` means them."""
    return time.monotonic()
