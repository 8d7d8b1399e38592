"""Concurrency groups: at most so many at a time, in order, over restarts, losses and cancels."""

import asyncio
from pathlib import Path
from typing import Any

from tests.hubs import Machine, Running, pipeline, running

DEPLOY: dict[str, Any] = {"concurrency": {"group": "deploy-prod", "limit": 1}}


async def claimed(machine: Machine) -> dict[str, Any]:
    given = await machine.claim()
    assert given is not None
    await machine.start(given)
    return given


async def headline(hub: Running, job: int) -> str:
    waiting = (await hub.job(job))["waiting"]
    return f"{waiting['kind']}: {waiting['headline']}"


async def test_the_next_of_a_group_starts_when_the_one_before_it_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        one, two = await hub.machine("one"), await hub.machine("two")
        first, second, other = await hub.one_job(**DEPLOY), await hub.one_job(**DEPLOY), await hub.one_job()
        given = await claimed(one)
        assert given["job"]["id"] == first
        assert await headline(hub, second) == "group: waits for run 1 (group deploy-prod, 1 at a time)"
        assert [job["id"] for job in (await hub.admin.get("/queue"))["jobs"]] == [second, other]
        beside = await claimed(two)
        assert beside["job"]["id"] == other, "a job that waits for its group stops nobody behind it"
        await two.finish(beside)
        poll = two.waits()
        await hub.settle()
        assert not poll.done()
        await one.finish(given)
        then = await poll
        assert then is not None
        assert then["job"]["id"] == second


async def test_groups_of_other_projects_and_names_are_other_groups(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=9)
        jobs = [
            await hub.one_job(**DEPLOY),
            await hub.one_job(project="bea/other", **DEPLOY),
            await hub.one_job(concurrency={"group": "deploy-test", "limit": 1}),
        ]
        given = [await claimed(machine) for _ in jobs]
        assert [one["job"]["id"] for one in given] == jobs


async def test_a_limit_of_two_lets_two_of_one_run_go(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=9)
        spec: dict[str, Any] = {"concurrency": {"group": "lab", "limit": 2}}
        run = await hub.submit(pipeline(a=dict(spec), b=dict(spec), c=dict(spec)))
        first = [await claimed(machine), await claimed(machine)]
        assert await machine.claim() is None
        last = (await hub.admin.get(f"/runs/{run}"))["jobs"][2]
        assert last["waiting"]["headline"] == f"waits for run {run} (group lab, 2 at a time)"
        await machine.finish(first[1])
        third = await machine.claim()
        assert third is not None
        assert third["job"]["name"] == "c"


async def test_a_newer_run_may_cancel_the_older_ones_of_its_group(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=9)
        newest: dict[str, Any] = {"concurrency": {"group": "preview", "limit": 1, "cancel_running": True}}
        runs, waits, wanted = [await hub.one_job(**newest) for _ in range(3)]
        await hub.settle()
        assert [(await hub.job(job))["status"] for job in (runs, waits)] == ["canceled", "canceled"]
        given = await claimed(machine)
        assert given["job"]["id"] == wanted
        last = await hub.one_job(**newest)
        await hub.settle()
        assert (await machine.beat(given)).json()["cancel"] is True
        await machine.finish(given, "canceled")
        then = await claimed(machine)
        assert then["job"]["id"] == last


async def test_a_job_keeps_its_place_in_the_group_over_a_loss_and_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=9)
        first, second = await hub.one_job(**DEPLOY), await hub.one_job(**DEPLOY)
        await claimed(machine)
        await hub.tick(61)
        assert (await hub.job(first))["status"] == "queued"
        assert (await headline(hub, second)).startswith("group: ")
        given = await claimed(machine)
        assert given["job"]["id"] == first
        clock = hub.clock
    async with running(tmp_path, clock=clock) as hub:
        machine.client = hub.client
        assert (await headline(hub, second)).startswith("group: ")
        await machine.finish(given)
        assert (await claimed(machine))["job"]["id"] == second


async def test_a_job_that_is_canceled_while_it_waits_for_its_group_is_not_let_in(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=9)
        first, second, third = [await hub.one_job(**DEPLOY) for _ in range(3)]
        given = await claimed(machine)
        await hub.admin.call("POST", f"/jobs/{second}/cancel")
        assert (await hub.job(second))["status"] == "canceled"
        assert (await headline(hub, third)).startswith("group: ")
        await machine.finish(given)
        assert (await claimed(machine))["job"]["id"] == third
        assert first == given["job"]["id"]


async def test_never_more_than_the_limit_whatever_comes_and_goes(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machines = [await hub.machine(f"m{number}") for number in range(6)]
        spec: dict[str, Any] = {"concurrency": {"group": "lab", "limit": 3}}
        jobs = [await hub.one_job(**spec) for _ in range(30)]
        at_once = most = done = 0

        async def work(machine: Machine) -> None:
            nonlocal at_once, most, done
            while done < len(jobs):
                if (given := await machine.claim()) is None:
                    await asyncio.sleep(0.001)
                    continue
                at_once += 1
                most = max(most, at_once)
                await machine.start(given)
                at_once -= 1
                await machine.finish(given, "failed" if done % 5 == 0 else "succeeded")
                done += 1

        await asyncio.gather(*(work(machine) for machine in machines))
        assert most == 3
        assert hub.hub.dispatch.concurrency.waiting == {}
