"""Builders with plain defaults: a test states only what it is about."""

from typing import Any

from hub.store import attempts, runs
from hub.store.attempts import Claimed, Ended, Ending, How
from hub.store.engine import Store
from hub.store.rows import AttemptRow, JobRow, RunRow

LEASE_MS = 60_000


async def submit(store: Store, needs: dict[str, tuple[str, ...]] | None = None, **run: Any) -> list[int]:
    """A run of jobs with these names and needs (one job, "build", by default); their ids."""
    made = {"project": "andy/demo", "pipeline": "version: 1", "created_ms": 1000, **run}
    jobs = [
        runs.NewJob(name=name, spec="{}", needs=wanted) for name, wanted in (needs or {"build": ()}).items()
    ]
    return list((await runs.submit(store.writer, runs.NewRun(**made), jobs)).job_ids)


async def claim(
    store: Store,
    job: int,
    *,
    number: int = 1,
    runner: str = "earth-9",
    now_ms: int = 2000,
    confirm: bool = True,
) -> str:
    """`runner` takes the job, and by default runs it; the attempt's lease."""
    lease = f"lease-{job}-{number}"
    assert await attempts.claim(store.writer, claimed(job, number=number, runner=runner, now_ms=now_ms))
    if confirm:
        assert await start(store, job, lease, now_ms=now_ms) is not None
    return lease


def claimed(job: int, **given: Any) -> Claimed:
    """A claim."""
    row = {"number": 1, "runner": "earth-9", "instance": "i1", "claim_id": "c1", "placed": "idle", **given}
    now_ms = row.pop("now_ms", 2000)
    lease = row.pop("lease", f"lease-{job}-{row['number']}")
    expires_ms = row.pop("expires_ms", now_ms + LEASE_MS)
    comparison = row.pop("comparison", None)
    return Claimed(job=job, lease=lease, now_ms=now_ms, expires_ms=expires_ms, comparison=comparison, **row)


async def start(
    store: Store, job: int, lease: str, *, now_ms: int = 2000, phase: Any = "running"
) -> attempts.Beat | None:
    """The runner confirms."""
    confirmed = attempts.Confirmed(
        job=job, lease=lease, phase=phase, now_ms=now_ms, expires_ms=now_ms + LEASE_MS
    )
    return await attempts.confirm(store.writer, confirmed)


async def beat(store: Store, job: int, lease: str, *, now_ms: int, **figures: Any) -> attempts.Beat | None:
    """The runner sends a heartbeat."""
    beaten = attempts.Beaten(job=job, lease=lease, now_ms=now_ms, expires_ms=now_ms + LEASE_MS, **figures)
    return await attempts.beat(store.writer, beaten)


async def end(
    store: Store, job: int, how: How, *, number: int = 1, now_ms: int = 9000, **given: Any
) -> Ended:
    """An attempt ends."""
    return await attempts.end(store.writer, Ending(job=job, number=number, how=how, now_ms=now_ms, **given))


async def finish(store: Store, job: int, lease: str, outcome: str = "succeeded", **given: Any) -> Ended:
    """The runner says how the job ended."""
    number = int(lease.rsplit("-", 1)[1])
    given = {"exit_code": 0 if outcome == "succeeded" else 1, **given}
    return await end(store, job, "finished", number=number, lease=lease, outcome=outcome, **given)


async def job_row(store: Store, job: int) -> JobRow:
    """A job as it is stored."""
    async with store.read() as conn:
        row = await runs.job(conn, job)
    assert row is not None
    return row


async def run_row(store: Store, run: int) -> RunRow:
    """A run as it is stored."""
    async with store.read() as conn:
        row = await runs.get(conn, run)
    assert row is not None
    return row


async def attempt_rows(store: Store, job: int) -> list[AttemptRow]:
    """The attempts at a job, oldest first."""
    async with store.read() as conn:
        found = await runs.attempts_of(conn, [job])
    return list(found.get(job, []))


async def statuses(store: Store, jobs: list[int]) -> list[str]:
    """The statuses of jobs, in the order asked."""
    return [(await job_row(store, job)).status for job in jobs]
