"""A job that ran out of memory or disk goes to a runner with more, and says so; nobody is to blame."""

from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Machine, pipeline, running

SMALL = {"memory_mib": 9216, "reserve_mib": 1024}  # 6144 MiB for jobs: 2048 are the machine's own
BIG = {"memory_mib": 32768, "reserve_mib": 1024}


def disk(free_mib: int) -> dict[str, Any]:
    return {"facts": {"free_disk_mib": free_mib}}


async def take(machine: Machine, **offer: Any) -> dict[str, Any]:
    """The runner claims a job, and runs it."""
    given = await machine.claim(**offer)
    assert given is not None
    assert (await machine.start(given)).status_code == 204
    return given


async def run_out(machine: Machine, given: dict[str, Any], of: str, **more: Any) -> None:
    plain = {"outcome": "failed", "exit_code": 137 if of == "memory" else 1, "gone": True}
    assert (await machine.finish(given, short=of, **{**plain, **more})).status_code == 204


async def test_a_job_that_ran_out_of_memory_goes_to_the_bigger_runner_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        small = await hub.machine("mars-1", **SMALL)
        job = await hub.one_job(memory="5000MiB", retries=1)
        given = await take(small)
        assert given["job"]["memory_mib"] == 5000
        big = await hub.machine("tank", **BIG)
        assert await big.claim() is None
        await run_out(small, given, "memory", peak_memory_mib=4990)
        view = await hub.job(job)
        assert (view["status"], view["error"]) == ("queued", None)
        assert await small.claim() is None, "7500 MiB are more than it can ever give"
        lacks = (await hub.job(job))["waiting"]["runners"]
        (lack,) = next(one["lacks"] for one in lacks if one["runner"] == "mars-1")
        assert lack["text"] == (
            "can give jobs 6144 MiB of its 9216 MiB; the job needs 7500 MiB"
            " (it ran out of 5000 MiB on mars-1)"
        )
        again = await take(big)
        assert (again["job"]["id"], again["job"]["memory_mib"]) == (job, 7500)
        assert again["placed"].endswith("asking 7500 MiB of memory, as it ran out of 5000 MiB on mars-1")
        await big.beat(again, memory_mib=6000)
        view = await hub.job(job)
        assert view["placed"] == again["placed"]
        assert view["takes"] == "memory 5.9 of 7.3 GiB"
        first = view["attempts"][0]
        assert (first["runner"], first["ended"], first["reason"]) == (
            "mars-1",
            "finished",
            "ran out of memory with 5000 MiB on mars-1",
        )
        assert view["shortages"] == [{"of": "memory", "had_mib": 5000, "asks_mib": 7500, "runner": "mars-1"}]


