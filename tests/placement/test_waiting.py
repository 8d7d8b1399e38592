"""Why a job waits, beyond the cases of the table: the order of kinds, names, bounds, hidden runners."""

from dataclasses import replace

import pytest

from hub.placement.model import Decline, Placed, QueuedJob, Runner
from hub.placement.waiting import GroupFull, Waiting, explain, judge, reason
from tests.fleets import NOW_MS, fleet, job, runner

FULL = runner("full", placed=1)
AWAY = runner("away", polled_s_ago=300)


def _why(*runners: Runner, asks: QueuedJob | None = None, visible: frozenset[str] | None = None) -> Waiting:
    one = asks or job()
    return explain(one, fleet(*runners), [one], NOW_MS, visible=visible)


def test_needs_come_before_a_group_and_a_group_before_the_runners() -> None:
    one, group = job(), GroupFull(name="deploy-prod", limit=1, runs=(41,))
    of = fleet()
    waiting = explain(one, of, [one], NOW_MS, needs=["build", "lint"], group=group)
    assert (waiting.kind, waiting.headline) == ("needs", "waits for build, lint")
    waiting = explain(one, of, [one], NOW_MS, group=group)
    assert (waiting.kind, waiting.headline) == ("group", "waits for run 41 (group deploy-prod, 1 at a time)")
    assert explain(one, of, [one], NOW_MS).kind == "none"


def test_a_group_held_by_runs_that_may_not_be_seen_names_none() -> None:
    waiting = reason(job(), None, group=GroupFull(name="g", limit=2))
    assert waiting.headline == "waits for its turn (group g, 2 at a time)"
    waiting = reason(job(), None, group=GroupFull(name="g", limit=2, runs=(41, 42)))
    assert waiting.headline == "waits for runs 41, 42 (group g, 2 at a time)"


def test_runners_of_others_only_serve_nobody_here() -> None:
    waiting = _why(runner("theirs", owner="bea"), runner("other", project="andy/other"))
    assert (waiting.kind, waiting.headline) == ("none", "no runner serves andy/demo")
    assert [one.lacks[0].code for one in waiting.runners] == ["scope", "scope"]


def test_runners_of_others_are_not_counted_among_those_that_lack_something() -> None:
    waiting = _why(runner("a"), runner("theirs", owner="bea", labels=["gpu"]), asks=job(labels=["gpu"]))
    assert waiting.headline == "no runner can take it: 1 runner, it lacks label gpu"


def test_a_lack_that_all_share_is_said_of_all_whatever_else_they_lack() -> None:
    waiting = _why(
        runner("a", state="draining"), runner("b"), runner("c", cpus=1), asks=job(labels=["gpu"], cpus=2)
    )
    assert waiting.headline == "no runner can take it: 3 runners, all lack label gpu"


def test_where_no_lack_is_shared_the_fewest_changes_are_named() -> None:
    asks = job(labels=["gpu"], cpus=8, memory_mib=8192)
    small = runner("small", labels=["gpu"], cpus=2, memory_mib=4096)
    plain = runner("plain", cpus=8, memory_mib=65536)
    waiting = _why(small, plain, asks=asks)
    assert waiting.kind == "nowhere"
    assert waiting.headline == (
        "no runner can take it: 2 runners; nearest is plain, which lacks label gpu:"
        " add the label gpu to a runner, or drop it from the job"
    )
    alone = _why(small, asks=asks)
    assert alone.headline == (
        "no runner can take it: 1 runner; nearest is small, which has 4096 MiB and has 2 CPUs:"
        " add a runner with more memory, or make the job ask for 0 MiB or less;"
        " add a runner with more CPUs, or make the job ask for 2 CPUs"
    )


@pytest.mark.parametrize(
    ("one", "headline"),
    [
        (FULL, "waits for room: full runs 1 of 1 jobs"),
        (
            runner("m", memory_mib=16384, placed=(Placed(job=9, memory_mib=8192),), max_jobs=2),
            "waits for room: m has 2048 MiB free of 16384 MiB (1 job holds 8192 MiB); the job needs 4096 MiB",
        ),
        (
            runner("d", free_disk_mib=100),
            "waits for room: d has 100 MiB free; the job needs 2.0 GiB",
        ),
    ],
)
def test_a_job_that_waits_for_room_is_told_where_and_of_what(one: Runner, headline: str) -> None:
    waiting = _why(one, asks=job(memory_mib=4096, disk_mib=2048))
    assert (waiting.kind, waiting.headline) == ("busy", headline)


def test_a_decline_is_not_a_matter_of_room() -> None:
    declined = job(declines=(Decline(runner="a", at_ms=NOW_MS - 1000, reason="no space left"),))
    waiting = _why(runner("a"), asks=declined)
    assert (waiting.kind, waiting.headline) == ("busy", "waits: a declined it: no space left")


