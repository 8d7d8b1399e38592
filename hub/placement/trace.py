"""A trace: the runners, images and jobs that a simulation is run on, as a file or made from a seed.

A trace file is text, one JSON object a line, in any order. `record` says what the line is; a field
marked ? may be left out, every other must be there, and no other word is known:

    {"record": "image", "name": "debian", "bytes": 300000000, "arch"?: "x86_64"}
    {"record": "runner", "name": "earth-1", "slots": 2, "speed": 100, "speed_class": 3,
     "link_bytes_s": 25000000, "poll_ms": 25000, "pause_ms": 50,
     "images"?: ["debian"], "memory_mib"?: 16384, "cpus"?: 4, "arch"?: "x86_64", "labels"?: ["ssd"]}
    {"record": "job", "id": 1, "name": "test", "at_ms": 0, "work_ms": 60000,
     "images"?: ["debian"], "memory_mib"?: 4096, "cpus"?: 1, "arch"?: "x86_64", "labels"?: [],
     "wish"?: "earth-1"}

`speed` 100 does `work_ms` of work in as many ms, 50 in twice as many. A claim stays open for `poll_ms`
(0: it is answered at once), and `pause_ms` after it ended the next one comes. `at_ms` counts from the
beginning of the trace. Jobs of one `name` teach the hub how long they take. `wish` names the runner
on which an earlier job left its files. What is left out is not asked, or not reported.

Invariant: a `Trace` is whole (every name it uses is in it, every figure is within its bounds) and
does not depend on the order of the lines. Reading raises `TraceError` with the line's number.
"""

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

Kind = Literal["burst", "steady", "mixed", "cold"]
KINDS: tuple[Kind, ...] = get_args(Kind)

MAX_MS = 7 * 86_400_000  # a week: polls go on for as long as the trace does
MAX_RECORDS = 200_000  # a simulation keeps all of them in memory
MIN_ROUND_MS = 50  # one claim and its pause at least: a runner may not poll without end in no time
MAX_BYTES = 1 << 44  # 16 TiB
MAX_COUNT = 1 << 30


class TraceError(ValueError):
    """A trace that says nothing valid; the text begins with the line's number, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceImage:
    """An image that the hub holds."""

    name: str
    bytes: int
    arch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRunner:
    """A runner, as it is when the trace begins: with these images, nothing running."""

    name: str
    slots: int
    speed: int  # 100: work takes as long as the job says
    speed_class: int
    link_bytes_s: int
    poll_ms: int
    pause_ms: int
    images: frozenset[str] = frozenset()
    memory_mib: int | None = None
    cpus: int | None = None
    arch: str | None = None
    labels: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """A job that becomes ready at `at_ms`."""

    id: int
    name: str
    at_ms: int
    work_ms: int
    images: frozenset[str] = frozenset()
    memory_mib: int | None = None
    cpus: int | None = None
    arch: str | None = None
    labels: frozenset[str] = frozenset()
    wish: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A fleet and the jobs that come to it, in the one order: runners and images by name, jobs by time."""

    runners: tuple[TraceRunner, ...]
    images: tuple[TraceImage, ...]
    jobs: tuple[TraceJob, ...]


Record = TraceImage | TraceRunner | TraceJob

_TYPES: dict[str, type[Record]] = {"image": TraceImage, "runner": TraceRunner, "job": TraceJob}
_REQUIRED = {
    "image": ("name", "bytes"),
    "runner": ("name", "slots", "speed", "speed_class", "link_bytes_s", "poll_ms", "pause_ms"),
    "job": ("id", "name", "at_ms", "work_ms"),
}
_NUMBERS = {  # by field: least and most
    "bytes": (0, MAX_BYTES),
    "slots": (1, 1024),
    "speed": (1, 100_000),
    "speed_class": (0, 9),
    "link_bytes_s": (1, MAX_BYTES),
    "poll_ms": (0, 60_000),
    "pause_ms": (0, MAX_MS),
    "memory_mib": (1, MAX_COUNT),
    "cpus": (1, MAX_COUNT),
    "id": (0, MAX_COUNT),
    "at_ms": (0, MAX_MS),
    "work_ms": (0, MAX_MS),
}
_LISTS = ("images", "labels")
_WORDS = ("name", "arch", "wish")


