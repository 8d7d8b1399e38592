"""What Prometheus reads: counts that follow what happened, in a form that its own tool accepts."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from tests.hubs import Running, running


async def scrape(hub: Running) -> str:
    answer = await hub.admin.call("GET", "//metrics")
    assert answer.status_code == 200
    return answer.text


def value(text: str, sample: str) -> float:
    found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
    assert found, f"no {sample} in\n{text}"
    return float(found[1])


async def test_figures_follow_what_happened(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9", max_jobs=3, cpus=8, memory_mib=16_384, reserve_mib=0)
        assert await machine.claim() is None
        job = await hub.one_job(cpus=2)
        await hub.tick(7)
        given = await machine.claim()
        assert given
        await machine.start(given, "preparing")
        await machine.start(given)
        await machine.start(given)  # the same again is no second start
        text = await scrape(hub)
        assert value(text, "shunter_claims_total") == 2
        assert value(text, 'shunter_start_seconds_bucket{le="5.0"}') == 0
        assert value(text, 'shunter_start_seconds_bucket{le="10.0"}') == 1
        assert value(text, "shunter_start_seconds_count") == 1
        assert value(text, "shunter_start_seconds_sum") == 7
        assert value(text, "shunter_free_slots") == 2
        assert value(text, "shunter_free_cpus") == 6
        await hub.tick(1000)
        assert (await hub.job(job))["status"] == "queued"
        assert value(await scrape(hub), "shunter_leases_lost_total") == 1


async def test_a_hold_is_won_by_its_runner_or_lost(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        fast = await hub.machine("fast", facts={"speed_class": 9})
        slow = await hub.machine("slow", facts={"speed_class": 1})
        assert await fast.claim() is None
        await hub.one_job()
        assert await slow.claim() is None  # held for the faster one
        assert await fast.claim()
        text = await scrape(hub)
        assert value(text, 'shunter_holds_total{outcome="won"}') == 1
        assert value(text, 'shunter_holds_total{outcome="lost"}') == 0


async def test_bytes_that_are_sent_are_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        job = await hub.one_job()
        given = await machine.claim()
        assert given
        await machine.start(given)
        lease = {"Lease": given["lease"]["token"]}
        await machine.call("PUT", f"/jobs/{job}/artifacts/a", content=b"x" * 5000, headers=lease)
        await hub.admin.call("GET", f"/jobs/{job}/artifacts/a")
        assert value(await scrape(hub), "shunter_bytes_served_total") == 5000


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool")
async def test_prometheus_own_tool_finds_nothing_wrong(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        text = await scrape(hub)
        tool = await asyncio.create_subprocess_exec(
            "promtool", "check", "metrics", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await tool.communicate(text.encode())
        assert (tool.returncode, out) == (0, b"")
