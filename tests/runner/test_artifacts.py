"""Which files a pattern names, and that none comes from outside the workspace."""

from pathlib import Path

import pytest

from runner import artifacts
from tests.runner.conftest import Start
from tests.runner.fakehub import Answer, FakeHub, problem

TREE = ("dist/a.whl", "dist/deep/b.txt", "dist/deep/er/c.txt", "report.xml", "src/report.xml", "src/x[1].txt")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in TREE:
        (tmp_path / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / name).write_text(name)
    return tmp_path / "ws"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("dist/**", {"dist/a.whl", "dist/deep/b.txt", "dist/deep/er/c.txt"}),
        ("dist", {"dist/a.whl", "dist/deep/b.txt", "dist/deep/er/c.txt"}),
        ("dist/", {"dist/a.whl", "dist/deep/b.txt", "dist/deep/er/c.txt"}),
        ("./dist/*.whl", {"dist/a.whl"}),
        ("**/*.txt", {"dist/deep/b.txt", "dist/deep/er/c.txt", "src/x[1].txt"}),
        ("**/report.xml", {"report.xml", "src/report.xml"}),
        ("report.xml", {"report.xml"}),
        ("*.xml", {"report.xml"}),
        ("dist/**/c.txt", {"dist/deep/er/c.txt"}),
        ("dist/**/**/b.txt", {"dist/deep/b.txt"}),
        ("dist/*/b.txt", {"dist/deep/b.txt"}),
        ("dist/deep/?.txt", {"dist/deep/b.txt"}),
        ("dist/deep/[a-b].txt", {"dist/deep/b.txt"}),
        ("src/x[[]1].txt", {"src/x[1].txt"}),
        ("**", set(TREE)),
        ("../**", set()),
        ("/etc/passwd", set()),
        ("", set()),
        (".", set()),
        ("nothing/**", set()),
    ],
)
def test_a_pattern_names_these_files(workspace: Path, pattern: str, expected: set[str]) -> None:
    found = artifacts.search(workspace, [pattern])
    assert {file.name for file in found.files} == expected
    assert bool(found.notes) == (not expected)


def test_a_link_that_leads_out_is_not_followed(workspace: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("secret")
    (workspace / "dist/out").symlink_to(tmp_path / "secret")
    (workspace / "dist/up").symlink_to("../../secret")
    (workspace / "dist/folder").symlink_to(tmp_path / "folder")
    (workspace / "dist/hop").symlink_to("folder/file")
    (workspace / "dist/in").symlink_to("../report.xml")
    (workspace / "dist/nowhere").symlink_to("no such file")
    found = artifacts.search(workspace, ["dist/**"])
    by_name = {file.name: file.path for file in found.files}
    assert set(by_name) == {"dist/a.whl", "dist/deep/b.txt", "dist/deep/er/c.txt", "dist/in"}
    assert by_name["dist/in"] == workspace / "report.xml"
    assert len(found.notes) == 5
    assert sum("leads out" in note for note in found.notes) == 4


def test_a_pattern_cannot_make_the_search_run_for_ever(workspace: Path) -> None:
    (workspace / ("a" * 200)).write_text("")
    evil = "/".join(["**", "*a*a*a*a*a*a*a*a*b"] * 20)
    assert artifacts.search(workspace, ["*a" * 50 + "b", evil]).files == []


def test_what_is_no_file_is_left_out_with_a_word(workspace: Path) -> None:
    import os

    os.mkfifo(workspace / "dist/pipe")
    found = artifacts.search(workspace, ["dist/p*"])
    assert found.files == []
    assert found.notes == ["left out, for it is not a file: dist/pipe"]


def test_a_name_that_the_hub_cannot_keep_is_left_out_with_a_word(workspace: Path) -> None:
    (workspace / "dist/a\nb").write_text("")
    (workspace / "dist/a\\b").write_text("")
    notes = artifacts.search(workspace, ["dist/a*b"]).notes
    assert [note.startswith("left out, for its name cannot be kept") for note in notes] == [True, True]


def test_too_many_files_are_refused(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts, "MAX_FILES", 2)
    with pytest.raises(artifacts.TooMany, match="more than 2 files"):
        artifacts.search(workspace, ["dist"])


def test_a_job_leaves_its_files_and_its_reports(hub: FakeHub, start: Start) -> None:
    run = "mkdir -p dist/sub; printf 'a\\0b' > dist/a.bin; printf 'x y' > 'dist/sub/ü #?.txt'"
    hub.queue(1, run, "echo r > r.xml", artifacts=["dist/**", "nothing"], reports={"junit": ["r.xml"]})
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert hub.artifacts == {"dist/a.bin": b"a\0b", "dist/sub/ü #?.txt": b"x y", "r.xml": b"r\n"}
    assert b"artifacts: no file matches nothing\n" in hub.log(1)
    assert b"artifacts: 3 files, 0.0 MiB\n" in hub.log(1)


def test_reports_are_sent_first_each_as_what_it_is_also_of_a_job_that_failed(
    hub: FakeHub, start: Start
) -> None:
    run = "mkdir cov; touch a r.xml cov/c.xml cov/d.xml; exit 3"
    reports = {"junit": ["**/r.xml", "none.xml"], "coverage": ["cov"]}
    hub.queue(1, run, artifacts=["a", "r.xml"], reports=reports)
    start()
    said = hub.finish_of(1)
    assert (said["outcome"], said["exit_code"]) == ("failed", 3)
    sent = [call.path.partition("/artifacts/")[2] for call in hub.calls if call.method == "PUT"]
    assert sent == [
        "cov/c.xml?report=coverage",
        "cov/d.xml?report=coverage",
        "r.xml?report=junit",
        "a",
    ]
    assert b"artifacts: no file matches none.xml\n" in hub.log(1)


def test_a_job_that_failed_leaves_its_files_too(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "echo r > r.xml; exit 1", artifacts=["r.xml"])
    start()
    assert hub.finish_of(1)["outcome"] == "failed"
    assert hub.artifacts == {"r.xml": b"r\n"}


def test_a_cut_link_while_a_file_is_sent_is_tried_again(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "head -c 3000000 /dev/zero > big", artifacts=["big"])
    hub.instead("/artifacts/big", Answer(lose=True), problem(502, "bad gateway"))
    start()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert hub.artifacts == {"big": bytes(3_000_000)}
    assert len(hub.of("/artifacts/big")) == 3


def test_a_file_that_the_hub_does_not_take_fails_the_job_and_says_why(hub: FakeHub, start: Start) -> None:
    hub.queue(1, "echo r > r.xml", artifacts=["r.xml"])
    hub.instead("/artifacts/r.xml", problem(413, "this is 2 bytes: 1 at most"))
    start()
    said = hub.finish_of(1)
    assert said["outcome"] == "failed"
    assert said["error"] == "its artifacts could not be kept: this is 2 bytes: 1 at most"
