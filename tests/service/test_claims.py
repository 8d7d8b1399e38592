"""Claims through the real routes: who gets what, when, and what the sentence says."""

import asyncio
from pathlib import Path

from hub.dispatch.attempts import LiveAttempt, OpenClaim
from hub.service import claims
from hub.service.access import Principal
from hub.wire.claim import Claim
from tests.hubs import Machine, Running, pipeline, running

IMAGE = "a" * 64
HELD = f"cas://blake3/{IMAGE}"


async def pair(hub: Running, **better: object) -> tuple[Machine, Machine]:
    """A runner that holds the image, and one that could take the job too but is slower."""
    holder = await hub.machine("holder", images=[IMAGE], facts={"speed": 100, "speed_class": 3}, **better)
    other = await hub.machine("other", images=[IMAGE], facts={"speed": 80, "speed_class": 2})
    return holder, other


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


async def test_a_waiting_better_runner_gets_the_job_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        holder, other = await pair(hub)
        polls = [other.waits(), holder.waits()]
        await hub.settle()
        await hub.one_job(image=HELD)
        given = await polls[1]
        assert given is not None
        assert given["placed"] == "holds the image, idle, speed 100 (class 3)"
        assert not polls[0].done()
        await hub.client.aclose()


async def test_a_job_waits_for_a_better_runner_that_polls_and_goes_to_any_after_15_s(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        holder, other = await pair(hub)
        assert await holder.claim() is None
        poll = other.waits()
        await hub.settle()
        job = await hub.one_job(image=HELD)
        await hub.tick(4)
        view = await hub.job(job)
        assert view["waiting"]["headline"] == "held for holder (speed class 3), 11 s left"
        assert not poll.done()
        await hub.tick(5)
        assert await holder.claim(wait_s=0) is not None, "the better runner came in time"
        poll.cancel()


async def test_the_hold_ends_after_15_s_and_the_hub_offers_the_job_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        holder, other = await pair(hub)
        poll = other.waits()
        await hub.settle()
        await holder.claim()
        await hub.one_job(image=HELD)
        for _ in range(2):
            await hub.tick(7)
            hub.hub.dispatch.fleet.live["holder"].polled_ms = hub.clock.ms  # it polls and never takes
        assert not poll.done()
        await hub.tick(1)
        given = await poll
        assert given is not None
        assert (
            given["placed"]
            == "holds the image, idle, speed 80 (class 2), after 15 s held for a better runner"
        )


async def test_a_hold_survives_a_restart_of_the_hub(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        holder, other = await pair(hub)
        await holder.claim()
        job = await hub.one_job(image=HELD)
        assert await other.claim() is None
        clock = hub.clock
    clock.ms += 8_000
    async with running(tmp_path, clock=clock) as hub:
        holder.client = other.client = hub.client
        await holder.claim(max_jobs=1, running=[{"job": 999, "memory_mib": 1}])
        poll = other.waits()
        await hub.settle()
        await hub.tick(7)
        given = await poll
        assert given is not None
        assert given["job"]["id"] == job


async def test_a_lost_answer_leads_to_the_same_job_and_never_to_a_second(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=1)
        first, second = await hub.one_job(), await hub.one_job()
        given = await machine.claim(claim_id="claim-one-1")
        assert given is not None
        again = await machine.claim(claim_id="claim-one-1")
        assert again == given, "the same id gets the same attempt"
        other_id = await machine.claim(claim_id="claim-two-2")
        assert other_id == given, "an attempt it never heard of is told before any other"
        await hub.tick(31)
        view = await hub.job(first)
        assert view["status"] == "queued"
        assert view["attempts"][0]["ended"] == "not delivered"
        assert view["attempts"][0]["reason"] == "a's claim was not confirmed; queued again"
        assert (await machine.start(given)).status_code == 409
        then = await machine.claim(claim_id="claim-three")
        assert then is not None
        assert then["job"]["id"] == first, "its place in the queue was kept"
        assert (await hub.job(second))["status"] == "queued"


async def test_an_undelivered_claim_spends_no_retry(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        for number in range(5):
            machine.offer["instance"] = f"instance-{number}"
            assert await machine.claim(claim_id=f"claim-no-{number}") is not None
            await hub.tick(31)
        view = await hub.job(job)
        assert view["status"] == "queued"
        assert view["error"] is None


async def test_a_runner_that_does_not_start_jobs_gets_no_more_after_the_second(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("wedged")
        await hub.one_job()
        for number in range(2):
            given = await machine.claim(claim_id=f"claim-no-{number}")
            assert given is not None
            await hub.tick(5)
            lives = {"job": given["job"]["id"], "lease": given["lease"]["token"], "state": "preparing"}
            assert await machine.claim(claim_id=f"polls-on-{number}", running=[lives], max_jobs=1) is None
            await hub.tick(26)
        view = await hub.admin.get("/runners/wedged")
        assert view["state"] == "quarantined"
        assert view["state_reason"] == "it does not start jobs (2 in a row were not confirmed)"
        assert await machine.claim() is None
        await hub.admin.call("PATCH", "/runners/wedged", json={"state": "active"})
        assert await machine.claim() is not None


async def test_a_new_process_that_does_not_list_a_job_has_lost_it_now(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        machine.offer["instance"] = "instance-of-a-new-life"
        again = await machine.claim()
        assert again is not None
        assert again["job"]["attempt"] == 2
        view = await hub.job(job)
        assert view["attempts"][0]["ended"] == "lost"
        assert view["attempts"][0]["reason"] == "its runner was started anew"
        assert (await machine.beat(given)).status_code == 409


async def test_of_two_processes_with_one_token_the_newer_is_served_and_the_older_told(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        older = await hub.machine("a", max_jobs=2)
        job = await hub.one_job()
        given = await older.claim()
        assert given is not None
        await older.start(given)
        runs = {"job": job, "lease": given["lease"]["token"]}
        open_poll = older.client
        waiting = asyncio.create_task(
            older.call("POST", "/claim", json={**older.offer, "wait_s": 20, "running": [runs]})
        )
        await hub.settle()
        newer = Machine(open_poll, older.token, "a", instance="instance-newer")
        assert await newer.claim() is None
        answer = await waiting
        assert answer.status_code == 409
        assert "newer process uses this token" in answer.json()["detail"]
        assert (await older.beat(given)).status_code == 200, "what the older runs goes on by its lease"
        assert len((await hub.admin.get("/runners/a"))["instances"]) == 2


async def test_ten_jobs_do_not_wait_for_one_free_slot(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        holder = await hub.machine("holder", images=[IMAGE], max_jobs=1, facts={"speed_class": 5})
        assert await holder.claim() is None
        others = [
            await hub.machine(f"a{number}", images=[IMAGE], facts={"speed_class": 1}) for number in range(5)
        ]
        for _ in range(10):
            await hub.one_job(image=HELD)
        taken = [given["job"]["id"] for one in others if (given := await one.claim()) is not None]
        assert len(taken) == 5
        first = await holder.claim()
        assert first is not None
        assert first["job"]["id"] < min(taken), "the first in the queue was kept for the better runner"


async def test_sixty_waiting_runners_take_a_burst_without_the_sweep(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machines = [await hub.machine(f"m{number}") for number in range(60)]
        polls = [machine.waits() for machine in machines]
        await hub.settle()
        run = await hub.submit(_many(100))
        first = [(machine, await poll) for machine, poll in zip(machines, polls, strict=True)]
        done = 0
        left = [(machine, given) for machine, given in first if given is not None]
        assert len(left) == 60
        while left:
            machine, given = left.pop()
            await machine.start(given)
            assert (await machine.finish(given)).status_code == 204
            done += 1
            if (then := await machine.claim()) is not None:
                left.append((machine, then))
        assert done == 100
        assert (await hub.admin.get(f"/runs/{run}"))["status"] == "succeeded"
        assert hub.hub.dispatch.rescued_by_sweep == 0
        assert hub.hub.dispatch.sweep() == 0


def _many(count: int) -> str:
    return pipeline(**{f"job-{number}": {} for number in range(count)})


async def test_the_sweep_finds_what_a_dropped_wake_up_left_and_counts_it(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        poll = machine.waits()
        await hub.settle()
        offer = hub.hub.dispatch._offer
        hub.hub.dispatch._offer = lambda job_id: False  # type: ignore[method-assign] # a lost wake-up
        await hub.one_job()
        hub.hub.dispatch._offer = offer  # type: ignore[method-assign]
        assert not poll.done()
        assert hub.hub.dispatch.sweep() == 1
        assert await poll is not None
        assert hub.hub.dispatch.rescued_by_sweep == 1
        hub.rescued = 1


async def test_room_comes_back_when_the_runner_says_that_the_sandbox_is_gone(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", max_jobs=2, memory_mib=14336, reserve_mib=4096)
        first, second, third = [await hub.one_job(memory="4GiB") for _ in range(3)]
        one = await machine.claim()
        assert one is not None
        await machine.start(one)
        two = await machine.claim(running=[_lives(one)])
        assert two is not None
        await machine.start(two)
        await machine.finish(one)
        still = await machine.claim(running=[_lives(one) | {"state": "ending"}, _lives(two)])
        assert still is None, "the sandbox of the first is still there"
        then = await machine.claim(running=[_lives(two)])
        assert then is not None
        assert [one["job"]["id"], two["job"]["id"], then["job"]["id"]] == [first, second, third]


def _lives(given: dict[str, object]) -> dict[str, object]:
    job, lease = given["job"], given["lease"]
    assert isinstance(job, dict)
    assert isinstance(lease, dict)
    return {"job": job["id"], "lease": lease["token"], "memory_mib": job["memory_mib"]}


async def test_the_next_job_of_a_run_goes_to_the_better_runner_that_has_just_ended_the_one_before(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as hub:
        holder = await hub.machine("holder", images=[IMAGE], facts={"speed": 100, "speed_class": 3})
        other = await hub.machine("other", fetches_images=True, images=[IMAGE], facts={"speed_class": 1})
        run = await hub.submit(pipeline(build={"image": HELD}, test={"image": HELD, "needs": ["build"]}))
        build = await holder.claim()
        assert build is not None
        await holder.start(build)
        poll = other.waits()
        await hub.tick(40)
        await holder.beat(build)
        assert (await holder.finish(build, gone=True)).status_code == 204
        await hub.settle()
        test = (await hub.admin.get(f"/runs/{run}"))["jobs"][1]
        assert test["waiting"]["headline"].startswith("held for holder")
        assert not poll.done()
        given = await holder.claim()
        assert given is not None
        assert given["job"]["id"] == test["id"]
        assert given["placed"].startswith("holds the image, idle, speed 100 (class 3)")
        poll.cancel()


async def test_a_hold_that_a_more_urgent_job_takes_over_frees_the_other_for_the_same_claim(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as hub:
        holder, other = await pair(hub)
        await holder.claim()
        assert await other.claim() is None
        patient = await hub.one_job(image=HELD)
        assert await other.claim() is None, "it is held for the better runner"
        urgent = await hub.submit(pipeline(build={"image": HELD}), priority=10)
        given = await other.claim()
        assert given is not None, "one slot is awaited by one job, the first in line"
        assert given["job"]["id"] == patient
        held = (await hub.admin.get(f"/runs/{urgent}"))["jobs"][0]["waiting"]
        assert held["kind"] == "held"
        assert await holder.claim() is not None


async def test_a_claim_whose_client_left_gets_no_job(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        await hub.machine("a")
        gone = asyncio.Event()
        message = Claim(tiers=["process"], wait_s=20)
        who = Principal(name="a", kind="runner")
        poll = asyncio.create_task(claims.claim(hub.hub, who, message, gone=gone))
        await hub.settle()
        assert (await hub.admin.get("/runners/a"))["waiting"]
        gone.set()
        assert await poll is None
        assert not (await hub.admin.get("/runners/a"))["waiting"]
        job = await hub.one_job()
        assert (await hub.job(job))["status"] == "queued"


async def test_a_runner_that_is_removed_while_its_claim_is_read_is_not_there_any_more(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        await machine.claim()
        live = hub.hub.dispatch.fleet.live["a"]
        given: asyncio.Future[LiveAttempt | None] = asyncio.get_running_loop().create_future()
        claim = OpenClaim(runner="a", instance=None, claim_id=None, address="", answer=given)
        assert (await hub.admin.call("DELETE", "/runners/a")).status_code == 204
        hub.hub.dispatch.open(live, claim)
        assert await given is None
        job = await hub.one_job()
        assert (await hub.job(job))["waiting"]["kind"] == "none"
