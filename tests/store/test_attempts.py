"""An attempt from its claim to its end: each change is one compare-and-set, and one of two wins."""

import asyncio
import random

import pytest

from hub.store import attempts, runs
from hub.store import jobs as job_store
from hub.store.engine import Store
from tests.store.making import (
    LEASE_MS,
    attempt_rows,
    beat,
    claim,
    claimed,
    end,
    finish,
    job_row,
    run_row,
    start,
    submit,
)


async def test_a_claim_assigns_the_job_and_keeps_why(store: Store) -> None:
    (job,) = await submit(store)
    row = claimed(job, placed="holds the image, idle", comparison='[{"runner": "earth-9"}]')
    assert await attempts.claim(store.writer, row)
    stored = await job_row(store, job)
    assert (stored.status, stored.attempt, stored.runner) == ("assigned", 1, "earth-9")
    assert stored.placed == "holds the image, idle"
    (attempt,) = await attempt_rows(store, job)
    assert (attempt.number, attempt.lease, attempt.claim_id) == (1, f"lease-{job}-1", "c1")
    assert (attempt.assigned_ms, attempt.expires_ms, attempt.confirmed_ms) == (2000, 2000 + LEASE_MS, None)


async def test_of_many_claims_for_one_job_exactly_one_wins(store: Store) -> None:
    (job,) = await submit(store)
    rows = [claimed(job, runner=f"r{number}", lease=f"lease-{number}-1") for number in range(20)]
    won = await asyncio.gather(*(attempts.claim(store.writer, row) for row in rows))
    assert sum(won) == 1
    (attempt,) = await attempt_rows(store, job)
    assert attempt.runner == f"r{won.index(True)}"


async def test_a_claim_with_an_old_number_or_of_a_job_that_is_not_queued_is_refused(store: Store) -> None:
    first, second = await submit(store, {"a": (), "b": ("a",)})
    assert not await attempts.claim(store.writer, claimed(first, number=2))
    assert not await attempts.claim(store.writer, claimed(second))
    assert not await attempts.claim(store.writer, claimed(999_999))
    assert await attempt_rows(store, first) == []


async def test_a_job_starts_when_its_runner_says_that_it_runs(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job, confirm=False)
    assert (await run_row(store, 1)).status == "queued"
    assert await start(store, job, lease, phase="preparing", now_ms=3000) == attempts.Beat(
        cancel=False, number=1
    )
    row = await job_row(store, job)
    assert (row.status, row.started_ms) == ("preparing", None)
    assert (await run_row(store, 1)).status == "running"
    await start(store, job, lease, phase="running", now_ms=7000)
    await start(store, job, lease, phase="preparing", now_ms=8000)  # an answer was lost: it tells it again
    row = await job_row(store, job)
    assert (row.status, row.started_ms) == ("running", 7000)
    (attempt,) = await attempt_rows(store, job)
    assert (attempt.confirmed_ms, attempt.running_ms) == (3000, 7000)


