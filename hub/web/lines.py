"""A log by pages, for a reader without scripts: whole lines with their numbers, a bounded number a page.

The log is read from its beginning and its newlines are counted, piece by piece: a gibibyte takes a
second or two, and nothing is remembered between two readers. A page that begins amid a step says which.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hub.web.ansi import MAX_LINE
from hub.web.log import Log, fold

PAGE_LINES = 1000  # as on a run's page
MAX_BYTES = 4 * MAX_LINE + 4  # of a line: more characters than are shown, whatever they are
_STEP = re.compile(rb"(?:^|\n)(##\[(step|exit) [^\n]*)")

# Bytes of the log from an offset, as many as the service gives at a time, and its length now.
Read = Callable[[int], Awaitable[tuple[bytes, int]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """One page. `page`, `pages`: from 1; `count`: lines in all, the markers of steps among them."""

    log: Log
    page: int
    pages: int
    count: int


@dataclass(slots=True)
class _Reading:
    """What was read so far. `within`: the marker of the step that the page begins in."""

    first: int  # lines before the page, of the page that is wanted
    count: int = 0
    within: bytes = b""
    kept: bytes = b""

    def add(self, whole: bytes) -> None:
        """More of the log: lines that end."""
        lines = whole.count(b"\n")
        if self.count + lines <= self.first:
            self._pass(whole)
        elif self.count < self.first + PAGE_LINES:
            begin = _after_lines(whole, self.first - self.count)
            self._pass(whole[:begin])
            wanted = self.first + PAGE_LINES - max(self.count, self.first)
            self.kept += b"".join(
                line[:MAX_BYTES] + b"\n" for line in whole[begin:].split(b"\n", wanted)[:-1]
            )
        self.count += lines

    def _pass(self, before: bytes) -> None:
        for marker in _STEP.finditer(before):
            self.within = marker[1][:MAX_BYTES] if marker[2] == b"step" else b""


async def read_page(read: Read, wanted: int, final: bool) -> Lines:
    """Page `wanted`, the last where there are fewer. A line that has not ended counts if it is the last."""
    found = await _read(read, (wanted - 1) * PAGE_LINES, final)
    pages = max(1, -(-found.count // PAGE_LINES))
    if wanted > pages:
        found = await _read(read, (pages - 1) * PAGE_LINES, final)
        pages = max(1, -(-found.count // PAGE_LINES))
    page = min(wanted, pages)
    log = fold(
        found.kept,
        start=0,
        total=len(found.kept),
        final=True,  # all of its lines have ended
        first=(page - 1) * PAGE_LINES + 1,
        within=found.within,
        opened=True,
    )
    return Lines(log=log, page=page, pages=pages, count=found.count)


async def _read(read: Read, first: int, final: bool) -> _Reading:
    reading, rest, offset, total = _Reading(first=first), b"", 0, 1
    while offset < total:
        piece, total = await read(offset)
        if not piece:
            break
        offset += len(piece)
        end = piece.rfind(b"\n") + 1
        if end:
            reading.add(rest + piece[:end])
            rest = piece[end:][:MAX_BYTES]
        else:
            rest = (rest + piece)[:MAX_BYTES]
    if rest and final:
        reading.add(rest + b"\n")
    return reading


def _after_lines(data: bytes, lines: int) -> int:
    """Where `data` goes on after its first `lines` lines; its length where it has no more."""
    at = 0
    for _ in range(lines):
        newline = data.find(b"\n", at)
        if newline < 0:
            return len(data)
        at = newline + 1
    return at
