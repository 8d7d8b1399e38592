"""A job in the namespace tier: what it sees, what it may take, and that nothing of it is left."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from runner import leftovers
from tests.runner.boxes import Driver
from tests.runner.fakehub import eventually

Begin = Callable[..., Driver]


@pytest.fixture
def driver(box_driver: Begin) -> Driver:
    return box_driver()


@pytest.fixture
def only_root(who: str) -> None:
    if who != "root":
        pytest.skip("root alone has it")


def mounts_and_loops(work: Path) -> list[str]:
    """Mounts in this process's table, and loop devices, that have to do with a folder."""
    found = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(work) in line]
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            found += [line for line in path.read_text().splitlines() if line.startswith(str(work))]
        except OSError:
            continue
    return found


def test_steps_share_the_workspace_and_keep_what_they_write_to_their_image(
    driver: Driver, image: Path, other_image: Path
) -> None:
    driver.make("job", image, other_image)
    assert (
        driver.run("job", "cat /etc/name; echo one >made; echo mine >/etc/new; pwd").out == "first\n/work\n"
    )
    there = driver.run("job", "cat /etc/name made; ls /etc/new", image=other_image.stem)
    assert there.out.startswith("second\none\n")
    assert there.code != 0  # its image has no /etc/new
    assert driver.run("job", "cat made /etc/new").out == "one\nmine\n"
    driver.end("job")


def test_an_image_is_the_same_for_the_next_job(driver: Driver, image: Path) -> None:
    before = image.read_bytes()
    driver.make("one", image)
    assert driver.run("one", "rm /etc/name; rm /bin/cat; echo changed >/bin/cat; rm -r /var").code == 0
    driver.end("one")
    assert image.read_bytes() == before
    driver.make("two", image)
    assert driver.run("two", "cat /etc/name; ls -d /var").out == "first\n/var\n"
    driver.end("two")


def test_the_environment_is_what_was_given_and_no_more(driver: Driver, image: Path) -> None:
    driver.make("job", image)
    ran = driver.run("job", "env | grep -v -e ^PWD= -e ^SHLVL= -e ^_=", env={"ASKED": "a b\nc"})
    assert "ASKED=a b\nc\n" in ran.out
    names = {line.partition("=")[0] for line in ran.out.splitlines() if "=" in line}
    assert names == {
        "ASKED", "CI", "HOME", "LANG", "LOGNAME", "PATH", "SHUNTER_WORKSPACE", "TMPDIR", "USER",
    }  # fmt: skip
    driver.end("job")


def test_a_step_ends_with_its_own_exit_code_or_signal(driver: Driver, image: Path) -> None:
    driver.make("job", image)
    assert driver.run("job", "exit 3").code == 3
    assert driver.run("job", "false; echo not reached").out == ""
    assert driver.run("job", "kill -9 $$").code == 128 + 9
    assert driver.run("job", "kill -TERM $$").code == 128 + 15
    assert driver.run("job", "echo out; echo err >&2").out == "out\nerr\n"
    driver.end("job")


def test_what_a_step_left_running_is_there_for_the_next_and_gone_at_the_end(
    driver: Driver, image: Path
) -> None:
    driver.make("job", image)
    assert driver.run("job", "(while :; do echo x >>beat; sleep 0.05; done) & nc -l -p 999 & :").code == 0
    assert int(driver.run("job", "a=$(wc -l <beat); sleep 0.4; expr $(wc -l <beat) - $a").out) > 0
    assert driver.run("job", "nc -w 1 127.0.0.1 999 </dev/null").code == 0
    driver.end("job")


def test_a_program_that_is_not_in_the_image_is_the_steps_failure(driver: Driver, image: Path) -> None:
    driver.make("job", image)
    ran = driver.run("job", "no-such-program")
    assert ran.code == 127
    assert "not found" in ran.out
    driver.end("job")


def test_an_image_without_a_shell_says_so(driver: Driver, image: Path) -> None:
    driver.make("job", image)
    assert driver.run("job", "rm /bin/sh").code == 0
    ran = driver.run("job", "true")
    assert ran.code != 0
    assert "/bin/sh: No such file" in ran.out
    driver.end("job")


