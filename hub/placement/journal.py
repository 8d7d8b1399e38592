"""A journal: decisions with all that they were made from, as a hub keeps them and as a file.

A journal file is text, one JSON object a line, in the order of events. `record` says what the line
is; what follows the word are the fields of a value of `model` or of this module, by their names, and
a field that equals its default is left out. No other word is known:

    {"record": "journal", "format": 1, "begin_ms": 1800000000000, "dropped": 0, "settings": {}}
    {"record": "images", "at_ms": …, "held": {HASH: {"arch"?, "size_mib"?}}}      what the hub holds now
    {"record": "runner", "at_ms": …, "name": "mars-1", "offer"?: {Offer} or null, "standing": {Standing}}
    {"record": "removed", "at_ms": …, "name": "mars-1"}
    {"record": "job", "at_ms": …, "id": 17, "demand": {Demand}, "order": […], …}     queued, or changed
    {"record": "out", "at_ms": …, "job": 17}                                        not queued any more
    {"record": "claim", "at_ms": …, "runner": "mars-1", "plan": {Plan}}      what this runner was given
    {"record": "ready", "at_ms": …, "job": 17, "plan": {Plan}}                  who was given this job
    {"record": "ended", "at_ms": …, "job": 17, "runner": "mars-1", "project": "andy/demo",
     "name": "test", "how": "succeeded", "ran_ms"?: 61000}                         one attempt is over
    {"record": "end", "lines": 1234}

The first line is `journal`, the last one `end` with the number of lines before it, so that a file
that was cut off is known as one. `begin_ms`: from here on every decision is there; `dropped` ones came
before. The lines that follow the first tell the fleet and the queue as they were then. An `offer` that
is left out is that of the line before of this runner. A runner's line tells it as it was at the next
decision. A claim while nothing is queued decides nothing, and is not in it.

Invariant: the lines before a decision are all that it was made from. Reading raises `JournalError`
with the line's number; it does not ask whether the decisions are right: that is `replay`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hub.placement.codec import read, write
from hub.placement.model import HubImage, Offer, Plan, QueuedJob, Runner, Settings

FORMAT = 1  # another number: a line says something else than it did
MAX_LINES = 2_000_000  # a replay keeps all of them in memory, some 1 KiB each


class JournalError(ValueError):
    """A journal that says nothing valid; the text begins with the line's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """A runner is registered no more."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Out:
    """A job is not queued any more: given to a runner, or final."""

    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """What the hub holds, all of it."""

    held: Mapping[str, HubImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimDecided:
    """What `choose` said for an open claim of `runner`."""

    runner: str
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyDecided:
    """What `offer` said for `job`."""

    job: int
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An attempt is over. `ran_ms` None: its steps never began, or the hub was started since."""

    job: int
    runner: str
    project: str
    name: str
    how: str  # the outcome of one that ran to its end, else "lost", "declined", "released", …
    ran_ms: int | None = None


Decided = ClaimDecided | ReadyDecided
What = Images | Runner | Removed | QueuedJob | Out | Decided | Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that happened. A `Runner` or a `QueuedJob` is there from now on as it stands here."""

    at_ms: int
    what: What


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Entries in their order, of which the first tell the state at `begin_ms`."""

    begin_ms: int
    settings: Settings
    entries: tuple[Entry, ...]
    dropped: int = 0  # decisions made before `begin_ms` that are not in it


@dataclass(slots=True)
class Scene:
    """The fleet and the queue at one moment of a journal: what all entries up to it come to."""

    runners: dict[str, Runner] = field(default_factory=dict)
    jobs: dict[int, QueuedJob] = field(default_factory=dict)
    images: Mapping[str, HubImage] = field(default_factory=dict)

    def apply(self, what: What) -> None:
        """Go on by one entry. A decision changes nothing by itself: what came of it has its own entries."""
        match what:
            case Runner():
                self.runners[what.name] = what
            case QueuedJob():
                self.jobs[what.id] = what
            case Removed():
                self.runners.pop(what.name, None)
            case Out():
                self.jobs.pop(what.job, None)
            case Images():
                self.images = what.held

    def told(self, at_ms: int) -> Iterator[Entry]:
        """Entries that come to this very scene."""
        if self.images:
            yield Entry(at_ms=at_ms, what=Images(held=self.images))
        for runner in self.runners.values():
            yield Entry(at_ms=at_ms, what=runner)
        for job in self.jobs.values():
            yield Entry(at_ms=at_ms, what=job)


_RECORDS: Mapping[str, type[What]] = {
    "images": Images,
    "runner": Runner,
    "removed": Removed,
    "job": QueuedJob,
    "out": Out,
    "claim": ClaimDecided,
    "ready": ReadyDecided,
    "ended": Ended,
}
_NAMES = {kind: name for name, kind in _RECORDS.items()}
_HEAD: Mapping[str, Any] = {"format": int, "begin_ms": int, "dropped": int, "settings": Settings}


def lines(journal: Journal) -> Iterator[str]:
    """The lines of a file that reads back as `journal`, without line ends."""
    head = {"format": FORMAT, "begin_ms": journal.begin_ms, "dropped": journal.dropped}
    yield _line({"record": "journal", **head, "settings": write(journal.settings)})
    offers: dict[str, Offer | None] = {}
    for entry in journal.entries:
        what = entry.what
        said = {"record": _NAMES[type(what)], "at_ms": entry.at_ms, **write(what)}
        if isinstance(what, Runner):
            if what.name in offers and offers[what.name] == what.offer:
                del said["offer"]
            offers[what.name] = what.offer
        elif isinstance(what, Removed):
            offers.pop(what.name, None)
        yield _line(said)
    yield _line({"record": "end", "lines": 1 + len(journal.entries)})


def read_lines(text: Iterable[str]) -> Journal:
    """The journal in the lines of a file. Raises JournalError with the number of the first bad line."""
    head: dict[str, Any] | None = None
    entries: list[Entry] = []
    offers: dict[str, Any] = {}
    ended, number = False, 0
    for number, line in enumerate(text, start=1):
        try:
            if number > MAX_LINES:
                raise ValueError(f"a journal has {MAX_LINES} lines at most")
            if ended:
                raise ValueError("stands after the end")
            said = _object(line)
            record = said.pop("record", None)
            if head is None:
                head = _head(record, said)
            elif record == "end":
                ended = _is_end(said, number - 1)
            else:
                entries.append(_entry(record, said, offers))
        except ValueError as error:
            raise JournalError(f"line {number}: {error}") from None
    if head is None or not ended:
        raise JournalError(f"line {number}: the journal was cut off here: its last line is no `end`")
    return Journal(
        begin_ms=head["begin_ms"],
        dropped=head["dropped"],
        settings=head["settings"],
        entries=tuple(entries),
    )


def _line(said: dict[str, Any]) -> str:
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _object(line: str) -> dict[str, Any]:
    if not line.strip():
        raise ValueError("is empty; every line is one record")
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None
    if not isinstance(said, dict):
        raise ValueError("is not a JSON object")
    return said


def _head(record: object, said: dict[str, Any]) -> dict[str, Any]:
    if record != "journal":
        raise ValueError("the first line of a journal has the record `journal`")
    if said.get("format") != FORMAT:
        raise ValueError(f"this is format {said.get('format')!r}; known is {FORMAT}: use the hub's version")
    if said.keys() != _HEAD.keys():
        raise ValueError(f"a journal's first line has {', '.join(_HEAD)}")
    return {name: read(kind, said[name], name) for name, kind in _HEAD.items()}


def _is_end(said: dict[str, Any], before: int) -> Literal[True]:
    if said != {"lines": before}:
        raise ValueError(f"counts {said.get('lines')!r} lines, and {before} are there")
    return True


def _entry(record: object, said: dict[str, Any], offers: dict[str, Any]) -> Entry:
    """One entry; `offers` are what each runner last offered."""
    kind = _RECORDS.get(record) if isinstance(record, str) else None
    if kind is None:
        raise ValueError(f"record is {record!r}; known are {', '.join(_RECORDS)}")
    if "at_ms" not in said:
        raise ValueError("at_ms is missing")
    at_ms = read(int, said.pop("at_ms"), "at_ms")
    if kind is Removed:
        offers.pop(str(said.get("name")), None)
    if kind is not Runner:
        return Entry(at_ms=at_ms, what=read(kind, said))
    name = str(said.get("name"))
    as_before = "offer" not in said
    if as_before and name not in offers:
        raise ValueError("offer is missing, and no line before tells it")
    runner = read(Runner, {"offer": None, **said})
    if as_before:
        runner = Runner(name=runner.name, offer=offers[name], standing=runner.standing)
    offers[name] = runner.offer
    return Entry(at_ms=at_ms, what=runner)