async def test_a_heartbeat_renews_the_lease_and_keeps_what_it_does_not_tell(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    await beat(store, job, lease, now_ms=10_000, memory_mib=512, disk_mib=40, step=1)
    await beat(store, job, lease, now_ms=20_000)
    (attempt,) = await attempt_rows(store, job)
    assert (attempt.memory_mib, attempt.disk_mib, attempt.step) == (512, 40, 1)
    assert attempt.expires_ms == 20_000 + LEASE_MS
    await beat(store, job, lease, now_ms=15_000)  # overtaken on its way
    (attempt,) = await attempt_rows(store, job)
    assert attempt.expires_ms == 20_000 + LEASE_MS


async def test_a_finish_makes_the_job_final_with_all_that_was_told(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    ended = await finish(
        store,
        job,
        lease,
        "failed",
        exit_code=2,
        error="make: *** [all] Error 2",
        peak_memory_mib=900,
        peak_disk_mib=77,
        results='[{"name":"make"}]',
        log_bytes=1234,
    )
    assert ended.state == "applied"
    assert [(change.job, change.status) for change in ended.changes] == [(job, "failed")]
    assert ended.run_status == "failed"
    row = await job_row(store, job)
    assert (row.status, row.exit_code, row.error) == ("failed", 2, "make: *** [all] Error 2")
    assert (row.peak_memory_mib, row.peak_disk_mib, row.log_bytes) == (900, 77, 1234)
    assert (row.results, row.finished_ms, row.runner) == ('[{"name":"make"}]', 9000, "earth-9")
    assert (await run_row(store, 1)).finished_ms == 9000


async def test_the_very_same_finish_again_is_known_and_another_is_refused(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    assert (await finish(store, job, lease, "succeeded")).state == "applied"
    assert (await finish(store, job, lease, "succeeded")).state == "repeated"
    assert (await finish(store, job, lease, "failed")).state == "over"
    assert (await job_row(store, job)).status == "succeeded"


async def test_two_finishes_at_once_are_one(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    ended = await asyncio.gather(*(finish(store, job, lease) for _ in range(5)))
    assert [one.state for one in ended] == ["applied", *["repeated"] * 4]


async def test_what_an_ended_attempt_still_sends_changes_nothing(store: Store) -> None:
    """Field bug B04: the same runner stalls, loses the job, takes it again, and wakes up."""
    (job,) = await submit(store)
    old = await claim(store, job, runner="earth-9")
    assert (await end(store, job, "lost", now_ms=70_000, horizon_ms=70_000)).state == "applied"
    new = await claim(store, job, number=2, runner="earth-9", now_ms=71_000)
    before = await job_row(store, job), await attempt_rows(store, job)
    assert await beat(store, job, old, now_ms=80_000, memory_mib=1) is None
    assert await start(store, job, old, now_ms=80_000) is None
    assert (await finish(store, job, old, now_ms=80_000)).state == "over"
    released = await end(store, job, "released", number=1, lease=old, now_ms=80_000)
    crossed = await end(store, job, "released", number=2, lease=old, now_ms=80_000)
    assert (released.state, crossed.state) == ("over", "over")
    assert (await job_row(store, job), await attempt_rows(store, job)) == before
    assert (await finish(store, job, new, "succeeded", now_ms=81_000)).state == "applied"


async def test_a_sweep_takes_only_what_still_is_as_it_was_read(store: Store) -> None:
    """Field bug B05: between its read and its write, others finish, give back, claim and renew."""
    jobs = await submit(store, {f"j{number}": () for number in range(50)})
    leases = [await claim(store, job) for job in jobs]
    sweep_ms = 2000 + LEASE_MS
    await finish(store, jobs[0], leases[0])
    await end(store, jobs[1], "released", lease=leases[1])
    await end(store, jobs[2], "released", lease=leases[2])
    await claim(store, jobs[2], number=2, runner="mars-1")
    await beat(store, jobs[3], leases[3], now_ms=sweep_ms)
    swept = await asyncio.gather(
        *(end(store, job, "lost", now_ms=sweep_ms, horizon_ms=sweep_ms) for job in jobs)
    )
    rows = [await job_row(store, job) for job in jobs]
    assert [row.status for row in rows[:4]] == ["succeeded", "queued", "running", "running"]
    assert [(row.runner, row.attempt) for row in rows[2:4]] == [("mars-1", 2), ("earth-9", 1)]
    assert [one.state for one in swept] == ["over"] * 4 + ["applied"] * 46
    assert {row.status for row in rows[4:]} == {"queued"}
    assert [row.losses for row in rows] == [0] * 4 + [1] * 46


async def test_a_claim_that_nobody_confirmed_is_undone_and_costs_nothing(store: Store) -> None:
    """Field bug B01, its rows."""
    (job,) = await submit(store)
    lease = await claim(store, job, confirm=False)
    ended = await end(store, job, "not delivered", now_ms=32_000, reason="earth-9's claim was not confirmed")
    assert [(change.job, change.status) for change in ended.changes] == [(job, "queued")]
    row = await job_row(store, job)
    assert (row.status, row.losses, row.queued_ms, row.attempt) == ("queued", 0, 1000, 1)
    assert (row.runner, row.placed) == (None, "")
    (attempt,) = await attempt_rows(store, job)
    assert (attempt.ended, attempt.reason) == ("not delivered", "earth-9's claim was not confirmed")
    assert await start(store, job, lease, now_ms=33_000) is None


async def test_a_confirmed_attempt_is_not_undone_as_not_delivered(store: Store) -> None:
    (job,) = await submit(store)
    await claim(store, job)
    assert (await end(store, job, "not delivered")).state == "over"
    assert (await job_row(store, job)).status == "running"


@pytest.mark.parametrize("how", ["declined", "released"])
async def test_a_job_given_back_keeps_its_place_its_hold_and_its_budget(
    store: Store, how: attempts.How
) -> None:
    (job,) = await submit(store)
    await job_store.hold(store.writer, job_store.Held(job=job, since_ms=1500, awaited="mars-1"))
    lease = await claim(store, job)
    assert (await end(store, job, how, lease=lease, reason="no space left")).state == "applied"
    row = await job_row(store, job)
    assert (row.status, row.queued_ms, row.held_since_ms, row.held_for, row.losses) == (
        "queued",
        1000,
        1500,
        None,
        0,
    )
    assert row.started_ms is None


async def test_a_job_that_kills_its_runners_ends_after_the_third(store: Store) -> None:
    """Field bug B08: the count is in the database, not in the process that dies."""
    (job,) = await submit(store)
    for number, runner in enumerate("ABC", start=1):
        lease = await claim(store, job, number=number, runner=runner)
        await beat(store, job, lease, now_ms=3000, memory_mib=1000 * number)
        ended = await end(store, job, "lost", number=number, now_ms=70_000)
        assert ended.state == "applied"
    row = await job_row(store, job)
    assert (row.status, row.losses) == ("error", 3)
    assert row.error == "its runner was lost 3 times (A, B, C); it last took 3000 MiB of memory"
    assert (await run_row(store, 1)).status == "error"


async def test_a_lost_attempt_gives_the_job_a_new_hold(store: Store) -> None:
    (job,) = await submit(store)
    await job_store.hold(store.writer, job_store.Held(job=job, since_ms=1500, awaited="mars-1"))
    await claim(store, job)
    await end(store, job, "lost")
    row = await job_row(store, job)
    assert (row.status, row.losses, row.held_since_ms) == ("queued", 1, None)


async def test_a_failure_of_the_machinery_is_tried_again_while_it_may_be(store: Store) -> None:
    (job,) = await submit(store)
    for number in (1, 2):
        lease = await claim(store, job, number=number)
        ended = await finish(store, job, lease, "error", requeue=True, error="no space for the image")
        assert [change.status for change in ended.changes] == ["queued"]
    first, _ = await attempt_rows(store, job)
    assert (first.ended, first.outcome, first.reason) == ("finished", "error", "no space for the image")
    assert (await finish(store, job, f"lease-{job}-1", "error", requeue=True)).state == "repeated"
    lease = await claim(store, job, number=3)
    await finish(store, job, lease, "error", requeue=True, error="no space for the image")
    row = await job_row(store, job)
    assert (row.status, row.losses, row.error) == ("error", 3, "no space for the image")


async def test_losses_of_both_kinds_share_one_budget_and_are_told_apart(store: Store) -> None:
    (job,) = await submit(store)
    await finish(store, job, await claim(store, job, runner="A"), "error", requeue=True)
    for number, runner in ((2, "B"), (3, "C")):
        await claim(store, job, number=number, runner=runner)
        await end(store, job, "lost", number=number)
    row = await job_row(store, job)
    assert row.error == "the machinery failed once, and 2 runners were lost (B, C)"


async def test_expiry_and_renewal_race_and_exactly_one_wins_each_time(store: Store) -> None:
    """Field bug A20."""
    order = random.Random(20)
    rounds = 450
    jobs = await submit(store, {f"j{number}": () for number in range(rounds)})
    await asyncio.gather(*(claim(store, job) for job in jobs))
    horizon_ms = 2000 + LEASE_MS

    async def race(job: int) -> tuple[bool, bool]:
        renewal = beat(store, job, f"lease-{job}-1", now_ms=horizon_ms)
        expiry = end(store, job, "lost", now_ms=horizon_ms, horizon_ms=horizon_ms)
        if order.random() < 0.5:
            beaten, ended = await asyncio.gather(renewal, expiry)
        else:
            ended, beaten = await asyncio.gather(expiry, renewal)
        return beaten is not None, ended.state == "applied"

    results = await asyncio.gather(*(race(job) for job in jobs))
    assert all(renewed != expired for renewed, expired in results)
    assert {renewed for renewed, _ in results} == {True, False}
    async with store.read() as conn:
        rows = await runs.jobs_of(conn, 1)
    assert [row.status == "running" for row in rows] == [renewed for renewed, _ in results]


async def test_an_end_of_an_attempt_that_never_was_is_over(store: Store) -> None:
    (job,) = await submit(store)
    assert (await end(store, job, "lost")).state == "over"
    assert (await end(store, 999_999, "lost")).state == "over"


async def test_an_attempt_is_found_by_its_lease_after_its_end(store: Store) -> None:
    (job,) = await submit(store)
    lease = await claim(store, job)
    await finish(store, job, lease)
    async with store.read() as conn:
        found = await attempts.by_lease(conn, job, lease)
        missing = await attempts.by_lease(conn, job, "guessed")
    assert found is not None
    assert (found.runner, found.outcome) == ("earth-9", "succeeded")
    assert missing is None


async def test_a_text_that_a_database_cannot_keep_does_not_spoil_the_batch(store: Store) -> None:
    first, second = await submit(store, {"a": (), "b": ()})
    leases = [await claim(store, first), await claim(store, second)]
    ended = await asyncio.gather(
        finish(store, first, leases[0], "failed", error="zero \0 and quote ' \" \\u0000"),
        finish(store, second, leases[1]),
    )
    assert [one.state for one in ended] == ["applied", "applied"]
    assert (await job_row(store, first)).error == "zero \ufffd and quote ' \" \\u0000"