def test_root_in_the_image_may_give_files_away_and_become_another(
    driver: Driver, image: Path, only_root: None
) -> None:
    driver.make("job", image)
    ran = driver.run("job", "touch a; chown builder a; ls -ln a; su builder -c 'id -u; touch /etc/b'")
    assert " 1000 " in ran.out.splitlines()[0]
    assert ran.out.splitlines()[1] == "1000"
    assert "Permission denied" in ran.out
    driver.end("job")


def test_a_job_that_takes_too_much_memory_is_short_of_memory(driver: Driver, image: Path) -> None:
    driver.make("job", image, asked={"memory_mib": 64})
    ran = driver.run("job", "x=$(head -c 30000000 /dev/zero | tr '\\0' a); y=$x$x$x$x; sleep 5; echo ${#y}")
    assert ran.code != 0
    assert ran.short == "memory"
    assert (ran.memory_mib or 0) >= 60
    driver.end("job")


def test_a_job_that_is_killed_for_another_reason_is_short_of_nothing(driver: Driver, image: Path) -> None:
    driver.make("job", image, asked={"memory_mib": 64, "disk_mib": 32})
    ran = driver.run("job", "kill -9 $$")
    assert (ran.code, ran.short) == (137, None)
    driver.end("job")


@pytest.mark.parametrize("where", ["/work", "/var"])
def test_a_job_that_fills_its_disk_is_short_of_disk(driver: Driver, image: Path, where: str) -> None:
    driver.make("job", image, asked={"disk_mib": 32})
    ran = driver.run("job", f"head -c 30000000 /dev/zero >{where}/some")
    assert ran.code == 0, ran
    ran = driver.run("job", f"head -c 30000000 /dev/zero >{where}/more; sleep 4; exit 1")
    assert ran.code != 0
    assert ran.short == "disk"
    assert 28 <= (ran.disk_mib or 0) <= 64
    driver.end("job")


def test_a_job_cannot_start_more_processes_than_its_bound(driver: Driver, image: Path) -> None:
    driver.make("job", image, processes=40)
    ran = driver.run("job", "n=0; while [ $n -lt 80 ]; do sleep 30 & n=$((n+1)); done; echo all")
    assert ran.code != 0
    assert "all" not in ran.out
    assert "fork" in ran.out
    driver.end("job")


def test_cpus_are_a_quota_of_the_jobs_group(driver: Driver, image: Path, only_root: None) -> None:
    made = driver.make("job", image, asked={"cpus": 2})
    folders = [Path(path).parent for path in made["entrances"]]
    said = [
        path.read_text().split()[0]
        for folder in folders
        for path in (folder / "cpu.cfs_quota_us", folder / "cpu.max")
        if path.exists()
    ]
    if not said:
        pytest.skip("needs control groups that limit CPUs")
    assert said == ["200000"]
    driver.end("job")


def test_without_control_groups_limits_are_sampled(driver: Driver, image: Path) -> None:
    driver.make("job", image, asked={"memory_mib": 64}, groups=False)
    ran = driver.run("job", "x=$(head -c 30000000 /dev/zero | tr '\\0' a); y=$x$x; sleep 20; echo ${#y}")
    assert (ran.code, ran.short) == (137, "memory")
    assert ran.took_s < 15
    driver.end("job")


def test_an_image_that_cannot_be_mounted_is_unpacked_once(
    driver: Driver, image: Path, only_root: None
) -> None:
    for name in ("one", "two"):
        driver.make(name, image, groups=False, mounts=False)
        assert driver.run(name, "cat /etc/name; echo x >/etc/name; ls -ln /bin/busybox").out.startswith(
            "first\n"
        )
        driver.end(name)
    assert (driver.work / "unpacked" / image.stem / "etc/name").read_text() == "first\n"


HOSTILE = """
trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM; while :; do setsid sleep 61 & sleep 0.2; done' &)
nohup sh -c 'trap "" TERM; while :; do :; done' >/dev/null 2>&1 &
head -c 90000000 /dev/zero >/var/full
echo begun
while :; do sleep 0.1; done
"""


def test_a_hostile_job_that_is_canceled_leaves_nothing(driver: Driver, image: Path) -> None:
    made = driver.make("job", image, asked={"disk_mib": 64, "memory_mib": 256})
    ran = driver.run("job", HOSTILE.replace("head", "! head"), cancel_after_s=1.0)
    assert ran.code != 0
    assert ran.took_s < 20
    driver.end("job")
    nothing_left(driver, made)


