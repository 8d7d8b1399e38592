"""Registered runners: added and removed by an admin, and what each last said of itself.

A runner that is removed loses its open attempts in the same transaction; its name stays on them as
text, so that no page depends on its row. When it was last heard of is written by `save` alone.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from hub.store.endings import Ended, Ending, end_many
from hub.store.errors import Taken
from hub.store.rows import RunnerRow, columns, read
from hub.store.sql import each, values_of
from hub.store.writer import Batch, Writer


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRunner:
    """A runner that an admin adds; only the hash of its token is kept. `labels`: JSON list."""

    name: str
    token_hash: str
    created_ms: int
    labels: str = "[]"
    owner: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose jobs a runner takes: all where both are None."""

    owner: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRunner:
    """What an admin changes of a runner; None: it stays."""

    name: str
    labels: str | None = None
    scope: Scope | None = None
    state: str | None = None
    state_reason: str = ""  # written with `state`


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What the hub knows of a runner now, so that it survives a restart; None: it stays."""

    name: str
    offer: str | None = None  # JSON of wire Claim
    instance: str | None = None
    heard_ms: int | None = None
    polled_ms: int | None = None
    idle_memory_mib: int | None = None
    broken_promises: int | None = None
    state: str | None = None
    state_reason: str = ""  # written with `state`


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A runner is gone; `ended`: what came of the attempts that it had out, by job."""

    ended: dict[int, Ended]


_SELECT = f"SELECT {columns(RunnerRow, 'runners')} FROM runners"  # noqa: S608 - names of our own fields

_ADD = """
    INSERT INTO runners (name, token_hash, labels, owner, project, state, state_reason, broken_promises,
                         created_ms)
    VALUES (:name, :token_hash, :labels, :owner, :project, 'active', '', 0, :created_ms)
    ON CONFLICT DO NOTHING
    RETURNING name
"""

_CHANGE = """
    UPDATE runners
    SET labels = COALESCE(input.labels, runners.labels),
        owner = CASE WHEN input.scoped = 1 THEN input.owner ELSE runners.owner END,
        project = CASE WHEN input.scoped = 1 THEN input.project ELSE runners.project END,
        state = COALESCE(input.state, runners.state),
        state_reason = CASE WHEN input.state IS NULL THEN runners.state_reason ELSE input.state_reason END
    FROM INPUT
    WHERE runners.name = input.name
"""
_CHANGE_COLUMNS = (
    "name text, labels text, scoped bigint, owner text, project text, state text, state_reason text"
)

_SAVE = """
    UPDATE runners
    SET offer = COALESCE(input.offer, runners.offer),
        instance = COALESCE(input.instance, runners.instance),
        heard_ms = COALESCE(input.heard_ms, runners.heard_ms),
        polled_ms = COALESCE(input.polled_ms, runners.polled_ms),
        idle_memory_mib = COALESCE(input.idle_memory_mib, runners.idle_memory_mib),
        broken_promises = COALESCE(input.broken_promises, runners.broken_promises),
        state = COALESCE(input.state, runners.state),
        state_reason = CASE WHEN input.state IS NULL THEN runners.state_reason ELSE input.state_reason END
    FROM INPUT
    WHERE runners.name = input.name
    RETURNING runners.name
"""
_SAVE_COLUMNS = (
    "name text, offer text, instance text, heard_ms bigint, polled_ms bigint, idle_memory_mib bigint, "
    "broken_promises bigint, state text, state_reason text"
)


async def add(writer: Writer, runner: NewRunner) -> None:
    """Register a runner. Raises Taken where the name is in use."""

    async def unit(conn: AsyncConnection) -> None:
        if (await conn.execute(text(_ADD), asdict(runner))).scalar_one_or_none() is None:
            raise Taken(f"a runner named {runner.name} is there already: choose another name, or remove it")

    await writer.run(unit, key=("runner", runner.name))


async def change(writer: Writer, changed: ChangedRunner) -> RunnerRow | None:
    """The runner as it is now; None: there is none of this name."""
    row = asdict(changed)
    scope = row.pop("scope")
    row |= scope or {"owner": None, "project": None}
    row["scoped"] = int(scope is not None)

    async def unit(conn: AsyncConnection) -> RunnerRow | None:
        await each(conn, _CHANGE, _CHANGE_COLUMNS, [row])
        return await get(conn, changed.name)

    return await writer.run(unit, key=("runner", changed.name))


async def remove(writer: Writer, name: str, *, now_ms: int) -> Removed | None:
    """Remove a runner and end what it has out as lost with it; None: there is none of this name."""

    async def unit(conn: AsyncConnection) -> Removed | None:
        query = text("SELECT job_id, number FROM attempts WHERE runner = :name AND ended_ms IS NULL")
        endings = [
            Ending(
                job=row.job_id,
                number=row.number,
                how="runner removed",
                now_ms=now_ms,
                reason="runner removed",
            )
            for row in await conn.execute(query, {"name": name})
        ]
        gone = await conn.execute(
            text("DELETE FROM runners WHERE name = :name RETURNING name"), {"name": name}
        )
        if gone.scalar_one_or_none() is None:
            return None
        ended = await end_many(conn, endings)
        return Removed(ended={one.job: what for one, what in zip(endings, ended, strict=True)})

    return await writer.run(unit)


async def save(writer: Writer, saved: Saved) -> bool:
    """Keep what a runner last said; False: it is not registered any more."""
    return await writer.put(SAVES, saved)


async def _save_many(conn: AsyncConnection, rows: Sequence[Saved]) -> list[bool]:
    found = await each(conn, _SAVE, _SAVE_COLUMNS, [values_of(row) for row in rows])
    names = {row.name for row in found}
    return [row.name in names for row in rows]


SAVES: Batch[Saved, bool] = Batch(name="save runner", key=lambda row: ("runner", row.name), many=_save_many)


async def get(conn: AsyncConnection, name: str) -> RunnerRow | None:
    """One runner."""
    row = (await conn.execute(text(f"{_SELECT} WHERE name = :name"), {"name": name})).one_or_none()
    return None if row is None else read(RunnerRow, row)


async def by_hash(conn: AsyncConnection, token_hash: str) -> RunnerRow | None:
    """The runner whose token has this hash."""
    row = (
        await conn.execute(text(f"{_SELECT} WHERE token_hash = :hash"), {"hash": token_hash})
    ).one_or_none()
    return None if row is None else read(RunnerRow, row)


async def listing(conn: AsyncConnection) -> list[RunnerRow]:
    """All runners, by name."""
    return [read(RunnerRow, row) for row in await conn.execute(text(f"{_SELECT} ORDER BY name"))]
