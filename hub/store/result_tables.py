"""The table of what was read of test results and coverage: one row for each file of an attempt.

A row is written once, when its file arrives, while the attempt is open; the file itself is an artifact
like any other. `project`, `name` and `commit` are those of the job and its run, beside it so that the last
runs of a job are found by one index.
"""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Text, UniqueConstraint
from sqlmodel import Field, SQLModel


class Report(SQLModel, table=True):
    """One file of one attempt. `fault` None: it was read."""

    __tablename__ = "reports"
    __table_args__ = (
        UniqueConstraint("job_id", "attempt", "path", name="reports_path"),
        Index("reports_by_name", "project", "name", "job_id"),
    )

    id: int | None = Field(default=None, primary_key=True)
    job_id: int = Field(foreign_key="jobs.id")
    attempt: int
    path: str = Field(sa_column=Column(Text, nullable=False))
    kind: str  # junit, coverage
    project: str
    name: str
    commit: str | None = None
    fault: str | None = Field(default=None, sa_column=Column(Text))
    notes: str = Field(default="[]", sa_column=Column(Text, nullable=False))  # JSON list: what was left out
    total: int = 0  # tests
    failed: int = 0
    errors: int = 0
    skipped: int = 0
    duration_ms: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    lines: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))  # that could be covered
    covered: int = Field(default=0, sa_column=Column(BigInteger, nullable=False))
    body: str = Field(sa_column=Column(Text, nullable=False))  # JSON of wire ReportBody
    fell: str = Field(default="[]", sa_column=Column(Text, nullable=False))  # JSON list: tests that failed
    # Digests of the tests that passed, as `hub.reports.junit` makes them; taken away once no longer compared.
    passed: bytes | None = Field(default=None, sa_column=Column(LargeBinary, nullable=True))
