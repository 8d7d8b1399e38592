"""The tier `process`: a job's steps are plain processes of the agent's own user.

It keeps jobs tidy, not apart: each has a folder, a clean environment, a lower priority and an end
that leaves nothing; memory is measured, not limited; and a job may read whatever the agent's user
may. It is for projects that are trusted.

The job's processes are children of a keeper (see `keeper`), which alone starts and ends them. All
output comes through one pipe, so that it is in order; what a step left running may go on writing
into it during later steps.
"""

import contextlib
import fcntl
import json
import os
import pwd
import secrets
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hub.wire.claim import Short
from runner import leftovers
from runner.limits import oom_kills
from runner.sandbox import keeper
from runner.sandbox.base import Command, SandboxBroken, Stop, Usage
from runner.sandbox.meter import Meter, started

MAX_READ = 2**18  # bytes of output taken at a time
PIPE_BYTES = 2**20  # what a job may write ahead of the agent, where the system allows it
SLACK_S = 2.0  # for the keeper, beyond its own bounds
BASH = "/bin/bash"
KILLED = 128 + signal.SIGKILL  # as shells say it, of the step itself or of what it ran last
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = (BASH, "--noprofile", "--norc", "-e") if Path(BASH).exists() else ("/bin/sh", "-e")


class ProcessSandbox:
    """One job's folder and processes. See `base.Sandbox` for the promise."""

    def __init__(self, folder: Path, *, grace_s: float, meter: Callable[[int, Path], Meter] = Meter) -> None:
        self.folder = folder
        self._make_meter = meter
        self.workspace = folder / "workspace"
        self.own_disk = False
        self.home = folder / "home"
        self.tmp = folder / "tmp"
        self._grace_s = grace_s
        self.mark = secrets.token_hex(16)
        self._scripts = 0
        self._keeper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._output = -1
        self._said = b""
        self._meter: Meter | None = None
        self._oom_kills: int | None = None  # when the last step began
        self._ending = threading.Lock()

    def prepare(self) -> None:
        """Make the folders and start the keeper."""
        self.folder.mkdir(mode=0o700, parents=True)
        (self.folder / leftovers.MARK_FILE).write_text(self.mark)
        for each in (self.workspace, self.home, self.tmp):
            each.mkdir(mode=0o700)
        control, theirs = socket.socketpair()
        output, writes = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(output, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        try:
            words = [sys.executable, "-I", "-S", keeper.__file__, str(theirs.fileno()), str(writes)]
            self._keeper = subprocess.Popen(  # noqa: S603 - this Python and a file of ours
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={leftovers.MARK: self.mark},
                cwd="/",
                pass_fds=(theirs.fileno(), writes),
                start_new_session=True,  # a Ctrl-C is for the agent alone
            )
        finally:
            theirs.close()
            os.close(writes)
            self._control, self._output = control, output
        os.set_blocking(output, False)
        self._meter = self._make_meter(self._keeper.pid, self.folder)
        self._meter.start()

    def lay(self, images: Mapping[str, Path]) -> None:
        """There is nothing to lay. Raises SandboxBroken where there are images, which this tier has not."""
        if images:
            raise SandboxBroken("the process tier has no images")

    def env(self) -> dict[str, str]:
        """See `base.Sandbox.env`."""
        user = _user()
        return {
            "PATH": os.environ.get("PATH") or DEFAULT_PATH,
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "USER": user,
            "LOGNAME": user,
            "LANG": "C.UTF-8",
            "CI": "true",
            "SHUNTER_WORKSPACE": str(self.workspace),
        }

    def run(self, command: Command, sink: Callable[[bytes], None], stop: Stop, until: float) -> int:
        """Run a command to its end; see `base.Sandbox.run`. Raises SandboxBroken if the keeper dies."""
        assert self._control is not None
        self._oom_kills = oom_kills()
        if self._meter is not None:
            self._meter.begin_step()
        if not stop.reached("timed_out"):
            env = {**command.env, leftovers.MARK: self.mark}
            self._say(
                {
                    "do": "run",
                    "argv": self._argv(command),
                    "env": env,
                    "cwd": str(self.workspace),
                    "nice": command.nice,
                }
            )
            code = self._follow(sink, stop, until)
            if code is not None:
                return code
        return self._stop(sink, stop)

    def _argv(self, command: Command) -> tuple[str, ...]:
        """A script is given to the shell as a file: it may be longer than one word of a command line."""
        if command.script is None:
            return command.argv
        self._scripts += 1
        path = self.folder / f"step-{self._scripts}"
        path.write_text(command.script if command.script.endswith("\n") else command.script + "\n")
        return (*SHELL, str(path))

    def _follow(self, sink: Callable[[bytes], None], stop: Stop, until: float) -> int | None:
        """The exit code, once the leader has ended; None: it is to be stopped."""
        assert self._control is not None
        while True:
            wait_s = until - time.monotonic()
            if wait_s <= 0:
                stop.ask("timed_out")
            if stop.reason is not None:
                return None
            ready = self._ready(stop, min(wait_s, 3600))
            if stop.fileno() in ready:
                stop.seen()
            if self._output in ready:
                self._pass_on(sink)
            if self._control.fileno() in ready:
                for message in self._hear():
                    if "exit" in message:
                        self._drain(sink)
                        return int(message["exit"])

    def _stop(self, sink: Callable[[bytes], None], stop: Stop) -> int:
        """End all processes as `stop` says, its output passed on meanwhile; the leader's exit code."""
        assert self._control is not None
        code = KILLED
        grace_s = 0.0 if stop.at_once else self._grace_s
        self._say({"do": "end", "grace_s": grace_s})
        until = time.monotonic() + grace_s + keeper.KILL_S + SLACK_S
        while time.monotonic() < until:
            ready = self._ready(stop, 0.5)
            if stop.fileno() in ready:
                stop.seen()
                if stop.at_once:
                    self._say({"do": "end", "grace_s": 0})
            if self._output in ready:
                self._pass_on(sink)
            if self._control.fileno() in ready:
                for message in self._hear():
                    if "exit" in message:
                        code = int(message["exit"])
                    if "gone" in message:
                        self._drain(sink)
                        return code
        return code

    def _ready(self, stop: Stop, wait_s: float) -> list[int]:
        """The descriptors that there is something to read from."""
        assert self._control is not None
        watched = [self._control.fileno(), self._output, stop.fileno()]
        return select.select(watched, [], [], wait_s)[0]

    def usage(self) -> Usage:
        """As last measured."""
        return Usage() if self._meter is None else self._meter.usage

    def short_of(self, code: int) -> Short | None:
        """See `base.Sandbox.short_of`. Exit code 137 alone says little: the kernel must have counted too."""
        if code == 0:
            return None
        before, now = self._oom_kills, oom_kills()
        if code == KILLED and before is not None and now is not None and now > before:
            return "memory"
        return "disk" if self._meter is not None and self._meter.was_full() else None

    def end(self) -> None:
        """Kill what runs. The keeper ends with it; if it was killed, its job is found by its mark."""
        with self._ending:
            if self._control is None:
                return
            if self._meter is not None:
                self._meter.stop()
            self._control.close()  # which the keeper takes as its order to end everything
            self._control = None
            os.close(self._output)
            if self._keeper is None:  # it could not be started
                return
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(keeper.KILL_S + SLACK_S)
            self._keeper.kill()
            self._keeper.wait()
            if self._meter is not None:
                self._kill_known(self._meter.seen)
            leftovers.kill_marked(self.mark)
            if self._meter is not None:
                self._meter.look_last()

    def destroy(self) -> None:
        """End it and remove the folder."""
        self.end()
        leftovers.remove(self.folder)

    def _kill_known(self, seen: dict[int, int]) -> None:
        """Kill those of the last sample that still are who they were: a keeper was killed, say."""
        for pid, since in seen.items():
            with contextlib.suppress(OSError):
                if started(pid) == since:
                    for each in (*keeper.descendants(pid), pid):
                        keeper.signal_one(each, signal.SIGKILL)

    def _pass_on(self, sink: Callable[[bytes], None]) -> int:
        """Take what the pipe holds, at most MAX_READ bytes; how many."""
        try:
            piece = os.read(self._output, MAX_READ)
        except BlockingIOError:
            return 0
        if piece:
            sink(piece)
        elif self._keeper is not None and self._keeper.poll() is not None:
            raise SandboxBroken("the keeper of the sandbox was killed")
        return len(piece)

    def _drain(self, sink: Callable[[bytes], None]) -> None:
        """Take what was written before now, and not what something left running adds for ever."""
        count = bytearray(4)
        fcntl.ioctl(self._output, termios.FIONREAD, count)
        left = int.from_bytes(count, sys.byteorder)
        while left > 0 and (taken := self._pass_on(sink)):
            left -= taken

    def _say(self, message: dict[str, Any]) -> None:
        assert self._control is not None
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise SandboxBroken(f"the keeper of the sandbox does not listen: {error}") from None

    def _hear(self) -> list[dict[str, Any]]:
        assert self._control is not None
        try:
            got = self._control.recv(65536)
        except ConnectionError:
            got = b""
        if not got:
            raise SandboxBroken("the keeper of the sandbox was killed")
        *lines, self._said = (self._said + got).split(b"\n")
        return [json.loads(line) for line in lines]


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # a container may run as a number that has no name
        return str(os.geteuid())
