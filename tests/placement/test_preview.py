"""A batch previewed: who would take what now, and why not another."""

from dataclasses import replace

from hub.placement.model import QueuedJob
from hub.placement.preview import preview
from tests.fleets import NOW_MS, fleet, job, runner


def _batch(number: int, **asked: object) -> list[QueuedJob]:
    return [job(100 + one, **asked) for one in range(number)]


def test_ten_jobs_do_not_all_go_to_one_slot() -> None:
    of = fleet(runner("a"), runner("b", max_jobs=2))
    answers = preview(of, (), _batch(10), NOW_MS)
    assert [one.runner for one in answers] == ["b", "a", "b", *[None] * 7]
    first, _, third, fourth, *_ = answers
    assert (first.placed, third.placed) == ("needs no image, idle", "needs no image, running 1 other job")
    assert first.waiting is None
    assert fourth.waiting is not None
    assert (fourth.waiting.kind, fourth.waiting.headline) == ("busy", "waits for room: a runs 1 of 1 jobs")


def test_what_is_queued_before_goes_first_and_a_higher_priority_goes_before_it() -> None:
    of, queued = fleet(runner("a")), job(1)
    [later] = preview(of, [queued], _batch(1), NOW_MS)
    assert later.runner is None
    [urgent] = preview(of, [queued], _batch(1, order=(-5, NOW_MS, 100)), NOW_MS)
    assert urgent.runner == "a"


def test_runners_that_do_not_poll_now_take_nothing_and_the_job_is_told_its_place() -> None:
    of = fleet(runner("pausing", polled_s_ago=20))
    answers = preview(of, [job(1)], _batch(2), NOW_MS)
    assert [one.runner for one in answers] == [None, None]
    assert [one.waiting.headline for one in answers if one.waiting] == ["2nd in line", "3rd in line"]


def test_every_other_runner_is_told_with_what_it_lacks() -> None:
    of = fleet(runner("a", labels=["gpu"]), runner("b"), runner("c", labels=["gpu"]))
    [one] = preview(of, (), _batch(1, labels=["gpu"]), NOW_MS)
    assert one.runner == "a"
    assert [(other.runner, [lack.text for lack in other.lacks]) for other in one.runners] == [
        ("c", []),
        ("b", ["lacks label gpu"]),
    ]


def test_a_job_that_can_go_nowhere_stops_no_other() -> None:
    of = fleet(runner("a"))
    impossible, possible = job(100, labels=["gpu"]), job(101)
    answers = preview(of, (), [impossible, possible], NOW_MS)
    assert [one.runner for one in answers] == [None, "a"]
    assert answers[0].waiting is not None
    assert answers[0].waiting.headline == "no runner can take it: 1 runner, it lacks label gpu"


def test_the_fleet_that_was_asked_about_is_left_as_it_was() -> None:
    of = fleet(runner("a"), images=["A"])
    before = replace(of, runners=dict(of.runners))
    preview(of, [job(1)], _batch(3, images=["A"]), NOW_MS)
    assert of == before


def test_a_runner_that_the_reader_may_not_see_is_not_named() -> None:
    of = fleet(runner("secret"), runner("b", state="draining"))
    [one] = preview(of, (), _batch(1), NOW_MS, visible={"b"})
    assert one.runner == "a runner"
    assert [other.runner for other in one.runners] == ["b"]


def test_a_large_queue_of_few_demands_is_previewed_without_judging_each_job_everywhere() -> None:
    of = fleet(*(runner(f"r{number}", max_jobs=4) for number in range(100)))
    queue = [job(number) for number in range(1, 5001)]
    answers = preview(of, queue, [job(9000), job(9001, order=(-1, NOW_MS, 9001))], NOW_MS)
    assert [one.runner for one in answers] == [None, "r0"]
    assert answers[0].waiting is not None
    assert answers[0].waiting.kind == "busy"
