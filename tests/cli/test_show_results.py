"""What the command line tells of tests: a line for each job, and what failed on demand."""

import pytest

from hub.cli.show import job_sentences
from hub.cli.show_results import MAX_SHOWN, result_lines, results_line
from hub.cli.terminal import Paint

PLAIN = Paint(False)


@pytest.mark.parametrize(
    ("tests", "coverage", "line"),
    [
        ({"total": 9, "failed": 2, "errors": 1, "skipped": 3}, None, "9 tests, 2 failed, 1 error, 3 skipped"),
        ({"total": 2}, 0.874, "2 tests; coverage 87.4 %"),
        ({"total": 1}, None, "1 test"),
        (None, 0.99999, "coverage 99.9 %"),
        (None, 1.0, "coverage 100 %"),
        (None, 0.0, "coverage 0 %"),
    ],
)
def test_a_jobs_results_are_one_line(tests: object, coverage: float | None, line: str) -> None:
    job = {"tests": tests, "coverage": coverage}
    assert results_line(job) == line
    assert job_sentences(job, PLAIN) == [f"  tests: {line}"]


def test_a_job_without_results_has_no_line_of_them() -> None:
    assert job_sentences({"tests": None, "coverage": None}, PLAIN) == []


def test_what_failed_is_told_with_the_first_line_of_its_words() -> None:
    failures = [{"name": f"t::n{n}\x1b[2J", "message": "1 != 2\nmore"} for n in range(MAX_SHOWN + 2)]
    found = {
        "failures": failures,
        "more_failures": 3,
        "flaky": [{"name": "t::f", "why": "passed and failed on commit abc"}],
        "files": [{"path": "a.xml", "fault": "it is not XML"}, {"path": "b.xml"}],
    }
    lines = result_lines(found, PLAIN)
    assert lines[0].startswith("    ✗ t::n0")
    assert lines[1] == "      1 != 2"
    assert lines[-3:] == [
        "    and 5 more that failed",
        "    flaky t::f: passed and failed on commit abc",
        "    ! a.xml: it is not XML",
    ]
    assert "\x1b" not in "".join(lines)
