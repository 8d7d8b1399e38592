"""The day behind the queue as a drawing: where each bar stands, and the same in words and figures.

Pure: a day goes in, percent and pixels come out, which a template puts into the attributes of an SVG;
no style is needed, and whoever sees no drawing has the sentences and the table.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from hub.service.queue_day import Day
from hub.web.words import duration, plural

HEIGHT = 72.0  # pixels of the tallest bar
GAP = 0.15  # of a bar's width, to the next
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar. `x`, `width`: percent of the whole; `y`, `height`: pixels from the top."""

    x: float
    width: float
    y: float
    height: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """A row of the table. `most`: jobs that waited at the end of any quarter; None: nobody took a job."""

    at: str
    most: int
    taken: int
    mean: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Two rows of bars over one axis of time, with a sentence for each. `empty`: nothing waited all day."""

    length: tuple[Bar, ...]
    waits: tuple[Bar, ...]
    length_words: str
    waits_words: str
    hours: tuple[Hour, ...]
    ticks: tuple[str, ...]
    empty: bool


def chart_of(day: Day) -> Chart:
    """The drawing of a day."""
    buckets = day.buckets
    longest = max((one.waiting for one in buckets), default=0)
    slowest = max((one.mean_ms or 0 for one in buckets), default=0)
    step = 100 / max(1, len(buckets))
    length = [
        _bar(at, step, one.waiting, longest, f"{clock(one.start_ms)}: {plural(one.waiting, 'job')} waiting")
        for at, one in enumerate(buckets)
        if one.waiting
    ]
    waits = [
        _bar(at, step, one.mean_ms, slowest, f"{clock(one.start_ms)}: {duration(one.mean_ms)} on average")
        for at, one in enumerate(buckets)
        if one.mean_ms
    ]
    return Chart(
        length=tuple(length),
        waits=tuple(waits),
        length_words=_length_words(day, longest),
        waits_words=_waits_words(day),
        hours=_hours(day),
        ticks=tuple(clock(buckets[len(buckets) * part // 4].start_ms) for part in range(4))
        if buckets
        else (),
        empty=not any(one.waiting or one.taken for one in buckets),
    )


def clock(at_ms: int) -> str:
    """`14:15`, in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M}"


def _bar(at: int, step: float, value: int, top: int, words: str) -> Bar:
    height = max(2.0, round(HEIGHT * value / top, 1))  # what is there can be seen
    return Bar(
        x=round(at * step, 3),
        width=round(step * (1 - GAP), 3),
        y=round(HEIGHT - height, 1),
        height=height,
        words=words,
    )


def _length_words(day: Day, longest: int) -> str:
    if not longest:
        return "Nothing has waited for longer than a moment."
    peak = next(one for one in day.buckets if one.waiting == longest)
    return f"{plural(day.buckets[-1].waiting, 'job')} now, {longest} at most, at {clock(peak.start_ms)} UTC"


def _waits_words(day: Day) -> str:
    taken = sum(one.taken for one in day.buckets)
    if not taken:
        return "No job was taken by a runner."
    total_ms = sum((one.mean_ms or 0) * one.taken for one in day.buckets)
    most_ms = max(one.most_ms or 0 for one in day.buckets)
    mean, most = duration(total_ms // taken), duration(most_ms)
    return f"{plural(taken, 'job')} taken, after {mean} on average, {most} at most"


def _hours(day: Day) -> tuple[Hour, ...]:
    """Hour by hour, the latest first."""
    grouped: dict[int, list[int]] = {}
    for at, one in enumerate(day.buckets):
        grouped.setdefault(one.start_ms // HOUR_MS, []).append(at)
    rows = []
    for hour, members in sorted(grouped.items(), reverse=True):
        some = [day.buckets[at] for at in members]
        taken = sum(one.taken for one in some)
        total_ms = sum((one.mean_ms or 0) * one.taken for one in some)
        rows.append(
            Hour(
                at=clock(hour * HOUR_MS),
                most=max(one.waiting for one in some),
                taken=taken,
                mean=duration(total_ms // taken) if taken else None,
            )
        )
    return tuple(rows)
