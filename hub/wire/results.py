"""Test results and coverage of a job, as the API, the pages and the command line show them."""

from typing import Literal

from pydantic import Field

from hub.wire.base import Answer

ReportKind = Literal["junit", "coverage"]
REPORT_KINDS: tuple[ReportKind, ...] = ("junit", "coverage")


class TestCounts(Answer):
    """How many tests ended how; `total` is all of them, and the rest of it passed."""

    __test__ = False  # no test, whatever pytest thinks of its name

    total: int
    failed: int = 0
    errors: int = Field(default=0, description="broke outside of what they check")
    skipped: int = 0
    duration_s: float = Field(default=0.0, description="of all tests together")


class FailedTest(Answer):
    """A test that failed, with the end of what it said."""

    name: str
    outcome: Literal["failed", "error"]
    message: str = ""
    output: str = Field(
        default="", description="its traceback, then what it printed; the middle of much is cut"
    )
    duration_s: float | None = None


class SlowTest(Answer):
    """A test that took long."""

    name: str
    duration_s: float


class FlakyTest(Answer):
    """A test of this job that both passed and failed without a change, and how that is known."""

    name: str
    why: str


class PackageCoverage(Answer):
    """Coverage of one package: lines that ran, of lines that could."""

    name: str
    lines: int
    covered: int


class Coverage(Answer):
    """Coverage of a job."""

    rate: float = Field(description="from 0 to 1")
    lines: int
    covered: int
    packages: list[PackageCoverage] = Field(default=[], description="the least covered first")
    more_packages: int = 0


class ReportFile(Answer):
    """A file that was read. `fault`: why it could not be; `notes`: what of it was left out."""

    path: str
    kind: ReportKind
    fault: str | None = None
    notes: list[str] = []


class Results(Answer):
    """GET /jobs/{id}/results: of the newest attempt. None: no file of that kind was read."""

    job: int
    attempt: int
    tests: TestCounts | None = None
    failures: list[FailedTest] = []
    more_failures: int = Field(default=0, description="failed tests that are counted, and not listed")
    slowest: list[SlowTest] = []
    flaky: list[FlakyTest] = []
    coverage: Coverage | None = None
    files: list[ReportFile] = []
    more_files: int = 0


class ReportBody(Answer):
    """What the store keeps of one file beside its figures: never sent as it is."""

    failures: list[FailedTest] = []
    slowest: list[SlowTest] = []
    packages: list[PackageCoverage] = []
