"""Holds, waiting reasons, cancels, and the ends that no runner brought about."""

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from hub.store import jobs as job_store
from hub.store import startup
from hub.store.attempts import Beat, How
from hub.store.engine import Store
from hub.store.jobs import Held, Waited
from tests.store.making import (
    LEASE_MS,
    attempt_rows,
    beat,
    claim,
    end,
    finish,
    job_row,
    run_row,
    start,
    statuses,
    submit,
)

START_MS = 30_000


async def test_a_hold_is_timed_from_the_first_pass_whoever_is_awaited(store: Store) -> None:
    (job,) = await submit(store)
    assert await job_store.hold(store.writer, Held(job=job, since_ms=1500, awaited="mars-1"))
    assert await job_store.hold(store.writer, Held(job=job, since_ms=4000, awaited="mars-2"))
    row = await job_row(store, job)
    assert (row.held_since_ms, row.held_for) == (1500, "mars-2")
    assert await job_store.hold(store.writer, Held(job=job, since_ms=1500, awaited=None))
    row = await job_row(store, job)
    assert (row.held_since_ms, row.held_for) == (1500, None)


async def test_a_hold_that_comes_after_the_claim_changes_nothing(store: Store) -> None:
    (job,) = await submit(store)
    await claim(store, job)
    assert not await job_store.hold(store.writer, Held(job=job, since_ms=1500, awaited="mars-1"))
    row = await job_row(store, job)
    assert (row.status, row.held_since_ms, row.held_for) == ("running", None, None)


async def test_holds_of_one_job_that_gather_keep_their_order(store: Store) -> None:
    (job,) = await submit(store)
    names = [f"r{number}" for number in range(30)]
    await asyncio.gather(
        *(job_store.hold(store.writer, Held(job=job, since_ms=1500, awaited=name)) for name in names)
    )
    assert (await job_row(store, job)).held_for == "r29"


async def test_a_waiting_reason_is_kept_for_jobs_that_wait_and_forgotten_with_the_claim(store: Store) -> None:
    first, second, third = await submit(store, {"a": (), "b": ("a",), "c": ()})
    await claim(store, third)
    rows = [Waited(job=job, waiting=f'{{"kind": "{job}"}}') for job in (first, second, third)]
    await job_store.save_waiting(store.writer, rows)
    kept = [(await job_row(store, job)).waiting for job in (first, second, third)]
    assert kept == [f'{{"kind": "{first}"}}', f'{{"kind": "{second}"}}', None]
    await claim(store, first)
    assert (await job_row(store, first)).waiting is None


async def test_more_waiting_reasons_than_one_statement_takes_are_all_kept(store: Store) -> None:
    (job,) = await submit(store)
    rows = [Waited(job=job, waiting=str(number)) for number in range(1201)]
    await job_store.save_waiting(store.writer, rows[:0])
    await job_store.save_waiting(store.writer, [*rows[:1200], Waited(job=job, waiting="last")][-501:])
    assert (await job_row(store, job)).waiting == "last"


async def test_a_canceled_run_ends_what_waits_and_asks_what_runs(store: Store) -> None:
    jobs = await submit(store, {"runs": (), "waits": (), "blocked": ("runs",), "done": ()})
    await finish(store, jobs[3], await claim(store, jobs[3]))
    lease = await claim(store, jobs[0])
    changes = await job_store.cancel_run(store.writer, 1, now_ms=5000, start_ms=START_MS)
    assert {change.job: change.status for change in changes} == {
        jobs[0]: "canceling",
        jobs[1]: "canceled",
        jobs[2]: "canceled",
    }
    assert await statuses(store, jobs) == ["canceling", "canceled", "canceled", "succeeded"]
    assert (await run_row(store, 1)).status == "running"
    assert await beat(store, jobs[0], lease, now_ms=6000) == Beat(cancel=True, number=1)
    ended = await finish(store, jobs[0], lease, "canceled", now_ms=7000)
    assert ended.run_status == "canceled"
    assert (await run_row(store, 1)).finished_ms == 7000


async def test_a_cancel_again_changes_nothing(store: Store) -> None:
    (job,) = await submit(store)
    await claim(store, job)
    assert len(await job_store.cancel_job(store.writer, job, now_ms=5000, start_ms=START_MS)) == 1
    assert await job_store.cancel_job(store.writer, job, now_ms=6000, start_ms=START_MS) == ()
    assert (await job_row(store, job)).cancel_ms == 5000
    assert await job_store.cancel_job(store.writer, 999_999, now_ms=6000, start_ms=START_MS) == ()


async def test_a_cancel_of_one_job_reaches_those_that_need_it_and_no_others(store: Store) -> None:
    jobs = await submit(store, {"a": (), "after": ("a",), "other": ()})
    changes = await job_store.cancel_job(store.writer, jobs[0], now_ms=5000, start_ms=START_MS)
    assert {change.job: change.status for change in changes} == {jobs[0]: "canceled", jobs[1]: "skipped"}
    assert await statuses(store, jobs) == ["canceled", "skipped", "queued"]
    assert (await run_row(store, 1)).status == "queued"


