"""What is to happen at a time to come: hold ends, leases, deadlines of claims.

A timer may fire late, never early; whoever it calls looks again whether there is still anything to
do, so that nothing need be cancelled.
"""

import heapq
from collections.abc import Callable
from itertools import count

Action = Callable[[int], None]


class Timers:
    """A heap of actions by their time. Moved on by `run`, which is given the time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Action]] = []
        self._numbers = count()
        self.changed: Callable[[], None] = lambda: None  # told when an earlier time became the next

    def at(self, when_ms: int, action: Action) -> None:
        """Call `action(now_ms)` once it is `when_ms`."""
        earlier = not self._heap or when_ms < self._heap[0][0]
        heapq.heappush(self._heap, (when_ms, next(self._numbers), action))
        if earlier:
            self.changed()

    @property
    def next_ms(self) -> int | None:
        """When the next action is due; None: nothing is planned."""
        return self._heap[0][0] if self._heap else None

    def run(self, now_ms: int) -> int:
        """Carry out all that is due, in order of time; returns how many."""
        done = 0
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, action = heapq.heappop(self._heap)
            action(now_ms)
            done += 1
        return done
