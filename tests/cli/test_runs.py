import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.show import job_sentences, lack_lines, run_lines
from hub.cli.terminal import Paint
from hub.wire.claim import ImageRef, StepResult
from hub.wire.runs import AttemptView, Comparison, Considered, RunList, Submitted, Waiting
from tests.cli.conftest import Shunter
from tests.cli.fakehub import TOKEN, Answer, FakeHub, a_job, a_run, at, lacking_gpu, problem

PLACED = (
    "fetches the image from the hub, running 2 other jobs, speed 80 (class 2), "
    "after 15 s held for a better runner"
)
PLAIN = Paint(False)
SENTENCES = st.text(
    st.characters(exclude_categories=["C"], exclude_characters="\u2028\u2029"), min_size=1, max_size=900
)


def test_a_run_shows_each_job_and_the_hubs_sentence_below_it(shunter: Shunter, fake: FakeHub) -> None:
    lint = a_job(
        "lint",
        id=1,
        status="succeeded",
        runner="mars-1",
        placed=PLACED,
        started_at=at(1),
        finished_at=at(4.2),
    )
    build = a_job(
        "build",
        id=2,
        status="failed",
        runner="earth-9",
        exit_code=2,
        attempt=2,
        started_at=at(5),
        finished_at=at(80),
    )
    train = a_job("train", id=3, waiting=lacking_gpu("mars-1", "earth-9"))
    run = a_run(
        lint, build, train, status="failed", finished_at=at(90), title="A change", ref="main", commit="a" * 40
    )
    fake.on("GET", "/runs/42", run)
    assert shunter("run", "view", 42).out == (
        "run 42  andy/demo  failed  after 1 min 30 s\n"
        "A change · main · aaaaaaaaaaaa\n"
        f"{fake.url}/runs/42\n"
        "\n"
        "✓  lint   succeeded  3.2 s       mars-1\n"
        f"  placed: {PLACED}\n"
        "\n"
        "✗  build  failed     1 min 15 s  earth-9  exit 2, attempt 2\n"
        "\n"
        "○  train  queued\n"
        "  waiting: no runner can take it: 2 runners, all lack label gpu\n"
    )


def test_verbose_shows_every_runner_with_each_lack_and_its_remedy(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job("train", waiting=lacking_gpu("mars-1", "earth-9"))))
    out = shunter("run", "view", 42, "-v").out
    for runner in ("mars-1", "earth-9"):
        assert f"    ✗ {runner} lacks label gpu\n" in out
    assert out.count("      remedy: add the label gpu to a runner, or drop it from the job\n") == 2


def test_verbose_shows_the_whole_comparison_behind_a_placement(shunter: Shunter, fake: FakeHub) -> None:
    attempts = [
        AttemptView(number=1, runner="old", assigned_at=at(0), ended="lost", reason="its lease ran out"),
        AttemptView(number=2, runner="fast", assigned_at=at(9)),
    ]
    result = StepResult(name="make", exit_code=0, duration_s=1.5)
    job = a_job(
        status="running",
        attempt=2,
        runner="fast",
        placed=PLACED,
        attempts=attempts,
        images=[ImageRef(hash="ab" * 32)],
        results=[result],
    )
    lacks = lacking_gpu("slow").runners[0].lacks
    fake.on("GET", "/runs/42", a_run(job))
    considered = [
        Considered(
            runner="fast",
            chosen=True,
            holds_images=True,
            speed_class=3,
            free_slots=1,
            load1=0.5,
            waiting=True,
        ),
        Considered(runner="steady", speed_class=2),
        Considered(runner="slow", lacks=lacks),
    ]
    fake.on("GET", "/jobs/17/placement", Comparison(job=17, placed=PLACED, runners=considered, more=2))
    out = shunter("run", "view", 42, "-v").out
    assert "    ✓ fast took it (images held, class 3, 1 free slot, load 0.50, its claim was open)\n" in out
    assert "    · steady could have (class 2)\n" in out
    assert "    ✗ slow lacks label gpu\n" in out
    assert "    and 2 more runners, not named\n" in out
    assert "    attempt 1 on old: lost: its lease ran out\n" in out
    assert "    step make: exit 0, 1.5 s\n" in out


