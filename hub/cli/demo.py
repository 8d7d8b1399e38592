"""`shunter demo`: a hub, three runners and two runs on this machine, without root.

Everything is real: the processes, the project, its tests, the placement. The demo checks what it
shows, and exits with 1 if anything is not as it should be. It is an HTTP client as every other
command is; it starts the hub by the same command line that a person would use.
"""

import contextlib
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hub.cli.errors import CliError, Unreachable, Usage
from hub.cli.words import Option

if TYPE_CHECKING:
    from hub.cli.client import Client
    from hub.cli.demo_processes import Processes
    from hub.cli.interrupts import Interrupts

Json = dict[str, Any]

RUNNERS = (("fast", 100), ("steady", 80), ("slow", 64))
START_S = 60.0  # a hub makes its database in 2 s; a busy machine takes longer
SETTLE_S = 30.0  # a waiting reason is worked out on each change, and every 15 s at least
LOOK_S = 0.2  # between two looks


def demo(
    keep: Annotated[bool, Option("--keep", help="Stay until Ctrl-C, to look around.")] = True,
    data: Annotated[
        Path | None, Option("--data", metavar="DIR", help="Keep its files here [a temporary folder].")
    ] = None,
) -> None:
    """See it work on this machine, without root.

    A hub, three runners of different speed, a real project's tests, and a job that nobody can take.
    """
    from hub.cli.demo_processes import Processes
    from hub.cli.interrupts import Interrupts

    with _folder(data) as folder, Interrupts() as interrupts:
        processes = Processes(folder)
        try:
            try:
                _demo(folder, processes, interrupts, keep=keep)
            finally:
                interrupts.calm()
        except CliError:
            if (name := processes.ended()) is not None:
                print(f"\n{name} ended by itself; its last words:\n{processes.tail(name)}", file=sys.stderr)
            raise
        finally:
            interrupts.calm()  # one that came within the first call of it has not passed by this one
            killed = processes.stop()
        if killed:
            raise CliError(f"{', '.join(killed)} did not stop when told to, and had to be killed")
        _say("all is stopped")


def _demo(folder: Path, processes: "Processes", interrupts: "Interrupts", *, keep: bool) -> None:
    from hub.cli import demo_project

    client, secret = _start_hub(folder, processes)
    _start_runners(client, folder, processes)
    _say("getting a project to test")
    project = demo_project.prepare(folder)
    print(f"  {project.note}")
    tested = _run_tests(client, project)
    nowhere = _run_nowhere(client, folder, project.name)
    _check(tested, nowhere, project.jobs)
    url = client.target.url
    print(f"\nthe runs' pages   {url}/runs/{tested['id']}\n                  {url}/runs/{nowhere['id']}")
    print(f"sign in with      {secret}")
    print(f"the command line  SHUNTER_URL={url} SHUNTER_TOKEN={secret} shunter run view {tested['id']} -v")
    if keep:
        print("\nit stays until Ctrl-C", flush=True)
        try:
            while processes.ended() is None:
                time.sleep(LOOK_S)
        except KeyboardInterrupt:  # what it waited for
            interrupts.calm()
        if processes.ended() is not None:
            raise CliError("a process of the demo ended")
        print()


def _start_hub(folder: Path, processes: "Processes") -> tuple["Client", str]:
    """A hub that is ready, as its administrator."""
    from hub.cli.client import Client
    from hub.cli.demo_processes import clean_environ, python
    from hub.cli.login import Target, clean_token

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    data = folder / "hub"
    listen = f"127.0.0.1:{port}"
    url = f"http://{listen}"
    _say(f"starting a hub at {url}")
    command = python("-m", "hub.cli.main", "hub", "--data", str(data), "--listen", listen)
    processes.start("hub", command, clean_environ())
    token_file = data / "admin-token"
    _until(token_file.is_file, processes, "the hub writes its admin token")
    secret = clean_token(token_file.read_text("utf-8"))
    client = Client(Target(url=url, token=secret), sleep=lambda _: None)

    def answers() -> bool:
        try:
            return client.get("/me").status == 200
        except Unreachable:
            return False

    _until(answers, processes, "the hub answers")
    return Client(Target(url=url, token=secret)), secret


