"""The processes that `shunter demo` starts, and their end.

The invariant: none outlives the demo. Each is told to stop when the demo leaves by whatever way, and
the kernel tells it if the demo is killed outright; what does not stop in time is killed.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
STOP_S = 15.0  # a hub closes its streams and a runner ends its sandbox well within
TAIL_LINES = 20


@dataclass(slots=True)
class Processes:
    """What was started, in order; stopped in the opposite one, so that runners go before their hub."""

    folder: Path
    _started: list[tuple[str, subprocess.Popen[bytes]]] = field(default_factory=list)

    def start(self, name: str, command: list[str], environ: Mapping[str, str]) -> None:
        """Start one, its output in `NAME.log` of the folder."""
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - this Python, no shell
                command,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for the demo, which stops them in order
                preexec_fn=_die_with_parent(),
            )
        self._started.append((name, process))

    def log(self, name: str) -> Path:
        """Where its output goes."""
        return self.folder / f"{name}.log"

    def ended(self) -> str | None:
        """The name of one that has ended by itself; None: all are alive."""
        return next((name for name, process in self._started if process.poll() is not None), None)

    def tail(self, name: str) -> str:
        """The last lines of its output."""
        lines = self.log(name).read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-TAIL_LINES:])

    def stop(self) -> list[str]:
        """Stop all; the names of those that had to be killed."""
        killed = []
        while self._started:
            name, process = self._started.pop()
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    killed.append(name)
            # Its session may still hold what it left behind, whether or not it ended by itself.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return killed


def clean_environ() -> dict[str, str]:
    """This environment without settings of another hub."""
    return {key: text for key, text in os.environ.items() if not key.startswith("SHUNTER_")}


def python(*words: str) -> list[str]:
    """A command of this very Python."""
    return [sys.executable, *words]


def _die_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl  # looked up before the fork
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return ask
