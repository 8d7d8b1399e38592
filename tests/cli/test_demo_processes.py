import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hub.cli import demo_processes
from hub.cli.demo_processes import Processes, clean_environ, python

DEADLINE_S = 20.0
SLEEPER = "import sys, time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPER.replace("; ", "\n")
WITH_CHILD = (
    "import subprocess, sys\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "print(child.pid, flush=True)\n"
)
KILLED_OUTRIGHT = """
import os, signal, sys
from pathlib import Path
from hub.cli.demo_processes import Processes, python
processes = Processes(Path(sys.argv[1]))
processes.start("child", python("-c", "import time; time.sleep(600)"), os.environ)
print(processes._started[0][1].pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def _says(processes: Processes, name: str) -> str:
    end = time.monotonic() + DEADLINE_S
    while not (text := processes.log(name).read_text()).endswith("\n"):
        assert time.monotonic() < end, "it said nothing"
        time.sleep(0.02)
    return text


def _gone(pid: int) -> bool:
    end = time.monotonic() + DEADLINE_S
    while _alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_all_are_stopped_and_the_last_started_goes_first(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    for name in ("hub", "runner"):
        processes.start(name, python("-c", SLEEPER), os.environ)
        assert _says(processes, name) == "up\n"
    assert processes.ended() is None
    pids = [process.pid for _, process in processes._started]
    assert processes.stop() == []
    assert not any(_alive(pid) for pid in pids)


def test_one_that_does_not_stop_is_killed_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_processes, "STOP_S", 0.1)
    processes = Processes(tmp_path)
    processes.start("stubborn", python("-c", STUBBORN), os.environ)
    _says(processes, "stubborn")
    pid = processes._started[0][1].pid
    assert processes.stop() == ["stubborn"]
    assert not _alive(pid)


def test_what_one_left_behind_goes_too(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("parent", python("-c", WITH_CHILD), os.environ)
    child = int(_says(processes, "parent"))
    assert _alive(child)
    assert processes.stop() == []
    assert _gone(child)


def test_one_that_ended_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.start("short", python("-c", "print('line\\n' * 50 + 'last words')"), os.environ)
    end = time.monotonic() + DEADLINE_S
    while processes.ended() is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert processes.ended() == "short"
    assert processes.tail("short").splitlines()[-1] == "last words"
    assert len(processes.tail("short").splitlines()) == demo_processes.TAIL_LINES
    assert processes.stop() == []


def test_a_demo_that_is_killed_outright_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_OUTRIGHT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert _gone(int(done.stdout))


def test_settings_of_another_hub_do_not_reach_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHUNTER_URL", "http://elsewhere")
    monkeypatch.setenv("SHUNTER_DATABASE", "postgresql://production")
    assert not any(name.startswith("SHUNTER_") for name in clean_environ())
    assert "PATH" in clean_environ()
