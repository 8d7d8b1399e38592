"""`shunter image …` as a person runs it, against a small hub that keeps images and fails on demand."""

import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.carry.transfer import Patience
from hub.cli import image_progress, image_transfer
from hub.cli.image_progress import saving, size
from hub.cli.show_images import gc_lines, images_lines, names_lines
from hub.cli.terminal import Paint
from tests.carry.contents import edited, made
from tests.carry.imagehub import TOKEN, Answer, Fault, ImageHub, problem, serving, told
from tests.cli.conftest import Shunter

CONTENT = made(3_000_000)
NOW_MS = 1_777_636_800_000  # 2026-05-01T12:00:00Z


@pytest.fixture
def hub(shunter: Shunter, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImageHub]:
    """A hub of images, which the commands mean."""
    monkeypatch.setattr(image_transfer, "PATIENCE", Patience(first_s=0.001, most_s=0.004, give_up_s=0.05))
    with serving() as made_hub:
        monkeypatch.setenv("SHUNTER_URL", made_hub.url)
        monkeypatch.setenv("SHUNTER_TOKEN", TOKEN)
        yield made_hub


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "debian.sqfs"
    path.write_bytes(CONTENT)
    return path


def test_a_push_sends_the_file_and_names_it(shunter: Shunter, hub: ImageHub, file: Path) -> None:
    done = shunter("image", "push", file, "--name", "debian-12", "--arch", "x86_64")
    assert done.status == 0, done.err
    [name] = hub.manifests
    assert hub.names == {"debian-12": name}
    assert hub.manifests[name].arch == "x86_64"
    total = len(hub.manifests[name].names)
    first, second = done.out.splitlines()
    assert first == f"image {name} (debian-12), 3.0 MB"
    assert second.startswith("saved 4")
    assert f" %: {total} of {total} chunks sent, 1." in second
    assert [line for line in done.err.splitlines() if line.startswith("cutting debian.sqfs: 3.0 MB")]


def test_a_second_push_sends_nothing_and_says_what_that_saved(
    shunter: Shunter, hub: ImageHub, file: Path
) -> None:
    shunter("image", "push", file)
    sent = len(hub.received)
    done = shunter("image", "push", file)
    total = len(set(hub.received))
    assert done.out.splitlines()[1] == f"saved 100 %: 0 of {total} chunks sent, 0 B"
    assert len(hub.received) == sent


def test_a_push_of_a_similar_file_sends_only_what_changed(
    shunter: Shunter, hub: ImageHub, file: Path
) -> None:
    shunter("image", "push", file)
    hub.received.clear()
    file.write_bytes(edited(CONTENT))
    done = shunter("image", "push", file, "--json")
    answer = json.loads(done.out)
    assert answer["sent"]["chunks"] == len(hub.received) <= 12
    assert (answer["bytes"], answer["new"]) == (len(CONTENT) + 300, True)
    assert answer["hash"] in hub.manifests


def test_a_push_that_was_cut_off_goes_on_where_it_stood(shunter: Shunter, hub: ImageHub) -> None:
    file = Path(os.environ["HOME"], "big.img")
    file.write_bytes(made(40_000_000))  # at least five batches, of which two are under way at a time

    def fail_later(path: str) -> None:
        if path == "/images/chunks" and hub.chunks:
            hub.faults = [Fault("/chunks", status=403) for _ in range(10)]

    hub.before = fail_later
    done = shunter("image", "push", file)
    assert (done.status, done.err.splitlines()[-1]) == (1, "shunter: not now")
    kept = set(hub.chunks)
    assert kept
    assert hub.manifests == {}
    hub.before, hub.faults = lambda path: None, []
    hub.received.clear()
    assert shunter("image", "push", file).status == 0
    assert not kept & set(hub.received)


def test_a_chunk_that_is_lost_before_the_manifest_is_sent_again(
    shunter: Shunter, hub: ImageHub, file: Path
) -> None:
    lost: list[str] = []

    def lose_one(path: str) -> None:
        if len(path) > 60 and not lost and hub.chunks:
            lost.append(next(iter(hub.chunks)))
            del hub.chunks[lost[0]]

    hub.before = lose_one
    assert shunter("image", "push", file).status == 0
    assert hub.received.count(lost[0]) == 2


