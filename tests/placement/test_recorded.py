"""A journal becomes a trace that the simulator runs: with what was measured, and what was not, counted."""

from dataclasses import replace

import pytest
from hypothesis import given

from hub.placement.journal import Ended, Entry, Images, Journal, JournalError, Removed, What
from hub.placement.model import Fleet, HubImage, QueuedJob, Runner, Settings, Standing, Wish
from hub.placement.recorded import ASKS_MS, IMAGE_BYTES, recorded
from hub.placement.simulate import simulate
from hub.placement.trace import Trace, read, write
from tests.fleets import NOW_MS, job, runner
from tests.placement.test_journal import journal_of
from tests.placement.test_properties import fleets_of, queues

Told = What | tuple[int, What]


def journal(*what: Told) -> Journal:
    """A journal that begins at NOW_MS; a pair tells how many seconds later something came."""
    pairs = [one if isinstance(one, tuple) else (0, one) for one in what]
    entries = tuple(Entry(at_ms=NOW_MS + 1000 * after_s, what=one) for after_s, one in pairs)
    return Journal(begin_ms=NOW_MS, settings=Settings(), entries=entries)


def ended(number: int, ran_s: float | None, **more: str) -> Ended:
    told = {"runner": "r", "project": "andy/demo", "name": "test", "how": "succeeded"} | more
    return Ended(job=number, ran_ms=None if ran_s is None else round(ran_s * 1000), **told)


def trace_of(*what: Told) -> Trace:
    return recorded(journal(*what)).trace


@given(fleets_of(), queues())
def test_the_trace_of_any_journal_is_whole(value: Fleet, jobs: list[QueuedJob]) -> None:
    told = journal_of(value, [replace(one, usual_ms=5000) for one in jobs])
    found = recorded(told)
    assert read(write(found.trace)) == found.trace
    assert (found.usual, found.measured, found.left_out) == (len(jobs), 0, 0)


def test_a_job_takes_as_long_as_it_did_at_the_speed_of_its_runner() -> None:
    told: list[Told] = [
        runner("r", speed=200),
        job(1, usual_ms=1),
        (3, job(2)),
        (9, job(1)),
        (60, ended(1, 30)),
    ]
    found = recorded(journal(*told, (70, ended(2, 5, name="lint"))))
    assert [(one.id, one.name, one.at_ms, one.work_ms) for one in found.trace.jobs] == [
        (1, "andy/demo/test", 0, 60_000),
        (2, "andy/demo/lint", 3000, 10_000),
    ]
    assert (found.measured, found.usual, found.left_out) == (2, 0, 0)


@pytest.mark.parametrize("how", ["lost", "declined", "released", "canceled", "error", "not delivered"])
def test_an_attempt_that_did_not_run_to_its_end_measures_nothing(how: str) -> None:
    found = recorded(
        journal(runner("r"), job(1), job(2, usual_ms=7000), ended(1, 3, how=how), ended(2, 3, how=how))
    )
    assert [(one.id, one.work_ms) for one in found.trace.jobs] == [(2, 7000)]
    assert (found.measured, found.usual, found.left_out) == (0, 1, 1)


def test_the_end_that_ran_counts_whichever_came_last() -> None:
    told: list[Told] = [
        runner("r"),
        job(1),
        ended(1, 1, how="lost"),
        ended(1, 30),
        ended(1, None, how="declined"),
    ]
    (one,) = trace_of(*told).jobs
    assert one.work_ms == 30_000


def test_a_runner_has_the_images_of_its_first_line_and_the_figures_of_its_last() -> None:
    early = runner("r", images=("A", "idle"), memory_mib=8192, polled_s_ago=10)
    late = runner("r", images=("A", "B"), memory_mib=16384, cpus=4, max_jobs=3, speed_class=7, waiting=True)
    told: list[Told] = [early, job(1, images=("A", "B"), usual_ms=1), (5, late), Removed(name="r")]
    (one,) = trace_of(*told).runners
    assert one.images == {"A"}
    assert (one.memory_mib, one.cpus) == (16384, 4)
    assert (one.slots, one.speed, one.speed_class, one.arch) == (3, 100, 7, "x86_64")
    assert (one.poll_ms, one.pause_ms) == (25_000, 50)


