"""The writer: what gathers is committed together, and nobody's fault becomes somebody else's."""

import asyncio
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.engine import Store, database_of, open_store
from hub.store.errors import Closed, Overloaded, is_disk_full
from hub.store.sql import each
from hub.store.writer import Batch, Unit, Writer, _Item, in_steps

calls: list[int] = []  # how many rows each call of the batch below was given


@pytest.fixture(autouse=True)
async def words(store: Store) -> None:
    """A table to write to: beside the hub's own, with a constraint that is checked at the commit."""

    async def unit(conn: AsyncConnection) -> None:
        await conn.execute(text("CREATE TABLE words (word text NOT NULL)"))
        await conn.execute(text("CREATE TABLE parents (id bigint PRIMARY KEY)"))
        deferred = "DEFERRABLE INITIALLY DEFERRED"
        await conn.execute(text(f"CREATE TABLE children (parent bigint REFERENCES parents (id) {deferred})"))

    await store.writer.run(unit)
    calls.clear()


def adding(word: str, error: Exception | None = None) -> Unit[str]:
    async def unit(conn: AsyncConnection) -> str:
        await conn.execute(text("INSERT INTO words (word) VALUES (:word)"), {"word": word})
        if error is not None:
            raise error
        return word

    return unit


async def _add_many(conn: AsyncConnection, rows: Sequence[str]) -> list[str]:
    calls.append(len(rows))
    values = [{"word": None if row.startswith("bad") else row} for row in rows]
    await each(conn, "INSERT INTO words (word) SELECT word FROM INPUT", "word text", values)
    return [row.upper() for row in rows]


WORDS: Batch[str, str] = Batch(name="words", key=lambda row: row, many=_add_many)


async def stored(store: Store) -> list[str]:
    async with store.read() as conn:
        return list((await conn.execute(text("SELECT word FROM words"))).scalars())


async def test_what_gathers_goes_down_in_one_statement_and_one_commit(store: Store) -> None:
    before = store.writer.commits
    rows = [f"w{number}" for number in range(1000)]
    assert await asyncio.gather(*(store.writer.put(WORDS, row) for row in rows)) == [
        row.upper() for row in rows
    ]
    assert calls == [256, 256, 256, 232]
    assert store.writer.commits - before == 4
    assert sorted(await stored(store)) == sorted(rows)


async def test_units_gather_too(store: Store) -> None:
    before = store.writer.commits
    words = [f"w{number}" for number in range(100)]
    assert await asyncio.gather(*(store.writer.run(adding(word)) for word in words)) == words
    assert store.writer.commits - before == 1
    assert await stored(store) == words


async def test_a_result_is_seen_only_after_its_commit(store: Store) -> None:
    async def add_and_look(word: str) -> bool:
        await store.writer.run(adding(word))
        return word in await stored(store)

    assert all(await asyncio.gather(*(add_and_look(f"w{number}") for number in range(40))))


async def test_a_unit_that_fails_fails_alone(store: Store) -> None:
    results = await asyncio.gather(
        store.writer.run(adding("a")),
        store.writer.run(adding("b", ValueError("no"))),
        store.writer.put(WORDS, "c"),
        store.writer.run(adding("d")),
        return_exceptions=True,
    )
    assert [str(result) for result in results] == ["a", "no", "C", "d"]
    assert await stored(store) == ["a", "c", "d"]


async def test_a_row_that_fails_fails_alone(store: Store) -> None:
    rows = ["a", "bad 1", "b", "bad 2", "c"]
    results = await asyncio.gather(*(store.writer.put(WORDS, row) for row in rows), return_exceptions=True)
    assert [isinstance(result, DBAPIError) for result in results] == [False, True, False, True, False]
    assert sorted(await stored(store)) == ["a", "b", "c"]


async def test_a_unit_whose_error_the_database_raised_leaves_the_others_whole(store: Store) -> None:
    async def broken(conn: AsyncConnection) -> None:
        await conn.execute(text("INSERT INTO words (word) VALUES ('gone')"))
        await conn.execute(text("INSERT INTO no_such_table VALUES (1)"))

    results = await asyncio.gather(
        store.writer.run(adding("a")),
        store.writer.run(broken),
        store.writer.run(adding("b")),
        return_exceptions=True,
    )
    assert isinstance(results[1], DBAPIError)
    assert await stored(store) == ["a", "b"]


async def test_a_commit_that_fails_fails_all_that_it_held_and_nothing_after(store: Store) -> None:
    async def orphan(conn: AsyncConnection) -> None:
        await conn.execute(text("INSERT INTO children (parent) VALUES (42)"))

    before = store.writer.commits
    results = await asyncio.gather(
        store.writer.run(adding("a")), store.writer.run(orphan), return_exceptions=True
    )
    assert [isinstance(result, DBAPIError) for result in results] == [True, True]
    assert store.writer.commits == before
    assert await stored(store) == []
    assert await store.writer.run(adding("b")) == "b"
    assert await stored(store) == ["b"]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_a_full_disk_is_an_error_and_no_hang(store: Store) -> None:
    async def limit(conn: AsyncConnection, more: int) -> None:
        pages = (await conn.exec_driver_sql("PRAGMA page_count")).scalar_one()
        await conn.exec_driver_sql(f"PRAGMA max_page_count = {pages + more}")

    await store.writer.run(lambda conn: limit(conn, 2))
    results = await asyncio.gather(
        store.writer.run(adding("a")), store.writer.run(adding("x" * 2**20)), return_exceptions=True
    )
    assert isinstance(results[1], Exception)
    assert is_disk_full(results[1])
    assert await stored(store) == ([] if isinstance(results[0], Exception) else ["a"])
    await store.writer.run(lambda conn: limit(conn, 10_000))
    await store.writer.run(adding("x" * 2**20))
    assert len((await stored(store))[-1]) == 2**20


