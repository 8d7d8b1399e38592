"""A foreign judge: HTCondor's ClassAd matcher and our rule say the same of 100,000 random pairs.

The rules of fit are written once more here, as the two requirements of a ClassAd match, from the
design's words and not from the code: what a job asks of a machine, and what a machine asks of a job.
HTCondor's own library judges them. Left out is what only we have: declines, live sandboxes, images
that are being fetched already, and what a runner knows of an image's architecture.
"""

import sys
from collections import Counter
from random import Random
from typing import Any

import pytest

from hub.placement.fit import lacks
from hub.placement.model import Fleet, HubImage, Placed, QueuedJob, Runner
from tests import fleets
from tests.fleets import NOW_MS

classad2: Any = pytest.importorskip("classad2", reason="comes with htcondor, which has wheels for Linux only")

PAIRS = 100_000
POOL = 1500  # different jobs, and different machines
HUB = {
    "a": HubImage(size_mib=800, arch="x86_64"),
    "b": HubImage(size_mib=6000),
    "c": HubImage(arch="aarch64"),
}
IMAGES = ("a", "b", "c", "d")  # the hub lacks d
LABELS = ("gpu", "ssd", "kvm")

# What the machine has left, in ClassAd's words (placement.md, "Headroom").
HEADROOM = """
    committed = sum(placed_memory);
    base = size(placed_memory) == 1 ? max({observed, 2048}) : max({observed - committed, remembered, 2048});
    free_memory = memory - max({observed, committed + base}) - reserve;
    free_cpus = cpus - sum(placed_cpus);
    free_disk = disk - sum(placed_disk);
"""
SAME_ARCH = "({0} =?= undefined || TARGET.arch =?= undefined || {0} =?= TARGET.arch)"
ROOM = "(TARGET.{has} =?= undefined || MY.{need} <= TARGET.{free})"


def _random_runner(dice: Random, number: int) -> Runner:
    placed = tuple(
        Placed(
            job=number * 10 + one,
            memory_mib=dice.choice([None, 1024, 8192]),
            cpus=dice.choice([None, 1, 2]),
            disk_mib=dice.choice([None, 2000]),
            disk_taken_mib=dice.choice([None, 500, 3000]),
        )
        for one in range(dice.choice([0, 0, 1, 2]))
    )
    return fleets.runner(
        f"r{number}",
        tiers=dice.choice([("process", "microvm"), ("process", "namespace", "microvm"), ("process",)]),
        arch=dice.choice(["x86_64", "x86_64", None, "aarch64"]),
        labels=dice.sample(LABELS, dice.choice([0, 1, 2, 3])),
        exclusive=dice.random() < 0.15,
        images=dice.sample(IMAGES, dice.choice([0, 1, 2, 4])),
        fetches_images=dice.random() < 0.7,
        max_jobs=dice.choice([1, 2, 3, 4]),
        cpus=dice.choice([None, 4, 8, 16]),
        memory_mib=dice.choice([None, 8192, 16384, 31757, 61440]),
        reserve_mib=dice.choice([None, None, 0, 512]),
        memory_used_mib=dice.choice([None, 1500, 3000, 6000]),
        idle_memory_mib=dice.choice([None, 4000]),
        free_disk_mib=dice.choice([None, 500, 3000, 9000, 50000]),
        state=dice.choice(["active"] * 7 + ["draining", "quarantined"]),
        owner=dice.choice([None, None, None, "andy", "bea"]),
        project=dice.choice([None, None, None, "andy/demo", "andy/other"]),
        polled_s_ago=dice.choice([1, 9, 29, 30, 31, 90]),
        waiting=dice.random() < 0.5,
        placed=placed,
    )


def _random_job(dice: Random, number: int) -> QueuedJob:
    return fleets.job(
        number,
        project=dice.choice(["andy/demo", "andy/demo", "bea/tool"]),
        tier=dice.choice(["process", "microvm", "microvm", "namespace"]),
        arch=dice.choice([None, None, "x86_64", "aarch64"]),
        images=dice.sample(IMAGES, dice.choice([0, 1, 1, 2])),
        labels=dice.sample(LABELS, dice.choice([0, 0, 1, 2])),
        memory_mib=dice.choice([None, 1024, 4096, 8192, 10240, 30000]),  # 10240: all that 16384 can give
        cpus=dice.choice([None, 1, 4, 9]),
        disk_mib=dice.choice([None, 1000, 3000, 10000]),
    )


def _text(value: object) -> str:
    """A value as ClassAd writes it."""
    if value is None:
        return "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, frozenset | tuple | list):
        return "{" + ", ".join(_text(one) for one in value) + "}"
    return str(value)


def _ad(requirements: list[str], computed: str = "", **attributes: object) -> Any:
    lines = "".join(f"{name} = {_text(value)};" for name, value in attributes.items())
    return classad2.ClassAd(f"[{lines}{computed} requirements = {' && '.join(requirements) or 'true'};]")


