"""What is wrong with a call is told by field, and nothing of it is kept."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import running


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"tiers": ["process"], "colour": "red"}, "colour"),
        ({"tiers": ["process"], "labels": [f"label-{number}" for number in range(100_000)]}, "labels"),
        ({"tiers": ["process"], "labels": ["good", "bad\x1b[31m"]}, "labels[1]"),
        ({"tiers": ["process"], "labels": ["\u202egnp.exe"]}, "labels[0]"),
        ({"tiers": ["chroot"]}, "tiers[0]"),
        ({"tiers": []}, "tiers"),
        ({}, "tiers"),
        ({"tiers": ["process"], "max_jobs": -1}, "max_jobs"),
        ({"tiers": ["process"], "memory_mib": 2**63}, "memory_mib"),
        ({"tiers": ["process"], "wait_s": 1e9}, "wait_s"),
        ({"tiers": ["process"], "images": ["../../etc/passwd"]}, "images[0]"),
        ({"tiers": ["process"], "facts": {"speed_class": 10}}, "facts.speed_class"),
        ({"tiers": ["process"], "facts": {"load1": "high"}}, "facts.load1"),
        ({"tiers": ["process"], "facts": {"kernel": "6.1\x00"}}, "facts.kernel"),
        ({"tiers": ["process"], "running": [{"job": 0}]}, "running[0].job"),
        ({"tiers": ["process"], "instance": "short"}, "instance"),
    ],
)
async def test_a_claim_that_is_wrong_is_refused_by_the_field(
    tmp_path: Path, body: dict[str, Any], path: str
) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        answer = await machine.call("POST", "/claim", json=body)
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert path in [fault["path"] for fault in answer.json()["faults"]]
        assert (await hub.admin.get("/runners/a"))["heard_at"] is None, "nothing of it was recorded"


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b'"x"', b"\xff\xfe", b"[" * 100_000, b"nul", b'{"tiers": NaN}']
)
async def test_a_body_that_is_no_message_is_refused(tmp_path: Path, body: bytes) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        answer = await machine.call("POST", "/claim", content=body)
        assert answer.status_code == 400


async def test_a_body_over_the_bound_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")

        async def endless() -> Any:
            for _ in range(10_000):
                yield b" " * 65536

        answer = await machine.call("POST", "/claim", content=endless())
        assert answer.status_code == 413


@pytest.mark.parametrize(
    ("pipeline", "path", "nearest"),
    [
        ("version: 1\njobs:\n  build:\n    step: [make]\n", "jobs.build", "steps"),
        (
            "version: 1\njobs:\n  a: {steps: [x], needs: [b]}\n  b: {steps: [x], needs: [a]}\n",
            "jobs.b.needs[0]",
            None,
        ),
        (
            "version: 1\njobs:\n  a: {steps: [x], sandbox: debain}\nsandboxes: {debian: {tier: process}}\n",
            "jobs.a.sandbox",
            "debian",
        ),
        ("version: 1\njobs:\n  a: {steps: [x], timeout: soon}\n", "jobs.a.timeout", None),
        (
            "version: 1\njobs:\n  a: {steps: [x], needs: [lnt]}\n  lint: {steps: [x]}\n",
            "jobs.a.needs[0]",
            "lint",
        ),
        ("version: 1\njobs: [", "", None),
        (
            "version: 1\nsandboxes: {d: {image: debian-12}}\njobs: {a: {sandbox: d, steps: [x]}}\n",
            "jobs.a",
            None,
        ),
    ],
)
async def test_a_broken_pipeline_is_told_with_line_path_and_nearest_word_and_nothing_is_stored(
    tmp_path: Path, pipeline: str, path: str, nearest: str | None
) -> None:
    async with running(tmp_path) as hub:
        for call in ("/runs", "/preview"):
            answer = await hub.admin.call("POST", call, json={"project": "andy/demo", "pipeline": pipeline})
            assert answer.status_code == 422
            faults = answer.json()["faults"]
            found = [fault for fault in faults if fault["path"].startswith(path)]
            assert found, faults
            assert all(fault["line"] > 0 for fault in found)
            assert nearest is None or nearest in [fault.get("nearest") for fault in found]
        assert (await hub.admin.get("/runs"))["runs"] == []


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "a//b",
        ".",
        "a\\b",
        "x" * 1001,
        "bad%1b%5b31m",
        "%2e%2e/x",
        "nul%00",
    ],
)
async def test_an_artifact_with_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a")
        job = await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        headers = {"Lease": given["lease"]["token"]}
        answer = await machine.call("PUT", f"/jobs/{job}/artifacts/{path}", content=b"x", headers=headers)
        assert answer.status_code in (400, 404, 405)
        assert (await hub.admin.get(f"/jobs/{job}/artifacts"))["artifacts"] == []


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "9" * 30, "x", "%00"])
async def test_an_id_that_no_row_can_have_is_not_there(tmp_path: Path, number: str) -> None:
    async with running(tmp_path) as hub:
        for path in (f"/runs/{number}", f"/jobs/{number}", f"/jobs/{number}/log", f"/runs/{number}/events"):
            assert (await hub.admin.call("GET", path)).status_code == 404


async def test_a_workspace_under_a_wrong_name_or_of_a_wrong_kind_is_not_kept(tmp_path: Path) -> None:
    import blake3
    import zstandard

    async with running(tmp_path) as hub:
        packed = zstandard.compress(b"not really a tar")
        name = blake3.blake3(packed).hexdigest()
        url = f"/workspaces/{name}?project=andy/demo"
        assert (await hub.admin.call("PUT", url, content=packed + b"x")).status_code == 400
        plain = b"not compressed"
        other = f"/workspaces/{blake3.blake3(plain).hexdigest()}?project=andy/demo"
        assert (await hub.admin.call("PUT", other, content=plain)).status_code == 400
        assert (await hub.admin.call("HEAD", url)).status_code == 404
        assert (await hub.admin.call("PUT", url, content=packed)).status_code == 201
        assert (await hub.admin.call("HEAD", url)).status_code == 200
        elsewhere = f"/workspaces/{name}?project=bea/other"
        assert (await hub.admin.call("HEAD", elsewhere)).status_code == 404, "a hash is no permission"
        assert list((tmp_path / "spool").iterdir()) == []


async def test_the_same_key_gives_the_same_run(tmp_path: Path) -> None:
    from tests.hubs import pipeline

    async with running(tmp_path) as hub:
        first = await hub.submit(pipeline(build={}), key="one-and-the-same")
        again = await hub.submit(pipeline(build={}), key="one-and-the-same")
        assert first == again
        assert len((await hub.admin.get("/runs"))["runs"]) == 1


async def test_an_unknown_path_says_where_the_known_ones_are(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        answer = await hub.admin.call("GET", "/nothing")
        assert answer.status_code == 404
        assert "/openapi.json" in answer.json()["detail"]
        assert json.loads(answer.text)["title"] == "Not found"
