"""Workspaces: fetched, checked, unpacked, and refused where they are hostile."""

import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from blake3 import blake3

from runner import unpack as unpacking
from runner.unpack import BadPack, NoRoom, unpack
from tests.runner.conftest import QUICK, Start
from tests.runner.fakehub import Answer, FakeHub, eventually, problem


def entry(name: str, content: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for key, value in more.items():
        setattr(info, key, value)
    return info, content


def link(name: str, to: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=kind, linkname=to)


def folder(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.DIRTYPE)


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, content in entries:
            tar.addfile(info, io.BytesIO(content))
    return zstandard.ZstdCompressor().compress(raw.getvalue())


@pytest.fixture
def into(tmp_path: Path) -> Callable[..., Path]:
    target = tmp_path / "target" / "ws"
    target.mkdir(parents=True)

    def put(*entries: tuple[tarfile.TarInfo, bytes], **more: Any) -> Path:
        unpack(io.BytesIO(packed(*entries)), target, **more)
        return target

    return put


Into = Callable[..., Path]


def test_files_folders_and_links_come_as_they_were_packed(into: Into) -> None:
    target = into(
        folder("./src"),
        entry("./src/run", b"#!/bin/sh\n", mode=0o755, mtime=315_619_200),
        entry("deep/er/file", b"x", mode=0o4777),
        link("src/up", "../deep/er/file"),
        link("twin", "src/run", tarfile.LNKTYPE),
        entry("empty"),
    )
    assert (target / "src/run").read_bytes() == b"#!/bin/sh\n"
    assert (target / "src/run").stat().st_mode & 0o7777 == 0o755
    assert (target / "src/run").stat().st_mtime == 315_619_200
    assert (target / "deep/er/file").stat().st_mode & 0o7000 == 0
    assert (target / "src/up").read_bytes() == b"x"
    assert (target / "twin").samefile(target / "src/run")
    assert (target / "empty").read_bytes() == b""


def test_names_longer_than_a_header_and_in_any_tongue_are_kept(into: Into) -> None:
    name = "/".join(["d" * 90] * 5) + "/größe-文件"
    assert (into(entry(name, b"x")) / name).read_bytes() == b"x"


@pytest.mark.parametrize(
    "entries",
    [
        [entry("/etc/evil", b"x")],
        [entry("../evil", b"x")],
        [entry("a/../../evil", b"x")],
        [link("a", "../evil")],
        [link("a", "/etc")],
        [link("a/b", "../../evil")],
        [link("a", "."), link("a/b", "..")],
        [folder("dir"), link("dir/in", "../../target"), entry("dir/in/evil", b"x")],
        [link("a", "b"), link("b", "c"), entry("a/evil", b"x")],
        [link("a", "../ws/evil", tarfile.LNKTYPE)],
        [link("a", "/etc/passwd", tarfile.LNKTYPE)],
        [link("a", "not/there", tarfile.LNKTYPE)],
        [link("l", "x"), link("hard", "l/../../../etc/passwd", tarfile.LNKTYPE)],
        [entry("a", type=tarfile.CHRTYPE, devmajor=1, devminor=3)],
        [entry("a", type=tarfile.FIFOTYPE)],
        [entry("file", b"x"), entry("file/below", b"y")],
        [folder("dir"), entry("dir", b"x")],
        [entry("/".join("d" * 300), b"x")],
    ],
    ids=lambda entries: "+".join(f"{e[0].name[:12]}>{e[0].linkname[:16]}" for e in entries),
)
def test_a_pack_that_would_leave_its_folder_is_refused(
    into: Into, tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(BadPack):
        into(*entries)
    outside = {p.name for p in (tmp_path / "target").iterdir()} | {p.name for p in tmp_path.iterdir()}
    assert outside == {"ws", "target"}


def test_a_long_path_of_links_does_not_lead_out(into: Into, tmp_path: Path) -> None:
    """The way around Python's own filter before 2025: a path too long to be resolved."""
    step, entries, at = "d" * 100, [], ""
    for letter in "abcdefghijklmnop":
        entries.append(folder(f"{at}{step}"))
        entries.append(link(f"{at}{letter}", step))
        at += f"{step}/"
    entries.append(link("/".join("abcdefghijklmnop") + "/l", "../" * 16))
    entries.append(link("escape", "/".join("abcdefghijklmnop") + "/l/../../../evil"))
    entries.append(entry("escape", b"x"))
    with pytest.raises(BadPack):
        into(*entries)
    assert not list(tmp_path.glob("**/evil"))


def test_a_later_entry_replaces_a_link_and_does_not_write_through_it(into: Into) -> None:
    target = into(entry("kept", b"old"), link("a", "kept"), entry("a", b"new"))
    assert (target / "kept").read_bytes() == b"old"
    assert (target / "a").read_bytes() == b"new"


def test_what_a_pack_may_hold_is_bounded(into: Into, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadPack, match="more than 10 bytes"):
        into(entry("a", b"123456"), entry("b", b"123456"), max_bytes=10)
    monkeypatch.setattr(unpacking, "MAX_FILES", 2)
    with pytest.raises(BadPack, match="more than 2 entries"):
        into(entry("c"), entry("d"), entry("e"))


def test_a_header_that_would_fill_the_memory_is_refused(into: Into) -> None:
    with pytest.raises(BadPack, match="header"):
        into(entry("a", pax_headers={"comment": "x" * (3 * 2**20)}))


def test_a_file_larger_than_the_disk_is_no_room_and_not_the_packs_fault(into: Into) -> None:
    raw = io.BytesIO()
    info = tarfile.TarInfo("huge")
    info.size = 2**50
    raw.write(info.tobuf(tarfile.PAX_FORMAT))
    with pytest.raises(NoRoom):
        unpack(io.BytesIO(zstandard.ZstdCompressor().compress(raw.getvalue())), into(), max_bytes=2**60)


@pytest.mark.parametrize("cut", [5, 100, -30])
def test_a_pack_that_is_cut_off_or_no_pack_is_refused(into: Into, cut: int) -> None:
    whole = packed(entry("a", os.urandom(5000)), entry("b", os.urandom(5000)))
    with pytest.raises(BadPack):
        unpack(io.BytesIO(whole[:cut]), into())
    with pytest.raises(BadPack):
        unpack(io.BytesIO(b"\x28\xb5\x2f\xfdnot really"), into())


def give(hub: FakeHub, data: bytes, *steps: str, job: int = 1, **more: Any) -> None:
    hub.workspaces[job] = data
    hub.queue(job, *steps, workspace={"hash": blake3(data).hexdigest(), "bytes": len(data), **more})


def test_a_job_finds_its_files(hub: FakeHub, start: Start) -> None:
    data = packed(entry("run.sh", b"echo from the pack\n", mode=0o755))
    give(hub, data, "ls; ./run.sh")
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert b"\nrun.sh\nfrom the pack\n##[exit 0]" in hub.log(1)
    assert hub.log(1).startswith(b"workspace ")
    asked = hub.of("/workspace")[0]
    assert asked.headers["lease"]
    assert [c.json["phase"] for c in hub.of("/start")] == ["preparing", "running"]
    assert hub.of("/start")[0].at < asked.at < hub.of("/start")[1].at


def test_a_fetch_that_is_cut_or_comes_garbled_is_tried_again(hub: FakeHub, start: Start) -> None:
    data = packed(entry("file", b"x"))
    hub.instead(
        "/workspace",
        Answer(lose=True),
        problem(502, "bad gateway"),
        Answer(200, data[:-1]),
    )
    give(hub, data, "cat file")
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert len(hub.of("/workspace")) == 4


def test_a_workspace_that_never_matches_its_hash_is_an_error(hub: FakeHub, start: Start) -> None:
    give(hub, packed(entry("file", b"x")), "cat file")
    hub.workspaces[1] = hub.workspaces[1][::-1]
    start()
    said = hub.finish_of(1)
    assert said["outcome"] == "error"
    assert said["error"].startswith("what came as the workspace is not ")
    assert len(hub.of("/workspace")) == 5
    assert b"##[step" not in hub.log(1)


def test_a_hostile_workspace_is_an_error_that_says_why(hub: FakeHub, start: Start) -> None:
    give(hub, packed(entry("../evil", b"x")), "true")
    start()
    said = hub.finish_of(1)
    assert (said["outcome"], said["error"]) == (
        "error",
        "the workspace is refused: '../evil' leads out of the folder",
    )


def test_a_workspace_that_the_hub_lost_is_an_error_with_its_words(hub: FakeHub, start: Start) -> None:
    give(hub, packed(entry("file", b"x")), "true")
    hub.instead(
        "/workspace", problem(404, "the workspace's bytes are gone from the hub: submit the run anew")
    )
    start()
    assert "submit the run anew" in hub.finish_of(1)["error"]


def test_a_workspace_too_large_for_the_disk_is_declined(hub: FakeHub, start: Start) -> None:
    give(hub, packed(entry("file", b"x")), "true", bytes=2**52)
    start()
    call = eventually(lambda: hub.of("/decline"), "it is declined")[0]
    assert "no space left" in call.json["reason"]


def test_a_cancel_ends_a_fetch_that_hangs(hub: FakeHub, start: Start) -> None:
    give(hub, packed(entry("file", b"x")), "true")
    hub.script.extend([("/workspace", problem(503, "busy"))] * 10_000)
    start()
    eventually(lambda: hub.of("/workspace"), "it tries")
    hub.cancel(1)
    assert hub.finish_of(1)["outcome"] == "canceled"


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str, str]:
    """A git repository, its first commit and its second; a hook that must not run."""
    path = tmp_path / "repo"

    def git(*words: str) -> str:
        settings = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *settings, *words], cwd=path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    path.mkdir()
    git("init", "-q")
    (path / "file").write_text("first\n")
    git("add", ".")
    git("commit", "-qm", "The first")
    first = git("rev-parse", "HEAD")
    (path / "file").write_text("second\n")
    git("commit", "-qam", "The second")
    return path, first, git("rev-parse", "HEAD")


