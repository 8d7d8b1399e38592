"""The claim loop: one poll at most, never in a slot, never a ghost."""

import time
from pathlib import Path

import pytest

from tests.runner.conftest import QUICK, Start, gone
from tests.runner.fakehub import Answer, FakeHub, eventually, problem, told


def claim_ids(hub: FakeHub) -> list[str]:
    return [call.json["claim_id"] for call in hub.of("/claim")]


def test_a_claim_whose_answer_was_lost_is_asked_again_and_gives_the_same_job(
    hub: FakeHub, start: Start
) -> None:
    """B01, the runner's side."""
    hub.queue(1, "true")
    hub.queue(2, "true")
    hub.instead("/claim", Answer(lose=True))
    start()
    hub.finish_of(1)
    hub.finish_of(2)
    first, second, *later = claim_ids(hub)
    assert first == second
    assert first not in later
    assert len(set(later)) == len(later)
    assert len(hub.of("/jobs/1/start")) == 2  # preparing and running: it was taken once


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_proxys_error_is_a_lost_answer_and_the_next_try_waits(
    hub: FakeHub, start: Start, status: int
) -> None:
    """B17: never a tight loop, and the same claim id."""
    page = Answer(status, b"<html>Bad gateway</html>", {"Content-Type": "text/html"})
    hub.instead("/claim", page, page, page)
    hub.queue(1, "true")
    timing = QUICK.__class__(grace_s=0.5, heartbeat_s=0.05, retry_s=0.1, retry_most_s=0.4)
    start(timing=timing)
    hub.finish_of(1)
    calls = hub.of("/claim")[:4]
    assert len({call.json["claim_id"] for call in calls}) == 1
    gaps = [calls[n + 1].at - calls[n].at for n in range(3)]
    assert all(gap >= least for gap, least in zip(gaps, (0.05, 0.1, 0.2), strict=True)), gaps


def test_a_hub_that_says_when_to_come_again_is_heard(hub: FakeHub, start: Start) -> None:
    busy = problem(503, "the hub has more to write than it can")
    busy.headers["Retry-After"] = "1"
    hub.instead("/claim", busy)
    hub.queue(1, "true")
    start(timing=QUICK.__class__(grace_s=0.5, retry_s=0.02, retry_most_s=0.5))
    hub.finish_of(1)
    first, second = hub.of("/claim")[:2]
    assert second.at - first.at >= 0.5  # told 1 s, bounded by our own most


