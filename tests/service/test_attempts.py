"""A runner works on a job: the lease as a fence, logs by offset, and every way an attempt ends."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Machine, Running, pipeline, running


async def on_a_runner(hub: Running, **spec: Any) -> tuple[Machine, dict[str, Any], int]:
    """A job that runs: its runner, the assignment, and its id."""
    machine = await hub.machine("a", max_jobs=2)
    job = await hub.one_job(**spec)
    given = await machine.claim()
    assert given is not None
    assert (await machine.start(given)).status_code == 204
    return machine, given, job


async def test_a_zombie_changes_nothing_though_the_same_runner_has_the_job_again(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, old, job = await on_a_runner(hub)
        await machine.log(old, 0, b"from the first attempt\n")
        await hub.tick(61)
        new = await machine.claim()
        assert new is not None
        assert new["job"]["attempt"] == 2
        await machine.start(new)
        expires_ms = hub.hub.dispatch.attempts[job].expires_ms
        headers = {"Lease": old["lease"]["token"]}
        answers = [
            await machine.beat(old),
            await machine.log(old, 23, b"from the grave"),
            await machine.call("PUT", f"/jobs/{job}/artifacts/x.txt", content=b"x", headers=headers),
            await machine.finish(old),
            await machine.start(old),
            await machine.call("POST", f"/jobs/{job}/release", json={"lease": old["lease"]["token"]}),
        ]
        assert [one.status_code for one in answers] == [409] * len(answers)
        assert all("the attempt is over" in one.json()["detail"] for one in answers)
        assert hub.hub.dispatch.attempts[job].expires_ms == expires_ms
        assert (await hub.admin.get(f"/jobs/{job}/artifacts"))["artifacts"] == []
        assert (await machine.finish(new)).status_code == 204
        assert (await hub.job(job))["status"] == "succeeded"
        log = await hub.admin.call("GET", f"/jobs/{job}/log?attempt=1")
        assert log.text == "from the first attempt\n"


async def test_a_lease_lasts_as_long_as_the_runner_gives_signs_of_life(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub, timeout="10h")
        for number in range(3 * 360):  # three hours, one word every 10 s
            await machine.beat(given) if number % 2 else await machine.log(given, number // 2, b"x")
            hub.clock.ms += 10_000
            hub.hub.dispatch.timers.run(hub.clock.ms)
        await hub.settle()
        view = await hub.job(job)
        assert (view["status"], view["attempt"]) == ("running", 1)
        await hub.tick(61)
        assert (await hub.job(job))["status"] == "queued"


async def test_a_renewal_that_overtakes_the_end_of_a_lease_is_watched_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        hub.clock.ms += 30_000
        await machine.beat(given)
        hub.hub.dispatch.attempts[job].expires_ms -= 30_000  # as if the beat were written, not yet known here
        await hub.tick(31)
        assert (await hub.job(job))["status"] == "running"
        await hub.tick(2)
        await hub.tick(60)
        assert (await hub.job(job))["status"] == "queued", "its timer found it, not the sweep"


async def test_a_job_that_costs_three_runners_ends_and_names_them(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machines = [await hub.machine(name) for name in ("alder", "birch", "cedar")]
        job = await hub.one_job()
        for machine in machines:
            given = await machine.claim()
            assert given is not None
            await machine.start(given)
            await machine.beat(given, memory_mib=31000)
            await hub.tick(61)
        view = await hub.job(job)
        assert view["status"] == "error"
        assert view["error"].startswith("its runner was lost 3 times (alder, birch, cedar)")
        assert (await hub.admin.get(f"/runs/{view['run']}"))["status"] == "error"


async def test_a_runner_lost_under_a_job_ranks_last_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        fast = await hub.machine("fast", facts={"speed_class": 9})
        job = await hub.one_job()
        given = await fast.claim()
        assert given is not None
        await fast.start(given)
        await hub.tick(61)
        slow = await hub.machine("slow", facts={"speed_class": 0})
        await fast.claim(running=[{"job": 999}])
        then = await slow.claim()
        assert then is not None, "nobody waits for the runner that was lost"
        assert then["job"]["id"] == job


async def test_a_finish_may_be_repeated_and_counts_once(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        assert (await machine.finish(given, "failed", exit_code=3)).status_code == 204
        assert (await machine.finish(given, "failed", exit_code=3)).status_code == 204
        assert (await machine.finish(given, "succeeded", exit_code=0)).status_code == 409
        view = await hub.job(job)
        assert (view["status"], view["exit_code"]) == ("failed", 3)


async def test_the_log_takes_each_byte_once_whatever_is_repeated_or_lost(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        random.seed(7)
        whole = bytes(random.randrange(256) for _ in range(20_000))
        have = 0
        while have < len(whole):
            at = max(0, have - random.randrange(0, 700)) if random.random() < 0.3 else have
            piece = whole[at : at + random.randrange(1, 900)]
            answer = await machine.log(given, at, piece)
            assert answer.status_code == 200
            if random.random() < 0.7:  # else the answer is lost, and the runner sends it again
                have = answer.json()["offset"]
        gap = await machine.log(given, len(whole) + 5, b"later")
        assert gap.status_code == 409
        assert gap.json()["offset"] == len(whole)
        short = await machine.finish(given, log_bytes=len(whole) + 1)
        assert short.status_code == 409, "a job is not final before its log is whole"
        assert short.json()["offset"] == len(whole)
        assert (await machine.finish(given, log_bytes=len(whole))).status_code == 204
        assert (await hub.admin.call("GET", f"/jobs/{job}/log")).content == whole


async def test_cancel_reaches_a_running_job_by_its_next_answer(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        assert (await machine.beat(given)).json() == {"cancel": False, "ttl_s": 60.0}
        run = (await hub.job(job))["run"]
        assert (await hub.admin.call("POST", f"/runs/{run}/cancel")).status_code == 204
        assert (await hub.job(job))["status"] == "canceling"
        assert (await machine.beat(given)).json()["cancel"] is True
        assert (await machine.finish(given, "canceled")).status_code == 204
        assert (await hub.job(job))["status"] == "canceled"
        assert (await hub.admin.get(f"/runs/{run}"))["status"] == "canceled"


async def test_a_canceled_job_whose_runner_stays_silent_ends_when_its_lease_does(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        _, _, job = await on_a_runner(hub)
        await hub.tick(55)
        await hub.admin.call("POST", f"/jobs/{job}/cancel")
        assert (await hub.job(job))["status"] == "canceling"
        await hub.tick(6)
        view = await hub.job(job)
        assert view["status"] == "canceled", "the cancel did not put its end off"
        assert view["attempt"] == 1


async def test_a_waiting_job_is_canceled_at_once_and_what_needs_it_with_it(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        run = await hub.submit(pipeline(build={}, test={"needs": ["build"]}))
        await hub.admin.call("POST", f"/runs/{run}/cancel")
        view = await hub.admin.get(f"/runs/{run}")
        assert view["status"] == "canceled"
        assert [job["status"] for job in view["jobs"]] == ["canceled", "canceled"]
        machine = await hub.machine("a")
        assert await machine.claim() is None


async def test_jobs_run_in_the_order_of_their_needs_and_are_skipped_after_a_failure(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        run = await hub.submit(
            pipeline(build={}, test={"needs": ["build"]}, lint={}, ship={"needs": ["test", "lint"]})
        )
        machine = await hub.machine("a")
        view = await hub.admin.get(f"/runs/{run}")
        waits = {
            job["name"]: job["waiting"]["headline"] for job in view["jobs"] if job["status"] == "blocked"
        }
        assert waits == {"test": "waits for build", "ship": "waits for test, lint"}
        ran = []
        while (given := await machine.claim()) is not None:
            ran.append(given["job"]["name"])
            hub.clock.ms += 1000
            await machine.start(given)
            await machine.finish(given, "failed" if given["job"]["name"] == "test" else "succeeded")
        assert ran == ["build", "lint", "test"]
        view = await hub.admin.get(f"/runs/{run}")
        assert [job["status"] for job in view["jobs"]] == ["succeeded", "failed", "succeeded", "skipped"]
        assert view["status"] == "failed"
        again = await hub.admin.post(f"/runs/{run}/retry")
        retried = await hub.admin.get(f"/runs/{again['id']}")
        assert retried["retry_of"] == run
        assert [(job["name"], job["status"]) for job in retried["jobs"]] == [
            ("test", "queued"),
            ("ship", "blocked"),
        ]


async def test_a_decline_passes_the_job_on_and_says_so(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", facts={"speed_class": 5})
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        body = {"lease": given["lease"]["token"], "reason": "no space left for\n the image\x1b[31m"}
        assert (await machine.call("POST", f"/jobs/{job}/decline", json=body)).status_code == 204
        assert await machine.claim() is None
        view = await hub.job(job)
        assert view["waiting"]["kind"] == "busy"
        assert view["waiting"]["runners"][0]["lacks"][0]["text"] == (
            "declined it: no space left for  the image\ufffd[31m"
        )
        other = await hub.machine("b", facts={"speed_class": 1})
        assert await other.claim() is not None


async def test_a_released_job_is_queued_again_at_once_with_no_retry_spent(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        other = await hub.machine("b")
        poll = other.waits()
        await hub.settle()
        body = {"lease": given["lease"]["token"], "reason": "shutdown"}
        await machine.call("POST", f"/jobs/{job}/release", json=body)
        assert (await poll) is not None
        view = await hub.job(job)
        assert view["attempts"][0]["ended"] == "released"
        assert view["attempts"][0]["reason"] == "shutdown"


async def test_a_failure_of_the_machinery_is_retried_as_often_as_the_pipeline_says(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub, retries=1)
        await machine.finish(given, "error", error="the workspace could not be fetched")
        assert (await hub.job(job))["status"] == "queued"
        again = await machine.claim()
        assert again is not None
        await machine.start(again)
        await machine.finish(again, "error", error="the workspace could not be fetched")
        view = await hub.job(job)
        assert (view["status"], view["error"]) == ("error", "the workspace could not be fetched")


async def test_a_machine_whose_machinery_keeps_failing_gets_no_more(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        jobs = [await hub.one_job() for _ in range(4)]
        for _ in range(3):
            given = await machine.claim()
            assert given is not None
            await machine.start(given)
            await machine.finish(given, "error", error="no space left on device")
        assert await machine.claim() is None
        view = await hub.job(jobs[3])
        assert view["status"] == "queued"
        assert "no space left on device" in view["waiting"]["runners"][0]["lacks"][0]["text"]


async def test_removing_a_runner_queues_its_job_again_and_keeps_its_name(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        assert (await hub.admin.call("DELETE", "/runners/a")).status_code == 204
        assert (await machine.beat(given)).status_code == 401
        view = await hub.job(job)
        assert view["status"] == "queued"
        assert view["attempts"][0]["runner"] == "a"
        assert (await hub.admin.call("GET", "/queue")).status_code == 200
        assert view["waiting"]["headline"] == "no runner serves andy/demo"


async def test_a_claim_that_is_written_while_its_runner_is_removed_is_undone_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        _, removal = await asyncio.gather(machine.claim(), hub.admin.call("DELETE", "/runners/a"))
        assert removal.status_code == 204
        await hub.settle()
        assert (await hub.job(job))["status"] == "queued"
        assert hub.hub.dispatch.attempts == {}


async def test_a_job_waits_a_day_and_then_ends_with_its_last_reason(tmp_path: Path) -> None:
    from hub.service import queue

    async with running(tmp_path) as hub:
        await hub.machine("a")
        job = await hub.one_job(labels=["gpu"])
        await hub.tick(24 * 3600 - 1)
        await queue.expire(hub.hub)
        assert (await hub.job(job))["status"] == "queued"
        await hub.tick(2)
        await queue.expire(hub.hub)
        view = await hub.job(job)
        assert view["status"] == "error"
        assert view["error"].startswith("no runner took it in 24 h: ")


async def test_a_draining_runner_gets_nothing_until_it_starts_anew(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        poll = machine.waits(claim_id="claim-one-1")
        await hub.settle()
        assert (
            await machine.call("POST", "/runner/drain", json={"claim_id": "claim-one-1"})
        ).status_code == 204
        assert await poll is None
        job = await hub.one_job()
        assert await machine.claim() is None
        assert (await hub.job(job))["waiting"]["headline"].startswith("no runner can take it")
        machine.offer["instance"] = "instance-after-the-restart"
        assert await machine.claim() is not None


@pytest.mark.parametrize("fault", ["before", "after"])
async def test_a_fault_around_the_write_of_a_claim_loses_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    from hub.store import attempts as store

    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        claim = store.claim

        async def failing(*args: Any) -> bool:
            if fault == "after":
                await claim(*args)
            raise OSError("the disk went away")

        monkeypatch.setattr(store, "claim", failing)
        answer = await machine.call("POST", "/claim", json={**machine.offer, "wait_s": 0})
        assert answer.status_code == 500
        assert "the disk" not in answer.text
        monkeypatch.setattr(store, "claim", claim)
        await hub.settle()
        given = await machine.claim()
        assert given is not None, "the job, or the attempt that was written after all"
        assert given["job"]["id"] == job
        assert given["job"]["attempt"] == 1
        assert (await machine.start(given)).status_code == 204
        assert (await machine.finish(given)).status_code == 204
        assert (await hub.job(job))["status"] == "succeeded"


async def test_a_claim_repeated_while_its_write_fails_is_answered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hub.store import attempts as store

    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await hub.one_job()
        claim, fail = store.claim, asyncio.Event()

        async def failing(*args: Any) -> bool:
            await fail.wait()
            raise OSError("the disk went away")

        monkeypatch.setattr(store, "claim", failing)
        body = {**machine.offer, "wait_s": 0, "claim_id": "claim-one-1"}
        first = asyncio.create_task(machine.call("POST", "/claim", json=body))
        await asyncio.sleep(0.05)
        again = asyncio.create_task(machine.call("POST", "/claim", json=body))
        await asyncio.sleep(0.05)
        monkeypatch.setattr(store, "claim", claim)
        fail.set()
        async with asyncio.timeout(10):
            assert [(await first).status_code, (await again).status_code] == [500, 204]
        await hub.settle()
        given = await machine.claim(claim_id="claim-two-2")
        assert given is not None
        assert (await machine.start(given)).status_code == 204


async def test_what_follows_a_claim_cannot_fail_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await hub.one_job()

        def broken(*topics: Any) -> None:
            raise RuntimeError("nobody can be told")

        monkeypatch.setattr(hub.hub.events, "tell", broken)
        assert await machine.claim() is not None


async def test_a_canceled_request_leaves_no_transaction_open(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine, given, job = await on_a_runner(hub)
        for number in range(30):
            call = asyncio.create_task(machine.beat(given, step=number % 3))
            await asyncio.sleep(number % 4 * 0.0005)
            call.cancel()
        assert (await machine.beat(given)).status_code == 200
        assert (await machine.finish(given)).status_code == 204
        assert (await hub.job(job))["status"] == "succeeded"
