"""API tokens: add, list, remove; and the first admin token."""

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import cast

from hub.errors import BadRequest, NotFound
from hub.service.access import Kind, Principal, authorise, hash_secret, new_secret
from hub.service.hub import Hub
from hub.store import tokens as store
from hub.store.rows import TokenRow
from hub.wire.fleet import NewToken, Scope, TokenList, TokenMade, TokenView

ADMIN_TOKEN_FILE = "admin-token"  # noqa: S105 - the name of a file


async def listing(hub: Hub, principal: Principal) -> TokenList:
    """All tokens, without their secrets."""
    authorise(principal, "admin")
    await save_uses(hub)
    async with hub.store.read() as conn:
        rows = await store.listing(conn)
    return TokenList(tokens=[_view(row) for row in rows])


async def add(hub: Hub, principal: Principal, message: NewToken) -> TokenMade:
    """Make a token; its secret is in the answer and nowhere else."""
    authorise(principal, "admin")
    if message.kind == "admin" and message.scope != Scope():
        raise BadRequest("an admin token is for all projects: leave out `scope`")
    row, secret = await _make(hub, message)
    return TokenMade(token=secret, **_view(row).model_dump())


async def remove(hub: Hub, principal: Principal, token_id: int) -> None:
    """Revoke a token, at once."""
    authorise(principal, "admin")

    async def whole() -> None:
        if not await store.remove(hub.store.writer, token_id):
            raise NotFound(f"there is no token {token_id}")
        for digest in [key for key, one in hub.tokens.by_hash.items() if one.token_id == token_id]:
            del hub.tokens.by_hash[digest]

    await hub.dispatch.tasks.whole(whole())


async def save_uses(hub: Hub) -> None:
    """Write when each token was last used; many uses are one write."""
    if hub.tokens.used_ms:
        uses = dict(hub.tokens.used_ms)
        hub.tokens.used_ms.clear()
        rows = [store.Used(id=token_id, now_ms=used_ms) for token_id, used_ms in uses.items()]
        await asyncio.gather(*(store.touch(hub.store.writer, row) for row in rows))


async def first_admin(hub: Hub) -> Path | None:
    """Make the first admin token where there is none, in a file only its owner reads; the file's path."""
    if any(one.kind == "admin" for one in hub.tokens.by_hash.values()):
        return None
    file = hub.config.data / ADMIN_TOKEN_FILE
    _, secret = await _make(hub, NewToken(name="first admin", kind="admin"))
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as out:
        os.fchmod(out.fileno(), 0o600)  # also where an older file was there
        out.write(secret + "\n")
    return file


async def load(hub: Hub) -> None:
    """Know every token that is valid, and every runner's."""
    async with hub.store.read() as conn:
        rows = await store.listing(conn)
    for row in rows:
        hub.tokens.by_hash[row.token_hash] = _principal(row)


async def _make(hub: Hub, message: NewToken) -> tuple[TokenRow, str]:
    secret = new_secret("sht")
    now_ms = hub.now_ms()
    expires_ms = None if message.expires_in_s is None else now_ms + message.expires_in_s * 1000
    new = store.NewToken(
        name=message.name,
        kind=message.kind,
        token_hash=hash_secret(secret),
        owner=message.scope.owner,
        project=message.scope.project,
        created_ms=now_ms,
        expires_ms=expires_ms,
    )

    async def whole() -> TokenRow:
        row = TokenRow(id=await store.add(hub.store.writer, new), used_ms=None, **asdict(new))
        hub.tokens.by_hash[row.token_hash] = _principal(row)
        return row

    return await hub.dispatch.tasks.whole(whole()), secret


def _principal(row: TokenRow) -> Principal:
    return Principal(
        name=row.name,
        kind=cast(Kind, row.kind),  # written from a NewToken, whose kinds are these
        scope=Scope(owner=row.owner, project=row.project),
        token_id=row.id,
        expires_ms=row.expires_ms,
    )


def _view(row: TokenRow) -> TokenView:
    return TokenView(
        id=row.id,
        name=row.name,
        kind=row.kind,
        scope=Scope(owner=row.owner, project=row.project),
        created_at=row.created_ms,
        expires_at=row.expires_ms,
        used_at=row.used_ms,
    )
