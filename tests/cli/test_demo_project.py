import sys
import tarfile
from pathlib import Path

import pytest

from hub.cli import demo_project
from hub.cli.errors import CliError
from hub.wire import pipeline


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_project, "_pip", lambda *_: False)


@pytest.mark.usefixtures("offline")
def test_without_an_index_this_checkouts_own_tests_are_run_and_it_says_so(tmp_path: Path) -> None:
    project = demo_project.prepare(tmp_path)
    assert "PyPI cannot be reached" in project.note
    parsed = pipeline.parse(project.pipeline.read_text())
    assert len(parsed.jobs) == project.jobs >= 4
    steps = {job.name: job.steps[0].run for job in parsed.jobs}
    assert sum("pytest" in run for run in steps.values()) == project.jobs - 1


def test_a_fetched_archive_is_unpacked_and_tested_by_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(*words: str) -> bool:
        target = Path(words[words.index("-d") + 1])
        made = tmp_path / f"{demo_project.PACKAGE}-{demo_project.VERSION}"
        (made / "toolz").mkdir(parents=True)
        (made / "toolz/__init__.py").touch()
        with tarfile.open(target / f"{made.name}.tar.gz", "w:gz") as archive:
            archive.add(made, made.name)
        return True

    monkeypatch.setattr(demo_project, "_pip", download)
    project = demo_project.prepare(tmp_path / "demo")
    assert (project.folder / "toolz/__init__.py").is_file()
    parsed = pipeline.parse(project.pipeline.read_text())
    assert len(parsed.jobs) == project.jobs == 6
    assert all(job.env["PYTHON"] == sys.executable for job in parsed.jobs)


@pytest.mark.usefixtures("offline")
def test_with_neither_index_nor_checkout_it_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo_project, "__file__", str(tmp_path / "a/b/c/d.py"))
    with pytest.raises(CliError, match="PyPI cannot be reached"):
        demo_project.prepare(tmp_path)


def test_the_job_that_nobody_can_take_asks_for_a_gpu() -> None:
    (job,) = pipeline.parse(demo_project.NOWHERE).jobs
    assert job.labels == ["gpu"]