@pytest.mark.parametrize("which", ["full", "old", "short"])
def test_a_commit_is_checked_out(
    hub: FakeHub, start: Start, repository: tuple[Path, str, str], which: str
) -> None:
    path, first, second = repository
    commit = {"full": second, "old": first, "short": first[:10]}[which]
    hub.queue(1, "cat file; git rev-parse HEAD", workspace={"git": f"file://{path}", "commit": commit})
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded", hub.log(1)
    text, head = ("second", second) if which == "full" else ("first", first)
    assert f"\n{text}\n{head}\n".encode() in hub.log(1)


def test_a_commit_that_is_not_there_is_an_error_with_gits_words(
    hub: FakeHub, start: Start, repository: tuple[Path, str, str]
) -> None:
    hub.queue(1, "true", workspace={"git": f"file://{repository[0]}", "commit": "0" * 40})
    start()
    said = hub.finish_of(1)
    assert said["outcome"] == "error"
    assert "git could not fetch 000000000000" in said["error"]
    assert hub.log(1)


def test_a_repository_that_hangs_is_ended_by_the_bound_on_preparing(
    hub: FakeHub, start: Start, tmp_path: Path
) -> None:
    import socket

    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/x.git"
        hub.queue(1, "true", workspace={"git": url, "commit": "0" * 40})
        start(timing=QUICK.__class__(grace_s=0.3, retry_s=0.02, heartbeat_s=0.05, prepare_s=1.0))
        said = hub.finish_of(1)
    assert (said["outcome"], said["error"]) == ("error", "preparing took too long")
