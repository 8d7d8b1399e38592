"""`shunter runners …`: list, add, drain, resume and remove the machines that run jobs."""

from typing import Annotated, Any

from hub.cli.errors import Usage
from hub.cli.session import Session, print_json, show
from hub.cli.words import Argument, Group, Option


def listing(session: Session) -> None:
    """List runners: state, when heard, room, labels."""
    from hub.cli.show_fleet import runners_lines

    found = session.client().get("/runners").json()
    show(session, found, lambda: runners_lines(found.get("runners") or [], session.paint))


app = Group("runners", "Runners: list (the default), add, drain, resume, remove.", listing)
app.add("list", listing)

Name = Annotated[str, Argument(metavar="NAME", help="The runner's name.")]
OwnerOption = Annotated[str | None, Option("--owner", metavar="OWNER", help="Only this owner's projects.")]
ProjectOption = Annotated[str | None, Option("--project", metavar="OWNER/NAME", help="Only this project.")]


@app.command("add")
def add(
    session: Session,
    name: Name,
    label: Annotated[
        list[str] | None, Option("--label", "-l", help="A label it has; may be repeated.")
    ] = None,
    owner: OwnerOption = None,
    project: ProjectOption = None,
) -> None:
    """Add a runner; its token is shown once."""
    body = {"name": name, "labels": label or [], "scope": scope(owner, project)}
    client = session.client()
    made = client.ask("POST", "/runners", body=body).json()
    if session.as_json:
        print_json(made)
        return
    print(f"runner {made['name']} is added. Its token, shown this once:\n\n  {made['token']}\n")
    print(f"Start it on its machine:\n\n  shunter runner --hub {client.target.url} --token {made['token']}")


@app.command("drain")
def drain(session: Session, name: Name) -> None:
    """Let a runner finish what it has, and offer it nothing more."""
    _change(session, name, "draining", f"runner {name} finishes what it has and is offered nothing more")


@app.command("resume")
def resume(session: Session, name: Name) -> None:
    """Offer a runner jobs again, after a drain or a quarantine."""
    _change(session, name, "active", f"runner {name} is offered jobs again")


@app.command("rm")
def remove(session: Session, name: Name) -> None:
    """Remove a runner; its token is void at once, and what it runs is queued again."""
    from hub.cli.client import segment

    reply = session.client().ask("DELETE", f"/runners/{segment(name)}")
    show(session, reply.json() if reply.body else {}, lambda: [f"runner {name} is removed"])


def scope(owner: str | None, project: str | None) -> dict[str, str]:
    """Whose jobs, as the API takes it. Raises Usage where both are given."""
    if owner and project:
        raise Usage("--owner and --project exclude each other")
    return {"project": project} if project else {"owner": owner} if owner else {}


def _change(session: Session, name: str, state: str, words: str) -> None:
    from hub.cli.client import segment

    body: dict[str, Any] = {"state": state}
    reply = session.client().ask("PATCH", f"/runners/{segment(name)}", body=body, repeat=True)
    show(session, reply.json() if reply.body else {}, lambda: [words])
