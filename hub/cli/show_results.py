"""Test results as lines of text; pure, as `show` is."""

from typing import Any

from hub.cli.terminal import Paint, one_line

Json = dict[str, Any]

MAX_SHOWN = 50  # failed tests; the page and --json have all


def results_line(job: Json) -> str:
    """`214 tests, 2 failed, 1 error, 3 skipped; coverage 87.4 %`: what a job's results say in figures."""
    parts = []
    if (tests := job.get("tests")) is not None:
        counts = [f"{tests['total']} test{'' if tests['total'] == 1 else 's'}"]
        if tests.get("failed"):
            counts.append(f"{tests['failed']} failed")
        if tests.get("errors"):
            counts.append(f"{tests['errors']} error{'' if tests['errors'] == 1 else 's'}")
        if tests.get("skipped"):
            counts.append(f"{tests['skipped']} skipped")
        parts.append(", ".join(counts))
    if (rate := job.get("coverage")) is not None:
        tenths = min(round(rate * 1000), 999) if rate < 1 else 1000  # what is not all of it is never 100
        parts.append(f"coverage {tenths / 10:g} %")
    return "; ".join(parts)


def result_lines(results: Json, paint: Paint) -> list[str]:
    """Each failed test with the first line of what it said, then the flaky ones, and what was not read."""
    lines = []
    for test in (results.get("failures") or [])[:MAX_SHOWN]:
        lines.append(f"    {paint('bad', '✗')} {one_line(test['name'])}")
        if message := (test.get("message") or "").split("\n")[0]:
            lines.append(f"      {one_line(message)}")
    more = len((results.get("failures") or [])[MAX_SHOWN:]) + (results.get("more_failures") or 0)
    if more:
        lines.append(paint("dim", f"    and {more} more that failed"))
    lines += [
        f"    {paint('warn', 'flaky')} {one_line(test['name'])}: {one_line(test['why'])}"
        for test in results.get("flaky") or []
    ]
    lines += [
        f"    {paint('warn', '!')} {one_line(file['path'])}: {one_line(file['fault'])}"
        for file in results.get("files") or []
        if file.get("fault")
    ]
    return lines
