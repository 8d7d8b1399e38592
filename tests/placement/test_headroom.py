"""What is left on a runner, beyond the figures of the table."""

from typing import Any

from hub.placement.headroom import Headroom, headroom
from hub.placement.model import Placed, Sandbox, Settings
from tests.fleets import runner


def _room(**said: Any) -> Headroom:
    return headroom(runner(**said), Settings())


def test_what_was_never_reported_is_unknown_and_not_nothing() -> None:
    room = _room(max_jobs=2)
    assert (room.free_memory_mib, room.used_mib, room.free_cpus, room.free_disk_mib) == (None,) * 4
    assert room.free_slots == 2
    assert headroom(runner(polled_s_ago=None), Settings()).free_slots == 0


def test_a_parked_sandbox_holds_its_memory_and_no_slot() -> None:
    parked = Sandbox(job=5, state="parked", memory_mib=8192, cpus=4)
    room = _room(memory_mib=31757, cpus=8, max_jobs=2, live=(parked,))
    assert room.committed_mib == 8192
    assert room.free_memory_mib == 31757 - 4096 - 8192 - 2048
    assert (room.free_slots, room.free_cpus) == (2, 8)


def test_slots_and_cpus_are_counted_once_for_a_job_that_is_placed_and_live() -> None:
    room = _room(
        cpus=8,
        max_jobs=4,
        placed=(Placed(job=1, cpus=2), Placed(job=2, cpus=1)),
        live=(Sandbox(job=1, cpus=2), Sandbox(job=3, state="ending", cpus=1), Sandbox(job=4, state="orphan")),
    )
    assert (room.free_slots, room.free_cpus) == (1, 4)


def test_the_larger_of_what_hub_and_runner_say_of_a_job_counts() -> None:
    room = _room(
        memory_mib=61440,
        placed=(Placed(job=1, memory_mib=2048), Placed(job=2, memory_mib=4096), Placed(job=3)),
        live=(Sandbox(job=1, memory_mib=8192), Sandbox(job=2), Sandbox(job=3)),
    )
    assert (room.committed_mib, room.committed_jobs) == (8192 + 4096, 2)


def test_a_runner_may_state_its_own_reserve() -> None:
    assert _room(memory_mib=4096, reserve_mib=256).free_memory_mib == 4096 - 256 - 2048
    assert _room(memory_mib=4096, reserve_mib=0).free_memory_mib == 2048


def test_a_job_that_took_more_disk_than_it_said_gives_none_to_others() -> None:
    placed = (Placed(job=1, disk_mib=100, disk_taken_mib=900), Placed(job=2, disk_mib=300))
    assert _room(free_disk_mib=1000, placed=placed).free_disk_mib == 700


def test_an_image_that_has_arrived_is_owed_no_more() -> None:
    placed = (Placed(job=1, fetching=(("A", 500), ("B", 70))), Placed(job=2, fetching=(("A", 500),)))
    assert _room(free_disk_mib=1000, placed=placed).free_disk_mib == 430
    assert _room(free_disk_mib=1000, placed=placed, images=["A"]).free_disk_mib == 930
