"""Jobs as the agent runs them: what the hub is told, in which order, and what is left: nothing."""

import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest

from runner import job, report
from tests.runner.conftest import Start, gone, with_mark
from tests.runner.fakehub import Answer, FakeHub, eventually, problem


def test_a_job_is_confirmed_then_run_then_told(hub: FakeHub, start: Start) -> None:
    lease = hub.queue(1, "echo hello")
    start()
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"], said["lease"]) == ("succeeded", 0, lease)
    assert [step["exit_code"] for step in said["steps"]] == [0]
    assert [call.json["phase"] for call in hub.of("/start")] == ["preparing", "running"]
    first, second, *rest = hub.log(1).decode().splitlines()
    assert (first, second) == ("##[step 1/1] part 1", "hello")
    assert rest[0].startswith("##[exit 0] ")
    assert said["log_bytes"] == len(hub.log(1))


def test_a_job_that_fails_ends_at_the_step_that_failed(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "echo one", "exit 7", "echo three")
    start()
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"]) == ("failed", 7)
    assert [step["exit_code"] for step in said["steps"]] == [0, 7]
    assert b"##[step 2/3] part 2\n##[exit 7] " in hub.log(1)
    assert b"three" not in hub.log(1)


def test_a_step_ends_at_its_first_command_that_fails(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "false\necho not reached")
    start()
    assert hub.finish_of(1)["outcome"] == "failed"
    assert b"\nnot reached" not in hub.log(1)


def test_a_step_that_is_killed_tells_the_signal_as_a_shell_does(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "kill -SEGV $$")
    start()
    assert hub.finish_of(1)["exit_code"] == 128 + 11


def test_steps_share_files_and_what_runs_in_the_background(hub: FakeHub, start: Start) -> None:
    hub.queue(
        1,
        "echo one > file; mkfifo pipe; (read word < pipe; echo heard $word; touch heard) &",
        "cat file; echo two > pipe; until test -e heard; do sleep 0.02; done",
    )
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert b"\none\nheard two\n" in hub.log(1)


