"""`shunter run …` and `shunter preview`: submit, list, view, watch, logs, cancel, retry."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hub.cli.errors import Usage
from hub.cli.session import Session, now_ms, print_json, show, telling
from hub.cli.words import Argument, Group, Option

if TYPE_CHECKING:
    from hub.cli.client import Client

app = Group("run", "Runs: submit, look at, follow, cancel and retry.")

Number = Annotated[int, Argument(metavar="N", low=1, help="The run's number.")]
File = Annotated[Path, Argument(metavar="FILE", help="The pipeline file.")]
ProjectOption = Annotated[
    str | None,
    Option("--project", metavar="OWNER/NAME", help="Default: from the git remote, else local/FOLDER."),
]


@app.command("submit")
def submit(
    session: Session,
    file: File,
    project: ProjectOption = None,
    folder: Annotated[
        Path | None, Option("--folder", help="Sent along. Default: the file's checkout.")
    ] = None,
    git: Annotated[str | None, Option("--git", metavar="URL", help="Clone this instead.")] = None,
    commit: Annotated[str | None, Option("--commit", metavar="SHA", help="The commit.")] = None,
    no_workspace: Annotated[bool, Option("--no-workspace", help="Send no files.")] = False,
    title: Annotated[str | None, Option("--title", help="What people see.")] = None,
    ref: Annotated[str | None, Option("--ref", help="Branch or tag, for people.")] = None,
    priority: Annotated[int, Option("--priority", low=-100, high=100, help="Higher goes first.")] = 0,
    watch: Annotated[bool, Option("--watch", "-w", help="Follow it; exit with its result.")] = False,
) -> None:
    """Submit a pipeline file, with the folder it is in."""
    from hub.cli import submit as sending

    if (git is not None) + (folder is not None) + no_workspace > 1:
        raise Usage("--folder, --git and --no-workspace exclude each other")
    if git is not None and commit is None:
        raise Usage("--git needs --commit: a run means one commit, for ever")
    client = session.client()
    wish = sending.Wish(
        file=file,
        project=project,
        folder=folder,
        git=git,
        commit=commit,
        no_workspace=no_workspace,
        title=title,
        ref=ref,
        priority=priority,
    )
    with telling(file):
        made = sending.submit(client, wish)
    if session.as_json:
        print_json(made)
    else:
        print(f"run {made['id']}  {made['url']}", flush=True)
    if watch:
        _watch(session, client, int(made["id"]))


@app.command("list")
def listing(
    session: Session,
    project: Annotated[str | None, Option("--project", metavar="OWNER/NAME")] = None,
    status: Annotated[str | None, Option("--status", help="queued, running, succeeded, failed, …")] = None,
    limit: Annotated[int, Option("--limit", low=1, high=500, help="How many at most.")] = 20,
    before: Annotated[int | None, Option("--before", metavar="N", help="Older than run N.")] = None,
) -> None:
    """List runs, newest first."""
    from hub.cli.show import runs_lines

    query = {"project": project, "status": status, "limit": limit, "before": before}
    found = session.client().get("/runs", query).json()
    show(session, found, lambda: runs_lines(found, session.paint, now_ms()))


@app.command("view")
def view(
    session: Session,
    number: Number,
    verbose: Annotated[
        bool, Option("--verbose", "-v", help="Every runner that was looked at, and what it lacks.")
    ] = False,
) -> None:
    """Show a run: each job, where it runs and why, or why it waits."""
    from hub.cli.show import run_lines

    client = session.client()
    run = client.get(f"/runs/{number}").json()
    more: dict[int, dict[str, Any]] | None = None
    if verbose and not session.as_json:
        more = {
            job["id"]: client.get(f"/jobs/{job['id']}/placement").json()
            for job in run.get("jobs") or []
            if job.get("placed") and not job.get("waiting")
        }
    url = f"{client.target.url}/runs/{number}"
    found: dict[int, dict[str, Any]] = {}
    if verbose and not session.as_json:
        tested = [job["id"] for job in run.get("jobs") or [] if job.get("tests")]
        found = {job_id: client.get(f"/jobs/{job_id}/results").json() for job_id in tested}
    show(session, run, lambda: run_lines(run, url, session.paint, now_ms(), more=more, results=found))


@app.command("watch")
def watch(session: Session, number: Number) -> None:
    """Follow a run to its end; exits 1 if it did not succeed."""
    _watch(session, session.client(), number)


@app.command("logs")
def logs(
    session: Session,
    number: Number,
    job: Annotated[str | None, Option("--job", "-j", metavar="NAME", help="One job. Default: all.")] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the end.")] = False,
    raw: Annotated[bool, Option("--raw", help="The bytes as they are; not on a terminal.")] = False,
) -> None:
    """Print what the jobs of a run printed."""
    from hub.cli.logs import print_logs

    print_logs(session.client(), number, job, follow=follow, raw=raw)


@app.command("cancel")
def cancel(session: Session, number: Number) -> None:
    """Cancel a run: what waits ends now, what runs is told to stop."""
    reply = session.client().ask("POST", f"/runs/{number}/cancel", repeat=True)
    show(session, reply.json() if reply.body else {}, lambda: [f"run {number} is told to stop"])


@app.command("retry")
def retry(
    session: Session,
    number: Number,
    watch: Annotated[bool, Option("--watch", "-w", help="Follow it; exit with its result.")] = False,
) -> None:
    """Run a run again, as a new one."""
    client = session.client()
    made = client.ask("POST", f"/runs/{number}/retry").json()
    if session.as_json:
        print_json(made)
    else:
        print(f"run {made['id']}  {made['url']}", flush=True)
    if watch:
        _watch(session, client, int(made["id"]))


def preview(
    session: Session,
    file: File,
    project: ProjectOption = None,
    verbose: Annotated[bool, Option("--verbose", "-v", help="All lacks, with remedies.")] = False,
) -> None:
    """Where would its jobs go now, and why not elsewhere?

    Nothing is queued.
    """
    from hub.cli import submit as sending
    from hub.cli.show import preview_lines

    with telling(file):
        found = sending.preview(session.client(), file, project)
    show(session, found, lambda: preview_lines(found, session.paint, verbose=verbose))


def _watch(session: Session, client: "Client", number: int) -> None:
    from hub.cli.watch import Watch, follow

    watching = Watch(session.paint, as_json=session.as_json)
    if not follow(client, number, watching):
        raise SystemExit(1)
