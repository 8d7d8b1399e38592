"""What every command that asks a hub has in hand: which hub, and how to print."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hub.cli.errors import CliError
from hub.cli.login import Target, target
from hub.cli.terminal import Paint, json_safe, stdout_paint

if TYPE_CHECKING:  # the HTTP library costs 0.1 s, which `--help` need not pay
    from hub.cli.client import Client

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The global options; None: not given."""

    hub: str | None = None
    token: str | None = None
    as_json: bool = False

    def target(self) -> Target:
        """The hub and the token meant. Raises Usage."""
        return target(self.hub, self.token, os.environ)

    def client(self) -> "Client":
        """A client of the hub meant. Raises Usage."""
        from hub.cli.client import Client

        return Client(self.target())

    @property
    def paint(self) -> Paint:
        """Colours for the standard output."""
        return stdout_paint()


def print_json(value: Json) -> None:
    """What the API gave, indented; every sentence as it came."""
    print(json_safe(json.dumps(value, indent=2, ensure_ascii=False)))


def print_json_line(value: Json) -> None:
    """The same on one line, for output that goes on."""
    print(json_safe(json.dumps(value, ensure_ascii=False)), flush=True)


def show(session: Session, value: Json, lines: Callable[[], list[str]]) -> None:
    """Print an answer: as the API gave it with --json, else as `lines`."""
    if session.as_json:
        print_json(value)
    else:
        print("\n".join(lines()))


def now_ms() -> int:
    """The time that ages are counted from."""
    from hub.clock import SystemClock

    return SystemClock().now_ms()


@contextmanager
def telling(file: Path) -> Iterator[None]:
    """Errors from within name the pipeline file that was sent, so that an editor can jump to a fault."""
    try:
        yield
    except CliError as error:
        error.file = str(file)
        raise
