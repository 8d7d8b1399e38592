"""A waiting reason says since when it has held, and a change of it is told without anybody asking."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hub.dispatch import rounds as rounds_module
from hub.service import waiting as waiting_module
from hub.store import runs as run_store
from hub.store.errors import Overloaded
from tests.hubs import START_MS, Api, ManualClock, Running, pipeline, running


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
        await hub.hub.dispatch.rounds.round()
        with hub.hub.events.listen(("run", run)) as listener:
            await hub.tick(31)
            assert (await hub.job(given_to))["status"] == "running"
            await hub.hub.dispatch.rounds.round()
            assert await listener.wait(0)
        assert (await hub.job(job))["waiting"]["kind"] == "silent"


async def test_a_round_looks_at_each_demand_once_whatever_the_number_of_jobs(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await machine.claim()
        for _ in range(20):
            await hub.one_job(labels=["gpu"])
            await hub.one_job(labels=["fpga"])
        reasons, rounds = hub.hub.dispatch.reasons, hub.hub.dispatch.rounds
        await hub.tick(1)
        await rounds.round()
        of_forty = rounds.looks
        assert rounds.demands == 2
        for _ in range(20):
            await hub.one_job(labels=["gpu"])
        await hub.tick(1)
        judged = reasons.judged
        await rounds.round()
        assert rounds.looks == of_forty
        assert reasons.judged == judged


async def stored_of(hub: Running, job: int) -> dict[str, Any]:
    """What the store has of a job's reason."""
    async with hub.hub.store.read() as conn:
        row = await run_store.job(conn, job)
    assert row is not None
    found: dict[str, Any] = json.loads(row.waiting or "{}")
    return found


