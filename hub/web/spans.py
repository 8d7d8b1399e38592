"""Where a run's time went: one bar per job, in parts, on one axis from the run's submission to its end.

Pure: views and the time in, figures for an SVG out, in percent of the axis. The parts of a bar follow
one another and never overlap; what stands on the axis is also said in words, for whoever does not see
it. Nothing here judges why a job waited: that is `waiting`'s headline.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from hub.web.words import duration, epoch_ms
from hub.wire.runs import FINAL, AttemptView, JobView, RunView

# What a job's time goes to, in the order in which it comes, with the word before its length.
SAID = {
    "needs": "waited for what it needs",
    "waiting": "waited for a runner",
    "held": "was held for a better runner",
    "preparing": "was prepared",
    "running": "ran",
}
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)
MAX_TICKS = 6  # on an axis: so many labels stand apart on a phone
MIN_SAID_MS = 50  # below it a duration is said to be 0.0 s
MIN_AXIS_MS = 1000  # a run that ended at once still has an axis


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a bar. `tone`: of `running`, how it ended, as a status. `x`, `width`: percent."""

    kind: str
    tone: str
    start_ms: int
    end_ms: int
    x: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """How long a job's time went to one kind, over all attempts."""

    kind: str
    words: str
    took: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One job's time. `text`: the same in words."""

    parts: tuple[Part, ...]
    spent: tuple[Spent, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A mark on the axis, `x` percent from its start."""

    x: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Spans:
    """The bars of a run by job id, and the marks of their axis."""

    bars: dict[int, Bar]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axis:
    start_ms: int
    length_ms: int

    def percent(self, at_ms: int) -> float:
        share = 100 * (at_ms - self.start_ms) / self.length_ms
        return round(min(100.0, max(0.0, share)), 2)


def spans_of(run: RunView, now_ms: int) -> Spans:
    """The bars of all jobs of `run`. An attempt that is out reaches to now."""
    start_ms = epoch_ms(run.created_at)
    end_ms = now_ms if run.finished_at is None else epoch_ms(run.finished_at)
    axis = _Axis(start_ms=start_ms, length_ms=max(MIN_AXIS_MS, end_ms - start_ms))
    return Spans(
        bars={job.id: _bar(job, axis, max(now_ms, start_ms)) for job in run.jobs}, ticks=_ticks(axis)
    )


def _bar(job: JobView, axis: _Axis, now_ms: int) -> Bar:
    parts = tuple(
        Part(
            kind=kind,
            tone=tone,
            start_ms=start_ms,
            end_ms=end_ms,
            x=axis.percent(start_ms),
            width=round(axis.percent(end_ms) - axis.percent(start_ms), 2),
        )
        for kind, tone, start_ms, end_ms in _stretches(job, axis.start_ms, now_ms)
        if end_ms > start_ms
    )
    totals = {kind: sum(one.end_ms - one.start_ms for one in parts if one.kind == kind) for kind in SAID}
    spent = tuple(
        Spent(kind=kind, words=SAID[kind], took=duration(total))
        for kind, total in totals.items()
        if total >= MIN_SAID_MS
    )
    text = ", ".join(f"{one.words} {one.took}" for one in spent)
    return Bar(parts=parts, spent=spent, text=text or "no time yet")


def _stretches(job: JobView, created_ms: int, now_ms: int) -> Iterator[tuple[str, str, int, int]]:
    """Kind, tone, start and end of all that the job's time went to, in order."""
    end_ms = _ms(job.finished_at, now_ms)
    queued_ms = _ms(job.queued_at, end_ms)
    if job.needs:
        yield "needs", "", created_ms, queued_ms
    if job.queued_at is None:
        return
    free_ms = queued_ms  # since when nobody has had it
    for attempt in job.attempts:
        assigned_ms = max(free_ms, epoch_ms(attempt.assigned_at))
        yield from _waiting(job, free_ms, assigned_ms, now_ms)
        over_ms = max(assigned_ms, _ms(attempt.ended_at, end_ms))
        running_ms = min(over_ms, max(assigned_ms, _ms(attempt.started_at, over_ms)))
        yield "preparing", "", assigned_ms, running_ms
        yield "running", _tone(job, attempt), running_ms, over_ms
        free_ms = over_ms
    if not _is_out(job):
        yield from _waiting(job, free_ms, end_ms, now_ms)


def _waiting(job: JobView, start_ms: int, end_ms: int, now_ms: int) -> Iterator[tuple[str, str, int, int]]:
    """The waiting from `start_ms` to `end_ms`, the hold in it told apart."""
    since_ms = _ms(job.held_at, end_ms)
    until_ms = _ms(job.held_until, now_ms)
    begins_ms = min(end_ms, max(start_ms, since_ms))
    ends_ms = min(end_ms, max(begins_ms, until_ms))
    yield "waiting", "", start_ms, begins_ms
    yield "held", "", begins_ms, ends_ms
    yield "waiting", "", ends_ms, end_ms


def _is_out(job: JobView) -> bool:
    """Whether the newest attempt is what the job's time ends with."""
    newest = job.attempts[-1] if job.attempts else None
    return newest is not None and (newest.ended_at is None or job.status in FINAL)


def _tone(job: JobView, attempt: AttemptView) -> str:
    """How an attempt ended, as a status: the newest as its job did, an earlier one was given up."""
    if attempt is job.attempts[-1] and (attempt.ended_at is None or job.status in FINAL):
        return job.status
    return "lost"


def _ms(moment: datetime | None, otherwise_ms: int) -> int:
    return otherwise_ms if moment is None else epoch_ms(moment)


def _ticks(axis: _Axis) -> tuple[Tick, ...]:
    """Marks at whole steps, the smallest step that needs no more than MAX_TICKS of them."""
    length_s = axis.length_ms / 1000
    step_s = next((step for step in STEPS_S if length_s / step <= MAX_TICKS), 0)
    if not step_s:
        step_s = STEPS_S[-1] * -(-int(length_s) // (STEPS_S[-1] * MAX_TICKS))
    marks = range(0, int(length_s) + 1, step_s)
    return tuple(Tick(x=axis.percent(axis.start_ms + mark * 1000), label=_label(mark)) for mark in marks)


def _label(seconds: int) -> str:
    """`0`, `30 s`, `5 min`, `1 h 30 min`: a whole mark needs no second unit."""
    if not seconds:
        return "0"
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    units = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{count} {unit}" for count, unit in units if count)


def tally(jobs: Sequence[JobView]) -> tuple[tuple[str, int, int], ...]:
    """Status, how many jobs have it, and the first of them: what needs a look before what is well."""
    counts: dict[str, list[int]] = {}
    for job in jobs:
        counts.setdefault(job.status, []).append(job.id)
    return tuple((status, len(counts[status]), counts[status][0]) for status in _ORDER if status in counts)


_ORDER = (
    "error", "failed", "timed_out", "running", "preparing", "assigned", "canceling", "queued", "blocked",
    "succeeded", "canceled", "skipped",
)  # fmt: skip
