"""Who is to be told that something changed. Hints only: the listener reads the truth from its view.

A topic is ("run", id), ("job", id) or ("queue",). A topic that nobody listens to costs nothing.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

Topic = tuple[str, int] | tuple[str]


class Listener:
    """Remembers that its topic changed until it is asked."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """True once something changed since the last call; False after `timeout_s` without a change."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Events:
    """The listeners by topic."""

    def __init__(self) -> None:
        self._listeners: dict[Topic, set[Listener]] = {}
        self.closed = False

    def tell(self, *topics: Topic) -> None:
        """Something about these topics changed."""
        for topic in topics:
            for listener in self._listeners.get(topic, ()):
                listener.tell()

    @contextmanager
    def listen(self, *topics: Topic) -> Iterator[Listener]:
        """A listener to all of `topics`, for as long as the block lasts."""
        listener = Listener()
        for topic in topics:
            self._listeners.setdefault(topic, set()).add(listener)
        try:
            yield listener
        finally:
            for topic in topics:
                self._listeners[topic].discard(listener)
                if not self._listeners[topic]:
                    del self._listeners[topic]

    def close(self) -> None:
        """The hub stops: every stream ends."""
        self.closed = True
        for listeners in self._listeners.values():
            for listener in listeners:
                listener.tell()
