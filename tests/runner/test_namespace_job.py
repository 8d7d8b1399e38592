"""Whole jobs of the namespace tier through the real agent: what the hub is told of them."""

import dataclasses
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from blake3 import blake3

from hub.wire.claim import ImageRef
from runner import tiers
from runner.sandbox.base import Stop
from runner.tiers import Tiers
from tests.runner import boxes
from tests.runner.conftest import Running, Start
from tests.runner.fakehub import FakeHub, eventually
from tests.runner.test_namespace import mounts_and_loops
from tests.runner.test_workspace import entry, packed

HASHES = ("a" * 64, "b" * 64)


class Shelf:
    """Images that are all here."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files
        self.used: list[str] = []
        self.changed: Callable[[], None] = lambda: None

    @contextmanager
    def use(self, image: str) -> Iterator[None]:
        self.used.append(image)
        yield
        self.used.remove(image)

    def ensure(self, ref: ImageRef, *, stop: Stop, until: float, note: Callable[[str], None]) -> Path:
        assert ref.hash in self.used
        return self.files[ref.hash]

    def held(self) -> dict[str, str | None]:
        return dict.fromkeys(self.files)

    def fetching(self) -> tuple[str, ...]:
        return ()

    def taken_mib(self) -> int:
        return 0


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Tiers:
    """The tiers of this machine, as `serve` finds them."""
    for name, package in (("bwrap", "bubblewrap"), ("mke2fs", "e2fsprogs"), ("unsquashfs", "squashfs-tools")):
        boxes.need(name, package)
    made = tiers.find(("process", "namespace"), tmp_path_factory.mktemp("check"))
    if "namespace" not in made.offered:
        pytest.skip(f"needs a machine that runs the namespace tier: {made.why}")
    return made


Serve = Callable[..., Running]


@pytest.fixture
def serve(start: Start, found: Tiers, images: tuple[Path, Path]) -> Serve:
    """Start an agent that offers the tier and has the two images."""

    def begin(**more: Any) -> Running:
        shelf = Shelf(dict(zip(HASHES, images, strict=True)))
        return start(**{"tiers": found, "images": shelf, **more})

    return begin


def queue(hub: FakeHub, *steps: str, **more: Any) -> str:
    return hub.queue(1, *steps, **({"tier": "namespace", "images": [{"hash": HASHES[0]}]} | more))


def test_a_job_runs_in_its_image(hub: FakeHub, serve: Serve) -> None:
    queue(hub, "cat /etc/name; pwd; id -u; echo $ASKED", "touch x; false", env={"ASKED": "for"})
    running = serve()
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"], said.get("short")) == ("failed", 1, None)
    assert b"first\n/work\n0\nfor\n" in hub.log(1)
    assert said["gone"] is True
    eventually(lambda: list((running.work / "jobs").iterdir()) == [], "it is cleared away")
    eventually(lambda: mounts_and_loops(running.work) == [], "the kernel lets go of its loop devices")


def test_a_step_that_names_another_image_runs_there(hub: FakeHub, serve: Serve) -> None:
    steps = [
        {"name": "one", "run": "cat /etc/name >names"},
        {"name": "two", "run": "cat /etc/name >>names", "image": HASHES[1]},
        {"name": "three", "run": "cat names"},
    ]
    queue(hub, steps=steps, images=[{"hash": each} for each in HASHES])
    serve()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert b"first\nsecond\n" in hub.log(1)


def test_a_packed_workspace_is_there_and_artifacts_are_kept(hub: FakeHub, serve: Serve) -> None:
    pack = packed(entry("src/main", b"content"))
    hub.workspaces[1] = pack
    work = {"hash": blake3(pack).hexdigest(), "bytes": len(pack)}
    script = """cat src/main; echo made >src/made; mkdir out; ln -s ../src/made out/near
