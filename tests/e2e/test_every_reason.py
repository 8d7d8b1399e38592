"""Every kind of waiting, provoked on a live hub with runners of many kinds, and read everywhere.

The hub serves a real port; its clock is moved by hand. The command line is a process of its own.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from tests.hubs import Machine, Running, pipeline, running

BIG = {"memory_mib": 32_000, "cpus": 8, "facts": {"memory_used_mib": 3_000, "speed": 100, "speed_class": 3}}


@asynccontextmanager
async def served(hub: Running) -> AsyncIterator[str]:
    """The hub on a port of this machine; its address."""
    config = uvicorn.Config(hub.app, host="127.0.0.1", port=0, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def command(url: str, token: str, *words: str) -> str:
    """What a command prints. It must end well."""
    given = ["-m", "hub.cli.main", *words, "--hub", url, "--token", token]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *given, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    return out.decode()


async def page(url: str, token: str, path: str) -> str:
    """The text of a page for somebody who is signed in."""
    async with httpx.AsyncClient(base_url=url, cookies={"shunter_session": token}) as client:
        return unescape((await client.get(path)).raise_for_status().text)


class Town:
    """A hub with six runners, each for the projects of one owner, and jobs that wait for all reasons."""

    def __init__(self, hub: Running, url: str) -> None:
        self.hub, self.url = hub, url
        self.runs: dict[str, int] = {}

    async def build(self) -> None:
        hub = self.hub
        self.busy = await self._machine("earth-9", "full", max_jobs=1)
        self.slow = await self._machine("tank", "fast", facts={"speed": 50, "speed_class": 1})
        self.fast = await self._machine("mars-1", "fast")
        self.arm = await self._machine("pi-4", "arm", arch="aarch64", memory_mib=4_096)
        self.quiet = await self._machine("morpheus", "quiet")
        self.there = await self._machine("zion", "free", max_jobs=2)
        self.runs["none"] = await self._run("nobody", build={})
        await self.quiet.claim()
        self.runs["silent"] = await self._run("quiet", build={})
        await hub.tick(31)
        await self.arm.claim()
        self.runs["nowhere"] = await self._run("arm", build={"arch": "x86_64", "memory": "8GiB"})
        await self._run("full", lint={"concurrency": {"group": "deploy"}})
        given = await self.busy.claim()
        assert given is not None
        await self.busy.start(given)
        self.runs["group"] = await self._run("full", deploy={"concurrency": {"group": "deploy"}})
        self.runs["busy"] = await self._run("full", build={})
        self.runs["needs"] = await self._run("full", lint={}, build={"needs": ["lint"]})
        await self.there.claim()
        self.runs["turn"] = await self._run("free", build={})
        await self.fast.claim()
        self.runs["held"] = await self._run("fast", build={})
        assert await self.slow.claim() is None
        await hub.settle()

    async def _machine(self, name: str, owner: str, **offer: Any) -> Machine:
        return await self.hub.machine(name, scope={"owner": owner}, **{**BIG, "arch": "x86_64", **offer})

    async def _run(self, owner: str, **jobs: dict[str, Any]) -> int:
        return await self.hub.submit(pipeline(**jobs), project=f"{owner}/demo")

    async def waiting(self, kind: str) -> dict[str, Any]:
        """What the job of this kind is told, by the API."""
        [*_, job] = (await self.hub.admin.get(f"/runs/{self.runs[kind]}"))["jobs"]
        told: dict[str, Any] = job["waiting"]
        return told


HEADLINES = {
    "needs": "waits for lint",
    "group": "waits for run 4 (group deploy, 1 at a time)",
    "none": "no runner serves nobody/demo",
    "held": "held for mars-1 (speed class 3), 15 s left",
    "turn": "next in line on zion",
    "busy": "waits for room: earth-9 runs 1 of 1 jobs",
    "silent": "cannot tell: 1 of 1 runner that could take it was not heard from"
    " (this is not a full fleet: check the runners)",
    "nowhere": "no runner can take it: 1 runner; nearest is pi-4, which is aarch64",
}


async def test_every_reason_reads_the_same_on_page_api_and_command_line(tmp_path: Path) -> None:
    async with running(tmp_path) as hub, served(hub) as url:
        town = Town(hub, url)
        await town.build()
        for kind, expected in HEADLINES.items():
            told = await town.waiting(kind)
            assert told["kind"] == kind
            headline = told["headline"]
            assert headline.startswith(
                expected.format(other=4).replace("were", "was" if kind == "silent" else "were")
            )
            run = town.runs[kind]
            shown = await command(url, hub.admin.token, "run", "view", str(run))
            assert f"waiting: {headline}\n" in shown
            assert headline in await page(url, hub.admin.token, f"/runs/{run}")
            for runner in told["runners"]:
                for lack in runner["lacks"]:
                    assert lack["remedy"]["text"]
        nowhere = await town.waiting("nowhere")
        shown = await command(url, hub.admin.token, "run", "view", str(town.runs["nowhere"]), "-v")
        for remedy in nowhere["mend"]:
            assert remedy["text"] in shown


async def test_fleet_and_queue_and_preview_say_the_same_of_the_same_hub(tmp_path: Path) -> None:
    async with running(tmp_path) as hub, served(hub) as url:
        town = Town(hub, url)
        await town.build()
        token = hub.admin.token
        queue = await command(url, token, "queue")
        for kind in HEADLINES.keys() - {"needs"}:
            assert (await town.waiting(kind))["headline"] in queue
        fleet = await command(url, token, "fleet")
        held = (await hub.admin.get(f"/runs/{town.runs['held']}"))["jobs"][0]["id"]
        assert f"last awaited for job {held} " in fleet
        for name in ("earth-9", "tank", "mars-1", "pi-4", "morpheus", "zion"):
            assert name in fleet
        file = tmp_path / "ci.yaml"
        file.write_text(pipeline(one={}, two={}))
        before = len((await hub.admin.get("/runs"))["runs"])
        previewed = await command(url, token, "preview", str(file), "--project", "free/demo")
        assert "zion" in previewed
        beside_the_queued = "needs no image, running 1 other job, speed 100 (class 3)"
        assert beside_the_queued in previewed
        assert "runs 2 of 2 jobs" in previewed, "the second of the batch does not go to the same slot"
        assert len((await hub.admin.get("/runs"))["runs"]) == before, "nothing is queued"


async def test_a_held_job_goes_to_the_runner_it_was_held_for_and_says_that_it_paid(tmp_path: Path) -> None:
    async with running(tmp_path) as hub, served(hub) as url:
        town = Town(hub, url)
        await town.build()
        await hub.tick(6)
        given = await town.fast.claim()
        assert given is not None
        await town.fast.start(given)
        compared = await hub.admin.get(f"/jobs/{given['job']['id']}/placement")
        assert compared["waited"] == "held 6 s for mars-1, which took it"
        assert compared["wait_paid"] is True
        assert compared["margin"] == "ahead of tank: speed class 3 against 1"
        run = str(town.runs["held"])
        assert compared["waited"] in await command(url, hub.admin.token, "run", "view", run, "-v")
        assert compared["waited"] in await page(url, hub.admin.token, f"/runs/{run}?job={given['job']['id']}")
        assert "took it" in await command(url, hub.admin.token, "fleet")
        runners = (await hub.admin.get("/fleet"))["runners"]
        awaited = {one["name"]: one["last_awaited"] for one in runners}
        assert awaited["mars-1"]["took"] is True
        assert awaited["tank"] is None
