"""The tables. One chain of migrations under `migrations/` makes them on SQLite and PostgreSQL.

The state machine of a job, written beside the column that holds it:

    blocked -> queued            every job it needs succeeded
    blocked -> skipped           a job it needs ended otherwise
    queued  -> assigned          a claim; a new row in `attempts`
    assigned -> preparing | running      the runner confirmed (`start`)
    preparing -> running
    assigned | preparing | running -> queued       not delivered, declined, released, or lost
    assigned | preparing | running -> canceling    a cancel; the runner is told in its next answer
    any open state -> one of FINAL, which never changes again

Every change is one UPDATE whose WHERE repeats the state it starts from.
"""

from sqlalchemy import BigInteger, Column, Index, Text, UniqueConstraint, text
from sqlmodel import Field, SQLModel

OPEN = ("assigned", "preparing", "running", "canceling")  # an attempt is out
UNFINISHED = ("blocked", "queued", *OPEN)


def _ms(*, nullable: bool = True) -> Column[int]:
    return Column(BigInteger, nullable=nullable)


class Run(SQLModel, table=True):
    """One submission of a pipeline."""

    __tablename__ = "runs"
    __table_args__ = (
        Index("runs_by_project", "project", "id"),
        Index("runs_by_status", "status", "id"),
        UniqueConstraint("project", "key", name="runs_key"),
    )

    id: int | None = Field(default=None, primary_key=True)
    project: str
    status: str = "queued"  # queued, running, succeeded, failed, canceled, error
    title: str | None = None
    ref: str | None = None
    commit: str | None = None
    priority: int = 0
    key: str | None = None  # chosen by the submitter: the same key gives the same run
    submitted_by: str | None = None
    retry_of: int | None = None  # the run whose jobs this one runs again
    pipeline: str = Field(sa_column=Column(Text, nullable=False))
    workspace: str | None = Field(default=None, sa_column=Column(Text))  # JSON of wire Workspace
    created_ms: int = Field(sa_column=_ms(nullable=False))
    finished_ms: int | None = Field(default=None, sa_column=_ms())


class Job(SQLModel, table=True):
    """One job of a run. `spec` is what was asked; the other columns are where it stands."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("run_id", "name", name="jobs_name"),
        # what a starting hub reads; final jobs, nearly all, are not in it
        Index(
            "jobs_unfinished",
            "status",
            "id",
            sqlite_where=text("finished_ms IS NULL"),
            postgresql_where=text("finished_ms IS NULL"),
        ),
        Index("jobs_history", "project", "name", "finished_ms"),
        Index("jobs_by_queued", "queued_ms"),  # for a day of the queue
    )

    id: int | None = Field(default=None, primary_key=True)
    run_id: int = Field(foreign_key="runs.id", index=True)
    position: int  # order within the run, from 0
    project: str
    name: str
    status: str
    spec: str = Field(sa_column=Column(Text, nullable=False))  # JSON of wire JobSpec, images resolved
    needs: str = Field(default="[]", sa_column=Column(Text, nullable=False))  # JSON list of job names
    priority: int = 0
    attempt: int = 0  # number of the newest attempt; 0: none yet
    losses: int = 0  # attempts lost with their runner, counted against MAX_LOSSES
    runner: str | None = None  # of the newest attempt, kept as text when the runner is removed
    placed: str = Field(default="", sa_column=Column(Text, nullable=False))
    held_since_ms: int | None = Field(default=None, sa_column=_ms())
    held_for: str | None = None
    waiting: str | None = Field(default=None, sa_column=Column(Text))  # JSON of wire Waiting, last known
    queued_ms: int | None = Field(
        default=None, sa_column=_ms()
    )  # since when it counts as queued; kept on requeue
    created_ms: int = Field(sa_column=_ms(nullable=False))
    started_ms: int | None = Field(default=None, sa_column=_ms())
    finished_ms: int | None = Field(default=None, sa_column=_ms())
    cancel_ms: int | None = Field(default=None, sa_column=_ms())  # when somebody asked for the cancel
    exit_code: int | None = None
    error: str | None = Field(default=None, sa_column=Column(Text))
    shortages: str | None = Field(default=None, sa_column=Column(Text))  # JSON list of wire Shortage
    peak_memory_mib: int | None = Field(default=None, sa_column=_ms())
    peak_disk_mib: int | None = Field(default=None, sa_column=_ms())
    results: str | None = Field(default=None, sa_column=Column(Text))  # JSON list of wire StepResult
    log_bytes: int = Field(
        default=0, sa_column=Column(BigInteger, nullable=False)
    )  # of the newest attempt, at its end


class Attempt(SQLModel, table=True):
    """One claim of a job by a runner. `lease` fences what is sent for it; open while `ended_ms` is None."""

    __tablename__ = "attempts"
    __table_args__ = (
        UniqueConstraint("job_id", "number", name="attempts_number"),
        Index(
            "attempts_open",
            "runner",
            sqlite_where=text("ended_ms IS NULL"),
            postgresql_where=text("ended_ms IS NULL"),
        ),
    )

    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="jobs.id")
    number: int
    runner: str  # its name as text: the runner may be removed later
    instance: str | None = None
    claim_id: str | None = None
    lease: str
    placed: str = Field(default="", sa_column=Column(Text, nullable=False))
    assigned_ms: int = Field(sa_column=_ms(nullable=False))
    confirmed_ms: int | None = Field(default=None, sa_column=_ms())  # `start` arrived
    running_ms: int | None = Field(default=None, sa_column=_ms())
    expires_ms: int = Field(
        sa_column=_ms(nullable=False)
    )  # end of the lease; renewed only by the runner's own calls
    ended_ms: int | None = Field(default=None, sa_column=_ms())
    ended: str | None = None  # finished, not delivered, declined, released, lost, runner removed, canceled
    reason: str = Field(default="", sa_column=Column(Text, nullable=False))
    outcome: str | None = None  # what `finish` said, kept so that the very same again is known
    exit_code: int | None = None
    short: str | None = None  # memory, disk: what it failed for want of, which is no fault of its runner
    memory_mib: int | None = Field(default=None, sa_column=_ms())  # last told by a heartbeat
    disk_mib: int | None = Field(default=None, sa_column=_ms())
    step: int | None = None


class Comparison(SQLModel, table=True):
    """The comparison behind an attempt's placement. Apart from the attempt, whose row is written often."""

    __tablename__ = "comparisons"

    job_id: int = Field(foreign_key="jobs.id", primary_key=True)
    number: int = Field(primary_key=True)
    body: str = Field(sa_column=Column(Text, nullable=False))  # JSON: `runners` (wire Considered) and `more`


