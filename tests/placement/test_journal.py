"""A journal as a file: it reads back as it was, and whatever is wrong with it is told with its line."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, offer
from hub.placement.codec import read, write
from hub.placement.journal import (
    ClaimDecided,
    Ended,
    Entry,
    Images,
    Journal,
    JournalError,
    Out,
    ReadyDecided,
    Removed,
    Scene,
    What,
    lines,
    read_lines,
)
from hub.placement.model import Fleet, QueuedJob, Runner, Settings, Standing
from tests.fleets import NOW_MS, job, runner
from tests.placement.test_properties import fleets_of, queues


def journal_of(value: Fleet, jobs: list[QueuedJob]) -> Journal:
    """A fleet and a queue, then what each runner would be given and who each job."""
    board = PlainBoard(value, jobs, NOW_MS)
    told = Scene(dict(value.runners), {one.id: one for one in jobs}, value.images).told(NOW_MS)
    claims = [ClaimDecided(runner=name, plan=choose(board, name)) for name in value.runners]
    ready = [ReadyDecided(job=one.id, plan=offer(board, one)) for one in jobs]
    ended = Ended(job=1, runner="a", project="andy/demo", name="test", how="lost", ran_ms=3)
    rest: list[What] = [
        *claims,
        *ready,
        Out(job=jobs[0].id),
        ended,
        Removed(name="a"),
        runner("a", images=("A",)),
    ]
    entries = (*told, *(Entry(at_ms=NOW_MS, what=what) for what in rest))
    return Journal(begin_ms=NOW_MS - 5, settings=value.settings, entries=entries, dropped=3)


@given(fleets_of(), queues(), st.sampled_from([Settings(), Settings(hold_ms=1, patience=5)]))
def test_a_journal_reads_back_as_it_was(value: Fleet, jobs: list[QueuedJob], settings: Settings) -> None:
    journal = journal_of(replace(value, settings=settings), jobs)
    assert read_lines(lines(journal)) == journal


@given(fleets_of(), queues())
def test_a_value_reads_back_as_it_was(value: Fleet, jobs: list[QueuedJob]) -> None:
    for one in value.runners.values():
        assert read(Runner, json.loads(json.dumps(write(one)))) == one
    for queued in jobs:
        assert read(QueuedJob, json.loads(json.dumps(write(queued)))) == queued


def test_an_offer_that_did_not_change_is_written_once() -> None:
    one = runner("mars-1", images=("A",))
    two = replace(one, standing=replace(one.standing, waiting=True))
    entries = tuple(Entry(at_ms=NOW_MS, what=what) for what in (one, two, Removed(name="mars-1"), one))
    journal = Journal(begin_ms=NOW_MS, settings=Settings(), entries=entries)
    assert ["offer" in json.loads(line) for line in lines(journal)] == [
        False,
        True,
        False,
        False,
        True,
        False,
    ]
    assert read_lines(lines(journal)) == journal


def test_a_runner_that_never_polled_is_not_one_whose_offer_is_as_before() -> None:
    entry = Entry(at_ms=NOW_MS, what=Runner(name="new", offer=None, standing=Standing()))
    journal = Journal(begin_ms=NOW_MS, settings=Settings(), entries=(entry, entry))
    assert [json.loads(line).get("offer", "-") for line in lines(journal)] == ["-", None, "-", "-"]
    assert read_lines(lines(journal)) == journal


HEAD = '{"record":"journal","format":1,"begin_ms":1,"dropped":0,"settings":{}}'
RUNNER = '{"record":"runner","at_ms":1,"name":"r","offer":{"tiers":["process"]},"standing":{}}'
JOB = '{"record":"job","at_ms":1,"id":1,"demand":{"project":"a/b","tier":"process"},"order":[0,0,1]}'


def said(line: str, **changes: Any) -> str:
    return json.dumps({key: one for key, one in {**json.loads(line), **changes}.items() if one != "none"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ([], "line 0: the journal was cut off here"),
        ([HEAD, RUNNER], "line 2: the journal was cut off here: its last line is no `end`"),
        ([RUNNER], "line 1: the first line of a journal has the record `journal`"),
        ([said(HEAD, format=2)], "line 1: this is format 2; known is 1"),
        ([said(HEAD, format="none")], "line 1: this is format None"),
        ([said(HEAD, more=1)], "line 1: a journal's first line has format, begin_ms, dropped, settings"),
        ([said(HEAD, settings={"hold": 1})], "line 1: settings.hold is not known"),
        ([HEAD, "{"], "line 2: is not JSON"),
        ([HEAD, "[" * 100_000], "line 2: is not JSON"),
        ([HEAD, "[]"], "line 2: is not a JSON object"),
        ([HEAD, " "], "line 2: is empty"),
        ([HEAD, '{"record":"hello","at_ms":1}'], "line 2: record is 'hello'; known are images, runner"),
        ([HEAD, '{"record":[],"at_ms":1}'], "line 2: record is []"),
        ([HEAD, '{"record":"out","job":1}'], "line 2: at_ms is missing"),
        ([HEAD, '{"record":"out","at_ms":true,"job":1}'], "line 2: at_ms is not a whole number"),
        ([HEAD, f'{{"record":"out","at_ms":{10**30},"job":1}}'], "line 2: at_ms is beyond every bound"),
        ([HEAD, '{"record":"out","at_ms":1}'], "line 2: job is missing"),
        ([HEAD, said(RUNNER, offer="none")], "line 2: offer is missing, and no line before tells it"),
        ([HEAD, RUNNER, said(RUNNER, name="s", offer="none")], "line 3: offer is missing"),
        ([HEAD, said(RUNNER, standing={"state": "asleep"})], "line 2: standing.state is none of active"),
        ([HEAD, said(RUNNER, offer={"tiers": "process"})], "line 2: offer.tiers is not a list"),
        ([HEAD, said(RUNNER, offer={"tiers": [1]})], "line 2: offer.tiers[0] is not a word"),
        ([HEAD, said(RUNNER, offer={"tiers": [], "load1": "x"})], "line 2: offer.load1 is not a number"),
        ([HEAD, said(RUNNER, standing=[])], "line 2: standing is not an object"),
        ([HEAD, said(JOB, order=[1, 2])], "line 2: order is not a list of 3"),
        ([HEAD, said(JOB, hurry=True)], "line 2: hurry is not known"),
        ([HEAD, JOB, '{"record":"end","lines":3}'], "line 3: counts 3 lines, and 2 are there"),
        ([HEAD, '{"record":"end","lines":1}', JOB], "line 3: stands after the end"),
    ],
)
def test_a_broken_line_is_told_with_its_number(text: list[str], words: str) -> None:
    with pytest.raises(JournalError) as error:
        read_lines(text)
    assert str(error.value).startswith(words)


def test_entries_come_to_the_last_that_was_said_of_each() -> None:
    scene = Scene()
    for what in (runner("a"), runner("b"), job(1), job(2), job(1, usual_ms=5), Out(job=2), Removed(name="a")):
        scene.apply(what)
    scene.apply(Images(held={}))
    assert (scene.runners, scene.jobs) == ({"b": runner("b")}, {1: job(1, usual_ms=5)})
    again = Scene()
    for entry in scene.told(NOW_MS):
        again.apply(entry.what)
    assert again == scene
