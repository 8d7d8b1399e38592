"""Figures and times as words."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.web import words

NOON = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("span_ms", "said"),
    [
        (-5, "0.0 s"),
        (0, "0.0 s"),
        (449, "0.4 s"),
        (9_999, "9.9 s"),
        (10_000, "10 s"),
        (59_999, "59 s"),
        (60_000, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (3_600_000, "1 h 00 min"),
        (86_399_000, "23 h 59 min"),
        (86_400_000 * 3 + 3_600_000 * 4, "3 d 4 h"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(span_ms: int, said: str) -> None:
    assert words.duration(span_ms) == said


@pytest.mark.parametrize(
    ("seconds_ago", "said"),
    [
        (-60, "just now"),
        (4, "just now"),
        (5, "5 s ago"),
        (59, "59 s ago"),
        (61, "1 min ago"),
        (7200, "2 h ago"),
        (86_400 * 2, "2 d ago"),
        (86_400 * 30, "2026-11-01"),
    ],
)
def test_an_age_is_said_in_one_unit_and_past_a_month_as_a_date(seconds_ago: int, said: str) -> None:
    moment = NOON - timedelta(seconds=seconds_ago)
    assert words.age(moment, words.epoch_ms(NOON)) == said


def test_a_span_without_an_end_reaches_to_now() -> None:
    start = NOON - timedelta(seconds=42)
    assert words.span(start, None, words.epoch_ms(NOON)) == "42 s"
    assert words.span(start, start + timedelta(seconds=11), words.epoch_ms(NOON)) == "11 s"


def test_a_time_is_told_in_utc_whatever_its_zone() -> None:
    local = datetime.fromisoformat("2026-12-01T14:00:00.250+02:00")
    assert words.iso(local) == "2026-12-01T12:00:00.250Z"
    assert words.full(local) == "1 Dec 2026, 12:00:00 UTC"
    assert words.iso(local.replace(tzinfo=None)) == "2026-12-01T14:00:00.250Z"


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (48_213, "47.1 KiB"),
        (1_048_575, "1.0 MiB"),
        (102_300, "99.9 KiB"),
        (102_400, "100 KiB"),
        (831_520_768, "793 MiB"),
        (2**60 * 2000, "2000 EiB"),
    ],
)
def test_a_size_is_said_in_the_unit_that_keeps_it_short(count: int, said: str) -> None:
    assert words.size(count) == said


def test_mebibytes_become_gibibytes_where_they_are_many() -> None:
    assert [words.mib(count) for count in (0, 512, 1024, 2048, 31_757)] == [
        "0 MiB",
        "512 MiB",
        "1 GiB",
        "2 GiB",
        "31.0 GiB",
    ]


def test_one_is_singular() -> None:
    assert [words.plural(count, "job") for count in (0, 1, 2)] == ["0 jobs", "1 job", "2 jobs"]


@given(st.text())
def test_what_is_shown_has_no_character_that_could_forge(text: str) -> None:
    shown = words.shown(text)
    assert len(shown) == len(text)
    assert not any(
        (ord(each) < 32 and each not in "\t\n\r")
        or 0x7F <= ord(each) <= 0x9F
        or 0xD800 <= ord(each) <= 0xDFFF
        for each in shown
    )
    assert not set(shown) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
