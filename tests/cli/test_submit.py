from pathlib import Path

import pytest
from blake3 import blake3

from hub.wire.problem import Fault
from hub.wire.runs import Preview, PreviewJob, RunnerLacks, Submit, Submitted
from tests.cli.conftest import Shunter
from tests.cli.fakehub import Answer, Call, FakeHub, a_job, a_run, at, lacking_gpu, problem

PIPELINE = "version: 1\njobs: {build: {steps: [{run: make}]}}\n"
MADE = Submitted(id=42, url="http://hub/runs/42")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "main.c").write_text("int main;")
    path = folder / "ci.yaml"
    path.write_text(PIPELINE)
    return path


@pytest.fixture
def ready(fake: FakeHub) -> None:
    """A hub that has no folder yet."""

    def kept(call: Call) -> Answer:
        hash_ = call.path.rpartition("/")[2]
        assert blake3(call.body).hexdigest() == hash_
        fake.on("HEAD", call.path, Answer())
        return Answer(status=201, body=b'{"hash": "", "bytes": 0}')

    fake.on("PUT", "/workspaces/*", kept)
    fake.on("POST", "/preview", Preview(jobs=[]))
    fake.on("POST", "/runs", MADE)


def _submitted(fake: FakeHub) -> Submit:
    """What was submitted, as the hub's own model reads it: an unknown field would be an error."""
    return Submit.model_validate_json(fake.made("POST", "/runs")[-1].body)


@pytest.mark.usefixtures("ready")
def test_a_submit_sends_the_folder_and_tells_where_the_run_is(
    shunter: Shunter, fake: FakeHub, file: Path
) -> None:
    done = shunter("run", "submit", file, "--title", "A change", "--ref", "main", "--priority", "-3")
    assert (done.status, done.out) == (0, "run 42  http://hub/runs/42\n"), done.err
    sent = _submitted(fake)
    assert (sent.project, sent.pipeline, sent.title, sent.ref, sent.priority) == (
        "local/demo",
        PIPELINE,
        "A change",
        "main",
        -3,
    )
    put = next(call for call in fake.calls if call.method == "PUT")
    assert put.query == {"project": "local/demo"}
    assert sent.workspace is not None
    assert put.path == f"/workspaces/{sent.workspace.hash}"
    assert [call.method for call in fake.calls] == ["HEAD", "POST", "PUT", "POST"]


@pytest.mark.usefixtures("ready")
def test_a_folder_that_the_hub_has_is_not_sent_again(shunter: Shunter, fake: FakeHub, file: Path) -> None:
    for _ in range(2):
        assert shunter("run", "submit", file).status == 0
    assert sum(call.method == "PUT" for call in fake.calls) == 1
    first, second = (Submit.model_validate_json(call.body) for call in fake.made("POST", "/runs"))
    assert first.workspace == second.workspace
    assert first.key != second.key


@pytest.mark.usefixtures("ready")
def test_a_lost_answer_makes_no_second_run(shunter: Shunter, fake: FakeHub, file: Path) -> None:
    fake.on("POST", "/runs", Answer(status=201, body=b'{"id": 4', cut=True), MADE)
    assert shunter("run", "submit", file).status == 0
    first, second = fake.made("POST", "/runs")
    assert first.body == second.body
    assert Submit.model_validate_json(first.body).key


def test_faults_of_the_pipeline_are_told_with_file_line_and_nearest_word(
    shunter: Shunter, fake: FakeHub, file: Path
) -> None:
    faults = [
        Fault(path="jobs.build.needs[0]", text='there is no job "lnit"', line=7, nearest="lint"),
        Fault(path="", text="it has no jobs"),
    ]
    fake.on("POST", "/preview", problem(422, "the pipeline file has 2 faults", *faults))
    done = shunter("run", "submit", file)
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines() == [
        "shunter: the pipeline file has 2 faults",
        f'{file}:7: jobs.build.needs[0]: there is no job "lnit" (did you mean "lint"?)',
        f"{file}: it has no jobs",
    ]
    assert not any(call.method == "PUT" for call in fake.calls)


