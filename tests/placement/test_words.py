"""Figures and lists in words."""

import pytest

from hub.placement.words import duration, listing, ordinal, size, two_sizes


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (21, "21st"),
        (113, "113th"),
    ],
)
def test_places_in_line(number: int, text: str) -> None:
    assert ordinal(number) == text


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (42_000, "42 s"),
        (30_001, "31 s"),
        (119_000, "119 s"),
        (120_000, "2 min"),
        (7_199_000, "119 min"),
        (7_200_000, "2 h"),
        (4 * 86_400_000, "4 days"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_sizes_that_differ_never_read_the_same() -> None:
    assert (size(1023), size(1024), size(3277)) == ("1023 MiB", "1.0 GiB", "3.2 GiB")
    assert two_sizes(3277, 5184) == ("3.2 GiB", "5.1 GiB")
    assert two_sizes(30720, 30721) == ("30720 MiB", "30721 MiB")
    assert two_sizes(30720, 30720) == ("30.0 GiB", "30.0 GiB")


def test_a_list_in_a_sentence_names_five_at_most() -> None:
    assert listing(list("abcde")) == "a, b, c, d, e"
    assert listing(list("abcdef")) == "a, b, c, d, e and 1 more"