def read(lines: Iterable[str]) -> Trace:
    """The trace in the lines of a file. Raises TraceError with the number of the first bad line."""
    found: dict[tuple[str, object], tuple[int, Record]] = {}
    number = 0
    for number, line in enumerate(lines, start=1):
        if number > MAX_RECORDS:
            raise TraceError(f"line {number}: a trace has {MAX_RECORDS} lines at most")
        record = _record(line, number)
        key = (type(record).__name__, record.id if isinstance(record, TraceJob) else record.name)
        if key in found:
            what = f"job {key[1]}" if isinstance(record, TraceJob) else f"`{key[1]}`"
            raise TraceError(f"line {number}: {what} stands on line {found[key][0]} already")
        found[key] = (number, record)
    _check_names(found.values())
    return assemble(record for _, record in found.values())


def assemble(records: Iterable[Record]) -> Trace:
    """A trace of records that are known to be whole, in the one order."""
    every = list(records)
    runners = (one for one in every if isinstance(one, TraceRunner))
    images = (one for one in every if isinstance(one, TraceImage))
    jobs = (one for one in every if isinstance(one, TraceJob))
    return Trace(
        runners=tuple(sorted(runners, key=lambda one: one.name)),
        images=tuple(sorted(images, key=lambda one: one.name)),
        jobs=tuple(sorted(jobs, key=lambda one: (one.at_ms, one.id))),
    )


def write(trace: Trace) -> Iterator[str]:
    """The lines of a file that reads back as `trace`."""
    every: tuple[Record, ...] = (*trace.images, *trace.runners, *trace.jobs)
    for record in every:
        line: dict[str, Any] = {
            "record": next(name for name, kind in _TYPES.items() if isinstance(record, kind))
        }
        for field in fields(record):
            value = getattr(record, field.name)
            if isinstance(value, frozenset):
                value = sorted(value)
            if value not in (None, []):
                line[field.name] = value
        yield json.dumps(line, ensure_ascii=False)


def _record(line: str, number: int) -> Record:
    if not line.strip():
        raise TraceError(f"line {number}: is empty; every line is one record")
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        raise TraceError(f"line {number}: is not JSON") from None
    if not isinstance(said, dict):
        raise TraceError(f"line {number}: is not a JSON object")
    kind = said.pop("record", None)
    if not isinstance(kind, str) or kind not in _TYPES:
        raise TraceError(f"line {number}: record is {kind!r}; known are {', '.join(_TYPES)}")
    record_type = _TYPES[kind]
    for field in _REQUIRED[kind]:
        if field not in said:
            raise TraceError(f"line {number}: {field} is missing from this {kind}")
    for field, value in said.items():
        if field not in record_type.__dataclass_fields__:
            raise TraceError(f"line {number}: {field} is no word of records of this kind ({kind})")
        said[field] = _value(field, value, number)
    record = record_type(**said)
    if isinstance(record, TraceRunner) and record.poll_ms + record.pause_ms < MIN_ROUND_MS:
        raise TraceError(f"line {number}: poll_ms and pause_ms are {MIN_ROUND_MS} in sum at least")
    return record


def _value(field: str, value: object, number: int) -> object:
    if field in _WORDS:
        if not isinstance(value, str) or not value:
            raise TraceError(f"line {number}: {field} is not a word")
        return value
    if field in _LISTS:
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise TraceError(f"line {number}: {field} is not a list of words")
        return frozenset(value)
    low, high = _NUMBERS[field]
    if not isinstance(value, int) or isinstance(value, bool):
        raise TraceError(f"line {number}: {field} is not a whole number")
    if not low <= value <= high:
        raise TraceError(f"line {number}: {field} is {value}; it is within {low} and {high}")
    return value


def _check_names(found: Iterable[tuple[int, Record]]) -> None:
    """Every image and runner that a record names is in the trace, and there is a runner at all."""
    every = list(found)
    images = {one.name for _, one in every if isinstance(one, TraceImage)}
    runners = {one.name for _, one in every if isinstance(one, TraceRunner)}
    if not runners:
        raise TraceError("the trace has no runner")
    for number, one in every:
        if isinstance(one, TraceImage):
            continue
        if unknown := sorted(one.images - images):
            raise TraceError(f"line {number}: image `{unknown[0]}` is not in the trace")
        if isinstance(one, TraceJob) and one.wish is not None and one.wish not in runners:
            raise TraceError(f"line {number}: runner `{one.wish}` is not in the trace")


