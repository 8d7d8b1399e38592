"""What follows for a run when a job of it ends."""

import asyncio
import itertools

import pytest

from hub.store.engine import Store
from hub.store.settle import run_status
from tests.store.making import claim, end, finish, job_row, run_row, statuses, submit

DIAMOND = {"lint": (), "build": ("lint",), "test": ("lint",), "deploy": ("build", "test")}


async def test_a_job_is_queued_when_all_that_it_needs_has_succeeded(store: Store) -> None:
    jobs = await submit(store, DIAMOND)
    assert await statuses(store, jobs) == ["queued", "blocked", "blocked", "blocked"]
    ended = await finish(store, jobs[0], await claim(store, jobs[0]), now_ms=4000)
    assert [(change.job, change.status) for change in ended.changes] == [
        (jobs[0], "succeeded"),
        (jobs[1], "queued"),
        (jobs[2], "queued"),
    ]
    assert ended.run_status == "running"
    assert (await job_row(store, jobs[1])).queued_ms == 4000
    ended = await finish(store, jobs[1], await claim(store, jobs[1]))
    assert len(ended.changes) == 1
    ended = await finish(store, jobs[2], await claim(store, jobs[2]))
    assert [change.job for change in ended.changes] == [jobs[2], jobs[3]]
    ended = await finish(store, jobs[3], await claim(store, jobs[3]))
    assert ended.run_status == "succeeded"


async def test_two_needs_that_end_in_one_commit_free_the_job_once(store: Store) -> None:
    jobs = await submit(store, {"a": (), "b": (), "after": ("a", "b")})
    leases = [await claim(store, job) for job in jobs[:2]]
    ended = await asyncio.gather(
        *(finish(store, job, lease) for job, lease in zip(jobs, leases, strict=False))
    )
    changes = [change for one in ended for change in one.changes]
    assert sorted((change.job, change.status) for change in changes) == [
        (jobs[0], "succeeded"),
        (jobs[1], "succeeded"),
        (jobs[2], "queued"),
    ]


async def test_what_needs_a_job_that_ended_otherwise_is_skipped_to_the_end_of_the_chain(store: Store) -> None:
    jobs = await submit(store, {**DIAMOND, "notify": ("deploy",), "docs": ()})
    await finish(store, jobs[5], await claim(store, jobs[5]))
    ended = await finish(store, jobs[0], await claim(store, jobs[0]), "failed")
    assert await statuses(store, jobs) == ["failed", *["skipped"] * 4, "succeeded"]
    assert {change.job for change in ended.changes} == set(jobs[:5])
    assert ended.run_status == "failed"
    assert (await run_row(store, 1)).jobs_done == 6


async def test_a_job_is_skipped_before_its_other_needs_are_done(store: Store) -> None:
    jobs = await submit(store, {"a": (), "b": (), "after": ("a", "b")})
    await claim(store, jobs[1])
    await finish(store, jobs[0], await claim(store, jobs[0]), "timed_out")
    assert await statuses(store, jobs) == ["timed_out", "running", "skipped"]
    assert (await run_row(store, 1)).status == "running"


async def test_a_lost_attempt_that_is_tried_again_leaves_the_run_running(store: Store) -> None:
    (job,) = await submit(store)
    await claim(store, job)
    ended = await end(store, job, "lost")
    assert ended.run_status is None
    row = await run_row(store, 1)
    assert (row.status, row.finished_ms) == ("running", None)


async def test_runs_that_end_in_one_commit_do_not_touch_each_other(store: Store) -> None:
    first = await submit(store, {"a": (), "after": ("a",)})
    second = await submit(store, {"a": (), "after": ("a",)})
    leases = [await claim(store, jobs[0]) for jobs in (first, second)]
    ended = await asyncio.gather(
        finish(store, first[0], leases[0], "failed"), finish(store, second[0], leases[1])
    )
    assert [one.run_status for one in ended] == ["failed", "running"]
    assert await statuses(store, [*first, *second]) == ["failed", "skipped", "succeeded", "queued"]


WORST_FIRST = ["error", "failed", "timed_out", "canceled", "succeeded"]


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations_with_replacement(WORST_FIRST, 2)))
def test_a_run_ends_as_the_worst_of_its_jobs(one: str, other: str) -> None:
    expected = "failed" if one == "timed_out" else one
    assert run_status([other, "skipped", one]) == expected


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["queued", "blocked"], None),
        (["assigned", "blocked"], None),
        (["canceled", "queued"], None),
        (["running", "blocked"], "running"),
        (["succeeded", "queued"], "running"),
    ],
)
def test_a_run_is_running_once_a_runner_works_on_it(statuses: list[str], expected: str | None) -> None:
    assert run_status(statuses) == expected
