"""The one writer: units of work gather, and one commit makes all that have gathered durable.

Invariants: one task owns the only connection that writes; a result is handed out only after the
commit that holds it; a unit that raises changes nothing and fails alone; a caller that is
cancelled takes nobody's rows with it, its own included.

A unit may be run more than once (when another of its batch failed, or the connection broke), each
time on a database in which it has not happened: it must do nothing but use the connection it is
given. No caller may commit, roll back or keep the connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.errors import Closed, Overloaded, StoreError

log = logging.getLogger(__name__)

T = TypeVar("T")
RowT = TypeVar("RowT")
Unit = Callable[[AsyncConnection], Awaitable[T]]

MAX_BATCH = 256  # items of one commit: beyond this a commit's cost is spread thin enough already
MAX_QUEUED = 10_000  # items that wait: some seconds of work; more would only be answered too late
MAX_TRIES = 5  # times a batch is begun anew after its connection broke or the database told it to
FIRST_PAUSE_S = 0.1  # before the first of these; each is twice the last, 3 s in all: a server's restart


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[RowT, T]):
    """A kind of hot write: all rows of a kind that have gathered go down in one call of `many`.

    `many` is never given two rows with one key, and answers each row, in order. `key` names what a
    row is about: rows and units with the same key keep the order in which they came; those with
    different keys may change places.
    """

    name: str
    key: Callable[[RowT], Hashable]
    many: Callable[[AsyncConnection, Sequence[RowT]], Awaitable[Sequence[T]]]


class Link(Protocol):
    """Where the writer's connection comes from, and what is known of a commit nobody confirmed."""

    async def connect(self) -> AsyncConnection:
        """A connection that may write; the former one has been closed. Raises where there is none now."""

    async def mark(self, conn: AsyncConnection) -> object:
        """Something by which the transaction that is open on `conn` can be found again."""

    async def was_committed(self, conn: AsyncConnection, mark: object) -> bool:
        """Whether the marked transaction, whose connection is gone, became durable."""

    def should_retry(self, error: Exception) -> bool:
        """Whether the same batch may succeed if it is begun anew."""


@dataclass(slots=True, eq=False)
class _Item:
    """One thing to write, and who waits for it."""

    key: Hashable | None  # None: about anything; keeps its place among all others
    done: asyncio.Future[Any]
    unit: Unit[Any] | None = None
    batch: Batch[Any, Any] | None = None
    row: Any = None


@dataclass(slots=True, eq=False)
class _Step:
    """A unit by itself, or rows of one kind; executed as a whole. `results` are of its last execution."""

    items: list[_Item]
    results: list[Any] = field(default_factory=list)

    async def execute(self, conn: AsyncConnection) -> None:
        first = self.items[0]
        if first.unit is not None:
            self.results = [await first.unit(conn)]
            return
        assert first.batch is not None, "an item is a unit or a row"
        self.results = list(await first.batch.many(conn, [item.row for item in self.items]))
        assert len(self.results) == len(self.items), f"{first.batch.name} answers every row"


