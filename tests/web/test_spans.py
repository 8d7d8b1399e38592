"""Where a job's time went, as parts of a bar on the axis of its run."""

from hypothesis import HealthCheck, given, settings

from hub.web.spans import MAX_TICKS, Bar, spans_of, tally
from hub.wire.runs import AttemptView, JobView, RunView
from tests.web import samples
from tests.web.hostile import RUNS
from tests.web.samples import NOW_MS, at


def bar_of(job: JobView, **changes: object) -> Bar:
    run = samples.run(created_at=at(100), jobs=[job], **changes)
    return spans_of(run, NOW_MS).bars[job.id]


def told(bar: Bar) -> list[tuple[str, str, float, float]]:
    return [(part.kind, part.tone, part.x, part.width) for part in bar.parts]


def attempt(
    number: int, assigned: float, started: float | None, ended: float | None, how: str
) -> AttemptView:
    return AttemptView(
        number=number,
        runner="earth-9",
        assigned_at=at(assigned),
        started_at=None if started is None else at(started),
        ended_at=None if ended is None else at(ended),
        ended=how or None,
    )


def test_a_job_that_was_held_is_drawn_from_its_needs_to_its_end() -> None:
    job = samples.job(
        needs=["a"],
        queued_at=at(90),
        held_at=at(80),
        held_until=at(65),
        finished_at=at(10),
        attempts=[attempt(1, 60, 55, 10, "finished")],
    )
    assert told(bar_of(job)) == [
        ("needs", "", 0, 10),
        ("waiting", "", 10, 10),
        ("held", "", 20, 15),
        ("waiting", "", 35, 5),
        ("preparing", "", 40, 5),
        ("running", "succeeded", 45, 45),
    ]
    assert bar_of(job).text == (
        "waited for what it needs 10 s, waited for a runner 15 s, was held for a better runner 15 s, "
        "was prepared 5.0 s, ran 45 s"
    )


def test_a_hold_that_a_claim_ended_is_no_longer_than_the_wait() -> None:
    job = samples.job(
        needs=[],
        queued_at=at(100),
        held_at=at(95),
        held_until=at(80),
        finished_at=at(20),
        attempts=[attempt(1, 90, 90, 20, "finished")],
    )
    assert told(bar_of(job)) == [
        ("waiting", "", 0, 5),
        ("held", "", 5, 5),
        ("running", "succeeded", 10, 70),
    ]


def test_a_lost_attempt_is_not_drawn_as_the_one_that_succeeded() -> None:
    job = samples.job(
        queued_at=at(100),
        finished_at=at(0),
        attempts=[attempt(1, 90, 80, 60, "lost"), attempt(2, 50, 40, 0, "finished")],
    )
    assert [one[:2] for one in told(bar_of(job))] == [
        ("waiting", ""),
        ("preparing", ""),
        ("running", "lost"),
        ("waiting", ""),
        ("preparing", ""),
        ("running", "succeeded"),
    ]


def test_what_is_not_over_reaches_to_now() -> None:
    waits = samples.job(status="queued", queued_at=at(40), finished_at=None, attempts=[])
    assert told(bar_of(waits)) == [("waiting", "", 60, 40)]
    held = samples.job(status="queued", queued_at=at(40), held_at=at(5), finished_at=None, attempts=[])
    assert told(bar_of(held)) == [("waiting", "", 60, 35), ("held", "", 95, 5)]
    fetches = samples.job(
        status="preparing", queued_at=at(40), finished_at=None, attempts=[attempt(1, 30, None, None, "")]
    )
    assert told(bar_of(fetches)) == [("waiting", "", 60, 10), ("preparing", "", 70, 30)]
    blocked = samples.job(status="blocked", needs=["a"], queued_at=None, finished_at=None, attempts=[])
    assert told(bar_of(blocked)) == [("needs", "", 0, 100)]


def test_a_job_that_was_canceled_while_it_waited_waits_no_longer() -> None:
    job = samples.job(status="canceled", queued_at=at(90), finished_at=at(50), attempts=[])
    assert told(bar_of(job)) == [("waiting", "", 10, 40)]


def test_the_axis_has_few_marks_at_whole_steps() -> None:
    for seconds, labels in (
        (0.2, ["0", "1 s"]),
        (47, ["0", "10 s", "20 s", "30 s", "40 s"]),
        (5400, ["0", "15 min", "30 min", "45 min", "1 h", "1 h 15 min", "1 h 30 min"]),
        (86_400 * 40, ["0", "7 d", "14 d", "21 d", "28 d", "35 d"]),
    ):
        run = samples.run(created_at=at(seconds), finished_at=at(0), jobs=[])
        assert [tick.label for tick in spans_of(run, NOW_MS).ticks] == labels


def test_what_needs_a_look_is_counted_first() -> None:
    jobs = [samples.job(id=1), samples.job(id=2), samples.job(id=3, status="failed")]
    assert tally(jobs) == (("failed", 1, 3), ("succeeded", 2, 1))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(run=RUNS)
def test_whatever_the_times_say_parts_follow_one_another_on_the_axis(run: RunView) -> None:
    spans = spans_of(run, NOW_MS)
    assert 1 <= len(spans.ticks) <= MAX_TICKS + 1
    for bar in spans.bars.values():
        end_ms = None
        for part in bar.parts:
            assert 0 <= part.x <= 100
            assert 0 <= part.width <= 100.01 - part.x
            assert part.start_ms < part.end_ms
            assert end_ms is None or part.start_ms >= end_ms
            end_ms = part.end_ms
