"""Signals that end the demo in order, and cannot be lost.

A KeyboardInterrupt that is raised while Python runs a callback (of a fork, a weak reference, a
collected object) is dropped there: the demo would go on as if nobody had asked. So the request is
remembered, and raised again until it is heard; once it was, nothing interrupts the stopping.
"""

import signal
import sys
from types import FrameType, TracebackType
from typing import Any, Self

AGAIN_S = 0.3  # until the request is raised again: soon for a person, rare for a program
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt until `calm` is called.

    For the main thread only, and it takes the process's real-time timer.
    """

    def __enter__(self) -> Self:
        self._hook = sys.unraisablehook
        sys.unraisablehook = self._quiet
        self._before = {each: signal.signal(each, self._raise) for each in (*_ENDS, signal.SIGALRM)}
        return self

    def calm(self) -> None:
        """The request was heard: from here on no signal disturbs."""
        for each in (*_ENDS, signal.SIGALRM):
            signal.signal(each, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.calm()
        for each, handler in self._before.items():
            signal.signal(each, handler)
        sys.unraisablehook = self._hook

    def _raise(self, number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        raise KeyboardInterrupt

    def _quiet(self, dropped: Any) -> None:
        if dropped.exc_type is not KeyboardInterrupt:
            self._hook(dropped)