def test_a_reserve_of_its_own_leaves_a_runner_the_same_room() -> None:
    small = runner("small", memory_mib=4096, reserve_mib=512)
    (one,) = trace_of(small, job(1, usual_ms=1)).runners
    assert one.memory_mib == 4096 - 512 + 4096


def test_a_runner_that_asks_at_intervals_does_so_as_often_as_it_did() -> None:
    polls = [(0, 10), (0, 8), (0, 6), (0, 5)]
    told: list[Told] = [runner("r", polled_s_ago=ago) for _, ago in polls]
    (one,) = trace_of(*told).runners
    assert (one.poll_ms, one.pause_ms) == (0, 2000)
    (one,) = trace_of(runner("r")).runners
    assert (one.poll_ms, one.pause_ms) == (0, ASKS_MS)


def test_images_have_the_size_that_the_hub_knows() -> None:
    held = Images(held={"A": HubImage(size_mib=3, arch="x86_64"), "other": HubImage(size_mib=9)})
    found = trace_of(held, runner("r"), job(1, images=("A", "B"), usual_ms=1))
    assert [(one.name, one.bytes, one.arch) for one in found.images] == [
        ("A", 3 * 2**20, "x86_64"),
        ("B", IMAGE_BYTES, None),
    ]


def test_a_wish_for_a_runner_that_is_not_there_is_left_out() -> None:
    found = trace_of(
        runner("r"), job(1, usual_ms=1, wish=Wish(runner="r")), job(2, usual_ms=1, wish=Wish(runner="gone"))
    )
    assert [one.wish for one in found.jobs] == ["r", None]


def test_tiers_and_scopes_are_told_as_labels_where_they_part_the_fleet() -> None:
    told: list[Told] = [
        runner("all", tiers=("microvm", "process")),
        runner("bea", tiers=("process",), owner="bea"),
        job(1, usual_ms=1),
        job(2, usual_ms=1, tier="process", project="bea/tool", labels=("ssd",)),
    ]
    found = trace_of(*told)
    scoped = {"for:andy/demo", "for:bea/tool"}
    assert {one.name: one.labels for one in found.runners} == {
        "all": {"tier:microvm", "tier:process"} | scoped,
        "bea": {"tier:process", "for:bea/tool"},
    }
    assert [one.labels for one in found.jobs] == [
        {"tier:microvm", "for:andy/demo"},
        {"tier:process", "for:bea/tool", "ssd"},
    ]
    plain = trace_of(runner("r"), runner("s", labels=("ssd",)), job(1, usual_ms=1))
    assert [one.labels for one in plain.runners] == [set(), {"ssd"}]
    assert [one.labels for one in plain.jobs] == [set()]


def test_a_fleet_without_a_runner_that_polled_is_no_trace() -> None:
    never = Runner(name="new", offer=None, standing=Standing())
    with pytest.raises(JournalError, match="no runner polled"):
        recorded(journal(never, job(1, usual_ms=1)))


def test_the_simulator_runs_what_was_recorded() -> None:
    told: list[Told] = [
        runner("slow", images=("A",), speed_class=1, waiting=True),
        runner("fast", speed_class=5, waiting=True, max_jobs=2),
    ]
    for number in range(20):
        told += [(number, job(number + 1, images=("A",))), (number + 50, ended(number + 1, 30))]
    found = recorded(journal(*told))
    for outcome in simulate(found.trace):
        assert len(outcome.ran) == found.measured == 20
        assert outcome.nowhere == ()
        assert all(one.end_ms - one.start_ms >= 30_000 for one in outcome.ran)
