"""What a person sees while an image is made: a bar on a terminal, else a line a phase.

All on the standard error; the standard output is for the answer. The bar's library loads only there.
"""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hub.cli.terminal import one_line, wants_colour

if TYPE_CHECKING:
    from rich.progress import Progress as Bar


class Progress:
    """Told of phases and of bytes. `quiet`: nothing is shown."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._bar: Bar | None = None

    def __enter__(self) -> Self:
        if not self._quiet and wants_colour(sys.stderr):
            from rich.console import Console
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

            text = TextColumn("{task.description}", markup=False)
            columns = (text, BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def phase(self, words: str, total: int | None = None) -> None:
        """Something new begins, of `total` bytes; None: nobody knows how long."""
        words = one_line(words)
        if self._bar is not None:
            for task in self._bar.task_ids:
                self._bar.remove_task(task)
            self._bar.add_task(words, total=total)
        elif not self._quiet:
            print(words, file=sys.stderr, flush=True)

    def advance(self, count: int) -> None:
        """So many bytes more are done."""
        if self._bar is not None and self._bar.task_ids:
            self._bar.advance(self._bar.task_ids[-1], count)