def test_a_job_that_takes_too_long_is_ended(driver: Driver, image: Path) -> None:
    made = driver.make("job", image)
    ran = driver.run("job", "trap '' TERM; while :; do sleep 0.1; done", seconds=0.5)
    assert ran.code != 0
    assert ran.took_s < 15
    driver.end("job")
    nothing_left(driver, made)


def nothing_left(driver: Driver, made: dict[str, object]) -> None:
    """No process, mount, loop device, group or file of the job."""
    entrances = made["entrances"]
    assert isinstance(entrances, list)
    assert marked(str(made["mark"])) == []
    eventually(lambda: mounts_and_loops(driver.work) == [], "the loops are gone", 10)
    assert [path for path in entrances if Path(path).parent.exists()] == []
    assert list((driver.work / "jobs").iterdir()) == []


def marked(mark: str) -> list[int]:
    """The sandbox's own processes on this machine: each has its mark in its environment."""
    return leftovers._marked(mark)


@pytest.mark.parametrize("keeper_too", [False, True])
def test_an_agent_that_is_killed_leaves_nothing_once_it_has_started_again(
    driver: Driver, image: Path, keeper_too: bool
) -> None:
    made = driver.make("job", image, asked={"disk_mib": 64})
    assert driver.run("job", "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' &").code == 0
    assert marked(made["mark"]) != []
    driver.popen.send_signal(signal.SIGSTOP if keeper_too else signal.SIGKILL)
    if keeper_too:  # both at once, so that neither can end the other's
        os.kill(made["keeper"], signal.SIGKILL)
        driver.popen.kill()
    driver.popen.wait()
    if not keeper_too:
        eventually(lambda: marked(made["mark"]) == [], "the keeper ends it by itself", 20)
    lock = leftovers.take(driver.work)
    assert leftovers.clean(driver.work) == 1
    os.close(lock)
    nothing_left(driver, made)


def test_the_machines_own_mounts_never_change(driver: Driver, image: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    driver.make("job", image)
    assert Path("/proc/self/mountinfo").read_text() == before
    assert driver.run("job", "echo x >y").code == 0
    driver.end("job")
    assert Path("/proc/self/mountinfo").read_text() == before


def test_two_jobs_at_a_time_are_two_users_of_the_machine(
    driver: Driver, image: Path, only_root: None
) -> None:
    uids = set()
    for name in ("one", "two"):
        made = driver.make(name, image)
        assert driver.run(name, "sleep 60 &").code == 0
        status = [Path(f"/proc/{pid}").stat().st_uid for pid in marked(made["mark"])]
        uids.add(max(status))
    assert len(uids) == 2
    assert min(uids) > 2**30
    driver.end("one")
    driver.end("two")


def test_a_sandbox_is_made_and_entered_soon(driver: Driver, image: Path) -> None:
    """Figures for people, and a bound that only a fault would pass."""
    made = driver.make("job", image, asked={"disk_mib": 64})
    began = time.monotonic()
    ran = min(driver.run("job", "true").took_s for _ in range(5))
    assert time.monotonic() - began < 30
    print(f"lay {made['took_s'] * 1000:.0f} ms, true {ran * 1000:.0f} ms")
    assert made["took_s"] < 10
    driver.end("job")


def test_the_check_passes_here_and_leaves_nothing(driver: Driver) -> None:
    assert driver.ask(check=True)["why"] is None
    assert [path.name for path in driver.work.iterdir() if path.name.startswith("check-")] == []


def test_the_check_says_what_keeps_it_from_running(box_driver: Begin, public_folder: Path) -> None:
    """As where a distribution forbids user namespaces: bubblewrap's own words."""
    broken = public_folder / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    driver = box_driver(PATH=f"{public_folder}:{os.environ['PATH']}")
    assert "No permissions to create a new namespace" in driver.ask(check=True)["why"]


def test_git_runs_on_the_machine_in_the_same_workspace(driver: Driver, image: Path) -> None:
    driver.make("job", image)
    ran = driver.run(
        "job", argv=["/bin/sh", "-c", "echo from outside >note; test -e /etc/name"], outside=True
    )
    assert ran.code != 0
    assert driver.run("job", "cat note; stat -c %u note; echo more >>note").out == "from outside\n0\n"
    driver.end("job")
