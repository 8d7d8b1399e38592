"""The only place that reads a clock. Everything else takes `now_ms` as an argument.

Wall time at the start of the process, because leases, holds and waits must survive a restart of
the hub; from then on the monotonic clock, so that an administrator who sets the date a day forward
does not end every lease at once.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time in milliseconds since 1970, UTC."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The machine's time, which neither jumps nor goes back within this process."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (time.monotonic_ns() + self._offset_ns) // 1_000_000
