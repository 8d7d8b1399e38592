"""Jobs that need images: names resolved at submission, and jobs that start when their image comes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Running, pipeline, running
from tests.pushing import made, point, push


def names_an_image(image: str) -> str:
    return pipeline(build={"image": image})


async def the_job(hub: Running, run: int) -> dict[str, Any]:
    found: dict[str, Any] = (await hub.admin.get(f"/runs/{run}"))["jobs"][0]
    return found


async def test_a_job_that_waits_for_an_image_starts_when_it_is_pushed_without_the_sweep(
    tmp_path: Path,
) -> None:
    image = made(1, arch="x86_64")
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", arch="x86_64", fetches_images=True)
        waiting = machine.waits()
        run = await hub.submit(names_an_image(f"cas://blake3/{image.hash}"))
        await hub.settle()
        job = await the_job(hub, run)
        assert (job["status"], job["waiting"]["kind"]) == ("queued", "nowhere")
        assert "nor does the hub" in job["waiting"]["runners"][0]["lacks"][0]["text"]
        await push(hub.admin, image, name="debian-12")
        given = await asyncio.wait_for(waiting, 5)
        assert given is not None
        assert given["placed"] == "fetches the image from the hub, idle"
        assert hub.hub.dispatch.rescued_by_sweep == 0


async def test_a_name_becomes_a_hash_when_the_run_is_submitted_and_means_it_for_ever(tmp_path: Path) -> None:
    first, second = made(1), made(2)
    async with running(tmp_path) as hub:
        await push(hub.admin, first, name="debian-12")
        run = await hub.submit(pipeline(build={"image": "debian-12", "steps": [{"run": "make"}]}))
        await push(hub.admin, second, name="debian-12")
        machine = await hub.machine("a", fetches_images=True)
        given = await machine.claim()
        assert given is not None
        assert given["job"]["images"] == [{"name": "debian-12", "hash": first.hash, "bytes": len(first.data)}]
        assert (await the_job(hub, run))["images"][0]["hash"] == first.hash


async def test_a_step_in_an_image_of_its_own_is_told_its_hash(tmp_path: Path) -> None:
    first, second = made(1), made(2)
    text = """
version: 1
sandboxes:
  debian: {image: debian-12, tier: namespace}
  verifier: {image: verifier, tier: namespace}
  twin: {image: also-debian, tier: namespace}
jobs:
  build:
    sandbox: debian
    steps:
      - run: make
      - {run: ./verify, sandbox: verifier}
      - {run: ./again, sandbox: twin}
