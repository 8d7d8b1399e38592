"""GET /journal: the hub's decisions as JSON lines, for an admin and nobody else."""

from pathlib import Path

from hub.placement.journal import read_lines
from hub.placement.replay import decisions, replay
from tests.hubs import running


async def test_the_journal_is_that_of_the_hub_and_replays_without_a_difference(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1", facts={"speed_class": 3})
        for _ in range(30):
            await hub.one_job()
            given = await machine.claim()
            assert given is not None
            await machine.start(given)
            await machine.finish(given, gone=True)
        answer = await hub.admin.call("GET", "/journal")
        assert answer.headers["content-type"] == "application/x-ndjson"
        told = read_lines(answer.text.splitlines())
        assert told == hub.hub.dispatch.journal.value()
        assert decisions(told) >= 60
        assert all(one.same for one in replay(told))


async def test_a_hub_that_keeps_no_journal_gives_an_empty_one(tmp_path: Path) -> None:
    async with running(tmp_path, journal_entries=0) as hub:
        await hub.machine("mars-1")
        await hub.one_job()
        told = read_lines((await hub.admin.call("GET", "/journal")).text.splitlines())
        assert told.entries == ()


async def test_it_takes_an_admin_token(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1")
        for caller in (await hub.token("read"), await hub.token("submit"), machine):
            answer = await caller.call("GET", "/journal")
            assert answer.status_code == 403
            assert "admin" in answer.json()["detail"]
