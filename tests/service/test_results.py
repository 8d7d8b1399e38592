"""A job's results from the file that its runner sends to what a reader is told."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from hub.service import results
from tests.hubs import Machine, Running, running
from tests.reports.writing import case, failure

COVERAGE = (
    '<coverage><packages><package name="demo"><classes><class><lines><line number="1" hits="1"/>'
    '<line number="2" hits="0"/></lines></class></classes></package></packages></coverage>'
)


def suite(*cases: str) -> str:
    return f"<testsuite>{''.join(cases)}</testsuite>"


async def send(
    machine: Machine, given: dict[str, Any], body: str, path: str = "report.xml", kind: str = "junit"
) -> httpx.Response:
    return await machine.call(
        "PUT",
        f"/jobs/{given['job']['id']}/artifacts/{path}?report={kind}",
        content=body.encode(),
        headers={"Lease": given["lease"]["token"]},
    )


async def one_run(hub: Running, machine: Machine, body: str, **more: Any) -> int:
    """A run of one job that leaves this report; the job's id."""
    await hub.submit("version: 1\njobs: {build: {steps: [make]}}", **more)
    given = await machine.claim()
    assert given
    await machine.start(given)
    assert (await send(machine, given, body)).status_code == 201
    assert (await machine.finish(given)).status_code == 204
    job: int = given["job"]["id"]
    return job


async def test_results_are_told_before_and_after_the_end(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        job = await hub.one_job()
        given = await machine.claim()
        assert given
        await machine.start(given)
        before = await hub.job(job)
        assert (before["tests"], before["coverage"]) == (None, None)
        body = suite(case("good"), case("bad", failure("1 != 2", "at line 3")), case("slow", time="9"))
        assert (await send(machine, given, body)).status_code == 201
        assert (await send(machine, given, COVERAGE, "cov/it.xml", "coverage")).status_code == 201
        said = {"total": 3, "failed": 1, "errors": 0, "skipped": 0, "duration_s": 10.0}
        for outcome in (None, "failed"):
            if outcome is not None:
                await machine.finish(given, outcome, exit_code=1)
            view = await hub.job(job)
            assert (view["tests"], view["coverage"]) == (said, 0.5)
            found = await hub.admin.get(f"/jobs/{job}/results")
            assert found["tests"] == said
            assert [(one["name"], one["message"], one["output"]) for one in found["failures"]] == [
                ("t::bad", "1 != 2", "at line 3")
            ]
            assert found["slowest"][0] == {"name": "t::slow", "duration_s": 9.0}
            assert found["coverage"]["packages"] == [{"name": "demo", "lines": 2, "covered": 1}]
            assert [(one["path"], one["kind"]) for one in found["files"]] == [
                ("cov/it.xml", "coverage"),
                ("report.xml", "junit"),
            ]
        run = await hub.admin.get(f"/runs/{view['run']}")
        assert run["jobs"][0]["tests"] == said
        left = await hub.admin.get(f"/jobs/{job}/artifacts")
        assert [one["path"] for one in left["artifacts"]] == ["cov/it.xml", "report.xml"]


async def test_a_file_that_cannot_be_read_is_kept_told_and_fails_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        job = await one_run(hub, machine, '<!DOCTYPE a [<!ENTITY a "b">]><testsuite/>')
        found = await hub.admin.get(f"/jobs/{job}/results")
        assert found["tests"] is None
        assert "declares a document type" in found["files"][0]["fault"]
        view = await hub.job(job)
        assert (view["status"], view["tests"]) == ("succeeded", None)


async def test_the_readers_of_other_projects_see_none_of_it(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        job = await one_run(hub, machine, suite(case("a", failure())))
        other = await hub.token("read", project="eve/other")
        assert (await other.call("GET", f"/jobs/{job}/results")).status_code == 404
        mine = await hub.token("read", project="andy/demo")
        assert (await mine.get(f"/jobs/{job}/results"))["more_failures"] == 0


async def test_an_attempt_that_is_over_leaves_no_results(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        await hub.one_job()
        given = await machine.claim()
        assert given
        await machine.start(given)
        await machine.finish(given)
        assert (await send(machine, given, suite(case("a")))).status_code == 409


async def test_a_kind_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        await hub.one_job()
        given = await machine.claim()
        assert given
        answer = await send(machine, given, suite(), kind="html")
        assert answer.status_code == 400
        assert "junit, coverage" in answer.json()["detail"]


async def test_a_test_that_passes_and_fails_on_one_commit_is_called_flaky(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        first = await one_run(hub, machine, suite(case("a", failure()), case("b")), commit="abc")
        assert (await hub.admin.get(f"/jobs/{first}/results"))["flaky"] == []
        again = await one_run(hub, machine, suite(case("a"), case("b")), commit="abc")
        found = await hub.admin.get(f"/jobs/{again}/results")
        assert found["flaky"] == [{"name": "t::a", "why": "passed and failed on commit abc"}]
        elsewhere = await one_run(hub, machine, suite(case("c")), commit="abc")
        assert (await hub.admin.get(f"/jobs/{elsewhere}/results"))["flaky"] == []


async def test_files_beyond_the_bound_are_named_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MAX_FILES", 2)
    monkeypatch.setattr(results, "MAX_CHARACTERS", 600)
    async with running(tmp_path) as hub:
        machine = await hub.machine("earth-9")
        job = await hub.one_job()
        given = await machine.claim()
        assert given
        await machine.start(given)
        for name in "abc":
            body = suite(case(name, failure(text="x" * 400)))
            assert (await send(machine, given, body, f"{name}.xml")).status_code == 201
        found = await hub.admin.get(f"/jobs/{job}/results")
        assert [len(one["output"]) for one in found["failures"]] == [400, 0]
        assert found["tests"]["total"] == 2
        assert [(one["path"], bool(one["fault"])) for one in found["files"]] == [
            ("c.xml", True),
            ("a.xml", False),
            ("b.xml", False),
        ]
        assert found["files"][2]["notes"] == [
            "the output of 1 failed tests was left out: there was too much in all"
        ]