def test_a_hub_that_loses_chunks_for_ever_is_told_as_failing(
    shunter: Shunter, hub: ImageHub, file: Path
) -> None:
    def lose_one(path: str) -> None:
        if len(path) > 60:
            hub.chunks.popitem()

    hub.before = lose_one
    done = shunter("image", "push", file)
    assert (done.status, done.err.splitlines()[-1][:30]) == (1, "shunter: 1 of its chunks are m")


@pytest.mark.parametrize("path", ["/settings", "/missing", "/images/chunks", "/images/names/debian-12"])
def test_a_lost_answer_anywhere_does_no_harm(shunter: Shunter, hub: ImageHub, file: Path, path: str) -> None:
    hub.faults = [Fault(path, lose=True), Fault(path, status=503)]
    assert shunter("image", "push", file, "--name", "debian-12").status == 0
    assert hub.names["debian-12"] in hub.manifests
    assert hub.faults == []


def test_a_file_that_changes_while_it_is_pushed_is_refused(
    shunter: Shunter, hub: ImageHub, file: Path
) -> None:
    def change(path: str) -> None:
        if path == "/images/missing":
            file.write_bytes(edited(CONTENT, edits=30))

    hub.before = change
    done = shunter("image", "push", file)
    assert done.status == 1
    assert "has changed while it was being pushed" in done.err
    assert hub.manifests == {}


def test_what_is_no_image_is_refused_before_anything_is_sent(
    shunter: Shunter, hub: ImageHub, tmp_path: Path
) -> None:
    (tmp_path / "empty").touch()
    os.mkfifo(tmp_path / "pipe")
    for words, path in (
        ("the file is empty", tmp_path / "empty"),
        ("cannot be read: No such file", tmp_path / "absent"),
        ("cannot be read: Is a directory", tmp_path),
        ("is no regular file", tmp_path / "pipe"),
    ):
        done = shunter("image", "push", path)
        assert (done.status, words in done.err) == (2, True), done.err
    assert hub.count("POST", "/images/missing") == 0


@pytest.mark.parametrize(
    ("settings", "words", "status"),
    [
        ({"cutter": "rabin-1m"}, "no cutter 'rabin-1m'", 1),
        ({"cutter": "fastcdc2020-64k", "min_bytes": 1}, "into other sizes", 1),
        ({"max_image_bytes": 1000}, "the hub takes 1000", 2),
    ],
)
def test_a_hub_that_this_version_cannot_cut_for_is_told(
    shunter: Shunter, hub: ImageHub, file: Path, settings: dict[str, object], words: str, status: int
) -> None:
    hub.instead["/images/settings"] = told(settings)
    done = shunter("image", "push", file)
    assert (done.status, words in done.err) == (status, True), done.err