@pytest.mark.usefixtures("ready")
def test_a_commit_or_nothing_goes_instead_of_the_folder(shunter: Shunter, fake: FakeHub, file: Path) -> None:
    assert (
        shunter("run", "submit", file, "--git", "https://git.example/a/b", "--commit", "ab" * 20).status == 0
    )
    workspace = _submitted(fake).workspace
    assert workspace is not None
    assert (workspace.git, workspace.commit, workspace.hash) == ("https://git.example/a/b", "ab" * 20, None)
    assert shunter("run", "submit", file, "--no-workspace", "--project", "andy/demo").status == 0
    assert _submitted(fake).workspace is None
    assert _submitted(fake).project == "andy/demo"
    assert not any(call.method in ("PUT", "HEAD") for call in fake.calls)


@pytest.mark.parametrize(
    "words",
    [
        ("--git", "https://x/y"),
        ("--git", "https://x/y", "--commit", "abcdef1", "--no-workspace"),
        ("--folder", ".", "--no-workspace"),
    ],
)
def test_words_that_exclude_each_other_exit_with_2(
    words: tuple[str, ...], shunter: Shunter, fake: FakeHub, file: Path
) -> None:
    assert shunter("run", "submit", file, *words).status == 2
    assert fake.calls == []


def test_a_file_that_is_not_there_exits_with_2(shunter: Shunter, tmp_path: Path) -> None:
    done = shunter("run", "submit", tmp_path / "none.yaml")
    assert done.status == 2
    assert "none.yaml cannot be read" in done.err
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe")
    assert "is not UTF-8" in shunter("run", "submit", tmp_path / "bad.yaml").err


@pytest.mark.usefixtures("ready")
def test_submit_and_watch_exits_with_the_runs_result(shunter: Shunter, fake: FakeHub, file: Path) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="failed"), status="failed", finished_at=at(3)))
    assert shunter("run", "submit", file, "--watch").status == 1


@pytest.mark.usefixtures("ready")
def test_an_upload_that_is_refused_says_why_and_submits_nothing(
    shunter: Shunter, fake: FakeHub, file: Path
) -> None:
    fake.on(
        "PUT",
        "/workspaces/*",
        problem(413, "the folder is over 2048 MiB: leave out what a run need not have"),
    )
    done = shunter("run", "submit", file)
    assert done.status == 1
    assert done.err == "shunter: the folder is over 2048 MiB: leave out what a run need not have\n"
    assert fake.made("POST", "/runs") == []


def test_a_preview_tells_who_would_take_each_job_and_what_others_lack(
    shunter: Shunter, fake: FakeHub, file: Path
) -> None:
    lacks = lacking_gpu("slow").runners[0].lacks
    jobs = [
        PreviewJob(
            name="build",
            runner="fast",
            placed="holds the image, idle",
            runners=[RunnerLacks(runner="slow", lacks=lacks)],
        ),
        PreviewJob(name="train", waiting=lacking_gpu("fast", "slow"), more=1),
    ]
    fake.on("POST", "/preview", Preview(jobs=jobs))
    done = shunter("preview", file)
    assert (done.status, done.out) == (
        0,
        "build  would go to fast\n"
        "  placed: holds the image, idle\n"
        "    ✗ slow lacks label gpu\n"
        "\n"
        "train  nobody would take it now\n"
        "  waiting: no runner can take it: 2 runners, all lack label gpu\n"
        "    ✗ fast lacks label gpu\n"
        "    ✗ slow lacks label gpu\n",
    )
    assert "      remedy: add the label gpu" in shunter("preview", file, "-v").out
    sent = Submit.model_validate_json(fake.calls[0].body)
    assert (sent.project, sent.pipeline) == ("local/demo", PIPELINE)
