"""The hub's journal: what it keeps is all that its decisions were made from, whatever falls off the front."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from hub.dispatch.board import LiveBoard
from hub.dispatch.journal import PER_WEIGHT, DecisionJournal
from hub.placement.choose import choose, offer
from hub.placement.journal import ClaimDecided, Ended, Images, Journal, ReadyDecided, lines, read_lines
from hub.placement.model import Hold, HubImage, Plan, QueuedJob, Runner, Settings
from hub.placement.replay import decisions, differences, held_for, replay
from hub.store import runners as runner_store
from hub.store.writer import Writer
from tests.dispatch.test_board import live_board, live_runner
from tests.fleets import NOW_MS, fleet, job, runner
from tests.hubs import running
from tests.service.test_storm import Storm


def new_journal(limit: int = 1000) -> tuple[LiveBoard, DecisionJournal]:
    """A board without runners and jobs, and the journal that hears of its changes."""
    board = live_board(fleet(), [])
    journal = DecisionJournal(Settings(), lambda: board.now_ms, limit)
    board.fleet.noted, board.queue.noted = journal.runner, journal.job
    return board, journal


def enqueue(board: LiveBoard, one: QueuedJob) -> None:
    if (group := board.queue.add(one)) is not None:
        board.group_made(group)


def take_out(board: LiveBoard, job_id: int) -> None:
    if (group := board.queue.remove(job_id)) is not None:
        board.group_gone(group)


def wrong(journal: Journal) -> list[tuple[str, ...]]:
    return [differences(one) for one in replay(journal) if not one.same]


def kinds(journal: DecisionJournal) -> list[str]:
    return [type(entry.what).__name__ for entry in journal.value().entries]


@pytest.mark.parametrize(("seed", "entries"), [(0, 100_000), (1, 60), (2, 7)])
async def test_a_storm_replays_without_a_difference(tmp_path: Path, seed: int, entries: int) -> None:
    async with running(tmp_path, journal_entries=entries) as hub:
        storm = Storm(hub, seed)
        await storm.begin()
        for number in range(150):
            await storm.step()
            if number % 50 == 49:
                value = hub.hub.dispatch.journal.value()
                assert wrong(value) == []
                assert read_lines(lines(value)) == value
        await storm.calm()
        value = hub.hub.dispatch.journal.value()
        assert wrong(value) == []
        assert len(hub.hub.dispatch.journal) <= entries
        assert (value.dropped > 0) == (entries < 1000)
        assert decisions(value) > (100 if entries > 1000 else 0)
        for poll in storm.polls.values():
            poll.cancel()


async def test_a_storm_of_holds_tells_what_another_hold_would_have_changed(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        storm = Storm(hub, 4)
        await storm.begin()
        for _ in range(150):
            await storm.step()
        value = hub.hub.dispatch.journal.value()
        changed = [one for one in replay(value, held_for(value.settings, 0)) if not one.same]
        assert any("instead of held for" in line for one in changed for line in differences(one))
        assert all(one.now is not None and one.now.holds == () for one in changed)
        await storm.calm()
        for poll in storm.polls.values():
            poll.cancel()


async def test_a_hub_that_was_started_again_replays_too(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        storm = Storm(hub, 1)
        await storm.begin()
        for _ in range(60):
            await storm.step()
        for poll in storm.polls.values():
            poll.cancel()
    async with running(tmp_path, clock=hub.clock) as again:
        for machine in storm.machines:
            machine.client = again.client
            await machine.claim(running=storm.living(machine))
        value = again.hub.dispatch.journal.value()
        assert decisions(value) > 0
        assert wrong(value) == []


async def test_a_heartbeat_between_two_decisions_is_in_what_the_second_sees(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1", max_jobs=2)
        await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        await hub.tick(25)
        await machine.beat(given)
        await hub.tick(10)  # 35 s after its claim it is not silent, thanks to the heartbeat
        await hub.one_job()
        value = hub.hub.dispatch.journal.value()
        seen = [entry.what for entry in value.entries if isinstance(entry.what, Runner)][-1]
        assert seen.standing.heard_ms == hub.clock.ms - 10_000
        assert wrong(value) == []


async def test_an_attempt_that_ended_is_told_with_how_long_it_ran(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1")
        build = await hub.one_job()
        for end in ("release", "finish"):
            given = await machine.claim()
            assert given is not None
            if end == "release":
                body = {"lease": given["lease"]["token"], "reason": "shutdown"}
                await machine.call("POST", f"/jobs/{build}/release", json=body)
            else:
                await machine.start(given)
                await hub.tick(41)
                await machine.finish(given)
        ended = [one.what for one in hub.hub.dispatch.journal.value().entries if isinstance(one.what, Ended)]
        told = Ended(job=build, runner="mars-1", project="andy/demo", name="build", how="released")
        assert ended == [told, replace(told, how="succeeded", ran_ms=41_000)]


def test_a_hub_that_keeps_no_journal_says_so_with_an_empty_one() -> None:
    board, journal = new_journal(limit=0)
    board.fleet.add(live_runner(runner("a", waiting=True)), NOW_MS)
    enqueue(board, job(1))
    journal.ready(board, 1, offer(board, job(1)))
    assert (len(journal), journal.value().entries) == (0, ())


def test_of_many_changes_before_a_decision_the_last_is_kept() -> None:
    board, journal = new_journal()
    live = live_runner(runner("a"))
    for load1 in (0.1, 0.2, 0.3):
        live.offer = runner("a", load1=load1).offer
        board.fleet.changed(live, NOW_MS) if "a" in board.fleet else board.fleet.add(live, NOW_MS)
        journal.claim(board, "a", choose(board, "a"))  # nothing is queued: nothing is decided
    assert kinds(journal) == []
    enqueue(board, job(1))
    journal.claim(board, "a", choose(board, "a"))
    assert kinds(journal) == ["QueuedJob", "Runner", "ClaimDecided"]
    assert wrong(journal.value()) == []


def test_a_runner_that_came_and_went_between_two_decisions_is_not_there() -> None:
    board, journal = new_journal()
    enqueue(board, job(1))
    board.fleet.add(live_runner(runner("a", waiting=True)), NOW_MS)
    board.fleet.remove("a")
    journal.ready(board, 1, offer(board, job(1)))
    assert kinds(journal) == ["QueuedJob", "Removed", "ReadyDecided"]
    assert wrong(journal.value()) == []


def test_what_the_hub_holds_is_told_when_it_changes() -> None:
    board, journal = new_journal()
    board.fleet.add(live_runner(runner("a", waiting=True)), NOW_MS)
    enqueue(board, job(1, images=("A",)))
    small, large = {"A": HubImage(size_mib=1)}, {"A": HubImage(size_mib=2)}
    for images in ({}, small, dict(small), large, {}):
        board.fleet.value = replace(board.fleet.value, images=images)
        journal.claim(board, "a", choose(board, "a"))
    told = [entry.what.held for entry in journal.value().entries if isinstance(entry.what, Images)]
    assert told == [small, large, {}]


def test_what_falls_off_the_front_still_stands_at_the_beginning() -> None:
    board, journal = new_journal(limit=20)
    rng = random.Random(7)
    for number in range(500):
        board.now_ms = NOW_MS + number
        if rng.random() < 0.5:
            name = f"r{rng.randrange(4)}"
            live = live_runner(runner(name, waiting=True, max_jobs=9, speed_class=rng.randrange(4)))
            board.fleet.remove(name)
            board.fleet.add(live, board.now_ms)
        enqueue(board, job(number + 1, labels=("ssd",) if rng.random() < 0.2 else ()))
        plan = journal.ready(board, number + 1, offer(board, job(number + 1)))
        if plan.take is not None:
            take_out(board, number + 1)
        if number % 50 == 49:
            value = journal.value()
            assert wrong(value) == []
            assert decisions(value) + value.dropped == number + 1
            assert len(journal) <= 20
            assert value.begin_ms <= min(entry.at_ms for entry in value.entries)


def test_an_offer_of_a_thousand_images_is_kept_once_and_counts_for_what_it_takes() -> None:
    board, journal = new_journal()
    live = live_runner(runner("a"))
    board.fleet.add(live, NOW_MS)
    enqueue(board, job(1, labels=("gpu",)))
    for load1 in range(10):
        live.offer = runner("a", images=[f"image {n}" for n in range(1000)], load1=load1).offer
        board.fleet.changed(live, NOW_MS)
        journal.claim(board, "a", choose(board, "a"))
    runners = [entry.what for entry in journal.value().entries if isinstance(entry.what, Runner)]
    assert [one.offer.load1 for one in runners if one.offer] == list(range(10))
    assert len({id(one.offer.images) for one in runners if one.offer}) == 1
    assert len(journal) == 21
    assert journal._weight == 21 + 1000 // PER_WEIGHT
    for number in range(10):
        live.offer = runner("a", images=[f"image {number} {n}" for n in range(1000)]).offer
        board.fleet.changed(live, NOW_MS)
        journal.claim(board, "a", choose(board, "a"))
    assert journal._weight <= 1000
    assert len(journal) < 20
    assert wrong(journal.value()) == []


def test_a_plan_goes_through_the_journal_as_it_came() -> None:
    board, journal = new_journal()
    enqueue(board, job(1))
    plan = Plan()
    assert journal.claim(board, "a", plan) is plan
    assert journal.ready(board, 1, plan) is plan
    claimed, ready = (entry.what for entry in journal.value().entries[-2:])
    assert isinstance(claimed, ClaimDecided)
    assert isinstance(ready, ReadyDecided)
    assert claimed.plan is plan
    assert ready.plan is plan


async def test_a_runner_whose_labels_are_being_written_is_judged_by_one_set_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as hub:
        machine = await hub.machine("mars-1", max_jobs=2)
        await hub.one_job()
        given = await machine.claim()
        assert given is not None
        await machine.start(given)
        poll = machine.waits(running=[{"job": given["job"]["id"], "lease": given["lease"]["token"]}])
        await hub.settle()
        write = runner_store.change

        async def in_the_midst(writer: Writer, changed: runner_store.ChangedRunner) -> None:
            await machine.beat(given)
            await hub.one_job(labels=["gpu"])
            await write(writer, changed)

        monkeypatch.setattr(runner_store, "change", in_the_midst)
        await hub.admin.call("PATCH", "/runners/mars-1", json={"labels": ["gpu"]})
        assert await poll is not None
        assert wrong(hub.hub.dispatch.journal.value()) == []


def test_a_decision_that_holds_many_jobs_counts_for_what_it_takes() -> None:
    board, journal = new_journal(limit=100)
    enqueue(board, job(1))
    plan = Plan(holds=tuple(Hold(job=number, awaited="b") for number in range(40 * PER_WEIGHT)))
    for _ in range(5):
        journal.claim(board, "a", plan)
    assert (len(journal), journal.value().dropped) == (2, 3)
