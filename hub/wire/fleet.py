"""Runners, the fleet, the queue and tokens, as the API shows them."""

from typing import Annotated, Literal

from pydantic import Field

from hub.wire.base import MAX_LABELS, Answer, Label, Name, Owner, Project, Request, Text, Time
from hub.wire.runs import JobView

TokenKind = Literal["read", "submit", "images", "admin"]


class Scope(Request):
    """Whose jobs: all projects where both are None; else one owner's, or one project's."""

    owner: Owner | None = None
    project: Project | None = None


class NewRunner(Request):
    """POST /runners."""

    name: Name
    labels: Annotated[list[Label], Field(max_length=MAX_LABELS)] = []
    scope: Scope = Scope()


class NewRunnerToken(Answer):
    """201 of POST /runners: the token is shown once."""

    name: str
    token: str


class ChangeRunner(Request):
    """PATCH /runners/{name}: what is None stays. `state: active` also ends a quarantine."""

    state: Literal["active", "draining"] | None = None
    labels: Annotated[list[Label], Field(max_length=MAX_LABELS)] | None = None
    scope: Scope | None = None


class HeldJob(Answer):
    """A job on a runner."""

    job: int
    run: int | None = None
    name: str | None = None
    state: str
    memory_mib: int | None = None
    cpus: int | None = None


class LastAwaited(Answer):
    """The last job that was held for a runner. `job` None: beyond the reader's reach."""

    job: int | None = None
    at: Time
    took: bool | None = Field(default=None, description="null: still held, or it went out of the queue")


class KeptFor(Answer):
    """The job a runner is kept for, as smaller ones kept it out. `job` None: beyond the reader's reach."""

    job: int | None = None
    queued_at: Time


class RunnerView(Answer):
    """A runner: what it said, what the hub knows, and what is left on it. None: not reported."""

    name: str
    state: Literal["active", "draining", "quarantined"]
    state_reason: str = ""
    waiting: bool = Field(description="its claim is open now")
    heard_at: Time | None = Field(default=None, description="when it last sent anything; None: never")
    heard_s_ago: float | None = None
    facts_at: Time | None = Field(default=None, description="when it last polled, and told what follows")
    silent: bool = False
    scope: Scope = Scope()
    labels: list[str] = []
    arch: str | None = None
    tiers: list[str] = []
    images: list[str] = []
    fetches_images: bool = False
    max_jobs: int | None = None
    free_slots: int | None = None
    cpus: int | None = None
    free_cpus: int | None = None
    memory_mib: int | None = None
    memory_used_mib: int | None = Field(default=None, description="observed by the runner")
    memory_committed_mib: int | None = Field(default=None, description="of all that is placed or live")
    free_memory_mib: int | None = Field(
        default=None, description="headroom: after use, commitments and reserve"
    )
    reserve_mib: int | None = None
    free_disk_mib: int | None = Field(default=None, description="headroom: after what placed jobs still take")
    speed: int | None = None
    speed_class: int | None = None
    load1: float | None = None
    kernel: str | None = None
    os: str | None = None
    cpu: str | None = None
    jobs: list[HeldJob] = []
    awaited_by: list[int] = Field(default=[], description="jobs held for it now")
    broken_promises: int = Field(default=0, description="holds for it in a row that ended without its claim")
    last_awaited: LastAwaited | None = None
    kept_for: KeptFor | None = None
    instances: list[str] = Field(default=[], description="addresses of processes that used its token lately")


class RunnerList(Answer):
    """GET /runners."""

    runners: list[RunnerView]


class Shape(Answer):
    """Jobs that ask the same, and wait: what an autoscaler would start machines for."""

    jobs: int
    project: str
    tier: str
    arch: str | None = None
    labels: list[str] = []
    images: list[str] = []
    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None
    wants: str = Field(default="", description="the number and what they ask, in words")
    kind: str = Field(description="kind of the waiting reason")
    headline: str
    oldest_s: float = Field(description="how long the oldest of them has waited")


class FleetView(Answer):
    """GET /fleet: each runner's headroom, and what the queue lacks by shape."""

    runners: list[RunnerView]
    lacking: list[Shape]


class QueueGroup(Answer):
    """Jobs that wait for one reason."""

    kind: str
    headline: str
    jobs: int
    oldest_s: float = Field(description="how long the oldest of them has waited")
    first: list[int] = Field(default=[], description="ids of those whose turn comes first, 5 at most")


class QueueView(Answer):
    """GET /queue: jobs in their turn, and all of them by reason. `more`: jobs beyond the bound."""

    jobs: list[JobView]
    more: int = 0
    groups: list[QueueGroup] = Field(default=[], description="those with the most jobs first, 200 at most")


class NewToken(Request):
    """POST /tokens. Kinds grow: `submit` may read, `admin` may all; `images` may read and push images."""

    name: Text
    kind: TokenKind
    scope: Scope = Scope()
    expires_in_s: Annotated[int, Field(ge=60, le=10 * 366 * 86400)] | None = None


class TokenView(Answer):
    """A token, without its secret."""

    id: int
    name: str
    kind: TokenKind
    scope: Scope
    created_at: Time
    expires_at: Time | None = None
    used_at: Time | None = None


class TokenMade(TokenView):
    """201 of POST /tokens: the secret is shown once."""

    token: str


class TokenList(Answer):
    """GET /tokens."""

    tokens: list[TokenView]


class WorkspaceSaved(Answer):
    """201 of PUT /workspaces/{hash}: a packed folder (tar, zstd) is kept."""

    hash: str
    bytes: int


class Me(Answer):
    """GET /me: whose token this is."""

    name: str
    kind: str
    scope: Scope
    version: str
