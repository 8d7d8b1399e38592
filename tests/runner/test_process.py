"""The agent as a process of its own: signals, exit status, its secret, and its end without warning."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.conftest import ROOT, Process, gone, with_mark
from tests.runner.fakehub import TOKEN, FakeHub, eventually, problem

Begin = Callable[..., Process]


def test_a_process_runs_a_job_and_drains_on_sigterm(hub: FakeHub, process: Begin, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hub.queue(1, f"echo begun; until test -e {go}; do sleep 0.02; done")
    agent = process("--wait", "50")
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    agent.tell(signal.SIGTERM)
    eventually(lambda: hub.of("/runner/drain"), "it says so")
    assert agent.popen.poll() is None
    go.touch()
    assert agent.ended() == 0
    assert hub.finished[1]["outcome"] == "succeeded"


def test_a_second_sigterm_gives_the_job_back(hub: FakeHub, process: Begin, mark: str) -> None:
    lease = hub.queue(1, f"echo begun; exec -a {mark} sleep 60")
    agent = process()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    agent.tell(signal.SIGTERM)
    eventually(lambda: hub.of("/runner/drain"), "it says so")
    agent.tell(signal.SIGTERM)
    assert agent.ended() == 0
    assert [call.json["lease"] for call in hub.of("/release")] == [lease]
    assert gone(mark)


def test_an_idle_process_ends_at_once_on_sigint(hub: FakeHub, process: Begin) -> None:
    agent = process("--wait", "50")
    eventually(lambda: hub.of("/claim"), "it polls")
    agent.tell(signal.SIGINT)
    assert agent.ended(10) == 0


def test_a_process_that_is_killed_leaves_no_process_of_its_job(
    hub: FakeHub, process: Begin, tmp_path: Path, mark: str
) -> None:
    hub.queue(
        1,
        f"(setsid bash -c 'trap \"\" TERM; while :; do sleep 0.05; : {mark}; done' &)\necho begun; sleep 60",
    )
    agent = process(work="one")
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    assert with_mark(mark)
    agent.tell(signal.SIGKILL)
    agent.ended()
    assert gone(mark)
    assert list((tmp_path / "one" / "jobs").iterdir()) != []
    again = process(work="one")
    eventually(lambda: len(hub.of("/claim")) >= 2, "it polls again")
    assert list((tmp_path / "one" / "jobs").iterdir()) == []
    assert "removed what was left of 1 jobs" in again.said
    first, last = hub.of("/claim")[0], hub.of("/claim")[-1]
    assert first.json["instance"] != last.json["instance"]
    assert last.json["running"] == []


@pytest.mark.parametrize("how", ["variable", "option", "file"])
def test_a_job_sees_nothing_of_the_token(hub: FakeHub, process: Begin, tmp_path: Path, how: str) -> None:
    """A09: neither in its own environment nor anywhere under /proc that its user may read."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    files = "/proc/[0-9]*/environ /proc/[0-9]*/cmdline"
    look = f"cat {files} 2>/dev/null | tr '\\0' '\\n' | grep -c '[{TOKEN[-8]}]{TOKEN[-7:]}' || true"
    hub.queue(1, look, "env; tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/environ")
    words = {"option": ("--token", TOKEN), "file": ("--token-file", str(tmp_path / "token"))}.get(how, ())
    agent = process(*words, **({} if how == "variable" else {"SHUNTER_TOKEN": ""}))
    assert hub.finish_of(1)["outcome"] == "succeeded"
    lines = hub.log(1).decode().splitlines()
    assert lines[1] == "0"
    assert TOKEN not in hub.log(1).decode()
    assert any(line.startswith("SHUNTER_SANDBOX=") for line in lines)
    assert TOKEN.encode() not in Path(f"/proc/{agent.popen.pid}/cmdline").read_bytes()
    try:
        assert TOKEN.encode() not in Path(f"/proc/{agent.popen.pid}/environ").read_bytes()
    except PermissionError:
        assert os.geteuid() != 0  # root sees it, and finds nothing; its own user does not even see it


def test_two_processes_do_not_share_a_folder(hub: FakeHub, process: Begin) -> None:
    process(work="one")
    eventually(lambda: hub.of("/claim"), "the first polls")
    second = process(work="one")
    assert second.ended() == 1
    assert "another runner works in" in second.said


def test_a_refused_token_is_an_exit_status_and_a_sentence(hub: FakeHub, process: Begin) -> None:
    hub.instead("/claim", problem(409, "another, newer process uses this token"))
    agent = process()
    assert agent.ended() == 1
    assert "another, newer process uses this token" in agent.said


def ask(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("SHUNTER_")}
    return subprocess.run(
        [sys.executable, "-m", "runner", *words],
        env=clean | environ, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--hub URL"),
        (("--hub", "ftp://x", "--token", "t"), "--hub"),
        (("--hub", "http://x:y", "--token", "t"), "--hub"),
        (("--hub", "http://x"), "--token"),
        (("--hub", "http://x", "--token", "a b"), "--token"),
        (("--hub", "http://x", "--token-file", "/no/such"), "--token-file"),
        (("--check", "--labels", "a,-b"), "--labels"),
        (("--check", "--exclusive"), "--exclusive"),
        (("--check", "--tiers", "container"), "--tiers"),
        (("--check", "--max-jobs", "0"), "--max-jobs"),
        (("--check", "--wait", "51"), "--wait"),
        (("--surprise",), "--surprise"),
    ],
)
def test_words_that_make_no_sense_are_told(words: tuple[str, ...], says: str) -> None:
    done = ask(*words)
    assert done.returncode == 2
    assert says in done.stderr


def test_a_check_prints_the_offer_and_needs_no_hub(tmp_path: Path) -> None:
    import json

    done = ask("--check", "--work", str(tmp_path), "--labels", "ssd,gpu", "--speed", "64")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["labels"] == ["ssd", "gpu"]
    assert said["facts"]["speed_class"] == 1
