"""The sandbox of the process tier by itself, how a job is asked to stop, and what is measured."""

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner.sandbox.base import Command, Reason, SandboxBroken, Stop
from runner.sandbox.meter import disk_bytes
from runner.sandbox.process import ProcessSandbox
from tests.runner.conftest import gone, with_mark
from tests.runner.fakehub import eventually

FAR = 3600.0


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[ProcessSandbox]:
    made = ProcessSandbox(tmp_path / "box", grace_s=0.3)
    made.prepare()
    yield made
    made.destroy()
    assert not (tmp_path / "box").exists()


Run = Callable[..., tuple[int, bytes]]


@pytest.fixture
def run(sandbox: ProcessSandbox) -> Run:
    def once(script: str, stop: Stop | None = None, seconds: float = FAR) -> tuple[int, bytes]:
        heard = bytearray()
        command = Command(argv=("/bin/bash", "-c", script), env={"PATH": os.environ["PATH"]})
        code = sandbox.run(command, heard.extend, stop or Stop(), time.monotonic() + seconds)
        return code, bytes(heard)

    return once


def test_commands_run_one_after_the_other_in_the_workspace(sandbox: ProcessSandbox, run: Run) -> None:
    assert run("pwd; exit 3") == (3, f"{sandbox.workspace}\n".encode())
    assert run("echo again") == (0, b"again\n")


def test_a_command_that_cannot_be_started_says_why(sandbox: ProcessSandbox) -> None:
    heard = bytearray()
    command = Command(argv=("/no/such/program",), env={})
    code = sandbox.run(command, heard.extend, Stop(), time.monotonic() + FAR)
    assert code == 126
    assert b"the step cannot be started: [Errno 2] No such file" in heard


def test_a_command_has_no_input_and_no_descriptor_of_ours(run: Run) -> None:
    code, heard = run("cat; ls /proc/self/fd | wc -l")
    assert (code, heard) == (0, b"4\n")  # three, and the one that ls reads the folder through


def test_a_command_is_nicer_than_the_agent_and_the_first_to_go_without_memory(run: Run) -> None:
    _, heard = run("nice; cat /proc/self/oom_score_adj")
    nice, score = heard.split()
    assert int(nice) == min(19, os.nice(0) + 10)
    assert int(score) >= 500


def test_what_a_command_left_running_does_not_keep_it_from_ending(run: Run) -> None:
    began = time.monotonic()
    code, heard = run("(while :; do echo noise; done) & echo said; exit 0")
    assert code == 0
    assert b"said\n" in heard
    assert time.monotonic() - began < 5


def test_a_stop_before_the_start_runs_nothing(run: Run, tmp_path: Path) -> None:
    stop = Stop()
    stop.ask("canceled")
    code, _ = run(f"touch {tmp_path / 'ran'}", stop)
    assert code != 0
    assert not (tmp_path / "ran").exists()


def test_a_stopped_process_is_ended_too(run: Run, mark: str) -> None:
    code, _ = run(f"exec -a {mark} bash -c 'kill -STOP $$; : {mark}'", seconds=0.3)
    assert code == 128 + 15
    assert gone(mark)


def test_a_more_urgent_word_cuts_the_grace_short(sandbox: ProcessSandbox, run: Run) -> None:
    sandbox._grace_s = FAR
    stop = Stop()
    threading.Timer(0.3, stop.ask, ("canceled",)).start()
    threading.Timer(0.6, stop.ask, ("over",)).start()
    began = time.monotonic()
    code, _ = run("trap '' TERM; while :; do sleep 0.05; done", stop)
    assert code == 128 + 9
    assert time.monotonic() - began < 10


def test_an_end_may_be_asked_for_twice_and_before_the_beginning(tmp_path: Path) -> None:
    never = ProcessSandbox(tmp_path / "never", grace_s=1)
    never.end()
    never.destroy()
    box = ProcessSandbox(tmp_path / "box", grace_s=1)
    box.prepare()
    box.end()
    box.end()
    box.destroy()
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3):
        box = ProcessSandbox(tmp_path / str(number), grace_s=1)
        box.prepare()
        box.destroy()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_sandbox_without_its_keeper_is_broken_and_still_ends(
    sandbox: ProcessSandbox, run: Run, mark: str
) -> None:
    run(f"env -i bash -c 'exec -a {mark} sleep 60' >/dev/null 2>&1 &")
    eventually(lambda: with_mark(mark) and sandbox._meter and sandbox._meter.seen, "it is seen")
    assert sandbox._keeper is not None
    sandbox._keeper.kill()
    sandbox._keeper.wait()
    with pytest.raises(SandboxBroken):
        run("true")
    sandbox.end()
    assert gone(mark)


def test_peaks_stay_after_what_made_them_is_gone(sandbox: ProcessSandbox, run: Run) -> None:
    run("head -c 20000000 /dev/urandom > big")
    eventually(lambda: (sandbox.usage().disk_mib or 0) >= 19, "it is measured")
    run("rm big")
    eventually(lambda: (sandbox.usage().disk_mib or 0) < 5, "it is measured again")
    assert (sandbox.usage().peak_disk_mib or 0) >= 19


def test_disk_counts_a_file_once_and_nothing_beyond_a_link(tmp_path: Path) -> None:
    box, other = tmp_path / "box", tmp_path / "other"
    box.mkdir()
    other.mkdir()
    (other / "file").write_bytes(os.urandom(2**20))
    (box / "file").write_bytes(os.urandom(2**20))
    os.link(box / "file", box / "twin")
    (box / "link").symlink_to(other)
    size = disk_bytes(box)
    assert size is not None
    assert 2**20 <= size < 1.2 * 2**20


def test_a_walk_is_given_up_when_told(tmp_path: Path) -> None:
    ended = threading.Event()
    ended.set()
    assert disk_bytes(tmp_path, ended) is None


@pytest.mark.parametrize(
    ("asked", "stands"),
    [
        (("canceled",), "canceled"),
        (("timed_out", "canceled"), "canceled"),
        (("canceled", "timed_out"), "canceled"),
        (("over", "released", "canceled"), "over"),
        (("released", "over"), "over"),
    ],
)
def test_a_stop_only_becomes_more_urgent(asked: tuple[Reason, ...], stands: Reason) -> None:
    stop = Stop()
    for reason in asked:
        stop.ask(reason)
    assert stop.reason == stands
    assert stop.at_once == (stands in ("released", "over"))
    stop.close()
    stop.ask("over")
    assert stop.reason == "over"


def test_a_stop_can_be_waited_for_beside_other_things() -> None:
    stop = Stop()
    assert select.select([stop], [], [], 0)[0] == []
    stop.ask("timed_out")
    assert select.select([stop], [], [], 0)[0] == [stop]
    stop.seen()
    stop.seen()
    assert select.select([stop], [], [], 0)[0] == []
    assert stop.wait(0)
    assert not stop.wait(0, until="canceled")
    stop.close()
