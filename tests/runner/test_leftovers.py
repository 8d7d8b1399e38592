"""What an earlier life left: killed only if surely ours, and removed whatever its modes are."""

import os
import subprocess
from pathlib import Path

import pytest

from runner import leftovers
from tests.runner.fakehub import eventually


def test_a_process_with_the_mark_is_killed_and_any_other_is_not(tmp_path: Path) -> None:
    os.close(leftovers.take(tmp_path))
    folder = tmp_path / "jobs" / "1-1-x"
    folder.mkdir()
    (folder / leftovers.MARK_FILE).write_text("a" * 32)
    ours = subprocess.Popen(["sleep", "60"], env={leftovers.MARK: "a" * 32}, start_new_session=True)
    below = subprocess.Popen(
        ["/bin/sh", "-c", "env -i sleep 60 & wait"], env={leftovers.MARK: "a" * 32}, start_new_session=True
    )
    other = subprocess.Popen(["sleep", "60"], env={leftovers.MARK: "b" * 32}, cwd=folder)
    try:
        eventually(
            lambda: Path(f"/proc/{below.pid}/task/{below.pid}/stat").exists() and ours.poll() is None,
            "they run",
        )
        assert leftovers.clean(tmp_path) == 1
        assert ours.wait(5) == -9
        assert below.wait(5) == -9
        assert other.poll() is None
        assert not folder.exists()
    finally:
        for each in (ours, below, other):
            each.kill()
            each.wait()


def test_a_folder_without_a_mark_kills_nothing(tmp_path: Path) -> None:
    os.close(leftovers.take(tmp_path))
    (tmp_path / "jobs" / "1-1-x").mkdir()
    (tmp_path / "jobs" / "1-1-x" / leftovers.MARK_FILE).write_text("")
    process = subprocess.Popen(["sleep", "60"], env={leftovers.MARK: ""})
    try:
        assert leftovers.clean(tmp_path) == 1
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_folder_is_locked_for_one(tmp_path: Path) -> None:
    held = leftovers.take(tmp_path)
    with pytest.raises(leftovers.FolderInUse):
        leftovers.take(tmp_path)
    os.close(held)
    os.close(leftovers.take(tmp_path))


def test_folders_shut_to_their_own_user_are_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    shut = tmp_path / "job" / "mod" / "deep"
    shut.mkdir(parents=True)
    (shut / "file").write_text("x")
    (tmp_path / "job" / "link").symlink_to(kept)
    shut.chmod(0o000)
    shut.parent.chmod(0o500)
    leftovers.remove(tmp_path / "job")
    assert not (tmp_path / "job").exists()
    assert (kept / "file").exists()
