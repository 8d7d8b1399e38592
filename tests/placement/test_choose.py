"""The decision, beyond the cases of the table: what is counted, and who is offered what."""

from dataclasses import replace

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, hold_limit_ms, offer
from hub.placement.model import Fleet, QueuedJob, Settings, Wish
from tests.fleets import NOW_MS, fleet, job, runner


def _held(one: QueuedJob, name: str, s: int = 1) -> QueuedJob:
    return replace(one, held_for=name, held_since_ms=NOW_MS - s * 1000)


def _claims(of: Fleet, name: str, *jobs: QueuedJob) -> tuple[int | None, dict[int, str]]:
    plan = choose(PlainBoard(of, jobs, NOW_MS), name)
    return plan.take.id if plan.take else None, {hold.job: hold.awaited for hold in plan.holds}


def test_a_job_held_since_an_earlier_claim_keeps_the_slot_it_is_held_for() -> None:
    # job 1 does not fit on the claiming runner, so this decision does not come across it
    first, second = job(1, images=["A"], labels=["ssd"]), job(2, images=["A"])
    of = fleet(runner("b", images=["A"], labels=["ssd"]), runner("a", waiting=True), images=["A"])
    assert _claims(of, "a", first, second) == (None, {2: "b"})
    assert _claims(of, "a", _held(first, "b"), second) == (2, {})


def test_a_hold_that_is_over_keeps_no_slot() -> None:
    first, second = job(1, images=["A"], labels=["ssd"]), job(2, images=["A"])
    of = fleet(runner("b", images=["A"], labels=["ssd"]), runner("a", waiting=True), images=["A"])
    assert _claims(of, "a", _held(first, "b", s=15), second) == (None, {2: "b"})


def test_a_job_that_now_awaits_another_runner_is_counted_there_only() -> None:
    # c came since job 1 was held for b, and is better: b's slot is free for job 2, which c cannot take
    fleet_ = fleet(
        runner("a", waiting=True),
        runner("b", images=["A"], speed_class=1, labels=["ssd"]),
        runner("c", images=["A"], speed_class=5),
        images=["A"],
    )
    first, second = job(1, images=["A"]), job(2, images=["A"])
    second = replace(second, demand=replace(second.demand, labels=frozenset({"ssd"})))
    claiming = runner("a", labels=["ssd"], waiting=True)
    of = replace(fleet_, runners={**fleet_.runners, "a": claiming})
    assert _claims(of, "a", _held(first, "b"), second) == (None, {1: "c", 2: "b"})


def test_a_runner_that_broke_two_promises_is_awaited_no_more_and_still_takes_jobs() -> None:
    phantom = runner("b", images=["A"], broken_promises=2, waiting=True)
    of = fleet(phantom, runner("a", waiting=True), images=["A"])
    one = job(1, images=["A"])
    assert _claims(of, "a", one) == (1, {})
    assert _claims(of, "b", one) == (1, {})
    assert offer(PlainBoard(of, [one], NOW_MS), one).runner == "b"


def test_a_runner_that_was_lost_under_the_job_ranks_below_all_others() -> None:
    of = fleet(runner("a", waiting=True), runner("b", images=["A"], waiting=True), images=["A"])
    one = job(1, images=["A"], lost_on=frozenset({"b"}))
    assert offer(PlainBoard(of, [one], NOW_MS), one).runner == "a"
    assert _claims(of, "b", one) == (None, {1: "a"})
    alone = fleet(runner("b", images=["A"], waiting=True))
    assert _claims(alone, "b", one) == (1, {})


def test_a_wish_decides_among_equals_and_never_against_a_better_runner() -> None:
    one = job(1, images=["A"], wish=Wish(runner="z"))
    equals = fleet(
        runner("a", images=["A"], waiting=True, max_jobs=4), runner("z", images=["A"], waiting=True)
    )
    assert offer(PlainBoard(equals, [one], NOW_MS), one).runner == "z"
    assert _claims(equals, "a", one) == (1, {}), "equals do not wait for each other"
    better = fleet(
        runner("a", images=["A"], waiting=True, speed_class=5), runner("z", images=["A"], waiting=True)
    )
    assert offer(PlainBoard(better, [one], NOW_MS), one).runner == "a"


def test_a_job_that_becomes_ready_is_held_for_a_better_runner_about_to_poll() -> None:
    of = fleet(runner("b", images=["A"]), runner("a", waiting=True), images=["A"])
    one = job(1, images=["A"])
    plan = offer(PlainBoard(of, [one], NOW_MS), one)
    assert plan.take is None
    assert [(hold.job, hold.awaited) for hold in plan.holds] == [(1, "b")]


def test_priority_goes_before_age() -> None:
    of = fleet(runner("a", waiting=True))
    urgent = job(2, order=(-10, NOW_MS, 2))
    assert _claims(of, "a", job(1), urgent) == (2, {})


def test_a_hold_lasts_as_long_as_the_setting_or_the_jobs_usual_duration() -> None:
    assert hold_limit_ms(job(), Settings()) == 15_000
    assert hold_limit_ms(job(usual_ms=5000), Settings()) == 5000
    assert hold_limit_ms(job(usual_ms=60_000), Settings(hold_ms=3000)) == 3000
