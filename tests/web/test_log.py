"""A log's lines in folds, and where a script goes on."""

from hypothesis import given
from hypothesis import strategies as st

from hub.web.log import MAX_LINES, Fold, Log, fold


def folded(text: str, *, final: bool = True, start: int = 0) -> Log:
    tail = text.encode()
    return fold(tail, start=start, total=start + len(tail), final=final)


def lines(part: Fold) -> list[str]:
    return ["".join(piece.text for piece in line.pieces) for line in part.lines]


def test_the_lines_of_a_step_lie_in_its_fold() -> None:
    log = folded(
        "hello\n##[step 1/2] make all\none\ntwo\n##[exit 0] 1.2 s\n"
        "##[step 2/2] ./verify\nbad\n##[exit 3]\nbye\n"
    )
    assert [(part.step, lines(part), part.exit_code, part.took) for part in log.folds] == [
        (0, ["hello"], None, ""),
        (1, ["one", "two"], 0, "1.2 s"),
        (2, ["bad"], 3, ""),
        (0, ["bye"], None, ""),
    ]
    assert [part.open for part in log.folds] == [True, False, True, True]


def test_the_last_step_is_open_even_where_it_succeeded() -> None:
    log = folded("##[step 1/2] a\n##[exit 0] 1 s\n##[step 2/2] b\nx\n##[exit 0] 1 s\n")
    assert [part.open for part in log.folds] == [False, True]


def test_a_marker_amid_a_line_is_text() -> None:
    log = folded("see ##[step 1/2] make\n##[exit 0] not in a step\n")
    assert [lines(part) for part in log.folds] == [["see ##[step 1/2] make", "##[exit 0] not in a step"]]


def test_a_step_does_not_inherit_the_colour_that_another_left_on() -> None:
    log = folded("##[step 1/2] a\n\x1b[31mred\n##[exit 1]\n##[step 2/2] b\nplain\n")
    assert log.folds[0].lines[0].pieces[0].classes == "f1"
    assert log.folds[1].lines[0].pieces[0].classes == ""


def test_a_line_that_has_not_ended_is_left_to_the_stream() -> None:
    log = folded("whole\nhal", final=False)
    assert [lines(part) for part in log.folds] == [["whole"]]
    assert (log.offset, log.total, log.next_number) == (6, 9, 2)


def test_a_final_log_shows_its_last_line_without_a_newline() -> None:
    log = folded("whole\nhal")
    assert lines(log.folds[0]) == ["whole", "hal"]
    assert log.offset == log.total == 9


def test_a_tail_begins_with_its_first_whole_line_and_has_no_numbers() -> None:
    log = folded("rn line\nwhole\n", start=1000)
    assert lines(log.folds[0]) == ["whole"]
    assert log.dropped
    assert log.folds[0].lines[0].number is None
    assert log.next_number is None
    assert log.offset == 1014


def test_of_too_many_lines_the_last_are_shown_with_their_numbers_and_colours() -> None:
    log = folded("\x1b[32mgreen\n" + "x\n" * MAX_LINES)
    shown = log.folds[0].lines
    assert len(shown) == MAX_LINES
    assert log.dropped
    assert shown[0].number == 2
    assert shown[0].pieces[0].classes == "f2"
    assert (log.pen, log.next_number) == ("f2", MAX_LINES + 2)


def test_nothing_is_no_fold_at_all() -> None:
    log = folded("", final=False)
    assert (log.folds, log.offset, log.next_number, log.dropped) == ((), 0, 1, False)


def test_bytes_that_are_not_text_are_shown_as_such() -> None:
    log = fold(b"\xff\xfe\n", start=0, total=3, final=True)
    assert lines(log.folds[0]) == ["\ufffd\ufffd"]
    assert log.offset == 3


@given(st.binary(max_size=300), st.booleans())
def test_every_line_that_has_ended_is_shown_once(tail: bytes, final: bool) -> None:
    log = fold(tail, start=0, total=len(tail), final=final)
    markers = sum((part.step > 0) + (part.exit_code is not None) for part in log.folds)
    shown = sum(len(part.lines) for part in log.folds)
    ended = tail.count(b"\n") + (final and bool(tail) and not tail.endswith(b"\n"))
    assert shown + markers == ended
    assert log.offset == (len(tail) if final else tail.rfind(b"\n") + 1)
