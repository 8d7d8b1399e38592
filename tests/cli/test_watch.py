import json

import pytest

from hub.cli import watch as watching
from hub.cli.terminal import Paint
from hub.cli.watch import Watch
from hub.wire.runs import RunView, Waiting
from tests.cli.conftest import Shunter
from tests.cli.fakehub import Answer, FakeHub, a_job, a_run, at, problem, stream

QUEUED = a_run(a_job(waiting=Waiting(kind="turn", headline="next in line on fast")), status="queued")
RUNNING = a_run(a_job(status="running", runner="fast", placed="needs no image, idle", started_at=at(1)))
FAILED = a_run(
    a_job(
        status="failed",
        runner="fast",
        placed="needs no image, idle",
        started_at=at(1),
        finished_at=at(4),
        exit_code=1,
    ),
    status="failed",
    finished_at=at(5),
)
GOOD = a_run(
    a_job(status="succeeded", started_at=at(1), finished_at=at(4)), status="succeeded", finished_at=at(5)
)


def _event(run: RunView) -> tuple[str, str]:
    return ("run", run.model_dump_json())


def test_a_watch_tells_each_change_once_and_ends_with_the_runs_result(
    shunter: Shunter, fake: FakeHub
) -> None:
    fake.on("GET", "/runs/42", QUEUED)
    events = [_event(QUEUED), _event(RUNNING), _event(RUNNING), _event(FAILED), ("end", "{}")]
    fake.on("GET", "/runs/42/events", stream(*events))
    done = shunter("run", "watch", 42)
    assert done.status == 1
    assert done.out.splitlines()[2:] == [
        "  build  queued",
        "  build  waiting: next in line on fast",
        "  build  running on fast",
        "  build  placed: needs no image, idle",
        "  build  failed after 3.0 s, exit 1",
        "run 42 failed after 5.0 s",
    ]


def test_a_run_that_succeeds_exits_with_0(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", RUNNING)
    fake.on("GET", "/runs/42/events", stream(_event(GOOD), ("end", "{}")))
    assert shunter("run", "watch", 42).status == 0


def test_a_run_that_is_over_needs_no_stream(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", GOOD)
    assert shunter("run", "watch", 42).status == 0
    assert [call.path for call in fake.calls] == ["/runs/42"]


def test_a_cut_stream_is_taken_up_again(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", QUEUED)
    fake.on(
        "GET",
        "/runs/42/events",
        stream(_event(RUNNING), cut=True),
        Answer(status=502, type="text/html"),
        stream(_event(RUNNING)),
        stream(_event(GOOD), ("end", "{}")),
    )
    done = shunter("run", "watch", 42)
    assert done.status == 0
    assert done.out.count("running on fast") == 1


def test_a_hub_that_stays_away_ends_a_watch_with_3(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", QUEUED)
    fake.on("GET", "/runs/42/events", stream(_event(RUNNING)), Answer(status=503, type="text/html"))
    assert shunter("run", "watch", 42).status == 3


def test_a_token_that_is_removed_ends_a_watch(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", QUEUED)
    fake.on("GET", "/runs/42/events", stream(_event(RUNNING)), problem(401, "this token is not valid"))
    assert shunter("run", "watch", 42).status == 1


def test_without_events_the_run_is_asked_for_from_time_to_time(
    shunter: Shunter, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "follow", lambda *words: _follow(*words, poll_s=0))
    fake.on("GET", "/runs/42", QUEUED, RUNNING, RUNNING, GOOD)
    done = shunter("run", "watch", 42)
    assert done.status == 0
    assert "running on fast" in done.out


_follow = watching.follow


def test_json_gives_one_view_per_line(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", QUEUED)
    fake.on("GET", "/runs/42/events", stream(_event(GOOD), ("end", "{}")))
    lines = shunter("run", "watch", 42, "--json").out.splitlines()
    assert [json.loads(line) for line in lines] == [each.model_dump(mode="json") for each in (QUEUED, GOOD)]


def _lines(watch: Watch, run: RunView) -> list[str]:
    return watch.see(run.model_dump(mode="json"), "URL", 0)


def test_the_seconds_of_a_hold_are_told_once_and_another_runner_anew() -> None:
    watch = Watch(Paint(False))
    held = [
        a_run(a_job(waiting=Waiting(kind="held", headline=f"held for {name} (speed class 3), {left} s left")))
        for name, left in (("earth-9", 14), ("earth-9", 9), ("mars-1", 8), ("mars-1", 2))
    ]
    told = [line for run in held for line in _lines(watch, run) if "waiting" in line]
    assert told == [
        "  build  waiting: held for earth-9 (speed class 3), 14 s left",
        "  build  waiting: held for mars-1 (speed class 3), 8 s left",
    ]


def test_another_attempt_is_told_with_its_own_placement() -> None:
    watch = Watch(Paint(False))
    first = a_run(a_job(status="running", runner="fast", placed="idle", attempt=1))
    again = a_run(
        a_job(status="queued", attempt=1, waiting=Waiting(kind="turn", headline="next in line on slow"))
    )
    second = a_run(a_job(status="running", runner="slow", placed="idle", attempt=2))
    _lines(watch, first)
    assert _lines(watch, again) == ["  build  queued", "  build  waiting: next in line on slow"]
    assert _lines(watch, second) == ["  build  running on slow", "  build  placed: idle"]


def test_a_machine_error_is_told_in_the_hubs_words() -> None:
    watch = Watch(Paint(False))
    lines = _lines(
        watch, a_run(a_job(status="error", error="its runner was lost 3 times (A, B, C)"), status="error")
    )
    assert "  build  error: its runner was lost 3 times (A, B, C)" in lines
