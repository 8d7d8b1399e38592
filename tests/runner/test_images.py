"""A runner's images: one fetch for all who wait, nothing removed that is used, nothing held that is wrong."""

import errno
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hub.carry.transfer import Patience
from hub.wire.claim import ImageRef
from runner import images as images_module
from runner import leftovers, unpack
from runner.errors import Aborted
from runner.images import Images, NoRoom, NotFetched, default_limit_mib
from runner.images_shelf import Shelf
from runner.sandbox.base import Stop
from tests.carry.contents import edited, made
from tests.carry.imagehub import Fault, ImageHub, serving
from tests.runner.fakehub import eventually

QUICK = Patience(first_s=0.001, most_s=0.01, give_up_s=0.1)
CONTENT = made(3_000_000)


@pytest.fixture
def hub() -> Iterator[ImageHub]:
    with serving() as made_hub:
        yield made_hub


Cache = Callable[..., Images]


@pytest.fixture
def cache(hub: ImageHub, tmp_path: Path) -> Iterator[Cache]:
    """The runner's images, as one life after the other finds them in its folder."""
    lives: list[Images] = []

    def begin(limit_mib: int = 1000, patience: Patience = QUICK) -> Images:
        lives.append(Images(tmp_path / "images", limit_mib, hub.address, patience=patience))
        return lives[-1]

    yield begin
    for each in lives:
        each.close()


class Asking:
    """A job that asks for an image."""

    def __init__(self, images: Images, image: str, name: str | None = None, seconds: float = 30) -> None:
        self.stop = Stop()
        self.notes: list[str] = []
        self.path: Path | None = None
        self.failure: BaseException | None = None
        self._images, self._ref = images, ImageRef(name=name, hash=image, bytes=1)
        self._until = time.monotonic() + seconds

    def now(self) -> Path:
        try:
            return self._images.ensure(self._ref, stop=self.stop, until=self._until, note=self.notes.append)
        finally:
            self.stop.close()

    def later(self) -> threading.Thread:
        def run() -> None:
            try:
                self.path = self.now()
            except BaseException as error:
                self.failure = error

        thread = threading.Thread(target=run)
        thread.start()
        return thread


def waits_for(event: threading.Event) -> None:
    assert event.wait(30)


def ensure(images: Images, image: str) -> Path:
    return Asking(images, image).now()


def names(folder: Path) -> list[str]:
    return sorted(path.name.partition(".")[2] for path in folder.iterdir())


def test_an_image_is_fetched_once_and_then_held(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT, arch="x86_64")
    images = cache()
    asks = Asking(images, image, "debian-12")
    path = asks.now()
    assert path.read_bytes() == CONTENT
    assert images.held() == {image: "x86_64"}
    assert images.fetching() == ()
    total = len(hub.manifests[image].names)
    assert asks.notes[0].startswith(f"image debian-12 ({image[:12]}): {total} of {total} chunks fetched, 1.")
    served = len(hub.served)
    again = Asking(images, image)
    assert (again.now(), again.notes, len(hub.served)) == (path, [], served)
    assert names(path.parent) == ["img", "json", "manifest"]


