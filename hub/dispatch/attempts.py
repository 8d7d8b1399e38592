"""Attempts that are out, and claims that are open, as the hub remembers them while it runs."""

import asyncio
from dataclasses import dataclass, field

from hub.placement.model import Decline, Demand, QueuedJob, Shortage
from hub.wire.claim import Assignment
from hub.wire.spec import Concurrency


@dataclass(slots=True, eq=False)
class LiveRun:
    """What the jobs of an unfinished run share. JSON and texts as submitted."""

    id: int
    project: str
    workspace: str | None = None  # JSON of wire Workspace
    ref: str | None = None
    commit: str | None = None


@dataclass(slots=True, eq=False)
class LiveJob:
    """An unfinished job: what its demand is, and where it stands in the queue."""

    id: int
    run: LiveRun
    name: str
    spec: str  # JSON of wire JobSpec, read when the job is assigned: 100,000 of them must fit
    demand: Demand  # raised by its shortages
    priority: int
    queued_ms: int
    group: Concurrency | None = None  # its concurrency group
    attempt: int = 0
    losses: int = 0
    usual_ms: int | None = None
    running_ms: int | None = None  # since when it runs; None: it does not, or the hub was started since
    held_since_ms: int | None = None
    awaited: str | None = None  # the runner it was last held for; None: none, or no longer known
    declines: tuple[Decline, ...] = ()
    lost_on: frozenset[str] = frozenset()
    shortages: tuple[Shortage, ...] = ()  # what it has run out of, also in the run that this one repeats

    def queued(self) -> QueuedJob:
        """The job as the decision sees it."""
        return QueuedJob(
            id=self.id,
            demand=self.demand,
            order=(-self.priority, self.queued_ms, self.id),
            declines=self.declines,
            held_since_ms=self.held_since_ms,
            awaited=self.awaited,
            usual_ms=self.usual_ms,
            lost_on=self.lost_on,
        )


@dataclass(slots=True, eq=False)
class LiveAttempt:
    """One claim of a job by a runner, until it is over. `lease` fences all that is sent for it."""

    job: LiveJob
    number: int
    runner: str
    instance: str | None
    claim_id: str | None
    lease: str
    assigned_ms: int
    expires_ms: int
    answer: Assignment | None = None  # None: taken over from the store at start; made anew when asked for
    placed: str = ""  # the sentence why it runs there
    step: int | None = None  # index of the step that runs, as last told
    committed: asyncio.Event = field(default_factory=asyncio.Event)
    confirmed: bool = False
    canceling: bool = False
    memory_mib: int | None = None
    disk_mib: int | None = None


@dataclass(slots=True, eq=False)
class OpenClaim:
    """A claim that waits for its answer. `given` is set from the decision on, before the write."""

    runner: str
    instance: str | None
    claim_id: str | None
    address: str
    answer: asyncio.Future[LiveAttempt | None]
    given: LiveAttempt | None = None

    def close(self, attempt: LiveAttempt | None = None) -> None:
        """Answer it; closing it twice changes nothing."""
        if not self.answer.done():
            self.answer.set_result(attempt)

    def fail(self, error: Exception) -> None:
        """Answer it with an error."""
        if not self.answer.done():
            self.answer.set_exception(error)
