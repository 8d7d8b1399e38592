"""What the machine is: speed and classes, memory and CPUs in made-up trees of control groups."""

import json
from pathlib import Path

import pytest

from runner import facts, limits, speed

MIB = 2**20


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (100, 3),
        (80, 2),
        (64, 1),
        (51, 0),
        (10, 0),
        (1, 0),
        (125, 4),
        (156, 5),
        (381, 9),
        (10_000, 9),
        (107, 3),
        (93, 3),
    ],
)
def test_a_class_is_a_quarter_faster_than_the_one_below(score: int, expected: int) -> None:
    assert speed.class_of(score) == expected


def test_the_reference_machine_has_a_score_of_100() -> None:
    assert speed.score(speed.REFERENCE_BYTES_S) == 100
    assert speed.score(speed.REFERENCE_BYTES_S / 2) == 50
    assert speed.score(0) == 1


def test_a_measured_score_does_not_change_its_class_from_time_to_time() -> None:
    first, second = speed.measure(), speed.measure()
    assert abs(first - second) <= 0.15 * max(first, second)


def test_the_score_is_measured_once_per_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([120, 130])
    monkeypatch.setattr(speed, "measure", lambda: next(scores))
    assert (speed.known(tmp_path), speed.known(tmp_path)) == (120, 120)
    kept = json.loads((tmp_path / speed.CACHE).read_text())
    kept["of"]["cpu"] = "another"  # the disk was moved to another machine
    (tmp_path / speed.CACHE).write_text(json.dumps(kept))
    assert speed.known(tmp_path) == 130


@pytest.mark.parametrize("text", ["", "{", "[]", '{"score": 0}', '{"of": null, "score": "x"}'])
def test_a_score_that_cannot_be_read_is_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(speed, "measure", lambda: 77)
    (tmp_path / speed.CACHE).write_text(text)
    assert speed.known(tmp_path) == 77


