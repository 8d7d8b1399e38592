"""Guests for tests: a kernel that is fetched once and kept, sandboxes, and a guest that follows a script."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.sandbox import cgroups, microvm_kernel
from runner.sandbox.base import SandboxBroken
from runner.sandbox.microvm import Means
from runner.sandbox.microvm_guest import Guest
from runner.sandbox.microvm_line import PORTS
from runner.sandbox.microvm_said import Taken
from tests.runner import boxes


def kernel_folder() -> Path:
    """Where a kernel is, fetched if it must be; or a skip. It is kept: it has 27 MB to fetch."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shunter-tests/microvm"
    if not list(cache.glob("kernel-*/vmlinuz")):
        try:
            microvm_kernel.fetch(cache)
        except SandboxBroken as error:
            pytest.skip(f"needs a kernel for guests: {error}")
    return cache


def means() -> Means:
    """What this machine has to run guests, emulated: that works on every machine. Or a skip."""
    boxes.need("qemu-system-x86_64", "qemu-system-x86")
    for name, package in (("busybox", "busybox-static"), ("bwrap", "bubblewrap"), ("mke2fs", "e2fsprogs")):
        boxes.need(name, package)
    return Means(
        kernel=microvm_kernel.find(kernel_folder()),
        accel="tcg",
        as_root=os.geteuid() == 0,
        homes=cgroups.ready(cgroups.homes()),
    )


class Scripted:
    """A guest of which a test plays the other end, and its keeper."""

    def __init__(self) -> None:
        self.used: list[Taken] = []
        self.guest = Guest(self.used.append)
        self.ends: dict[str, socket.socket] = {}
        self.guest._control, self.keeper = socket.socketpair()
        self.guest._console, self._console = os.pipe()
        os.set_blocking(self.guest._console, False)
        for name in PORTS:
            self.guest._ports[name], self.ends[name] = socket.socketpair()
            self.guest._ports[name].setblocking(False)

    def say(self, text: str) -> None:
        self.ends["ctl"].sendall(text.encode() + b"\n")

    def print(self, text: str) -> None:
        """On the console."""
        os.write(self._console, text.encode())

    def die(self, code: int) -> None:
        """As the keeper tells it."""
        self.keeper.sendall(b'{"exit": %d}\n' % code)

    def hear(self, size: int = 65536) -> bytes:
        self.ends["ctl"].settimeout(20)
        return self.ends["ctl"].recv(size)

    def play(self, part: Callable[[], None]) -> threading.Thread:
        """Do this meanwhile."""
        thread = threading.Thread(target=part, daemon=True)
        thread.start()
        return thread

    def close(self) -> None:
        self.guest.end()
        self.keeper.close()
        os.close(self._console)
        for end in self.ends.values():
            end.close()
