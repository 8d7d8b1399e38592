"""A hub in a storm of random claims, jobs, holds, ends and losses keeps its promises."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Machine, Running, pipeline, running

IMAGE = "cas://blake3/" + "a" * 64


class Storm:
    """What is open, and what came of it."""

    def __init__(self, hub: Running, seed: int) -> None:
        self.hub = hub
        self.rng = random.Random(seed)
        self.machines: list[Machine] = []
        self.polls: dict[str, asyncio.Task[dict[str, Any] | None]] = {}
        self.works: dict[str, list[dict[str, Any]]] = {}
        self.attempts: set[tuple[int, int]] = set()

    async def begin(self) -> None:
        for number in range(4):
            name = f"m{number}"
            images = ["a" * 64] if number % 2 else []
            facts = {"speed_class": self.rng.randrange(4)}
            slots = self.rng.choice([1, 1, 2])
            self.machines.append(
                await self.hub.machine(name, images=images, max_jobs=slots, facts=facts, memory_mib=16384)
            )
            self.works[name] = []

    async def step(self) -> None:
        machine = self.rng.choice(self.machines)
        match self.rng.randrange(10):
            case 0 | 1:
                await self.submit()
            case 2 | 3:
                await self.take(machine, await machine.claim(running=self.living(machine)))
            case 4:
                if machine.name not in self.polls:
                    self.polls[machine.name] = machine.waits(running=self.living(machine))
                    await asyncio.sleep(0)
            case 5 | 6 | 7:
                await self.end(machine)
            case 8:
                await self.hub.tick(self.rng.choice([0.5, 3, 8, 16]))
            case _:
                await self.change(machine)
        await self.collect()

    async def submit(self) -> None:
        spec: dict[str, Any] = {}
        if self.rng.random() < 0.5:
            spec["image"] = IMAGE
        if self.rng.random() < 0.3:
            spec["memory"] = "4GiB"
        if self.rng.random() < 0.2:
            spec["concurrency"] = {"group": "g", "limit": 1}
        jobs = {"a": spec, "b": {"needs": ["a"]}} if self.rng.random() < 0.3 else {"a": spec}
        await self.hub.submit(pipeline(**jobs), priority=self.rng.choice([0, 0, 10]))

    def living(self, machine: Machine) -> list[dict[str, Any]]:
        return [
            {"job": given["job"]["id"], "lease": given["lease"]["token"]}
            for given in self.works[machine.name]
        ]

    async def take(self, machine: Machine, given: dict[str, Any] | None) -> None:
        if given is None:
            return
        if (await machine.start(given)).status_code != 204:
            return
        attempt = (given["job"]["id"], given["job"]["attempt"])
        assert attempt not in self.attempts, "an attempt is started once"
        self.attempts.add(attempt)
        self.works[machine.name].append(given)
        assert len(self.works[machine.name]) <= machine.offer["max_jobs"], "no more than it has slots"

    async def end(self, machine: Machine) -> None:
        if not self.works[machine.name]:
            return
        given = self.works[machine.name].pop(0)
        how = self.rng.choice(["finish", "finish", "decline", "release"])
        if how == "finish":
            outcome = self.rng.choice(["succeeded", "failed"])
            answer = await machine.finish(given, outcome, gone=self.rng.random() < 0.5)
        else:
            body = {"lease": given["lease"]["token"], "reason": "the storm"}
            answer = await machine.call("POST", f"/jobs/{given['job']['id']}/{how}", json=body)
        assert answer.status_code in (204, 409), answer.text

    async def change(self, machine: Machine) -> None:
        state = self.rng.choice(["active", "active", "draining"])
        await self.hub.admin.call("PATCH", f"/runners/{machine.name}", json={"state": state})
        for given in self.works[machine.name]:
            await machine.beat(given)

    async def collect(self) -> None:
        await self.hub.settle()
        for machine in self.machines:
            poll = self.polls.get(machine.name)
            if poll is not None and poll.done():
                del self.polls[machine.name]
                await self.take(machine, poll.result())

    async def calm(self) -> None:
        """Everything that fits somewhere ends once the storm is over."""
        for _ in range(400):
            for machine in self.machines:
                await self.hub.admin.call("PATCH", f"/runners/{machine.name}", json={"state": "active"})
                for given in self.works[machine.name]:
                    await machine.finish(given)
                self.works[machine.name].clear()
                if machine.name not in self.polls:
                    await self.take(machine, await machine.claim())
            await self.hub.tick(5)
            await self.collect()
            runs = (await self.hub.admin.get("/runs?limit=200"))["runs"]
            if all(run["status"] in ("succeeded", "failed", "error") for run in runs):
                return
        raise AssertionError("some runs never end")


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_breaks_no_promise_and_everything_ends_after_it(tmp_path: Path, seed: int) -> None:
    async with running(tmp_path) as hub:
        storm = Storm(hub, seed)
        await storm.begin()
        for _ in range(120):
            await storm.step()
        await storm.calm()
        for poll in storm.polls.values():
            poll.cancel()