class Decline(SQLModel, table=True):
    """A runner passed a job back for a reason of its own."""

    __tablename__ = "declines"

    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="jobs.id", index=True)
    runner: str
    reason: str = Field(sa_column=Column(Text, nullable=False))
    at_ms: int = Field(sa_column=_ms(nullable=False))


class Runner(SQLModel, table=True):
    """A registered runner: who it may serve, and what it last said."""

    __tablename__ = "runners"

    name: str = Field(primary_key=True)
    token_hash: str = Field(unique=True)
    labels: str = Field(
        default="[]", sa_column=Column(Text, nullable=False)
    )  # JSON: set by an admin, beside its own
    owner: str | None = None
    project: str | None = None
    state: str = "active"
    state_reason: str = Field(default="", sa_column=Column(Text, nullable=False))
    offer: str | None = Field(default=None, sa_column=Column(Text))  # JSON of wire Claim, as last recorded
    instance: str | None = None
    heard_ms: int | None = Field(default=None, sa_column=_ms())
    polled_ms: int | None = Field(default=None, sa_column=_ms())
    idle_memory_mib: int | None = Field(default=None, sa_column=_ms())
    broken_promises: int = 0
    created_ms: int = Field(sa_column=_ms(nullable=False))


class Token(SQLModel, table=True):
    """An API token; only the hash of its secret is kept."""

    __tablename__ = "tokens"

    id: int | None = Field(default=None, primary_key=True)
    name: str
    kind: str  # read, submit, images, admin
    token_hash: str = Field(unique=True)
    owner: str | None = None
    project: str | None = None
    created_ms: int = Field(sa_column=_ms(nullable=False))
    expires_ms: int | None = Field(default=None, sa_column=_ms())
    used_ms: int | None = Field(default=None, sa_column=_ms())


class Artifact(SQLModel, table=True):
    """A file that an attempt left. `path` is data; the bytes are the blob named by `hash`."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("job_id", "attempt", "path", name="artifacts_path"),)

    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="jobs.id")
    attempt: int
    path: str = Field(sa_column=Column(Text, nullable=False))
    bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    hash: str


class Workspace(SQLModel, table=True):
    """A packed folder that may be used by runs of one project."""

    __tablename__ = "workspaces"

    hash: str = Field(primary_key=True)
    project: str = Field(primary_key=True)
    bytes: int = Field(sa_column=Column(BigInteger, nullable=False))
    created_ms: int = Field(sa_column=_ms(nullable=False))
