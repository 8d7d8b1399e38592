"""The simulator: the real rules in virtual time, held to their promises on random loads."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.placement.choose import choose, hold_is_over, offer
from hub.placement.model import Plan, QueuedJob
from hub.placement.policies import Held, Policy, VirtualBoard, policies
from hub.placement.simulate import Outcome, Simulation, simulate
from hub.placement.trace import (
    KINDS,
    Kind,
    Trace,
    TraceError,
    TraceImage,
    TraceJob,
    TraceRunner,
    assemble,
    make,
    read,
    write,
)

IMAGES = ("A", "B", "C")


def a_runner(name: str = "r", **said: object) -> TraceRunner:
    """One slot, reference speed, 1 MB/s, a long poll."""
    plain: dict[str, object] = {"slots": 1, "speed": 100, "speed_class": 3, "link_bytes_s": 1_000_000}
    plain |= {"poll_ms": 25_000, "pause_ms": 50}
    return TraceRunner(name=name, **(plain | said))  # type: ignore[arg-type]  # the callers' words are fields


def a_job(number: int, **asked: object) -> TraceJob:
    """Ready after a minute, takes 10 s."""
    plain: dict[str, object] = {"name": f"job-{number}", "at_ms": 60_000, "work_ms": 10_000}
    return TraceJob(id=number, **(plain | asked))  # type: ignore[arg-type]  # the callers' words are fields


def image(name: str, megabytes: int = 60) -> TraceImage:
    return TraceImage(name=name, bytes=megabytes * 1_000_000)


def lines(*records: TraceImage | TraceRunner | TraceJob) -> list[str]:
    return list(write(assemble(records)))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to four runners of all manners and up to fourteen jobs, some of which fit nowhere."""
    fleet = [
        a_runner(
            f"r{number}",
            slots=draw(st.integers(1, 3)),
            speed=draw(st.sampled_from([50, 100, 300])),
            speed_class=draw(st.integers(1, 4)),
            poll_ms=draw(st.sampled_from([0, 0, 25_000])),
            pause_ms=draw(st.sampled_from([50, 3_000, 9_000, 40_000])),
            images=draw(st.frozensets(st.sampled_from(IMAGES))),
            memory_mib=draw(st.sampled_from([None, 12_000, 30_000])),
            cpus=draw(st.sampled_from([None, 2])),
            labels=draw(st.sampled_from([frozenset[str](), frozenset({"ssd"})])),
        )
        for number in range(draw(st.integers(1, 4)))
    ]
    jobs = [
        a_job(
            number,
            name=draw(st.sampled_from(["build", "test"])),
            at_ms=draw(st.integers(0, 90_000)),
            work_ms=draw(st.sampled_from([0, 2_000, 50_000])),
            images=draw(st.frozensets(st.sampled_from(IMAGES), max_size=2)),
            memory_mib=draw(st.sampled_from([None, 2_048, 5_000, 20_000])),
            cpus=draw(st.sampled_from([None, 1, 2])),
            labels=draw(st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"ssd"})])),
            wish=draw(st.sampled_from([None, None, "r0"])),
        )
        for number in range(draw(st.integers(1, 14)))
    ]
    return assemble([*map(image, IMAGES), *fleet, *jobs])


class Watched:
    """The product's rules, with each answer compared to the plain board's, and each hold to its limit."""

    def __init__(self, hold_ms: int) -> None:
        self.rules = Held(hold_ms)
        self.name, self.hold_ms = self.rules.name, hold_ms
        self.since: dict[int, int] = {}

    def ready(self, board: VirtualBoard, job: QueuedJob) -> Plan:
        plan = self.rules.ready(board, job)
        assert plan == offer(board.plain(), job)
        return self._look(board, plan)

    def claim(self, board: VirtualBoard, runner: str) -> Plan:
        plan = self.rules.claim(board, runner)
        assert plan == choose(board.plain(), runner)
        return self._look(board, plan)

    def _look(self, board: VirtualBoard, plan: Plan) -> Plan:
        for hold in plan.holds:
            job = board.queue[hold.job]
            since_ms = self.since.setdefault(job.id, board.now_ms)
            assert job.held_since_ms in (None, since_ms), "the clock of a hold was started again"
            assert board.now_ms - since_ms < self.hold_ms
            assert not hold_is_over(job, board.now_ms, board.settings)
        if plan.take is not None:
            assert board.fits(plan.take, str(plan.runner))
        return plan


