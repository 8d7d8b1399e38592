"""A log as a page shows it: its last lines, folded by the step markers that the runner writes.

`##[step 2/3] make` opens a fold, `##[exit 0] 1.2 s` closes it. A job may print such a line itself:
then it folds its own log oddly and nothing worse, for a marker decides nothing but folding.
`templates/static/js/log.js` goes on from where this stopped, with the pen and the offset told in
attributes, and builds the same elements.
"""

import re
from dataclasses import dataclass, field

from hub.web.ansi import PLAIN, Pen, Piece, draw

MAX_LINES = 1000  # lines on a page: ten screens; more make it slow, and the script fetches what is asked for
TAIL_BYTES = 2**18  # read for a page: MAX_LINES lines of 250 bytes

STEP = re.compile(r"##\[step ([0-9]{1,4})/([0-9]{1,4})\] ?(.*)")
EXIT = re.compile(r"##\[exit (-?[0-9]{1,4})\] ?(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line. `number` counts from 1 at the log's start; None where its start was not read."""

    number: int | None
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Lines of one step; `step` 0: lines that stand outside of steps. `exit_code` None: not ended."""

    step: int
    steps: int
    name: tuple[Piece, ...]
    exit_code: int | None
    took: str
    lines: tuple[Line, ...]
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What is shown, and what a script needs to go on.

    `offset`: bytes of the log that are on the page, counted from its start. `dropped`: some lines
    before the first one shown are not on the page.
    """

    folds: tuple[Fold, ...]
    offset: int
    total: int
    dropped: bool
    pen: str
    next_number: int | None


@dataclass(slots=True)
class _Open:
    """A fold that is being filled."""

    step: int = 0
    steps: int = 0
    name: tuple[Piece, ...] = ()
    exit_code: int | None = None
    took: str = ""
    lines: list[Line] = field(default_factory=list)


def fold(
    tail: bytes,
    *,
    start: int,
    total: int,
    final: bool,
    first: int = 1,
    within: bytes = b"",
    opened: bool = False,
) -> Log:
    """The log whose bytes from `start` to `total` are `tail`.

    `first`: the number of its first line, `within`: the marker of the step that this stands in, where it
    is the middle of a log. `opened`: every fold is open, for a reader without scripts.
    Unless `final`, what follows the last newline is left to the stream, which sends it again whole.
    Where `start` is not 0 the first, torn line is dropped.
    """
    text, offset, torn = _whole_lines(tail, start, final)
    lines = text.split("\n")
    if lines and not lines[-1]:
        lines.pop()
    dropped = torn or len(lines) > MAX_LINES
    number = None if torn else max(0, len(lines) - MAX_LINES) + first
    pen = PLAIN
    open_folds = [_Open()]
    if within:
        _place(open_folds, within.decode("utf-8", "replace"), pen, None)
    for raw in lines[: -MAX_LINES or None] if len(lines) > MAX_LINES else ():
        pen = draw(raw, pen)[1]
    for raw in lines[-MAX_LINES:]:
        pen, number = _place(open_folds, raw, pen, number)
    folds = [part for part in open_folds if part.lines or part.step]
    return Log(
        folds=tuple(_close(part, is_open=opened or part is folds[-1]) for part in folds),
        offset=offset,
        total=max(total, offset),
        dropped=dropped,
        pen=pen.classes,
        next_number=number,
    )


def _whole_lines(tail: bytes, start: int, final: bool) -> tuple[str, int, bool]:
    """Text that begins and ends at line ends, the offset after it, and whether its start is missing."""
    torn = start > 0
    end = len(tail) if final else tail.rfind(b"\n") + 1
    begin = 0
    if torn:
        newline = tail.find(b"\n", 0, end)
        begin = newline + 1 if newline >= 0 else 0
    return tail[begin:end].decode("utf-8", "replace"), start + end, torn


def _place(folds: list[_Open], raw: str, pen: Pen, number: int | None) -> tuple[Pen, int | None]:
    pieces, after = draw(raw, pen)
    plain = "".join(piece.text for piece in pieces)
    following = None if number is None else number + 1
    if marker := STEP.fullmatch(plain):
        name, _ = draw(marker[3])
        folds.append(_Open(step=int(marker[1]), steps=int(marker[2]), name=name))
        return PLAIN, following  # a step does not inherit the colours of the one before
    if (marker := EXIT.fullmatch(plain)) and folds[-1].step and folds[-1].exit_code is None:
        folds[-1].exit_code, folds[-1].took = int(marker[1]), marker[2]
        folds.append(_Open())
        return PLAIN, following
    folds[-1].lines.append(Line(number=number, pieces=pieces))
    return after, following


def _close(part: _Open, *, is_open: bool) -> Fold:
    """Open is what one looks for: a step that failed or that runs, and the last one."""
    return Fold(
        step=part.step,
        steps=part.steps,
        name=part.name,
        exit_code=part.exit_code,
        took=part.took,
        lines=tuple(part.lines),
        open=is_open or part.exit_code != 0,
    )
