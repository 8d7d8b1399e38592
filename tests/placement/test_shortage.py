"""A job that ran out asks for more than it had: figures, fit and sentences."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.placement.fit import lacks
from hub.placement.model import Demand, Lack, QueuedJob, Runner, Shortage, Want
from hub.placement.placed import placed_sentence
from hub.placement.shortage import (
    could_have_mib,
    ended_sentence,
    raised,
    ran_out,
    shortage,
    with_shortage,
)
from tests.fleets import NOW_MS, fleet, job, runner

MEMORY = Shortage(of="memory", had_mib=2048, asks_mib=3072, runner="mars-1")
DISK = Shortage(of="disk", had_mib=5018, asks_mib=6337, runner="mars-1")
MIB = st.integers(min_value=1, max_value=1 << 20)
WANTS: st.SearchStrategy[Want] = st.sampled_from(["memory", "disk"])


def after(demand: Demand, of: Want, peak_mib: int | None) -> Demand:
    """The demand of a job of which an attempt ran out."""
    found = shortage(demand, of, "mars-1", peak_mib)
    assert found is not None
    return raised(demand, [found])


def judged(demand: Demand, one: Runner) -> list[Lack]:
    return list(lacks(replace(job(), demand=demand), one, fleet(one), NOW_MS))


@pytest.mark.parametrize(
    ("of", "asked", "peak", "had", "asks"),
    [
        ("memory", 2048, 1900, 2048, 3072),
        ("memory", 2048, None, 2048, 3072),
        ("memory", None, 1001, 1001, 1502),
        ("memory", 1, None, 1, 2),
        ("disk", None, 4900, 4900, 6189),
        ("disk", 4096, 4900, 4900, 6189),
        ("disk", 10_000, 4900, 4900, 10_000),  # others filled the disk: it never asks for less than before
        ("disk", 4096, None, 4096, 5184),
        ("disk", None, 0, 0, 64),
    ],
)
def test_a_job_that_ran_out_asks_for_more(
    of: Want, asked: int | None, peak: int | None, had: int, asks: int
) -> None:
    demand = Demand(project="a/b", tier="process", memory_mib=asked, disk_mib=asked)
    assert shortage(demand, of, "mars-1", peak) == Shortage(
        of=of, had_mib=had, asks_mib=asks, runner="mars-1"
    )


@pytest.mark.parametrize("of", ["memory", "disk"])
def test_without_any_figure_there_is_nothing_to_raise(of: Want) -> None:
    assert shortage(Demand(project="a/b", tier="process"), of, "mars-1", None) is None


def test_a_disk_that_was_full_at_less_than_before_takes_nothing_back() -> None:
    demand = raised(Demand(project="a/b", tier="process"), [DISK])
    found = shortage(demand, "disk", "tiny", 100, [DISK])
    assert found == DISK
    more = shortage(demand, "disk", "tank", 6000, [DISK])
    assert more == Shortage(of="disk", had_mib=6000, asks_mib=7564, runner="tank")


def test_the_newest_of_each_kind_is_kept_in_one_order() -> None:
    newer = replace(MEMORY, had_mib=3072, asks_mib=4608, runner="tank")
    assert with_shortage((), DISK) == (DISK,)
    assert with_shortage((DISK,), MEMORY) == (MEMORY, DISK)
    assert with_shortage((MEMORY, DISK), newer) == (newer, DISK)


def test_a_job_that_asks_for_more_anyway_does_not_do_so_for_its_shortage() -> None:
    demand = Demand(project="a/b", tier="process", disk_mib=8000, disk_peak_mib=6349)
    assert raised(demand, [DISK]) == demand
    assert raised(replace(demand, disk_mib=6337), [DISK]).shortages == (DISK,)


@given(WANTS, MIB, MIB, st.integers(min_value=1, max_value=4))
def test_each_time_it_runs_out_it_asks_for_more_than_it_had(
    of: Want, asked: int, peak: int, times: int
) -> None:
    demand = Demand(project="a/b", tier="process", memory_mib=asked, disk_mib=asked)
    for _ in range(times):
        before, demand = demand, after(demand, of, peak)
        (one,) = demand.shortages
        assert one.asks_mib > one.had_mib
        if of == "memory":
            assert (demand.memory_mib or 0) > (before.memory_mib or 0)
            assert demand.disk_mib == before.disk_mib
        else:
            assert (demand.disk_mib or 0) >= max(before.disk_mib or 0, peak + peak / 4 + 64)
            assert demand.memory_mib == before.memory_mib


@given(st.none() | MIB, MIB)
def test_a_raised_memory_never_fits_into_the_room_that_ended_it(asked: int | None, peak: int) -> None:
    demand = Demand(project="a/b", tier="microvm", memory_mib=asked)
    had = peak if asked is None else asked
    more = after(demand, "memory", peak)
    room = {"reserve_mib": 0, "max_jobs": 4}
    there = runner("mars-1", memory_mib=had + 2048, **room)
    assert [one.code for one in judged(more, there)] == ["memory"]
    assert judged(more, runner("mars-1", memory_mib=(more.memory_mib or 0) + 2048, **room)) == []


@given(st.none() | MIB, MIB)
def test_a_raised_disk_never_fits_into_the_room_that_ended_it(asked: int | None, peak: int) -> None:
    more = after(Demand(project="a/b", tier="microvm", disk_mib=asked), "disk", peak)
    assert [one.code for one in judged(more, runner("mars-1", free_disk_mib=peak))] == ["disk"]
    assert judged(more, runner("mars-1", free_disk_mib=more.disk_mib)) == []


@given(st.lists(st.sampled_from([MEMORY, DISK]), max_size=4))
def test_raising_twice_is_raising_once(shortages: list[Shortage]) -> None:
    demand = Demand(project="a/b", tier="process", memory_mib=2048)
    once = raised(demand, shortages)
    assert raised(once, shortages) == once


def asks(*shortages: Shortage) -> QueuedJob:
    return replace(job(), demand=raised(job().demand, shortages))


@pytest.mark.parametrize(
    ("shortages", "last"),
    [
        ([MEMORY], "asking 3072 MiB of memory, as it ran out of 2048 MiB on mars-1"),
        ([DISK], "asking ~6.2 GiB of disk, as it ran out at 4.9 GiB on mars-1"),
        (
            [DISK, MEMORY],
            "asking 3072 MiB of memory, as it ran out of 2048 MiB on mars-1, "
            "asking ~6.2 GiB of disk, as it ran out at 4.9 GiB on mars-1",
        ),
        (
            [Shortage(of="disk", had_mib=1500, asks_mib=1501, runner="x")],
            "asking ~1501 MiB of disk, as it ran out at 1500 MiB on x",
        ),
    ],
)
def test_the_placed_sentence_ends_with_what_it_asks_for_and_why(shortages: list[Shortage], last: str) -> None:
    one = runner("tank")
    assert placed_sentence(asks(*shortages), one, fleet(one), NOW_MS) == f"needs no image, idle, {last}"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"memory_mib": 4096}, "can give jobs 0 MiB of its 4096 MiB; the job needs 3072 MiB"),
        ({"memory_mib": 2000}, "has 2000 MiB; the job needs 3072 MiB"),
        (
            {"memory_mib": 16384, "memory_used_mib": 10_000, "reserve_mib": 4096},
            "has 2288 MiB free of 16384 MiB (10000 MiB are in use); the job needs 3072 MiB",
        ),
    ],
)
def test_a_lack_of_memory_says_for_what_shortage_it_needs_so_much(said: dict[str, int], text: str) -> None:
    (lack,) = judged(asks(MEMORY).demand, runner("tank", **said))
    assert lack.text == f"{text} (it ran out of 2048 MiB on mars-1)"
    assert lack.remedy is not None
    assert re.search(r", or make the job do with \d+ MiB or less$", lack.remedy.text)


def test_a_lack_of_disk_names_the_shortage_and_not_what_recent_runs_took() -> None:
    demand = raised(Demand(project="andy/demo", tier="microvm", disk_mib=6000, disk_peak_mib=4748), [DISK])
    (lack,) = judged(demand, runner("tank", free_disk_mib=3277))
    assert lack.text == "has 3.2 GiB free; the job needs ~6.2 GiB (it ran out of 4.9 GiB on mars-1)"
    more = replace(demand, disk_mib=9000, shortages=())
    (lack,) = judged(more, runner("tank", free_disk_mib=3277))
    assert lack.text == "has 3.2 GiB free; the job needs ~8.8 GiB (its recent runs took up to 4.6 GiB)"


def test_a_demand_without_a_shortage_gives_no_such_reason() -> None:
    assert ran_out(job().demand, "memory") is None
    assert ran_out(asks(MEMORY).demand, "disk") is None


@pytest.mark.parametrize(
    ("of", "found", "more", "sentence"),
    [
        ("memory", MEMORY, True, "ran out of memory with 2048 MiB on mars-1"),
        ("memory", MEMORY, False, "ran out of memory with 2048 MiB on mars-1; no runner has more"),
        ("disk", DISK, True, "ran out of disk at 4.9 GiB on mars-1"),
        ("disk", None, True, "ran out of disk on mars-1"),
    ],
)
def test_an_attempt_that_ran_out_says_of_what(
    of: Want, found: Shortage | None, more: bool, sentence: str
) -> None:
    assert ended_sentence(of, found, "mars-1", more=more) == sentence


@pytest.mark.parametrize(
    ("of", "asked", "shortages", "short", "could"),
    [
        ("memory", 2048, [], None, 2048),
        ("memory", 2048, [MEMORY], None, 3072),
        ("memory", 2048, [MEMORY], "memory", 2048),
        ("memory", 2048, [MEMORY], "disk", 3072),
        ("memory", None, [DISK], None, None),
        ("disk", 4096, [DISK], "disk", 4096),
        ("disk", None, [DISK], None, 6337),
    ],
)
def test_what_an_attempt_could_have_is_raised_only_after_it_ran_out(
    of: Want, asked: int | None, shortages: list[Shortage], short: str | None, could: int | None
) -> None:
    assert could_have_mib(of, asked, shortages, short) == could
