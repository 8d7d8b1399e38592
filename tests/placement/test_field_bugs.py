"""Failures that users of comparable systems met, as far as they are a matter of pure placement."""

from dataclasses import replace
from typing import Any

import pytest

from hub.placement.board import PlainBoard
from hub.placement.choose import choose
from hub.placement.fit import lacks, with_jobs
from hub.placement.headroom import headroom
from hub.placement.model import Fleet, HubImage, Placed, QueuedJob, Runner, Sandbox
from hub.placement.placed import placed_sentence
from hub.placement.waiting import explain, reason
from tests.fleets import NOW_MS, fleet, job, runner
from tests.placement.virtual import VirtualHub


def _texts(one: QueuedJob, of: Fleet, name: str = "r") -> list[str]:
    return [lack.text for lack in lacks(one, of.runners[name], of, NOW_MS)]


# B14: a wait for a better place idles the fleet, or is started again


def test_ten_jobs_are_not_held_for_the_one_slot_of_the_runner_that_holds_the_image() -> None:
    others = [runner(f"a{number}") for number in range(1, 6)]
    hub = VirtualHub(fleet(runner("b", images=["A"]), *others, images=["A"]))
    for number in range(1, 11):
        hub.ready(job(number, images=["A"]))
    for name in ("b", "a1", "a2", "a3", "a4", "a5"):
        hub.poll(name)
    assert {number: name for number, (name, _) in hub.placed.items()} == {
        1: "b", 2: "a1", 3: "a2", 4: "a3", 5: "a4", 6: "a5",
    }  # fmt: skip
    assert hub.first_pass == {}, "b is full: nobody is held for it"


def test_the_clock_of_a_hold_runs_on_while_the_better_runner_comes_and_goes() -> None:
    hub = VirtualHub(fleet(runner("b", images=["A"]), runner("a"), images=["A"]))
    hub.ready(job(1, images=["A"]))
    hub.poll("a")
    assert hub.placed == {}
    hub.wait(14_000)  # b has not polled for longer than counts as there, and comes back
    b = hub.fleet.runners["b"]
    back = replace(b, standing=replace(b.standing, polled_ms=hub.now_ms))
    hub.fleet = replace(hub.fleet, runners={**hub.fleet.runners, "b": back})
    hub.poll("a")
    assert hub.placed == {}, "one second of the hold is left"
    hub.wait(1000)
    assert hub.placed == {1: ("a", NOW_MS + 15_000)}


# B18: one word for "be patient" and for "never"


def _why(one: QueuedJob, *runners: Runner, needs: tuple[str, ...] = ()) -> str:
    return explain(one, fleet(*runners, images=["A"]), [one], NOW_MS, needs=needs).headline


def test_eight_situations_give_eight_sentences_each_with_its_own_next_step() -> None:
    asks = job(7, labels=["gpu"], images=["A"])
    held = replace(asks, held_for="g", held_since_ms=NOW_MS)
    g = runner("g", labels=["gpu"], images=["A"])
    full = runner("g", labels=["gpu"], placed=1)
    away = runner("g", labels=["gpu"], polled_s_ago=40)
    draining = runner("g", labels=["gpu"], state="draining")
    others = (runner("a"), runner("b"))
    assert {
        "no runner": _why(asks),
        "none has the label": _why(asks, *others),
        "full": _why(asks, *others, full),
        "not polling": _why(asks, *others, away),
        "needs": _why(asks, g, needs=("J6",)),
        "held": _why(held, g),
        "only a draining one has it": _why(asks, *others, draining),
        "unreadable": reason(asks, None).headline,
    } == {
        "no runner": "no runner serves andy/demo",
        "none has the label": "no runner can take it: 2 runners, all lack label gpu",
        "full": "waits for room: g runs 1 of 1 jobs",
        "not polling": "cannot tell: 1 of 1 runner that could take it was not heard from"
        " (this is not a full fleet: check the runners)",
        "needs": "waits for J6",
        "held": "held for g (holds the image), 15 s left",
        "only a draining one has it": "no runner can take it: 3 runners; nearest is g, which is draining:"
        " resume the runner (`shunter runners resume`)",
        "unreadable": "cannot tell: the runners could not be read (this is not a full fleet: ask again)",
    }


# B20: the reason hides the constraint that was not asked for


def test_a_runner_kept_for_a_label_says_so_to_a_job_that_asks_for_none() -> None:
    of = fleet(runner(labels=["a"], exclusive=True))
    assert _texts(job(), of) == ["takes only jobs that ask for label a; this job asks for none"]
    assert _texts(job(labels=["a"]), of) == []
    assert _texts(job(labels=["b"]), of) == ["lacks label b"]