def assert_nobody_is_over_its_room(trace: Trace, outcome: Outcome) -> None:
    """Counted from what ran where and when, by none of the product's rules."""
    jobs = {job.id: job for job in trace.jobs}
    for runner in trace.runners:
        mine = [ran for ran in outcome.ran if ran.runner == runner.name]
        for moment in {ran.placed_ms for ran in mine}:
            there = [jobs[ran.job] for ran in mine if ran.placed_ms <= moment < ran.end_ms]
            assert len(there) <= runner.slots
            if runner.memory_mib is not None:
                assert sum(job.memory_mib or 0 for job in there) <= runner.memory_mib - 4096 - 2048
            if runner.cpus is not None:
                assert sum(job.cpus or 0 for job in there) <= runner.cpus
            assert all(job.labels <= runner.labels for job in there)


def fits_somewhere(job: TraceJob, trace: Trace) -> bool:
    """On an idle runner, by the figures alone."""
    return any(
        job.labels <= runner.labels
        and (runner.memory_mib is None or (job.memory_mib or 0) <= runner.memory_mib - 4096 - 2048)
        and (runner.cpus is None or (job.cpus or 0) <= runner.cpus)
        for runner in trace.runners
    )


@settings(max_examples=60, deadline=None)
@given(trace=traces(), hold_ms=st.sampled_from([0, 5_000, 15_000, 30_000]))
def test_the_rules_keep_their_promises_on_any_load_and_answer_as_the_plain_board(
    trace: Trace, hold_ms: int
) -> None:
    outcome = Simulation(trace, Watched(hold_ms)).run()
    assert_nobody_is_over_its_room(trace, outcome)
    assert {ran.job for ran in outcome.ran} == {job.id for job in trace.jobs if fits_somewhere(job, trace)}


@settings(max_examples=40, deadline=None)
@given(trace=traces())
def test_under_every_policy_each_job_that_fits_somewhere_ends_once_and_nobody_is_over_its_room(
    trace: Trace,
) -> None:
    expected = sorted(job.id for job in trace.jobs if fits_somewhere(job, trace))
    for outcome in simulate(trace):
        assert_nobody_is_over_its_room(trace, outcome)
        assert sorted(ran.job for ran in outcome.ran) == expected
        assert len(outcome.nowhere) == len(trace.jobs) - len(expected)
        assert all(ran.ready_ms <= ran.placed_ms <= ran.start_ms <= ran.end_ms for ran in outcome.ran)
        assert all(one.end_ms <= two.end_ms for one, two in pairwise(outcome.ran))
        assert 0 <= outcome.use <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_answer_whatever_the_order_of_the_lines(kind: Kind) -> None:
    trace = make(kind, seed=7, runners=6, jobs=60)
    shuffled = list(write(trace))
    random.Random(1).shuffle(shuffled)
    assert list(simulate(trace, seed=7)) == list(simulate(read(shuffled), seed=7))
    assert make(kind, seed=7, runners=6, jobs=60) == trace
    assert make(kind, seed=8, runners=6, jobs=60) != trace


@pytest.mark.parametrize("kind", KINDS)
def test_a_made_trace_reads_back_as_it_was_written(kind: Kind) -> None:
    trace = make(kind, seed=3, runners=9, jobs=100)
    assert read(write(trace)) == trace
    assert len(trace.jobs) == 100
    assert len(trace.runners) == 9


@given(trace=traces())
def test_any_trace_reads_back_as_it_was_written(trace: Trace) -> None:
    assert read(write(trace)) == trace


def run(trace: Trace, policy: Policy) -> Outcome:
    return Simulation(trace, policy).run()


def test_a_held_job_goes_to_the_runner_that_holds_its_image_and_the_hold_is_won() -> None:
    holder = a_runner("z", images=frozenset({"A"}), poll_ms=0, pause_ms=5_000)
    trace = assemble([image("A"), a_runner("a"), holder, a_job(1, images=frozenset({"A"}))])
    without, with_hold = run(trace, Held(0)), run(trace, Held(15_000))
    assert (without.ran[0].runner, without.bytes_fetched) == ("a", 60_000_000)
    assert without.ran[0].start_ms - without.ran[0].placed_ms == 60_000
    assert (with_hold.ran[0].runner, with_hold.bytes_fetched) == ("z", 0)
    assert (with_hold.holds_won, with_hold.holds_lost) == (1, 0)
    assert 0 < with_hold.ran[0].placed_ms - 60_000 <= 6_000


def test_a_hold_for_a_runner_that_does_not_come_in_time_is_lost_when_it_ends() -> None:
    holder = a_runner("z", images=frozenset({"A"}), poll_ms=0, pause_ms=9_000)
    jobs = [a_job(n, at_ms=60_000 + 50_000 * n, images=frozenset({"A"})) for n in range(6)]
    trace = assemble([image("A"), a_runner("a"), holder, *jobs])
    outcome = run(trace, Held(1_000))
    late = [ran for ran in outcome.ran if ran.runner == "a"]
    assert outcome.holds_lost >= 1
    assert late[0].placed_ms - late[0].ready_ms == 1_000