"""
    async with running(tmp_path) as hub:
        await push(hub.admin, first, name="debian-12")
        await push(hub.admin, second, name="verifier")
        await point(hub.admin, "also-debian", first.hash)
        await hub.submit(text)
        machine = await hub.machine("a", fetches_images=True)
        given = await machine.claim()
        assert given is not None
        assert [one["hash"] for one in given["job"]["images"]] == [first.hash, second.hash]
        assert [step["image"] for step in given["job"]["steps"]] == [None, second.hash, first.hash]


@pytest.mark.parametrize("path", ["/runs", "/preview"])
async def test_a_name_that_means_nothing_is_a_fault_with_the_nearest_one(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as hub:
        await push(hub.admin, made(1), name="debian-12")
        body = {"project": "andy/demo", "pipeline": "\n" + names_an_image("debain-12")}
        answer = await hub.admin.call("POST", path, json=body)
        (fault,) = answer.json()["faults"]
        assert (answer.status_code, fault["path"], fault["line"], fault["nearest"]) == (
            422,
            "jobs.build",
            2,
            "debian-12",
        )
        assert "shunter image push" in fault["text"]


async def test_a_preview_knows_images_by_name(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        await push(hub.admin, made(1), name="debian-12")
        machine = await hub.machine("a", fetches_images=True)
        waiting = machine.waits()
        await hub.settle()
        body = {"project": "andy/demo", "pipeline": names_an_image("debian-12")}
        (job,) = (await hub.admin.post("/preview", json=body))["jobs"]
        assert job["runner"] == "a"
        waiting.cancel()


async def test_a_projects_own_name_comes_before_its_owners_and_that_before_everybodys(tmp_path: Path) -> None:
    everybodys, owners, own = made(1, 20), made(2, 20), made(3, 20)
    async with running(tmp_path) as hub:
        await push(hub.admin, everybodys, name="debian-12")
        await push(await hub.token("images", owner="andy"), owners, name="debian-12")
        await push(await hub.token("images", project="andy/demo"), own, name="debian-12")
        found = {}
        for project in ("andy/demo", "andy/other", "bea/tool"):
            job = await hub.one_job(project=project, image="debian-12")
            found[project] = (await hub.job(job))["images"][0]["hash"]
        assert found == {"andy/demo": own.hash, "andy/other": owners.hash, "bea/tool": everybodys.hash}


async def test_a_job_that_names_the_hash_of_anothers_image_is_not_given_it(tmp_path: Path) -> None:
    """Not by a runner that could fetch it, nor by one that holds it; and it is told nothing of it."""
    image = made(1, arch="aarch64")
    async with running(tmp_path) as hub:
        await push(await hub.token("images", owner="andy"), image)
        holder = await hub.machine("holder", arch="aarch64", images=[image.hash])
        fetcher = await hub.machine("fetcher", arch="x86_64", fetches_images=True)
        theirs = await hub.one_job(project="bea/tool", image=f"cas://blake3/{image.hash}")
        invented = await hub.one_job(project="bea/tool", image=f"cas://blake3/{'0' * 64}")
        assert await holder.claim() is None
        assert await fetcher.claim() is None
        jobs = [await hub.job(one) for one in (theirs, invented)]
        told = [
            str(one["waiting"]["runners"]).replace(image.hash[:12], "").replace("0" * 12, "") for one in jobs
        ]
        assert told[0].count("lacks") == told[1].count("lacks")
        assert "aarch64" not in told[0]
        assert jobs[0]["images"][0]["bytes"] is None
        mine = await hub.one_job(project="andy/demo", image=f"cas://blake3/{image.hash}")
        given = await holder.claim()
        assert given is not None
        assert given["job"]["id"] == mine
        await push(await hub.token("images", owner="bea"), image)
        freed = await hub.machine("freed", arch="aarch64", fetches_images=True)
        given = await freed.claim()
        assert given is not None
        assert given["job"]["id"] == theirs


async def test_a_job_whose_image_is_removed_is_told_to_push_it(tmp_path: Path) -> None:
    image = made(1)
    async with running(tmp_path) as hub:
        await push(hub.admin, image, name="debian-12")
        machine = await hub.machine("a", fetches_images=True)
        run = await hub.submit(names_an_image("debian-12"))
        await hub.admin.call("POST", f"/runs/{run}/cancel")
        await hub.admin.call("DELETE", "/images/names/debian-12")
        assert (await hub.admin.call("DELETE", f"/images/{image.hash}")).status_code == 204
        again = (await hub.admin.post(f"/runs/{run}/retry"))["id"]
        assert await machine.claim() is None
        assert "nor does the hub" in str((await the_job(hub, again))["waiting"])
        waiting = machine.waits()
        await push(hub.admin, image)
        assert await asyncio.wait_for(waiting, 5) is not None


async def test_the_last_use_of_an_image_is_when_a_run_asked_for_it(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        await push(hub.admin, made(1), name="debian-12")
        assert (await hub.admin.get("/images"))["images"][0]["used_at"] is None
        await hub.tick(60)
        await hub.submit(names_an_image("debian-12"))
        await hub.settle()
        used = (await hub.admin.get("/images"))["images"][0]["used_at"]
        assert used == (await hub.admin.get("/runs"))["runs"][0]["created_at"]
        clock = hub.clock
    async with running(tmp_path, clock) as hub:
        assert (await hub.admin.get("/images"))["images"][0]["used_at"] == used
