"""One running guest: its ports, and what is said over them; `microvm_init.sh` is at their other end.

Invariant: QEMU is a child of a keeper (see `keeper`), which ends it as soon as this process is gone, and
which bubblewrap follows into death. There is no socket and no console on disk: all are descriptors.

A guest is an enemy. What it says is bounded, parsed strictly and believed only about its own job; what it
writes to a port while nobody reads waits in that guest. Never wait for a guest without a bound.
"""

import contextlib
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from runner import leftovers
from runner.sandbox import keeper
from runner.sandbox.base import SandboxBroken, Stop
from runner.sandbox.microvm_said import KILL_S, MAX_READ, Ending, Output, Taken, ended_of, taken_of

BOOT_S = 120.0  # 3 to 6 s where it is emulated; a machine with more guests than processors takes long
SEND_S = 60.0  # for a line and a script to be taken
OFF_S = 20.0  # for it to write back and end
MAX_LINE = 4096  # bytes of what it says
CONSOLE_BYTES = 8192  # of its kernel's last words
KILLED = 128 + signal.SIGKILL


class Guest:
    """A guest from its start to its end. Used by one thread; `taken` may be read by any."""

    def __init__(self, on_use: Callable[[Taken], None]) -> None:
        self._on_use = on_use
        self._keeper: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._console = -1
        self._ports: dict[str, socket.socket] = {}
        self._said = {"control": b"", "ctl": b""}
        self._lines: list[str] = []
        self._console_bytes = b""
        self._dead: int | None = None  # QEMU's exit code
        self.pid = 0  # of QEMU's first process, once `start` has returned

    def start(
        self,
        make: Callable[[tuple[int, ...], int], tuple[tuple[str, ...], Iterable[int]]],
        ports: Iterable[str],
        mark: str,
    ) -> None:
        """Start QEMU. `make` is given the ports' descriptors and the one for bubblewrap's word.

        It returns what to execute and the descriptors that this needs. Raises SandboxBroken, OSError.
        """
        control, theirs = socket.socketpair()
        self._control = control
        info, tell_info = os.pipe()  # the keeper has its end too: it never ends by itself
        self._console, console = os.pipe()
        far = []
        try:
            for name in ports:
                self._ports[name], end = socket.socketpair()
                self._ports[name].setblocking(False)
                far.append(end)
            argv, needed = make(tuple(end.fileno() for end in far), tell_info)
            passed = [theirs.fileno(), console, tell_info, *(end.fileno() for end in far), *needed]
            words = [sys.executable, "-I", "-S", keeper.__file__, str(theirs.fileno()), str(console)]
            self._keeper = subprocess.Popen(  # noqa: S603 - this Python and a file of ours
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={leftovers.MARK: mark},
                cwd="/",
                pass_fds=passed,
                start_new_session=True,
            )
            run = {"do": "run", "argv": argv, "env": {"PATH": os.defpath}, "cwd": "/", "nice": 10}
            control.sendall(json.dumps(run).encode() + b"\n")
        finally:
            theirs.close()
            os.close(console)
            os.close(tell_info)
            for end in far:
                end.close()
        os.set_blocking(self._console, False)
        with os.fdopen(info, "rb") as word:
            self._read_info(word.fileno())

    def _read_info(self, word: int) -> None:
        heard, until = b"", time.monotonic() + SEND_S
        while self._keeper is not None and self._dead is None and not heard.rstrip().endswith(b"}"):
            self._look([word], max(0.0, until - time.monotonic()), None)
            if word in select.select([word], [], [], 0)[0]:
                heard += os.read(word, MAX_LINE)
            if time.monotonic() > until or len(heard) > MAX_LINE:
                break
        with contextlib.suppress(ValueError, KeyError, TypeError):
            self.pid = int(json.loads(heard)["child-pid"])

    def wait_ready(self, stop: Stop | None, until: float) -> None:
        """Wait until it has booted. Raises SandboxBroken."""
        self._await("ready", stop, min(until, time.monotonic() + BOOT_S), "the guest did not boot")

    def fill(self, write: Callable[["Port"], None], stop: Stop, until: float) -> int:
        """Fill its workspace with the tar that `write` writes; tar's exit code in the guest."""
        self._say(b"fill\n")
        with contextlib.suppress(Refused):  # it says why by its code
            write(Port(self, "fill", stop, until, b"filled"))
        # Not closed before the answer: QEMU drops what it has not read from a socket that is.
        self._ports["fill"].shutdown(socket.SHUT_WR)
        return int(self._await("filled", stop, until, "the workspace was not taken"))

    def pack(self, read: Callable[["Port"], object], stop: Stop, until: float) -> int:
        """Have its workspace packed, as a tar that `read` reads; tar's exit code in the guest."""
        self._say(b"pack\n")
        read(port := Port(self, "pack", stop, until, b"packed"))
        while port.read(MAX_READ):  # what stands behind the archive's end
            pass
        return int(self._await("packed", stop, until, "the workspace did not come"))

    def run(
        self,
        launcher: bytes,
        script: bytes,
        sink: Callable[[bytes], None],
        stop: Stop,
        until: float,
        grace_s: float,
    ) -> tuple[int, int | None]:
        """Run a step; its exit code, and how often the job was killed so far for want of memory.

        None: not known, for the guest had to be ended. For the rest see `base.Sandbox.run`.
        """
        token = secrets.token_hex(16).encode()
        output = Output(token, sink)
        out = self._ports["out"]
        self._say(b"run %s %d %d\n" % (token, len(launcher), len(script)) + launcher + script)
        told: tuple[int, int | None] | None = None
        ending = Ending(until)
        while True:
            if told is None and (said := self._take("exit")) is not None:
                told = ended_of(said)
            if told is not None and output.ended:
                break
            now = time.monotonic()
            if now >= until:
                stop.ask("timed_out")
            if stop.at_once:
                break
            if (word := ending.next(now, stop, grace_s, told=told is not None)) == "over":
                break
            if word is not None:
                self._say(word.encode() + b"\n")
            ready = self._look([out.fileno()], max(0.0, min(ending.due - now, 60.0)), stop)
            if output.port(ready, out):
                ending.heard()
        output.flush()
        return (KILLED, None) if told is None else told

    def kill(self) -> bool:
        """Kill all of the job's processes; whether the guest said so in time."""
        try:
            self._say(b"kill\n")
            self._await("killed", None, time.monotonic() + KILL_S, "")
        except SandboxBroken:
            return False
        return True

    def off(self) -> None:
        """End it so that its disk can be used by another. Raises SandboxBroken."""
        self._say(b"off\n")
        self._await("off", None, time.monotonic() + OFF_S, "the guest did not end")
        until = time.monotonic() + OFF_S
        while self._dead is None and time.monotonic() < until:
            self._look([], 1.0, None)
        self.end()

    def end(self) -> None:
        """Kill QEMU, at once."""
        if self._control is not None:
            self._control.close()  # which the keeper takes as its order to end everything
            self._control = None
        if self._keeper is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._keeper.wait(keeper.KILL_S + 2.0)
            self._keeper.kill()
            self._keeper.wait()
            self._keeper = None
        for port in self._ports.values():
            port.close()
        self._ports.clear()
        if self._console >= 0:
            os.close(self._console)
            self._console = -1

    def last_words(self) -> str:
        """The last line on its console that says anything; empty: there is none."""
        lines = self._console_bytes.decode(errors="replace").split("\n")
        shown = ["".join(c for c in line if c.isprintable()).strip() for line in lines]
        return next((line for line in reversed(shown) if line), "")[-300:]

    def _say(self, message: bytes) -> None:
        port = Port(self, "ctl", None, time.monotonic() + SEND_S, b"")
        port.write(message)

    def _await(self, word: str, stop: Stop | None, until: float, fault: str) -> str:
        """What follows `word`, once it was said. Raises SandboxBroken."""
        while (found := self._take(word)) is None:
            left = until - time.monotonic()
            if left <= 0 or (stop is not None and stop.reached("canceled")):
                words = self.last_words()
                raise SandboxBroken(f"{fault} in time" + (f": {words}" if words else ""))
            self._look([], left, stop)
        return found

    def _take(self, word: str) -> str | None:
        """Take a line that begins with `word` out of those that were said; None: there is none."""
        for line in self._lines:
            first, _, rest = line.partition(" ")
            if first == word:
                self._lines.remove(line)
                return rest
        if self._dead is not None:
            words = self.last_words()
            raise SandboxBroken(
                f"the guest ended by itself (QEMU: {self._dead})" + (f": {words}" if words else "")
            )
        return None

    def look(self, wanted: list[int], writes: list[int], wait_s: float, stop: Stop | None) -> set[int]:
        """Wait for any of the descriptors, take what else was said meanwhile; those that are ready."""
        assert self._control is not None
        own = [self._control.fileno(), self._console, self._ports["ctl"].fileno()]
        if stop is not None and stop.fileno() >= 0:
            own.append(stop.fileno())
        readable, writable, _ = select.select([*own, *wanted], writes, [], wait_s)
        if stop is not None and stop.fileno() in readable:
            stop.seen()
        if self._console in readable:
            with contextlib.suppress(BlockingIOError):
                self._console_bytes = (self._console_bytes + os.read(self._console, MAX_READ))[
                    -CONSOLE_BYTES:
                ]
        if self._ports["ctl"].fileno() in readable:
            self._hear()
        if self._control.fileno() in readable:
            self._hear_keeper()
        return {*readable, *writable} & {*wanted, *writes}

    def _look(self, wanted: list[int], wait_s: float, stop: Stop | None) -> set[int]:
        return self.look(wanted, [], wait_s, stop)

    def _hear(self) -> None:
        for line in self._split("ctl", self._ports["ctl"]):
            text = line.decode(errors="replace")
            word, _, rest = text.partition(" ")
            if word == "use":
                self._on_use(taken_of(rest))
            elif word == "fail":
                raise SandboxBroken(f"the guest: {''.join(c for c in rest if c.isprintable())}")
            elif len(self._lines) < 100:  # nothing that it is asked is answered by so many
                self._lines.append(text)

    def _hear_keeper(self) -> None:
        assert self._control is not None
        for line in self._split("control", self._control):
            message: dict[str, Any] = json.loads(line)
            if "exit" in message:
                self._dead = int(message["exit"])

    def _split(self, name: str, source: socket.socket) -> list[bytes]:
        """The whole lines that came."""
        got = b""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            got = source.recv(MAX_READ)
        if not got and name == "control":
            raise SandboxBroken("the keeper of the guest was killed")
        if not got and self._dead is None:
            self._dead = -1
        *lines, self._said[name] = (self._said[name] + got).split(b"\n")
        if len(self._said[name]) > MAX_LINE or any(len(line) > MAX_LINE for line in lines):
            raise SandboxBroken("the guest says what is no line")
        return lines


