"""One attempt at a job, as the hub knows it: every call about it, and its heartbeat.

Invariant: once the hub has said that the attempt is over, nothing more is sent for it; `stop` then
says `over`, and whoever works for the attempt ends at once. The heartbeat has a thread of its own,
which the work cannot starve, and goes on while the hub is away.
"""

import logging
import random
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from hub.wire.claim import Assignment, Finish, GiveBack, Heartbeat, LogOffset, Start
from runner.artifacts import Found
from runner.client import Backoff, Hub, persist
from runner.config import Timing
from runner.errors import Away, HubError, Locked, Missing, Over
from runner.sandbox.base import Reason, Stop, Usage

log = logging.getLogger(__name__)
T = TypeVar("T")

BEATS_A_LEASE = 6  # five may be lost before the lease is
LEAST_BEAT_S, MOST_BEAT_S = 1.0, 10.0
RETRY_MOST_S = 10.0  # between tries of a call about a job: its lease is short
MAX_REASON = 300


class Attempt:
    """The calls about one attempt. Thread-safe. `locked` is told when the hub refuses the token."""

    def __init__(
        self, hub: Hub, given: Assignment, timing: Timing, stop: Stop, locked: Callable[[str], None]
    ) -> None:
        self.hub = hub
        self.job = given.job
        self.lease = given.lease.token
        self.stop = stop
        self.timing = timing
        self._ttl_s = given.lease.ttl_s
        self._locked = locked
        self._ended = threading.Event()
        self._beating: threading.Thread | None = None

    def backoff(self) -> Backoff:
        """How calls about this job are repeated."""
        return Backoff(self.timing.retry_s, min(RETRY_MOST_S, self.timing.retry_most_s))

    def start(self, phase: str) -> None:
        """Confirm, or go on to `running`. Raises Over or Aborted: drop the job."""
        message = Start.model_validate({"lease": self.lease, "phase": phase})
        self._persist(lambda: self.hub.start(self.job.id, message), "released")

    def finish(self, message: Finish) -> None:
        """Tell how it ended. Raises Over, with an offset where the log is not whole."""
        self._persist(lambda: self.hub.finish(self.job.id, message), "released")

    def decline(self, reason: str) -> None:
        """Give it back for a reason of this machine's."""
        message = GiveBack(lease=self.lease, reason=reason[:MAX_REASON])
        self._persist(lambda: self.hub.decline(self.job.id, message), "released")

    def release(self, reason: str) -> None:
        """Give it back, for this process ends. Tried for a short time only: the lease ends by itself."""
        message = GiveBack(lease=self.lease, reason=reason[:MAX_REASON])
        self._persist(lambda: self.hub.release(self.job.id, message), "over", self.timing.release_s)

    def append_log(self, offset: int, piece: bytes) -> LogOffset:
        """Send a piece of the log, once."""
        return self._fenced(lambda: self.hub.append_log(self.job.id, self.lease, offset, piece))

    def put_artifact(self, found: Found) -> None:
        """Send a file that the job left."""

        def put() -> None:
            with found.path.open("rb") as file:
                self.hub.put_artifact(
                    self.job.id, self.lease, found.name, file, found.bytes, report=found.report
                )

        self._persist(put, "canceled")

    def beat(self, usage: Callable[[], Usage], step: Callable[[], int | None]) -> None:
        """Begin the heartbeat, with what it is to tell."""
        self._beating = threading.Thread(
            target=self._beat, args=(usage, step), name=f"beat-{self.job.id}", daemon=True
        )
        self._beating.start()

    def rest(self) -> None:
        """End the heartbeat; it may have one call under way, which changes nothing."""
        self._ended.set()

    @property
    def beat_every_s(self) -> float:
        """Seconds between two heartbeats."""
        if self.timing.heartbeat_s is not None:
            return self.timing.heartbeat_s
        return min(MOST_BEAT_S, max(LEAST_BEAT_S, self._ttl_s / BEATS_A_LEASE))

    def _beat(self, usage: Callable[[], Usage], step: Callable[[], int | None]) -> None:
        wait_s = 0.0  # the first at once: a cancel may have come while the job was on its way
        while not self._ended.wait(wait_s) and not self.stop.at_once:
            every_s = self.beat_every_s
            used = usage()
            message = Heartbeat(
                lease=self.lease, memory_mib=used.memory_mib, disk_mib=used.disk_mib, step=step()
            )
            try:
                pulse = self._fenced(partial(self.hub.heartbeat, self.job.id, message, read_s=every_s))
            except Away as error:
                log.warning("job %d: no heartbeat: %s", self.job.id, error.detail)
                # A whole fleet that finds its hub again must not do so in one instant.
                wait_s = every_s * random.uniform(0.3, 0.7)  # noqa: S311 - hides nothing
                continue
            except HubError as error:
                log.error("job %d: heartbeat refused: %s", self.job.id, error.detail)
            else:
                self._ttl_s = pulse.ttl_s
                if pulse.cancel:
                    self.stop.ask("canceled")
            wait_s = every_s

    def _persist(self, call: Callable[[], T], until: Reason, give_up_s: float | None = None) -> T:
        give_up_s = self.timing.away_s if give_up_s is None else give_up_s
        return persist(
            lambda: self._fenced(call), self.stop, self.backoff(), until=until, give_up_s=give_up_s
        )

    def _fenced(self, call: Callable[[], T]) -> T:
        """One call; an answer that means "not yours any more" raises Over, and stops the job."""
        try:
            return call()
        except Over as error:
            if error.offset is None:
                self.stop.ask("over")
            raise
        except Missing as error:
            self.stop.ask("over")
            raise Over(error.detail) from None
        except Locked as error:
            self.stop.ask("over")
            self._locked(error.detail)
            raise Over(error.detail) from None
