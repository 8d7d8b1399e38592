import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hub.cli import demo
from hub.cli.errors import CliError
from hub.wire.runs import RunView, Waiting
from tests.cli.conftest import Shunter
from tests.cli.fakehub import a_job, a_run, lacking_gpu

DEADLINE_S = 90.0  # a hub, three runners and a test suite, on a machine that does other things too


def _of_this_demo(folder: Path) -> list[str]:
    """Command lines of live processes that have to do with `folder`."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in words and int(each.parent.name) != os.getpid():
            found.append(words)
    return found


def _start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-m", "hub.cli.main", "demo", "--data", str(folder), *words]
    # Without an index the demo tests this checkout, so that this test asks nobody for anything.
    environ = {
        **os.environ,
        "PIP_NO_INDEX": "1",
        "SHUNTER_URL": "http://127.0.0.1:9",
        "SHUNTER_HOLD_S": "bad",
    }
    return subprocess.Popen(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "demo"
    assert _of_this_demo(tmp_path / "demo") == []


def test_the_demo_shows_a_placed_run_and_one_that_nobody_can_take_and_leaves_nothing(folder: Path) -> None:
    process = _start(folder, "--no-keep")
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, out
    assert "PyPI cannot be reached" in out
    assert "  placed: needs no image, idle, speed 100 (class 3)\n" in out
    assert "  waiting: no runner can take it: 3 runners, all lack label gpu\n" in out
    assert "sign in with" in out
    assert out.endswith("all is stopped\n")


def test_a_demo_that_is_told_to_stop_stops_all_it_started(folder: Path) -> None:
    process = _start(folder, "--keep")
    end = time.monotonic() + DEADLINE_S
    while not (folder / "slow.log").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(_of_this_demo(folder)) >= 4
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, out
    assert "Traceback" not in out


def test_a_folder_that_is_not_empty_is_refused(shunter: Shunter, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    done = shunter("demo", "--data", tmp_path)
    assert done.status == 2
    assert "is not empty" in done.err


def _json(run: RunView) -> dict[str, Any]:
    return run.model_dump(mode="json")


def _tested(**given: Any) -> dict[str, Any]:
    jobs = [
        a_job(name, id=at, status="succeeded", runner=runner, placed="needs no image, idle")
        for at, (name, runner) in enumerate([("compile", "fast"), ("test", "slow")], 1)
    ]
    return _json(a_run(*jobs, status="succeeded")) | given


def _nowhere(waiting: Waiting) -> dict[str, Any]:
    return _json(a_run(a_job(waiting=waiting)))


ALL_LACK = lacking_gpu("fast", "slow", "steady")


def test_runs_as_they_should_be_pass_the_check() -> None:
    demo._check(_tested(), _nowhere(ALL_LACK), 2)


@pytest.mark.parametrize(
    ("tested", "nowhere", "jobs", "told"),
    [
        (_tested(status="failed"), _nowhere(ALL_LACK), 2, "the tests' run failed"),
        (_tested(), _nowhere(ALL_LACK), 3, "with 2 of 3 jobs"),
        (
            _json(a_run(a_job(status="succeeded"), status="succeeded")),
            _nowhere(ALL_LACK),
            1,
            "does not say why",
        ),
        (_tested(jobs=_tested()["jobs"][:1]), _nowhere(ALL_LACK), 1, "all ran on one runner"),
        (_tested(), _nowhere(Waiting(kind="busy", headline="waits for room")), 2, "says 'waits for room'"),
        (_tested(), _nowhere(lacking_gpu("fast")), 2, "what each runner lacks"),
    ],
)
def test_what_is_not_as_it_should_be_is_told(
    tested: dict[str, Any], nowhere: dict[str, Any], jobs: int, told: str
) -> None:
    with pytest.raises(CliError, match=told):
        demo._check(tested, nowhere, jobs)
