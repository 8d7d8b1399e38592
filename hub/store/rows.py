"""What the store hands out: one frozen value per row read.

Columns keep their names, times are milliseconds since 1970, JSON stays text. None means "not yet"
or "not reported", never 0. A row is a copy: changing the database is for the operations only.
"""

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from sqlalchemy import Row

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A job that an operation moved, and the status it has now."""

    job: int
    run: int
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run, with how many jobs it has and how many of them are final."""

    id: int
    project: str
    status: str
    title: str | None
    ref: str | None
    commit: str | None
    priority: int
    key: str | None
    submitted_by: str | None
    retry_of: int | None
    pipeline: str  # the file's text; "" in a listing, where a page of them could be 200 MiB
    workspace: str | None  # JSON of wire Workspace
    created_ms: int
    finished_ms: int | None
    jobs_total: int
    jobs_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job: what was asked (`spec`, JSON of wire JobSpec) and where it stands."""

    id: int
    run_id: int
    position: int
    project: str
    name: str
    status: str
    spec: str
    needs: str  # JSON list of job names
    priority: int
    attempt: int
    losses: int
    runner: str | None
    placed: str
    held_since_ms: int | None
    held_for: str | None
    waiting: str | None  # JSON of wire Waiting
    queued_ms: int | None
    created_ms: int
    started_ms: int | None
    finished_ms: int | None
    cancel_ms: int | None
    exit_code: int | None
    error: str | None
    shortages: str | None  # JSON list of wire Shortage: what it has run out of so far, and where
    peak_memory_mib: int | None
    peak_disk_mib: int | None
    results: str | None  # JSON list of wire StepResult
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRow:
    """An attempt. Its comparison stands apart: see `runs.comparison`."""

    id: int
    job_id: int
    number: int
    runner: str
    instance: str | None
    claim_id: str | None
    lease: str
    placed: str
    assigned_ms: int
    confirmed_ms: int | None
    running_ms: int | None
    expires_ms: int
    ended_ms: int | None
    ended: str | None
    reason: str
    outcome: str | None
    exit_code: int | None
    short: str | None
    memory_mib: int | None
    disk_mib: int | None
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclineRow:
    """A runner passed a job back."""

    job_id: int
    runner: str
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerRow:
    """A registered runner, and what it last said. `labels`: JSON list, `offer`: JSON of wire Claim."""

    name: str
    token_hash: str
    labels: str
    owner: str | None
    project: str | None
    state: str
    state_reason: str
    offer: str | None
    instance: str | None
    heard_ms: int | None
    polled_ms: int | None
    idle_memory_mib: int | None
    broken_promises: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """An API token."""

    id: int
    name: str
    kind: str
    token_hash: str
    owner: str | None
    project: str | None
    created_ms: int
    expires_ms: int | None
    used_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRow:
    """A file that an attempt left."""

    job_id: int
    attempt: int
    path: str
    bytes: int
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceRow:
    """A packed folder that runs of one project may use."""

    hash: str
    project: str
    bytes: int
    created_ms: int


def columns(kind: type[Any], table: str, *, without: tuple[str, ...] = ()) -> str:
    """The columns of a kind of row, to stand behind SELECT. `table` is its name or alias in the query."""
    return ", ".join(f'{table}."{field.name}"' for field in fields(kind) if field.name not in without)


def read(kind: type[T], row: Row[Any]) -> T:
    """`row`, whose columns have the names of the fields of `kind`."""
    return kind(**row._mapping)
