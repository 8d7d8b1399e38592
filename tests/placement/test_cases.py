"""Every case of `tests/cases/placement.yaml`: facts in, right answer out, one test per case."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, offer
from hub.placement.fit import lacks, with_jobs
from hub.placement.headroom import headroom
from hub.placement.model import Decline, Fleet, HubImage, Placed, QueuedJob, Runner, Sandbox
from hub.placement.need import disk_need
from hub.placement.placed import placed_sentence
from hub.placement.waiting import explain
from tests import fleets
from tests.fleets import NOW_MS

CASES = yaml.safe_load((Path(__file__).parent.parent / "cases" / "placement.yaml").read_text())


def _runner(name: str, said: dict[str, Any]) -> Runner:
    said = dict(said)
    said |= said.pop("facts", {})
    said |= said.pop("scope", {})
    if "tiers" in said:
        said["tiers"] = tuple(said["tiers"])
    said["placed"] = tuple(Placed(**one) for one in said.get("placed", ()))
    said["live"] = tuple(Sandbox(**one) for one in said.pop("running", ()))
    return fleets.runner(name, **said)


def _job(asked: dict[str, Any]) -> QueuedJob:
    asked = dict(asked)
    if "image" in asked:
        asked["images"] = [asked.pop("image")]
    if (held_s := asked.pop("held_s_ago", None)) is not None:
        asked["held_since_ms"] = NOW_MS - held_s * 1000
    if (usual_s := asked.pop("usual_s", None)) is not None:
        asked["usual_ms"] = usual_s * 1000
    if (peaks := asked.pop("recent_peaks_disk_mib", None)) is not None:
        need = disk_need(peaks, asked.get("disk_mib"))
        asked |= {"disk_mib": need.disk_mib, "disk_peak_mib": need.disk_peak_mib}
    asked["declines"] = tuple(
        Decline(runner=one["runner"], at_ms=NOW_MS - one["s_ago"] * 1000, reason=one["reason"])
        for one in asked.pop("declines", ())
    )
    return fleets.job(asked.pop("id"), **asked)


def _fleet(case: dict[str, Any]) -> Fleet:
    images = {image: HubImage() for image in case.get("hub_images", ())}
    images |= {image: HubImage(arch=arch) for image, arch in case.get("image_archs", {}).items()}
    return fleets.fleet(*(_runner(*one) for one in case["runners"].items()), images=images)


def _claim(board: PlainBoard, name: str) -> dict[str, Any]:
    plan = choose(board, name)
    answer: dict[str, Any] = {
        "takes": plan.take.id if plan.take else None,
        "held": {hold.job: hold.awaited for hold in plan.holds},
    }
    if plan.take is not None:
        answer["placed"] = placed_sentence(plan.take, board.fleet.runners[name], board.fleet, NOW_MS)
    return answer


def _room(fleet: Fleet, name: str) -> dict[str, Any]:
    """Place jobs of 8192 MiB until one lacks something; it must be memory, or the case says nothing."""
    runner = fleet.runners[name]
    room = headroom(runner, fleet.settings)
    answer = {"free_memory_mib": room.free_memory_mib, "used_mib": room.used_mib}
    number = 0
    while not (found := lacks(fleets.job(memory_mib=8192), runner, fleet, NOW_MS)):
        number += 1
        runner = with_jobs(runner, [fleets.job(100 + number, memory_mib=8192)], fleet)
    assert [lack.code for lack in found] == ["memory"]
    return answer | {"jobs_8192": number}


def _answer(case: dict[str, Any]) -> dict[str, Any]:
    fleet = _fleet(case)
    jobs = [_job(one) for one in case.get("jobs", ())]
    by_id = {one.id: one for one in jobs}
    board = PlainBoard(fleet, jobs, NOW_MS)
    [(question, about)] = case["ask"].items()
    match question:
        case "claim":
            return _claim(board, about)
        case "ready":
            return {"gives_to": offer(board, by_id[about]).runner}
        case "lacks":
            number, name = about
            asked = by_id[number]
            found = lacks(asked, fleet.runners[name], fleet, NOW_MS)
            return {"codes": [lack.code for lack in found], "texts": [lack.text for lack in found]}
        case "waiting":
            waiting = explain(by_id[about], fleet, jobs, NOW_MS)
            return {"kind": waiting.kind, "headline": waiting.headline}
        case "room":
            return _room(fleet, about)
    raise AssertionError(f"no such question: {question}")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    answer = _answer(case)
    assert {key: answer[key] for key in case["expect"]} == case["expect"]


def test_no_case_was_lost() -> None:
    names = [case["name"] for case in CASES]
    assert len(names) == len(set(names)) == 50
