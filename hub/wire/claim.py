"""A runner claims a job, and works on it: what it says and what it is told."""

from typing import Annotated, Literal

from pydantic import Field

from hub.wire.base import (
    MAX_IMAGES,
    MAX_LABELS,
    MAX_RUNNING,
    MAX_WAIT_S,
    Answer,
    Arch,
    Hash,
    Label,
    Mib,
    Request,
    Secret,
    Text,
    Tier,
    Word,
)

DEFAULT_WAIT_S = 25


class Facts(Request):
    """What a runner measured of itself just now; None: not measured."""

    speed: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="speed score; 100 is the reference machine"
    )
    speed_class: Annotated[int, Field(ge=0, le=9)] | None = None
    free_disk_mib: Mib | None = None
    load1: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    memory_used_mib: Mib | None = None
    kernel: Word | None = None
    os: Word | None = None
    cpu: Word | None = None
    accel: Literal["kvm", "tcg"] | None = None


class Live(Request):
    """One sandbox that is on the runner now."""

    job: Annotated[int, Field(ge=1)]
    lease: Secret | None = Field(default=None, description="of its attempt; None for an orphan")
    state: Literal["preparing", "running", "ending", "parked", "orphan"] = "running"
    memory_mib: Mib | None = None
    disk_mib: Mib | None = Field(default=None, description="disk it has taken so far")
    cpus: Annotated[int, Field(ge=0, le=100_000)] | None = None


class Claim(Request):
    """POST /claim: what a runner is and has, in exchange for a job. Only `tiers` is required."""

    tiers: Annotated[list[Tier], Field(min_length=1, max_length=3)]
    claim_id: Secret | None = Field(default=None, description="made by the runner; makes a repeat safe")
    instance: Secret | None = Field(default=None, description="made anew when the runner process starts")
    arch: Arch | None = None
    labels: Annotated[list[Label], Field(max_length=MAX_LABELS)] = []
    exclusive: bool = Field(default=False, description="takes only jobs that ask for one of its labels")
    images: Annotated[list[Hash], Field(max_length=MAX_IMAGES)] = []
    image_archs: Annotated[dict[Hash, Arch], Field(max_length=MAX_IMAGES)] = {}
    fetches_images: bool = False
    fetching: Annotated[list[Hash], Field(max_length=MAX_IMAGES)] = Field(
        default=[], description="images on their way to it, not yet held"
    )
    max_jobs: Annotated[int, Field(ge=1, le=1000)] = 1
    cpus: Annotated[int, Field(ge=1, le=100_000)] | None = None
    memory_mib: Mib | None = None
    reserve_mib: Mib | None = Field(default=None, description="kept back; the hub's setting where None")
    facts: Facts = Facts()
    running: Annotated[list[Live], Field(max_length=MAX_RUNNING)] = []
    wait_s: Annotated[float, Field(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = DEFAULT_WAIT_S


class ImageRef(Answer):
    """An image a job needs."""

    name: str | None = None
    hash: str
    bytes: int | None = Field(default=None, description="None: the hub does not hold it")


class Workspace(Answer):
    """Where a job's files come from: a packed folder the hub keeps, or a git commit."""

    hash: str | None = Field(default=None, description="BLAKE3 of the packed folder (tar, zstd)")
    bytes: int | None = None
    git: str | None = Field(default=None, description="URL to clone instead")
    commit: str | None = None


class Step(Answer):
    """One command of a job."""

    name: str
    run: str
    image: str | None = Field(default=None, description="hash, where the step names its own sandbox")
    env: dict[str, str] = {}


class AssignedJob(Answer):
    """All a runner must know to run the job."""

    id: int
    run: int
    project: str
    name: str
    attempt: int
    tier: str
    images: list[ImageRef] = []
    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None
    network: bool | None = Field(default=None, description="None: as the runner is set")
    timeout_s: int
    env: dict[str, str] = {}
    steps: list[Step]
    workspace: Workspace | None = None
    artifacts: list[str] = []
    reports: dict[str, list[str]] = {}
    keep: str | None = None


class Lease(Answer):
    """The right to work on one attempt; any accepted call renews it."""

    token: str
    ttl_s: float


class Assignment(Answer):
    """200 of POST /claim."""

    job: AssignedJob
    placed: str = Field(description="why it runs here, as every view shows it")
    lease: Lease


class Start(Request):
    """POST /jobs/{id}/start: the claim arrived; its image is being prepared, or it runs."""

    lease: Secret
    phase: Literal["preparing", "running"] = "running"


class Heartbeat(Request):
    """POST /jobs/{id}/heartbeat."""

    lease: Secret
    memory_mib: Mib | None = None
    disk_mib: Mib | None = None
    step: Annotated[int, Field(ge=0, le=1000)] | None = Field(
        default=None, description="index of the step, from 0"
    )


class Pulse(Answer):
    """The answer to whatever the runner sends of a job."""

    cancel: bool
    ttl_s: float


class StepResult(Request):
    """How one step ended."""

    name: Text
    exit_code: int | None = None
    duration_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


Outcome = Literal["succeeded", "failed", "timed_out", "canceled", "error"]
Short = Literal["memory", "disk"]  # what an attempt may have ended for want of


class Finish(Request):
    """POST /jobs/{id}/finish. `error`: the machinery failed, not the job (its image, its disk)."""

    lease: Secret
    outcome: Outcome
    exit_code: Annotated[int, Field(ge=-255, le=255)] | None = None
    error: Annotated[str, Field(max_length=4000)] | None = None
    short: Short | None = Field(default=None, description="it failed for want of this; None: not known to")
    peak_disk_mib: Mib | None = None
    peak_memory_mib: Mib | None = None
    log_bytes: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="length of the whole log; refused with 409 while the hub has less"
    )
    gone: bool = Field(
        default=False, description="nothing of it runs any more: its room is free, and a claim will follow"
    )
    steps: Annotated[list[StepResult], Field(max_length=1000)] = []


class GiveBack(Request):
    """POST /jobs/{id}/decline and /release."""

    lease: Secret
    reason: Annotated[str, Field(max_length=1000)] = ""


class LogOffset(Answer):
    """Bytes of the log that the hub now has, and whether the job is to stop."""

    offset: int
    cancel: bool = False


class Drain(Request):
    """POST /runner/drain: nothing more is offered to this runner until it claims as a new instance."""

    claim_id: Secret | None = Field(default=None, description="the poll it gave up, if one was open")