def test_output_arrives_exactly_and_in_order(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    content = os.urandom(10 * 2**20)  # without a newline at its end, and full of what is no text
    content = content.replace(b"\n", b"x")
    (tmp_path / "content").write_bytes(content)
    hub.queue(1, f"cat {tmp_path / 'content'}", "echo out; echo err >&2; echo out")
    start()
    hub.finish_of(1)
    assert hub.log(1).startswith(b"##[step 1/2] part 1\n")
    rest = hub.log(1).partition(b"\n")[2]
    assert rest[: len(content)] == content
    assert rest[len(content) :].startswith(b"\n##[exit 0] ")
    assert b"\nout\nerr\nout\n##[exit 0]" in rest[len(content) :]


def test_a_script_longer_than_a_command_line_may_be_runs(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "true '" + "x" * 300_000 + "'\necho done")
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"


def test_a_step_has_its_env_over_the_jobs_over_the_base(hub: FakeHub, start: Start) -> None:
    steps = [
        {"name": "env", "run": "env", "env": {"A": "step", "LANG": "C"}},
        {"name": "b", "run": "echo $A"},
    ]
    hub.queue(1, steps=steps, env={"A": "job", "B": "job", "CI": "yes"})
    running = start()
    hub.finish_of(1)
    lines = hub.log(1).decode().splitlines()
    assert {"A=step", "B=job", "CI=yes", "LANG=C"} <= set(lines)
    assert "job" in lines  # of the second step
    home = next(line for line in lines if line.startswith("HOME="))
    assert home.startswith(f"HOME={running.work}/jobs/1-1-")
    names = {line.partition("=")[0] for line in lines if "=" in line and not line.startswith("#")}
    shells = {"PWD", "SHLVL", "_", "OLDPWD"}
    base = {"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "LANG", "CI", "SHUNTER_WORKSPACE", "SHUNTER_SANDBOX"}
    assert names - shells == base | {"A", "B"}


def test_a_job_that_takes_too_long_is_stopped(hub: FakeHub, start: Start, mark: str) -> None:
    hub.queue(2, f"exec -a {mark} sleep 60", timeout_s=1)
    start()
    said = hub.finish_of(2)
    assert (said["outcome"], said["exit_code"]) == ("timed_out", 128 + 15)
    assert "1 s" in said["error"]
    assert b"runner: stopped after 1 s, the job's timeout\n##[exit 143]" in hub.log(2)
    assert gone(mark)


def test_a_cancel_is_a_sigterm_first(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "trap 'echo tidied; exit 3' TERM; echo begun; while :; do sleep 0.02; done")
    start()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.cancel(1)
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"]) == ("canceled", 3)
    assert b"tidied" in hub.log(1)


def test_a_cancel_ends_a_job_that_ignores_sigterm(hub: FakeHub, start: Start, mark: str) -> None:
    hub.queue(1, f"trap '' TERM; echo begun; while :; do bash -c 'sleep 0.05; : {mark}'; done")
    start()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.cancel(1)
    assert hub.finish_of(1)["outcome"] == "canceled"
    assert gone(mark)


DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
for fd in range(3):
    os.close(fd)
os.environ.clear()
open(sys.argv[2], "w").close()
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["ends", "canceled", "over"])
def test_nothing_of_a_job_survives_it(
    hub: FakeHub, start: Start, tmp_path: Path, mark: str, how: str
) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    flag = tmp_path / "flag"
    daemon = f"env -i $(command -v python3) {tmp_path}/daemon.py {mark} {flag}"
    wait = f"until test -e {flag}; do sleep 0.02; done"
    lease = hub.queue(1, f"{daemon}\n{wait}", "true" if how == "ends" else "sleep 60")
    start()
    eventually(flag.exists, "the daemon runs")
    if how == "canceled":
        hub.cancel(1)
    if how == "over":
        assert with_mark(mark)
        hub.end_attempt(lease)
    else:
        hub.finish_of(1)
    assert gone(mark)


def test_a_fork_bomb_is_gone_after_its_job(hub: FakeHub, start: Start, mark: str) -> None:
    one = f"bash -c 'sleep 0.2; : {mark}'"
    bomb = f"f() {{ while :; do {one} & {one} & sleep 0.05; (f) & sleep 0.1; done; }}; f"
    hub.queue(1, bomb, timeout_s=1)
    start()
    hub.finish_of(1)
    assert gone(mark)


def test_a_job_whose_keeper_it_killed_is_an_error_and_gone(hub: FakeHub, start: Start, mark: str) -> None:
    hub.queue(1, f"(exec -a {mark} sleep 60) & sleep 0.6; kill -9 $PPID; sleep 60")
    start()
    said = hub.finish_of(1)
    assert said["outcome"] == "error"
    assert "keeper" in said["error"]
    assert gone(mark)


def test_a_start_that_the_hub_refuses_drops_the_job_before_anything_runs(
    hub: FakeHub, start: Start, tmp_path: Path
) -> None:
    """B03: who confirms too late must drop it."""
    lease = hub.queue(1, f"touch {tmp_path / 'ran'}")
    hub.end_attempt(lease)
    hub.queue(2, "true")
    start()
    hub.finish_of(2)
    assert not (tmp_path / "ran").exists()
    assert [call.path for call in hub.calls if "/jobs/1/" in call.path] == ["/api/v1/jobs/1/start"]


def test_a_job_whose_attempt_is_over_is_killed_and_says_no_more(
    hub: FakeHub, start: Start, mark: str
) -> None:
    """B04, the runner's side: the lease is the fence, also for the same job's next attempt on this runner."""
    old = hub.queue(1, f"echo begun; exec -a {mark} sleep 60")
    running = start(max_jobs=2)
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.end_attempt(old)
    hub.logs.clear()
    new = hub.queue(1, "echo again", attempt=2)
    said = hub.finish_of(1)
    assert said["lease"] == new
    assert gone(mark)
    eventually(lambda: running.agent.running == 0, "both are gone")
    assert [call.json["lease"] for call in hub.of("/finish")] == [new]
    assert b"again" in hub.log(1)
    assert b"begun" not in hub.log(1)


def test_a_job_goes_on_while_the_hub_is_away(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hub.queue(1, f"echo one; until test -e {go}; do sleep 0.02; done; echo two", "echo three")
    start()
    eventually(lambda: b"one" in hub.log(1), "it runs")
    hub.down()
    go.touch()
    hub.up()
    said = hub.finish_of(1)
    assert said["outcome"] == "succeeded"
    assert hub.log(1).count(b"##[exit 0]") == 2
    assert b"one\ntwo\n##[exit 0]" in hub.log(1)
    assert b"three" in hub.log(1)


def test_a_job_that_ends_while_the_hub_is_away_is_told_when_it_is_back(
    hub: FakeHub, start: Start, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    hub.queue(1, f"echo begun; sleep 0.3; touch {done}")
    running = start()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.down()
    eventually(done.exists, "it has ended")
    eventually(lambda: next((running.work / "jobs").iterdir(), None), "its folder is kept")
    hub.up()
    assert hub.finish_of(1)["outcome"] == "succeeded"


def test_a_hub_that_lost_the_end_of_a_log_gets_it_again(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hub.queue(1, f"echo one; until test -e {go}; do sleep 0.02; done; echo two")
    start()
    eventually(lambda: b"one\n" in hub.log(1), "it runs")
    with hub._lock:
        whole = hub.log(1)
        del hub.logs[1][10:]  # a power cut
    go.touch()
    said = hub.finish_of(1)
    assert hub.log(1).startswith(whole)
    assert said["log_bytes"] == len(hub.log(1))


def test_a_finish_whose_answer_is_lost_is_told_again(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "true")
    hub.instead("/finish", Answer(lose=True), problem(503, "busy"))
    start()
    hub.finish_of(1)
    first, second, third = hub.of("/finish")
    assert first.body == second.body == third.body


def test_a_log_that_the_hub_is_tired_of_does_not_keep_the_job_from_ending(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "echo hello")
    hub.instead("/log", problem(413, "a job's log may be 1 MiB long"))
    start()
    said = hub.finish_of(1)
    assert said["outcome"] == "succeeded"
    assert "log_bytes" not in said


def test_heartbeats_do_not_wait_for_a_job_that_takes_every_cpu(hub: FakeHub, start: Start) -> None:
    """B10, in short: every core is busy, with output at full speed, and no gap is near the lease."""
    spin = "timeout 2 sh -c 'while :; do :; done' &"
    hub.queue(1, spin * 2 * (os.cpu_count() or 1) + " yes | head -c 20000000; wait")
    start()
    hub.finish_of(1)
    beats = [call.at for call in hub.of("/heartbeat")]
    gaps = [later - earlier for earlier, later in pairwise(beats)]
    assert len(beats) >= 3
    assert max(gaps) < 2.0  # of 0.05 s asked for; 60 s is what a lease lasts


def test_what_a_job_used_is_told(hub: FakeHub, start: Start) -> None:
    eat = "python3 -c 'x = bytearray(80 << 20); import time; time.sleep(1)'"
    hub.queue(1, f"head -c 30000000 /dev/urandom > file\n{eat}")
    start()
    said = hub.finish_of(1)
    assert 80 <= said["peak_memory_mib"] < 400
    assert 28 <= said["peak_disk_mib"] < 60


def test_a_tier_that_this_runner_has_not_is_declined(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "true", tier="microvm")
    start()
    call = eventually(lambda: hub.of("/decline"), "it is declined")[0]
    assert "microvm" in call.json["reason"]
    assert not hub.of("/finish")


def test_a_disk_that_is_full_before_anything_ran_is_a_decline(
    hub: FakeHub, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(job, "Log", full)
    hub.queue(1, "true")
    start()
    call = eventually(lambda: hub.of("/decline"), "it is declined")[0]
    assert "No space left on device" in call.json["reason"]


def test_a_disk_that_fills_up_while_a_job_runs_is_an_error_and_ends_it(
    hub: FakeHub, start: Start, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report.Log, "write", full)
    hub.queue(1, f"echo x; exec -a {mark} sleep 60")
    start()
    said = hub.finish_of(1)
    assert said["outcome"] == "error"
    assert "No space left on device" in said["error"]
    assert gone(mark)


def test_the_step_that_runs_is_told_by_the_heartbeat(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hub.queue(1, "true", f"until test -e {go}; do sleep 0.02; done")
    start()
    eventually(lambda: any(call.json.get("step") == 1 for call in hub.of("/heartbeat")), "it tells step 1")
    go.touch()
    hub.finish_of(1)
