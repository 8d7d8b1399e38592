"""Runs, jobs and placement, as the API, the pages and the command line show them."""

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from hub.wire.base import Answer, Hash, Project, Request, Text, Time
from hub.wire.claim import ImageRef, Short, StepResult, Workspace
from hub.wire.results import TestCounts

JobStatus = Literal[
    "blocked", "queued", "assigned", "preparing", "running", "canceling",
    "succeeded", "failed", "canceled", "timed_out", "skipped", "error",
]  # fmt: skip
RunStatus = Literal["queued", "running", "succeeded", "failed", "canceled", "error"]
FINAL = frozenset({"succeeded", "failed", "canceled", "timed_out", "skipped", "error"})
WaitingKind = Literal["needs", "group", "none", "held", "turn", "busy", "silent", "nowhere"]


class WorkspaceRef(Request):
    """A packed folder sent before (PUT /workspaces/{hash}), or a git commit."""

    hash: Hash | None = None
    git: Annotated[str, Field(max_length=2000, pattern=r"^(https?|ssh|git|file)://\S+$")] | None = None
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")] | None = None


class Submit(Request):
    """POST /runs, and POST /preview."""

    project: Project
    pipeline: Annotated[str, Field(max_length=2**20)] = Field(description="the pipeline file's text, YAML")
    ref: Text | None = None
    commit: Text | None = None
    title: Text | None = None
    priority: Annotated[int, Field(ge=-100, le=100)] = 0
    workspace: WorkspaceRef | None = None
    key: Text | None = Field(default=None, description="makes a repeat safe: the same key gives the same run")


class Submitted(Answer):
    """201 of POST /runs."""

    id: int
    url: str


class Remedy(Answer):
    """What would mend a lack: in words, and as a change to apply."""

    text: str
    change: dict[str, Any]


class Lack(Answer):
    """One reason why one runner cannot take one job now."""

    code: str
    text: str
    lasting: bool
    remedy: Remedy | None = None


class RunnerLacks(Answer):
    """A runner and all that it lacks for a job, in the one order."""

    runner: str
    lacks: list[Lack]


class Waiting(Answer):
    """Why a job waits: exactly one kind."""

    kind: WaitingKind
    headline: str
    since: Time | None = Field(default=None, description="since when this reason has held")
    as_of: Time | None = Field(default=None, description="when it was worked out")
    runners: list[RunnerLacks] = []
    more: int = Field(
        default=0, description="runners counted, not named: beyond the bound or the reader's reach"
    )
    mend: list[Remedy] = Field(
        default=[], description="nowhere: the fewest changes that, all made, let one runner take it"
    )


class Considered(Answer):
    """One runner as it was looked at when a job was placed."""

    runner: str
    rank: list[int] = Field(default=[], description="compared from left to right; more is better")
    holds_images: bool | None = None
    speed_class: int | None = None
    free_slots: int | None = None
    load1: float | None = None
    facts_age_s: float | None = Field(default=None, description="since the claim that told these")
    waiting: bool = Field(default=False, description="its claim was open")
    chosen: bool = False
    lacks: list[Lack] = []
    margin: str | None = Field(default=None, description="by what the chosen one was ahead of this one")


class Comparison(Answer):
    """GET /jobs/{id}/placement: all behind `placed`, or behind `waiting`."""

    job: int
    placed: str = ""
    runner: str | None = None
    decided_at: Time | None = None
    runners: list[Considered] = []
    more: int = 0
    margin: str | None = Field(default=None, description="by what the chosen one was ahead of the next")
    waited: str | None = Field(default=None, description="what it was held for; null: it was not held")
    wait_paid: bool | None = Field(default=None, description="the one it was held for took it")
    waiting: Waiting | None = None


class AttemptView(Answer):
    """One attempt at a job. `ended`: `finished`, `declined`, `released`, `not delivered`, `lost`, …"""

    number: int
    runner: str
    placed: str = ""
    assigned_at: Time
    started_at: Time | None = None
    ended_at: Time | None = None
    ended: str | None = None
    reason: str = ""


class Shortage(Answer):
    """An attempt at the job ended for want of memory or disk: the job asks for more since then."""

    of: Short
    had_mib: int = Field(description="memory: what it could have; disk: what it had taken")
    asks_mib: int = Field(description="since then, in place of what the pipeline asks")
    runner: str = Field(description="on which it ran out")


SHORTAGES = TypeAdapter(list[Shortage])  # the JSON list that the store keeps of a job


class JobView(Answer):
    """A job, as every view shows it."""

    id: int
    run: int
    project: str
    name: str
    status: JobStatus
    attempt: int = 0
    runner: str | None = None
    placed: str = ""
    exit_code: int | None = None
    error: str | None = None
    queued_at: Time | None = None
    held_at: Time | None = Field(default=None, description="since when it was held for a better runner")
    held_until: Time | None = Field(default=None, description="when a hold that began is over at the latest")
    started_at: Time | None = None
    finished_at: Time | None = None
    needs: list[str] = []
    tier: str = ""
    arch: str | None = None
    labels: list[str] = []
    images: list[ImageRef] = []
    memory_mib: int | None = None
    cpus: int | None = None
    disk_mib: int | None = None
    timeout_s: int | None = None
    peak_memory_mib: int | None = None
    peak_disk_mib: int | None = None
    recent_memory_peak_mib: int | None = Field(
        default=None, description="the most of the last five runs of this job; shown, does not gate"
    )
    recent_disk_peak_mib: int | None = Field(
        default=None, description="the most of the last five runs of this job; what it needs is learned of it"
    )
    shortages: list[Shortage] = Field(
        default=[], description="what it has run out of, and what it asks since"
    )
    takes: str = Field(default="", description="memory and disk in words, as every view shows them")
    step: int | None = Field(default=None, description="index of the step that runs, from 0")
    steps: list[str] = []
    results: list[StepResult] = []
    log_bytes: int = 0
    tests: TestCounts | None = Field(default=None, description="of the newest attempt; null: it left none")
    coverage: float | None = Field(default=None, description="of its lines, from 0 to 1; null: it left none")
    waiting: Waiting | None = None
    attempts: list[AttemptView] = []


class RunView(Answer):
    """A run; `jobs` only where one run is asked for."""

    id: int
    project: str
    status: RunStatus
    title: str | None = None
    ref: str | None = None
    commit: str | None = None
    priority: int = 0
    submitted_by: str | None = None
    retry_of: int | None = None
    workspace: Workspace | None = None
    created_at: Time
    finished_at: Time | None = None
    jobs_total: int = 0
    jobs_done: int = 0
    jobs: list[JobView] = []


class RunList(Answer):
    """GET /runs, newest first. `next`: pass it as `before` for the next page; None: no more."""

    runs: list[RunView]
    next: int | None = None


class Artifact(Answer):
    """One file a job left. `path` is data, as the job named it; never a path on the hub."""

    path: str
    bytes: int
    hash: str


class ArtifactList(Answer):
    """GET /jobs/{id}/artifacts: of the newest attempt."""

    artifacts: list[Artifact]


class PreviewJob(Answer):
    """Where one job of a pipeline would go now."""

    name: str
    runner: str | None = Field(default=None, description="who would take it now; None: nobody, see `waiting`")
    placed: str = ""
    waiting: Waiting | None = None
    runners: list[RunnerLacks] = Field(default=[], description="every other runner and what it lacks")
    more: int = 0


class Preview(Answer):
    """POST /preview: nothing is queued."""

    jobs: list[PreviewJob]
