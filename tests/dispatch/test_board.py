"""The hub's board, which remembers, against the plain one, which judges everything anew."""

import asyncio
import random
from dataclasses import replace

from hypothesis import given, settings

from hub.dispatch.attempts import LiveAttempt, OpenClaim
from hub.dispatch.board import LiveBoard
from hub.dispatch.fleet import Fleet, LiveRunner
from hub.dispatch.queue import Queue
from hub.dispatch.reasons import Reasons
from hub.placement import model
from hub.placement.board import PlainBoard
from hub.placement.choose import choose, offer
from hub.placement.waiting import explain
from tests.fleets import NOW_MS, fleet, job, runner
from tests.placement.test_properties import fleets_of, queues


def live_board(value: model.Fleet, jobs: list[model.QueuedJob]) -> LiveBoard:
    """The same fleet and queue on the hub's own board, come about step by step."""
    live = Fleet(value.settings, value.images)
    queue = Queue()
    board = LiveBoard(live, queue)
    board.now_ms = NOW_MS
    half = len(jobs) // 2
    for one in jobs[:half]:  # some jobs were there before the runners, some came after
        _enqueue(board, one)
    for known in value.runners.values():
        live.add(live_runner(known), NOW_MS)
    for one in jobs[half:]:
        _enqueue(board, one)
    for one in jobs:
        if one.held_for in live.live:
            live.live[one.held_for].awaited_by[one.id] = one
    return board


def _enqueue(board: LiveBoard, one: model.QueuedJob) -> None:
    if (group := board.queue.add(one)) is not None:
        board.group_made(group)


def live_runner(value: model.Runner) -> LiveRunner:
    standing = value.standing
    live = LiveRunner(
        name=value.name,
        owner=standing.owner,
        project=standing.project,
        state=standing.state,
        state_reason=standing.state_reason,
        offer=value.offer,
        heard_ms=standing.heard_ms,
        polled_ms=standing.polled_ms,
        idle_memory_mib=standing.idle_memory_mib,
        broken_promises=standing.broken_promises,
        placed={placed.job: placed for placed in standing.placed},
        kept=standing.kept,
    )
    if standing.waiting:
        loop = asyncio.new_event_loop()
        answer: asyncio.Future[LiveAttempt | None] = loop.create_future()
        loop.close()
        live.open_claim = OpenClaim(
            runner=value.name, instance=None, claim_id=None, address="", answer=answer
        )
    return live


@settings(max_examples=300)
@given(fleets_of(), queues())
def test_both_boards_decide_the_same(value: model.Fleet, jobs: list[model.QueuedJob]) -> None:
    plain, live = PlainBoard(value, jobs, NOW_MS), live_board(value, jobs)
    for name, one in value.runners.items():
        if one.standing.waiting:
            assert choose(live, name) == choose(plain, name)
    for one_job in jobs:
        assert offer(live, one_job) == offer(plain, one_job)


@settings(max_examples=150)
@given(fleets_of(), queues())
def test_reasons_judged_once_per_demand_are_those_judged_anew(
    value: model.Fleet, jobs: list[model.QueuedJob]
) -> None:
    reasons = Reasons(live_board(value, jobs))
    for one in jobs:
        assert reasons.of(one, NOW_MS) == explain(one, value, jobs, NOW_MS)


def test_a_decision_looks_at_no_more_when_the_queue_is_a_hundred_times_as_long() -> None:
    looks = []
    for count in (1_000, 100_000):
        jobs = [
            job(number, labels=("ssd",) if number % 3 else ("gpu",), memory_mib=1024 * (1 + number % 20))
            for number in range(1, count + 1)
        ]
        runners = [
            runner(f"r{number}", labels=("ssd",), waiting=number < 5, polled_s_ago=20 if number >= 5 else 1)
            for number in range(100)
        ]
        board = live_board(fleet(*runners), jobs)
        board.looks = 0
        for number in range(5):
            assert choose(board, f"r{number}").take is not None
        looks.append(board.looks)
    assert looks[1] <= looks[0]


def test_waking_one_of_a_thousand_waiting_runners_looks_at_one() -> None:
    runners = [runner(f"r{number}", waiting=True) for number in range(1000)]
    board = live_board(fleet(*runners), [job(1)])
    board.looks = 0
    assert offer(board, job(1)).runner == "r0"
    assert board.looks == 1


def test_the_lists_follow_every_change_of_a_runner() -> None:
    """The heads that a decision reads are those that a fleet made anew would have."""
    rng = random.Random(11)
    board = live_board(fleet(*(runner(f"r{number}", max_jobs=3) for number in range(6))), [job(1)])
    live = board.fleet
    for _ in range(500):
        one = live.live[f"r{rng.randrange(6)}"]
        match rng.randrange(4):
            case 0:
                one.open_claim = None if one.open_claim else live_runner(runner(waiting=True)).open_claim
            case 1:
                number = rng.randrange(3)
                if one.placed.pop(number, None) is None:
                    one.placed[number] = model.Placed(job=number)
            case 2:
                one.state = rng.choice(["active", "draining"])
            case _:
                one.polled_ms = NOW_MS - rng.choice([0, 20_000])
        live.changed(one, NOW_MS)
        plain = PlainBoard(model.Fleet(runners=dict(live), settings=live.settings), [job(1)], NOW_MS)
        assert list(board.waiting(job(1))) == list(plain.waiting(job(1)))
        assert offer(board, job(1)) == offer(plain, job(1))


@settings(max_examples=100)
@given(fleets_of(), queues(), fleets_of())
def test_after_the_hubs_images_changed_both_boards_decide_the_same(
    value: model.Fleet, jobs: list[model.QueuedJob], later: model.Fleet
) -> None:
    live = live_board(value, jobs)
    live.fleet.value = replace(live.fleet.value, images=later.images)
    live.images_changed(value.images.keys() | later.images.keys())
    plain = PlainBoard(replace(value, images=later.images), jobs, NOW_MS)
    for name, one in value.runners.items():
        if one.standing.waiting:
            assert choose(live, name) == choose(plain, name)
    for one_job in jobs:
        assert offer(live, one_job) == offer(plain, one_job)


def test_a_runner_that_changes_after_its_removal_is_not_listed_again() -> None:
    """A call of its own may still be under way, and a timer still due."""
    board = live_board(fleet(runner("a", waiting=True)), [])
    gone = board.fleet.remove("a")
    assert gone is not None
    board.fleet.changed(gone, NOW_MS)
    assert not board.fleet.entries
    _enqueue(board, job(1))
    assert offer(board, job(1)).take is None
