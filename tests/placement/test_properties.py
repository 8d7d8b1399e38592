"""What holds on every fleet: found by search, on small random fleets."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, offer
from hub.placement.fit import first_lack, lacks, shape, shape_lacks, with_jobs
from hub.placement.headroom import headroom
from hub.placement.lack import ORDER
from hub.placement.model import Decline, Fleet, HubImage, Kept, Placed, QueuedJob, Runner, Sandbox, Wish
from hub.placement.placed import compare
from hub.placement.preview import preview
from hub.placement.rank import is_there
from hub.placement.turn import holding, in_turn
from hub.placement.waiting import explain, judge
from tests import fleets
from tests.fleets import NOW_MS
from tests.placement.virtual import VirtualHub

NAMES = ("a", "b", "c", "d")
IMAGES = ("A", "B")
KEPT = Kept(job=800, demand=fleets.job(memory_mib=30000).demand, priority=0, queued_ms=NOW_MS - 700_000)


@st.composite
def runners(draw: st.DrawFn, name: str) -> Runner:
    """A runner that may lack anything, and often lacks nothing."""
    placed = tuple(
        Placed(
            job=900 + number,
            owner=draw(st.sampled_from([None, "andy", "bea", "bea"])),
            memory_mib=draw(st.sampled_from([None, 1024, 8192])),
            cpus=draw(st.sampled_from([None, 1])),
            disk_mib=draw(st.sampled_from([None, 2000])),
            disk_taken_mib=draw(st.sampled_from([None, 500, 3000])),
        )
        for number in range(draw(st.sampled_from([0, 0, 1, 2])))
    )
    live = (Sandbox(job=901, state=draw(st.sampled_from(["running", "parked"])), memory_mib=4096),)
    return fleets.runner(
        name,
        arch=draw(st.sampled_from(["x86_64", "x86_64", None, "aarch64"])),
        labels=draw(st.sampled_from([(), ("ssd",)])),
        exclusive=draw(st.sampled_from([False, False, False, True])),
        images=draw(st.frozensets(st.sampled_from(IMAGES))),
        fetching=draw(st.frozensets(st.sampled_from(IMAGES))),
        fetches_images=draw(st.sampled_from([True, True, False])),
        max_jobs=draw(st.integers(1, 3)),
        cpus=draw(st.sampled_from([None, 2, 8])),
        memory_mib=draw(st.sampled_from([None, 8192, 31757])),
        memory_used_mib=draw(st.sampled_from([None, 3000, 12000])),
        idle_memory_mib=draw(st.sampled_from([None, 4000])),
        free_disk_mib=draw(st.sampled_from([None, 3000, 50000])),
        speed_class=draw(st.sampled_from([None, 2, 5])),
        load1=draw(st.sampled_from([None, 0.5, 2.0])),
        state=draw(st.sampled_from(["active"] * 5 + ["draining", "quarantined"])),
        owner=draw(st.sampled_from([None, None, "andy", "bea"])),
        polled_s_ago=draw(st.sampled_from([0, 2, 2, 9, 20, 60, None])),
        waiting=draw(st.booleans()),
        broken_promises=draw(st.sampled_from([0, 0, 2])),
        kept=draw(st.sampled_from([None, None, None, KEPT])),
        placed=placed,
        live=draw(st.sampled_from([(), (), live])),
    )


@st.composite
def jobs(draw: st.DrawFn, number: int, *, held: bool = True) -> QueuedJob:
    """A queued job that asks for little or much, sometimes with a history of its own."""
    held_for = draw(st.sampled_from([None, None, *NAMES])) if held else None
    held_s = draw(st.sampled_from([0, 4, 14, 15, 60]))
    return fleets.job(
        number,
        project=draw(st.sampled_from(["andy/demo", "andy/demo", "bea/tool"])),
        order=(draw(st.sampled_from([0, 0, -1])), NOW_MS - 1000, number),
        images=draw(st.frozensets(st.sampled_from((*IMAGES, "C")), max_size=2)),
        labels=draw(st.sampled_from([(), (), ("ssd",), ("gpu",)])),
        memory_mib=draw(st.sampled_from([None, 2048, 8192, 30000])),
        cpus=draw(st.sampled_from([None, 1, 4])),
        disk_mib=draw(st.sampled_from([None, 1000, 10000])),
        declines=draw(
            st.sampled_from([(), (), (Decline(runner="a", at_ms=NOW_MS - 1000, reason="no space"),)])
        ),
        lost_on=draw(st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"b"})])),
        wish=draw(st.sampled_from([None, None, Wish(runner="c")])),
        usual_ms=draw(st.sampled_from([None, None, 5000])),
        held_for=held_for,
        held_since_ms=None if held_for is None else NOW_MS - held_s * 1000,
    )


@st.composite
def fleets_of(draw: st.DrawFn) -> Fleet:
    """One to four runners, and a hub that holds some images."""
    names = NAMES[: draw(st.integers(1, 4))]
    held = {
        image: HubImage(
            size_mib=draw(st.sampled_from([None, 800, 40000])),
            scopes=draw(st.sampled_from([None, None, frozenset({"andy"}), frozenset({"bea", "cy/other"})])),
        )
        for image in draw(st.frozensets(st.sampled_from((*IMAGES, "C"))))
    }
    return fleets.fleet(*(draw(runners(name)) for name in names), images=held)


@st.composite
def queues(draw: st.DrawFn, *, held: bool = True) -> list[QueuedJob]:
    """One to five queued jobs."""
    return [draw(jobs(number + 1, held=held)) for number in range(draw(st.integers(1, 5)))]


def _claiming(fleet: Fleet) -> list[str]:
    return [name for name, runner in fleet.runners.items() if runner.standing.waiting]


def _all_there_claim(fleet: Fleet) -> Fleet:
    return replace(
        fleet,
        runners={
            name: replace(runner, standing=replace(runner.standing, waiting=True))
            if is_there(runner, NOW_MS, fleet.settings)
            else runner
            for name, runner in fleet.runners.items()
        },
    )


@given(fleets_of(), queues())
def test_claim_waiting_reason_and_preview_agree_on_what_fits(fleet: Fleet, queue: list[QueuedJob]) -> None:
    board = PlainBoard(fleet, queue, NOW_MS)
    taken = {}
    for name in _claiming(fleet):
        if (take := choose(board, name).take) is not None:
            taken[take.id] = name
    for job in queue:
        waiting = explain(job, fleet, queue, NOW_MS)
        fits_on = {one.runner for one in waiting.runners if not one.lacks}
        [previewed] = preview(fleet, (), (replace(job, id=1000),), NOW_MS)
        given_to = offer(board, job).runner
        assert (waiting.kind in ("held", "turn")) == bool(fits_on)
        assert fits_on == {name for name in fleet.runners if board.fits(job, name)}
        assert {taken.get(job.id), given_to, previewed.runner} - {None} <= fits_on
        claims = {name for name in fits_on if name in _claiming(_all_there_claim(fleet))}
        assert (previewed.runner in claims) if claims else previewed.runner is None
        assert (previewed.waiting is None) == (previewed.runner is not None)


@given(fleets_of(), queues(held=False), queues(held=False))
def test_a_preview_is_what_the_plain_board_would_give_out(
    fleet: Fleet, queue: list[QueuedJob], batch: list[QueuedJob]
) -> None:
    batch = [replace(job, id=job.id + 100, order=(*job.order[:2], job.id + 100)) for job in batch]
    expected = {}
    world = _all_there_claim(fleet)
    held = holding(fleet)
    for job in in_turn((*queue, *batch), held):
        plan = offer(PlainBoard(world, (job,), NOW_MS), job)
        assert plan.holds == (), "when all claim, nobody is awaited"
        if plan.runner is not None:
            expected[job.id] = plan.runner
            held[job.demand.owner] += 1
            placed = with_jobs(world.runners[plan.runner], [job], world)
            world = replace(world, runners={**world.runners, plan.runner: placed})
    answers = preview(fleet, queue, batch, NOW_MS)
    assert {one.job.id: one.runner for one in answers} == {job.id: expected.get(job.id) for job in batch}


@given(fleets_of(), queues(), runners("z"))
def test_adding_a_runner_never_turns_a_job_that_fits_into_one_that_does_not(
    fleet: Fleet, queue: list[QueuedJob], more: Runner
) -> None:
    larger = replace(fleet, runners={**fleet.runners, more.name: more})
    for job in queue:
        before = explain(job, fleet, queue, NOW_MS)
        after = explain(job, larger, queue, NOW_MS)
        if before.kind in ("held", "turn"):
            assert after.kind in ("held", "turn")
        if before.kind == "busy":
            assert after.kind in ("busy", "turn")
        kept = [one for one in after.runners if one.runner != more.name]
        assert sorted(kept, key=lambda one: one.runner) == sorted(before.runners, key=lambda one: one.runner)


@given(fleets_of(), queues(), st.randoms(use_true_random=False))
def test_the_same_fleet_gives_the_same_answer_in_whatever_order_it_is_read(
    fleet: Fleet, queue: list[QueuedJob], random: Any
) -> None:
    names, shuffled = list(fleet.runners), list(queue)
    random.shuffle(names)
    random.shuffle(shuffled)
    other = replace(fleet, runners={name: fleet.runners[name] for name in names})
    one_board, other_board = PlainBoard(fleet, queue, NOW_MS), PlainBoard(other, shuffled, NOW_MS)
    for name in fleet.runners:
        assert choose(one_board, name) == choose(other_board, name)
    for job in queue:
        assert offer(one_board, job) == offer(other_board, job)
        assert explain(job, fleet, queue, NOW_MS) == explain(job, other, shuffled, NOW_MS)
        assert compare(job, names[0], fleet, NOW_MS) == compare(job, names[0], other, NOW_MS)
    batch = [replace(job, id=job.id + 100) for job in queue]
    assert preview(fleet, queue, batch, NOW_MS) == preview(other, shuffled, batch, NOW_MS)


@given(fleets_of(), jobs(1))
def test_remembered_parts_of_a_verdict_give_the_same_lacks_in_the_one_order(
    fleet: Fleet, job: QueuedJob
) -> None:
    for runner in fleet.runners.values():
        plain = lacks(job, runner, fleet, NOW_MS)
        lasting = shape_lacks(job.demand, shape(runner), fleet)
        room = headroom(runner, fleet.settings)
        assert lacks(job, runner, fleet, NOW_MS, room=room, lasting=lasting) == plain
        assert first_lack(job, runner, fleet, NOW_MS) == next(iter(plain), None)
        places = [ORDER.index(lack.code) for lack in plain]
        assert places == sorted(places)
        assert all(lack in plain and lack.lasting for lack in lasting)


@given(fleets_of(), jobs(1), jobs(2))
def test_a_job_placed_never_leaves_a_runner_with_more_room(
    fleet: Fleet, first: QueuedJob, second: QueuedJob
) -> None:
    for runner in fleet.runners.values():
        if lacks(first, runner, fleet, NOW_MS):
            continue  # only what fits is placed
        later = with_jobs(runner, [first], fleet)
        before, after = headroom(runner, fleet.settings), headroom(later, fleet.settings)
        assert after.free_slots == before.free_slots - 1
        assert (after.free_memory_mib or 0) <= (before.free_memory_mib or 0)
        assert (after.free_disk_mib or 0) <= (before.free_disk_mib or 0)
        lacked = {lack.code for lack in lacks(second, runner, fleet, NOW_MS)}
        lacking = {lack.code for lack in lacks(second, later, fleet, NOW_MS)}
        assert lacked <= lacking


EVENTS = st.one_of(
    st.tuples(st.just("ready"), st.integers(0, 5)),
    st.tuples(st.just("poll"), st.sampled_from(NAMES)),
    st.tuples(st.just("poll"), st.sampled_from(NAMES)),
    st.tuples(st.just("hang up"), st.sampled_from(NAMES)),
    st.tuples(st.just("finish"), st.sampled_from(NAMES)),
    st.tuples(st.just("drain"), st.sampled_from(NAMES)),
    st.tuples(st.just("wait"), st.sampled_from([1, 900, 4000, 7000, 15000])),
)


@given(fleets_of(), queues(held=False), st.lists(EVENTS, min_size=4, max_size=30))
def test_a_job_is_held_15_seconds_in_all_whatever_the_order_of_polls(
    fleet: Fleet, queue: list[QueuedJob], events: list[tuple[str, Any]]
) -> None:
    hub = VirtualHub(fleet)
    for what, about in events:
        if what == "wait":
            hub.wait(about)
        elif what == "ready":
            if about < len(queue) and queue[about].id not in (hub.queue.keys() | hub.placed.keys()):
                hub.ready(queue[about])
        elif about in fleet.runners and fleet.runners[about].offer is not None:
            {"poll": hub.poll, "hang up": hub.hang_up, "finish": hub.finish, "drain": hub.drain}[what](about)
    for job in queue:
        if job.id not in (hub.queue.keys() | hub.placed.keys()):
            hub.ready(job)
    hub.wait(15_000)
    for name in fleet.runners:
        if fleet.runners[name].offer is not None:
            hub.poll(name)
    hub.wait(15_000)
    for job in hub.queue.values():
        waiting = list(hub.board.waiting(job))
        assert not waiting, f"job {job.id} waits although {waiting} wait for a job"


@given(fleets_of(), queues())
def test_a_reader_is_not_told_a_name_that_it_may_not_see(fleet: Fleet, queue: list[QueuedJob]) -> None:
    hidden = {
        f"secret-{name}": replace(
            runner,
            name=f"secret-{name}",
            standing=replace(runner.standing, state_reason="secret-reason"),
        )
        for name, runner in fleet.runners.items()
    }
    both = replace(fleet, runners={**fleet.runners, **hidden})
    for job in queue:
        job = replace(job, held_for=job.held_for and f"secret-{job.held_for}")
        waiting = explain(job, both, queue, NOW_MS, visible=fleet.runners.keys())
        assert "secret" not in repr(waiting)
        assert len(waiting.runners) + waiting.more == len(both.runners)
        [previewed] = preview(both, (), (job,), NOW_MS, visible=fleet.runners.keys())
        assert "secret" not in repr(replace(previewed, job=fleets.job()))


def test_a_demand_judged_once_serves_every_job_that_asks_the_same() -> None:
    fleet = fleets.fleet(fleets.runner("a"), fleets.runner("b", labels=["gpu"]))
    one, other = fleets.job(1, labels=["gpu"]), fleets.job(2, labels=["gpu"])
    assert judge(one, fleet, NOW_MS) == judge(other, fleet, NOW_MS)
    assert judge(one, fleet, NOW_MS).fitting == ("b",)
