"""A real hub for tests: its own SQLite file, its HTTP served in-process, and a clock that is moved.

`Api` speaks as a person or program, `Machine` as a runner that only polls: both through the real
routes. Nothing here sleeps for a timer: `Hub.tick` moves the clock and carries out what fell due.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette

from hub import app as hub_app
from hub.config import Config
from hub.service import tokens
from hub.service.hub import Hub

START_MS = 1_800_000_000_000


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms


class Api:
    """Calls with one token. `path` is below /api/v1 unless it begins with two slashes."""

    def __init__(self, client: httpx.AsyncClient, token: str) -> None:
        self.client = client
        self.token = token

    async def call(self, method: str, path: str, **more: Any) -> httpx.Response:
        url = path[1:] if path.startswith("//") else "/api/v1" + path
        headers = {"Authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        return await self.client.request(method, url, headers=headers, **more)

    async def get(self, path: str, **more: Any) -> Any:
        return await self._json("GET", path, **more)

    async def post(self, path: str, **more: Any) -> Any:
        return await self._json("POST", path, **more)

    async def _json(self, method: str, path: str, **more: Any) -> Any:
        answer = await self.call(method, path, **more)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None


class Machine(Api):
    """A runner that polls. What it says of itself is in `offer`."""

    def __init__(self, client: httpx.AsyncClient, token: str, name: str, **offer: Any) -> None:
        super().__init__(client, token)
        self.name = name
        self.offer: dict[str, Any] = {
            "tiers": ["process", "namespace"],
            "instance": f"instance-{name}",
            **offer,
        }

    async def claim(self, wait_s: float = 0, **more: Any) -> dict[str, Any] | None:
        """One claim: the assignment, or None."""
        answer = await self.call("POST", "/claim", json={**self.offer, "wait_s": wait_s, **more})
        if answer.status_code == 204:
            return None
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def waits(self, **more: Any) -> "asyncio.Task[dict[str, Any] | None]":
        """An open claim, as a task."""
        return asyncio.create_task(self.claim(wait_s=20, **more))

    async def start(self, given: dict[str, Any], phase: str = "running") -> httpx.Response:
        body = {"lease": given["lease"]["token"], "phase": phase}
        return await self.call("POST", f"/jobs/{given['job']['id']}/start", json=body)

    async def finish(self, given: dict[str, Any], outcome: str = "succeeded", **more: Any) -> httpx.Response:
        body = {"lease": given["lease"]["token"], "outcome": outcome, **more}
        return await self.call("POST", f"/jobs/{given['job']['id']}/finish", json=body)

    async def beat(self, given: dict[str, Any], **more: Any) -> httpx.Response:
        body = {"lease": given["lease"]["token"], **more}
        return await self.call("POST", f"/jobs/{given['job']['id']}/heartbeat", json=body)

    async def log(self, given: dict[str, Any], offset: int, piece: bytes) -> httpx.Response:
        return await self.call(
            "POST",
            f"/jobs/{given['job']['id']}/log?offset={offset}",
            content=piece,
            headers={"Lease": given["lease"]["token"]},
        )


@dataclass
class Running:
    """A hub that runs."""

    app: Starlette
    hub: Hub
    clock: ManualClock
    client: httpx.AsyncClient
    admin: Api
    rescued: int = 0  # jobs that only the sweep may find, in a test that drops wake-ups on purpose

    async def tick(self, seconds: float = 0) -> None:
        """Move the clock, carry out what fell due, and let everything settle."""
        self.clock.ms += int(seconds * 1000)
        self.hub.dispatch.timers.run(self.clock.ms)
        await self.settle()

    async def settle(self) -> None:
        """Let every call that is under way go as far as it can."""
        for _ in range(3):
            await asyncio.sleep(0.01)
            await self.hub.dispatch.tasks.settled()

    async def machine(self, name: str, **offer: Any) -> Machine:
        """Register a runner. `scope` and `admin_labels` go to the registration, the rest is its offer."""
        body = {"name": name, "scope": offer.pop("scope", {}), "labels": offer.pop("admin_labels", [])}
        made = await self.admin.post("/runners", json=body)
        return Machine(self.client, made["token"], name, **offer)

    async def token(self, kind: str, **scope: Any) -> Api:
        made = await self.admin.post("/tokens", json={"name": kind, "kind": kind, "scope": scope})
        return Api(self.client, made["token"])

    async def submit(self, pipeline: str, project: str = "andy/demo", **more: Any) -> int:
        """Submit a pipeline; the run's id."""
        made = await self.admin.post("/runs", json={"project": project, "pipeline": pipeline, **more})
        return int(made["id"])

    async def one_job(self, project: str = "andy/demo", **spec: Any) -> int:
        """Submit a run of one job; the job's id."""
        run = await self.submit(pipeline(build=spec), project=project)
        view = await self.admin.get(f"/runs/{run}")
        return int(view["jobs"][0]["id"])

    async def job(self, job_id: int) -> dict[str, Any]:
        found: dict[str, Any] = await self.admin.get(f"/jobs/{job_id}")
        return found


def pipeline(**jobs: dict[str, Any]) -> str:
    """A pipeline file (JSON is YAML) whose jobs run `true` unless they say otherwise."""
    filled = {name.replace("_", "-"): {"steps": ["true"], **spec} for name, spec in jobs.items()}
    sandboxes: dict[str, Any] = {}
    for name, spec in filled.items():
        sandbox = {key: spec.pop(key) for key in ("image", "arch", "memory", "cpus", "disk") if key in spec}
        tier = "namespace" if "image" in sandbox else "process"
        sandboxes[name] = {"tier": tier, **sandbox}
        spec["sandbox"] = name
    return json.dumps({"version": 1, "sandboxes": sandboxes, "jobs": filled})


@asynccontextmanager
async def running(folder: Path, clock: ManualClock | None = None, **config: Any) -> AsyncIterator[Running]:
    """A hub on `folder`; a second one on the same folder is the same hub after a restart."""
    clock = clock or ManualClock()
    hub = await hub_app.start(Config(data=folder, **config), clock)
    app = hub_app.build(hub)
    file = await tokens.first_admin(hub) or folder / tokens.ADMIN_TOKEN_FILE
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://hub") as client:
        running = Running(app, hub, clock, client, Api(client, file.read_text().strip()))
        try:
            yield running
            await running.settle()
            hub.dispatch.sweep()
            assert hub.dispatch.rescued_by_sweep == running.rescued, "a wake-up was missed"
        finally:
            await hub_app.stop(hub)
