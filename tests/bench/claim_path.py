"""The claim path: throughput, wake-up latency and decision time, as ratios to limits of the same run.

    python -m tests.bench.claim_path

Three figures: claims a second from a backlog through HTTP, against the same server's empty POST
endpoint; from `POST /runs` to the receipt of the job with 200 waiting runners, against a loopback
round trip of the same server; one decision with 1,000 and with 100,000 jobs queued.
"""

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hub.placement.choose import choose, offer
from tests.bench import servers
from tests.bench.wire import Line
from tests.dispatch.test_board import live_board
from tests.fleets import fleet, job, runner

LINES = 32  # connections that claim at the same time
RUNNERS = 200
ROUNDS = 5
JOBS = 2_000  # claimed in one round
PROJECT = "bench/claims"


def _pipeline(count: int) -> str:
    jobs = {f"job-{number}": {"tier": "process", "steps": ["true"]} for number in range(count)}
    return json.dumps({"version": 1, "jobs": jobs})


async def _backlog(admin: Line, count: int) -> None:
    """Queue `count` jobs, in runs of 500."""
    for _ in range(count // 500):
        await admin.ok("POST", "/api/v1/runs", {"project": PROJECT, "pipeline": _pipeline(500)})


async def _rate(lines: Sequence[Line], count: int, call: Callable[[Line], Awaitable[Any]]) -> float:
    """Calls a second of `count` calls over all `lines` at once."""
    left = iter(range(count))

    async def work(line: Line) -> None:
        for _ in left:
            await call(line)

    began = time.perf_counter()
    await asyncio.gather(*(work(line) for line in lines))
    return count / (time.perf_counter() - began)


async def _runners(admin: Line, port: int, count: int, prefix: str) -> list[Line]:
    made = []
    for number in range(count):
        body = {"name": f"{prefix}-{number}"}
        made.append(Line(port, (await admin.ok("POST", "/api/v1/runners", body))["token"]))
    return made


async def claims(hub: servers.Served, limit: servers.Served) -> dict[str, Any]:
    """Claims a second, alternating with empty posts."""
    admin = Line(hub.port, hub.token)
    lines = await _runners(admin, hub.port, LINES, "claimer")
    empties = [Line(limit.port, "none") for _ in range(LINES)]
    message = {"tiers": ["process"], "max_jobs": 1000, "wait_s": 0, "fetches_images": True}
    message |= {"facts": {"speed": 100, "speed_class": 3, "free_disk_mib": 500_000, "load1": 0.4}}
    claimed: list[list[dict[str, Any]]] = [[] for _ in lines]

    async def claim(line: Line) -> None:
        which = lines.index(line)
        running = [{"job": one["job"]["id"], "lease": one["lease"]["token"]} for one in claimed[which]]
        given = await line.ok("POST", "/api/v1/claim", {**message, "running": running})
        if given is None:
            raise RuntimeError("the backlog ended early")
        claimed[which].append(given)

    async def finish(line: Line) -> None:
        which = lines.index(line)
        for one in claimed[which]:
            job_id, lease = one["job"]["id"], one["lease"]["token"]
            await line.ok("POST", f"/api/v1/jobs/{job_id}/start", {"lease": lease})
            await line.ok("POST", f"/api/v1/jobs/{job_id}/finish", {"lease": lease, "outcome": "succeeded"})
        claimed[which].clear()

    rates, limits, whole = [], [], []
    small = JOBS // 10
    for _ in range(ROUNDS):
        limits.append(await _rate(empties, JOBS * 2, lambda line: line.ok("POST", "/empty", {})))
        await _backlog(admin, JOBS)
        began = time.perf_counter()
        seconds = 0.0
        for _ in range(JOBS // small):  # few jobs at a time on a runner, as in life
            before = time.perf_counter()
            await _rate(lines, small, claim)
            seconds += time.perf_counter() - before
            await asyncio.gather(*(finish(line) for line in lines))
        rates.append(JOBS / seconds)
        whole.append(JOBS / (time.perf_counter() - began))
    return {
        "claims/s": round(statistics.median(rates)),
        "empty POST/s": round(statistics.median(limits)),
        "ratio": round(statistics.median(rates) / statistics.median(limits), 3),
        "jobs/s (claim, start, finish)": round(statistics.median(whole)),
        "spread of claims/s": [round(min(rates)), round(max(rates))],
    }


async def latency(hub: servers.Served) -> dict[str, Any]:
    """From the submission to the receipt, with all runners waiting, in loopback round trips."""
    admin, trip = Line(hub.port, hub.token), Line(hub.port, hub.token)
    lines = await _runners(admin, hub.port, RUNNERS, "waiter")
    received: asyncio.Queue[float] = asyncio.Queue()
    message = {"tiers": ["process"], "wait_s": 25, "labels": ["latency"]}

    async def wait(line: Line) -> None:
        while True:
            given = await line.ok("POST", "/api/v1/claim", message)
            if given is None:
                continue
            received.put_nowait(time.perf_counter())
            job_id, lease = given["job"]["id"], given["lease"]["token"]
            await line.ok("POST", f"/api/v1/jobs/{job_id}/start", {"lease": lease})
            await line.ok("POST", f"/api/v1/jobs/{job_id}/finish", {"lease": lease, "outcome": "succeeded"})

    waiting = [asyncio.create_task(wait(line)) for line in lines]
    await asyncio.sleep(2)
    body = {"project": PROJECT, "pipeline": _labelled()}
    taken, trips = [], []
    for _ in range(300):
        began = time.perf_counter()
        await trip.call("GET", "/healthz-not-json")
        trips.append(time.perf_counter() - began)
        began = time.perf_counter()
        sent = asyncio.create_task(admin.ok("POST", "/api/v1/runs", body))
        taken.append(await received.get() - began)
        await sent
        await asyncio.sleep(0.005)
    for task in waiting:
        task.cancel()
    round_trip = statistics.median(trips)
    p50, p99 = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
    return {
        "round trip p50 ms": round(round_trip * 1000, 3),
        "submit to receipt p50 ms": round(p50 * 1000, 2),
        "submit to receipt p99 ms": round(p99 * 1000, 2),
        "p50 in round trips": round(p50 / round_trip, 1),
        "p99 / p50": round(p99 / p50, 1),
        "waiting runners": RUNNERS,
    }


def _labelled() -> str:
    jobs = {"one": {"tier": "process", "labels": ["latency"], "steps": ["true"]}}
    return json.dumps({"version": 1, "jobs": jobs})


def decision() -> dict[str, Any]:
    """One claim's decision, and one wake-up's, in microseconds, by the length of the queue."""
    found: dict[str, Any] = {}
    for count in (1_000, 100_000):
        jobs = [
            job(number, labels=("ssd",) if number % 3 else ("gpu",), memory_mib=1024 * (1 + number % 20))
            for number in range(1, count + 1)
        ]
        runners = [runner(f"r{number}", labels=("ssd",), waiting=number % 2 == 0) for number in range(1000)]
        board = live_board(fleet(*runners), jobs)
        found[f"claim, {count} jobs, µs"] = _micros(partial(choose, board, "r0"))
        found[f"wake, {count} jobs, µs"] = _micros(partial(offer, board, jobs[0]))
    found["growth of a claim, 1,000 to 100,000 jobs"] = round(
        found["claim, 100000 jobs, µs"] / found["claim, 1000 jobs, µs"], 2
    )
    return found


def _micros(decide: Callable[[], object]) -> float:
    taken = []
    for _ in range(300):
        began = time.perf_counter()
        decide()
        taken.append(time.perf_counter() - began)
    return round(statistics.median(taken) * 1e6, 1)


async def _served(folder: Path) -> dict[str, Any]:
    (folder / "hub").mkdir()
    (folder / "empty").mkdir()
    with servers.hub(folder / "hub") as hub, servers.empty(folder / "empty") as limit:
        return {"claims": await claims(hub, limit), "latency": await latency(hub)}


def main() -> int:
    """Run all, print a table, and the same as JSON on the last line."""
    with tempfile.TemporaryDirectory(prefix="shunter-bench-") as folder:
        found = asyncio.run(_served(Path(folder)))
    found["decision"] = decision()
    for name, figures in found.items():
        print(name)
        for what, figure in figures.items():
            print(f"  {what:<44} {figure}")
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
