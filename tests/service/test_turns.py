"""Owners take turns, and a large job is not kept out for ever: on a whole hub, through its routes."""

from pathlib import Path
from typing import Any

from tests.hubs import Machine, Running, running


async def _given(machine: Machine) -> dict[str, Any]:
    given = await machine.claim()
    assert given is not None
    await machine.start(given)
    return given


async def test_the_one_job_of_an_owner_goes_before_the_flood_of_another(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=2)
        await machine.claim()
        for _ in range(5):
            await hub.one_job("andy/demo")
        late = await hub.one_job("bea/tool")
        first, second = await _given(machine), await _given(machine)
        assert [given["job"]["project"] for given in (first, second)] == ["andy/demo", "bea/tool"]
        assert second["job"]["id"] == late


async def _fill(hub: Running, machine: Machine) -> list[dict[str, Any]]:
    for _ in range(2):
        await hub.one_job(memory="8GiB")
    return [await _given(machine), await _given(machine)]


async def _minute(hub: Running, machine: Machine, out: list[dict[str, Any]]) -> None:
    """A minute goes by in which the runner keeps its leases."""
    for _ in range(3):
        await hub.tick(20)
        for given in out:
            assert (await machine.beat(given)).status_code == 200


async def test_a_large_job_that_small_ones_keep_out_is_let_in_after_ten_minutes(tmp_path: Path) -> None:
    async with running(tmp_path, queue_s=86400) as hub:
        room = {"memory_mib": 32_000, "facts": {"memory_used_mib": 3_000}}
        machine = await hub.machine("earth-9", max_jobs=4, **room)
        await machine.claim()
        out = await _fill(hub, machine)
        large = await hub.one_job(memory="20GiB")
        for _ in range(11):  # a small job comes every minute, and one ends: there is never room for the large
            small = await hub.one_job(memory="8GiB")
            await machine.finish(out.pop(0), gone=True)
            out.append(await _given(machine))
            assert out[-1]["job"]["id"] == small
            await _minute(hub, machine, out)
        await hub.hub.dispatch.rounds.round()
        small = await hub.one_job(memory="8GiB")
        await machine.finish(out.pop(0), gone=True)
        assert await machine.claim() is None, "it is kept"
        told = (await hub.job(small))["waiting"]
        assert told["headline"] == f"waits: earth-9 is kept for job {large} (waiting 11 min)"
        assert "it is kept for this job" in (await hub.job(large))["waiting"]["headline"]
        await machine.finish(out.pop(0), gone=True)
        given = await _given(machine)
        assert given["job"]["id"] == large
        await machine.finish(given, gone=True)
        assert (await _given(machine))["job"]["id"] == small


async def test_a_runner_is_kept_no_more_when_its_job_is_canceled(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        room = {"memory_mib": 32_000, "facts": {"memory_used_mib": 3_000}}
        machine = await hub.machine("earth-9", max_jobs=4, **room)
        await machine.claim()
        first = await _fill(hub, machine)
        large = await hub.one_job(memory="20GiB")
        await machine.finish(first.pop(0), gone=True)
        await hub.one_job(memory="8GiB")
        out = [*first, await _given(machine)]
        for _ in range(11):
            await _minute(hub, machine, out)
        await machine.claim()
        await hub.hub.dispatch.rounds.round()
        small = await hub.one_job(memory="8GiB")
        await machine.finish(out.pop(0), gone=True)
        open_claim = machine.waits()
        await hub.settle()
        assert not open_claim.done()
        await hub.admin.post(f"/jobs/{large}/cancel")
        await hub.tick(0)
        given = await open_claim
        assert given is not None
        assert given["job"]["id"] == small
        await machine.start(given)
