"""The first tables: runs, jobs, attempts, comparisons, declines, runners, tokens, artifacts, workspaces."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What this changes, and what becomes of the rows that are there."""
    op.create_table(
        "runners",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_reason", sa.Text(), nullable=False),
        sa.Column("offer", sa.Text(), nullable=True),
        sa.Column("instance", sa.String(), nullable=True),
        sa.Column("heard_ms", sa.BigInteger(), nullable=True),
        sa.Column("polled_ms", sa.BigInteger(), nullable=True),
        sa.Column("idle_memory_mib", sa.BigInteger(), nullable=True),
        sa.Column("broken_promises", sa.Integer(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sa.UniqueConstraint("token_hash"),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("title", sa.String(), nullable=True),
        sa.Column("ref", sa.String(), nullable=True),
        sa.Column("commit", sa.String(), nullable=True),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(), nullable=True),
        sa.Column("submitted_by", sa.String(), nullable=True),
        sa.Column("retry_of", sa.Integer(), nullable=True),
        sa.Column("pipeline", sa.Text(), nullable=False),
        sa.Column("workspace", sa.Text(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project", "key", name="runs_key"),
    )
    op.create_index("runs_by_project", "runs", ["project", "id"])
    op.create_index("runs_by_status", "runs", ["status", "id"])

    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("project", sa.String(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("used_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token_hash"),
    )
    op.create_table(
        "workspaces",
        sa.Column("hash", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash", "project"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("needs", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("runner", sa.String(), nullable=True),
        sa.Column("placed", sa.Text(), nullable=False),
        sa.Column("held_since_ms", sa.BigInteger(), nullable=True),
        sa.Column("held_for", sa.String(), nullable=True),
        sa.Column("waiting", sa.Text(), nullable=True),
        sa.Column("queued_ms", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.Column("cancel_ms", sa.BigInteger(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("shortages", sa.Text(), nullable=True),
        sa.Column("peak_memory_mib", sa.BigInteger(), nullable=True),
        sa.Column("peak_disk_mib", sa.BigInteger(), nullable=True),
        sa.Column("results", sa.Text(), nullable=True),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("run_id", "name", name="jobs_name"),
    )
    op.create_index("ix_jobs_run_id", "jobs", ["run_id"])
    op.create_index("jobs_history", "jobs", ["project", "name", "finished_ms"])
    op.create_index(
        "jobs_unfinished",
        "jobs",
        ["status", "id"],
        sqlite_where=sa.text("finished_ms IS NULL"),
        postgresql_where=sa.text("finished_ms IS NULL"),
    )

    op.create_table(
        "artifacts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "attempt", "path", name="artifacts_path"),
    )
    op.create_table(
        "comparisons",
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("job_id", "number"),
    )
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("runner", sa.String(), nullable=False),
        sa.Column("instance", sa.String(), nullable=True),
        sa.Column("claim_id", sa.String(), nullable=True),
        sa.Column("lease", sa.String(), nullable=False),
        sa.Column("placed", sa.Text(), nullable=False),
        sa.Column("assigned_ms", sa.BigInteger(), nullable=False),
        sa.Column("confirmed_ms", sa.BigInteger(), nullable=True),
        sa.Column("running_ms", sa.BigInteger(), nullable=True),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended", sa.String(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("short", sa.String(), nullable=True),
        sa.Column("memory_mib", sa.BigInteger(), nullable=True),
        sa.Column("disk_mib", sa.BigInteger(), nullable=True),
        sa.Column("step", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "number", name="attempts_number"),
    )
    op.create_index(
        "attempts_open",
        "attempts",
        ["runner"],
        sqlite_where=sa.text("ended_ms IS NULL"),
        postgresql_where=sa.text("ended_ms IS NULL"),
    )

    op.create_table(
        "declines",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Integer(), nullable=False),
        sa.Column("runner", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_declines_job_id", "declines", ["job_id"])


def downgrade() -> None:
    """The way back, for a copy: a hub refuses a schema newer than itself and never goes back."""
    for table in (
        "declines",
        "comparisons",
        "attempts",
        "artifacts",
        "jobs",
        "workspaces",
        "tokens",
        "runs",
        "runners",
    ):
        op.drop_table(table)
