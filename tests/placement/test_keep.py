"""A large job that smaller ones keep out gets a runner kept for it, and the others are told so."""

from dataclasses import replace

from hypothesis import given

from hub.placement.board import PlainBoard
from hub.placement.choose import choose
from hub.placement.fit import lacks
from hub.placement.keep import could_take, emptied, kept_for, runner_to_keep
from hub.placement.model import Fleet, Placed, QueuedJob, Runner
from hub.placement.remedy import apply, remedies
from hub.placement.waiting import explain, judge
from tests.fleets import NOW_MS, fleet, job, runner
from tests.placement.test_properties import fleets_of, queues

MINUTE_MS = 60_000
LARGE = job(1, memory_mib=24_000, order=(0, NOW_MS - 11 * MINUTE_MS, 1))
SMALL = job(7, memory_mib=8_000, order=(0, NOW_MS - MINUTE_MS, 7))


def _filled(name: str = "earth-9", *, came_s_ago: int = 60, **more: object) -> Runner:
    """A machine of 31 GiB on which small jobs run, the last of which came then."""
    placed = tuple(
        Placed(
            job=number,
            memory_mib=8_000,
            owner="andy",
            order=(0, NOW_MS - came_s_ago * 1000 - number, number),
        )
        for number in (20, 21)
    )
    said = {"max_jobs": 4, "memory_mib": 32_000, "memory_used_mib": 18_000, "idle_memory_mib": 2_000}
    return runner(name, placed=placed, **said | more)


def _keep(asks: QueuedJob, of: Fleet) -> str | None:
    return runner_to_keep(asks, judge(asks, of, NOW_MS), of)


def test_a_job_passed_over_for_ten_minutes_has_the_runner_kept() -> None:
    assert _keep(LARGE, fleet(_filled())) == "earth-9"


def test_nothing_is_kept_before_ten_minutes_or_while_the_job_fits_somewhere() -> None:
    early = replace(LARGE, order=(0, NOW_MS - 9 * MINUTE_MS, 1))
    assert _keep(early, fleet(_filled())) is None
    assert _keep(LARGE, fleet(_filled(), runner("free", memory_mib=32_000))) is None


def test_a_job_that_merely_waits_its_turn_has_nothing_kept() -> None:
    """What runs there came before it: nobody passed it over."""
    assert _keep(LARGE, fleet(_filled(came_s_ago=20 * 60))) is None


def test_a_runner_too_small_or_draining_or_full_of_disk_is_not_kept() -> None:
    assert _keep(LARGE, fleet(_filled(memory_mib=24_000))) is None
    assert _keep(LARGE, fleet(_filled(state="draining"))) is None
    on_disk = replace(LARGE, demand=replace(LARGE.demand, disk_mib=9_000))
    assert _keep(on_disk, fleet(_filled(free_disk_mib=5_000))) is None, "it is no fuller than when empty"


def test_a_kept_runner_takes_its_job_and_jobs_of_a_higher_priority_only() -> None:
    kept = _filled(waiting=True, kept=kept_for(LARGE))
    urgent = replace(SMALL, id=8, order=(-1, NOW_MS, 8), demand=job(memory_mib=4_000).demand)
    assert choose(PlainBoard(fleet(kept), [LARGE, SMALL], NOW_MS), "earth-9").take is None
    assert choose(PlainBoard(fleet(kept), [LARGE, SMALL, urgent], NOW_MS), "earth-9").take == urgent
    empty = emptied(kept)
    assert choose(PlainBoard(fleet(empty), [SMALL, LARGE], NOW_MS), "earth-9").take == LARGE


def test_both_jobs_are_told_what_the_runner_is_kept_for() -> None:
    of = fleet(_filled(kept=kept_for(LARGE)))
    small, large = (explain(one, of, [LARGE, SMALL], NOW_MS) for one in (SMALL, LARGE))
    assert small.headline == "waits: earth-9 is kept for job 1 (waiting 11 min)"
    assert small.kind == large.kind == "busy"
    assert large.headline.endswith("; it is kept for this job")


def test_a_reader_of_one_project_is_not_told_the_job_of_another() -> None:
    other = replace(LARGE, demand=replace(LARGE.demand, project="bea/secret"))
    of = fleet(_filled(kept=kept_for(other)))
    told = explain(SMALL, of, [other, SMALL], NOW_MS, visible={"earth-9"})
    assert told.headline == "waits: earth-9 is kept for another job (waiting 11 min)"
    assert "job 1" not in str(told.runners)


def test_the_older_of_two_large_jobs_has_the_runner() -> None:
    later = replace(LARGE, id=2, order=(0, NOW_MS - 10 * MINUTE_MS, 2), demand=job(memory_mib=23_000).demand)
    assert _keep(LARGE, fleet(_filled(kept=kept_for(later)))) == "earth-9"
    assert _keep(later, fleet(_filled(kept=kept_for(LARGE)))) is None


@given(fleets_of(), queues())
def test_what_is_kept_could_take_its_job_and_then_keeps_no_job_out_for_want_of_words(
    of: Fleet, queue: list[QueuedJob]
) -> None:
    for one in queue:
        old = replace(one, order=(one.order[0], NOW_MS - 20 * MINUTE_MS, one.id))
        name = _keep(old, of)
        if name is None:
            continue
        chosen = of.runners[name]
        assert could_take(old, chosen, of, NOW_MS)
        free = emptied(replace(chosen, standing=replace(chosen.standing, kept=None)))
        assert lacks(old, free, of, NOW_MS) == ()
        kept = replace(chosen, standing=replace(chosen.standing, kept=kept_for(old)))
        of_kept = replace(of, runners={**of.runners, name: kept})
        for other in queue:
            changes = [step for remedy in remedies(other, kept, of_kept, NOW_MS) for step in remedy.change]
            asks, there, then = apply(changes, other, kept, of_kept)
            assert lacks(asks, there, then, NOW_MS) == ()
