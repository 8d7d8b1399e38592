"""Which tests cannot be trusted: those whose outcome does not follow from what was tested.

A test of a job is flaky if, among the last WINDOW runs of the job of that name in that project, the one
looked at included,

- it both passed and failed on one commit (in one run of it, or in several); or
- its outcome changed CHANGES times or more from one run in which it ran to the next.

One failure that is mended is two changes, and no sign of anything. A job of another name, as another
member of a matrix is, runs elsewhere and is not compared; a run without a commit is compared with no
other. A test that was skipped did not run.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hub.reports.junit import DIGEST_BYTES, digest
from hub.wire.results import FlakyTest

WINDOW = 20  # runs that are looked at: a week or two of a busy project
CHANGES = 3
MAX_FLAKY = 100  # that are named; more of them is a broken machine and not a test


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One run of the job. `fell`: names of tests that failed; `passed`: digests, one list for each file.

    `commit` None: not known. A list of digests that is no longer kept is not among `passed`.
    """

    job: int
    commit: str | None
    fell: frozenset[str]
    passed: tuple[bytes, ...]

    def outcomes(self, name: str, of: bytes) -> frozenset[bool]:
        """How the test ended: passed (True), failed (False), both; empty: it did not run, or is not known."""
        found = {False} if name in self.fell else set()
        if any(holds(passed, of) for passed in self.passed):
            found.add(True)
        return frozenset(found)


def holds(digests: bytes, one: bytes) -> bool:
    """Whether `one` is among sorted digests that stand one behind the other."""
    count = len(digests) // DIGEST_BYTES
    at = bisect_left(
        range(count), one, key=lambda index: digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES]
    )
    return digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES] == one


def flaky(runs: Sequence[Seen]) -> list[FlakyTest]:
    """The flaky tests of the last of `runs`, which stand oldest first, by name."""
    if not runs:
        return []
    found = []
    for name in sorted({name for run in runs for name in run.fell}):
        of = digest(name)
        outcomes = [run.outcomes(name, of) for run in runs]
        if outcomes[-1] and (why := _why(runs, outcomes)) is not None:
            found.append(FlakyTest(name=name, why=why))
    return found[:MAX_FLAKY]


def _why(runs: Sequence[Seen], outcomes: Sequence[frozenset[bool]]) -> str | None:
    by_commit: dict[str, set[bool]] = {}
    for run, outcome in zip(runs, outcomes, strict=True):
        if len(outcome) == 2:
            return "passed and failed in one run"
        if run.commit is not None:
            by_commit.setdefault(run.commit, set()).update(outcome)
    both = [commit for commit, ended in by_commit.items() if len(ended) == 2]
    if both:
        return f"passed and failed on commit {both[-1][:12]}"
    ran = [next(iter(outcome)) for outcome in outcomes if outcome]
    changes = sum(before != after for before, after in pairwise(ran))
    return f"changed its outcome {changes} times in {len(ran)} runs" if changes >= CHANGES else None
