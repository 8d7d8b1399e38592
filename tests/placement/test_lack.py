"""Each lack's words and remedy: the change of a lack mends it, which is tried and not believed."""

from dataclasses import replace
from typing import Any

import pytest

from hub.placement.fit import lacks
from hub.placement.lack import ORDER, distance, said_of_many
from hub.placement.model import Decline, Fleet, HubImage, Placed, QueuedJob, Runner, Settings
from tests.fleets import NOW_MS, fleet, job, runner

PLACED = (Placed(job=9, memory_mib=8192, cpus=3),)
LACKING: dict[str, tuple[str, Runner, QueuedJob]] = {
    "draining": ("is draining", runner(state="draining"), job()),
    "quarantined": (
        "is quarantined: its disk is full",
        runner(state="quarantined", state_reason="its disk is full"),
        job(),
    ),
    "silent": ("has not been heard from for 31 s (30 s at most)", runner(polled_s_ago=30.001), job()),
    "silent for long": ("has not been heard from for 2 h (30 s at most)", runner(polled_s_ago=7300), job()),
    "scope of an owner": ("serves other repositories", runner(owner="bea"), job()),
    "scope of a project": ("serves other repositories", runner(project="andy/other"), job()),
    "tier": ("has no microvm tier (it offers process)", runner(tiers=("process",)), job()),
    "arch": ("is aarch64; the job needs x86_64", runner(arch="aarch64"), job(arch="x86_64")),
    "image": (
        "does not hold images 0a1b2c3d4e5f, B (nor does the hub: send them with `shunter image push`)",
        runner(),
        job(images=["B", "0a1b2c3d4e5f6789"]),
    ),
    "image on a runner that does not fetch": (
        "does not hold image H",
        runner(fetches_images=False),
        job(images=["H"]),
    ),
    "label": ("lacks labels gpu, ssd", runner(labels=["x"]), job(labels=["gpu", "ssd", "x"])),
    "exclusive": (
        "takes only jobs that ask for one of the labels a, b; this job asks for none",
        runner(labels=["b", "a"], exclusive=True),
        job(),
    ),
    "exclusive without a label": (
        "takes only jobs that ask for one of its labels; it has none",
        runner(exclusive=True),
        job(),
    ),
    "memory never": ("has 4096 MiB; the job needs 8192 MiB", runner(memory_mib=4096), job(memory_mib=8192)),
    "memory never, for the reserve": (
        "can give jobs 10240 MiB of its 16384 MiB; the job needs 12000 MiB",
        runner(memory_mib=16384),
        job(memory_mib=12000),
    ),
    "memory now": (
        "has 2048 MiB free of 16384 MiB (1 job holds 8192 MiB); the job needs 4096 MiB",
        runner(memory_mib=16384, placed=PLACED, max_jobs=2),
        job(memory_mib=4096),
    ),
    "cpus never": ("has 1 CPU; the job needs 8", runner(cpus=1), job(cpus=8)),
    "cpus now": (
        "has 1 CPU free of 4; the job needs 2",
        runner(cpus=4, placed=PLACED, max_jobs=2),
        job(cpus=2),
    ),
    "disk": ("has 512 MiB free; the job needs 2.0 GiB", runner(free_disk_mib=512), job(disk_mib=2048)),
    "disk that differs by little": (
        "has 30720 MiB free; the job needs 30721 MiB",
        runner(free_disk_mib=30720),
        job(disk_mib=30721),
    ),
    "disk for an image of a job that asks for none": (
        "has 512 MiB free; the job needs 800 MiB (800 MiB of it for images to fetch)",
        runner(free_disk_mib=512),
        job(images=["H"]),
    ),
    "declined": (
        "declined it: no space left",
        runner(),
        job(declines=(Decline(runner="r", at_ms=NOW_MS - 1000, reason="no space left"),)),
    ),
    "slots": ("runs 2 of 2 jobs", runner(max_jobs=2, placed=2), job()),
    "slots, over-committed": ("runs 3 of 2 jobs", runner(max_jobs=2, placed=3), job()),
}
PASSING = {"silent", "disk", "declined", "slots", "memory now", "cpus now"}


def _fleet(one: Runner) -> Fleet:
    return fleet(one, images={"H": HubImage(size_mib=800)})


