"""Colours of log lines as class names."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.web.ansi import MAX_LINE, PLAIN, Pen, Piece, draw
from tests.web.samples import FRAGMENTS_OF_LINES

CLASSES = re.compile(r"(?:cut|(?:[bdiusv]|[fk](?:[0-9]|1[0-5]))(?: (?:[bdiusv]|[fk](?:[0-9]|1[0-5])))*)?")
FRAGMENTS = st.sampled_from(FRAGMENTS_OF_LINES)
LINES = st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=20).map(
    lambda parts: "".join(parts).replace("\n", "")
)


def drawn(line: str) -> list[tuple[str, str]]:
    return [(piece.classes, piece.text) for piece in draw(line)[0]]


@pytest.mark.parametrize(
    ("line", "pieces"),
    [
        ("plain", [("", "plain")]),
        ("", []),
        ("\x1b[31mred\x1b[0m plain", [("f1", "red"), ("", " plain")]),
        ("\x1b[1;91;42mall\x1b[m.", [("b f9 k2", "all"), ("", ".")]),
        ("\x1b[1mb\x1b[31mr\x1b[22mn\x1b[39mp", [("b", "b"), ("b f1", "r"), ("f1", "n"), ("", "p")]),
        ("\x1b[38;5;9mx", [("f9", "x")]),
        ("\x1b[38;5;196mx", [("f9", "x")]),
        ("\x1b[48;5;232mx", [("k0", "x")]),
        ("\x1b[38;2;0;128;0mx", [("f2", "x")]),
        ("\x1b[38:2::0:0:255mx", [("f12", "x")]),
        ("\x1b[38;2;0;0;255;1mx", [("b f12", "x")]),
        ("\x1b[38;5;300;1mx", [("b", "x")]),
        ("\x1b[4:3mx\x1b[4:0my", [("u", "x"), ("", "y")]),
        ("\x1b[>4;1mx", [("", "x")]),
        ("a\x1b[2Kb\x1b[10;5Hc", [("", "abc")]),
        ("\x1b]0;title\x07seen", [("", "seen")]),
        ("\x1b]8;;https://a\x1b\\link\x1b]8;;\x1b\\", [("", "link")]),
        ("cut off \x1b[3", [("", "cut off ")]),
        ("10%\r50%\r100%", [("", "100%")]),
        ("done\r", [("", "done")]),
        ("\x1b[32mdone\r\x1b[K", [("f2", "done")]),
        ("bell\x07 nul\x00 back\x08", [("", "bell nul back")]),
        ("tab\tstays", [("", "tab\tstays")]),
        ("\u202egnp.exe", [("", "\ufffdgnp.exe")]),
    ],
)
def test_a_line_is_drawn_with_the_classes_of_its_escapes(line: str, pieces: list[tuple[str, str]]) -> None:
    assert drawn(line) == pieces


def test_a_colour_that_is_not_ended_goes_on_in_the_next_line() -> None:
    _, pen = draw("\x1b[1;34mblue")
    assert draw("still", pen) == ((Piece(classes="b f4", text="still"),), Pen(marks="b", letters=4))


def test_a_colour_set_before_a_carriage_return_stays_set() -> None:
    assert drawn("\x1b[31ma\rb") == [("f1", "b")]


def test_a_line_that_is_too_long_is_cut_and_says_so() -> None:
    pieces, pen = draw("x" * (MAX_LINE + 1) + "\x1b[31m")
    assert len(pieces[0].text) == MAX_LINE
    assert pieces[1].classes == "cut"
    assert pen == PLAIN
    assert drawn("x" * MAX_LINE) == [("", "x" * MAX_LINE)]


@given(LINES)
def test_whatever_a_line_holds_its_pieces_are_text_and_known_classes(line: str) -> None:
    pieces, pen = draw(line)
    for piece in pieces:
        assert piece.text
        assert CLASSES.fullmatch(piece.classes)
        assert not re.search(
            "[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", piece.text
        )
    assert CLASSES.fullmatch(pen.classes)
    assert all(one.classes != two.classes for one, two in pairwise(pieces))


@given(st.text(alphabet=st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), max_size=200))
def test_plain_text_is_drawn_as_it_is(text: str) -> None:
    assert "".join(piece.text for piece in draw(text)[0]) == text


@given(LINES, LINES)
def test_a_line_drawn_in_two_parts_at_a_carriage_return_ends_with_the_same_pen(one: str, two: str) -> None:
    assert draw(f"{one}\r{two}")[1] == draw(two, draw(one)[1])[1]
