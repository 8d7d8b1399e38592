"""What a starting hub knows again."""

from hub.store import jobs as job_store
from hub.store import runners, startup
from hub.store.engine import open_store
from tests.store.making import claim, end, finish, submit


async def test_a_restarted_hub_knows_what_was_unfinished_and_nothing_else(url: str) -> None:
    store = await open_store(url)
    await runners.add(store.writer, runners.NewRunner(name="earth-9", token_hash="h", created_ms=1))
    (done,) = await submit(store)
    await finish(store, done, await claim(store, done))
    jobs = await submit(store, {"runs": (), "held": (), "blocked": ("runs",), "lost": ()})
    await claim(store, jobs[0])
    await job_store.hold(store.writer, job_store.Held(job=jobs[1], since_ms=1500, awaited="mars-1"))
    for number, runner in ((1, "old-1"), (2, "new-1")):
        lease = await claim(store, jobs[1], number=number, runner=runner, now_ms=number * 1000)
        await end(
            store, jobs[1], "declined", number=number, lease=lease, reason="full", now_ms=number * 10_000
        )
    await claim(store, jobs[3], runner="venus-1")
    await end(store, jobs[3], "lost")
    await store.close()

    store = await open_store(url)
    async with store.read() as conn:
        loaded = await startup.load(conn, declines_since_ms=10_000)
    await store.close()
    assert [run.id for run in loaded.runs] == [2]
    assert [(job.id, job.status) for job in loaded.jobs] == [
        (jobs[0], "running"),
        (jobs[1], "queued"),
        (jobs[2], "blocked"),
        (jobs[3], "queued"),
    ]
    assert [(attempt.job_id, attempt.number) for attempt in loaded.attempts] == [(jobs[0], 1)]
    assert [(one.job_id, one.runner, one.reason, one.at_ms) for one in loaded.declines] == [
        (jobs[1], "new-1", "full", 20_000)
    ]
    held = loaded.jobs[1]
    assert (held.held_since_ms, held.attempt, held.queued_ms) == (1500, 2, 1000)
    assert loaded.lost_on == {jobs[3]: frozenset({"venus-1"})}
    assert [runner.name for runner in loaded.runners] == ["earth-9"]