def _change(of: Fleet, asks: QueuedJob, key: str, change: Any) -> tuple[Fleet, QueuedJob]:
    """Apply a remedy's value to the runner `r`, the job or the hub."""
    what, field = key.split(".")
    one = of.runners["r"]
    holder: Any
    if what == "hub":
        return replace(of, images={**of.images, **{image: HubImage() for image in change["add"]}}), asks
    if key == "runner.scope":
        one = replace(
            one, standing=replace(one.standing, **({"owner": None, "project": None} | change["set"]))
        )
    elif key == "job.declines":
        kept = tuple(decline for decline in asks.declines if decline.runner not in change["remove"])
        asks = replace(asks, declines=kept)
    else:
        holder = asks.demand if what == "job" else one.standing if hasattr(one.standing, field) else one.offer
        old = getattr(holder, field)
        if "set" in change:
            new = change["set"]
        else:
            new = old + change["add"] if isinstance(old, int) else type(old)((*old, *change["add"]))
        holder = replace(holder, **{field: new})
        if what == "job":
            asks = replace(asks, demand=holder)
        elif hasattr(one.standing, field):
            one = replace(one, standing=holder)
        else:
            one = replace(one, offer=holder)
    return replace(of, runners={"r": one}), asks


@pytest.mark.parametrize("name", LACKING)
def test_a_lack_has_its_sentence(name: str) -> None:
    text, one, asks = LACKING[name]
    [found] = lacks(asks, one, _fleet(one), NOW_MS)
    assert found.text == text
    assert found.code in ORDER
    assert found.lasting == (name not in PASSING and found.code not in PASSING)


@pytest.mark.parametrize("name", LACKING)
def test_a_remedy_mends_its_lack(name: str) -> None:
    _, one, asks = LACKING[name]
    of = _fleet(one)
    [found] = lacks(asks, one, of, NOW_MS)
    assert found.remedy is not None
    for key, change in found.remedy.change:
        of, asks = _change(of, asks, key, change)
    assert lacks(asks, of.runners["r"], of, NOW_MS) == ()


def test_a_runner_that_never_polled_lacks_only_what_is_known_of_it() -> None:
    one = runner(polled_s_ago=None, owner="bea", state="draining")
    found = lacks(job(labels=["gpu"]), one, fleet(one), NOW_MS)
    assert [lack.text for lack in found] == ["is draining", "never polled", "serves other repositories"]


def test_a_limit_that_is_just_kept_is_kept() -> None:
    assert lacks(job(), runner(polled_s_ago=30), _fleet(runner()), NOW_MS) == ()
    exact = runner(memory_mib=8192 + 4096 + 2048, cpus=2, free_disk_mib=100)
    assert lacks(job(memory_mib=8192, cpus=2, disk_mib=100), exact, _fleet(exact), NOW_MS) == ()


def test_a_runner_in_an_open_claim_is_not_silent_however_long_ago_it_sent_anything() -> None:
    one = runner(polled_s_ago=49, waiting=True)
    assert lacks(job(), one, fleet(one), NOW_MS) == ()


def test_the_constants_are_settings_of_the_hub() -> None:
    one = runner(memory_mib=4096, polled_s_ago=4)
    small = Settings(reserve_mib=0, baseline_mib=96, silent_ms=5000)
    assert lacks(job(memory_mib=4000), one, fleet(one, settings=small), NOW_MS) == ()
    strict = replace(small, baseline_mib=97, silent_ms=3000)
    found = lacks(job(memory_mib=4000), one, fleet(one, settings=strict), NOW_MS)
    assert [lack.code for lack in found] == ["silent", "memory"]


def test_a_long_list_is_counted() -> None:
    one = runner()
    [found] = lacks(job(labels=list("abcdefgh")), one, fleet(one), NOW_MS)
    assert found.text == "lacks labels a, b, c, d, e and 3 more"
    assert found.remedy is not None
    assert found.remedy.change == (("runner.labels", {"add": list("abcdefgh")}),)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("lacks label gpu", "lack label gpu"),
        ("has no microvm tier (it offers process)", "have no microvm tier (they offer process)"),
        ("does not hold image A", "do not hold image A"),
        ("can give jobs 1 MiB", "can give jobs 1 MiB"),
    ],
)
def test_a_sentence_can_be_said_of_many(one: str, many: str) -> None:
    assert said_of_many(one) == many


def test_a_draining_runner_is_nearer_than_one_that_lacks_something_but_not_than_fewer_changes() -> None:
    def far(*names: str) -> tuple[int, int, int]:
        found = [
            lack
            for name in names
            for lack in lacks(LACKING[name][2], LACKING[name][1], _fleet(LACKING[name][1]), NOW_MS)
        ]
        return distance(found)

    assert far() < far("slots") < far("draining") < far("label") < far("label", "slots")
    assert far("label") < far("label", "draining") < far("label", "tier")
