"""A day of the queue from the rows: who waited when, and for how long."""

from hub.store import jobs as job_store
from hub.store import queue_day
from hub.store.engine import Store
from hub.store.queue_day import Day
from tests.store.making import claim, end, submit

QUARTER_MS = 900_000
NOW_MS = 100 * QUARTER_MS + 5


async def day(store: Store, **scope: str) -> Day:
    async with store.read() as conn:
        return await queue_day.day(
            conn, now_ms=NOW_MS, bucket_ms=QUARTER_MS, count=4, longest_ms=50 * QUARTER_MS, **scope
        )


def at(quarter: float) -> int:
    """The middle of a bucket, counted from 0."""
    return int((97 + quarter) * QUARTER_MS)


async def test_jobs_wait_from_their_queueing_until_they_are_first_assigned(store: Store) -> None:
    (early,) = await submit(store, created_ms=at(-3))  # waits when the day begins
    (late,) = await submit(store, created_ms=at(1.2))
    await claim(store, early, now_ms=at(2.5))
    await claim(store, late, now_ms=at(2.7))
    await end(store, late, "lost", now_ms=at(3.0))  # it is queued again, and had its turn
    await submit(store, created_ms=at(3.001))
    found = await day(store)
    assert [one.waiting for one in found.buckets] == [1, 2, 0, 1]
    assert [one.taken for one in found.buckets] == [0, 0, 2, 0]
    assert found.buckets[2].mean_ms == (at(2.5) - at(-3) + at(2.7) - at(1.2)) // 2
    assert found.buckets[2].most_ms == at(2.5) - at(-3)
    assert [one.mean_ms for one in found.buckets if not one.taken] == [None, None, None]
    assert found.buckets[0].start_ms == 97 * QUARTER_MS


async def test_what_was_canceled_or_waits_for_its_needs_is_not_in_the_queue(store: Store) -> None:
    first, _ = await submit(store, {"a": (), "b": ("a",)}, created_ms=at(0))
    await job_store.cancel_job(store.writer, first, now_ms=at(2.5), start_ms=1)
    found = await day(store)
    assert [(one.waiting, one.taken) for one in found.buckets] == [(1, 0), (1, 0), (0, 0), (0, 0)]


async def test_a_reader_is_told_of_its_own_projects_only(store: Store) -> None:
    await submit(store, created_ms=at(0))
    await submit(store, project="andy/other", created_ms=at(0))
    await submit(store, project="eve/demo", created_ms=at(0))
    await submit(store, project="and/demo", created_ms=at(0))
    assert [(await day(store)).buckets[-1].waiting] == [4]
    assert (await day(store, owner="andy")).buckets[-1].waiting == 2
    assert (await day(store, project="andy/demo")).buckets[-1].waiting == 1
