"""Registered runners: added, changed, saved, removed."""

import asyncio

import pytest

from hub.store import runners
from hub.store.engine import Store
from hub.store.errors import Taken
from hub.store.rows import RunnerRow
from hub.store.runners import ChangedRunner, NewRunner, Saved, Scope
from tests.store.making import attempt_rows, beat, claim, finish, job_row, statuses, submit


async def add(store: Store, name: str, **given: str) -> None:
    await runners.add(store.writer, NewRunner(name=name, token_hash=f"hash of {name}", created_ms=1, **given))


async def row_of(store: Store, name: str) -> RunnerRow | None:
    async with store.read() as conn:
        return await runners.get(conn, name)


async def test_a_runner_is_found_by_its_name_and_by_its_token(store: Store) -> None:
    await add(store, "mars-1", labels='["ssd"]', owner="andy")
    await add(store, "earth-9")
    async with store.read() as conn:
        found = await runners.by_hash(conn, "hash of mars-1")
        assert await runners.by_hash(conn, "guessed") is None
        assert [row.name for row in await runners.listing(conn)] == ["earth-9", "mars-1"]
    assert found == await row_of(store, "mars-1")
    assert found is not None
    assert (found.labels, found.owner, found.project, found.state) == ('["ssd"]', "andy", None, "active")
    assert (found.offer, found.heard_ms, found.broken_promises) == (None, None, 0)


async def test_a_name_or_a_token_is_taken_once(store: Store) -> None:
    await add(store, "mars-1")
    with pytest.raises(Taken, match="named mars-1 is there already"):
        await runners.add(store.writer, NewRunner(name="mars-1", token_hash="other", created_ms=2))
    with pytest.raises(Taken):
        await runners.add(store.writer, NewRunner(name="other", token_hash="hash of mars-1", created_ms=2))
    row = await row_of(store, "mars-1")
    assert row is not None
    assert row.created_ms == 1


async def test_a_change_touches_only_what_it_names(store: Store) -> None:
    await add(store, "mars-1", labels='["ssd"]', owner="andy")
    row = await runners.change(
        store.writer, ChangedRunner(name="mars-1", state="draining", state_reason="by an admin")
    )
    assert row is not None
    assert (row.state, row.state_reason, row.labels, row.owner) == (
        "draining",
        "by an admin",
        '["ssd"]',
        "andy",
    )
    row = await runners.change(store.writer, ChangedRunner(name="mars-1", labels="[]", scope=Scope()))
    assert row is not None
    assert (row.state, row.state_reason, row.labels, row.owner) == ("draining", "by an admin", "[]", None)
    assert await runners.change(store.writer, ChangedRunner(name="nobody", state="active")) is None


async def test_what_a_runner_said_last_wins_and_what_it_did_not_say_stays(store: Store) -> None:
    await add(store, "mars-1")
    await runners.save(store.writer, Saved(name="mars-1", offer="{}", instance="i1", heard_ms=5, polled_ms=5))
    saves = [Saved(name="mars-1", heard_ms=10 + number, broken_promises=number) for number in range(10)]
    assert await asyncio.gather(*(runners.save(store.writer, saved) for saved in saves)) == [True] * 10
    await runners.save(
        store.writer, Saved(name="mars-1", state="quarantined", state_reason="it does not start jobs")
    )
    row = await row_of(store, "mars-1")
    assert row is not None
    assert (row.offer, row.instance, row.heard_ms, row.polled_ms) == ("{}", "i1", 19, 5)
    assert (row.broken_promises, row.state, row.state_reason) == (9, "quarantined", "it does not start jobs")
    await runners.save(store.writer, Saved(name="mars-1", broken_promises=0))
    row = await row_of(store, "mars-1")
    assert row is not None
    assert (row.broken_promises, row.state_reason) == (0, "it does not start jobs")
    assert not await runners.save(store.writer, Saved(name="gone", heard_ms=1))


async def test_a_removed_runner_gives_its_jobs_back_and_keeps_its_name_on_them(store: Store) -> None:
    """Field bug B09."""
    await add(store, "earth-9")
    await add(store, "mars-1")
    jobs = await submit(store, {"confirmed": (), "assigned": (), "elsewhere": (), "done": ()})
    lease = await claim(store, jobs[0])
    await claim(store, jobs[1], confirm=False)
    await claim(store, jobs[2], runner="mars-1")
    await finish(store, jobs[3], await claim(store, jobs[3]))
    removed = await runners.remove(store.writer, "earth-9", now_ms=9000)
    assert removed is not None
    assert set(removed.ended) == set(jobs[:2])
    assert [change.status for one in removed.ended.values() for change in one.changes] == ["queued", "queued"]
    assert await row_of(store, "earth-9") is None
    assert await statuses(store, jobs) == ["queued", "queued", "running", "succeeded"]
    assert (await job_row(store, jobs[0])).losses == 1
    (attempt,) = await attempt_rows(store, jobs[0])
    assert (attempt.runner, attempt.ended, attempt.reason) == ("earth-9", "runner removed", "runner removed")
    assert await beat(store, jobs[0], lease, now_ms=9500) is None
    assert await runners.remove(store.writer, "earth-9", now_ms=9999) is None
    assert (await job_row(store, jobs[0])).losses == 1


async def test_a_finish_that_came_before_the_removal_stands(store: Store) -> None:
    await add(store, "earth-9")
    (job,) = await submit(store)
    lease = await claim(store, job)
    ended, removed = await asyncio.gather(
        finish(store, job, lease), runners.remove(store.writer, "earth-9", now_ms=9000)
    )
    assert ended.state == "applied"
    assert removed is not None
    assert removed.ended == {}
    assert (await job_row(store, job)).status == "succeeded"
