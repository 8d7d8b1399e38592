"""`shunter hub` and `shunter runner`: the two that serve.

The only place of the command line that reaches the server, inside the function, so that nothing else
pays for its database and web framework.
"""

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

from hub.cli.errors import CliError, Usage
from hub.cli.words import Option

_SETTINGS = """
Settings, from the environment:

  SHUNTER_DATA         the data folder                          (./shunter-data)
  SHUNTER_URL          as clients reach it, for links           (the listen address)
  SHUNTER_DATABASE     a SQLAlchemy URL                         (SQLite in the data folder)
  SHUNTER_BLOBS        a folder or s3://…                       (the data folder)
  SHUNTER_HOLD_S       a job is held this long for a better runner         (15)
  SHUNTER_POLLING_S    a runner is there this long after its last poll     (10)
  SHUNTER_SILENT_S     a runner is out when it was not heard for this long (30)
  SHUNTER_LEASE_S      an attempt without a sign of life is lost           (60)
  SHUNTER_RESERVE_MIB  memory kept back on a runner that states none     (4096)
  SHUNTER_JOURNAL_ENTRIES  decisions kept for `shunter replay`, and their inputs (20000; 0: none)

The first start writes an admin token to DIR/admin-token and says so.
"""


def hub(
    data: Annotated[
        Path | None, Option("--data", metavar="DIR", help="The data folder [./shunter-data].")
    ] = None,
    listen: Annotated[
        str | None, Option("--listen", metavar="HOST:PORT", help="Where to serve [127.0.0.1:8417].")
    ] = None,
    database: Annotated[
        str | None,
        Option("--database", metavar="URL", help="A SQLAlchemy URL [SQLite in the data folder]."),
    ] = None,
    blobs: Annotated[
        str | None, Option("--blobs", metavar="PLACE", help="A folder or s3://… [the data folder].")
    ] = None,
) -> None:
    """Serve: the API, the pages and the queue."""
    serve, from_env = _load()
    try:
        config = from_env(os.environ, data=data, listen=listen, database=database, blobs=blobs)
    except ValueError as error:
        raise Usage(str(error)) from None
    serve(config)


def _load() -> tuple[Callable[[Any], None], Callable[..., Any]]:
    """The server's `serve` and `Config.from_env`. Raises CliError where its libraries are missing."""
    try:
        from hub.app import serve
        from hub.config import Config
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("hub", "runner"):
            raise  # a broken installation, whose trace says more than any words
        raise CliError(f"{error.name} is missing: a hub needs pip install 'shunter[hub]'") from None
    return serve, Config.from_env


hub.__doc__ = f"{hub.__doc__}\n{_SETTINGS}"


def runner() -> None:
    """Run jobs on this machine; `shunter runner --help` tells its options."""
    run_runner([])


def run_runner(words: Sequence[str]) -> NoReturn:
    """Become `python -m runner WORDS`: every word is the runner's own, --help too."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "runner", *words])  # noqa: S606 - this very Python
