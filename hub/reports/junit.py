"""JUnit's XML as what a person wants of it: how many failed, which, with what words, and what was slow.

A test is called `classname::name`, as pytest prints it with dots; two tests of one name are counted both.
Its outcome: `error` if it has an error, else `failed` if it has a failure, else `skipped`, else passed. A
test that the file itself says failed and then passed (`flakyFailure` of Maven's Surefire) has passed, and
is noted among those with both outcomes.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from pathlib import Path
from typing import Literal

from junitparser import Error, Failure, Skipped, SystemErr, SystemOut
from junitparser.xunit2 import FlakyError, FlakyFailure, TestCase

from hub.reports.bounded import Tree, read_tree, shortened
from hub.wire.base import plain_text
from hub.wire.results import FailedTest, SlowTest

MAX_CASES = 50_000  # tests of one file that are read; the rest is counted
MAX_ELEMENTS = 4 * MAX_CASES  # a test with its failure and both outputs
MAX_FAILED = 200  # failed tests of one file that are kept with their words; all are counted
MAX_MESSAGE = 1000  # characters
MAX_OUTPUT = 8000  # characters of one failed test: its traceback, then what it printed
MAX_NAME = 500  # characters of a test's name
SLOWEST = 10
MAX_TEST_S = 10 * 366 * 86_400  # a longer time is a fault of the sender
DIGEST_BYTES = 8  # of a test's name: among 50,000 tests two share one by chance in 1 of 10^10 files
WANTED = (
    "testsuites", "testsuite", "testcase", "failure", "error", "skipped", "system-out", "system-err",
    "flakyFailure", "flakyError",
)  # fmt: skip

Outcome = Literal["passed", "failed", "error", "skipped"]
# The first that a test has says how it ended.
_MEANINGS: tuple[tuple[type, Outcome], ...] = ((Error, "error"), (Failure, "failed"), (Skipped, "skipped"))


@dataclass(frozen=True, slots=True, kw_only=True)
class JunitReport:
    """What one file says. `passed`: digests of the names of the tests that passed, sorted, joined.

    `both`: names of tests that failed, those that then passed among them. `notes`: what was cut, in words.
    """

    total: int
    failed: int
    errors: int
    skipped: int
    duration_ms: int
    failures: tuple[FailedTest, ...]
    slowest: tuple[SlowTest, ...]
    fell: tuple[str, ...]
    passed: bytes
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Counts:
    """While the tests go by."""

    room: int  # characters of output that may still be kept
    outcomes: dict[Outcome, int] = field(
        default_factory=lambda: {"passed": 0, "failed": 0, "error": 0, "skipped": 0}
    )
    duration_s: float = 0.0
    failures: list[FailedTest] = field(default_factory=list)
    fell: list[str] = field(default_factory=list)
    timed: list[tuple[float, str]] = field(default_factory=list)
    passed: set[bytes] = field(default_factory=set)
    silent: int = 0  # failed tests whose output there was no room for


def digest(name: str) -> bytes:
    """A test's name in DIGEST_BYTES."""
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=DIGEST_BYTES).digest()


def read_junit(file: Path, *, room: int) -> JunitReport:
    """Read a file of test results; `room`: characters of output that may be kept of it.

    Raises Unreadable. Blocks, for seconds where the file is large: for a thread.
    """
    tree = Tree(WANTED, roots=("testsuites", "testsuite"), most=MAX_ELEMENTS, counted="testcase")
    root = read_tree(file, tree)
    counts, left_out = _Counts(room=room), tree.left_out
    for number, element in enumerate(root.iter("testcase")):  # wherever they stand: some put them at the top
        if number < MAX_CASES:
            _count(counts, TestCase.fromelem(element))  # type: ignore[no-untyped-call]  # it has no types
        else:
            left_out += 1
    return _report(counts, left_out)


def _report(counts: _Counts, left_out: int) -> JunitReport:
    notes = []
    if left_out:
        notes.append(f"{left_out} tests beyond the first {sum(counts.outcomes.values())} were not read")
    fallen = counts.outcomes["failed"] + counts.outcomes["error"]
    if fallen > len(counts.failures):
        notes.append(f"{fallen - len(counts.failures)} more failed than the {MAX_FAILED} that are kept")
    if counts.silent:
        notes.append(f"the output of {counts.silent} failed tests was left out: there was too much in all")
    return JunitReport(
        total=sum(counts.outcomes.values()),
        failed=counts.outcomes["failed"],
        errors=counts.outcomes["error"],
        skipped=counts.outcomes["skipped"],
        duration_ms=round(counts.duration_s * 1000),
        failures=tuple(counts.failures),
        slowest=tuple(
            SlowTest(name=name, duration_s=round(took, 3)) for took, name in nlargest(SLOWEST, counts.timed)
        ),
        fell=tuple(dict.fromkeys(counts.fell)),
        passed=b"".join(sorted(counts.passed)),
        notes=tuple(notes),
    )


def _count(counts: _Counts, case: TestCase) -> None:
    name = _name(case)
    entries = list(case)
    took_s = _took_s(case)
    outcome: Outcome = "passed"
    for kind, meaning in _MEANINGS:
        if any(isinstance(entry, kind) for entry in entries):
            outcome = meaning
            break
    counts.outcomes[outcome] += 1
    if took_s is not None:
        counts.duration_s += took_s
        counts.timed.append((took_s, name))
        if len(counts.timed) > 50 * SLOWEST:
            counts.timed = nlargest(SLOWEST, counts.timed)
    if outcome == "passed":
        counts.passed.add(digest(name))
        if any(isinstance(entry, FlakyFailure | FlakyError) for entry in entries):
            _fell(counts, name)
    elif outcome != "skipped":
        _fell(counts, name)
        if len(counts.failures) < MAX_FAILED:
            counts.failures.append(_failure(counts, name, outcome, took_s, entries))


def _fell(counts: _Counts, name: str) -> None:
    if len(counts.fell) < MAX_FAILED:
        counts.fell.append(name)


def _failure(
    counts: _Counts, name: str, outcome: Outcome, took_s: float | None, entries: Sequence[object]
) -> FailedTest:
    kind = Error if outcome == "error" else Failure
    said = next(entry for entry in entries if isinstance(entry, kind))
    text = (said.text or "").strip("\n")
    message = said.message or said.type or next(iter(text.split("\n")), "")
    printed = [
        f"--- {title} ---\n{(entry.text or '').strip()}"
        for of, title in ((SystemOut, "printed"), (SystemErr, "printed as errors"))
        for entry in entries
        if isinstance(entry, of) and (entry.text or "").strip()
    ]
    output = plain_text(shortened("\n".join((text, *printed)).strip("\n"), MAX_OUTPUT), MAX_OUTPUT + 200)
    if len(output) > counts.room:
        counts.silent += 1
        output = ""
    counts.room -= len(output)
    return FailedTest(
        name=name,
        outcome="error" if outcome == "error" else "failed",
        message=plain_text(shortened(str(message), MAX_MESSAGE - 60), MAX_MESSAGE),
        output=output,
        duration_s=None if took_s is None else round(took_s, 3),
    )


def _name(case: TestCase) -> str:
    said = "::".join(part for part in (case.classname, case.name) if part)
    return plain_text(" ".join(said.split()), MAX_NAME) or "a test without a name"


def _took_s(case: TestCase) -> float | None:
    """Seconds; None: not told, or not a time."""
    try:
        took = case.time
    except ValueError:
        return None
    return took if took is not None and math.isfinite(took) and 0 <= took <= MAX_TEST_S else None
