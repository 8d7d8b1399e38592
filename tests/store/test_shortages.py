"""What a job ran out of: kept with the job, counted as a loss of nobody's, and learned from."""

from typing import Any

import pytest

from hub.store import history, runs, startup
from hub.store.endings import MAX_LOSSES
from hub.store.engine import Store
from tests.store.making import attempt_rows, claim, end, finish, job_row, submit

DISK = '[{"of":"disk","had_mib":4900,"asks_mib":6189,"runner":"earth-9"}]'


async def run_out(store: Store, job: int, number: int = 1, **given: Any) -> str:
    """An attempt fails for want of disk; the job's status then."""
    lease = await claim(store, job, number=number)
    plain = {"short": "disk", "shortages": DISK, "requeue": True, "error": "ran out", "exit_code": 1}
    ended = await finish(store, job, lease, given.pop("outcome", "failed"), **{**plain, **given})
    assert ended.state == "applied"
    return ended.changes[0].status


@pytest.mark.parametrize("outcome", ["failed", "error"])
async def test_a_job_that_ran_out_is_queued_again_and_keeps_of_what(store: Store, outcome: str) -> None:
    (job,) = await submit(store)
    assert await run_out(store, job, outcome=outcome, peak_disk_mib=4900) == "queued"
    row = await job_row(store, job)
    assert (row.status, row.losses, row.shortages) == ("queued", 1, DISK)
    assert (row.error, row.peak_disk_mib, row.finished_ms) == (None, None, None)
    (attempt,) = await attempt_rows(store, job)
    assert (attempt.ended, attempt.outcome, attempt.short) == ("finished", outcome, "disk")


async def test_what_a_job_ran_out_of_is_known_after_a_later_attempt_of_any_end(store: Store) -> None:
    (job,) = await submit(store)
    await run_out(store, job)
    await claim(store, job, number=2)
    await end(store, job, "released", number=2)
    lease = await claim(store, job, number=3)
    await finish(store, job, lease)
    row = await job_row(store, job)
    assert (row.status, row.shortages) == ("succeeded", DISK)


@pytest.mark.parametrize("outcome", ["failed", "error"])
async def test_a_job_that_may_not_try_again_ends_as_its_runner_said(store: Store, outcome: str) -> None:
    (job,) = await submit(store)
    assert await run_out(store, job, outcome=outcome, requeue=False) == outcome
    row = await job_row(store, job)
    assert (row.error, row.losses, row.shortages) == ("ran out", 1, DISK)


async def test_want_ends_a_job_after_as_many_attempts_as_any_other_loss(store: Store) -> None:
    (job,) = await submit(store)
    statuses = [await run_out(store, job, number) for number in range(1, MAX_LOSSES + 1)]
    assert statuses == ["queued"] * (MAX_LOSSES - 1) + ["failed"]


async def test_a_job_that_is_to_be_canceled_is_not_tried_again(store: Store) -> None:
    from hub.store import jobs

    (job,) = await submit(store)
    lease = await claim(store, job)
    await jobs.cancel_job(store.writer, job, now_ms=3000, start_ms=30_000)
    ended = await finish(store, job, lease, "failed", short="disk", shortages=DISK, requeue=True)
    assert ended.changes[0].status == "failed"


async def test_a_runner_on_which_a_job_ran_out_is_not_one_it_was_lost_on(store: Store) -> None:
    short, broken = await submit(store, {"a": (), "b": ()})
    await run_out(store, short, outcome="error")
    lease = await claim(store, broken)
    await finish(store, broken, lease, "error", requeue=True)
    async with store.read() as conn:
        loaded = await startup.load(conn, declines_since_ms=0)
    assert loaded.lost_on == {broken: frozenset({"earth-9"})}
    assert {row.id: row.shortages for row in loaded.jobs} == {short: DISK, broken: None}


async def test_the_error_of_lost_runners_tells_want_from_loss(store: Store) -> None:
    (job,) = await submit(store)
    await run_out(store, job)
    lease = await claim(store, job, number=2)
    await finish(store, job, lease, "error", requeue=True)
    await claim(store, job, number=3, runner="mars-1")
    await end(store, job, "lost", number=3)
    row = await job_row(store, job)
    assert row.status == "error"
    assert row.error == "the machinery failed once, it ran out of disk once, and 1 runner was lost (mars-1)"


async def test_a_job_run_again_by_a_person_begins_with_what_the_first_ran_out_of(store: Store) -> None:
    run = runs.NewRun(project="andy/demo", pipeline="version: 1", created_ms=1000)
    jobs = [runs.NewJob(name="a", spec="{}", shortages=DISK), runs.NewJob(name="b", spec="{}")]
    made = await runs.submit(store.writer, run, jobs)
    assert [(await job_row(store, job)).shortages for job in made.job_ids] == [DISK, None]


async def test_recent_runs_tell_what_they_ran_out_of_and_a_broken_machine_tells_nothing(store: Store) -> None:
    outcomes = [("failed", True), ("error", True), ("error", False), ("succeeded", False)]
    for number, (outcome, short) in enumerate(outcomes, start=1):
        (job,) = await submit(store)
        if short:
            await run_out(
                store, job, outcome=outcome, requeue=False, peak_disk_mib=number, now_ms=9000 + number
            )
        else:
            lease = await claim(store, job)
            await finish(store, job, lease, outcome, peak_disk_mib=number, now_ms=9000 + number)
    async with store.read() as conn:
        found = await history.recent(conn, project="andy/demo", name="build")
    told = [(row.peak_disk_mib, row.shortages, row.duration_ms) for row in found]
    assert told == [(4, None, 7004), (2, DISK, None), (1, DISK, 7001)]