def test_a_free_slot_is_polled_for_while_jobs_run(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    """B16: a poll holds nothing that work needs."""
    go = tmp_path / "go"
    wait = f"until test -e {go}; do sleep 0.02; done"
    hub.queue(1, wait)
    start(max_jobs=2)
    eventually(lambda: hub.of("/jobs/1/start"), "the first runs")
    eventually(lambda: [c for c in hub.of("/claim") if c.json["running"]], "it polls on")
    before = time.monotonic()
    hub.queue(2, "true")
    hub.finish_of(2)
    assert time.monotonic() - before < 3
    assert 1 not in hub.finished
    go.touch()
    hub.finish_of(1)


def test_a_runner_that_is_full_does_not_poll_but_is_heard(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    hub.queue(1, f"until test -e {go}; do sleep 0.02; done")
    start(max_jobs=1)
    eventually(lambda: len(hub.of("/heartbeat")) > 3, "it is heard")
    assert len(hub.of("/claim")) == 1
    go.touch()
    hub.finish_of(1)
    eventually(lambda: len(hub.of("/claim")) == 2, "it polls again once it has room")
    assert hub.of("/claim")[1].json["running"] == []


def test_a_job_that_ends_ends_the_open_poll_and_the_next_says_so(
    hub: FakeHub, start: Start, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    lease = hub.queue(1, f"until test -e {go}; do sleep 0.02; done", memory_mib=512, cpus=1)
    start(max_jobs=2, wait_s=50)
    eventually(lambda: len(hub.of("/claim")) == 2, "it polls for its second slot")
    listed = hub.of("/claim")[1].json["running"]
    assert [(box["job"], box["lease"], box["memory_mib"], box["cpus"]) for box in listed] == [
        (1, lease, 512, 1)
    ]
    go.touch()
    third = eventually(lambda: hub.of("/claim")[2:], "it asks anew, long before the poll's end")[0]
    assert third.json["running"] == []
    assert third.json["claim_id"] == hub.of("/claim")[1].json["claim_id"]  # it had no answer


def test_two_jobs_run_beside_each_other(hub: FakeHub, start: Start, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    hub.queue(1, f"touch {one}; until test -e {two}; do sleep 0.02; done")
    hub.queue(2, f"touch {two}; until test -e {one}; do sleep 0.02; done")
    start(max_jobs=2)
    assert hub.finish_of(1)["outcome"] == hub.finish_of(2)["outcome"] == "succeeded"


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (401, "this token is not valid"),
        (403, "not for this token"),
        (404, "this runner is not registered any more"),
        (409, "another, newer process uses this token"),
    ],
)
def test_a_runner_that_the_hub_does_not_know_ends(
    hub: FakeHub, start: Start, caplog: pytest.LogCaptureFixture, status: int, detail: str
) -> None:
    """A12: it does not listen on as a ghost."""
    hub.instead("/claim", problem(status, detail))
    assert start().ended() == 1
    assert detail in caplog.text


def test_a_refused_token_ends_a_runner_that_is_full(hub: FakeHub, start: Start, mark: str) -> None:
    """A17: it does not poll then, and yet it does not live on as a useless process."""
    hub.queue(1, f"echo begun; exec -a {mark} sleep 60")
    running = start(max_jobs=1)
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.instead("/heartbeat", problem(401, "this token is not valid"))
    assert running.ended() == 1
    assert gone(mark)
    assert not hub.of("/finish")


def test_a_job_that_the_hub_does_not_know_any_more_is_dropped(hub: FakeHub, start: Start, mark: str) -> None:
    hub.queue(1, f"echo begun; exec -a {mark} sleep 60")
    running = start(max_jobs=1)
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    hub.instead("/heartbeat", problem(404, "there is no such job here for this runner"))
    assert gone(mark)
    hub.queue(2, "true")
    hub.finish_of(2)
    assert running.agent.running <= 1
    assert 1 not in hub.finished


def test_a_runner_that_drains_gives_up_its_poll_and_finishes_its_jobs(
    hub: FakeHub, start: Start, tmp_path: Path
) -> None:
    """B38."""
    go = tmp_path / "go"
    hub.queue(1, f"until test -e {go}; do sleep 0.02; done")
    running = start(max_jobs=2, wait_s=50)
    eventually(lambda: len(hub.of("/claim")) == 2, "it polls for its second slot")
    running.agent.drain()
    drain = eventually(lambda: hub.of("/runner/drain"), "it says so")[0]
    assert drain.json["claim_id"] == hub.of("/claim")[1].json["claim_id"]
    beats = len(hub.of("/heartbeat"))
    eventually(lambda: len(hub.of("/heartbeat")) > beats + 2, "its job lives on")
    go.touch()
    assert running.ended() == 0
    assert hub.finished[1]["outcome"] == "succeeded"


def test_a_job_that_was_given_while_the_runner_drained_is_given_back(hub: FakeHub, start: Start) -> None:
    """B38: between the hub's decision and the abort of the poll."""
    running = start(wait_s=50)
    first = eventually(lambda: hub.of("/claim"), "it polls")[0]
    given = {
        "job": {"id": 7, "run": 1, "project": "a/b", "name": "x", "attempt": 1, "tier": "process",
                "timeout_s": 60, "steps": [{"name": "x", "run": "true"}]},
        "placed": "", "lease": {"token": "lease-of-the-seventh", "ttl_s": 60},
    }  # fmt: skip
    hub._leases[7] = "lease-of-the-seventh"
    hub.instead("/claim", told(given))  # what the hub decided meanwhile comes again for the same id
    running.agent.drain()
    assert running.ended() == 0
    assert [call.json["claim_id"] for call in hub.of("/claim")] == [first.json["claim_id"]] * 2
    assert [call.json["lease"] for call in hub.of("/jobs/7/release")] == ["lease-of-the-seventh"]
    assert not hub.of("/jobs/7/start")


def test_a_second_word_kills_what_runs_and_gives_it_back(hub: FakeHub, start: Start, mark: str) -> None:
    """B38."""
    lease = hub.queue(1, f"trap '' TERM; echo begun; while :; do bash -c 'sleep 0.05; : {mark}'; done")
    running = start()
    eventually(lambda: b"begun" in hub.log(1), "it runs")
    running.agent.drain()
    eventually(lambda: hub.of("/runner/drain"), "it says so")
    running.agent.drain()
    assert running.ended() == 0
    assert [call.json["lease"] for call in hub.of("/jobs/1/release")] == [lease]
    assert not hub.of("/finish")
    assert gone(mark)


def test_a_runner_drains_although_the_hub_is_away(hub: FakeHub, start: Start) -> None:
    running = start()
    eventually(lambda: hub.of("/claim"), "it polls")
    hub.down()
    running.agent.drain()
    assert running.ended() == 0


def test_a_runner_for_one_job_ends_after_it(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "true")
    hub.queue(2, "true")
    assert start(once=True).ended() == 0
    assert set(hub.finished) == {1}


def test_an_answer_that_is_not_of_this_protocol_is_no_job_and_no_end(hub: FakeHub, start: Start) -> None:
    hub.instead("/claim", told({"surprise": True}), problem(400, "mend the fields named in `faults`"))
    hub.queue(1, "true")
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"


def test_a_claim_says_what_the_machine_is(hub: FakeHub, start: Start) -> None:
    start(labels=("ssd",), exclusive=True, max_jobs=3, cpus=5, memory_mib=9000, reserve_mib=100, speed=80)
    said = eventually(lambda: hub.of("/claim"), "it polls")[0].json
    assert (said["tiers"], said["labels"], said["exclusive"]) == (["process"], ["ssd"], True)
    assert (said["max_jobs"], said["cpus"], said["memory_mib"], said["reserve_mib"]) == (3, 5, 9000, 100)
    assert (said["facts"]["speed"], said["facts"]["speed_class"]) == (80, 2)
    assert said["facts"]["free_disk_mib"] > 0
    assert len(said["instance"]) == 32