def _machine(runner: Runner) -> Any:
    offer, standing = runner.offer, runner.standing
    assert offer is not None
    assert standing.heard_ms is not None
    takes = [
        'MY.state =?= "active"',
        "(MY.waiting || MY.unheard_ms <= 30000)",
        "(MY.owner =?= undefined || MY.owner =?= TARGET.owner)",
        "(MY.project =?= undefined || MY.project =?= TARGET.project)",
        "MY.running < MY.most_jobs",
    ]
    if offer.exclusive:
        takes.append(
            "(false" + "".join(f" || member({_text(one)}, TARGET.wants)" for one in offer.labels) + ")"
        )
    placed = standing.placed
    hub = {f"hub_{name}": True for name in HUB}
    hub_archs = {f"arch_{name}": held.arch for name, held in HUB.items()}
    hub_sizes = {f"size_{name}": held.size_mib for name, held in HUB.items() if held.size_mib is not None}
    return _ad(
        takes,
        HEADROOM,
        state=standing.state,
        waiting=standing.waiting,
        unheard_ms=NOW_MS - standing.heard_ms,
        owner=standing.owner,
        project=standing.project,
        running=len(placed),
        most_jobs=offer.max_jobs,
        tiers=offer.tiers,
        arch=offer.arch,
        labels=offer.labels,
        images=offer.images,
        fetches=offer.fetches_images,
        cpus=offer.cpus,
        memory=offer.memory_mib,
        reserve=4096 if offer.reserve_mib is None else offer.reserve_mib,
        observed=offer.memory_used_mib or 0,
        remembered=standing.idle_memory_mib or 0,
        disk=offer.free_disk_mib,
        placed_memory=[0, *(one.memory_mib or 0 for one in placed)],  # a list that is never empty
        placed_cpus=[0, *(one.cpus or 0 for one in placed)],
        placed_disk=[0, *(max(0, (one.disk_mib or 0) - (one.disk_taken_mib or 0)) for one in placed)],
        **hub,
        **hub_archs,
        **hub_sizes,
    )


def _wish(job: QueuedJob) -> Any:
    demand = job.demand
    asks = ["member(MY.tier, TARGET.tiers)"]
    asks += [f"member({_text(label)}, TARGET.labels)" for label in sorted(demand.labels)]
    if demand.arch is not None:
        asks.append(SAME_ARCH.format("MY.arch"))
    for name in sorted(demand.images):
        fetched = f"(TARGET.fetches && TARGET.hub_{name} =?= true)"
        asks.append(f"(member({_text(name)}, TARGET.images) || {fetched})")
        if demand.arch is None:
            asks.append(SAME_ARCH.format(f"TARGET.arch_{name}"))
    if demand.memory_mib is not None:
        asks.append(ROOM.format(has="memory", need="memory", free="free_memory"))
    if demand.cpus is not None:
        asks.append(ROOM.format(has="cpus", need="cpus", free="free_cpus"))
    fetching = [
        f"(member({_text(name)}, TARGET.images) || TARGET.size_{name} =?= undefined ? 0 : TARGET.size_{name})"
        for name in sorted(demand.images)
    ]
    needs = " + ".join([str(demand.disk_mib or 0), *fetching])
    asks.append(f"(TARGET.disk =?= undefined || {needs} == 0 || {needs} <= TARGET.free_disk)")
    return _ad(
        asks,
        project=demand.project,
        owner=demand.project.partition("/")[0],
        wants=demand.labels,
        tier=demand.tier,
        arch=demand.arch,
        memory=demand.memory_mib,
        cpus=demand.cpus,
    )


def test_condor_matches_exactly_the_pairs_that_fit() -> None:
    dice = Random(8192)
    runners = [_random_runner(dice, number) for number in range(POOL)]
    jobs = [_random_job(dice, number) for number in range(POOL)]
    machines, wishes = [_machine(one) for one in runners], [_wish(one) for one in jobs]
    of = Fleet(runners={one.name: one for one in runners}, images=HUB)
    alone: Counter[str] = Counter()
    fitting = 0
    for _ in range(PAIRS):
        asked, there = dice.randrange(POOL), dice.randrange(POOL)
        found = lacks(jobs[asked], runners[there], of, NOW_MS)
        matched = wishes[asked].symmetricMatch(machines[there])
        assert matched == (not found), f"condor: {matched}; {jobs[asked]} on {runners[there]} lacks {found}"
        fitting += matched
        if len(found) == 1:
            alone[f"{found[0].code} {'lasting' if found[0].lasting else 'passing'}"] += 1
    print(
        f"{PAIRS} pairs, {fitting} fit; one lack alone decided: {dict(alone.most_common())}", file=sys.stderr
    )
    assert fitting > PAIRS // 200
    assert min(alone.values()) > 20, "each rule has decided by itself, often enough to be seen wrong"
    assert {one.split()[0] for one in alone} == {
        *("quarantined", "draining", "silent", "scope", "tier", "arch", "image"),
        *("label", "memory", "cpus", "disk", "slots"),
    }
