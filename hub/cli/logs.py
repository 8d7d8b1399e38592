"""`run logs`: what jobs printed, made safe for a terminal.

The invariant: what reaches a terminal has passed `terminal.Filter`; bytes as they are go only where
no terminal is, and only when asked for. Jobs come one after another, each log whole and in order.
"""

import codecs
import json
import sys
from collections.abc import Iterator
from typing import Any

from hub.cli.client import Client, NoStream
from hub.cli.errors import CliError, Usage
from hub.cli.show import FINAL
from hub.cli.terminal import Filter, one_line, wants_colour

Json = dict[str, Any]

POLL_S = 1.0  # for a job that has not begun, or a hub without events
HEAD = "==> {} <=="


class Printer:
    """One job's log on its way out. `raw`: bytes as they are."""

    def __init__(self, *, raw: bool, colour: bool) -> None:
        self._raw = raw
        self._colour = colour
        self._filter = Filter(colour=colour)
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = True

    def write(self, piece: bytes) -> None:
        """Print a piece; it may end within a character or an escape sequence."""
        if self._raw:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
        else:
            self._print(self._filter.feed(self._decode.decode(piece)))

    def write_text(self, text: str) -> None:
        """The same for a piece that is text already."""
        if self._raw:
            self.write(text.encode("utf-8", "replace"))
        else:
            self._print(self._filter.feed(text))

    def close(self) -> None:
        """End the log: what was held back, and a new line if it ended without one."""
        if not self._raw:
            self._print(self._filter.feed(self._decode.decode(b"", True)) + self._filter.close())
            if not self._at_start:
                self._print("\n")

    def restart(self, words: str) -> None:
        """A new attempt writes a new log."""
        self.close()
        self._filter = Filter(colour=self._colour)
        self._decode.reset()
        if not self._raw:
            self._print(words + "\n")

    def _print(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._at_start = text.removesuffix("\x1b[0m").endswith("\n")


def print_logs(client: Client, number: int, name: str | None, *, follow: bool, raw: bool) -> None:
    """Print the logs of a run's jobs, or of the one called `name`. Raises CliError."""
    if raw and sys.stdout.isatty():
        raise Usage(
            "--raw is not for a terminal, which a log could then command: send it to a file or a pipe"
        )
    run = client.get(f"/runs/{number}").json()
    jobs = _chosen(run, name)
    many = len(jobs) > 1
    for job in _in_turn(client, number, jobs, follow=follow):
        if many and not raw:
            print(HEAD.format(one_line(job["name"])), flush=True)
        printer = Printer(raw=raw, colour=wants_colour(sys.stdout))
        if follow and job["status"] not in FINAL:
            _follow(client, job["id"], printer, raw=raw)
        else:
            _print_whole(client, job["id"], printer, 0)
        printer.close()


def _chosen(run: Json, name: str | None) -> list[Json]:
    jobs: list[Json] = run.get("jobs") or []
    if name is None:
        return jobs
    chosen = [job for job in jobs if job["name"] == name]
    if not chosen:
        names = ", ".join(one_line(job["name"]) for job in jobs)
        raise Usage(f"run {run['id']} has no job {name!r}; it has {names}")
    return chosen


def _in_turn(client: Client, number: int, jobs: list[Json], *, follow: bool) -> Iterator[Json]:
    """The jobs that have a log, each once; with `follow`, those that begin later as they do."""
    left = {job["id"]: job for job in jobs}
    while left:
        begun = [job for job in left.values() if _has_log(job)]
        for job in sorted(begun, key=lambda each: each["status"] not in FINAL):
            del left[job["id"]]
            yield job
            if follow:  # others have gone on meanwhile: look again
                break
        over = [job["id"] for job in left.values() if job["status"] in FINAL and not _has_log(job)]
        for each in over:
            del left[each]
        if not follow or not left:
            return
        if not begun:
            client.pause(POLL_S)
        fresh = client.get(f"/runs/{number}").json()
        left = {job["id"]: job for job in fresh.get("jobs") or [] if job["id"] in left}


def _has_log(job: Json) -> bool:
    return bool(job.get("log_bytes")) or job["status"] in ("preparing", "running", "canceling")


def _print_whole(client: Client, job: int, printer: Printer, offset: int) -> int:
    """Print what is there from `offset`, and give the offset behind it."""
    while True:
        before = offset
        for piece in client.pieces(f"/jobs/{job}/log", {"offset": offset}):
            printer.write(piece)
            offset += len(piece)
        if offset == before:
            return offset


def _follow(client: Client, job: int, printer: Printer, *, raw: bool) -> None:
    """Print a log until its job ends."""
    if raw:  # events carry text, in which bytes that are no UTF-8 are lost
        _poll(client, job, printer, 0)
        return
    attempt, offset = 0, 0
    try:
        for event in client.events(f"/jobs/{job}/events"):
            if event.name != "log":
                continue
            data = json.loads(event.data)
            if attempt and data["attempt"] != attempt:
                printer.restart(f"--- attempt {int(data['attempt'])} ---")
            attempt = data["attempt"]
            printer.write_text(str(data["text"]))
            offset = int(event.id.partition(":")[2] or offset)
    except NoStream:
        _poll(client, job, printer, offset)
    except (ValueError, KeyError, TypeError):
        raise CliError("an event of the log is not as a hub sends it: is the address right?") from None


def _poll(client: Client, job: int, printer: Printer, offset: int) -> None:
    attempt = 0
    while True:
        view = client.get(f"/jobs/{job}").json()
        if attempt and view.get("attempt") != attempt:
            printer.restart(f"--- attempt {view.get('attempt')} ---")
            offset = 0
        attempt = view.get("attempt") or attempt
        offset = _print_whole(client, job, printer, offset)
        if view["status"] in FINAL:
            return
        client.pause(POLL_S)
