"""Work that goes on by itself, and is waited for before the hub closes."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


class Tasks:
    """All work under way."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let `work` run by itself; a failure is logged."""
        self._start(work).add_done_callback(_log_failure)

    async def whole(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry `work` through to its end, also when the caller is cancelled in the meantime."""
        return await asyncio.shield(self._start(work))

    async def settled(self) -> None:
        """Wait until all that has begun has ended."""
        while self._under_way:
            await asyncio.wait(set(self._under_way))

    def _start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task


def _log_failure(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("work of the dispatcher failed", exc_info=error)
