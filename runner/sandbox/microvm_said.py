"""What a guest says of a step, taken as an enemy's words: its figures, its output and its end.

Invariant: nothing here waits. What cannot be right is SandboxBroken; what is only wrong about the job
itself harms that job alone.
"""

import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from runner.sandbox.base import SandboxBroken, Stop

KILL_S = 15.0  # for all of a job's processes to be killed in it
TOKEN_S = 20.0  # without any output, for the last of a step's to come
MAX_READ = 2**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a guest says that its job uses. `room_bytes`: still free on its scratch disk."""

    memory_bytes: int
    disk_bytes: int
    room_bytes: int


class Ending:
    """What a step is told on its way to its end, and when. `due`: the next time to look."""

    def __init__(self, until: float) -> None:
        self.due = until
        self._state: Literal["runs", "asked", "killed", "told"] = "runs"

    def next(
        self, now: float, stop: Stop, grace_s: float, *, told: bool
    ) -> Literal["term", "kill", "over"] | None:
        """What is to be said; `over`: do not wait any longer. `told`: the exit code has come."""
        if told and self._state != "told":  # its token was written before: it is on its way, or lost
            self._state, self.due = "told", now + TOKEN_S
        elif self._state == "runs" and stop.reason is not None:
            self._state, self.due = "asked", now + grace_s
            return "term"
        elif self._state == "asked" and now >= self.due:
            self._state, self.due = "killed", now + KILL_S
            return "kill"
        elif self._state in ("killed", "told") and now >= self.due:
            return "over"
        return None

    def heard(self) -> None:
        """Some output came."""
        if self._state == "told":
            self.due = time.monotonic() + TOKEN_S


class Output:
    """A step's output up to its token, which is not part of it."""

    def __init__(self, token: bytes, sink: Callable[[bytes], None]) -> None:
        self._token, self._sink = token, sink
        self._kept = b""
        self.ended = False

    def port(self, ready: set[int], source: socket.socket) -> bool:
        """Take what the port holds, if it is ready; whether there was anything."""
        if source.fileno() not in ready:
            return False
        try:
            piece = source.recv(MAX_READ)
        except (BlockingIOError, ConnectionError):
            return False
        self.take(piece)
        return bool(piece)

    def take(self, piece: bytes) -> None:
        """Pass on what is certainly no part of the token."""
        kept = self._kept + piece
        before, found, after = kept.partition(self._token)
        if found:
            self.ended = True
            self._kept = b""
            kept = before + after
        else:
            size = next((n for n in range(len(self._token) - 1, 0, -1) if kept.endswith(self._token[:n])), 0)
            kept, self._kept = kept[: len(kept) - size], kept[len(kept) - size :]
        if kept:
            self._sink(kept)

    def flush(self) -> None:
        """Nothing more comes."""
        if self._kept:
            self._sink(self._kept)
            self._kept = b""


def taken_of(words: str) -> Taken:
    """What `use` says. Raises SandboxBroken."""
    try:
        memory, blocks, free, available, size = (int(word) for word in words.split())
    except ValueError:
        raise SandboxBroken("the guest says what is no measure") from None
    if not all(0 <= each < 2**53 for each in (blocks, free, available, size)):
        raise SandboxBroken("the guest says what is no measure")
    return Taken(
        memory_bytes=max(0, min(memory, 2**60)),
        disk_bytes=max(0, (blocks - free) * size),
        room_bytes=available * size,
    )


def ended_of(words: str) -> tuple[int, int | None]:
    """What `exit` says. Raises SandboxBroken."""
    try:
        code, kills = (int(word) for word in words.split())
    except ValueError:
        raise SandboxBroken("the guest says what is no exit code") from None
    return code & 0xFF, kills