# -- made traces --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a kind of made trace is like."""

    busy: float  # work that arrives, as a share of what the fleet can do
    burst: int  # jobs that arrive at once, all of one image
    held: float  # share of the images that a runner holds at first
    image_mb: tuple[int, int]  # least and most
    work_s: tuple[int, int]
    pollers: float  # share of the runners that ask at intervals instead of keeping a claim open


LOADS: Mapping[Kind, Load] = {
    "burst": Load(busy=0.5, burst=40, held=0.3, image_mb=(300, 4000), work_s=(30, 180), pollers=0.3),
    "steady": Load(busy=0.6, burst=1, held=0.3, image_mb=(300, 4000), work_s=(30, 180), pollers=0.3),
    "mixed": Load(busy=0.7, burst=4, held=0.5, image_mb=(100, 8000), work_s=(3, 900), pollers=0.6),
    "cold": Load(busy=0.4, burst=8, held=0.0, image_mb=(1000, 8000), work_s=(30, 120), pollers=0.3),
}
IMAGES = 24  # in use at a time by the projects of one hub
NAMES = 60  # different jobs
SPEEDS = ((60, 2), (100, 3), (100, 3), (200, 5))  # (speed, its class); most machines are of the middle
LINKS_MB_S = (12, 25, 60, 120)  # 100 Mbit/s to 1 Gbit/s


def make(kind: Kind, *, seed: int, runners: int, jobs: int) -> Trace:
    """A trace of that kind; the same seed and numbers give the same one.

    Raises TraceError where the fleet is so small that the trace would last longer than one may.
    """
    load = LOADS[kind]
    dice = random.Random(f"{kind}/{seed}")  # noqa: S311 - a made load, not a secret
    images = [
        TraceImage(name=f"image-{n:02}", bytes=dice.randint(*load.image_mb) * 1_000_000)
        for n in range(1, IMAGES + 1)
    ]
    fleet = [_make_runner(number + 1, load, images, dice) for number in range(runners)]
    made = assemble([*images, *fleet, *_make_jobs(load, fleet, images, jobs, dice)])
    if made.jobs and made.jobs[-1].at_ms > MAX_MS:
        raise TraceError(f"{jobs} jobs take {runners} runners more than a week: too long a trace")
    return made


def _make_runner(number: int, load: Load, images: list[TraceImage], dice: random.Random) -> TraceRunner:
    speed, speed_class = dice.choice(SPEEDS)
    slots = dice.choice((1, 2, 2, 4))
    asks_at_intervals = dice.random() < load.pollers
    return TraceRunner(
        name=f"runner-{number:02}",
        slots=slots,
        speed=speed,
        speed_class=speed_class,
        link_bytes_s=dice.choice(LINKS_MB_S) * 1_000_000,
        poll_ms=0 if asks_at_intervals else 25_000,
        pause_ms=dice.choice((2000, 5000, 9000)) if asks_at_intervals else 50,
        images=frozenset(image.name for image in images if dice.random() < load.held),
        memory_mib=8192 + 8192 * slots,
    )


def _make_jobs(
    load: Load, fleet: list[TraceRunner], images: list[TraceImage], jobs: int, dice: random.Random
) -> Iterator[TraceJob]:
    """Jobs whose work arrives at the load's share of what the fleet can do, images by popularity."""
    popularity = [1 / place for place in range(1, len(images) + 1)]
    popular = dice.choices(images, popularity, k=NAMES)
    low, high = load.work_s
    kinds = [  # lengths are spread evenly over orders of magnitude
        (
            f"job-{n:02}",
            image.name,
            low * (high / low) ** dice.random(),
            dice.choice((1024, 2048, 2048, 6144)),
        )
        for n, image in enumerate(popular, start=1)
    ]
    work_ms = 1000 * sum(usual_s for _, _, usual_s, _ in kinds) / len(kinds)
    able = sum(runner.slots * runner.speed / 100 for runner in fleet)
    every_ms = work_ms / (able * load.busy)
    at_ms = 0.0
    chosen = kinds[0]
    for number in range(jobs):
        if number % load.burst == 0:
            at_ms += dice.expovariate(1 / (every_ms * load.burst))
            chosen = dice.choice(kinds)
        same = [one for one in kinds if one[1] == chosen[1]]
        name, image_name, usual_s, memory_mib = dice.choice(same) if load.burst > 1 else chosen
        yield TraceJob(
            id=number + 1,
            name=name,
            at_ms=int(at_ms),
            work_ms=round(1000 * usual_s * dice.uniform(0.8, 1.2)),
            images=frozenset({image_name}),
            memory_mib=memory_mib,
        )
