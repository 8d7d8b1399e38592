"""`shunter fleet`, `shunter queue`, `shunter login` and `shunter logout`."""

import os
import sys
from typing import Annotated

from hub.cli import login as logins
from hub.cli.errors import Usage
from hub.cli.session import Session, now_ms, show
from hub.cli.words import Argument


def fleet(session: Session) -> None:
    """Each runner's headroom, and what the queue lacks."""
    from hub.cli.show_fleet import fleet_lines

    found = session.client().get("/fleet").json()
    show(session, found, lambda: fleet_lines(found, session.paint, now_ms()))


def queue(session: Session) -> None:
    """What waits, in queue order, and why."""
    from hub.cli.show_fleet import queue_lines

    found = session.client().get("/queue").json()
    show(session, found, lambda: queue_lines(found, session.paint, now_ms()))


def login(
    session: Session,
    url: Annotated[str | None, Argument(metavar="URL", help="The hub [as everywhere].")] = None,
) -> None:
    """Store a hub's address and token.

    The token is asked for, or read from the standard input where that is no terminal.
    """
    from hub.cli.client import Client
    from hub.cli.show_fleet import scope_text

    wanted = logins.target(url or session.hub, None, os.environ).url
    token = session.token or os.environ.get("SHUNTER_TOKEN") or _ask_token(wanted)
    found = logins.Target(url=wanted, token=logins.clean_token(token))
    me = Client(found).get("/me").json()
    file = logins.path(os.environ)
    logins.remember(file, wanted, found.token or "")
    words = f"signed in to {wanted} as {me['name']} ({me['kind']}, {scope_text(me.get('scope') or {})})"
    show(session, me, lambda: [words, f"stored in {file}"])


def logout(
    session: Session,
    url: Annotated[str | None, Argument(metavar="URL", help="The hub [as everywhere].")] = None,
) -> None:
    """Forget a hub's token on this machine.

    It stays valid elsewhere; `shunter token rm` ends it.
    """
    wanted = logins.target(url or session.hub, None, os.environ).url
    if not logins.forget(logins.path(os.environ), wanted):
        raise Usage(f"no token of {wanted} is stored")
    show(session, {}, lambda: [f"the token of {wanted} is forgotten here"])


def _ask_token(url: str) -> str:
    if not sys.stdin.isatty():
        return sys.stdin.readline(1000)
    from getpass import getpass

    return getpass(f"token for {url} (a hub's first is in its data folder, admin-token): ")
