"""What every command that asks a hub has in hand: which hub, and how to print.

The options --hub, --token and --json may stand before or after the subcommand: `asking` adds them to
a command's own, and what stands nearest to the end wins.
"""

import functools
import inspect
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hub.cli.errors import CliError
from hub.cli.login import Target, target
from hub.cli.terminal import Paint, json_safe, stdout_paint

if TYPE_CHECKING:  # the HTTP library costs 0.1 s, which `--help` need not pay
    from hub.cli.client import Client

Json = dict[str, Any]
HubOption = Annotated[
    str | None,
    typer.Option("--hub", metavar="URL", help="The hub (or SHUNTER_URL, or what `shunter login` stored)."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="The token (or SHUNTER_TOKEN, which other users of the machine cannot see).",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what the API gives.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The global options as given so far."""

    hub: str | None = None
    token: str | None = None
    as_json: bool = False
    subcommand: str | None = None  # of a group: which of its commands comes next, if one does

    def given(self, hub: str | None, token: str | None, as_json: bool) -> "Session":
        """With what was given later; it wins."""
        return replace(self, hub=hub or self.hub, token=token or self.token, as_json=as_json or self.as_json)

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


def asking(command: Callable[..., None]) -> Callable[..., None]:
    """The command with --hub, --token and --json beside its own options, called with a Session."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        ctx: typer.Context = given.pop("ctx")
        hub, token, as_json = (given.pop(name) for name in ("hub", "token", "as_json"))
        earlier = ctx.obj if isinstance(ctx.obj, Session) else Session()
        session = replace(earlier.given(hub, token, as_json), subcommand=ctx.invoked_subcommand)
        ctx.obj = session
        command(session, **given)

    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = [
        inspect.Parameter("hub", keyword, default=None, annotation=HubOption),
        inspect.Parameter("token", keyword, default=None, annotation=TokenOption),
        inspect.Parameter("as_json", keyword, default=False, annotation=JsonOption),
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *(each.replace(kind=keyword) for each in own), *shared]
    del run.__wrapped__  # typer must read the signature below
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # a documented hook
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


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