async def test_a_round_stores_each_new_reason_and_writes_nothing_where_only_figures_changed(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", cpus=4, facts={"memory_used_mib": 100}, memory_mib=8192)
        await machine.claim()
        job = await hub.one_job(memory="4GiB")
        rounds = hub.hub.dispatch.rounds
        await rounds.round()
        first = await stored_of(hub, job)
        assert (first["kind"], first["looked_ms"]) == ("nowhere", START_MS)
        assert first["headline"] == (
            "no runner can take it: 1 runner, it can give jobs 2048 MiB of its 8192 MiB;"
            " the job needs 4096 MiB"
        )
        await hub.tick(5)
        machine.offer["memory_mib"] = 9000
        await machine.claim()
        await rounds.round()
        assert await stored_of(hub, job) == first, "the figures are others, the reason is not"
        await hub.tick(5)
        machine.offer["memory_mib"] = 65536
        machine.offer["facts"] = {"memory_used_mib": 60000}
        await machine.claim()
        await rounds.round()
        later = await stored_of(hub, job)
        assert (later["kind"], later["since_ms"]) == ("busy", START_MS + 10_000)


async def test_a_change_of_reason_that_a_round_finds_is_told_to_those_who_listen(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await machine.claim()
        job = await hub.one_job(labels=["gpu"])
        rounds = hub.hub.dispatch.rounds
        await rounds.round()
        with hub.hub.events.listen(("job", job)) as listener:
            await rounds.round()
            assert not await listener.wait(0)
            hub.hub.dispatch.fleet.live["a"].state = "draining"
            hub.hub.dispatch.runner_changed(hub.hub.dispatch.fleet.live["a"])
            await rounds.round()
            assert await listener.wait(0)


async def test_after_a_restart_a_job_shows_what_was_stored_until_it_is_looked_at(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running(tmp_path, clock) as hub:
        await (await hub.machine("a")).claim()
        await hub.tick(10)
        job = await hub.one_job(labels=["gpu"])
        await hub.tick(3)
        await hub.hub.dispatch.rounds.round()
        reader = await hub.token("read", owner="andy")
    clock.ms += 60_000
    async with running(tmp_path, clock) as hub:
        shown = (await hub.job(job))["waiting"]
        assert shown["headline"] == "no runner can take it: 1 runner, it lacks label gpu"
        assert shown["runners"] == []
        assert await since_s(hub, job) == 10
        as_of = datetime.fromisoformat(shown["as_of"]).timestamp() - START_MS / 1000
        assert as_of == 13, "it says when it was looked at"
        theirs = (await Api(hub.client, reader.token).get(f"/jobs/{job}"))["waiting"]
        assert theirs["runners"], "stored words are for those who see all: others are answered anew"
        await hub.hub.dispatch.rounds.round()
        shown = (await hub.job(job))["waiting"]
        assert shown["runners"] != []
        assert await since_s(hub, job) == 10, "the reason is the same, and holds as long"


async def test_a_job_that_joins_a_demand_whose_reason_is_stored_has_it_stored_too(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        await (await hub.machine("a")).claim()
        await hub.one_job(labels=["gpu"])
        await hub.hub.dispatch.rounds.round()
        late = await hub.one_job(labels=["gpu"])
        assert await stored_of(hub, late) == {}
        await hub.hub.dispatch.rounds.round()
        assert (await stored_of(hub, late))["kind"] == "nowhere"


async def test_a_store_that_does_not_answer_is_asked_again_in_the_next_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as hub:
        await (await hub.machine("a")).claim()
        job = await hub.one_job(labels=["gpu"])
        with monkeypatch.context() as patched:

            async def fails(writer: object, rows: object) -> None:
                raise Overloaded("for the test")

            patched.setattr(rounds_module, "save_waiting", fails)
            await hub.hub.dispatch.rounds.round()
        assert await stored_of(hub, job) == {}
        await hub.hub.dispatch.rounds.round()
        assert (await stored_of(hub, job))["kind"] == "nowhere"


async def test_the_hub_goes_round_by_itself_after_a_change(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        going = asyncio.create_task(hub.hub.dispatch.rounds.run())
        try:
            await (await hub.machine("a")).claim()
            clock = hub.clock
            clock.ms += 60_000  # both rests are over
            job = await hub.one_job(labels=["gpu"])
            for _ in range(100):
                if await stored_of(hub, job):
                    break
                clock.ms += 1000
                await hub.settle()
            assert (await stored_of(hub, job))["kind"] == "nowhere"
        finally:
            going.cancel()


async def test_the_queue_is_shown_by_reason_the_largest_first(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        given_to = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        assert given["job"]["id"] == given_to
        one = await hub.one_job()
        await hub.tick(4)
        gpu = [await hub.one_job(labels=["gpu"]) for _ in range(7)]
        fpga = [await hub.one_job(labels=["gpu"], memory="1GiB")]
        found = await hub.admin.get("/queue")
        assert [
            (each["kind"], each["jobs"], each["oldest_s"], each["first"]) for each in found["groups"]
        ] == [
            ("nowhere", 8, 0, gpu[:5]),
            ("busy", 1, 4, [one]),
        ]
        assert found["groups"][0]["headline"] == "no runner can take it: 1 runner, it lacks label gpu"
        assert [each["id"] for each in found["jobs"]] == [one, *gpu, *fpga]
        headlines = {each["waiting"]["headline"] for each in found["jobs"]}
        assert headlines == {each["headline"] for each in found["groups"]}


async def test_the_queue_stands_in_turn_an_owner_with_fewer_jobs_out_first(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await hub.one_job("andy/demo")
        assert await machine.claim() is not None
        andys, beas = await hub.one_job("andy/demo"), await hub.one_job("bea/tool")
        found = await hub.admin.get("/queue")
        assert [each["id"] for each in found["jobs"]] == [beas, andys]


async def test_a_reader_is_told_no_runner_and_no_job_beyond_its_reach_by_the_groups(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        hidden = await hub.machine("hidden", scope={"owner": "bea"})
        await hidden.claim()
        await hub.one_job("bea/tool")
        assert await hidden.claim() is not None
        await hub.one_job("bea/tool")
        job = await hub.one_job("andy/demo")
        await hub.hub.dispatch.rounds.round()
        reader = await hub.token("read", owner="andy")
        found = await reader.get("/queue")
        assert [(each["kind"], each["jobs"], each["first"]) for each in found["groups"]] == [
            ("none", 1, [job])
        ]
        assert "hidden" not in json.dumps(found)
        seeing = await hub.admin.get("/queue")
        assert {each["headline"] for each in seeing["groups"]} == {
            "no runner serves andy/demo",
            "waits for room: hidden runs 1 of 1 jobs",
        }


async def test_the_fleet_says_what_machine_is_wanted_and_counts_together_what_one_would_do_for(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as hub:
        await (await hub.machine("a")).claim()
        for priority in (0, 5):
            made = pipeline(build={"labels": ["gpu"], "arch": "aarch64", "memory": "16GiB"})
            await hub.submit(made, priority=priority)
        await hub.one_job("bea/tool", labels=["gpu"], arch="aarch64", memory="16GiB")
        lacking = (await hub.admin.get("/fleet"))["lacking"]
        assert [(each["jobs"], each["project"], each["wants"]) for each in lacking] == [
            (2, "andy/demo", "2 jobs want {process, aarch64, 16 GiB, label gpu}"),
            (1, "bea/tool", "1 job wants {process, aarch64, 16 GiB, label gpu}"),
        ]


async def test_a_view_of_a_large_queue_tells_what_is_remembered_rather_than_look_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "VIEW_LOOKS", 0)
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await machine.claim()
        await hub.one_job(labels=["gpu"])
        await hub.hub.dispatch.rounds.round()
        machine.offer["labels"] = ["gpu"]
        await hub.tick(40)
        reasons = hub.hub.dispatch.reasons
        await hub.hub.dispatch.rounds.round()
        before = reasons.looks
        hub.hub.dispatch.fleet.live["a"].state = "draining"
        hub.hub.dispatch.runner_changed(hub.hub.dispatch.fleet.live["a"])
        found = await hub.admin.get("/queue")
        assert found["groups"][0]["headline"] == "no runner can take it: 1 runner, it lacks label gpu"
        assert reasons.looks == before
        await hub.tick(16)
        await hub.admin.get("/queue")
        assert reasons.looks > before, "what is remembered is told for 15 s at most"