def test_a_full_fleet_says_how_many_were_not_heard_from() -> None:
    assert _why(FULL, AWAY).headline == (
        "waits for room: full runs 1 of 1 jobs (1 runner that could take it was not heard from)"
    )
    assert _why(FULL, AWAY, replace(AWAY, name="gone")).headline.endswith(
        "(2 runners that could take it were not heard from)"
    )


def test_a_silent_runner_that_could_never_take_it_is_not_one_that_could() -> None:
    asks = job(labels=["gpu"])
    assert _why(AWAY, asks=asks).kind == "nowhere"
    both = _why(AWAY, runner("gpu", labels=["gpu"], polled_s_ago=300), asks=asks)
    assert both.headline.startswith("cannot tell: 1 of 1 runner that could take it was not heard from")


def test_the_first_in_line_is_told_on_which_runner() -> None:
    one, other = job(1), job(2)
    of = fleet(runner("slow", speed_class=1), runner("fast", speed_class=5))
    assert explain(one, of, [one, other], NOW_MS).headline == "next in line on fast"
    assert explain(other, of, [one, other], NOW_MS).headline == "2nd in line"


def test_jobs_ahead_that_want_other_runners_are_not_in_the_same_line() -> None:
    ahead, one = job(1, labels=["gpu"]), job(2, labels=["ssd"])
    of = fleet(runner("gpu", labels=["gpu"]), runner("ssd", labels=["ssd"]))
    assert explain(one, of, [ahead, one], NOW_MS).headline == "next in line on ssd"


def test_a_hold_says_what_the_awaited_runner_has_that_others_have_not() -> None:
    held = job(images=["A"], held_for="b", held_since_ms=NOW_MS - 3500)
    fast = runner("b", images=["A"], speed_class=5)
    slow_holder = runner("a", images=["A"], speed_class=2)
    assert _why(fast, slow_holder, asks=held).headline == "held for b (speed class 5), 12 s left"
    of = fleet(fast, runner("a"), images=["A"])
    assert explain(held, of, [held], NOW_MS).headline == "held for b (holds the image), 12 s left"
    lost = replace(held, lost_on=frozenset({"a"}))
    assert (
        explain(lost, of, [lost], NOW_MS).headline == "held for b (it was not lost under this job), 12 s left"
    )


@pytest.mark.parametrize(
    "awaited",
    [
        runner("b", images=["A"], polled_s_ago=11),
        runner("b", images=["A"], broken_promises=2),
        runner("b", images=["A"], placed=1),
    ],
)
def test_a_job_whose_awaited_runner_is_not_there_is_not_held(awaited: Runner) -> None:
    held = job(images=["A"], held_for="b", held_since_ms=NOW_MS - 1000)
    of = fleet(awaited, runner("a"), images=["A"])
    assert explain(held, of, [held], NOW_MS).headline == "next in line on a"


def test_a_hold_that_is_over_is_not_a_hold() -> None:
    held = job(held_for="b", held_since_ms=NOW_MS - 15_000)
    assert _why(runner("b", speed_class=2), runner("a"), asks=held).kind == "turn"


def test_what_the_reader_may_not_see_is_counted_and_not_named() -> None:
    nobody: frozenset[str] = frozenset()
    assert _why(FULL, visible=nobody).headline == "waits for room: a runner runs 1 of 1 jobs"
    assert _why(runner(), visible=nobody).headline == "next in line on a runner"
    held = job(images=["A"], held_for="b", held_since_ms=NOW_MS - 4000)
    of = fleet(runner("b", images=["A"]), runner("a"), images=["A"])
    waiting = explain(held, of, [held], NOW_MS, visible={"a"})
    assert waiting.headline == "held for a better runner (holds the image), 11 s left"
    assert [one.runner for one in waiting.runners] == ["a"]
    assert waiting.more == 1
    out = runner("x", state="quarantined", state_reason="secret of another team")
    assert _why(out, visible=nobody).headline == "no runner can take it: 1 runner, it is quarantined"


def test_a_reason_shared_by_hidden_runners_tells_no_more_than_one_of_them() -> None:
    one = runner("x", state="quarantined", state_reason="secret of another team")
    waiting = _why(one, replace(one, name="y"), visible=frozenset())
    assert waiting.headline == "no runner can take it: 2 runners, all are quarantined"


def test_a_long_list_of_runners_is_bounded_and_the_nearest_come_first() -> None:
    of = fleet(*(runner(f"r{number:02}", labels=["x"] if number == 70 else []) for number in range(80)))
    asks = job(labels=["x"])
    waiting = reason(asks, judge(asks, of, NOW_MS))
    assert waiting.runners[0].runner == "r70"
    assert (len(waiting.runners), waiting.more) == (50, 30)
