"""Many rows in one statement, the same SQL on SQLite and PostgreSQL.

A batch travels as one JSON text, the parameter `rows`, and stands in the statement as the table
`input`. Nothing else differs between the databases in the hot statements.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

MAX_ROWS = 500  # rows in one statement: some MiB of JSON at most, and a short hold of the one writer

Rows = Iterable[Mapping[str, Any]]  # of texts, integers and None


@cache
def _statement(dialect: str, sql: str, columns: str) -> TextClause:
    if dialect == "sqlite":
        names = [column.split()[0] for column in columns.split(", ")]
        picked = ", ".join(f"json_extract(value, '$.{name}') AS {name}" for name in names)
        source = f"(SELECT {picked} FROM json_each(:rows)) AS input"  # noqa: S608 - names from this code only
    else:
        source = f"jsonb_to_recordset(CAST(:rows AS jsonb)) AS input({columns})"
    return text(sql.replace("INPUT", source))


async def each(conn: AsyncConnection, sql: str, columns: str, rows: Rows, **parameters: Any) -> list[Any]:
    """Run `sql` once over all `rows`; what it returned, if it returns rows.

    `INPUT` in `sql` becomes the table `input` with `columns` ("job bigint, lease text"). No row is
    locked for update: the one writer is alone, on either database.
    """
    statement = _statement(conn.dialect.name, sql, columns)
    body = json.dumps([{name: _clean(value) for name, value in row.items()} for row in rows])
    result = await conn.execute(statement, {"rows": body, **parameters})
    return list(result) if result.returns_rows else []


def values_of(row: Any) -> dict[str, Any]:
    """The fields of a flat dataclass with slots by name: `asdict` without its deep copy."""
    return {name: getattr(row, name) for name in row.__slots__}


def _clean(value: Any) -> Any:
    """PostgreSQL keeps no NUL in a text; one must not fail the batch it travels in."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
