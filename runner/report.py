"""A job's log on its way to the hub: onto disk first, then sent in pieces from where the hub is.

Invariant: what the hub has is always the beginning of what stands in the spool, byte for byte. The
hub's word on where the log goes on is final, so a piece whose answer was lost, a hub that was away
and one that lost its last bytes in a power cut are one case.

Between the job's own bytes stand lines of the runner: `##[step 2/3] make` begins a step and
`##[exit 0] 1.2 s` ends it, each at the beginning of a line; the run page folds by them.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hub.wire.base import plain_text
from hub.wire.claim import LogOffset
from runner.client import Backoff
from runner.errors import Away, HubError, Over, TooLarge
from runner.sandbox.base import Stop

log = logging.getLogger(__name__)

MAX_PIECE_BYTES = 2**18  # one piece: small enough to be resent over a bad link
GATHER_S = 0.3  # a byte waits this long at most for others to go with it
# Of the job's own output. The hub keeps 1 GiB unless set otherwise; the rest of it is for our lines.
MAX_OUTPUT_BYTES = 1023 * 2**20
MAX_NAME = 300  # characters of a step's name in its line

Send = Callable[[int, bytes], LogOffset]


class Log:
    """The log of one attempt. `write` and `note` by the job's thread; a thread of its own sends."""

    def __init__(
        self,
        path: Path,
        send: Send,
        stop: Stop,
        backoff: Backoff,
        *,
        give_up_s: float,
        limit_bytes: int = MAX_OUTPUT_BYTES,
    ) -> None:
        self._path = path
        self._send = send
        self._stop = stop
        self._backoff = backoff
        self._limit = limit_bytes
        self._give_up_s = give_up_s  # without any success in between
        self._waited_s = 0.0
        self._dropped = False
        self._line_begins = True
        self._size = 0
        self._sent = 0
        self._full = False  # the hub takes no more
        self._failed: HubError | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._thread = threading.Thread(target=self._deliver, name="log", daemon=True)
        self._thread.start()

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._size

    def write(self, piece: bytes) -> None:
        """Add output of the job, exactly. Raises OSError where the disk is full."""
        left = self._limit - self._size
        if len(piece) <= left:
            self._add(piece)
        elif not self._dropped:
            self._dropped = True
            self._add(piece[: max(0, left)])
            self.note(f"runner: the output reached its bound of {self._limit} bytes; the rest is dropped")

    def step(self, number: int, count: int, name: str) -> None:
        """The line that begins step `number` of `count`."""
        self.note(f"##[step {number}/{count}] {plain_text(' '.join(name.split()), MAX_NAME)}")

    def exit(self, code: int, seconds: float) -> None:
        """The line that ends a step."""
        self.note(f"##[exit {code}] {seconds:.1f} s")

    def note(self, line: str) -> None:
        """A line of the runner's own, on a line of its own."""
        self._add((b"" if self._line_begins else b"\n") + line.encode(errors="replace") + b"\n")

    def close(self) -> int | None:
        """Wait until the hub has all; the length of the log.

        None: the hub keeps no more of it. Ends early, with None, once `stop` allows no more reports.
        """
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        return None if self._full or self._failed or self._sent < self._size else self._size

    def rewind(self, offset: int) -> None:
        """Send again from `offset`, which the hub named; then `close` once more."""
        with self._changed:
            self._sent = min(offset, self._size)
        self._thread = threading.Thread(target=self._deliver, name="log", daemon=True)
        self._thread.start()

    def remove(self) -> None:
        """Give the file up. Only after `close`, or once `stop` allows no more reports."""
        self.close()
        os.close(self._handle)
        self._path.unlink(missing_ok=True)

    def _add(self, piece: bytes) -> None:
        if not piece:
            return
        view = memoryview(piece)
        while view:
            view = view[os.pwrite(self._handle, view, self._size + len(piece) - len(view)) :]
        with self._changed:
            self._size += len(piece)
            self._line_begins = piece.endswith(b"\n")
            self._changed.notify_all()

    def _deliver(self) -> None:
        """Send until all is sent and the log closed, or nothing may be sent any more."""
        while self._await_piece():
            piece = os.pread(self._handle, min(MAX_PIECE_BYTES, self._size - self._sent), self._sent)
            try:
                answer = self._send(self._sent, piece)
            except Away as error:
                if self._wait(error):
                    return
            except Over as error:
                if error.offset is None:
                    self._stop.ask("over")
                    return
                if error.offset == self._sent and self._wait(error):  # it wants what it was just sent
                    return
                self._sent = min(error.offset, self._size)
            except TooLarge:
                log.warning("the hub keeps no more of this log than %d bytes", self._sent)
                self._full = True
                return
            except HubError as error:
                log.error("the log is not accepted: %s", error.detail)
                self._failed = error
                return
            else:
                if answer.offset > self._sent:
                    self._backoff.reset()
                    self._waited_s = 0.0
                elif self._wait(None):
                    return
                self._sent = min(answer.offset, self._size)
                if answer.cancel:
                    self._stop.ask("canceled")

    def _wait(self, error: HubError | None) -> bool:
        """Wait before the next try; True: no more tries."""
        seconds = self._backoff.failed(error)
        self._waited_s += seconds
        if self._waited_s > self._give_up_s:
            self._failed = error or Away("the hub takes nothing of the log")
            return True
        return self._stop.wait(seconds, until="released")

    def _await_piece(self) -> bool:
        """Wait for something to send, and a little for more; False: there is nothing more to do."""
        with self._changed:
            while self._sent >= self._size and not self._closing:
                self._changed.wait(1.0)
                if self._stop.at_once:
                    return False
            until = time.monotonic() + GATHER_S
            while not self._closing and self._size - self._sent < MAX_PIECE_BYTES:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return self._sent < self._size and not self._stop.at_once
