"""Figures and times as words: pure functions, the time always an argument.

`templates/static/js/words.js` says `elapsed` and `age` the same way, so that a figure that ticks in
a browser does not change its form; a test holds the two together. None is shown as a dash by the
templates, never as 0.
"""

import re
from datetime import UTC, datetime
from urllib.parse import quote

# What could forge the text around it on a page: controls and bidirectional overrides.
_UNSAFE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86_400
_MAX_AGE_S = 30 * _DAY_S  # beyond this a date says more than a count of days


def shown(text: str) -> str:
    """`text` with every control character, bidirectional override and lone surrogate as U+FFFD."""
    return _UNSAFE.sub("\ufffd", text)


def epoch_ms(moment: datetime) -> int:
    """Milliseconds since 1970; a time without a zone is UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def iso(moment: datetime) -> str:
    """RFC 3339 in UTC with milliseconds, as `<time datetime>` and the scripts read it."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def full(moment: datetime) -> str:
    """For a person: `1 Dec 2026, 02:33:52 UTC`."""
    aware = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    return f"{aware.day} {aware:%b %Y, %H:%M:%S} UTC"


def duration(span_ms: int) -> str:
    """`4.2 s`, `42 s`, `3 min 05 s`, `2 h 05 min`, `3 d 4 h`; a negative span is 0."""
    tenths = max(0, span_ms) // 100
    if tenths < 100:
        return f"{tenths // 10}.{tenths % 10} s"
    seconds = tenths // 10
    if seconds < _MINUTE_S:
        return f"{seconds} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S} min {seconds % _MINUTE_S:02d} s"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S} h {seconds % _HOUR_S // _MINUTE_S:02d} min"
    return f"{seconds // _DAY_S} d {seconds % _DAY_S // _HOUR_S} h"


def elapsed(span_ms: int) -> str:
    """A duration that still grows, in whole seconds: `4 s`, `3 min 05 s`; a negative span is 0."""
    seconds = max(0, span_ms) // 1000
    return f"{seconds} s" if seconds < _MINUTE_S else duration(1000 * seconds)


def span(start: datetime, end: datetime | None, now_ms: int) -> str:
    """The duration from `start` to `end`; what has elapsed up to now where `end` is None."""
    if end is None:
        return elapsed(now_ms - epoch_ms(start))
    return duration(epoch_ms(end) - epoch_ms(start))


def age(moment: datetime, now_ms: int) -> str:
    """`just now`, `12 s ago`, `5 min ago`, `3 h ago`, `2 d ago`; past 30 days the date."""
    seconds = max(0, now_ms - epoch_ms(moment)) // 1000
    if seconds < 5:
        return "just now"
    if seconds < _MINUTE_S:
        return f"{seconds} s ago"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S} min ago"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S} h ago"
    if seconds < _MAX_AGE_S:
        return f"{seconds // _DAY_S} d ago"
    return iso(moment)[:10]


def size(count: int) -> str:
    """Bytes: `12 B`, `1.2 KiB`, `340 MiB`, in the unit that keeps it short."""
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        value /= 1024
        if value < 1023.5 or unit == "EiB":
            return f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"
    raise AssertionError("unreachable: EiB ends the loop")


def mib(count: int) -> str:
    """MiB: `512 MiB`, `2 GiB`, `31.0 GiB`; whole gibibytes without a decimal."""
    if abs(count) < 1024:
        return f"{count} MiB"
    return f"{count // 1024} GiB" if count % 1024 == 0 else f"{count / 1024:.1f} GiB"


def seconds(value: float) -> str:
    """A duration told in seconds."""
    return duration(round(value * 1000))


def percent(rate: float) -> str:
    """A part of a whole, 0 to 1: `0 %`, `87.4 %`, `100 %`; what is not all of it is never shown as 100."""
    tenths = int(rate * 1000 + 0.5)
    if rate < 1:
        tenths = min(tenths, 999)
    return f"{tenths // 10} %" if tenths % 10 == 0 else f"{tenths / 10:.1f} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 job`, `2 jobs`; `many` where an s does not do."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def address(text: str) -> str:
    """`text` as a part of an address; slashes stay, as they part the names of a path."""
    return quote(text, errors="replace")


def words(status: str) -> str:
    """A status as a person reads it: `timed_out` is `timed out`."""
    return status.replace("_", " ")