ln -s /work/src/made out/absolute; ln -s /etc/passwd out/far; ln -s ../../etc/passwd out/further"""
    queue(hub, script, workspace=work, artifacts=["out/**"], disk_mib=64)
    serve()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert b"content" in hub.log(1)
    assert hub.artifacts == {"out/near": b"made\n", "out/absolute": b"made\n"}
    assert hub.log(1).count(b"leads out of the workspace") == 2


def test_a_workspace_that_its_disk_has_no_room_for_is_short_of_disk(
    hub: FakeHub, serve: Serve, found: Tiers
) -> None:
    if found.namespace is None or not found.namespace.as_root:
        pytest.skip("needs root, whose jobs have a disk of their own")
    pack = packed(entry("big", os.urandom(40_000_000)))
    hub.workspaces[1] = pack
    work = {"hash": blake3(pack).hexdigest(), "bytes": len(pack)}
    queue(hub, "true", workspace=work, disk_mib=20)
    serve()
    said = hub.finish_of(1)
    assert (said["outcome"], said["short"]) == ("error", "disk")
    assert "ran out of disk: 20 MiB asked" in said["error"]


def test_running_out_of_memory_is_named_with_what_was_asked(hub: FakeHub, serve: Serve) -> None:
    queue(hub, "x=$(head -c 30000000 /dev/zero | tr '\\0' a); y=$x$x$x$x; sleep 5; : $y", memory_mib=64)
    serve()
    said = hub.finish_of(1)
    assert (said["outcome"], said["short"]) == ("failed", "memory")
    assert said["error"].startswith("ran out of memory: 64 MiB asked, ")
    assert said["peak_memory_mib"] >= 60
    assert b"ran out of memory: 64 MiB asked" in hub.log(1)


def test_running_out_of_disk_is_named_with_what_was_taken(hub: FakeHub, serve: Serve) -> None:
    queue(hub, "head -c 100000000 /dev/zero >big; sleep 4; exit 1", disk_mib=32)
    serve()
    said = hub.finish_of(1)
    assert (said["outcome"], said["short"]) == ("failed", "disk")
    assert f"ran out of disk: 32 MiB asked, {said['peak_disk_mib']} MiB taken" in said["error"]


def test_a_job_past_its_time_is_ended_whatever_it_ignores(hub: FakeHub, serve: Serve) -> None:
    queue(hub, "trap '' TERM; (setsid sh -c 'while :; do sleep 1; done' &); sleep 600", timeout_s=1)
    running = serve()
    assert hub.finish_of(1)["outcome"] == "timed_out"
    eventually(lambda: list((running.work / "jobs").iterdir()) == [], "it is cleared away")
    eventually(lambda: mounts_and_loops(running.work) == [], "its loops are gone")


def test_a_canceled_job_is_ended(hub: FakeHub, serve: Serve) -> None:
    queue(hub, "echo begun; trap '' TERM; while :; do :; done")
    serve()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.cancel(1)
    assert hub.finish_of(1)["outcome"] == "canceled"


def test_a_shutdown_gives_the_job_back_and_leaves_nothing(hub: FakeHub, serve: Serve) -> None:
    lease = queue(hub, "echo begun; sleep 600")
    running = serve()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    running.agent.drain()
    running.agent.drain()
    assert running.ended() == 0
    assert [call.json["lease"] for call in hub.of("/release")] == [lease]
    eventually(lambda: mounts_and_loops(running.work) == [], "the kernel lets go of its loop device")


def test_git_hears_nothing_of_what_the_job_says(hub: FakeHub, serve: Serve, tmp_path: Path) -> None:
    """It runs outside the sandbox, and environment variables can make it run anything."""
    origin, caught = tmp_path / "origin", tmp_path / "caught"
    script = f"""set -e
git init -q -b main {origin}; cd {origin}
echo text >file; git add file; git -c user.name=a -c user.email=a@b commit -q -m one; git rev-parse HEAD"""
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {caught}\n")
    evil.chmod(0o755)
    environ = {
        "PATH": str(tmp_path), "GIT_EXEC_PATH": str(tmp_path), "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": str(evil),
    }  # fmt: skip
    workspace = {"git": str(origin), "commit": done.stdout.strip()}
    queue(hub, "/bin/cat file; /bin/stat -c %u file", workspace=workspace, env=environ)
    serve()
    assert hub.finish_of(1)["outcome"] == "succeeded", hub.log(1)
    assert b"text\n0\n" in hub.log(1)
    assert not caught.exists()


@pytest.mark.parametrize(
    ("lacks", "more", "words"),
    [
        ({"network": False}, {"network": True}, "slirp4netns is not installed"),
        ({"offered": ("process",)}, {}, "no namespace tier"),
        ({}, {"images": []}, "needs an image"),
    ],
)
def test_what_a_runner_cannot_give_is_declined_with_the_reason(
    hub: FakeHub, serve: Serve, found: Tiers, lacks: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    queue(hub, "true", **more)
    serve(tiers=dataclasses.replace(found, **lacks))
    call = eventually(lambda: hub.of("/decline"), "it is declined")[0]
    assert words in call.json["reason"]
    assert hub.finished == {}


def test_an_image_that_is_none_is_declined(hub: FakeHub, serve: Serve, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"no file system" * 1000)
    queue(hub, "true")
    serve(images=Shelf({HASHES[0]: bad}))
    call = eventually(lambda: hub.of("/decline"), "it is declined")[0]
    assert "the sandbox cannot be made" in call.json["reason"] or "unpacked" in call.json["reason"]


def test_a_runner_that_cannot_run_any_tier_it_was_told_to_offer_says_so_and_ends(
    process: Callable[..., Any], hub: FakeHub, tmp_path: Path
) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: it is forbidden here' >&2; exit 1\n")
    broken.chmod(0o755)
    agent = process("--tiers", "namespace", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert agent.ended() == 1
    assert "it is forbidden here" in agent.said
    assert "none of the tiers" in agent.said
    assert hub.of("/claim") == []
