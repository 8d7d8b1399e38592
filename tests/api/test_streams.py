"""Live streams: every byte once and in order, whoever joins when, and however often the line is cut."""

import asyncio
import json
from pathlib import Path

from hub.api import streams
from hub.service.access import Principal
from tests.hubs import Running, running

ADMIN = Principal(name="t", kind="admin")


def parsed(events: list[str]) -> list[tuple[str, str | None, dict[str, object]]]:
    """(name, id, data) of each event."""
    found = []
    for one in events:
        fields = dict(line.split(": ", 1) for line in one.strip().splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


async def follow(hub: Running, job: int, start: tuple[int, int] = (0, 0), cut: int = 0) -> tuple[str, str]:
    """The log's text from `start`, cut after so many pieces, and the last id."""
    text, last = "", ""
    pieces = 0
    stream = streams._job_events(hub.hub, ADMIN, job, start)
    async for one in stream:
        for name, event_id, data in parsed([one]):
            if name == "log":
                text += str(data["text"])
                last = event_id or ""
                pieces += 1
            if name == "end" or (cut and pieces >= cut):
                await stream.aclose()  # type: ignore[attr-defined] # it is an async generator
                return text, last
    return text, last


async def test_viewers_that_join_anywhere_and_are_cut_end_with_the_same_bytes(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        early = asyncio.create_task(follow(hub, job))  # before the first byte, before the claim
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        whole = "".join(f"line {number} with ü and 漢字\n" for number in range(400)).encode()
        have = 0
        cut = None
        while have < len(whole):
            answer = await machine.log(given, have, whole[have : have + 777])  # cuts characters in two
            have = answer.json()["offset"]
            if have > 5000 and cut is None:
                cut = await follow(hub, job, cut=1)
        await machine.finish(given, log_bytes=len(whole))
        assert (await early)[0] == whole.decode()
        assert cut is not None
        attempt, _, offset = cut[1].partition(":")
        rest = await follow(hub, job, (int(attempt), int(offset)))
        assert cut[0].rstrip("\ufffd") + rest[0] == whole.decode()
        late = await follow(hub, job)
        assert late[0] == whole.decode()


async def test_the_end_comes_once_and_never_because_the_log_is_merely_empty(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        viewer = asyncio.create_task(follow(hub, job))
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        await hub.settle()
        assert not viewer.done()
        await machine.finish(given)
        assert await viewer == ("", "")


async def test_a_run_is_told_at_each_change_until_its_end(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        run = (await hub.job(job))["run"]

        async def watch() -> list[str]:
            seen = []
            async for one in streams._run_events(hub.hub, ADMIN, run):
                for name, _, data in parsed([one]):
                    jobs = data.get("jobs")
                    seen.append(jobs[0]["status"] if isinstance(jobs, list) else name)
            return seen

        watching = asyncio.create_task(watch())
        await hub.settle()
        given = await machine.claim()
        assert given is not None
        await hub.settle()
        await machine.start(given)
        await hub.settle()
        await machine.finish(given)
        seen = await watching
        assert list(dict.fromkeys(seen)) == ["queued", "assigned", "running", "succeeded", "end"]


async def test_streams_and_polls_end_when_the_hub_stops(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job(labels=["gpu"])
        viewer, poll = asyncio.create_task(follow(hub, job)), machine.waits()
        await hub.settle()
        hub.hub.dispatch.shut()
        assert await poll is None
        assert await viewer == ("", "")


async def test_a_stream_says_that_no_proxy_may_keep_it_back(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        job = await hub.one_job()
        hub.hub.dispatch.shut()
        answer = await hub.admin.call("GET", f"/jobs/{job}/events")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache"
        assert answer.headers["x-accel-buffering"] == "no"
