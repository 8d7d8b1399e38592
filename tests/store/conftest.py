"""The databases that the store's tests run on."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hub.store.engine import Store, migrate, open_store
from tests.postgres import Cluster, postgres_cluster, postgres_url

__all__ = ["postgres_cluster", "postgres_url"]

DATABASES = [pytest.param("sqlite"), pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file at the newest schema, to be copied."""
    file = tmp_path_factory.mktemp("migrated") / "hub.sqlite"
    asyncio.run(migrate(f"sqlite:///{file}"))
    return file


@pytest.fixture(params=DATABASES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database at the newest schema, of the test's own."""
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    file = tmp_path / "hub.sqlite"
    shutil.copy(request.getfixturevalue("migrated_file"), file)
    return f"sqlite:///{file}"


@pytest.fixture(params=DATABASES)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'hub.sqlite'}"
        return
    cluster: Cluster = request.getfixturevalue("postgres_cluster")
    name = asyncio.run(cluster.make_database(migrated=False))
    yield cluster.url(name)
    asyncio.run(cluster.admin(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """An open store, closed after the test."""
    store = await open_store(url)
    yield store
    await store.close()
