"""Remedies are true: applied together they make the job fit, none is to spare, nothing less would do."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.dispatch.show import waiting_view
from hub.placement.fit import lacks
from hub.placement.judgement import judge
from hub.placement.model import Decline, Fleet, HubImage, Placed, QueuedJob, Remedy, Runner
from hub.placement.remedy import LOOKED_AT, apply, fewest, remedies
from hub.placement.waiting import explain, reason
from tests.fleets import NOW_MS, fleet, job, runner
from tests.placement.test_lack import LACKING
from tests.placement.test_properties import fleets_of, jobs

Change = tuple[str, object]


def _fits(changes: Sequence[Change], asks: QueuedJob, one: Runner, of: Fleet) -> bool:
    asks, one, of = apply(changes, asks, one, of)
    return not lacks(asks, one, of, NOW_MS)


def _changes(found: Sequence[Remedy]) -> list[Change]:
    return [change for remedy in found for change in remedy.change]


def _without(changes: Sequence[Change], left_out: int) -> list[Change]:
    return [change for number, change in enumerate(changes) if number != left_out]


@st.composite
def poor(draw: st.DrawFn) -> tuple[Fleet, QueuedJob]:
    """A random fleet, and a job that may ask for what nobody has."""
    asks = draw(jobs(1))
    tier = draw(st.sampled_from(["microvm", "microvm", "process"]))
    arch = draw(st.sampled_from([None, "x86_64", "aarch64"]))
    return draw(fleets_of()), replace(asks, demand=replace(asks.demand, tier=tier, arch=arch))


@given(poor())
def test_remedies_applied_together_make_the_job_fit_and_none_is_to_spare(
    given_: tuple[Fleet, QueuedJob],
) -> None:
    of, asks = given_
    for one in of.runners.values():
        changes = _changes(remedies(asks, one, of, NOW_MS))
        assert bool(changes) == bool(lacks(asks, one, of, NOW_MS))
        assert _fits(changes, asks, one, of)
        for number, left_out in enumerate(changes):
            assert not _fits(_without(changes, number), asks, one, of), f"{left_out} is to spare"


@given(poor())
def test_no_smaller_set_of_single_changes_makes_the_job_fit(given_: tuple[Fleet, QueuedJob]) -> None:
    of, asks = given_
    for one in of.runners.values():
        changes = _changes(remedies(asks, one, of, NOW_MS))
        found = lacks(asks, one, of, NOW_MS)
        alone = _changes([lack.remedy for lack in found if lack.remedy is not None])
        candidates = [*changes, *(change for change in alone if change not in changes)]
        if one.offer is not None:
            candidates.append(("job.labels", {"remove": sorted(asks.demand.labels)}))
            candidates.append(("runner.exclusive", {"set": False}))
            candidates.append(("runner.images", {"add": sorted(asks.demand.images)}))
            candidates.append(("runner.fetches_images", {"set": True}))
        for number in range(len(changes)):
            for fewer in combinations(candidates, number):
                assert not _fits(fewer, asks, one, of)


@given(poor(), st.booleans())
def test_nowhere_tells_the_fewest_changes_over_all_runners_that_serve_the_project(
    given_: tuple[Fleet, QueuedJob], hidden: bool
) -> None:
    of, asks = given_
    waiting = explain(asks, of, [asks], NOW_MS, visible=() if hidden else None)
    if waiting.kind != "nowhere":
        assert waiting.mend == ()
        return
    serving = [one for one in judge(asks, of, NOW_MS).verdicts if not one.has("scope")]
    sets = [remedies(asks, one.runner, of, NOW_MS, visible=() if hidden else None) for one in serving]
    assert waiting.mend == min(sets, key=len), "of equals the nearest"
    assert waiting.mend


@pytest.mark.parametrize("name", LACKING)
def test_one_lack_has_one_remedy_that_asks_for_one_change(name: str) -> None:
    _, one, asks = LACKING[name]
    of = fleet(one, images={"H": HubImage(size_mib=800)})
    [found] = remedies(asks, one, of, NOW_MS)
    [lack] = lacks(asks, one, of, NOW_MS)
    assert lack.remedy is not None
    if lack.code in ("memory", "cpus"):  # where nothing is free, the runner is given more
        assert found.change[0][0].partition(".")[2] == lack.remedy.change[0][0].partition(".")[2]
    else:
        assert found.change == lack.remedy.change


def _texts(
    one: Runner, asks: QueuedJob, *others: Runner, images: dict[str, HubImage] | None = None
) -> list[str]:
    of = fleet(one, *others, images=images or {})
    return [remedy.text for remedy in remedies(asks, one, of, NOW_MS)]


def test_a_label_may_be_dropped_only_where_the_job_then_fits() -> None:
    asks = job(labels=["gpu"])
    assert _texts(runner(), asks) == ["add the label gpu to r, or drop the label gpu from the job"]
    kept = runner(labels=["ssd"], exclusive=True)
    assert _texts(kept, asks) == ["add the label gpu to r"]
    assert _texts(kept, job()) == [
        "make the job ask for the label ssd, or let r take jobs that ask for none of its labels"
    ]


def test_a_runner_that_never_polled_must_offer_what_the_job_asks_for() -> None:
    asks = job(labels=["gpu"], images=["H"])
    one = runner(polled_s_ago=None, state="draining")
    assert _texts(one, asks) == [
        "resume r (`shunter runners resume`)",
        "start r, which never polled; it must offer the tier microvm and the label gpu and image H",
    ]


def test_room_is_asked_of_the_job_only_where_any_is_free() -> None:
    busy = runner(memory_mib=16384, cpus=4, placed=(Placed(job=9, memory_mib=8192, cpus=4),), max_jobs=2)
    assert _texts(busy, job(memory_mib=30000, cpus=8)) == [
        "make the job ask for 2048 MiB or less, or give r 27952 MiB more memory,"
        " or make the job ask for 10240 MiB or less and wait until that is free",
        "give r 8 more CPUs, or make the job ask for 4 CPUs and wait until that is free",
    ]
    assert _texts(runner(memory_mib=4096), job(memory_mib=8192)) == ["give r 10240 MiB more memory"]
    assert _texts(busy, job(memory_mib=4096)) == [
        "make the job ask for 2048 MiB or less, or give r 2048 MiB more memory,"
        " or wait until memory is free on r"
    ]


def test_an_image_put_on_a_runner_takes_its_disk() -> None:
    held = {"H": HubImage(size_mib=800)}
    tight = runner(fetches_images=False, free_disk_mib=900)
    assert _texts(tight, job(images=["H"], disk_mib=100), images=held) == [
        "put image H on r, or let r fetch images from the hub"
    ]
    found = remedies(job(images=["H"], disk_mib=101), tight, fleet(tight, images=held), NOW_MS)
    assert _changes(found) == [("runner.images", {"add": ["H"]}), ("runner.free_disk_mib", {"add": 1})]
    assert _texts(tight, job(images=["X"]), images=held) == ["put image X on r"]


def test_an_image_is_not_put_where_its_disk_has_no_room() -> None:
    held = {"H": HubImage(size_mib=800)}
    full = runner(fetches_images=False, free_disk_mib=300)
    asks, of = job(images=["H"]), fleet(full, images=held)
    changes = _changes(remedies(asks, full, of, NOW_MS))
    assert changes == [("runner.images", {"add": ["H"]}), ("runner.free_disk_mib", {"add": 500})]
    assert _fits(changes[::-1], asks, full, of), "in whatever order"
    _, after, _ = apply(changes[:1], asks, full, of)
    assert after == full


def test_an_image_that_a_placed_job_fetches_takes_no_disk_twice() -> None:
    fetching = Placed(job=9, fetching=(("H", 800),))
    one = runner(fetches_images=False, free_disk_mib=900, placed=(fetching,), max_jobs=2)
    of = fleet(one, images={"H": HubImage(size_mib=800)})
    assert _changes(remedies(job(images=["H"], disk_mib=100), one, of, NOW_MS)) == [
        ("runner.images", {"add": ["H"]})
    ]
    more = _changes(remedies(job(images=["H"], disk_mib=101), one, of, NOW_MS))
    assert more == [("runner.images", {"add": ["H"]}), ("runner.free_disk_mib", {"add": 1})]


def test_a_name_that_nearly_matches_is_asked_back() -> None:
    others = [runner(f"r{number}", labels=["linux-x64"]) for number in range(4)]
    [text] = _texts(runner(), job(labels=["linux-x46"]), *others)
    assert text.endswith("; did you mean linux-x64, which 4 runners have?")
    [text] = _texts(runner(), job(labels=["GPU"]), runner("b", labels=["gpu"]))
    assert text.endswith("; did you mean gpu, which 1 runner has?")
    [text] = _texts(runner(tiers=("process",)), job(tier="microvn"), runner("b"))
    assert text == (
        "offer the tier microvn on r, or ask for the tier process in the job;"
        " did you mean microvm, which 1 runner has?"
    )
    [text] = _texts(runner(), job(images=["3f2a9c41d0be"]), runner("b", images=["3f2a9c41d0bf"]))
    assert text.endswith("; did you mean 3f2a9c41d0bf, which 1 runner has?")
    [text] = _texts(runner(), job(labels=["linux-x46", "sdd"]), *others, runner("s", labels=["ssd-disk"]))
    assert text.endswith("; did you mean linux-x64 for linux-x46, which 4 runners have?")


@pytest.mark.parametrize("asked", ["gpu", "arm"])
def test_a_name_that_is_not_near_is_not_asked_back(asked: str) -> None:
    [text] = _texts(runner(), job(labels=[asked]), runner("b", labels=["ssd", "linux-x64"]))
    assert "did you mean" not in text


def test_a_reader_is_neither_told_nor_asked_back_a_name_it_may_not_see() -> None:
    secret = runner("secret", labels=["secret-gpu"])
    asks = job(labels=["secret-gpv"], declines=(Decline(runner="secret", at_ms=NOW_MS - 1, reason="secret"),))
    of = fleet(secret)
    seen = remedies(asks, secret, of, NOW_MS)
    assert "did you mean secret-gpu" in repr(seen)
    told = repr(remedies(asks, secret, of, NOW_MS, visible=()))
    assert "secret" not in told.replace("secret-gpv", "")
    assert "a runner" in told


@pytest.mark.parametrize(("nearer", "changes"), [(LOOKED_AT - 1, 2), (LOOKED_AT, 3)])
def test_the_fewest_changes_are_sought_on_the_nearest_runners_only(nearer: int, changes: int) -> None:
    asks = job(labels=["gpu"])
    never = [
        runner(f"never-{number:02}", state="draining", polled_s_ago=None, placed=1)
        for number in range(nearer)
    ]
    of = fleet(*never, runner("full", placed=1))
    verdicts = judge(asks, of, NOW_MS).verdicts
    assert verdicts[-1].runner.name == "full"
    assert len(fewest(asks, verdicts, of, NOW_MS, None)) == changes
    assert fewest(asks, (), of, NOW_MS, None) == ()


def test_the_fewest_changes_are_counted_and_not_the_lacks_seen_at_first() -> None:
    asks = job(labels=["gpu"])
    never = runner("never", state="draining", polled_s_ago=None, placed=1)  # full, too, once it polls
    of = fleet(never, runner("full", placed=1))
    verdicts = judge(asks, of, NOW_MS).verdicts
    assert [(one.runner.name, len(one.lacks)) for one in verdicts] == [("never", 2), ("full", 2)]
    assert [key for key, _ in _changes(fewest(asks, verdicts, of, NOW_MS, None))] == [
        "runner.labels",
        "runner.max_jobs",
    ]


def test_a_mend_travels_and_is_not_worked_out_unasked() -> None:
    asks, of = job(labels=["gpu"]), fleet(runner())
    shown = waiting_view(explain(asks, of, [asks], NOW_MS))
    assert [(one.text, one.change) for one in shown.mend] == [
        ("add the label gpu to r, or drop the label gpu from the job", {"runner.labels": {"add": ["gpu"]}})
    ]
    assert reason(asks, judge(asks, of, NOW_MS)).mend == ()


def test_a_change_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="no such change"):
        apply([("weather.rain", {"set": True})], job(), runner(), fleet())


def test_what_is_applied_stands_in_the_fleet_too() -> None:
    one = runner()
    _, after, of = apply([("runner.labels", {"add": ["gpu"]})], job(), one, fleet(one))
    assert of.runners["r"] is after
    assert after.offer is not None
    assert after.offer.labels == {"gpu"}
