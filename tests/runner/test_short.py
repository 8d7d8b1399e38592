"""A job that ran out of memory or disk says so, and one that only looks like it does not."""

import errno
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner import limits, report
from runner.sandbox import meter, process
from runner.sandbox.base import Command, Stop
from runner.sandbox.process import ProcessSandbox
from tests.runner.conftest import ROOT, Start
from tests.runner.fakehub import FakeHub

MIB = 2**20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"needs a machine that lets root mount: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def ended(folder: Path, script: str) -> tuple[int, str | None, int | None]:
    """Run `script` in a sandbox of the process tier: its exit code, what it was short of, its peak."""
    box = ProcessSandbox(folder, grace_s=0.3)
    box.prepare()
    try:
        command = Command(argv=("/bin/bash", "-c", script), env={"PATH": os.environ["PATH"]})
        code = box.run(command, lambda piece: None, Stop(), time.monotonic() + 60)
        short = box.short_of(code)
        box.end()
        return code, short, box.usage().peak_disk_mib
    finally:
        box.destroy()


def test_a_step_that_fills_its_disk_is_short_of_disk(small_disk: Path) -> None:
    code, short, peak_mib = ended(small_disk / "job", "head -c 100000000 /dev/zero > big")
    assert (code, short) == (1, "disk")
    assert peak_mib is not None
    assert 48 <= peak_mib <= 64


def test_a_step_that_removes_what_was_too_large_is_short_of_disk_all_the_same(small_disk: Path) -> None:
    script = "head -c 100000000 /dev/zero > big; sleep 0.6; rm big; exit 2"
    assert ended(small_disk / "job", script)[:2] == (2, "disk")


def test_a_step_that_fails_beside_room_or_ends_well_without_it_is_short_of_nothing(small_disk: Path) -> None:
    assert ended(small_disk / "a", "head -c 20000000 /dev/zero > some; exit 3")[:2] == (3, None)
    assert ended(small_disk / "b", "head -c 100000000 /dev/zero > big; exit 0")[:2] == (0, None)


def test_only_the_step_that_failed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = [meter.FULL_BYTES - 1]
    monkeypatch.setattr(meter, "free_bytes", lambda folder: free[0])
    box = ProcessSandbox(tmp_path / "box", grace_s=0.3)
    box.prepare()
    try:

        def run(script: str) -> int:
            command = Command(argv=("/bin/bash", "-c", script), env={"PATH": os.environ["PATH"]})
            return box.run(command, lambda piece: None, Stop(), time.monotonic() + 60)

        assert box.short_of(run("exit 1")) == "disk"
        free[0] = meter.FULL_BYTES
        assert box.short_of(run("exit 1")) is None
    finally:
        box.destroy()


def test_what_may_still_be_written_is_what_the_system_says(small_disk: Path) -> None:
    before = meter.free_bytes(small_disk)
    (small_disk / "file").write_bytes(bytes(8 * MIB))
    assert before - meter.free_bytes(small_disk) == 8 * MIB


@pytest.mark.parametrize(
    ("code", "before", "now", "short"),
    [
        (137, 4, 5, "memory"),
        (137, 4, 4, None),  # somebody else killed it
        (137, None, None, None),
        (1, 4, 5, None),  # somebody else was killed
        (0, 4, 5, None),
    ],
)
def test_a_step_is_short_of_memory_if_the_kernel_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    before: int | None,
    now: int | None,
    short: str | None,
) -> None:
    said = [before, now]
    monkeypatch.setattr(process, "oom_kills", lambda: said.pop(0) if len(said) > 1 else said[0])
    kills = "kill -9 $$" if code == 137 else f"exit {code}"
    assert ended(tmp_path / "job", kills)[:2] == (code, short)


def tree(root: Path, **files: str) -> None:
    """A machine whose process stands in the group /job of control groups, version 2."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/job\n")
    (root / "proc/self/mountinfo").write_text("30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
    (root / "sys/fs/cgroup/job").mkdir(parents=True)
    for name, text in files.items():
        place = {"own": "sys/fs/cgroup/job/memory.events", "above": "sys/fs/cgroup/memory.events"}
        (root / place.get(name, "proc/vmstat")).write_text(text)


def test_kills_are_counted_in_our_own_group_if_it_counts(tmp_path: Path) -> None:
    tree(tmp_path, own="low 0\noom 9\noom_kill 2\n", above="oom_kill 7\n", machine="oom_kill 11\n")
    assert limits.oom_kills(tmp_path) == 2


def test_a_group_above_is_no_word_about_us_so_the_machine_is_asked(tmp_path: Path) -> None:
    tree(tmp_path, above="oom_kill 7\n", machine="nr_free_pages 1\noom_kill 11\n")
    assert limits.oom_kills(tmp_path) == 11


def test_kills_that_nobody_counts_are_unknown(tmp_path: Path) -> None:
    tree(tmp_path, machine="nr_free_pages 1\n")
    assert limits.oom_kills(tmp_path) is None


IN_A_GROUP = textwrap.dedent("""
    import os, pathlib, sys
    group, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    (group / "cgroup.procs").write_text(str(os.getpid()))
    from tests.runner.test_short import ended
    print(*ended(folder, "python3 -c 'x = bytearray(400 << 20)'")[:2])
""")


def test_a_step_that_the_kernel_kills_for_its_memory_is_short_of_memory(tmp_path: Path) -> None:
    group = next((one for one in limits.groups(Path("/"), "memory") if os.access(one, os.W_OK)), None)
    if group is None or not (group / "memory.limit_in_bytes").exists():
        pytest.skip("needs a memory group, version 1, that may be divided")
    inner = group / f"shunter-test-{os.getpid()}"
    try:
        inner.mkdir()
        (inner / "memory.limit_in_bytes").write_text(str(256 * MIB))
    except OSError as error:
        pytest.skip(f"needs a memory group that may be divided: {error}")
    try:
        words = [sys.executable, "-c", IN_A_GROUP, str(inner), str(tmp_path / "job")]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=60)
        assert done.stdout.split() == ["137", "memory"], done.stderr
    finally:
        inner.rmdir()


def test_a_job_that_fills_the_disk_tells_the_hub_what_it_was_short_of(
    hub: FakeHub, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "free_bytes", lambda folder: 0)
    hub.queue(1, "echo no room; exit 7")
    start()
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"], said["short"]) == ("failed", 7, "disk")


def test_a_job_that_fails_for_another_reason_tells_of_none(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "exit 7")
    start()
    assert "short" not in hub.finish_of(1)


@pytest.mark.parametrize(
    ("number", "short"), [(errno.ENOSPC, "disk"), (errno.EDQUOT, "disk"), (errno.EIO, None)]
)
def test_a_disk_that_the_runner_itself_finds_full_is_told(
    hub: FakeHub, start: Start, monkeypatch: pytest.MonkeyPatch, number: int, short: str | None
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(report.Log, "write", full)
    hub.queue(1, "echo x")
    start()
    said = hub.finish_of(1)
    assert (said["outcome"], said.get("short")) == ("error", short)
