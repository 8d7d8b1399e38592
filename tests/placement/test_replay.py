"""A journal judged again: nothing differs unless the file, the hub's memory or the settings do."""

from dataclasses import replace

from hypothesis import given

from hub.placement.journal import ClaimDecided, Entry, Journal, Out, ReadyDecided, What
from hub.placement.model import Fleet, Hold, Plan, QueuedJob, Settings
from hub.placement.replay import Judged, decisions, differences, held_for, replay
from tests.fleets import NOW_MS, job, runner
from tests.placement.test_journal import journal_of
from tests.placement.test_properties import fleets_of, queues


def journal(*what: What, begin_ms: int = NOW_MS) -> Journal:
    entries = tuple(Entry(at_ms=begin_ms, what=one) for one in what)
    return Journal(begin_ms=begin_ms, settings=Settings(), entries=entries)


def told(found: Journal, settings: Settings | None = None) -> list[str]:
    return [line for judged in replay(found, settings) for line in differences(judged)]


SLOW = runner("earth-9", waiting=True, speed_class=1)
FAST = runner("mars-1", speed_class=5)
GIVEN = ClaimDecided(runner="earth-9", plan=Plan(take=job(17), runner="earth-9"))
HELD = ClaimDecided(runner="earth-9", plan=Plan(holds=(Hold(job=17, awaited="mars-1"),)))


@given(fleets_of(), queues())
def test_what_was_decided_by_the_rules_is_decided_again(value: Fleet, jobs: list[QueuedJob]) -> None:
    found = journal_of(value, jobs)
    judged = list(replay(found))
    assert len(judged) == decisions(found) == len(value.runners) + len(jobs)
    assert [differences(one) for one in judged if not one.same] == []


@given(fleets_of(), queues())
def test_a_plan_that_was_altered_is_found(value: Fleet, jobs: list[QueuedJob]) -> None:
    found = journal_of(value, jobs)
    index = next(n for n, entry in enumerate(found.entries) if isinstance(entry.what, ClaimDecided))
    entry = found.entries[index]
    assert isinstance(entry.what, ClaimDecided)
    other = Plan() if entry.what.plan != Plan() else Plan(holds=(Hold(job=1, awaited="z"),))
    forged = replace(entry, what=replace(entry.what, plan=other))
    damaged = replace(found, entries=(*found.entries[:index], forged, *found.entries[index + 1 :]))
    (wrong,) = [one for one in replay(damaged) if not one.same]
    assert wrong.decided == forged.what
    assert differences(wrong) != ()


def test_an_entry_that_is_missing_is_found() -> None:
    assert told(journal(SLOW, FAST, job(17), HELD)) == []
    assert told(journal(SLOW, job(17), HELD)) == ["job 17: earth-9 instead of held for mars-1"]
    assert told(journal(SLOW, FAST, job(17), GIVEN)) == ["job 17: held for mars-1 instead of earth-9"]
    assert told(journal(SLOW, job(16), job(17), GIVEN)) == [
        "job 16: earth-9 instead of staying queued",
        "job 17: stays queued instead of earth-9",
    ]
    assert told(journal(SLOW, job(17), GIVEN, GIVEN, Out(job=17))) == []
    assert told(journal(SLOW, job(17), Out(job=17), GIVEN)) == ["job 17: stays queued instead of earth-9"]


def test_a_decision_about_what_the_journal_does_not_know_differs() -> None:
    assert told(journal(job(17), ClaimDecided(runner="earth-9", plan=Plan()))) == [
        "earth-9: a decision about it, and no entry that tells of it"
    ]
    assert told(journal(SLOW, ReadyDecided(job=17, plan=Plan()))) == [
        "job 17: a decision about it, and no entry that tells of it"
    ]


def test_a_job_that_was_given_as_another_value_differs_although_its_fate_does_not() -> None:
    given_other = ClaimDecided(runner="earth-9", plan=Plan(take=job(17, usual_ms=5), runner="earth-9"))
    assert told(journal(SLOW, job(17), given_other)) == ["the same for every job, but not take"]


def test_other_settings_tell_what_would_change() -> None:
    found = journal(SLOW, FAST, job(17), HELD)
    assert told(found, held_for(found.settings, 0)) == ["job 17: earth-9 instead of held for mars-1"]
    assert told(found, held_for(found.settings, 30_000)) == []


def test_a_changed_decision_does_not_change_the_state_that_the_next_is_judged_on() -> None:
    held = job(17, held_since_ms=NOW_MS, held_for="mars-1")
    found = journal(SLOW, FAST, job(17), HELD, held, HELD)
    judged = list(replay(found, held_for(found.settings, 0)))
    assert [differences(one) for one in judged] == [("job 17: earth-9 instead of held for mars-1",)] * 2


def test_only_the_last_decisions_are_judged_where_that_is_asked() -> None:
    found = journal(SLOW, job(17), HELD, GIVEN, GIVEN)
    assert [one.same for one in replay(found)] == [False, True, True]
    assert [one.same for one in replay(found, last=2)] == [True, True]
    assert list(replay(found, last=0)) == []
    assert len(list(replay(found, last=9))) == 3


def test_a_decision_says_when_it_was_made() -> None:
    (judged,) = replay(journal(SLOW, job(17), GIVEN))
    assert judged == Judged(at_ms=NOW_MS, decided=GIVEN, now=GIVEN.plan)
