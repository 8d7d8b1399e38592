"""The placed sentence, part by part, and the comparison beside it."""

from typing import Any

import pytest

from hub.placement.model import QueuedJob, Runner, Wish
from hub.placement.placed import compare, placed_sentence
from tests.fleets import NOW_MS, fleet, job, runner


def _sentence(one: Runner, asks: QueuedJob | None = None, *others: Runner) -> str:
    return placed_sentence(asks or job(), one, fleet(one, *others), NOW_MS)


@pytest.mark.parametrize(
    ("holds", "needs", "phrase"),
    [
        ("", "", "needs no image"),
        ("A", "A", "holds the image"),
        ("", "A", "fetches the image from the hub"),
        ("ABC", "AB", "holds the 2 images"),
        ("C", "AB", "fetches the 2 images from the hub"),
        ("A", "ABC", "fetches 2 of the 3 images from the hub"),
    ],
)
def test_it_says_what_is_held_and_what_is_fetched(holds: str, needs: str, phrase: str) -> None:
    assert _sentence(runner(images=holds), job(images=needs)) == f"{phrase}, idle"


@pytest.mark.parametrize(
    ("holds", "fetching", "needs", "phrase"),
    [
        ("", "A", "A", "is fetching the image"),
        ("", "AB", "AB", "is fetching the 2 images"),
        ("A", "B", "AB", "is fetching 1 of the 2 images"),
        ("", "A", "AB", "fetches the 2 images from the hub"),
        ("A", "A", "A", "holds the image"),
    ],
)
def test_it_says_that_a_fetch_is_under_way_where_nothing_else_is_missing(
    holds: str, fetching: str, needs: str, phrase: str
) -> None:
    assert _sentence(runner(images=holds, fetching=fetching), job(images=needs)) == f"{phrase}, idle"


@pytest.mark.parametrize(
    ("said", "phrase"),
    [
        ({"placed": 1, "max_jobs": 4}, "running 1 other job"),
        ({"placed": 3, "max_jobs": 4}, "running 3 other jobs"),
        ({"speed": 80}, "idle, speed 80"),
        ({"speed_class": 2}, "idle, speed class 2"),
        ({"speed": 80, "speed_class": 0}, "idle, speed 80 (class 0)"),
    ],
)
def test_it_says_what_else_runs_there_and_how_fast_it_is(said: dict[str, Any], phrase: str) -> None:
    assert _sentence(runner(**said)) == f"needs no image, {phrase}"


@pytest.mark.parametrize(
    ("said", "tier", "phrase"),
    [
        ({"accel": "tcg", "speed": 80}, "microvm", "idle, speed 80, emulated (tcg)"),
        ({"accel": "tcg"}, "microvm", "idle, emulated (tcg)"),
        ({"accel": "kvm", "speed": 80}, "microvm", "idle, speed 80"),
        ({"accel": "tcg", "speed": 80}, "process", "idle, speed 80"),
    ],
)
def test_it_says_where_a_guest_is_emulated(said: dict[str, Any], tier: str, phrase: str) -> None:
    one = runner(tiers=("microvm", "process"), **said)
    assert _sentence(one, job(tier=tier)) == f"needs no image, {phrase}"


@pytest.mark.parametrize(
    ("held_ms", "phrase"),
    [(400, "less than 1 s"), (4000, "4 s"), (14_999, "14 s"), (15_020, "15 s"), (3_600_000, "15 s")],
)
def test_it_says_how_long_the_hold_was_and_not_what_came_after(held_ms: int, phrase: str) -> None:
    asks = job(held_since_ms=NOW_MS - held_ms)
    assert _sentence(runner(), asks) == f"needs no image, idle, after {phrase} held for a better runner"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"state": "draining"}, "is draining"),
        ({"placed": 1}, "runs 1 of 1 jobs"),
        ({}, "was not asking for a job"),
        ({"polled_s_ago": 60}, "has not been heard from for 60 s (30 s at most)"),
    ],
)
def test_it_says_why_a_wish_was_not_met(said: dict[str, Any], why: str) -> None:
    asks = job(wish=Wish(runner="mars-1"))
    end = f"not on mars-1, where the last job of this run ran: it {why}"
    assert _sentence(runner(), asks, runner("mars-1", **said)) == f"needs no image, idle, {end}"


def test_a_wish_that_was_met_needs_no_words() -> None:
    assert _sentence(runner("mars-1"), job(wish=Wish(runner="mars-1"))) == "needs no image, idle"


def test_a_wish_gives_way_to_a_better_runner_and_to_a_runner_that_is_gone() -> None:
    asks = job(wish=Wish(runner="mars-1"))
    faster = _sentence(runner(speed_class=5), asks, runner("mars-1", speed_class=2))
    assert faster.endswith("not on mars-1, where the last job of this run ran: it is not the better one")
    assert _sentence(runner(), asks).endswith(
        "where the last job of this run ran: it is no longer registered"
    )


def test_nothing_is_placed_on_a_runner_that_never_polled() -> None:
    with pytest.raises(ValueError, match="never polled"):
        _sentence(runner(polled_s_ago=None))


def test_the_comparison_has_the_chosen_one_first_then_who_fits_best_then_who_lacks_least() -> None:
    of = fleet(
        runner("away", images=["A"], polled_s_ago=None),
        runner("chosen", waiting=True),
        runner("holder", images=["A"], speed_class=3, load1=0.5, max_jobs=2),
        runner("labelled", labels=["x"], state="draining"),
        runner("other"),
        images=["A"],
    )
    found = compare(job(images=["A"]), "chosen", of, NOW_MS)
    assert [one.runner for one in found.runners] == ["chosen", "holder", "other", "away", "labelled"]
    assert found.more == 0
    chosen, holder, *_, labelled = found.runners
    assert (chosen.chosen, chosen.waiting, chosen.holds_images, chosen.lacks) == (True, True, False, ())
    assert (holder.rank, holder.free_slots, holder.load1, holder.chosen) == ((1, 2, 3), 2, 0.5, False)
    assert [lack.code for lack in labelled.lacks] == ["draining"]


def test_the_comparison_is_bounded_and_counts_the_rest() -> None:
    names = [f"r{number:03}" for number in range(50)]
    of = fleet(*(runner(name) for name in names))
    found = compare(job(), "r042", of, NOW_MS)
    assert [one.runner for one in found.runners] == ["r042", *names[:19]]
    assert found.more == 30
    found = compare(job(), "r042", of, NOW_MS, among=iter(["r042", "r007", "r003", "gone"]), limit=3)
    assert [one.runner for one in found.runners] == ["r042", "r003", "r007"]
    assert found.more == 47
