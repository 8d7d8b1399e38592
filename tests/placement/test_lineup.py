"""A look that stops early sees what the full judgement says, and stops early."""

import random
from dataclasses import replace

from hypothesis import given, settings

from hub.placement import headline
from hub.placement.cause import cause
from hub.placement.lineup import lineup
from hub.placement.model import Fleet, Kept, QueuedJob, Runner
from hub.placement.waiting import cause_of, judge
from tests.fleets import NOW_MS, fleet, job, runner
from tests.placement.test_properties import fleets_of, queues


@settings(max_examples=400)
@given(fleets_of(), queues())
def test_a_look_comes_to_the_kind_and_headline_of_the_full_judgement(
    of: Fleet, jobs: list[QueuedJob]
) -> None:
    line = lineup(of, NOW_MS)
    for one in jobs:
        judgement = judge(one, of, NOW_MS)
        quick, full = cause(one, line.look(one, line.open_to(one))), cause_of(one, judgement)
        assert quick == full
        assert quick.meaning == full.meaning
        for visible in (None, frozenset[str](), frozenset({"a", "c"})):
            assert headline.of(quick, NOW_MS, visible) == headline.of(full, NOW_MS, visible)


def test_a_look_at_large_fleets_comes_to_what_the_full_judgement_says() -> None:
    """Runners of few shapes, with camps of many: what small random fleets seldom have."""
    rng = random.Random(7)
    for _ in range(20):
        of = fleet(*(_any_runner(rng, number) for number in range(60)))
        line = lineup(of, NOW_MS)
        for number in range(20):
            one = _any_job(rng, number)
            assert cause(one, line.look(one, line.open_to(one))) == cause_of(one, judge(one, of, NOW_MS))


def _any_runner(rng: random.Random, number: int) -> Runner:
    return runner(
        f"r{number}",
        labels=rng.choice([(), ("ssd",)]),
        memory_mib=31757,
        memory_used_mib=rng.choice([3000, 12_000, 24_000]),
        max_jobs=2,
        placed=rng.choice([1, 2, 2, 2]),
        load1=rng.random(),
        speed_class=rng.choice([2, 3]),
        state=rng.choice(["active"] * 6 + ["draining", "quarantined"]),
        state_reason=rng.choice(["", "its disk fails"]),
        polled_s_ago=rng.choice([1, 1, 1, 90]),
        kept=rng.choice([None] * 9 + [Kept(job=3, demand=job().demand, priority=0, queued_ms=NOW_MS)]),
    )


def _any_job(rng: random.Random, number: int) -> QueuedJob:
    labels = rng.choice([(), ("ssd",), ("gpu",)])
    asks = job(number, labels=labels, memory_mib=rng.choice([1024, 16_384, 26_000, 64_000]))
    held_for = rng.choice([None, "r1"])
    return replace(asks, held_for=held_for, held_since_ms=None if held_for is None else NOW_MS - 1000)


def test_a_look_at_a_full_fleet_stops_at_the_first_runner_that_lacks_but_a_slot() -> None:
    line = lineup(fleet(*(runner(f"r{number}", placed=1) for number in range(1000))), NOW_MS)
    asks = job()
    open_, before = line.open_to(asks), line.looks
    assert line.look(asks, open_).nearest is not None
    assert line.looks - before == 1


def test_the_lineup_stays_as_it_was_when_the_fleet_goes_on() -> None:
    known = {"a": runner("a")}
    line = lineup(Fleet(runners=known), NOW_MS)
    del known["a"]
    assert [one.runner.name for one in line.look(job(), line.open_to(job())).fitting] == ["a"]
