"""How far long work with images has come, on the standard error: a bar, or plain lines.

The invariant: where the standard error is no terminal, lines come at most every few seconds, however
fast the work goes on, and nothing in them moves a cursor.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hub.cli.terminal import one_line, wants_colour

LINE_EVERY_S = 5.0  # of plain lines: a log that says it lives, and not more
_UNITS = ("kB", "MB", "GB", "TB")

Advance = Callable[[int], None]  # bytes done since the last call


@contextmanager
def progress(words: str, total: int) -> Iterator[Advance]:
    """Show `words` and how many of `total` bytes are done, while entered. Thread-safe to advance."""
    if wants_colour(sys.stderr):
        with _bar(words, total) as advance:
            yield advance
    else:
        yield _Lines(words, total).advance


@contextmanager
def _bar(words: str, total: int) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(one_line(words), total=total)
        yield lambda count: shown.advance(task, count)


class _Lines:
    """Plain lines: one at the beginning, then how far it is every few seconds."""

    def __init__(self, words: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._words, self._total, self._clock = one_line(words), total, clock
        self._done = 0
        self._began_s = self._told_s = clock()
        print(f"{self._words}: {size(total)}", file=sys.stderr, flush=True)

    def advance(self, count: int) -> None:
        """So many bytes more."""
        self._done += count
        now_s = self._clock()
        if now_s - self._told_s < LINE_EVERY_S:
            return
        self._told_s = now_s
        rate = self._done / (now_s - self._began_s)
        share = 100 * self._done // self._total if self._total else 100
        print(f"{self._words}: {share} %, {size(round(rate))}/s", file=sys.stderr, flush=True)


def size(count: int) -> str:
    """Bytes as a person reads them: `812 B`, `1.3 MB`, `4.2 GB`; powers of ten, as rates are told."""
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in _UNITS:
        amount /= 1000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount:.1f} {_UNITS[-1]}"


def saving(moved: int, of: int, verb: str, wire_bytes: int, image_bytes: int) -> str:
    """`saved 94 %: 12 of 5,068 chunks sent, 1.3 MB`: how much less travelled than the image has."""
    share = max(0, 100 * (image_bytes - wire_bytes) // image_bytes)
    return f"saved {share} %: {moved:,} of {of:,} chunks {verb}, {size(wire_bytes)}"
