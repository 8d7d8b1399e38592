"""A hub for tests that hold on either database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.hubs import Running, running
from tests.postgres import postgres_cluster, postgres_url

__all__ = ["postgres_cluster", "postgres_url"]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database of the test's own; None: the hub's default, a SQLite file."""
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else None


@pytest.fixture
async def hub(database: str | None, tmp_path: Path) -> AsyncIterator[Running]:
    """A hub on either database."""
    async with running(tmp_path, database=database) as hub:
        yield hub