async def test_a_cancel_leaves_when_the_runner_was_last_heard_of_alone(store: Store) -> None:
    """Field bug B36: the attempt ends when its lease ran out as its runner renewed it, not later."""
    (job,) = await submit(store)
    await claim(store, job, now_ms=2000)
    (before,) = await attempt_rows(store, job)
    await job_store.cancel_job(store.writer, job, now_ms=30_000, start_ms=START_MS)
    (after,) = await attempt_rows(store, job)
    assert after == before
    ended = await end(store, job, "lost", now_ms=2000 + LEASE_MS, horizon_ms=2000 + LEASE_MS)
    assert [change.status for change in ended.changes] == ["canceled"]
    assert (await job_row(store, job)).losses == 0


async def test_a_cancel_of_a_job_whose_runner_is_silent_ends_it_at_once(store: Store) -> None:
    """Field bug B36."""
    jobs = await submit(store, {"silent": (), "never": (), "young": ()})
    lease = await claim(store, jobs[0], now_ms=2000)
    await claim(store, jobs[1], now_ms=2000, confirm=False)
    now_ms = 2000 + LEASE_MS
    young = await claim(store, jobs[2], now_ms=now_ms - 1, confirm=False)
    await job_store.cancel_run(store.writer, 1, now_ms=now_ms, start_ms=START_MS)
    assert await statuses(store, jobs) == ["canceled", "canceled", "canceling"]
    reasons = [(await attempt_rows(store, job))[0].reason for job in jobs]
    assert reasons == ["its runner was already silent", "its claim was not confirmed", ""]
    assert await beat(store, jobs[0], lease, now_ms=now_ms + 1) is None
    assert await start(store, jobs[2], young, now_ms=now_ms + 1) == Beat(cancel=True, number=1)
    assert (await job_row(store, jobs[2])).status == "canceling"


@pytest.mark.parametrize("how", ["declined", "released", "not delivered", "lost"])
async def test_a_job_to_be_canceled_is_not_queued_again(store: Store, how: How) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job, confirm=False)
    await job_store.cancel_job(store.writer, job, now_ms=3000, start_ms=START_MS)
    told = lease if how in ("declined", "released") else None
    ended = await end(store, job, how, now_ms=4000, lease=told)
    assert [(change.job, change.status) for change in ended.changes] == [(job, "canceled")]
    assert ended.run_status == "canceled"


async def test_a_finish_that_meets_a_cancel_tells_what_really_happened(store: Store) -> None:
    jobs = await submit(store, {f"j{number}": () for number in range(40)})
    leases = [await claim(store, job) for job in jobs]
    await asyncio.gather(
        *(
            one
            for job, lease in zip(jobs, leases, strict=True)
            for one in (
                finish(store, job, lease, now_ms=5000),
                job_store.cancel_job(store.writer, job, now_ms=5000, start_ms=START_MS),
            )
        )
    )
    assert set(await statuses(store, jobs)) == {"succeeded"}


async def test_an_error_of_the_machinery_during_a_cancel_is_a_cancel(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    await job_store.cancel_job(store.writer, job, now_ms=3000, start_ms=START_MS)
    await finish(store, job, lease, "error", requeue=True, error="killed")
    assert (await job_row(store, job)).status == "canceled"


async def test_a_job_that_cannot_run_ends_in_error_once(store: Store) -> None:
    """Field bug B13, its rows; and a job that no runner took for a day."""
    jobs = await submit(store, {"a": (), "after": ("a",)})
    changes = await job_store.fail_queued(
        store.writer, job=jobs[0], attempt=0, error="the job is not valid", now_ms=5000
    )
    assert {change.job: change.status for change in changes} == {jobs[0]: "error", jobs[1]: "skipped"}
    row = await job_row(store, jobs[0])
    assert (row.status, row.error, row.finished_ms) == ("error", "the job is not valid", 5000)
    assert (await run_row(store, 1)).status == "error"
    again = await job_store.fail_queued(store.writer, job=jobs[0], attempt=0, error="again", now_ms=6000)
    assert again == ()
    assert (await job_row(store, jobs[0])).error == "the job is not valid"


async def test_a_job_that_was_taken_in_the_meantime_is_not_failed(store: Store) -> None:
    (job,) = await submit(store)
    await claim(store, job)
    assert await job_store.fail_queued(store.writer, job=job, attempt=0, error="x", now_ms=5000) == ()
    await end(store, job, "released", lease=f"lease-{job}-1")
    assert await job_store.fail_queued(store.writer, job=job, attempt=0, error="x", now_ms=5000) == ()
    assert (await job_row(store, job)).status == "queued"


async def test_a_job_whose_run_is_gone_fails_alone(store: Store, url: str) -> None:
    """Field bug B13: somebody deleted the run's row behind the hub's back."""
    (orphan,) = await submit(store)
    (good,) = await submit(store)
    await _behind_its_back(url, "DELETE FROM runs WHERE id = 1")
    changes = await job_store.fail_queued(store.writer, job=orphan, attempt=0, error="no run", now_ms=5000)
    assert [change.status for change in changes] == ["error"]
    ended = await finish(store, good, await claim(store, good))
    assert ended.run_status == "succeeded"
    async with store.read() as conn:
        loaded = await startup.load(conn, declines_since_ms=0)
    assert loaded.jobs == ()


async def _behind_its_back(url: str, statement: str) -> None:
    """Run `statement` from another process's point of view, with no regard for foreign keys."""
    engine = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"), poolclass=NullPool)
    async with engine.begin() as conn:
        if conn.dialect.name == "postgresql":
            await conn.execute(text("SET session_replication_role = replica"))
        await conn.execute(text(statement))
    await engine.dispose()
