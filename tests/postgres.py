"""A PostgreSQL server of the tests' own: a cluster in a temporary folder, reached by a Unix socket.

One server per test process; each test that asks gets a database of its own, copied from one that
was migrated once. The server refuses to run as root, so that root's tests start it as `nobody`.
Where the binaries are missing the tests skip, with a reason that begins with "needs ".
"""

import asyncio
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from hub.store.engine import migrate

_OPTIONS = {  # nothing here must survive a power cut
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "listen_addresses": "''",
    "max_connections": "60",
    "shared_buffers": "32MB",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


def binaries() -> Path | None:
    """The folder of `initdb`, `pg_ctl` and `postgres`; None: not installed."""
    found = shutil.which("postgres")
    folders = [Path(found).parent, Path(found).resolve().parent] if found else []
    # the newest version first, by number: 9.6 is older than 15
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    folders += reversed(versions)
    for folder in folders:
        if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return folder
    return None


def _as_user(folder: Path, command: list[str]) -> list[str]:
    """`command`, as a user that the server accepts, to which `folder` then belongs."""
    if os.geteuid() != 0:
        return command
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", *command]


@dataclass(slots=True)
class Cluster:
    """A running server."""

    binaries: Path
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _template: str | None = None

    def url(self, database: str) -> str:
        """SQLAlchemy's URL of one of its databases."""
        return f"postgresql+asyncpg://hub@/{database}?host={self.folder}"

    def control(self, *arguments: str) -> None:
        """Run `pg_ctl` on it, and wait until it has done what it was told."""
        command = [str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-w", "-s", *arguments]
        _run(_as_user(self.folder, command), self.folder)

    def start(self) -> None:
        """Start the server."""
        options = " ".join(f"-c {name}={value}" for name, value in _OPTIONS.items())
        self.control("-l", str(self.folder / "log"), "-o", f"-k {self.folder} {options}", "start")

    async def make_database(self, *, migrated: bool = True) -> str:
        """A new database, at the newest schema or empty; its name."""
        if migrated and self._template is None:
            empty = await self.make_database(migrated=False)
            await migrate(self.url(empty))
            self._template = empty
        name = f"test_{next(self._numbers)}"
        await self.admin(f"CREATE DATABASE {name} TEMPLATE {self._template if migrated else 'template0'}")
        return name

    async def admin(self, statement: str) -> None:
        """Run a statement that no transaction may hold."""
        engine = create_async_engine(self.url("postgres"), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        async with engine.connect() as conn:
            await conn.execute(text(statement))
        await engine.dispose()


def _run(command: list[str], folder: Path) -> None:
    # to a file: the server inherits it, and a pipe would stay open as long as the server lives
    with (folder / "said").open("wb") as said:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", timeout=60
        )
    if done.returncode != 0:
        log = folder / "log"
        details = (folder / "said").read_text(errors="replace") + (log.read_text() if log.exists() else "")
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{details}")


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    """The server, started when the first test asks for it."""
    folder = binaries()
    if folder is None:
        pytest.skip("needs PostgreSQL (on Debian: apt-get install postgresql)")
    # not pytest's folder, whose parents only its owner may enter, and whose path is too long for a socket
    home = Path(tempfile.mkdtemp(prefix="shunter-pg-", dir="/tmp"))
    cluster = Cluster(folder, home)
    try:
        initdb = [str(folder / "initdb"), "-D", str(home / "data"), "-U", "hub", "-A", "trust", "-N"]
        _run(_as_user(home, [*initdb, "-E", "UTF8", "--locale=C"]), home)
        cluster.start()
        yield cluster
    finally:
        if (home / "data" / "postmaster.pid").exists():
            cluster.control("-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_cluster: Cluster) -> Iterator[str]:
    """A database of the test's own, at the newest schema."""
    name = asyncio.run(postgres_cluster.make_database())
    yield postgres_cluster.url(name)
    asyncio.run(postgres_cluster.admin(f"DROP DATABASE {name} WITH (FORCE)"))