def _start_runners(client: "Client", folder: Path, processes: "Processes") -> None:
    from hub.cli.demo_processes import clean_environ, python

    _say("starting three runners of different speed, each with a token of its own")
    for name, speed in RUNNERS:
        made = client.ask("POST", "/runners", body={"name": name}).json()
        environ = {**clean_environ(), "SHUNTER_URL": client.target.url, "SHUNTER_TOKEN": made["token"]}
        words = ("--work", str(folder / name), "--speed", str(speed), "--max-jobs", "1")
        processes.start(name, python("-m", "runner", *words, "--tiers", "process"), environ)

    def all_wait() -> bool:
        listed = client.get("/runners").json()["runners"]
        return sum(bool(each["waiting"]) for each in listed) == len(RUNNERS)

    _until(all_wait, processes, "the runners ask for work")


def _run_tests(client: "Client", project: Any) -> Json:
    """Run the project's tests, telling what changes; the run at its end."""
    from hub.cli.submit import Wish, submit
    from hub.cli.terminal import stdout_paint
    from hub.cli.watch import Watch, follow

    _say(f"submitting its tests: {project.jobs} jobs")
    wish = Wish(file=project.pipeline, project=project.name, folder=project.folder, title="The test suite")
    made = submit(client, wish)
    follow(client, made["id"], Watch(stdout_paint()))
    return _view(client, made["id"])


def _run_nowhere(client: "Client", folder: Path, project: str) -> Json:
    """A run that no runner can take, as soon as the hub says why."""
    from hub.cli.demo_project import NOWHERE

    _say("submitting a job that no runner can take: it asks for the label gpu")
    body = {
        "project": project,
        "pipeline": NOWHERE,
        "title": "A job for a machine that is not there",
        "key": secrets.token_hex(16),
    }
    number = client.ask("POST", "/runs", body=body, repeat=True).json()["id"]
    end = time.monotonic() + SETTLE_S
    while True:
        run = client.get(f"/runs/{number}").json()
        if (run["jobs"] and run["jobs"][0].get("waiting")) or time.monotonic() > end:
            return _view(client, number, verbose=True)
        time.sleep(LOOK_S)


def _view(client: "Client", number: int, *, verbose: bool = False) -> Json:
    """Print a run as `run view` does, and give it."""
    from hub.cli.session import now_ms
    from hub.cli.show import run_lines
    from hub.cli.terminal import stdout_paint

    run = client.get(f"/runs/{number}").json()
    url = f"{client.target.url}/runs/{number}"
    print()
    print("\n".join(run_lines(run, url, stdout_paint(), now_ms(), more={} if verbose else None)), flush=True)
    return run


def _check(tested: Json, nowhere: Json, jobs: int) -> None:
    """Raises CliError where the runs are not as they should be."""
    wrong = []
    if tested["status"] != "succeeded" or len(tested["jobs"]) != jobs:
        wrong.append(f"the tests' run {tested['status']} with {len(tested['jobs'])} of {jobs} jobs")
    wrong += [
        f"job {job['name']} does not say why it ran where it ran"
        for job in tested["jobs"]
        if not job["placed"]
    ]
    if len({job["runner"] for job in tested["jobs"]}) < 2:
        wrong.append("jobs that could run beside each other all ran on one runner")
    waiting = nowhere["jobs"][0].get("waiting") or {}
    if waiting.get("kind") != "nowhere" or "gpu" not in waiting.get("headline", ""):
        wrong.append(f"the job for the label gpu says {waiting.get('headline')!r}")
    if len(waiting.get("runners", [])) != len(RUNNERS):
        wrong.append("the waiting job does not tell what each runner lacks")
    if wrong:
        raise CliError("not as it should be: " + "; ".join(wrong))


def _until(holds: Callable[[], bool], processes: "Processes", what: str) -> None:
    """Wait until `holds`. Raises CliError after START_S, or when a process ends."""
    end = time.monotonic() + START_S
    while not holds():
        if processes.ended() is not None or time.monotonic() > end:
            raise CliError(f"waited in vain until {what}")
        time.sleep(LOOK_S)


def _say(words: str) -> None:
    from hub.cli.terminal import stdout_paint

    print(f"\n{stdout_paint()('bold', words)}", flush=True)


@contextlib.contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    if data is not None:
        data.mkdir(parents=True, exist_ok=True)
        if any(data.iterdir()):
            raise Usage(f"{data} is not empty, and a demo begins from nothing: give another folder")
        yield data.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="shunter-demo-", ignore_cleanup_errors=True) as made:
        yield Path(made)