async def test_a_job_that_ran_out_of_disk_asks_for_more_than_it_had_taken(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        small = await hub.machine("mars-1", **disk(5000))
        job = await hub.one_job(disk="4GiB", retries=1)
        given = await take(small)
        await run_out(small, given, "disk", outcome="error", error="no space left", peak_disk_mib=5018)
        assert await small.claim() is None
        lacks = (await hub.job(job))["waiting"]["runners"][0]["lacks"]
        assert (
            lacks[0]["text"] == "has 4.9 GiB free; the job needs ~6.2 GiB (it ran out of 4.9 GiB on mars-1)"
        )
        big = await hub.machine("tank", **disk(50_000))
        again = await take(big)
        assert again["job"]["disk_mib"] == 5018 + 1255 + 64
        assert again["placed"].endswith("asking ~6.2 GiB of disk, as it ran out at 4.9 GiB on mars-1")
        assert (await hub.job(job))["attempts"][0]["reason"] == (
            "ran out of disk at 4.9 GiB on mars-1 (no space left)"
        )


async def test_a_runner_that_has_room_again_may_have_the_job_it_ran_out_on(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1", **disk(1000))
        job = await hub.one_job(retries=1)
        given = await take(machine)
        await run_out(machine, given, "disk", peak_disk_mib=1000)
        assert await machine.claim() is None
        again = await take(machine, **disk(1314))
        assert (again["job"]["id"], again["job"]["disk_mib"]) == (job, 1314)
        assert hub.hub.dispatch.jobs[job].lost_on == frozenset()


async def test_a_job_of_which_no_runner_has_more_ends_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1", memory_mib=12_000, reserve_mib=0)
        other = await hub.machine("tank", labels=["gpu"], exclusive=True, **BIG)
        assert await other.claim() is None
        job = await hub.one_job(memory="8GiB", retries=2)
        await run_out(machine, await take(machine), "memory")
        view = await hub.job(job)
        assert (view["status"], view["attempt"]) == ("failed", 1)
        assert view["error"] == "ran out of memory with 8192 MiB on mars-1; no runner has more"
        assert view["exit_code"] == 137


async def test_a_runner_that_never_polled_may_have_more(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1", memory_mib=12_000, reserve_mib=0)
        await hub.machine("unknown")
        job = await hub.one_job(memory="8GiB", retries=1)
        await run_out(machine, await take(machine), "memory")
        assert (await hub.job(job))["status"] == "queued"


async def test_want_counts_against_retries_and_the_last_one_says_what_it_had(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **BIG)
        none, one = await hub.one_job(memory="1GiB"), await hub.one_job(memory="1GiB", retries=1)
        for _ in range(2):
            await run_out(machine, await take(machine), "memory")
        assert (await hub.job(none))["error"] == "ran out of memory with 1024 MiB on tank"
        given = await take(machine)
        assert (given["job"]["id"], given["job"]["memory_mib"]) == (one, 1536)
        await run_out(machine, given, "memory")
        view = await hub.job(one)
        assert (view["status"], view["attempt"]) == ("failed", 2)
        assert view["error"] == "ran out of memory with 1536 MiB on tank"
        assert view["takes"] == "memory 1.5 GiB asked", "what the attempt had, not what the next would have"


async def test_a_job_that_asks_for_no_memory_gets_more_than_its_peak(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **BIG)
        await hub.one_job(retries=1)
        await run_out(machine, await take(machine), "memory", peak_memory_mib=1001)
        given = await take(machine)
        assert given["job"]["memory_mib"] == 1502
        assert given["placed"].endswith("asking 1502 MiB of memory, as it ran out of 1001 MiB on tank")


async def test_a_job_whose_peak_nobody_measured_is_tried_again_as_it_was(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **BIG)
        job = await hub.one_job(retries=1)
        await run_out(machine, await take(machine), "disk")
        given = await take(machine)
        assert given["job"].get("disk_mib") is None
        assert "asking" not in given["placed"]
        assert (await hub.job(job))["attempts"][0]["reason"] == "ran out of disk on tank"


@pytest.mark.parametrize("outcome", ["succeeded", "timed_out"])
async def test_a_job_that_did_not_fail_ran_out_of_nothing(tmp_path: Path, outcome: str) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **BIG)
        job = await hub.one_job(memory="1GiB", retries=2)
        await run_out(machine, await take(machine), "memory", outcome=outcome)
        view = await hub.job(job)
        assert (view["status"], view["error"], view["shortages"]) == (outcome, None, [])


async def test_a_runner_is_not_to_blame_for_jobs_that_run_out(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **BIG)
        for _ in range(5):
            await hub.one_job(memory="1GiB")
            await run_out(machine, await take(machine), "memory", outcome="error", error="no memory")
        assert hub.hub.dispatch.fleet.live["tank"].state == "active"
        assert hub.hub.dispatch.fleet.live["tank"].failures_ms == []


async def test_the_raised_figure_outlives_the_hub(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        small, big = await hub.machine("mars-1", **SMALL), await hub.machine("tank", **BIG)
        clock, job = hub.clock, await hub.one_job(memory="5000MiB", retries=2)
        given = await take(small)
        assert await big.claim() is None
        await run_out(small, given, "memory")
        assert await small.claim() is None
    async with running(tmp_path, clock=clock) as hub:
        small.client = big.client = hub.client
        assert await small.claim() is None
        given = await take(big)
        assert (given["job"]["id"], given["job"]["memory_mib"]) == (job, 7500)
        assert given["placed"].endswith("asking 7500 MiB of memory, as it ran out of 5000 MiB on mars-1")
        assert hub.hub.dispatch.jobs[job].losses == 1
        assert hub.hub.dispatch.jobs[job].lost_on == frozenset()
    async with running(tmp_path, clock=clock) as hub:
        big.client = hub.client
        await run_out(big, given, "memory")
        assert hub.hub.dispatch.jobs[job].demand.memory_mib == 11_250, (
            "what it had, and not what it asked first"
        )


async def test_a_job_that_a_person_tries_again_asks_for_more_too(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        small, big = await hub.machine("mars-1", **SMALL), await hub.machine("tank", **BIG)
        run = await hub.submit(pipeline(build={"memory": "5000MiB"}, lint={"memory": "10MiB"}))
        jobs = {one["name"]: one["id"] for one in (await hub.admin.get(f"/runs/{run}"))["jobs"]}
        await run_out(small, await take(small), "memory")
        await small.finish(await take(small))
        view = await hub.job(jobs["build"])
        assert view["error"] == "ran out of memory with 5000 MiB on mars-1"
        again = (await hub.admin.post(f"/runs/{run}/retry"))["id"]
        assert await small.claim() is None
        given = await take(big)
        assert (given["job"]["run"], given["job"]["memory_mib"]) == (again, 7500)
        assert given["placed"].endswith("asking 7500 MiB of memory, as it ran out of 5000 MiB on mars-1")


async def test_a_later_run_needs_more_disk_than_one_of_the_last_five_ran_out_of(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **disk(50_000))

        async def once(*, short: bool = False, peak_mib: int = 100) -> Any:
            await hub.one_job()
            given = await take(machine)
            if short:
                await run_out(machine, given, "disk", outcome="error", peak_disk_mib=peak_mib)
            else:
                await machine.finish(given, peak_disk_mib=peak_mib, gone=True)
            hub.clock.ms += 1000
            return given["job"].get("disk_mib")

        assert await once(short=True, peak_mib=4000) is None
        assert [await once() for _ in range(4)] == [5064] * 4
        assert await once() == 5064, "it is one of the last five still"
        assert await once() == 100 + 25 + 64


async def test_a_run_that_ended_well_with_less_after_it_ran_out_teaches_where_it_ran_out(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **disk(50_000))
        await hub.one_job(retries=1)
        await run_out(machine, await take(machine), "disk", peak_disk_mib=4000)
        await machine.finish(await take(machine), peak_disk_mib=100, gone=True)
        job = await hub.one_job()
        assert (await take(machine))["job"]["disk_mib"] == 5064
        view = await hub.job(job)
        assert view["recent_disk_peak_mib"] == 4000
        assert view["shortages"] == []


async def test_recent_peaks_of_memory_are_shown_and_do_not_gate(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("tank", **BIG)
        for peak_mib in (1434, 900):
            await hub.one_job(memory="2GiB")
            await machine.finish(await take(machine), peak_memory_mib=peak_mib, peak_disk_mib=40, gone=True)
        job = await hub.one_job(memory="1GiB")
        view = await hub.job(job)
        assert (view["memory_mib"], view["recent_memory_peak_mib"]) == (1024, 1434)
        assert (
            view["takes"] == "memory 1 GiB asked (recent runs up to 1.4 GiB), disk (recent runs up to 40 MiB)"
        )
        given = await take(machine)
        assert given["job"]["memory_mib"] == 1024
        await machine.finish(given, peak_memory_mib=1000)
        expected = "memory 1000 MiB of 1 GiB (recent runs up to 1.4 GiB), disk (recent runs up to 40 MiB)"
        run = await hub.admin.get(f"/runs/{view['run']}")
        assert (run["jobs"][0]["takes"], (await hub.job(job))["takes"]) == (expected, expected)


async def test_a_reader_of_the_project_is_told_where_its_job_ran_out(tmp_path: Path) -> None:
    """As of attempts: the runner served the project, whoever else it serves."""
    async with running(tmp_path) as hub:
        mine = await hub.machine("mars-1", scope={"owner": "andy"}, **SMALL)
        theirs = await hub.machine("tank", scope={"owner": "bea"}, **BIG)
        assert await theirs.claim() is None
        job = await hub.one_job(memory="2GiB", retries=1)
        await run_out(mine, await take(mine), "memory")
        assert (await take(mine))["job"]["id"] == job
        reader = await hub.token("read", owner="andy")
        view = await reader.get(f"/jobs/{job}")
        assert view["placed"].endswith("asking 3072 MiB of memory, as it ran out of 2048 MiB on mars-1")
        stranger = await hub.token("read", owner="bea")
        assert (await stranger.call("GET", f"/jobs/{job}")).status_code == 404


async def test_a_row_that_says_no_valid_shortage_fails_alone(tmp_path: Path) -> None:
    import sqlite3

    async with running(tmp_path) as hub:
        clock, broken, good = hub.clock, await hub.one_job(), await hub.one_job()
        machine = await hub.machine("tank")
    with sqlite3.connect(tmp_path / "hub.sqlite") as database:
        database.execute("UPDATE jobs SET shortages = '[{}]' WHERE id = ?", (broken,))
    database.close()
    async with running(tmp_path, clock=clock) as hub:
        machine.client = hub.client
        assert (await take(machine))["job"]["id"] == good
        await hub.settle()
        view = await hub.job(broken)
        assert (view["status"], view["shortages"]) == ("error", [])
