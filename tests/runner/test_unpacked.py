"""Images unpacked to folders: once each, kept while used, and the least recently used removed."""

import os
import threading
from pathlib import Path

import pytest

from runner.sandbox import unpacked
from runner.sandbox.base import SandboxBroken
from runner.sandbox.unpacked import Unpacked
from tests.runner.boxes import need


@pytest.fixture
def folder(tmp_path: Path) -> Unpacked:
    need("unsquashfs", "squashfs-tools")
    return Unpacked(tmp_path / "unpacked")


def test_two_jobs_use_one_image_at_a_time(folder: Unpacked, image: Path) -> None:
    with folder.use("a", image) as one, folder.use("a", image) as two:
        assert one == two
        assert (one / "etc/name").read_text() == "first\n"
    with folder.use("a", Path("/no/such/file")) as again:  # it is not unpacked a second time
        assert (again / "bin/sh").is_symlink()


def test_many_that_ask_at_once_unpack_it_once(folder: Unpacked, image: Path) -> None:
    nodes = []

    def ask() -> None:
        with folder.use("a", image) as found:
            nodes.append((found / "etc/name").stat().st_ino)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(nodes) == 6
    assert len(set(nodes)) == 1


def test_the_least_recently_used_is_removed_and_what_is_used_stays(
    folder: Unpacked, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked, "KEPT", 2)
    place = tmp_path / "unpacked"
    with folder.use("a", image):
        for age, name in enumerate(("b", "c", "d")):
            with folder.use(name, image):
                pass
            for lock in place.glob("*.lock"):
                os.utime(lock, (1000 + age, 1000 + age) if lock.stem == name else (900, 900))
        with folder.use("d", image):
            pass
        assert sorted(path.name for path in place.iterdir() if path.is_dir()) == ["a", "c", "d"]
    with folder.use("b", image) as found:  # what was removed comes back
        assert (found / "etc/name").exists()


def test_what_is_no_image_is_told_and_leaves_nothing(folder: Unpacked, tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"no squashfs" * 1000)
    with pytest.raises(SandboxBroken, match="cannot be unpacked"), folder.use("a", bad):
        pass
    assert [path.name for path in (tmp_path / "unpacked").iterdir()] == ["a.lock"]
