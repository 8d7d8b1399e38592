"""A hub that starts anew: nothing is forgotten, and one broken row fails alone."""

import json
import sqlite3
from pathlib import Path

import pytest

from tests.hubs import running


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("jobs", "spec", "this is not JSON"),
        ("jobs", "spec", json.dumps({"name": "x", "tier": "process", "steps": 7})),
        ("jobs", "spec", json.dumps({"name": "x", "tier": "t", "steps": [], "images": [{"hash": ["😀"]}]})),
        ("runs", "workspace", "{"),
    ],
)
async def test_a_broken_row_fails_alone_and_once(tmp_path: Path, table: str, column: str, value: str) -> None:
    async with running(tmp_path) as hub:
        broken, good = await hub.one_job(), await hub.one_job()
        clock = hub.clock
        machine = await hub.machine("a")
    with sqlite3.connect(tmp_path / "hub.sqlite") as database:
        database.execute(f"UPDATE {table} SET {column} = ? WHERE id = 1", (value,))
    database.close()
    async with running(tmp_path, clock=clock) as hub:
        machine.client = hub.client
        given = await machine.claim()
        assert given is not None
        assert given["job"]["id"] == good
        await hub.settle()
        view = await hub.job(broken)
        assert view["status"] == "error"
        assert view["error"].startswith("the job is not valid")
        assert (await hub.admin.get(f"/runs/{view['run']}"))["status"] == "error"


async def test_a_row_that_broke_while_its_job_ran_ends_the_job(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        clock = hub.clock
    with sqlite3.connect(tmp_path / "hub.sqlite") as database:
        database.execute("UPDATE jobs SET spec = '{'")
    database.close()
    async with running(tmp_path, clock=clock) as hub:
        machine.client = hub.client
        view = await hub.job(job)
        assert view["status"] == "error"
        assert (await machine.beat(given)).status_code == 409


async def test_an_attempt_goes_on_over_a_restart_and_its_lease_starts_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        await machine.log(given, 0, b"before\n")
        clock = hub.clock
    clock.ms += 3 * 60_000  # the hub was away for three leases
    async with running(tmp_path, clock=clock) as hub:
        machine.client = hub.client
        await hub.tick(30)
        assert (await machine.log(given, 7, b"after\n")).status_code == 200
        await hub.tick(50)
        assert (await machine.finish(given, log_bytes=13)).status_code == 204
        assert (await hub.job(job))["status"] == "succeeded"
        log = await hub.admin.call("GET", f"/jobs/{job}/log")
        assert log.content == b"before\nafter\n"


async def test_a_claim_whose_answer_was_lost_with_the_hub_gets_the_same_job_after_it(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await hub.one_job()
        given = await machine.claim(claim_id="claim-one-1")
        clock = hub.clock
    async with running(tmp_path, clock=clock) as hub:
        machine.client = hub.client
        assert await machine.claim(claim_id="claim-one-1") == given


async def test_declines_losses_and_quarantines_are_remembered(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, other = await hub.machine("a"), await hub.machine("b", facts={"speed_class": 1})
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        body = {"lease": given["lease"]["token"], "reason": "no space left"}
        await machine.call("POST", f"/jobs/{job}/decline", json=body)
        await hub.admin.call("PATCH", "/runners/b", json={"state": "draining"})
        clock = hub.clock
    async with running(tmp_path, clock=clock) as hub:
        machine.client = other.client = hub.client
        assert await machine.claim() is None
        assert await other.claim() is None
        lacks = {one["runner"]: one["lacks"][0] for one in (await hub.job(job))["waiting"]["runners"]}
        assert lacks["a"]["text"] == "declined it: no space left"
        assert lacks["b"]["code"] == "draining"


async def test_a_job_whose_runner_comes_later_has_waited_all_the_while(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        job = await hub.one_job()
        assert (await hub.job(job))["waiting"]["kind"] == "none"
        await hub.tick(300)
        machine = await hub.machine("late")
        given = await machine.claim()
        assert given is not None
        assert given["job"]["id"] == job


async def test_a_paused_fleet_leaves_a_job_queued_and_its_own_clock_does_not_run(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await machine.claim()
        await hub.admin.call("PATCH", "/runners/a", json={"state": "draining"})
        job = await hub.one_job(timeout="1h")
        await hub.tick(3 * 3600)
        view = await hub.job(job)
        assert (view["status"], view["started_at"]) == ("queued", None)
        assert "draining" in json.dumps(view["waiting"])
        await hub.admin.call("PATCH", "/runners/a", json={"state": "active"})
        given = await machine.claim()
        assert given is not None
        assert given["job"]["timeout_s"] == 3600
