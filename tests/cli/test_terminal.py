import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.terminal import Filter, Paint, json_safe, one_line, wants_colour

SGR = re.compile(r"\x1b\[[0-9;:]*m")
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# Random text seldom makes an escape sequence: build from pieces of them, and of what breaks them.
CHARACTERS = list("\x1b[]m;:8?P^\\\x9b\x9d\x9c\x07\r\n\t\x00\u202e\ud800 aé")
SEQUENCES = ["31", "38;5;1", "\x1b[0m", "\x1b[1;31m", "\x1b]0;t\x07", "\x1b(B"]
PIECES = st.sampled_from([*CHARACTERS, *SEQUENCES])
TEXTS = st.one_of(st.lists(PIECES, max_size=30).map("".join), st.text(st.characters(), max_size=60))


def filtered(*pieces: str, colour: bool = True) -> str:
    screen = Filter(colour=colour)
    return "".join(screen.feed(piece) for piece in pieces) + screen.close()


@given(st.lists(TEXTS, max_size=6))
def test_no_escape_but_a_whole_colour_sequence_ever_comes_out(pieces: list[str]) -> None:
    shown = filtered(*pieces)
    assert BAD.search(SGR.sub("", shown)) is None


@given(st.lists(TEXTS, max_size=6))
def test_without_colours_no_escape_comes_out_at_all(pieces: list[str]) -> None:
    assert BAD.search(filtered(*pieces, colour=False)) is None


@given(TEXTS, st.data())
def test_where_the_pieces_are_cut_changes_nothing(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=5)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert filtered(*pieces) == filtered(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=80))
def test_plain_text_comes_out_as_it_is(text: str) -> None:
    assert filtered(text) == text == one_line(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "a\x1b[31mred\x1b[0m"),
        ("\x1b[38;5;196mx\x1b[m", "\x1b[38;5;196mx\x1b[m"),
        ("\x1b[38;2;1;2;3mx\x1b[0m", "\x1b[38;2;1;2;3mx\x1b[0m"),
        ("\x1b[38;5;8mx\x1b[0m", "\x1b[38;5;8mx\x1b[0m"),  # colour 8, not "conceal"
        ("\x1b[1;8mhidden\x1b[0m", "\x1b[1mhidden\x1b[0m"),
        ("\x1b[08mhidden", "hidden"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x1b]0;a title\x07b", "b"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPq#0\x1b\\sixel", "sixel"),
        ("\x9b31mred", "\x1b[31mred\x1b[0m"),
        ("\x1b(Bx", "x"),
        ("\x1b[?25lx", "x"),
        ("\x1b[>4;1mx", "x"),
        ("10 %\r20 %\r\ndone\r", "10 %\n20 %\ndone\n"),
        ("a\bb\x07c", "abc"),
        ("safe\u202efdp.exe", "safe\ufffdfdp.exe"),
        ("\x1b]0;never ended\nnext line", "\nnext line"),
        ("colour left on \x1b[31m", "colour left on \x1b[31m\x1b[0m"),
        ("cut off \x1b[3", "cut off "),
    ],
)
def test_what_a_log_may_do_to_a_terminal(text: str, shown: str) -> None:
    assert filtered(text) == shown


def test_an_escape_that_never_ends_does_not_eat_the_log() -> None:
    shown = filtered("\x1b]" + "x" * 10_000, "\nthe test failed\n")
    assert shown.endswith("the test failed\n")


@given(TEXTS)
def test_one_line_is_one_line(text: str) -> None:
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", one_line(text))


def test_json_keeps_its_meaning_and_loses_what_acts_on_a_terminal() -> None:
    assert json_safe('{"a": "é\u202e\x9b"}') == '{"a": "é\\u202e\\u009b"}'


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_go_only_to_a_terminal_that_wants_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour(_Terminal())
    assert not wants_colour(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(_Terminal())
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(_Terminal())


def test_paint_off_gives_the_text_as_it_is() -> None:
    assert Paint(False)("bad", "x") == "x"
    assert Paint(True)("bad", "x") == "\x1b[31mx\x1b[0m"
    assert Paint(True)("", "x") == "x"