def test_a_hub_that_is_away_and_one_that_says_no_end_with_their_own_status(
    shunter: Shunter, hub: ImageHub, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.instead["/images/missing"] = problem(403, "this token may not push images")
    done = shunter("image", "push", file)
    assert (done.status, done.err.splitlines()[-1]) == (1, "shunter: this token may not push images")
    done = shunter("image", "push", file, "--hub", "http://127.0.0.1:1")
    assert done.status == 3
    assert "127.0.0.1:1 cannot be reached: connection refused" in done.err


def test_a_pull_brings_the_image_by_name_hash_and_beginning(
    shunter: Shunter, hub: ImageHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = hub.hold(CONTENT)
    hub.names["debian-12"] = name
    for word, output in (
        ("debian-12", "debian-12.img"),
        (name, f"{name[:12]}.img"),
        (f"cas://blake3/{name}", f"{name[:12]}.img"),
        (name[:10], f"{name[:10]}.img"),
    ):
        done = shunter("image", "pull", word)
        assert done.status == 0, done.err
        assert done.out.splitlines()[0] == f"image {name} is {output}, 3.0 MB"
        assert Path(output).read_bytes() == CONTENT
        assert Path(output).stat().st_mode & 0o200
    assert not list(tmp_path.glob("*.part"))


def test_a_pull_takes_what_a_seed_and_the_output_have(
    shunter: Shunter, hub: ImageHub, tmp_path: Path
) -> None:
    half = len(CONTENT) // 2
    (tmp_path / "seed").write_bytes(CONTENT[:half])
    (tmp_path / "out").write_bytes(CONTENT[half:])
    name = hub.hold(CONTENT)
    done = shunter("image", "pull", name, "-o", tmp_path / "out", "--seed", tmp_path / "seed", "--json")
    answer = json.loads(done.out)
    assert answer["fetched"]["chunks"] == len(hub.served) <= 3
    assert (answer["hash"], answer["bytes"]) == (name, len(CONTENT))
    assert (tmp_path / "out").read_bytes() == CONTENT


def test_a_pull_that_was_cut_off_goes_on_where_it_stood(
    shunter: Shunter, hub: ImageHub, tmp_path: Path
) -> None:
    name = hub.hold(CONTENT)
    (tmp_path / "out").write_bytes(b"what was there before")
    hub.faults = [Fault("/fetch", cut=500_000), *(Fault("/fetch", status=503) for _ in range(100))]
    done = shunter("image", "pull", name, "-o", tmp_path / "out")
    assert done.status == 3
    assert (tmp_path / "out").read_bytes() == b"what was there before"
    hub.faults = []
    hub.served.clear()
    assert shunter("image", "pull", name, "-o", tmp_path / "out").status == 0
    assert (tmp_path / "out").read_bytes() == CONTENT
    assert len(hub.served) < len(hub.manifests[name].names)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out"]


def test_a_pull_of_what_is_not_there_says_what_is_near(
    shunter: Shunter, hub: ImageHub, tmp_path: Path
) -> None:
    hub.names["debian-12"] = hub.hold(CONTENT)
    done = shunter("image", "pull", "debain-12", "-o", tmp_path / "out")
    assert done.status == 2
    assert 'there is no image debain-12 (did you mean "debian-12"?)' in done.err
    done = shunter("image", "pull", "0" * 64, "-o", tmp_path / "out")
    assert (done.status, "there is no image 000000000000" in done.err) == (1, True)
    assert shunter("image", "pull", "debian-12", "-o", tmp_path).status == 2


def test_a_name_that_means_two_images_asks_for_the_hash(shunter: Shunter, hub: ImageHub) -> None:
    views = [{"name": "base", "hash": digit * 64, "owner": digit} for digit in "ab"]
    hub.instead["/images/names"] = told({"names": views})
    done = shunter("image", "pull", "base")
    assert (done.status, "base means 2 images: give the hash" in done.err) == (2, True)


def test_a_disk_without_room_is_told_and_what_came_is_kept(
    shunter: Shunter, hub: ImageHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = hub.hold(CONTENT)
    real, written = os.pwrite, [0]

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        written[0] += len(data)
        if written[0] > 1_000_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        done = shunter("image", "pull", name, "-o", tmp_path / "out")
    assert done.status == 1
    assert f"no space left; what came is kept in {tmp_path}/out.{name[:12]}.part" in done.err
    served = len(hub.served)
    assert shunter("image", "pull", name, "-o", tmp_path / "out").status == 0
    assert len(hub.served) - served < len(hub.manifests[name].names)


def test_too_little_room_is_told_before_anything_is_fetched(
    shunter: Shunter, hub: ImageHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = hub.hold(CONTENT)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    done = shunter("image", "pull", name, "-o", tmp_path / "out")
    assert (done.status, "no space left for it: it takes 3.0 MB more, and 1.0 kB are free" in done.err) == (
        1,
        True,
    )
    assert hub.served == []


def test_the_other_verbs_show_what_the_hub_says(shunter: Shunter, hub: ImageHub) -> None:
    name = hub.hold(CONTENT, arch="x86_64")
    other = hub.hold(b"another")
    hub.names["debian-12"] = name
    lines = shunter("image", "list").out.splitlines()
    assert lines[1].split()[:5] == [name[:12], "debian-12", "3.0", "MB", "0"]
    assert json.loads(shunter("image", "list", "--json").out)["images"][1]["hash"] == other
    assert shunter("image", "names").out.splitlines()[1].split()[:2] == ["debian-12", name[:12]]
    done = shunter("image", "rm", "debian-12")
    assert (done.status, done.err) == (1, "shunter: it has a name: give the name to another image first\n")
    assert shunter("image", "rm", other[:8]).out == f"image {other[:12]} is removed\n"
    assert list(hub.manifests) == [name]
    assert shunter("image", "gc", "--dry-run").out.startswith("would remove 3 chunks, would free 4.1 kB\n")
    assert shunter("image", "gc").out.startswith("removed 3 chunks, freed 4.1 kB\n")
    assert json.loads(shunter("image", "gc", "--json").out)["packs"] == 1
    assert shunter("image").status == 2


def test_a_name_is_moved_and_taken_away(shunter: Shunter, hub: ImageHub) -> None:
    first, second = hub.hold(CONTENT), hub.hold(b"another")
    hub.names["debian-12"] = first
    assert shunter("image", "name", "debian-12", second[:9]).out == f"debian-12 is image {second[:12]}\n"
    assert hub.names == {"debian-12": second}
    assert shunter("image", "unname", "debian-12").out == "debian-12 is no image's name any more\n"
    assert hub.names == {}
    assert shunter("image", "unname", "debian-12").status == 1


def test_an_empty_hub_says_how_to_begin(shunter: Shunter, hub: ImageHub) -> None:
    assert shunter("image", "list").out == "no images: shunter image push FILE --name NAME\n"
    assert shunter("image", "names").out == "no names: shunter image push FILE --name NAME\n"


def test_a_list_tells_who_holds_an_image_and_what_is_damaged() -> None:
    view = {
        "hash": "a" * 64, "bytes": 1000, "shared_bytes": 940, "created_at": "2026-05-01T11:00:00Z",
        "held_by": ["earth-9"], "held_by_others": 2, "damaged": 3, "owner": "andy\x1b[2J",
    }  # fmt: skip
    lines = images_lines({"images": [view], "more": 7}, Paint(False), NOW_MS)
    assert lines[1].split("  ")[-1] == "earth-9, 2 more"
    assert "94 %" in lines[1]
    assert "\x1b" not in lines[1]
    assert lines[2:] == ["  damaged 3 of its chunks are lost: push it again", "and 7 more"]


def test_names_show_what_they_pointed_to_before() -> None:
    history = [{"hash": digit * 64, "at": "2026-05-01T11:00:00Z"} for digit in "cba"]
    view = {"name": "x", "hash": "c" * 64, "updated_at": "2026-05-01T11:00:00Z", "history": history}
    assert names_lines([view], Paint(False), NOW_MS)[1].endswith(f"{'b' * 12}, {'a' * 12}")


def test_a_sweep_tells_what_it_takes_and_why() -> None:
    report = {
        "images": [{"hash": "a" * 64, "bytes": 5, "reason": "no name, last used 40 days ago"}],
        "more_images": 2,
        "chunks": 1234,
        "bytes": 5_000_000,
        "kept_images": 3,
        "kept_chunks": 9,
    }
    assert gc_lines(report, Paint(False), dry_run=True) == [
        f"would remove image {'a' * 12}  5 B  no name, last used 40 days ago",
        "and 2 more images",
        "would remove 1,234 chunks, would free 5.0 MB",
        "kept 3 images named or needed, 9 chunks of pushes that may be under way",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_950, "1.0 MB"), (10**16, "10000.0 TB")],
)
def test_sizes_are_read_by_people(count: int, text: str) -> None:
    assert size(count) == text


def test_the_saving_is_told_as_the_share_that_did_not_travel() -> None:
    assert saving(12, 5068, "sent", 1_300_000, 21_700_000) == "saved 94 %: 12 of 5,068 chunks sent, 1.3 MB"
    assert saving(1, 1, "sent", 30, 20) == "saved 0 %: 1 of 1 chunks sent, 30 B"
    assert saving(1, 9, "sent", 1, 10**9).startswith("saved 99 %")


def test_on_a_terminal_a_bar_shows_bytes_and_rate_and_is_gone_at_the_end(
    shunter: Shunter, hub: ImageHub, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image_progress, "wants_colour", lambda stream: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = shunter("image", "push", file)
    assert done.status == 0
    assert "cutting debian.sqfs" in done.err
    assert "/s" in done.err
    assert "\x1b[2K" in done.err, "the bar is wiped"
    assert done.out.startswith("image ")


def test_plain_lines_come_seldom_and_tell_the_rate(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    lines = image_progress._Lines("sending", 1_000_000, clock=lambda: now[0])
    for second in range(1, 11):
        now[0] = second
        lines.advance(100_000)
    assert capsys.readouterr().err.splitlines() == [
        "sending: 1.0 MB",
        "sending: 50 %, 100.0 kB/s",
        "sending: 100 %, 100.0 kB/s",
    ]


def test_an_answer_that_is_no_hubs_is_told(shunter: Shunter, hub: ImageHub, file: Path) -> None:
    hub.instead["/images/settings"] = Answer(200, b"<html>", "text/html")
    done = shunter("image", "push", file)
    assert (done.status, "not a hub's" in done.err) == (1, True)
