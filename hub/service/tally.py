"""What has happened since the hub started, in figures that only grow: read by `GET /metrics`.

Counted where it happens, once it is durable or sent; nothing decides by it, and a restart begins at 0.
"""

from bisect import bisect_left
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

START_BOUNDS_S = (0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 900, 3600, 14400)  # 15: the longest hold


@dataclass(slots=True)
class Tally:
    """Counts. `starts`: jobs that began to run, by the bound of their wait; the last: beyond."""

    claims: int = 0
    leases_lost: int = 0
    bytes_served: int = 0
    starts: list[int] = field(default_factory=lambda: [0] * (len(START_BOUNDS_S) + 1))
    starts_s: float = 0.0

    def started(self, waited_ms: int) -> None:
        """A job began to run, `waited_ms` after it was queued."""
        waited_s = max(0, waited_ms) / 1000
        self.starts[bisect_left(START_BOUNDS_S, waited_s)] += 1
        self.starts_s += waited_s

    async def served(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """`pieces`, counted as they go out."""
        async for piece in pieces:
            self.bytes_served += len(piece)
            yield piece