class Tree:
    """A made-up root of a file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/meminfo", "MemTotal: 16777216 kB\nMemFree: 1 kB\nMemAvailable: 12582912 kB\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def mount(self, at: str, kind: str, options: str, shown: str = "/") -> None:
        file = self.root / "proc/self/mountinfo"
        before = file.read_text() if file.exists() else ""
        self.write(
            "proc/self/mountinfo", before + f"31 26 0:26 {shown} {at} rw,relatime - {kind} x {options}\n"
        )

    def group(self, text: str) -> None:
        self.write("proc/self/cgroup", text)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_memory_is_total_and_what_is_not_available(tree: Tree) -> None:
    assert facts.memory(tree.root) == facts.Memory(total_mib=16384, used_mib=4096)


def test_a_machine_that_does_not_tell_has_no_figure(tree: Tree) -> None:
    tree.write("proc/meminfo", "MemFree: 5 kB\n")
    assert facts.memory(tree.root) is None


def test_version_2_limits_hold_at_any_level_above(tree: Tree) -> None:
    tree.mount("/sys/fs/cgroup", "cgroup2", "rw")
    tree.group("0::/system.slice/runner.service\n")
    tree.write("sys/fs/cgroup/system.slice/runner.service/memory.max", "max\n")
    tree.write("sys/fs/cgroup/system.slice/runner.service/memory.current", f"{100 * MIB}\n")
    tree.write("sys/fs/cgroup/system.slice/memory.max", f"{2048 * MIB}\n")
    tree.write("sys/fs/cgroup/system.slice/memory.current", f"{1000 * MIB}\n")
    tree.write("sys/fs/cgroup/system.slice/memory.stat", f"anon 5\ninactive_file {400 * MIB}\n")
    tree.write("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n")
    assert facts.memory(tree.root) == facts.Memory(total_mib=2048, used_mib=600)
    assert limits.cpu_quota(tree.root) == 1.5
    assert facts.cpus(tree.root, affinity=8) == 1


def test_version_1_limits_are_found_by_controller(tree: Tree) -> None:
    tree.mount("/sys/fs/cgroup/memory", "cgroup", "rw,memory")
    tree.mount("/sys/fs/cgroup/cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    tree.mount("/sys/fs/cgroup/unified", "cgroup2", "rw")
    tree.group("9:cpu,cpuacct:/jobs\n4:memory:/jobs\n0::/\n")
    tree.write("sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", f"{4096 * MIB}\n")
    tree.write("sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", f"{3000 * MIB}\n")
    tree.write(
        "sys/fs/cgroup/memory/jobs/memory.stat", f"inactive_file 1\ntotal_inactive_file {1000 * MIB}\n"
    )
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "300000\n")
    tree.write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n")
    assert facts.memory(tree.root) == facts.Memory(total_mib=4096, used_mib=2000)
    assert facts.cpus(tree.root, affinity=8) == 3
    assert facts.cpus(tree.root, affinity=2) == 2


def test_within_a_container_the_hosts_path_is_not_there_and_the_mounts_top_counts(tree: Tree) -> None:
    tree.mount("/sys/fs/cgroup/memory", "cgroup", "rw,memory", shown="/docker/abc")
    tree.mount("/sys/fs/cgroup/cpu", "cgroup", "rw,cpu", shown="/docker/abc")
    tree.group("4:memory:/docker/abc\n3:cpu:/docker/abc/sub\n")
    tree.write("sys/fs/cgroup/memory/memory.limit_in_bytes", f"{512 * MIB}\n")
    tree.write("sys/fs/cgroup/memory/memory.usage_in_bytes", f"{100 * MIB}\n")
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    tree.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert facts.memory(tree.root) == facts.Memory(total_mib=512, used_mib=100)
    assert facts.cpus(tree.root, affinity=4) == 4  # -1: no quota


def test_a_namespaced_path_with_dots_is_the_mounts_top(tree: Tree) -> None:
    tree.mount("/sys/fs/cgroup", "cgroup2", "rw", shown="/../..")
    tree.group("0::/../other\n")
    tree.write("sys/fs/cgroup/memory.max", f"{1024 * MIB}\n")
    tree.write("sys/fs/cgroup/memory.current", "0\n")
    found = limits.memory_limit(tree.root)
    assert found is not None
    assert found.limit_bytes == 1024 * MIB


def test_a_machine_that_is_short_of_memory_is_short_for_the_group_too(tree: Tree) -> None:
    tree.write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 524288 kB\n")
    tree.mount("/sys/fs/cgroup", "cgroup2", "rw")
    tree.group("0::/\n")
    tree.write("sys/fs/cgroup/memory.max", f"{4096 * MIB}\n")
    tree.write("sys/fs/cgroup/memory.current", "0\n")
    assert facts.memory(tree.root) == facts.Memory(total_mib=4096, used_mib=4096 - 512)


def test_a_tiny_quota_still_is_one_cpu(tree: Tree) -> None:
    tree.mount("/sys/fs/cgroup", "cgroup2", "rw")
    tree.group("0::/\n")
    tree.write("sys/fs/cgroup/cpu.max", "5000 100000\n")
    assert facts.cpus(tree.root, affinity=4) == 1


@pytest.mark.parametrize("text", ["", "garbage\n", "31 26\n - x\n", "0::/\n"])
def test_a_tree_that_cannot_be_read_limits_nothing(tree: Tree, text: str) -> None:
    tree.write("proc/self/mountinfo", text)
    tree.group("0::/\n")
    assert limits.memory_limit(tree.root) is None
    assert limits.cpu_quota(tree.root) is None


def test_this_machine_is_read_without_a_fault() -> None:
    found = facts.memory()
    assert found is not None
    assert 0 < found.used_mib <= found.total_mib
    assert facts.cpus() >= 1
    assert facts.arch()
    assert facts.kernel()
    assert (facts.load1() or 0) >= 0


def test_names_are_one_plain_line(tree: Tree) -> None:
    tree.write("proc/cpuinfo", "processor: 0\nmodel name\t: Evil\x1b[31m  CPU\n")
    assert facts.cpu_model(tree.root) == "Evil\ufffd[31m CPU"
    tree.write("proc/cpuinfo", "processor: 0\n")
    assert facts.cpu_model(tree.root) is None
