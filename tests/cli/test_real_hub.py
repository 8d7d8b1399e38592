"""The commands against a real hub: what a scripted one takes for granted is held to here."""

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hub.cli.client import Client
from hub.cli.demo import _start_hub
from hub.cli.demo_processes import Processes
from tests.cli.conftest import Done, Shunter

PIPELINE = """\
version: 1
jobs:
  lint: {steps: [{run: ruff check}]}
  build: {needs: [lint], labels: [gpu], steps: [{run: make}]}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, str]]:
    processes = Processes(tmp_path_factory.mktemp("hub"))
    try:
        yield _start_hub(processes.folder, processes)
    finally:
        assert processes.stop() == []


@pytest.fixture
def real(hub: tuple[Client, str], shunter: Shunter, monkeypatch: pytest.MonkeyPatch) -> Shunter:
    client, secret = hub
    monkeypatch.setenv("SHUNTER_URL", client.target.url)
    monkeypatch.setenv("SHUNTER_TOKEN", secret)
    return shunter


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    path = tmp_path / "thing" / "ci.yaml"
    path.parent.mkdir()
    path.write_text(PIPELINE)
    return path


def _until(done: Callable[[], Done], holds: Callable[[Done], bool]) -> Done:
    end = time.monotonic() + 20
    while not holds(found := done()):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


def test_a_run_is_submitted_shown_canceled_and_retried(real: Shunter, file: Path) -> None:
    made = real("run", "submit", file, "--title", "A change", "--ref", "main")
    assert made.status == 0, made.err
    number = re.fullmatch(r"run (\d+)  http://\S+/runs/\1\n", made.out)
    assert number is not None
    view = _until(lambda: real("run", "view", number[1], "-v"), lambda done: done.out.count("waiting: ") == 2)
    assert "  waiting: no runner serves local/thing\n" in view.out
    assert "  waiting: waits for lint\n" in view.out
    said = json.loads(real("run", "view", number[1], "--json").out)
    assert said["jobs"][0]["waiting"]["headline"] == "no runner serves local/thing"
    assert "local/thing" in real("run", "list", "--project", "local/thing", "--status", "queued").out
    assert "  waiting: no runner serves local/thing\n" in real("queue").out
    assert real("run", "logs", number[1]).out == ""
    assert real("run", "cancel", number[1]).status == 0
    assert real("run", "watch", number[1]).status == 1
    assert real("run", "retry", number[1]).out.startswith("run ")


def test_faults_of_a_pipeline_have_their_file_and_line(real: Shunter, file: Path) -> None:
    file.write_text(PIPELINE.replace("[lint]", "[lnit]"))
    for words in (("run", "submit", file), ("preview", file)):
        done = real(*words)
        assert (done.status, done.out) == (2, "")
        assert re.search(
            rf'^{re.escape(str(file))}:4: jobs\.build\.needs\[0\]: .*\(did you mean "lint"\?\)$',
            done.err,
            re.MULTILINE,
        )


def test_runners_are_added_drained_resumed_and_removed(real: Shunter, file: Path) -> None:
    added = real("runners", "add", "earth-9", "--label", "ssd", "--project", "andy/demo")
    assert added.status == 0, added.err
    assert "shunter runner --hub http://" in added.out
    assert real("runners", "add", "earth-9").status == 1
    assert re.search(r"^earth-9 +active.* never +.*ssd$", real("runners").out, re.MULTILINE)
    assert real("runners", "drain", "earth-9").status == 0
    assert "draining" in real("fleet").out
    assert real("runners", "resume", "earth-9").status == 0
    preview = real("preview", file, "--project", "andy/demo", "-v")
    assert "nobody would take it now" in preview.out
    assert "    ✗ earth-9 never polled\n" in preview.out
    assert real("runners", "rm", "earth-9").status == 0
    assert real("runners", "rm", "earth-9").status == 1


def test_tokens_are_made_used_and_void_after_rm(real: Shunter) -> None:
    made = json.loads(real("token", "add", "bot", "--kind", "read", "--expires", "30d", "--json").out)
    row = rf"^{made['id']} +read +all projects +never +in (30 d|29 d 23 h) +bot$"
    assert re.search(row, real("token", "list").out, re.MULTILINE)
    assert real("queue", "--token", made["token"]).status == 0
    refused = real("token", "list", "--token", made["token"])
    assert refused.status == 1
    assert real("token", "rm", made["id"]).status == 0
    assert real("queue", "--token", made["token"]).status == 1


def test_login_reads_the_admin_token_and_needs_no_more_words(
    real: Shunter, hub: tuple[Client, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, secret = hub
    monkeypatch.delenv("SHUNTER_URL")
    monkeypatch.delenv("SHUNTER_TOKEN")
    assert real("login", client.target.url, "--token", secret).status == 0
    assert real("queue").status == 0
    assert Path(os.environ["HOME"], ".config/shunter/login.json").stat().st_mode & 0o077 == 0