class Refused(Exception):
    """The guest does not take more of what it is sent."""


class Port:
    """A port as a file, for one thing at a time. Raises SandboxBroken where its time is over."""

    def __init__(self, guest: Guest, name: str, stop: Stop | None, until: float, end: bytes) -> None:
        """`end`: the word after which nothing more comes, or is taken."""
        self._guest, self._stop, self._until = guest, stop, until
        self._socket = guest._ports[name]
        self._end = end.decode()

    def write(self, data: bytes) -> int:
        """All of it. Raises Refused, once the guest has said that it is done."""
        view = memoryview(data)
        while view:
            if self._ended():
                raise Refused
            if self._look(writes=True):
                try:
                    view = view[self._socket.send(view) :]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise SandboxBroken(f"the guest is gone: {error.strerror}") from None
        return len(data)

    def read(self, size: int) -> bytes:
        """Some bytes, `size` at most; none: there are no more."""
        while True:
            over = self._ended()  # asked before: what was written before it was said is there already
            if self._look(wait=not over):
                with contextlib.suppress(BlockingIOError):
                    return self._socket.recv(min(size, MAX_READ))
            elif over:
                return b""

    def _look(self, *, writes: bool = False, wait: bool = True) -> bool:
        left = self._until - time.monotonic()
        if left <= 0 or (self._stop is not None and self._stop.reached("canceled")):
            raise SandboxBroken("there was no time for what the guest was to take or give")
        handle = [self._socket.fileno()]
        wait_s = min(left, 1.0) if wait else 0.0
        return bool(self._guest.look([] if writes else handle, handle if writes else [], wait_s, self._stop))

    def _ended(self) -> bool:
        guest = self._guest
        if guest._dead is not None:
            raise SandboxBroken("the guest ended by itself")
        return bool(self._end) and any(line.split(" ")[0] == self._end for line in guest._lines)
