"""Who may call what: every route with every kind of token, and objects of somebody else."""

import re
from pathlib import Path
from typing import Any

import pytest

from hub.api.routes import CALLS
from hub.service.access import ALLOWS
from tests.hubs import Api, running

IDS = {"id": "1", "name": "a", "hash": "0" * 64, "path:path": "x.txt"}


def _url(path: str) -> str:
    return re.sub(r"\{([^}]+)\}", lambda found: IDS[found[1]], path)


async def _status(api: Api, method: str, path: str) -> int:
    headers = {"Lease": "not-a-lease"}
    if path.endswith("/events"):
        method = "HEAD"  # the stream itself would go on
    answer = await api.call(method, _url(path) + "?project=bea/other&offset=0", headers=headers, json={})
    return answer.status_code


async def test_every_call_refuses_who_has_no_token_and_every_kind_that_may_not(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        runner = await hub.machine("a")
        kinds: dict[str, Api] = {kind: await hub.token(kind) for kind in ("read", "submit", "images")}
        kinds |= {"admin": hub.admin, "runner": Api(hub.client, runner.token)}
        needs = {"read": "read", "submit": "submit", "images": "images", "admin": "admin", "runner": "work"}
        for call in CALLS:
            if call.path.endswith("/events"):
                continue
            for nobody in (Api(hub.client, ""), Api(hub.client, "sht_" + "x" * 43)):
                assert await _status(nobody, call.method, call.path) == 401, call.path
            for kind, api in kinds.items() if call.who != "anybody" else ():
                if needs[call.who] not in ALLOWS[kind]:
                    status = await _status(api, call.method, call.path)
                    # a body or an id that is wrong may be told first; never that it worked
                    assert status in (400, 403, 404), f"{kind} {call.method} {call.path}: {status}"


async def _as_seen_by(api: Api, run: int, job: int) -> list[tuple[int, Any]]:
    calls = [
        ("GET", f"/runs/{run}"),
        ("POST", f"/runs/{run}/cancel"),
        ("POST", f"/runs/{run}/retry"),
        ("GET", f"/runs/{run}/events"),
        ("GET", f"/jobs/{job}"),
        ("GET", f"/jobs/{job}/log"),
        ("GET", f"/jobs/{job}/placement"),
        ("GET", f"/jobs/{job}/events"),
        ("GET", f"/jobs/{job}/artifacts"),
        ("GET", f"/jobs/{job}/artifacts/x.txt"),
        ("POST", f"/jobs/{job}/cancel"),
        ("POST", f"/jobs/{job}/retry"),
    ]
    answers = [await api.call(method, path) for method, path in calls]
    return [(answer.status_code, answer.json()) for answer in answers]


async def test_what_is_somebody_elses_looks_exactly_like_what_is_not_there(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        job = await hub.one_job(project="bea/secret")
        run = (await hub.job(job))["run"]
        for scope in ({"owner": "andy"}, {"project": "andy/demo"}):
            stranger = await hub.token("submit", **scope)
            foreign = await _as_seen_by(stranger, run, job)
            invented = await _as_seen_by(stranger, 4711, 4712)
            assert foreign == invented
            assert {status for status, _ in foreign} == {404}
            assert (await stranger.get("/runs"))["runs"] == []
            assert (await stranger.get("/queue"))["jobs"] == []
            refused = await stranger.call("POST", "/runs", json={"project": "bea/secret", "pipeline": "x"})
            assert refused.status_code == 404
        assert (await hub.job(job))["status"] == "queued"


async def test_a_runner_reaches_its_own_attempts_and_no_other(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        mine, other = await hub.machine("a"), await hub.machine("b")
        await hub.one_job()
        given = await mine.claim()
        assert given is not None
        await mine.start(given)
        invented = {"lease": given["lease"], "job": {"id": 4711}}
        for call in (other.beat, other.finish, other.start):
            foreign, nothing = await call(given), await call(invented)
            assert (foreign.status_code, foreign.text) == (nothing.status_code, nothing.text)
            assert foreign.status_code == 404
        assert (await other.log(given, 0, b"x")).status_code == 404
        assert (await mine.finish(given)).status_code == 204


async def test_a_revoked_token_is_out_at_once_and_an_expired_one_too(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        reader = await hub.token("read")
        await reader.get("/runs")
        made = await hub.admin.post("/tokens", json={"name": "brief", "kind": "read", "expires_in_s": 60})
        brief = Api(hub.client, made["token"])
        await brief.get("/me")
        await hub.tick(61)
        assert (await brief.call("GET", "/me")).status_code == 401
        known = {one["name"]: one["id"] for one in (await hub.admin.get("/tokens"))["tokens"]}
        await hub.admin.call("DELETE", f"/tokens/{known['read']}")
        assert (await reader.call("GET", "/runs")).status_code == 401


async def test_secrets_are_shown_once_and_kept_as_hashes(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        made = await hub.admin.post("/tokens", json={"name": "t", "kind": "read"})
        runner = await hub.admin.post("/runners", json={"name": "a"})
        listed = (await hub.admin.call("GET", "/tokens")).text + (
            await hub.admin.call("GET", "/runners")
        ).text
        assert made["token"] not in listed
        file = tmp_path / "admin-token"
        assert file.stat().st_mode & 0o777 == 0o600
        secrets = [made["token"], runner["token"], file.read_text().strip()]
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("hub.sqlite*"))
    assert not [secret for secret in secrets if secret.encode() in kept]


async def test_names_of_runners_beyond_a_readers_reach_are_counted_not_told(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        hidden = await hub.machine("beas-machine", scope={"owner": "bea"})
        mine = await hub.machine("andys-machine", scope={"owner": "andy"})
        await hidden.claim()
        await mine.claim()
        job = await hub.one_job(labels=["gpu"])
        reader = await hub.token("read", owner="andy")
        told = (await reader.call("GET", f"/jobs/{job}")).text
        assert "andys-machine" in told
        assert "beas-machine" not in told
        view = await reader.get(f"/jobs/{job}")
        assert view["waiting"]["more"] == 1
        assert "beas-machine" not in (await reader.call("GET", "/runners")).text
        assert "beas-machine" not in (await reader.call("GET", "/fleet")).text


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_cookie_of_a_person_counts_for_reading_only(tmp_path: Path, method: str) -> None:
    async with running(tmp_path) as hub:
        hub.client.cookies.set("shunter_session", hub.admin.token)
        answer = await hub.client.request(method, "/api/v1/runs", json=None)
        assert answer.status_code == (200 if method == "GET" else 401)


async def test_a_scoped_runner_is_given_only_what_it_serves(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("a", scope={"project": "andy/demo"})
        await hub.one_job(project="bea/other")
        assert await machine.claim() is None
        mine = await hub.one_job(project="andy/demo")
        given = await machine.claim()
        assert given is not None
        assert given["job"]["id"] == mine


def test_every_route_says_who_may_call_it(tmp_path: Path) -> None:
    assert all(call.who in ("anybody", "read", "submit", "images", "admin", "runner") for call in CALLS)
    assert len({(call.method, call.path) for call in CALLS}) == len(CALLS)