class _Broken(Exception):
    """The transaction is gone, and with it everything that was in it; `cause` is what the database said."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Writer:
    """Owns the write connection. `start` it inside the loop that uses it, and `close` it there."""

    def __init__(self, link: Link, *, max_batch: int = MAX_BATCH, max_queued: int = MAX_QUEUED) -> None:
        self._link = link
        self._max_batch = max_batch
        self._max_queued = max_queued
        self._queue: deque[_Item] = deque()
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._conn: AsyncConnection | None = None
        self.commits = 0  # transactions committed so far
        self.written = 0  # units and rows that they held

    async def start(self) -> None:
        """Connect, and begin to write."""
        self._conn = await self._link.connect()
        self._task = asyncio.get_running_loop().create_task(self._work(), name="store writer")

    @property
    def queued(self) -> int:
        """Units and rows that wait for a commit to begin."""
        return len(self._queue)

    async def run(self, unit: Unit[T], *, key: Hashable | None = None) -> T:
        """The result of `unit`, once it is durable; its exception, once its changes are undone.

        `key` None: nothing that came before or after it changes places with it. Raises Overloaded,
        Closed, or what the database says of the commit.
        """
        result: T = await self._wait_for(_Item(key=key, done=self._future(), unit=unit))
        return result

    async def put(self, batch: Batch[RowT, T], row: RowT) -> T:
        """The result of `row` among the others of its kind, once it is durable. Raises as `run` does."""
        item = _Item(key=batch.key(row), done=self._future(), batch=batch, row=row)
        result: T = await self._wait_for(item)
        return result

    async def close(self) -> None:
        """Write what has been accepted, accept no more, and let go of the connection."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait({self._task})  # neither cancels it nor raises what ended it

    def _future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def _wait_for(self, item: _Item) -> Any:
        if self._closing or self._task is None or self._task.done():
            raise Closed("the store is closed")
        if len(self._queue) >= self._max_queued:
            raise Overloaded(f"{len(self._queue)} writes wait already: try again in a few seconds")
        self._queue.append(item)
        self._wake.set()
        return await asyncio.shield(item.done)  # a cancelled caller must not cancel the write

    async def _work(self) -> None:
        batch: list[_Item] = []
        try:
            while True:
                while not self._queue:
                    if self._closing:
                        return
                    self._wake.clear()
                    await self._wake.wait()
                count = min(len(self._queue), self._max_batch)
                batch = [self._queue.popleft() for _ in range(count)]
                await self._write(batch)
        finally:
            self._closing = True
            for item in (*batch, *self._queue):
                _fail(item, Closed("the store was closed before this was written"))
            self._queue.clear()
            await self._disconnect()

    async def _write(self, batch: list[_Item]) -> None:
        """Commit `batch` and answer its items; whatever goes wrong is told to them and to nobody else."""
        steps = in_steps(batch)
        failed: dict[int, Exception] = {}
        try:
            await self._commit(steps, failed)
        except Exception as error:
            if not isinstance(error, StoreError):  # those are answers, such as "the name is taken"
                log.error("%d writes failed together: %s", len(batch), error)
            for item in batch:
                _fail(item, error)
            return
        self.commits += 1
        self.written += len(batch)
        for step in steps:
            for item, result in zip(step.items, step.results, strict=True):
                if id(item) in failed:
                    _fail(item, failed[id(item)])
                elif not item.done.done():
                    item.done.set_result(result)

    async def _commit(self, steps: list[_Step], failed: dict[int, Exception]) -> None:
        """Commit all of `steps` but those that fail by themselves, which `failed` holds by item afterwards.

        The common case needs no savepoint; when something fails, all begins anew with one for each.
        """
        careful = False
        for tries in range(MAX_TRIES + 1):
            failed.clear()
            mark: object = None
            try:
                conn = await self._connected()
                transaction = await conn.begin()
                for step in steps:
                    await (_execute_alone(conn, step, failed) if careful else step.execute(conn))
                mark = await self._link.mark(conn)
                await transaction.commit()
                return
            except Exception as error:
                await self._undo(committing=mark is not None, broken=_of_connection(error))
                if mark is not None and await self._was_committed(mark):
                    return
                if isinstance(error, _Broken):
                    raise error.cause from None
                if tries < MAX_TRIES and self._link.should_retry(error):
                    await asyncio.sleep(FIRST_PAUSE_S * 2**tries)
                elif mark is None and not careful and (len(steps) > 1 or len(steps[0].items) > 1):
                    careful = True
                else:
                    raise

    async def _undo(self, *, committing: bool, broken: bool) -> None:
        """Leave no transaction open. After a failed COMMIT only a new connection is sure to be clean."""
        if self._conn is None:
            return
        if not committing and not broken:
            try:
                await self._conn.rollback()
                return
            except Exception:
                log.exception("a rollback failed; the writer connects anew")
        await self._disconnect()

    async def _was_committed(self, mark: object) -> bool:
        """Whether a commit that raised took effect nevertheless: its answer may have been lost."""
        for tries in range(MAX_TRIES):
            try:
                return await self._link.was_committed(await self._connected(), mark)
            except Exception:
                log.exception("cannot ask what became of a commit")
                await self._disconnect()
                await asyncio.sleep(FIRST_PAUSE_S * 2**tries)
        return False

    async def _connected(self) -> AsyncConnection:
        if self._conn is None:
            self._conn = await self._link.connect()
        return self._conn

    async def _disconnect(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            try:
                if not self._closing:  # not clean: nobody may be given it again
                    await conn.invalidate()
                await conn.close()
            except Exception:
                log.exception("the write connection did not close")


def in_steps(items: Sequence[_Item]) -> list[_Step]:
    """`items` in as few steps as the order within each key allows.

    A row joins the last step of its kind unless something with its key, or something about anything,
    came after that step was begun.
    """
    steps: list[_Step] = []
    last_of_kind: dict[Batch[Any, Any], int] = {}
    last_of_key: dict[Hashable, int] = {}
    barrier = -1
    for item in items:
        if item.batch is not None:
            place = last_of_kind.get(item.batch, -1)
            if place > max(barrier, last_of_key.get(item.key, -1)):
                steps[place].items.append(item)
                last_of_key[item.key] = place
                continue
            last_of_kind[item.batch] = len(steps)
        if item.key is None:
            barrier = len(steps)
        last_of_key[item.key] = len(steps)
        steps.append(_Step(items=[item]))
    return steps


async def _execute_alone(conn: AsyncConnection, step: _Step, failed: dict[int, Exception]) -> None:
    """Execute `step` under a savepoint; if it fails, each of its items under one of its own."""
    error = await _try(conn, step)
    if error is None:
        return
    if len(step.items) == 1:
        failed[id(step.items[0])] = error
        step.results = [None]
        return
    results: list[Any] = []
    for item in step.items:
        single = _Step(items=[item])
        if (error := await _try(conn, single)) is not None:
            failed[id(item)] = error
            single.results = [None]
        results += single.results
    step.results = results


async def _try(conn: AsyncConnection, step: _Step) -> Exception | None:
    """What `step` raised, all its changes undone. Raises _Broken where they cannot be undone alone."""
    savepoint = await conn.begin_nested()
    try:
        await step.execute(conn)
        await savepoint.commit()
    except Exception as error:
        if _of_connection(error):
            raise
        try:  # a full disk makes SQLite end the whole transaction: then there is no savepoint left
            await savepoint.rollback()
        except Exception:
            raise _Broken(error) from error
        return error
    return None


def _of_connection(error: Exception) -> bool:
    return isinstance(error, DBAPIError) and error.connection_invalidated


def _fail(item: _Item, error: Exception) -> None:
    if not item.done.done():
        item.done.set_exception(error)
        item.done.exception()  # a caller that was cancelled will not look at it
