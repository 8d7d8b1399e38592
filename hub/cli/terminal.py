"""What reaches a screen: colours, and the filter for text that others wrote.

The invariant: whatever is fed to `Filter`, in whatever pieces, its output holds no escape other
than a whole SGR colour sequence, no control character but newline and tab, and no bidirectional
override. A log can therefore neither move the cursor, set a title, answer a query nor hide text.
Nothing that a job or another person wrote may be printed without passing here.
"""

import os
import re
import sys
from typing import TextIO

REPLACEMENT = "\ufffd"
MAX_SEQUENCE = 4096  # an escape sequence that is longer is not one; a lost ESC must not eat a log
MAX_SGR = 128  # what a terminal takes; the longest useful colour sequence has under 50 characters

# Whatever is not plain: C0 (but newline and tab), DEL, C1, bidirectional overrides, lone surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_UNSAFE_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_JSON_UNSAFE = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

# A whole sequence, or the beginning of one that the text ends in. C1 forms count as their ESC forms.
_CSI = re.compile("(?:\x1b\\[|\x9b)([0-?]*)([ -/]*)([@-~])?")
_STRING = re.compile("(?:\x1b[\\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(\x07|\x9c|\x1b\\\\)?")
_SHORT = re.compile("\x1b[ -/]*([0-~])?")
_STRING_STARTS = "]PX^_"
_STRING_C1 = "\x9d\x90\x98\x9e\x9f"

_EXTENDED = {"38", "48", "58"}  # colours whose parameters follow: 5;N or 2;R;G;B
_HIDING = {"5", "6", "8"}  # blinking and concealed text: neither is a colour


class Filter:
    """A streaming filter for one log: feed it pieces, print what it gives, `close` it at the end.

    `colour` False drops colours too. A carriage return becomes a new line: what stood before it on
    the line stays readable instead of being written over.
    """

    def __init__(self, *, colour: bool = True) -> None:
        self._colour = colour
        self._held = ""
        self._painted = False

    def feed(self, text: str) -> str:
        """What may be shown of the text so far; an unfinished sequence waits for the next piece."""
        text = self._held + text
        self._held = ""
        out: list[str] = []
        at = 0
        while found := _UNSAFE.search(text, at):
            start = found.start()
            out.append(text[at:start])
            taken, shown = self._take(text, start)
            if taken == 0:
                self._held = text[start:]
                return "".join(out)
            out.append(shown)
            at = start + taken
        out.append(text[at:])
        return "".join(out)

    def close(self) -> str:
        """What is left to print: a held carriage return's new line, and the end of a colour."""
        held, self._held = self._held, ""
        painted, self._painted = self._painted, False
        return ("\n" if held == "\r" else "") + ("\x1b[0m" if painted else "")

    def _take(self, text: str, at: int) -> tuple[int, str]:
        """How many characters the thing at `at` takes (0: not all of it is here), and what to show."""
        char = text[at]
        if char == "\r":
            if at + 1 == len(text):
                return 0, ""
            return (2, "\n") if text[at + 1] == "\n" else (1, "\n")
        if char == "\x1b" and at + 1 == len(text):
            return 0, ""
        follower = text[at + 1] if char == "\x1b" else ""
        if char == "\x9b" or follower == "[":
            return self._take_csi(text, at)
        if char in _STRING_C1 or (follower and follower in _STRING_STARTS):
            return _take_string(text, at)
        if char == "\x1b":
            short = _SHORT.match(text, at)
            if short is None:
                return 1, ""
            if short.end() == len(text) and short[1] is None and len(short[0]) < MAX_SEQUENCE:
                return 0, ""
            return len(short[0]), ""
        return 1, REPLACEMENT if _BIDI.match(char) else ""

    def _take_csi(self, text: str, at: int) -> tuple[int, str]:
        found = _CSI.match(text, at)
        assert found is not None  # the caller saw its introducer
        length = len(found[0])
        if found[3] is None:
            return (0, "") if found.end() == len(text) and length < MAX_SEQUENCE else (length, "")
        if found[3] != "m" or found[2] or not self._colour or length > MAX_SGR:
            return length, ""
        kept = _colours(found[1])
        if kept is None:
            return length, ""
        self._painted = kept not in ("", "0")
        return length, f"\x1b[{kept}m"


def _take_string(text: str, at: int) -> tuple[int, str]:
    """An OSC, DCS, SOS, PM or APC string with all it carries; a new line ends it in any case."""
    found = _STRING.match(text, at)
    assert found is not None  # the caller saw its introducer
    length = len(found[0])
    if found[1] is not None:
        return length, ""
    rest = text[found.end() : found.end() + 2]
    if rest in ("", "\x1b") and length < MAX_SEQUENCE:
        return 0, ""
    return length, ""


def _colours(parameters: str) -> str | None:
    """SGR parameters without those that hide text; None: nothing is left, or they are no colours."""
    if not parameters:
        return ""
    if not set(parameters) <= set("0123456789;:"):
        return None
    kept: list[str] = []
    given = parameters.split(";")
    at = 0
    while at < len(given):
        word, colon, _ = given[at].partition(":")
        word = word.lstrip("0") or "0"
        count = 1
        if word in _EXTENDED and not colon:
            kind = given[at + 1] if at + 1 < len(given) else ""
            count = 3 if kind == "5" else 5 if kind == "2" else 1
            if at + count > len(given) or count == 1:
                return ";".join(kept) or None
        elif word in _HIDING:
            at += 1
            continue
        kept.extend(given[at : at + count])
        at += count
    return ";".join(kept) or None


def one_line(text: object) -> str:
    """Text of somebody else's, safe within a line; text without control characters comes back as it is."""
    return _UNSAFE_LINE.sub(REPLACEMENT, str(text))


def json_safe(document: str) -> str:
    """The same JSON, with characters that could act on a terminal written as escapes."""
    return _JSON_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def wants_colour(stream: TextIO) -> bool:
    """Whether colours go to `stream`: only to a terminal, and not where NO_COLOR is set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_CODES = {"good": "32", "bad": "31", "busy": "36", "warn": "33", "dim": "2", "bold": "1"}


class Paint:
    """Colours by meaning; gives the text as it is where colours are off."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __call__(self, style: str, text: str) -> str:
        """`text` in the colour of `style` ("" for none)."""
        code = _CODES.get(style)
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and code and text else text


def stdout_paint() -> Paint:
    """Colours for the standard output as it is now."""
    return Paint(wants_colour(sys.stdout))
