"""A log by pages: every line once, with its number and the step that it is of."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hub.web.ansi import MAX_LINE
from hub.web.lines import PAGE_LINES, Lines, Read, read_page


def reading(log: bytes, piece: int = 65_536) -> Read:
    async def read(offset: int) -> tuple[bytes, int]:
        return log[offset : offset + piece], len(log)

    return read


def shown(found: Lines) -> list[tuple[int | None, str]]:
    return [
        (line.number, "".join(piece.text for piece in line.pieces))
        for fold in found.log.folds
        for line in fold.lines
    ]


async def test_a_page_has_its_lines_and_no_others() -> None:
    log = b"".join(b"line %d\n" % number for number in range(1, 2 * PAGE_LINES + 2))
    for page, first, last in ((1, 1, 1000), (2, 1001, 2000), (3, 2001, 2001)):
        found = await read_page(reading(log), page, final=True)
        assert (found.page, found.pages, found.count) == (page, 3, 2001)
        assert shown(found) == [(number, f"line {number}") for number in range(first, last + 1)]


async def test_an_empty_log_has_one_page_and_one_beyond_the_last_is_the_last() -> None:
    empty = await read_page(reading(b""), 7, final=False)
    assert (empty.page, empty.pages, empty.count, empty.log.folds) == (1, 1, 0, ())
    assert (await read_page(reading(b"a\nb\n"), 10**18, final=True)).page == 1


async def test_a_page_amid_a_step_says_which_and_one_after_it_does_not() -> None:
    lines = [b"##[step 1/2] make all"] + [b"x"] * PAGE_LINES + [b"##[exit 2] 1.0 s"] + [b"y"] * PAGE_LINES
    log = b"\n".join(lines) + b"\n"
    second = await read_page(reading(log, 100), 2, final=True)
    assert [(fold.step, fold.exit_code, len(fold.lines), fold.open) for fold in second.log.folds] == [
        (1, 2, 1, True),
        (0, None, PAGE_LINES - 2, True),
    ]
    assert second.log.folds[0].name[0].text == "make all"
    third = await read_page(reading(log), 3, final=True)
    assert [(fold.step, len(fold.lines)) for fold in third.log.folds] == [(0, 2)]


async def test_a_line_that_has_not_ended_is_shown_once_the_log_is_final() -> None:
    assert shown(await read_page(reading(b"a\nb"), 1, final=False)) == [(1, "a")]
    assert shown(await read_page(reading(b"a\nb"), 1, final=True)) == [(1, "a"), (2, "b")]


async def test_a_line_of_many_mebibytes_is_cut_and_says_so() -> None:
    log = b"a\n" + b"x" * 5_000_000 + b"\nb\n"
    lines = shown(await read_page(reading(log), 1, final=True))
    assert [number for number, _ in lines] == [1, 2, 3]
    assert lines[1][1].startswith("x" * MAX_LINE + " … the line is longer")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([b"a", b"", b"##[step 1/2] s", b"##[exit 0] 1 s", b"\xff"]), max_size=40),
    st.integers(1, 50),
    st.booleans(),
)
async def test_whatever_the_pieces_are_every_line_is_counted_once(
    lines: list[bytes], piece: int, ended: bool
) -> None:
    log = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    found = await read_page(reading(log, piece), 1, final=True)
    whole = log.count(b"\n") + (bool(log) and not log.endswith(b"\n"))
    assert found.count == whole
    markers = sum((fold.step > 0) + (fold.exit_code is not None) for fold in found.log.folds)
    assert len(shown(found)) + markers == whole
