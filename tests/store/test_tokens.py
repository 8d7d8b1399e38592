"""API tokens."""

import asyncio

import pytest

from hub.store import tokens
from hub.store.engine import Store
from hub.store.errors import Taken
from hub.store.tokens import NewToken, Used


async def test_a_token_is_kept_found_used_and_removed(store: Store) -> None:
    token = NewToken(name="ci", kind="submit", token_hash="h1", created_ms=1, project="a/b", expires_ms=99)
    first = await tokens.add(store.writer, token)
    second = await tokens.add(store.writer, NewToken(name="ci", kind="read", token_hash="h2", created_ms=2))
    used = [Used(id=first, now_ms=5), Used(id=first, now_ms=6), Used(id=second, now_ms=7)]
    assert await asyncio.gather(*(tokens.touch(store.writer, one) for one in used)) == [True] * 3
    async with store.read() as conn:
        rows = await tokens.listing(conn)
        assert await tokens.by_hash(conn, "h1") == rows[0]
        assert await tokens.by_hash(conn, "h3") is None
    assert [(row.id, row.kind, row.used_ms) for row in rows] == [(first, "submit", 6), (second, "read", 7)]
    assert (rows[0].project, rows[0].owner, rows[0].expires_ms) == ("a/b", None, 99)
    assert await tokens.remove(store.writer, first)
    assert not await tokens.remove(store.writer, first)
    assert not await tokens.touch(store.writer, Used(id=first, now_ms=8))


async def test_the_very_same_secret_is_refused(store: Store) -> None:
    token = NewToken(name="ci", kind="read", token_hash="h1", created_ms=1)
    await tokens.add(store.writer, token)
    with pytest.raises(Taken):
        await tokens.add(store.writer, token)
