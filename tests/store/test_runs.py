"""Runs: submitted whole, and read for the pages."""

import asyncio

import pytest

from hub.store import attempts, history, runs
from hub.store import jobs as job_store
from hub.store.engine import Store
from hub.store.runs import NewJob, NewRun
from tests.store.making import claim, claimed, end, finish, job_row, submit


async def test_a_run_appears_whole_with_its_jobs_in_order(store: Store) -> None:
    run = NewRun(
        project="andy/demo",
        pipeline="version: 1",
        created_ms=1000,
        title="Mend the build",
        ref="main",
        commit="abc1234",
        priority=5,
        submitted_by="andy",
        retry_of=7,
        workspace='{"hash": "00"}',
    )
    jobs = [NewJob(name="z", spec='{"name": "z"}'), NewJob(name="a", spec="{}", needs=("z",))]
    made = await runs.submit(store.writer, run, jobs)
    assert not made.existed
    async with store.read() as conn:
        row = await runs.get(conn, made.run_id)
        stored = await runs.jobs_of(conn, made.run_id)
    assert row is not None
    assert (row.project, row.title, row.ref, row.commit) == ("andy/demo", "Mend the build", "main", "abc1234")
    assert (row.pipeline, row.workspace, row.retry_of) == ("version: 1", '{"hash": "00"}', 7)
    assert (row.status, row.jobs_total, row.jobs_done) == ("queued", 2, 0)
    assert [(job.id, job.name, job.status, job.priority) for job in stored] == [
        (made.job_ids[0], "z", "queued", 5),
        (made.job_ids[1], "a", "blocked", 5),
    ]
    assert [(job.queued_ms, job.needs) for job in stored] == [(1000, "[]"), (None, '["z"]')]


async def test_the_same_key_gives_the_same_run_also_at_the_same_time(store: Store) -> None:
    run = NewRun(project="andy/demo", pipeline="version: 1", created_ms=1000, key="push-17")
    jobs = [NewJob(name="build", spec="{}")]
    made = await asyncio.gather(*(runs.submit(store.writer, run, jobs) for _ in range(5)))
    assert len({one.run_id for one in made}) == 1
    assert [one.existed for one in made] == [False, True, True, True, True]
    assert len({one.job_ids for one in made}) == 1
    elsewhere = NewRun(project="andy/other", pipeline="version: 1", created_ms=1000, key="push-17")
    assert not (await runs.submit(store.writer, elsewhere, jobs)).existed


@pytest.mark.parametrize(
    "jobs",
    [
        [],
        [NewJob(name="a", spec="{}"), NewJob(name="a", spec="{}")],
        [NewJob(name="a", spec="{}", needs=("b",))],
    ],
)
async def test_a_run_that_could_never_end_is_refused(store: Store, jobs: list[NewJob]) -> None:
    with pytest.raises(ValueError, match="at least one job"):
        await runs.submit(store.writer, NewRun(project="a/b", pipeline="", created_ms=1), jobs)


async def test_a_page_holds_the_newest_runs_that_meet_every_filter(store: Store) -> None:
    await submit(store, project="andy/demo", title="100% of the Build")
    await submit(store, project="andy/demo_2", title="docs")
    await submit(store, project="andyx/demo", title="build_1")
    (job,) = await submit(store, project="andy/demo", title=None)
    await finish(store, job, await claim(store, job))

    async def ids(**filters: object) -> list[int]:
        async with store.read() as conn:
            return [row.id for row in await runs.page(conn, **filters)]  # type: ignore[arg-type]

    assert await ids() == [4, 3, 2, 1]
    assert await ids(limit=2) == [4, 3]
    assert await ids(before=3) == [2, 1]
    assert await ids(owner="andy") == [4, 2, 1]
    assert await ids(owner="an_y") == []
    assert await ids(project="andy/demo") == [4, 1]
    assert await ids(status="succeeded") == [4]
    assert await ids(search="BUILD") == [3, 1]
    assert await ids(search="0%") == [1]
    assert await ids(search="d_1") == [3]
    assert await ids(search="") == [4, 3, 2, 1]
    assert await ids(owner="andy", status="queued", search="docs", before=4) == [2]
    async with store.read() as conn:
        (newest,) = await runs.page(conn, limit=1)
    assert (newest.jobs_total, newest.jobs_done, newest.pipeline) == (1, 1, "")


async def test_attempts_are_read_for_many_jobs_at_once(store: Store) -> None:
    jobs = await submit(store, {"a": (), "b": (), "c": ()})
    for number in (1, 2):
        await claim(store, jobs[0], number=number)
        await end(store, jobs[0], "released", number=number, lease=f"lease-{jobs[0]}-{number}")
    await claim(store, jobs[1])
    async with store.read() as conn:
        found = await runs.attempts_of(conn, jobs)
        none = await runs.attempts_of(conn, [])
        rows = await runs.jobs_by_id(conn, [jobs[2], 999_999, jobs[0]])
    assert [row.id for row in rows] == [jobs[0], jobs[2]]
    assert {job: [row.number for row in rows] for job, rows in found.items()} == {
        jobs[0]: [1, 2],
        jobs[1]: [1],
    }
    assert none == {}


async def test_the_comparison_of_each_attempt_is_kept(store: Store) -> None:
    (job,) = await submit(store)
    await attempts.claim(store.writer, claimed(job, comparison='[{"runner": "mars-1", "chosen": false}]'))
    async with store.read() as conn:
        assert await runs.comparison(conn, job, 1) == '[{"runner": "mars-1", "chosen": false}]'
        assert await runs.comparison(conn, job, 2) is None


async def test_what_is_not_there_is_none(store: Store) -> None:
    async with store.read() as conn:
        assert await runs.get(conn, 1) is None
        assert await runs.job(conn, 1) is None
        assert await runs.jobs_of(conn, 1) == []


async def test_a_job_learns_from_its_last_five_runs_that_ended_by_themselves(store: Store) -> None:
    for number in range(8):
        (job,) = await submit(store)
        lease = await claim(store, job, now_ms=10_000 * number)
        outcome = {6: "canceled", 7: "timed_out"}.get(number, "failed" if number % 2 else "succeeded")
        await finish(store, job, lease, outcome, peak_disk_mib=number, now_ms=10_000 * number + 1000 + number)
    await submit(store)
    await submit(store, project="andy/other")
    async with store.read() as conn:
        rows = await history.recent(conn, project="andy/demo", name="build")
        assert await history.recent(conn, project="andy/demo", name="lint") == []
    assert [row.peak_disk_mib for row in rows] == [5, 4, 3, 2, 1]
    assert [row.duration_ms for row in rows] == [1005, 1004, 1003, 1002, 1001]
    assert {row.peak_memory_mib for row in rows} == {None}


async def test_a_reader_cannot_write(store: Store) -> None:
    (job,) = await submit(store)
    row = job_store.Held(job=job, since_ms=1, awaited="x")
    async with store.read() as conn:
        with pytest.raises(Exception, match=r"readonly|read-only"):
            await job_store.HOLDS.many(conn, [row])
    assert (await job_row(store, job)).held_for is None
