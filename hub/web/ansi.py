"""A log line's colours: SGR escapes become class names, everything else that steers a terminal goes.

`templates/static/js/ansi.js` does the same in the browser, rule for rule; a test feeds both. Never
an inline style (the content security policy forbids it), never markup: a piece is text with class
names from the closed set below. Rendering a line is pure: line and pen in, pieces and pen out.

Class names: b bold, d dim, i italic, u underlined, s struck, v inverse, f0-f15 the colour of the
letters, k0-k15 of the ground. 256 and 24-bit colours become the nearest of the 16, which the style
sheet sets so that they can be read on a light and on a dark ground.
"""

import re
from dataclasses import dataclass, replace

MAX_LINE = 10_000  # characters of one line that are shown: a longer one is data, and stalls browsers

_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ESCAPE = re.compile(
    "\x1b\\[([0-?]*)[ -/]*([@-~])?"  # CSI, whole or cut off at the end
    "|\x1b[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?"  # OSC, DCS and the like, with all they carry
    "|\x1b[ -/]*[0-~]?"
)
_ATTRIBUTES = {1: "b", 2: "d", 3: "i", 4: "u", 7: "v", 9: "s"}
_ENDS = {21: "b", 22: "bd", 23: "i", 24: "u", 27: "v", 29: "s"}
_ORDER = "bdiusv"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """How what follows is drawn. `letters`, `ground`: 0 to 15; None: as the page has it."""

    marks: str = ""  # a subset of "bdiusv", in that order
    letters: int | None = None
    ground: int | None = None

    @property
    def classes(self) -> str:
        """Class names, blank-separated, always in the same order; empty: plain."""
        names = list(self.marks)
        if self.letters is not None:
            names.append(f"f{self.letters}")
        if self.ground is not None:
            names.append(f"k{self.ground}")
        return " ".join(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Text that is drawn with one pen."""

    classes: str
    text: str


PLAIN = Pen()


def draw(line: str, pen: Pen = PLAIN) -> tuple[tuple[Piece, ...], Pen]:
    """The pieces of one line (without its newline), and the pen that the next line begins with.

    A carriage return begins the line anew, as progress bars use it: the last part that shows
    anything stays. A part longer than MAX_LINE is cut, and says so.
    """
    kept: tuple[Piece, ...] = ()
    for part in line.split("\r"):
        pieces, pen = _draw_part(part, pen)
        if pieces:
            kept = pieces
    return kept, pen


def _draw_part(part: str, pen: Pen) -> tuple[tuple[Piece, ...], Pen]:
    runs: list[tuple[str, str]] = []
    cut = len(part) > MAX_LINE
    part = part[:MAX_LINE]
    at = 0
    for escape in _ESCAPE.finditer(part):
        _add(runs, pen, part[at : escape.start()])
        at = escape.end()
        if escape[2] == "m":
            pen = _turn(pen, escape[1])
    _add(runs, pen, part[at:])
    if cut:
        runs.append(("cut", " … the line is longer; the raw log has all of it"))
    return tuple(Piece(classes=classes, text=text) for classes, text in runs), pen


def _add(runs: list[tuple[str, str]], pen: Pen, text: str) -> None:
    text = _BIDI.sub("\ufffd", _CONTROL.sub("", text))
    if not text:
        return
    classes = pen.classes
    if runs and runs[-1][0] == classes:
        runs[-1] = (classes, runs[-1][1] + text)
    else:
        runs.append((classes, text))


def _turn(pen: Pen, parameters: str) -> Pen:
    """The pen after one SGR sequence; what is not known changes nothing."""
    if parameters[:1] in ("<", "=", ">", "?"):
        return pen  # a private sequence that only looks like SGR
    groups = parameters.split(";")
    at = 0
    while at < len(groups):
        fields = groups[at].split(":")
        code = _number(fields[0])
        at += 1
        if code in (38, 48):
            if len(fields) > 1:
                colour = _colour([_number(field) for field in _without_space(fields[1:])])
            else:
                rest = [_number(group) for group in groups[at : at + 4]]
                colour = _colour(rest)
                at += {5: 2, 2: 4}.get(rest[0], 1) if rest else 0
            if colour is not None:
                pen = replace(pen, letters=colour) if code == 38 else replace(pen, ground=colour)
        elif code == 4 and len(fields) > 1:
            pen = _mark(pen, "u", on=_number(fields[1]) != 0)
        else:
            pen = _simple(pen, code)
    return pen


def _simple(pen: Pen, code: int) -> Pen:
    if code == 0:
        return PLAIN
    if code in _ATTRIBUTES:
        return _mark(pen, _ATTRIBUTES[code], on=True)
    if code in _ENDS:
        return _mark(pen, _ENDS[code], on=False)
    if 30 <= code <= 37:
        return replace(pen, letters=code - 30)
    if 90 <= code <= 97:
        return replace(pen, letters=code - 82)
    if code == 39:
        return replace(pen, letters=None)
    if 40 <= code <= 47:
        return replace(pen, ground=code - 40)
    if 100 <= code <= 107:
        return replace(pen, ground=code - 92)
    if code == 49:
        return replace(pen, ground=None)
    return pen


def _mark(pen: Pen, marks: str, *, on: bool) -> Pen:
    wanted = {*pen.marks, *marks} if on else {*pen.marks} - {*marks}
    return replace(pen, marks="".join(mark for mark in _ORDER if mark in wanted))


def _number(text: str) -> int:
    """0 where nothing stands, -1 (known to nobody) where it is no number below 1000."""
    if not text:
        return 0
    return int(text) if len(text) <= 3 and text.isascii() and text.isdigit() else -1


def _without_space(fields: list[str]) -> list[str]:
    """`2::R:G:B` names a colour space that no terminal uses; dropped, it reads as `2:R:G:B`."""
    return [fields[0], *fields[2:]] if fields[0] == "2" and len(fields) > 4 else fields


def _colour(rest: list[int]) -> int | None:
    """One of the 16 for `5;N` or `2;R;G;B`; None: not a colour."""
    if len(rest) >= 2 and rest[0] == 5 and 0 <= rest[1] <= 255:
        return _indexed(rest[1])
    if len(rest) >= 4 and rest[0] == 2 and all(0 <= part <= 255 for part in rest[1:4]):
        return _nearest(rest[1], rest[2], rest[3])
    return None


def _indexed(index: int) -> int:
    if index < 16:
        return index
    if index >= 232:
        grey = 8 + 10 * (index - 232)
        return _nearest(grey, grey, grey)
    red, green, blue = (index - 16) // 36, (index - 16) // 6 % 6, (index - 16) % 6
    return _nearest(*(0 if level == 0 else 55 + 40 * level for level in (red, green, blue)))


def _nearest(red: int, green: int, blue: int) -> int:
    """Greys by lightness; colours by which channels stand above the middle, bright from 192 on."""
    low, high = min(red, green, blue), max(red, green, blue)
    if high - low < 48:
        return 0 if high < 64 else 8 if high < 144 else 7 if high < 224 else 15
    middle = (low + high) // 2
    bits = (red > middle) + 2 * (green > middle) + 4 * (blue > middle)
    return bits + 8 if high >= 192 else bits
