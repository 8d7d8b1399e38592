import json
import subprocess
import sys

import pytest

from hub.cli import logs
from tests.cli.conftest import Shunter
from tests.cli.fakehub import TOKEN, Answer, Call, FakeHub, Script, a_job, a_run, stream

LOG = b"first \xff \x1b[31mred\x1b[0m \x1b]0;title\x07line\nsecond\r\n"
SHOWN = "first \ufffd red line\nsecond\n"


def _serve(log: bytes, limit: int = 7) -> Script:
    """The log in short pieces, as a hub bounds them."""

    def answer(call: Call) -> Answer:
        offset = int(call.query["offset"])
        return Answer(body=log[offset : offset + limit], type="text/plain")

    return answer


@pytest.fixture
def done_run(fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="succeeded", log_bytes=len(LOG)), status="succeeded"))
    fake.on("GET", "/jobs/17/log", _serve(LOG))


@pytest.mark.usefixtures("done_run")
def test_a_log_is_printed_whole_and_harmless(shunter: Shunter) -> None:
    assert shunter("run", "logs", 42).out == SHOWN


@pytest.mark.usefixtures("done_run")
def test_raw_gives_the_bytes_as_they_are(fake: FakeHub) -> None:
    words = ["run", "logs", "42", "--raw", "--hub", fake.url, "--token", TOKEN]
    done = subprocess.run(
        [sys.executable, "-m", "hub.cli.main", *words], capture_output=True, timeout=60, check=True
    )
    assert done.stdout == LOG


@pytest.mark.usefixtures("done_run")
def test_raw_is_refused_on_a_terminal(shunter: Shunter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = shunter("run", "logs", 42, "--raw")
    assert (done.status, done.out) == (2, "")
    assert "not for a terminal" in done.err


@pytest.mark.usefixtures("done_run")
def test_a_terminal_gets_colours_and_nothing_else(shunter: Shunter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert shunter("run", "logs", 42).out == "first \ufffd \x1b[31mred\x1b[0m line\nsecond\n"


def test_several_jobs_come_one_after_another_under_their_names(shunter: Shunter, fake: FakeHub) -> None:
    jobs = [
        a_job("lint", id=1, status="succeeded", log_bytes=5),
        a_job("build", id=2, status="succeeded", log_bytes=6),
        a_job("skipped", id=3, status="skipped"),
    ]
    fake.on("GET", "/runs/42", a_run(*jobs, status="succeeded"))
    fake.on("GET", "/jobs/1/log", _serve(b"clean"))
    fake.on("GET", "/jobs/2/log", _serve(b"built\n"))
    assert shunter("run", "logs", 42).out == "==> lint <==\nclean\n==> build <==\nbuilt\n"
    assert shunter("run", "logs", 42, "--job", "build").out == "built\n"


def test_a_job_that_is_not_there_tells_which_are(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job("lint"), a_job("build")))
    done = shunter("run", "logs", 42, "--job", "biuld")
    assert (done.status, done.err) == (2, "shunter: run 42 has no job 'biuld'; it has lint, build\n")


def _log(text: str, after: int, attempt: int = 1) -> tuple[str, str, str]:
    data = json.dumps({"attempt": attempt, "offset": after - len(text), "text": text})
    return ("log", data, f"{attempt}:{after}")


def test_following_goes_on_from_where_the_line_broke(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="running")))
    fake.on(
        "GET",
        "/jobs/17/events",
        stream(("job", "{}"), _log("one\ntw", 6), cut=True),
        stream(_log("o\nthree", 13), ("end", "{}")),
    )
    assert shunter("run", "logs", 42, "-f").out == "one\ntwo\nthree\n"
    first, second = fake.made("GET", "/jobs/17/events")
    assert "last-event-id" not in first.headers
    assert second.headers["last-event-id"] == "1:6"


def test_a_sequence_that_two_events_share_does_not_slip_through(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="running")))
    fake.on("GET", "/jobs/17/events", stream(_log("a\x1b]0;ti", 6), _log("tle\x07b", 11), ("end", "{}")))
    assert shunter("run", "logs", 42, "-f").out == "ab\n"


def test_another_attempt_begins_anew(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="running")))
    fake.on("GET", "/jobs/17/events", stream(_log("lost", 4), _log("again\n", 6, attempt=2), ("end", "{}")))
    assert shunter("run", "logs", 42, "-f").out == "lost\n--- attempt 2 ---\nagain\n"


def test_following_a_run_takes_up_jobs_as_they_begin(
    shunter: Shunter, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "POLL_S", 0.0)
    lint = a_job("lint", id=1, status="running")
    linted = a_job("lint", id=1, status="succeeded", log_bytes=6)
    late, running = a_job("build", id=2, status="blocked"), a_job("build", id=2, status="running")
    after = a_job("after", id=3, status="skipped")
    fake.on(
        "GET", "/runs/42", a_run(lint, late, after), a_run(linted, late, after), a_run(linted, running, after)
    )
    fake.on("GET", "/jobs/1/events", stream(_log("clean\n", 6), ("end", "{}")))
    fake.on("GET", "/jobs/2/events", stream(_log("built\n", 6), ("end", "{}")))
    assert shunter("run", "logs", 42, "-f").out == "==> lint <==\nclean\n==> build <==\nbuilt\n"


def test_without_events_a_log_is_asked_for_from_time_to_time(
    shunter: Shunter, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "POLL_S", 0.0)
    fake.on("GET", "/runs/42", a_run(a_job(status="running")))
    fake.on("GET", "/jobs/17", a_job(status="running"), a_job(status="succeeded"))
    fake.on("GET", "/jobs/17/log", _serve(b"all of it\n"))
    assert shunter("run", "logs", 42, "-f").out == "all of it\n"


def test_what_is_no_log_event_is_told_as_such(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="running")))
    fake.on("GET", "/jobs/17/events", stream(("log", "[]", "1:2")))
    assert shunter("run", "logs", 42, "-f").status == 1