# B25: room is free when the resource is back; the union of what hub and runner believe


def test_a_job_that_finished_holds_its_memory_until_its_sandbox_is_gone() -> None:
    ending = Sandbox(job=1, state="ending", memory_mib=4096)
    working = Sandbox(job=2, memory_mib=4096)
    placed = (Placed(job=2, memory_mib=4096),)
    said: dict[str, Any] = {
        "memory_mib": 12288,
        "reserve_mib": 0,
        "max_jobs": 3,
        "memory_used_mib": 6000,
        "placed": placed,
    }
    both = runner(live=(ending, working), **said)
    assert headroom(both, fleet().settings).committed_mib == 8192
    assert _texts(job(memory_mib=4096), fleet(both)) == [
        "has 2048 MiB free of 12288 MiB (2 jobs hold 8192 MiB); the job needs 4096 MiB"
    ]
    assert _texts(job(memory_mib=4096), fleet(runner(live=(working,), **said))) == []


# B26: both figures are shown


@pytest.mark.parametrize(
    ("observed_mib", "jobs", "text"),
    [
        (2867, [2134, 2133, 2133], "has 0 MiB free of 6963 MiB (3 jobs hold 6400 MiB)"),
        (6500, [1000], "has 0 MiB free of 6963 MiB (6500 MiB are in use, 1 job holds 1000 MiB)"),
        (6500, [], "has 0 MiB free of 6963 MiB (6500 MiB are in use)"),
    ],
)
def test_a_runner_without_memory_says_who_has_it(observed_mib: int, jobs: list[int], text: str) -> None:
    placed = tuple(Placed(job=10 + number, memory_mib=mib) for number, mib in enumerate(jobs))
    one = runner(memory_mib=6963, reserve_mib=512, memory_used_mib=observed_mib, placed=placed, max_jobs=9)
    assert _texts(job(memory_mib=1024), fleet(one)) == [f"{text}; the job needs 1024 MiB"]


# B28: disk counted twice


def test_what_a_job_has_written_is_not_charged_again() -> None:
    placed = (Placed(job=1, disk_mib=20480, disk_taken_mib=15360),)
    one = runner(free_disk_mib=35840, placed=placed, max_jobs=3)
    assert headroom(one, fleet().settings).free_disk_mib == 30720
    unknown = runner(free_disk_mib=35840, placed=(Placed(job=1, disk_mib=20480),), max_jobs=3)
    assert headroom(unknown, fleet().settings).free_disk_mib == 15360


def test_an_image_to_fetch_takes_disk_and_two_jobs_fetch_it_once() -> None:
    one = runner(free_disk_mib=35000, max_jobs=3)
    of = fleet(one, images={"A": HubImage(size_mib=9216)})
    first, second = job(1, images=["A"], disk_mib=12000), job(2, images=["A"], disk_mib=13784)
    assert _texts(job(3, images=["A"], disk_mib=25785), of) == [
        "has 35000 MiB free; the job needs 35001 MiB (9.0 GiB of it for images to fetch)"
    ]
    later = with_jobs(one, [first], of)
    assert lacks(second, later, of, NOW_MS) == ()
    larger = job(4, images=["A"], disk_mib=13785)
    assert [lack.code for lack in lacks(larger, later, of, NOW_MS)] == ["disk"]


# B30: the place that has the data gets all the work


def test_a_burst_spreads_as_fast_as_the_holder_of_its_image_fills() -> None:
    holder = runner("h", images=["A"], max_jobs=4, placed=3, load1=9.0)
    hub = VirtualHub(fleet(holder, runner("a", max_jobs=4), runner("b", max_jobs=4), images=["A"]))
    for name in ("h", "a", "b"):
        hub.poll(name)
    for number in range(1, 13):
        hub.ready(job(number, images=["A"]))
        for name in ("a", "b"):
            hub.poll(name)
    on = [name for name, _ in hub.placed.values()]
    assert {name: on.count(name) for name in ("h", "a", "b")} == {"h": 1, "a": 4, "b": 4}
    assert hub.first_pass == {}
    assert [when for _, when in hub.placed.values()] == [NOW_MS] * 9


def test_a_job_that_could_not_wait_for_the_holder_says_that_it_fetches() -> None:
    of = fleet(runner("h", images=["A"], placed=1), runner("a", waiting=True), images=["A"])
    plan = choose(PlainBoard(of, [job(1, images=["A"])], NOW_MS), "a")
    assert plan.take is not None
    assert placed_sentence(plan.take, of.runners["a"], of, NOW_MS) == "fetches the image from the hub, idle"
