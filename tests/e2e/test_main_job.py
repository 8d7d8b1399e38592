"""The main job with real processes: submit, claim, run, read why; and what a kill at any moment leaves."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.processes import House, until

COUNTS = "i=0; while [ $i -lt {lines} ]; do echo line $i; i=$((i+1)); sleep {pause}; done"


def counting(lines: int, pause: float = 0.01) -> dict[str, object]:
    """A job that prints numbered lines for a while."""
    return {"jobs": {"count": {"steps": [COUNTS.format(lines=lines, pause=pause)]}}}


def lines_of(house: House, run: int) -> list[str]:
    job = house.run(run)["jobs"][0]["id"]
    log: bytes = house.call("GET", f"/jobs/{job}/log")
    return [line for line in log.decode().splitlines() if line.startswith("line ")]


def test_every_view_prints_the_same_sentence_byte_for_byte(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        house.start_runner("earth-9", "--speed", "100")
        run = house.submit({"jobs": {"build": {"steps": ["echo built"]}}})
        waits = house.submit({"jobs": {"train": {"steps": ["true"], "labels": ["gpu"]}}})
        sentence = "needs no image, idle, speed 100 (class 3)"
        assert house.ended(run)["jobs"][0]["placed"] == sentence
        reason = until("it waits with a reason", lambda: house.run(waits)["jobs"][0]["waiting"])["headline"]
        assert reason == "no runner can take it: 1 runner, it lacks label gpu"
        for number, text in ((run, f"placed: {sentence}"), (waits, f"waiting: {reason}")):
            command = [sys.executable, "-m", "hub.cli.main", "run", "view", str(number)]
            command += ["--hub", house.url, "--token", house.token]
            shown = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
            assert text in shown
            page = subprocess.run(
                ["curl", "-s", "-b", f"shunter_session={house.token}", f"{house.url}/runs/{number}"],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            ).stdout
            assert text.split(": ", 1)[1] in page


def test_a_killed_hub_comes_back_and_the_run_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        house.start_runner("a")
        run = house.submit(counting(400))
        until("it prints", lambda: len(lines_of(house, run)) > 20)
        house.kill_hub()
        time.sleep(1)  # the hub is away for a while: the job goes on without it
        house.start_hub()
        view = house.ended(run)
        assert view["status"] == "succeeded"
        assert view["jobs"][0]["attempt"] == 1
        assert lines_of(house, run) == [f"line {number}" for number in range(400)]


def test_ten_kills_at_random_moments_lose_no_job_and_run_none_twice(tmp_path: Path) -> None:
    random.seed(3)
    marks = tmp_path / "marks"
    marks.mkdir()
    with House(tmp_path) as house:
        for name in ("a", "b"):
            house.start_runner(name)
        runs = []
        for number in range(10):
            mark = f"mkdir {marks}/{number} && sleep 0.3 && echo line done"
            runs.append(house.submit({"jobs": {"once": {"steps": [mark]}}}))
            time.sleep(random.uniform(0, 0.5))
            house.kill_hub()
            house.start_hub()
        for run in runs:
            view = house.ended(run)
            # a second `mkdir` of the same folder would fail: no job ran twice
            assert view["status"] == "succeeded", view
            assert lines_of(house, run) == ["line done"]
        assert len(list(marks.iterdir())) == 10


def test_a_killed_runner_costs_an_attempt_and_the_job_runs_elsewhere(tmp_path: Path) -> None:
    with House(tmp_path, SHUNTER_LEASE_S="6") as house:
        house.start_runner("first")
        run = house.submit(counting(100_000, 0.05))
        until("it prints", lambda: len(lines_of(house, run)) > 3)
        house.runners["first"].send_signal(signal.SIGKILL)
        house.start_runner("second")
        view = until(
            "the second has it",
            lambda: (
                (one := house.run(run)["jobs"][0])["runner"] == "second"
                and one["status"] == "running"
                and one
            ),
        )
        assert view["attempts"][0]["ended"] == "lost"
        house.call("POST", f"/runs/{run}/cancel")
        assert house.ended(run)["status"] == "canceled"


def test_a_restarted_runner_has_lost_its_job_now_and_not_when_the_lease_ends(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        token = house.call("POST", "/runners", {"name": "a"})["token"]
        house.start_runner("a", token=token)
        run = house.submit(counting(100_000, 0.05))
        until("it prints", lambda: len(lines_of(house, run)) > 3)
        house.runners["a"].kill()
        house.runners["a"].wait()
        began = time.monotonic()
        house.start_runner("a", token=token)
        view = until(
            "it runs again",
            lambda: (one := house.run(run)["jobs"][0])["attempt"] == 2 and one["status"] == "running" and one,
        )
        assert time.monotonic() - began < 30, "a lease lasts 60 s"
        assert view["attempts"][0]["reason"] == "its runner was started anew"
        house.call("POST", f"/runs/{run}/cancel")
        house.ended(run)


def test_the_better_runner_gets_the_job_and_the_other_after_the_hold_only(tmp_path: Path) -> None:
    with House(tmp_path, SHUNTER_HOLD_S="3") as house:
        fast = house.start_runner("fast", "--speed", "125")
        house.start_runner("slow", "--speed", "64")
        until("both wait", lambda: all(one["waiting"] for one in house.call("GET", "/runners")["runners"]))
        first = house.submit({"jobs": {"one": {"steps": ["sleep 1"]}}})
        job = house.ended(first)["jobs"][0]
        assert (job["runner"], job["placed"]) == ("fast", "needs no image, idle, speed 125 (class 4)")
        fast.send_signal(signal.SIGSTOP)  # it still has its claim open, and takes nothing
        second = house.submit({"jobs": {"two": {"steps": ["true"]}}})
        job = until("it was given to the one that stopped", lambda: house.run(second)["jobs"][0]["runner"])
        fast.send_signal(signal.SIGCONT)
        assert house.ended(second)["status"] == "succeeded"


def test_sigterm_ends_the_hub_at_once_though_polls_and_streams_are_open(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        house.start_runner("a")
        run = house.submit({"jobs": {"train": {"steps": ["true"], "labels": ["gpu"]}}})
        stream = subprocess.Popen(
            [
                "curl",
                "-sN",
                "-H",
                f"Authorization: Bearer {house.token}",
                f"{house.url}/api/v1/runs/{run}/events",
            ],
            stdout=subprocess.DEVNULL,
        )
        until("the runner polls", lambda: house.call("GET", "/runners")["runners"][0]["waiting"])
        assert house.hub is not None
        began = time.monotonic()
        house.hub.terminate()
        house.hub.wait(30)
        assert time.monotonic() - began < 10
        stream.wait(10)


def test_a_second_hub_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with House(tmp_path) as house:
        command = [sys.executable, "-m", "hub.cli.main", "hub", "--data", str(house.folder / "hub")]
        second = subprocess.run(
            [*command, "--listen", "127.0.0.1:0"], capture_output=True, text=True, check=False, timeout=60
        )
        assert second.returncode != 0
        assert "Traceback" not in second.stderr
        assert "another hub" in second.stdout + second.stderr
        assert house.call("GET", "/me")["kind"] == "admin"
