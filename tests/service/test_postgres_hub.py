"""The whole hub on PostgreSQL: the same job, the same sentences, and the same memory over a restart."""

from pathlib import Path

import pytest

from tests.hubs import pipeline, running
from tests.postgres import postgres_cluster, postgres_url

__all__ = ["postgres_cluster", "postgres_url"]

pytestmark = pytest.mark.postgres


async def test_jobs_are_claimed_run_and_remembered_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    async with running(tmp_path, database=postgres_url) as hub:
        machine = await hub.machine("a", facts={"speed": 100, "speed_class": 3})
        run = await hub.submit(pipeline(build={}, test={"needs": ["build"]}), title="50 % of \\it_")
        given = await machine.claim(claim_id="claim-one-1")
        assert given is not None
        assert given["placed"] == "needs no image, idle, speed 100 (class 3)"
        clock = hub.clock
    async with running(tmp_path, database=postgres_url, clock=clock) as hub:
        machine.client = hub.client
        assert await machine.claim(claim_id="claim-one-1") == given
        await machine.start(given)
        await machine.log(given, 0, b"hello\n")
        assert (await machine.finish(given, log_bytes=6)).status_code == 204
        then = await machine.claim(claim_id="claim-two-2")
        assert then is not None
        await machine.start(then)
        await machine.finish(then, "failed", exit_code=1)
        view = await hub.admin.get(f"/runs/{run}")
        assert (view["status"], [job["status"] for job in view["jobs"]]) == (
            "failed",
            ["succeeded", "failed"],
        )
        again = await hub.admin.post(f"/runs/{run}/retry")
        listed = (await hub.admin.get("/runs?search=50 %25"))["runs"]
        assert [one["id"] for one in listed] == [again["id"], run]
        held = await hub.admin.call("POST", f"/runs/{again['id']}/cancel")
        assert held.status_code == 204


async def test_a_runner_is_removed_and_its_job_queued_again_on_postgresql(
    tmp_path: Path, postgres_url: str
) -> None:
    async with running(tmp_path, database=postgres_url) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        await hub.admin.call("DELETE", "/runners/a")
        view = await hub.job(job)
        assert (view["status"], view["attempts"][0]["ended"]) == ("queued", "runner removed")
