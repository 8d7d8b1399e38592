"""The values that placement works on.

Frozen, keyword-only, with slots; tuples and frozensets inside, so that a demand or a shape can be
a dictionary key. None always means "not asked" (demand) or "not reported" (offer), never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["active", "draining", "quarantined"]
Want = Literal["memory", "disk"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The constants of the rules, as the hub is set."""

    hold_ms: int = 15_000  # a job is held this long in total for a better runner
    polling_ms: int = 10_000  # a runner without an open claim is there this long after its last poll
    silent_ms: int = 30_000  # without claim or heartbeat for longer, a runner is out
    decline_ms: int = 600_000  # a decline holds this long, for that runner and that job
    reserve_mib: int = 4096  # memory kept back on a runner that states no reserve of its own
    baseline_mib: int = 2048  # memory that a machine uses for itself, at least
    patience: int = 2  # broken promises in a row after which a runner is awaited no more
    bypass_ms: int = 600_000  # a job that smaller ones kept out for so long has a runner kept for it


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """An attempt at the job ended for want of memory or disk: the job asks for more since then."""

    of: Want
    had_mib: int  # memory: what it could have; disk: what it had taken
    asks_mib: int  # since then; more than it had
    runner: str  # on which it ran out; one that ran a job of the project, so its readers may see the name


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a job asks of a runner. Jobs with equal demands are judged once."""

    project: str  # "owner/name"
    tier: str
    arch: str | None = None
    images: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None  # what gates: learned from recent runs, else what the pipeline asks
    disk_peak_mib: int | None = None  # the recent peak behind a learned figure; None: not learned
    shortages: tuple[Shortage, ...] = ()  # those behind the figures for memory and disk

    @property
    def owner(self) -> str:
        """Whose job it is, for fairness: the part of the project before the slash."""
        return self.project.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decline:
    """A runner gave a job back for a reason of its own."""

    runner: str
    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A request, never a requirement: the runner on which the last job of the run left its files."""

    runner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that could run now, if a runner took it."""

    id: int
    demand: Demand
    order: tuple[int, int, int]  # (-priority, queued_ms, id): smaller goes first among its owner's jobs
    declines: tuple[Decline, ...] = ()
    held_since_ms: int | None = None  # first pass for a better runner; set once per attempt
    held_for: str | None = None  # the runner awaited now; None: not held now
    awaited: str | None = None  # the runner that was awaited last; None: none, or no longer known
    usual_ms: int | None = None  # median duration of its recent runs
    lost_on: frozenset[str] = frozenset()  # runners that were lost under it: they rank last
    wish: Wish | None = None

    @property
    def priority(self) -> int:
        """Larger goes first."""
        return -self.order[0]

    @property
    def queued_ms(self) -> int:
        """Since when it is in the queue."""
        return self.order[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a runner is kept for: a job that smaller ones kept out for too long, or others just like it."""

    job: int
    demand: Demand
    priority: int  # jobs of a higher priority are not kept out
    queued_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A sandbox that a runner reports live (running, parked or orphaned)."""

    job: int
    state: str = "running"
    memory_mib: int | None = None
    cpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A job that the hub has placed on a runner and that has not given its room back."""

    job: int
    owner: str | None = None  # whose job it is; None: not known, and counted for nobody
    order: tuple[int, int, int] | None = None  # `QueuedJob.order`, while it was in the queue
    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None  # without the images it makes the runner fetch
    disk_taken_mib: int | None = None  # as of the offer that also reported the free disk; None: nothing yet
    fetching: tuple[tuple[str, int], ...] = ()  # images the runner did not hold when it was placed, with MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a runner said of itself at its last claim."""

    tiers: tuple[str, ...]
    arch: str | None = None
    labels: frozenset[str] = frozenset()
    exclusive: bool = False  # takes only jobs that ask for one of its labels
    images: frozenset[str] = frozenset()
    image_archs: tuple[tuple[str, str], ...] = ()
    fetches_images: bool = False
    fetching: frozenset[str] = frozenset()  # images on their way to it, not yet held
    max_jobs: int = 1
    cpus: int | None = None
    memory_mib: int | None = None
    reserve_mib: int | None = None
    memory_used_mib: int | None = None
    free_disk_mib: int | None = None
    speed: int | None = None
    speed_class: int | None = None
    load1: float | None = None
    accel: str | None = None  # how its guests run: kvm, or tcg, which is emulated; None: it has none
    live: tuple[Sandbox, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the hub knows of a runner beside its offer."""

    state: State = "active"
    state_reason: str = ""
    owner: str | None = None  # serves only this owner's projects
    project: str | None = None  # serves only this project
    heard_ms: int | None = None  # when it last sent anything; None: never
    polled_ms: int | None = None  # when its last claim came in; None: never
    waiting: bool = False  # its claim is open now
    placed: tuple[Placed, ...] = ()
    idle_memory_mib: int | None = None  # memory used when last seen with nothing committed
    broken_promises: int = 0  # holds for it in a row that ended without its claim
    kept: Kept | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """A runner as placement sees it. `offer` None: it never polled."""

    name: str
    offer: Offer | None
    standing: Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class HubImage:
    """An image that the hub holds. `scopes`: the owners and projects that may use it; None: everybody."""

    arch: str | None = None
    size_mib: int | None = None
    scopes: frozenset[str] | None = None

    def serves(self, project: str) -> bool:
        """Whether jobs of `project` may use it. To others it is not there, whoever holds it."""
        return self.scopes is None or not self.scopes.isdisjoint((project, project.partition("/")[0]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All runners, and what the hub holds, at one instant."""

    runners: Mapping[str, Runner]
    images: Mapping[str, HubImage] = field(default_factory=dict)
    settings: Settings = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change that would mend a lack, in words and as a value."""

    text: str
    change: tuple[tuple[str, object], ...]  # ("runner.labels", {"add": ["gpu"]}), …


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """One reason why one runner cannot take one job now."""

    code: str
    text: str  # read after the runner's name
    lasting: bool  # waiting will not mend it
    remedy: Remedy | None = None
    abroad: str | None = None  # the text for who may not see other projects; None: the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A job passed over because a better runner, there to take it, should have it."""

    job: int
    awaited: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a claim, or a job that became ready, leads to. Carried out by the shell in one write.

    `take` goes to `runner`; both None: nothing is given. `holds` are the jobs passed over, in queue
    order; a hold starts only at a job's first pass.
    """

    take: QueuedJob | None = None
    runner: str | None = None
    holds: tuple[Hold, ...] = ()
