"""A waiting reason says since when it has held, and a change of it is told without anybody asking."""

from datetime import UTC, datetime
from pathlib import Path

from tests.hubs import START_MS, Running, running


async def since_s(hub: Running, job: int) -> float:
    """Seconds after the start of the test since which the reason has held."""
    since = (await hub.job(job))["waiting"]["since"]
    return datetime.fromisoformat(since).astimezone(UTC).timestamp() - START_MS / 1000


async def test_a_reason_holds_since_the_job_was_queued_until_its_kind_changes(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        await hub.tick(10)
        job = await hub.one_job()
        await hub.tick(20)
        assert (await hub.job(job))["waiting"]["kind"] == "none"
        assert await since_s(hub, job) == 10
        busy = await hub.machine("a")
        other = await hub.one_job(labels=["gpu"])
        await hub.tick(5)
        assert (await hub.job(job))["waiting"]["kind"] == "silent"
        assert await since_s(hub, job) == 35
        given = await busy.claim()
        assert given is not None
        await busy.start(given)
        late = await hub.one_job()
        await hub.tick(2)
        assert (await hub.job(late))["waiting"]["kind"] == "busy"
        assert await since_s(hub, late) == 35, "the job was queued then"
        assert (await hub.job(other))["waiting"]["kind"] == "nowhere"


async def test_a_reason_that_changes_with_time_alone_is_told_to_those_who_listen(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        given_to = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        job = await hub.one_job()
        run = (await hub.job(job))["run"]
        hub.hub.dispatch.sweep()
        with hub.hub.events.listen(("run", run)) as listener:
            await hub.tick(31)
            assert (await hub.job(given_to))["status"] == "running"
            hub.hub.dispatch.sweep()
            assert await listener.wait(0)
        assert (await hub.job(job))["waiting"]["kind"] == "silent"


async def test_a_round_judges_each_demand_once_whatever_the_number_of_jobs(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await machine.claim()
        for _ in range(20):
            await hub.one_job(labels=["gpu"])
            await hub.one_job(labels=["fpga"])
        reasons = hub.hub.dispatch.reasons
        reasons.forget()
        before = reasons.judged
        assert reasons.look_round(hub.clock.ms, lambda job, judgement: None) == []
        assert reasons.judged - before == 2