def test_images_come_over_a_link_one_after_the_other_and_each_once() -> None:
    jobs = [
        a_job(1, images=frozenset({"A"})),
        a_job(2, images=frozenset({"B"})),
        a_job(3, images=frozenset({"A"})),
    ]
    trace = assemble([image("A", 10), image("B", 20), a_runner(slots=3), *jobs])
    outcome = run(trace, Held(0))
    starts = {ran.job: ran.start_ms - 60_000 for ran in outcome.ran}
    assert outcome.bytes_fetched == 30_000_000
    assert starts[1] == 10_000
    assert 30_000 <= starts[2] < 31_000  # 20 s of its own after A's 10
    assert starts[3] == 10_000


def test_a_runner_of_twice_the_speed_takes_half_the_time() -> None:
    outcome = run(assemble([a_runner(speed=200), a_job(1)]), Held(0))
    assert outcome.ran[0].end_ms - outcome.ran[0].start_ms == 5_000


def test_the_policies_differ_only_in_whom_they_choose() -> None:
    holder = a_runner("z", images=frozenset({"A"}))
    trace = assemble([image("A"), a_runner("a"), holder, a_job(1, images=frozenset({"A"}))])
    chosen = {policy.name: run(trace, policy).ran[0].runner for policy in policies(seed=1)}
    assert chosen["image locality"] == chosen["hold 0 s"] == chosen["hold 15 s"] == "z"
    dice = {run(trace, policies(seed)[1]).ran[0].runner for seed in range(20)}
    assert dice == {"a", "z"}


def test_a_wish_is_met_where_no_better_runner_is_there() -> None:
    trace = assemble([a_runner("a"), a_runner("b"), a_runner("c"), a_job(1, wish="c")])
    assert run(trace, Held(15_000)).ran[0].runner == "c"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "line 3: is empty"),
        ("{", "line 3: is not JSON"),
        ("[" * 100_000, "line 3: is not JSON"),
        ("[]", "line 3: is not a JSON object"),
        ('{"record": "robot"}', "line 3: record is 'robot'; known are image, runner, job"),
        ('{"record": ["job"]}', "line 3: record is ['job']"),
        ('{"record": "job", "id": 2, "name": "b", "at_ms": 1}', "line 3: work_ms is missing from this job"),
        (
            '{"record": "image", "name": "B", "bytes": 1, "size": 1}',
            "line 3: size is no word of records of this kind (image)",
        ),
    ],
)
def test_a_line_that_says_nothing_valid_is_told_with_its_number(line: str, words: str) -> None:
    good = lines(image("A"), a_runner())
    with pytest.raises(TraceError) as error:
        read([*good, line])
    assert str(error.value).startswith(words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"at_ms": -1}, "line 3: at_ms is -1; it is within 0 and 604800000"),
        ({"work_ms": -5}, "line 3: work_ms is -5"),
        ({"at_ms": 1.5}, "line 3: at_ms is not a whole number"),
        ({"at_ms": True}, "line 3: at_ms is not a whole number"),
        ({"name": ""}, "line 3: name is not a word"),
        ({"images": "A"}, "line 3: images is not a list of words"),
        ({"images": ["X"]}, "line 3: image `X` is not in the trace"),
        ({"wish": "nobody"}, "line 3: runner `nobody` is not in the trace"),
        ({"prio": 1}, "line 3: prio is no word of records of this kind (job)"),
    ],
)
def test_a_job_with_a_wrong_word_or_figure_is_told_with_its_line(
    change: dict[str, object], words: str
) -> None:
    *good, job = lines(image("A"), a_runner(), a_job(1))
    with pytest.raises(TraceError) as error:
        read([*good, json.dumps({**json.loads(job), **change})])
    assert str(error.value).startswith(words)


def test_a_name_that_stands_twice_and_a_trace_without_a_runner_are_refused() -> None:
    good = lines(image("A"), a_runner(), a_job(1))
    with pytest.raises(TraceError, match="line 4: job 1 stands on line 3 already"):
        read([*good, good[2]])
    with pytest.raises(TraceError, match="line 4: `r` stands on line 2 already"):
        read([*good, good[1]])
    with pytest.raises(TraceError, match="no runner"):
        read([good[0]])


def test_a_runner_that_would_ask_without_a_pause_is_refused() -> None:
    with pytest.raises(TraceError, match="line 1: poll_ms and pause_ms are 50 in sum at least"):
        read(lines(replace(a_runner(), poll_ms=0, pause_ms=0)))


def test_a_fleet_too_small_for_its_jobs_is_refused_rather_than_simulated_for_weeks() -> None:
    with pytest.raises(TraceError, match="more than a week"):
        make("mixed", seed=1, runners=1, jobs=100_000)
