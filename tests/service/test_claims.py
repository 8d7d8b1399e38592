"""Claims through the real routes: who gets what, when, and what the sentence says."""

from pathlib import Path

from tests.hubs import running

IMAGE = "a" * 64


async def test_a_job_is_claimed_confirmed_and_finished_and_says_why_it_ran_there(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9", facts={"speed": 100, "speed_class": 3})
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        assert given["job"]["id"] == job
        assert given["placed"] == "needs no image, idle, speed 100 (class 3)"
        assert (await machine.start(given)).status_code == 204
        assert (await machine.finish(given, exit_code=0)).status_code == 204
        view = await hub.job(job)
        assert (view["status"], view["placed"]) == ("succeeded", given["placed"])
        run = await hub.admin.get(f"/runs/{view['run']}")
        assert run["status"] == "succeeded"
        assert hub.hub.dispatch.rescued_by_sweep == 0