@given(SENTENCES)
def test_a_sentence_is_printed_byte_for_byte_on_one_line_however_long(sentence: str) -> None:
    job = a_job(status="running").model_dump(mode="json")
    job |= {"placed": sentence, "waiting": {"kind": "busy", "headline": sentence}}
    assert job_sentences(job, PLAIN) == [f"  placed: {sentence}", f"  waiting: {sentence}"]
    lacks = [{"runner": "r", "lacks": [{"text": sentence, "lasting": True, "remedy": {"text": sentence}}]}]
    assert lack_lines(lacks, 0, PLAIN) == [f"    ✗ r {sentence}", f"      remedy: {sentence}"]


@given(st.text(max_size=50))
def test_no_text_of_others_commands_the_terminal_or_breaks_a_line(text: str) -> None:
    job = a_job(status="failed", error=text.replace("\n", " ")).model_dump(mode="json")
    run = a_run().model_dump(mode="json") | {"title": text, "ref": text, "commit": text, "submitted_by": text}
    lines = run_lines(run | {"jobs": [job | {"name": text, "runner": text}]}, None, PLAIN, 0)
    assert not any(ord(char) < 32 or 127 <= ord(char) < 160 for line in lines for char in line)


def test_a_running_job_shows_how_long_it_runs() -> None:
    run = a_run(a_job(status="running", started_at=at(10), runner="r")).model_dump(mode="json")
    lines = run_lines(run, None, PLAIN, round(at(75).timestamp() * 1000))
    assert lines[0] == "run 42  andy/demo  running  for 1 min 15 s"
    assert lines[2] == "●  build  running  1 min 5 s  r"


def test_json_is_the_view_as_the_api_gave_it(shunter: Shunter, fake: FakeHub) -> None:
    run = a_run(a_job(waiting=lacking_gpu("mars-1"), placed=PLACED))
    fake.on("GET", "/runs/42", run)
    assert json.loads(shunter("run", "view", 42, "-v", "--json").out) == run.model_dump(mode="json")


def test_the_list_passes_its_filters_and_shows_titles_whole(shunter: Shunter, fake: FakeHub) -> None:
    title = "a title " * 40
    runs = [a_run(id=43, title=title, jobs_total=4, jobs_done=1), a_run(id=42, status="failed")]
    fake.on("GET", "/runs", RunList(runs=runs, next=42))
    done = shunter(
        "run", "list", "--project", "andy/demo", "--status", "running", "--limit", 2, "--before", 50
    )
    assert fake.calls[0].query == {"project": "andy/demo", "status": "running", "limit": "2", "before": "50"}
    head, first, second, more = done.out.splitlines()
    assert head.split() == ["run", "project", "status", "jobs", "submitted", "title"]
    assert first.endswith(title.rstrip())
    assert first.split()[:5] == ["●", "43", "andy/demo", "running", "1/4"]
    assert second.split()[:5] == ["✗", "42", "andy/demo", "failed", "0/0"]
    assert more == "more: --before 42"


def test_a_run_that_is_not_there_exits_with_1(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/9", problem(404, "there is no run 9, or your token does not reach it"))
    done = shunter("run", "view", 9)
    assert (done.status, done.out) == (1, "")
    assert done.err == "shunter: there is no run 9, or your token does not reach it\n"


def test_cancel_tells_what_happens(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("POST", "/runs/42/cancel", Answer(status=204))
    assert shunter("run", "cancel", 42).out == "run 42 is told to stop\n"


def test_retry_gives_the_new_run_and_is_sent_once(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("POST", "/runs/42/retry", Submitted(id=43, url="http://hub/runs/43"))
    assert shunter("run", "retry", 42).out == "run 43  http://hub/runs/43\n"
    fake.on("POST", "/runs/42/retry", Answer(status=502, type="text/html"))
    assert shunter("run", "retry", 42).status == 3
    assert len(fake.made("POST", "/runs/42/retry")) == 2


@pytest.mark.parametrize("name", ["TERM", "NO_COLOR"])
def test_a_pipe_gets_no_colours(
    name: str, shunter: Shunter, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    fake.on("GET", "/runs/42", a_run(a_job(waiting=Waiting(kind="busy", headline="waits for room"))))
    assert "\x1b" not in shunter("run", "view", 42, "--token", TOKEN).out
