"""API tokens. Only hashes are kept; whether a token is still valid at a moment is the caller's question."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.errors import Taken
from hub.store.rows import TokenRow, columns, read
from hub.store.sql import each
from hub.store.writer import Batch, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token to keep. `expires_ms` None: never."""

    name: str
    kind: str
    token_hash: str
    created_ms: int
    owner: str | None = None
    project: str | None = None
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """A token was used."""

    id: int
    now_ms: int


_SELECT = f"SELECT {columns(TokenRow, 'tokens')} FROM tokens"  # noqa: S608 - names of our own fields

_ADD = """
    INSERT INTO tokens (name, kind, token_hash, owner, project, created_ms, expires_ms)
    VALUES (:name, :kind, :token_hash, :owner, :project, :created_ms, :expires_ms)
    ON CONFLICT (token_hash) DO NOTHING
    RETURNING id
"""

_USED = """
    UPDATE tokens SET used_ms = input.now_ms FROM INPUT WHERE tokens.id = input.id RETURNING tokens.id
"""


async def add(writer: Writer, token: NewToken) -> int:
    """Keep a token; its id. Raises Taken where the very same secret is there already."""

    async def unit(conn: AsyncConnection) -> int:
        made: int | None = (await conn.execute(text(_ADD), asdict(token))).scalar_one_or_none()
        if made is None:
            raise Taken("this token is there already: make another secret")
        return made

    return await writer.run(unit, key=("token", token.token_hash))


async def remove(writer: Writer, token_id: int) -> bool:
    """Forget a token; False: there was none."""

    async def unit(conn: AsyncConnection) -> bool:
        gone = await conn.execute(text("DELETE FROM tokens WHERE id = :id RETURNING id"), {"id": token_id})
        return gone.scalar_one_or_none() is not None

    return await writer.run(unit, key=("token", token_id))


async def touch(writer: Writer, used: Used) -> bool:
    """Note that a token was used; False: it has been removed."""
    return await writer.put(USES, used)


async def _touch_many(conn: AsyncConnection, rows: Sequence[Used]) -> list[bool]:
    found = await each(conn, _USED, "id bigint, now_ms bigint", [asdict(row) for row in rows])
    ids = {row.id for row in found}
    return [row.id in ids for row in rows]


USES: Batch[Used, bool] = Batch(name="touch token", key=lambda row: ("token", row.id), many=_touch_many)


async def by_hash(conn: AsyncConnection, token_hash: str) -> TokenRow | None:
    """The token whose secret has this hash, expired or not."""
    row = (
        await conn.execute(text(f"{_SELECT} WHERE token_hash = :hash"), {"hash": token_hash})
    ).one_or_none()
    return None if row is None else read(TokenRow, row)


async def listing(conn: AsyncConnection) -> list[TokenRow]:
    """All tokens, oldest first."""
    return [read(TokenRow, row) for row in await conn.execute(text(f"{_SELECT} ORDER BY id"))]