async def test_a_cancelled_caller_takes_nobodys_rows_with_it(store: Store) -> None:
    """Field bug A14: requests that end at any moment leave no transaction open and lose no row."""
    order = random.Random(14)
    words = [f"w{number}" for number in range(300)]

    async def add(word: str) -> str:
        if order.random() < 0.5:
            return await store.writer.put(WORDS, word)
        return await store.writer.run(adding(word))

    tasks = [asyncio.create_task(add(word)) for word in words]
    while any(not task.done() for task in tasks):
        await asyncio.sleep(0)
        order.choice(tasks).cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = {
        word for word, result in zip(words, results, strict=True) if isinstance(result, BaseException)
    }
    assert cancelled
    assert set(words) - cancelled <= set(await stored(store))
    assert await store.writer.run(adding("after")) == "after"
    assert len(await stored(store)) == len(set(await stored(store)))


async def test_readers_that_are_cancelled_give_their_connections_back(store: Store) -> None:
    """Field bug A14: more of them than there are connections, then as many again that must work."""

    async def look() -> None:
        async with store.read() as conn:
            for _ in range(20):
                await conn.execute(text("SELECT count(*) FROM jobs"))

    order = random.Random(14)
    for _ in range(5):
        tasks = [asyncio.create_task(look()) for _ in range(30)]
        for task in tasks:
            await asyncio.sleep(order.random() / 300)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait_for(asyncio.gather(*(look() for _ in range(20))), timeout=20)
    await store.writer.run(adding("not locked"))


async def test_more_than_the_bound_is_refused_and_not_kept(store: Store, url: str) -> None:
    await store.close()
    database = database_of(url)
    await database.lock()
    writer = Writer(database, max_queued=10)
    await writer.start()
    results = await asyncio.gather(
        *(writer.put(WORDS, f"w{number}") for number in range(15)), return_exceptions=True
    )
    assert [isinstance(result, Overloaded) for result in results] == [False] * 10 + [True] * 5
    assert await writer.put(WORDS, "later") == "LATER"
    await writer.close()
    await database.close()
    store = await open_store(url)
    assert len(await stored(store)) == 11
    await store.close()


async def test_closing_writes_what_was_accepted_and_accepts_no_more(store: Store, url: str) -> None:
    accepted = [asyncio.create_task(store.writer.run(adding(f"w{number}"))) for number in range(600)]
    await asyncio.sleep(0)
    await store.close()
    assert len(await asyncio.gather(*accepted)) == 600
    with pytest.raises(Closed):
        await store.writer.run(adding("late"))
    store = await open_store(url)
    assert len(await stored(store)) == 600
    await store.close()


async def test_a_writer_that_is_killed_tells_those_who_wait(store: Store) -> None:
    async def slow(conn: AsyncConnection) -> None:
        await asyncio.sleep(60)

    waiting = [
        asyncio.create_task(store.writer.run(slow)),
        asyncio.create_task(store.writer.run(adding("x"))),
    ]
    await asyncio.sleep(0.05)
    waiting.append(asyncio.create_task(store.writer.run(adding("y"))))
    await asyncio.sleep(0)
    assert store.writer._task is not None
    store.writer._task.cancel()
    results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), timeout=10)
    assert [type(result) for result in results] == [Closed] * 3
    with pytest.raises(Closed):
        await store.writer.run(adding("z"))
    await store.close()


KINDS = [Batch(name=name, key=lambda row: row[0], many=_add_many) for name in "AB"]


@given(
    st.lists(st.tuples(st.sampled_from(["A", "B", "unit", "barrier"]), st.sampled_from("xyz")), max_size=40)
)
def test_steps_keep_the_order_of_each_key_and_never_hold_a_key_twice(things: list[tuple[str, str]]) -> None:
    loop = asyncio.new_event_loop()
    try:
        items = []
        for number, (kind, key) in enumerate(things):
            item = _Item(key=None if kind == "barrier" else key, done=loop.create_future(), row=(key, number))
            if kind in "AB":
                item.batch = KINDS["AB".index(kind)]
            else:
                item.unit = adding(key)
            items.append(item)
        steps = in_steps(items)
    finally:
        loop.close()
    place = {id(item): number for number, step in enumerate(steps) for item in step.items}
    assert len(place) == len(items)
    for step in steps:
        assert len(step.items) == 1 or len({item.key for item in step.items}) == len(step.items)
        assert len({id(item.batch) for item in step.items}) == 1
    for before, first in enumerate(items):
        for second in items[before + 1 :]:
            if first.key is None or second.key is None or first.key == second.key:
                assert place[id(first)] < place[id(second)]


@given(st.integers(min_value=1, max_value=60))
def test_rows_about_different_things_need_one_step_for_each_kind(count: int) -> None:
    loop = asyncio.new_event_loop()
    items = [
        _Item(key=number, done=loop.create_future(), row=str(number), batch=KINDS[number % 2])
        for number in range(count)
    ]
    loop.close()
    assert len(in_steps(items)) == min(count, 2)


async def test_an_error_of_the_database_tells_no_secret(store: Store) -> None:
    async def broken(conn: AsyncConnection) -> None:
        query = text("INSERT INTO no_such_table VALUES (:lease)")
        await conn.execute(query, {"lease": "s3cret-lease"})

    with pytest.raises(DBAPIError) as raised:
        await store.writer.run(broken)
    assert "s3cret" not in str(raised.value)