def test_another_life_holds_what_was_held(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    ensure(cache(), image)
    assert cache().held() == {image: None}


def test_a_similar_image_is_fetched_only_as_far_as_it_differs(hub: ImageHub, cache: Cache) -> None:
    images = cache()
    ensure(images, hub.hold(CONTENT))
    hub.served.clear()
    newer = edited(CONTENT)
    assert ensure(images, hub.hold(newer)).read_bytes() == newer
    assert 1 <= len(hub.served) <= 12


def test_several_jobs_that_need_one_image_make_one_fetch(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    go_on = threading.Event()
    changes: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
    hub.before = lambda path: waits_for(go_on)
    images = cache()
    images.changed = lambda: changes.append((images.fetching(), tuple(images.held())))
    asking = [Asking(images, image) for _ in range(5)]
    threads = [each.later() for each in asking]
    eventually(lambda: images.fetching() == (image,), "it is fetching")
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert {each.path for each in asking} == {ensure(images, image)}
    assert len(hub.served) == len(hub.manifests[image].names)
    assert changes[0] == ((image,), ())
    assert changes[-1] == ((), (image,))


def test_who_is_told_to_stop_leaves_and_the_others_get_the_image(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    go_on = threading.Event()
    hub.before = lambda path: waits_for(go_on)
    images = cache()
    leaves, stays = Asking(images, image), Asking(images, image)
    threads = [leaves.later(), stays.later()]
    eventually(lambda: images.fetching(), "it is fetching")
    leaves.stop.ask("canceled")
    threads[0].join(10)
    assert isinstance(leaves.failure, Aborted)
    assert images.fetching() == (image,)
    go_on.set()
    threads[1].join(30)
    assert stays.path is not None


def test_a_fetch_that_nobody_waits_for_ends_and_is_resumed(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(made(12_000_000))
    began, go_on = threading.Event(), threading.Event()

    def hold_back(path: str) -> None:
        if path.endswith("/fetch") and hub.count("POST", "/images/chunks/fetch") >= 1:
            began.set()
            go_on.wait(30)

    hub.before = hold_back
    images = cache()
    asks = Asking(images, image)
    thread = asks.later()
    assert began.wait(30)
    eventually(lambda: images.taken_mib() > 0, "something is here")
    asks.stop.ask("canceled")
    thread.join(10)
    assert isinstance(asks.failure, Aborted)
    eventually(lambda: not images.fetching(), "the fetch has ended")
    go_on.set()
    hub.before = lambda path: None
    again = Asking(images, image)
    assert again.now().stat().st_size == 12_000_000
    fetched, total = re.findall(r"(\d+) of (\d+) chunks", again.notes[0])[0]
    assert int(fetched) < int(total)


def test_a_fetch_that_takes_too_long_for_a_job_ends_for_it(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    go_on = threading.Event()
    hub.before = lambda path: waits_for(go_on)
    images = cache()
    with pytest.raises(NotFetched, match="took too long"):
        Asking(images, image, seconds=0.01).now()
    go_on.set()


def test_a_job_that_comes_as_a_fetch_is_given_up_begins_it_anew(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    go_on = threading.Event()
    hub.before = lambda path: waits_for(go_on)
    images = cache()
    first = Asking(images, image)
    thread = first.later()
    eventually(lambda: images.fetching(), "it is fetching")
    first.stop.ask("canceled")
    second = Asking(images, image)
    other = second.later()
    thread.join(10)
    go_on.set()
    other.join(30)
    assert second.path is not None, second.failure


@pytest.mark.parametrize("left", [1, 2, 3])
def test_what_an_earlier_life_left_is_taken_up(
    hub: ImageHub, cache: Cache, tmp_path: Path, left: int
) -> None:
    """A life can end after the manifest, after some chunks, and between the image and its record."""
    image = hub.hold(CONTENT)
    path = ensure(cache(), image)
    path.with_suffix(".json").unlink()
    if left < 3:
        path.rename(path.with_suffix(".part"))
        path.with_suffix(".part").chmod(0o600)
        os.truncate(path.with_suffix(".part"), 0 if left == 1 else 2_000_000)
    images = cache()
    assert images.held() == {}
    hub.served.clear()
    assert ensure(images, image).read_bytes() == CONTENT
    share = len(hub.served) / len(hub.manifests[image].names)
    assert (share == 1, 0 < share < 0.6, share == 0)[left - 1]


@pytest.mark.parametrize("life", ["same", "next"])
def test_an_image_whose_file_has_changed_is_not_held(hub: ImageHub, cache: Cache, life: str) -> None:
    image = hub.hold(CONTENT)
    images = cache()
    path = ensure(images, image)
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"wrong")
    os.utime(path, (1, 1))
    if life == "next":
        images = cache()
        assert images.held() == {}
    hub.served.clear()
    assert ensure(images, image).read_bytes() == CONTENT
    assert len(hub.served) == 1, "only what is wrong is fetched again"


def test_a_change_that_keeps_size_and_time_is_found_by_the_deep_check(hub: ImageHub, cache: Cache) -> None:
    image, other = hub.hold(CONTENT), hub.hold(made(500_000, seed=9))
    images = cache()
    path = ensure(images, image)
    ensure(images, other)
    status = path.stat()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"wrong")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    shelf = Shelf(path.parent)
    assert set(shelf.held) == {image, other}
    assert list(shelf.wrong()) == [image]
    shelf.demote(image, "its bytes have changed")
    images = cache()
    assert images.held() == {other: None}
    assert ensure(images, image).read_bytes() == CONTENT


def test_the_check_of_a_runner_reads_every_image_and_drops_what_is_wrong(
    tmp_path: Path, hub: ImageHub
) -> None:
    image, other = hub.hold(CONTENT), hub.hold(made(500_000, seed=9))
    images = Images(tmp_path / "images", 100, hub.address, patience=QUICK)
    path = ensure(images, image)
    ensure(images, other)
    status = path.stat()
    path.chmod(0o600)
    with path.open("r+b") as file:
        file.write(b"wrong")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def check() -> str:
        command = [sys.executable, "-m", "runner", "check", "--work", str(tmp_path), "--tiers", "process"]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    lock = leftovers.take(tmp_path)
    assert "images kept: not read, for a runner works in this folder" in check()
    os.close(lock)
    told = check()
    assert "images kept: 1, 0.5 MiB, each found to have its name" in told
    assert f"image {image} was not what its name says, and is dropped" in told
    assert "images kept: 1, 0.5 MiB, each found to have its name" in check()
    assert not path.exists()


def test_what_was_not_used_for_longest_goes_first_and_what_is_used_stays(hub: ImageHub, cache: Cache) -> None:
    images = cache(limit_mib=7)
    first, second, third = (hub.hold(made(2_500_000, seed=seed)) for seed in (11, 12, 13))
    with ExitStack() as uses:
        uses.enter_context(images.use(first))
        ensure(images, first)
        ensure(images, second)
        ensure(images, third)
        assert set(images.held()) == {first, third}, "the second was the least used that nobody uses"
        uses.enter_context(images.use(third))
        with pytest.raises(NoRoom, match="takes 3 MiB, and images in use take 5 of the 7 MiB"):
            ensure(images, second)
        assert set(images.held()) == {first, third}
    assert ensure(images, second).exists()
    assert set(images.held()) == {first, second}, "the use of the first ended last"


def test_an_image_larger_than_the_limit_is_refused_and_nothing_is_removed(
    hub: ImageHub, cache: Cache
) -> None:
    images = cache(limit_mib=3)
    small = hub.hold(made(1_000_000, seed=5))
    ensure(images, small)
    with pytest.raises(
        NoRoom, match=r"takes 4 MiB; this runner keeps at most 3 MiB of images \(--images-mib"
    ):
        ensure(images, hub.hold(made(4_000_000)))
    assert set(images.held()) == {small}


def test_two_fetches_at_once_do_not_take_the_same_room(hub: ImageHub, cache: Cache) -> None:
    images = cache(limit_mib=4)
    one, two = hub.hold(made(2_500_000, seed=21)), hub.hold(made(2_500_000, seed=22))
    began, go_on = threading.Event(), threading.Event()

    def hold_back(path: str) -> None:
        if path.endswith("/fetch"):
            began.set()
            go_on.wait(30)

    hub.before = hold_back
    first = Asking(images, one)
    thread = first.later()
    assert began.wait(30)
    with pytest.raises(NoRoom, match="images in use take 3 of the 4 MiB"):
        ensure(images, two)
    go_on.set()
    thread.join(30)
    assert first.path is not None
    assert set(images.held()) == {one}


def test_free_disk_is_counted_before_a_fetch(
    hub: ImageHub, cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images = cache()
    old = hub.hold(made(2_000_000, seed=3))
    ensure(images, old)
    image = hub.hold(CONTENT)
    usage = shutil.disk_usage(tmp_path)
    free = unpack.SPARE_BYTES + 500_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=free))
    with images.use(old), pytest.raises(NoRoom, match="takes 3 MiB more, and 1 MiB can be had"):
        ensure(images, image)
    with pytest.raises(NoRoom, match="takes 3 MiB more, and 3 MiB can be had"):
        ensure(images, image)
    assert set(images.held()) == {old}, "nothing is removed in vain"
    free += 1_500_000
    hub.served.clear()
    assert ensure(images, image).exists()
    assert images.held() == {image: None}


def test_a_disk_that_fills_on_the_way_is_no_room_and_leaves_nothing(
    hub: ImageHub, cache: Cache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    image = hub.hold(CONTENT)
    images = cache()
    real, written = os.pwrite, [0]

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        written[0] += len(data)
        if written[0] > 1_000_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(NoRoom, match="no space left for the image: it takes 3 MiB"):
            ensure(images, image)
    assert images.held() == {}
    assert names(tmp_path / "images") == ["manifest"]
    assert ensure(images, image).read_bytes() == CONTENT


def test_a_disk_that_is_really_full_is_no_room_and_leaves_nothing(
    hub: ImageHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: it mounts a small disk")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], check=True)
    try:
        images = Images(small / "images", 1000, hub.address, patience=QUICK)
        fits = hub.hold(made(500_000, seed=6))
        image = hub.hold(CONTENT)
        monkeypatch.setattr(images_module, "SPARE_BYTES", -(10**9))  # as if others took it meanwhile
        ensure(images, fits)
        with images.use(fits), pytest.raises(NoRoom, match="no space left for the image: it takes 3 MiB"):
            ensure(images, image)
        assert set(images.held()) == {fits}
        assert not list((small / "images").glob("*.part"))
        assert ensure(images, fits).read_bytes() == made(500_000, seed=6)
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_disk_that_fails_is_told_as_it_says(
    hub: ImageHub, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", pwrite)
    with pytest.raises(OSError, match="Input/output error"):
        ensure(cache(), hub.hold(CONTENT))


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/fetch", lose=True),
        Fault("/fetch", cut=300_000),
        Fault("/fetch", wrong=100_000),
        Fault("/fetch", status=503),
    ],
)
def test_faults_on_the_way_cost_no_more_than_time(hub: ImageHub, cache: Cache, fault: Fault) -> None:
    image = hub.hold(CONTENT)
    hub.faults = [fault] * 3
    assert ensure(cache(), image).read_bytes() == CONTENT


def test_an_image_that_the_hub_does_not_hold_is_told_as_such(hub: ImageHub, cache: Cache) -> None:
    with pytest.raises(NotFetched, match=r"there is no image 000000000000 \(push it again\)"):
        ensure(cache(), "0" * 64)


def test_a_kept_manifest_that_is_wrong_does_not_stay(hub: ImageHub, cache: Cache, tmp_path: Path) -> None:
    image, other = hub.hold(CONTENT), hub.hold(made(500_000, seed=9))
    images = cache()
    (tmp_path / "images" / f"{image}.manifest").write_text(hub.manifests[other].to_json())
    with pytest.raises(NotFetched, match="are together"):
        ensure(images, image)
    assert ensure(images, image).read_bytes() == CONTENT


def test_a_hub_that_stays_away_is_told_and_what_came_stays(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    hub.faults = [Fault("/fetch", cut=500_000), *(Fault("/fetch", status=503) for _ in range(200))]
    images = cache()
    with pytest.raises(NotFetched, match="cannot be fetched: not now"):
        ensure(images, image)
    hub.faults, before = [], len(hub.served)
    ensure(images, image)
    assert len(hub.served) - before < len(hub.manifests[image].names)


def test_part_files_that_nobody_finished_go_after_a_week(hub: ImageHub, cache: Cache, tmp_path: Path) -> None:
    cache()
    folder = tmp_path / "images"
    for digit, days in (("a", 1), ("b", 8)):
        (folder / f"{digit * 64}.part").write_bytes(b"x")
        (folder / f"{digit * 64}.manifest").write_text("{}")
        then = time.time() - days * 86400
        os.utime(folder / f"{digit * 64}.part", (then, then))
    (folder / "tmp-unfinished").touch()
    (folder / "notes.txt").write_text("somebody's")
    (folder / f"{'c' * 64}.json").write_text("{}")
    cache()
    assert sorted(path.name[:5] for path in folder.iterdir()) == ["aaaaa", "aaaaa", "notes"]


def test_a_part_file_goes_before_an_image(hub: ImageHub, cache: Cache, tmp_path: Path) -> None:
    images = cache(limit_mib=7)
    kept = hub.hold(made(2_500_000, seed=31))
    ensure(images, kept)
    rest = tmp_path / "images" / f"{'a' * 64}.part"
    rest.write_bytes(made(2_500_000, seed=32))
    ensure(images, hub.hold(made(2_500_000, seed=33)))
    assert kept in images.held()
    assert not rest.exists()


def test_a_lower_limit_removes_at_start_what_was_not_used_for_longest(hub: ImageHub, cache: Cache) -> None:
    images = cache()
    first, second = hub.hold(made(2_500_000, seed=41)), hub.hold(made(2_500_000, seed=42))
    ensure(images, first)
    ensure(images, second)
    with images.use(first):
        pass
    assert set(cache(limit_mib=3).held()) == {first}


def test_what_is_no_record_holds_nothing(hub: ImageHub, cache: Cache) -> None:
    image = hub.hold(CONTENT)
    path = ensure(cache(), image)
    for text in ("", "[]", "{}", '{"bytes": 1}', "\0"):
        path.with_suffix(".json").write_text(text)
        assert cache().held() == {}
        path.with_suffix(".part").rename(path)


def test_the_default_limit_is_a_fifth_of_the_disk_and_no_more_than_50_gib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    assert default_limit_mib(tmp_path / "not" / "yet") == min(usage.total // 5 // 2**20, 51200)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(total=100 * 2**30))
    assert default_limit_mib(tmp_path) == 20480
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(total=2**40))
    assert default_limit_mib(tmp_path) == 51200
