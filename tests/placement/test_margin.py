"""By what the chosen runner was ahead, what the job was held for, and who may read the names in that."""

import pytest

from hub.placement.margin import Told
from hub.placement.model import QueuedJob, Runner
from hub.placement.placed import Comparison, compare
from tests.fleets import NOW_MS, fleet, job, runner


def _compared(asks: QueuedJob, *runners: Runner, chosen: str = "a") -> Comparison:
    return compare(asks, chosen, fleet(*runners), NOW_MS)


FAST = {"speed_class": 5}
AHEAD: dict[str, tuple[QueuedJob, Runner, Runner, str]] = {
    "images": (
        job(images=["A"]),
        runner("a", images=["A"]),
        runner("b"),
        "ahead of b: it holds the image, the other fetches the image from the hub",
    ),
    "speed": (job(), runner("a", **FAST), runner("b", speed_class=2), "ahead of b: speed class 5 against 2"),
    "lost": (
        job(lost_on=frozenset({"b"})),
        runner("a"),
        runner("b", **FAST),
        "ahead of b: it was not lost under this job",
    ),
    "slots": (job(), runner("a", max_jobs=3), runner("b"), "ahead of b: free slots, 3 against 1"),
    "load": (job(), runner("a", load1=0.25), runner("b", load1=1.5), "ahead of b: load, 0.25 against 1.50"),
    "name": (job(), runner("a"), runner("b"), "ahead of b: equal in all but the name"),
    "nobody else": (job(), runner("a"), runner("b", state="draining"), "no other runner could take it"),
    "a better one that is away": (
        job(),
        runner("a", speed_class=2),
        runner("b", **FAST, polled_s_ago=15),
        "behind b, which did not ask: speed class 2 against 5",
    ),
    "an equal one": (
        job(),
        runner("a"),
        runner("b", max_jobs=2, polled_s_ago=15),
        "as good as b, which was not given it",
    ),
}


@pytest.mark.parametrize("name", AHEAD)
def test_the_margin_says_by_what_the_chosen_one_was_ahead(name: str) -> None:
    asks, chosen, other, text = AHEAD[name]
    assert compare(asks, "a", fleet(chosen, other, images=["A"]), NOW_MS).margin.to(None) == text


def test_a_hold_that_the_awaited_runner_ended_has_paid_and_another_has_not() -> None:
    held = job(held_since_ms=NOW_MS - 6_000, awaited="a")
    compared = _compared(held, runner("a"), runner("b"))
    assert compared.waited is not None
    assert compared.waited.to(None) == "held 6 s for a, which took it"
    assert compared.paid is True
    lost = _compared(held, runner("a"), runner("b"), chosen="b")
    assert lost.waited is not None
    assert lost.waited.to(None) == "held 6 s for a, which did not take it"
    assert lost.paid is False


def test_a_hold_whose_runner_is_no_longer_known_tells_its_length_only() -> None:
    compared = _compared(job(held_since_ms=NOW_MS - 60_000), runner("a"))
    assert compared.waited == Told(text="held 15 s for a better runner")
    assert compared.paid is None
    assert _compared(job(), runner("a")).waited is None


def test_a_reader_who_may_not_see_the_other_runner_is_not_told_its_name() -> None:
    told = _compared(job(), runner("a", **FAST), runner("b", speed_class=2)).margin
    assert told.to({"a"}) == "ahead of another runner: speed class 5 against 2"
    assert told.to({"a", "b"}) == "ahead of b: speed class 5 against 2"


def test_the_age_of_what_each_runner_said_is_kept() -> None:
    ages = {one.runner: one.facts_age_s for one in _compared(job(), runner("a"), runner("b")).runners}
    assert ages == {"a": 2.0, "b": 2.0}
    never = _compared(job(), runner("a"), runner("b", polled_s_ago=None)).runners
    assert never[1].facts_age_s is None


def test_every_runner_that_fits_is_told_by_what_the_chosen_one_was_ahead_of_it() -> None:
    compared = _compared(
        job(), runner("a", **FAST), runner("b", speed_class=2), runner("c"), runner("d", state="draining")
    )
    told = {one.runner: None if one.margin is None else one.margin.to(None) for one in compared.runners}
    assert told == {
        "a": None,
        "b": "ahead of b: speed class 5 against 2",
        "c": "ahead of c: speed class 5 against 0",
        "d": None,
    }
    assert compared.margin.to(None) == told["b"]
