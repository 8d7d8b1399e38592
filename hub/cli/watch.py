"""`run watch`: what changes in a run, told line by line until it ends.

The invariant: each change is told once, in the hub's words, on lines that a log file keeps as well
as a terminal shows them. Nothing is redrawn.
"""

import json
import re
from typing import Any

from hub.cli.client import Client, NoStream
from hub.cli.errors import CliError, Unreachable
from hub.cli.session import print_json_line
from hub.cli.show import FINAL, duration, run_head, spent_s, status_cells
from hub.cli.terminal import Paint, one_line
from hub.clock import SystemClock

Json = dict[str, Any]

POLL_S = 2.0  # where the hub has no events: soon enough for a person, and little for a hub
MAX_NAME = 40  # longer names are shown whole, but do not push the others to the right


class Watch:
    """What was told so far, and how to tell more. `as_json`: one RunView per line instead."""

    def __init__(self, paint: Paint, *, as_json: bool = False) -> None:
        self._paint = paint
        self._as_json = as_json
        self._told: dict[int, tuple[object, ...]] = {}
        self._reasons: dict[int, str] = {}
        self._headed = False
        self.status = ""

    def see(self, run: Json, url: str, now_ms: int) -> list[str]:
        """The lines that tell how `run` differs from what was seen before."""
        lines: list[str] = []
        if not self._headed:
            lines += run_head(run, url, self._paint, now_ms)
            self._headed = True
        jobs = run.get("jobs") or []
        width = min(MAX_NAME, max((len(job["name"]) for job in jobs), default=0))
        for job in jobs:
            lead = f"  {self._paint('bold', one_line(job['name']))}{' ' * (width - len(job['name']))}  "
            lines += [lead + text for text in self._changes(job, now_ms)]
        if run["status"] != self.status and run["status"] in FINAL:
            _, (style, word) = status_cells(run["status"])
            spent = spent_s(run["created_at"], run.get("finished_at"), now_ms) or 0.0
            lines.append(f"run {run['id']} {self._paint(style, word)} after {duration(spent)}")
        self.status = run["status"]
        return lines

    def tell(self, run: Json, url: str, now_ms: int) -> None:
        """Print what `see` gives."""
        lines = self.see(run, url, now_ms)
        if self._as_json:
            print_json_line(run)
        elif lines:
            print("\n".join(lines), flush=True)

    def _changes(self, job: Json, now_ms: int) -> list[str]:
        texts = []
        state = (job["status"], job.get("attempt"), job.get("runner"))
        if self._told.get(job["id"]) != state:
            texts.append(self._state(job, now_ms))
            if job.get("placed") and job["status"] not in FINAL and self._placed_anew(job):
                texts.append(f"{self._paint('dim', 'placed:')} {one_line(job['placed'])}")
            if job.get("error"):
                texts += [
                    f"{self._paint('dim', 'error:')} {one_line(line)}" for line in job["error"].split("\n")
                ]
            self._told[job["id"]] = state
        waiting = job.get("waiting")
        reason = _gist(waiting) if waiting else ""
        if waiting and self._reasons.get(job["id"]) != reason:
            texts.append(f"{self._paint('dim', 'waiting:')} {one_line(waiting['headline'])}")
        self._reasons[job["id"]] = reason
        return texts

    def _placed_anew(self, job: Json) -> bool:
        before = self._told.get(job["id"])
        return before is None or before[1:] != (job.get("attempt"), job.get("runner"))

    def _state(self, job: Json, now_ms: int) -> str:
        _, (style, word) = status_cells(job["status"])
        text = self._paint(style, word)
        spent = spent_s(job.get("started_at"), job.get("finished_at"), now_ms)
        if job["status"] in FINAL and spent is not None:
            text += f" after {duration(spent)}"
        elif job.get("runner"):
            text += f" on {one_line(job['runner'])}"
        return text + (f", exit {job['exit_code']}" if job.get("exit_code") else "")


def _gist(waiting: Json) -> str:
    """What makes a reason another one: a hold's seconds count down, and are told once."""
    headline = str(waiting["headline"])
    return re.sub(r"\d+ s left", "", headline) if waiting["kind"] == "held" else headline


def follow(client: Client, number: int, watch: Watch, *, poll_s: float = POLL_S) -> bool:
    """Tell a run until it ends; True if it succeeded. Raises CliError."""
    clock = SystemClock()
    url = f"{client.target.url}/runs/{number}"
    watch.tell(client.get(f"/runs/{number}").json(), url, clock.now_ms())
    try:
        if watch.status not in FINAL:
            for event in client.events(f"/runs/{number}/events"):
                if event.name == "run":
                    watch.tell(_object(event.data), url, clock.now_ms())
    except NoStream:
        while watch.status not in FINAL:
            client.pause(poll_s)
            watch.tell(client.get(f"/runs/{number}").json(), url, clock.now_ms())
    if watch.status not in FINAL:  # `end` came before the last change was told
        watch.tell(client.get(f"/runs/{number}").json(), url, clock.now_ms())
    if watch.status not in FINAL:
        raise CliError(f"the hub ended the stream of run {number}, which is still {watch.status}")
    return watch.status == "succeeded"


def _object(data: str) -> Json:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise Unreachable("an event is not a hub's: is the address right?")
    return value
