"""`shunter token …`: API tokens for people and programs."""

import re
from typing import Annotated, Literal

from hub.cli.errors import Usage
from hub.cli.runners import OwnerOption, ProjectOption, scope
from hub.cli.session import Session, now_ms, print_json, show
from hub.cli.words import Argument, Group, Option

app = Group("token", "API tokens: add, list, remove.")

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@app.command("add")
def add(
    session: Session,
    name: Annotated[str, Argument(metavar="NAME", help="What it is for.")],
    kind: Annotated[
        Literal["read", "submit", "images", "admin"],
        Option("--kind", "-k", help="submit may read; images may read and push images; admin may all."),
    ] = "submit",
    owner: OwnerOption = None,
    project: ProjectOption = None,
    expires: Annotated[
        str | None, Option("--expires", metavar="TIME", help="Such as 12h, 30d, 8w. Default: never.")
    ] = None,
) -> None:
    """Make a token; it is shown once."""
    body: dict[str, object] = {"name": name, "kind": kind, "scope": scope(owner, project)}
    if expires is not None:
        body["expires_in_s"] = seconds(expires)
    made = session.client().ask("POST", "/tokens", body=body).json()
    if session.as_json:
        print_json(made)
        return
    print(f"token {made['id']} ({made['kind']}) is made. Shown this once:\n\n  {made['token']}")


@app.command("list")
def listing(session: Session) -> None:
    """List tokens, without their secrets."""
    from hub.cli.show_fleet import tokens_lines

    found = session.client().get("/tokens").json()
    show(session, found, lambda: tokens_lines(found.get("tokens") or [], session.paint, now_ms()))


@app.command("rm")
def remove(
    session: Session, number: Annotated[int, Argument(metavar="ID", help="Its number in the list.", low=1)]
) -> None:
    """Remove a token; it is void at once."""
    reply = session.client().ask("DELETE", f"/tokens/{number}")
    show(session, reply.json() if reply.body else {}, lambda: [f"token {number} is void"])


def seconds(text: str) -> int:
    """`90m`, `12h`, `30d` or `8w` in seconds. Raises Usage."""
    found = re.fullmatch(r"([1-9][0-9]{0,5})([mhdw])", text)
    if found is None:
        raise Usage(f"{text!r} is no time: 90m, 12h, 30d or 8w")
    return int(found[1]) * _UNITS[found[2]]
