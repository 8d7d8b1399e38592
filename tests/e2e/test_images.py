"""Images with real processes: a hub, the command line and runners, and kills of the hub in the midst."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from hub.carry.link import Address
from hub.carry.transfer import Patience
from hub.wire.claim import ImageRef
from runner.images import Images
from runner.sandbox.base import Stop
from tests.carry.contents import edited, made
from tests.e2e.processes import House, until
from tests.runner.boxes import make_image

MIB = 2**20


def shunter(house: House, *words: object, fails: bool = False) -> Any:
    """A command as a person types it: what it answers as JSON."""
    with start(house, *words) as process:
        out, err = process.communicate(timeout=110)
    assert (process.returncode != 0) is fails, err
    return err if fails else json.loads(out)


def start(house: House, *words: object) -> "subprocess.Popen[str]":
    environ = {key: text for key, text in os.environ.items() if not key.startswith("SHUNTER_")}
    return subprocess.Popen(
        [sys.executable, "-m", "hub.cli.main", "image", *map(str, words), "--json"],
        env={**environ, "SHUNTER_URL": house.url, "SHUNTER_TOKEN": house.token},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_image_goes_to_the_hub_and_back_and_only_what_changed_travels(tmp_path: Path) -> None:
    content = made(30 * MIB)
    newer = edited(content)
    (tmp_path / "v1").write_bytes(content)
    (tmp_path / "v2").write_bytes(newer)
    with House(tmp_path) as house:
        first = shunter(house, "push", tmp_path / "v1", "--name", "base", "--arch", "x86_64")
        assert first["new"] is True
        second = shunter(house, "push", tmp_path / "v2", "--name", "base")
        assert second["sent"]["chunks"] <= 12
        assert second["sent"]["wire_bytes"] < 0.05 * len(newer)
        listed = shunter(house, "list")["images"]
        assert {one["hash"]: one["names"] for one in listed} == {first["hash"]: [], second["hash"]: ["base"]}
        [name] = shunter(house, "names")["names"]
        assert [each["hash"] for each in name["history"]] == [second["hash"], first["hash"]]
        out = tmp_path / "out"
        pulled = shunter(house, "pull", "base", "-o", out, "--seed", tmp_path / "v1")
        assert pulled["fetched"]["chunks"] <= 12
        assert out.read_bytes() == newer
        assert "debian" in shunter(house, "pull", "debian", "-o", out, fails=True)
        shunter(house, "push", tmp_path / "v1", "--name", "old")
        assert "name" in shunter(house, "rm", "old", fails=True)
        plan = shunter(house, "gc", "--dry-run")
        assert plan["kept_images"] == 2
        assert shunter(house, "gc")["images"] == []


def test_a_push_and_a_pull_outlive_kills_of_the_hub(tmp_path: Path) -> None:
    content = made(60 * MIB)
    (tmp_path / "image").write_bytes(content)
    with House(tmp_path) as house:

        def kept() -> int:
            return sum(path.stat().st_size for path in (tmp_path / "hub").rglob("*") if path.is_file())

        empty = kept()
        with start(house, "push", tmp_path / "image", "--name", "base") as push:
            for more in (4, 16):
                wanted = empty + more * MIB
                until("something has arrived", lambda: kept() > wanted)  # noqa: B023 - called before it changes
                assert push.poll() is None, "the kill comes in the midst"
                house.kill_hub()
                house.start_hub()
            _, err = push.communicate(timeout=110)
        assert push.returncode == 0, err
        out = tmp_path / "out"
        with start(house, "pull", "base", "-o", out) as pull:
            until("something has come", lambda: pull.poll() is not None or list(tmp_path.glob("out.*.part")))
            house.kill_hub()
            house.start_hub()
            _, err = pull.communicate(timeout=110)
        assert pull.returncode == 0, err
        assert out.read_bytes() == content


def test_a_runner_takes_an_image_with_its_own_token_and_the_next_one_only_as_far_as_it_differs(
    tmp_path: Path,
) -> None:
    content = made(20 * MIB)
    (tmp_path / "v1").write_bytes(content)
    (tmp_path / "v2").write_bytes(edited(content))
    with House(tmp_path) as house:
        token = house.call("POST", "/runners", {"name": "earth-9"})["token"]
        address = Address(url=house.url, token=token, agent="tests")
        images = Images(tmp_path / "cache", 100, address, patience=Patience(give_up_s=20))
        notes: list[str] = []
        for version in ("v1", "v2"):
            pushed = shunter(house, "push", tmp_path / version, "--arch", "x86_64")
            ref = ImageRef(hash=pushed["hash"], bytes=pushed["bytes"])
            stop = Stop()
            path = images.ensure(ref, stop=stop, until=time.monotonic() + 60, note=notes.append)
            stop.close()
            assert path.read_bytes() == (tmp_path / version).read_bytes()
        assert set(images.held().values()) == {"x86_64"}
        fetched, total = (int(notes[1].split()[index]) for index in (2, 4))
        assert fetched <= 12 < total


def test_a_job_runs_in_an_image_that_was_pushed_and_the_next_on_the_runner_that_holds_it(
    tmp_path: Path,
) -> None:
    file = make_image(tmp_path / "tree", tmp_path / "box.sqfs", "the box")
    pipeline = {
        "sandboxes": {"box": {"image": "box", "tier": "namespace"}},
        "jobs": {"look": {"sandbox": "box", "steps": ["cat /etc/name"]}},
    }
    with House(tmp_path) as house:
        pushed = shunter(house, "push", file, "--name", "box")
        house.start_runner("earth-9", "--tiers", "namespace", "--images-mib", "100")
        view = house.ended(house.submit(pipeline))
        job = view["jobs"][0]
        log = house.call("GET", f"/jobs/{job['id']}/log").decode()
        assert view["status"] == "succeeded", (job, log, house.log_of("earth-9")[-3000:])
        assert "the box" in log
        assert f"image box ({pushed['hash'][:12]}): " in log
        assert job["placed"].startswith("fetches the image from the hub, idle")

        def held() -> Any:
            return house.call("GET", "/runners")["runners"][0]["images"] == [pushed["hash"]]

        until("the runner says that it holds it", held)
        assert shunter(house, "list")["images"][0]["held_by"] == ["earth-9"]
        again = house.ended(house.submit(pipeline))["jobs"][0]
        assert again["placed"].startswith("holds the image, idle")
