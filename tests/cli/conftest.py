"""The command line as a person runs it, against a scripted hub."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from hub.cli import client
from hub.cli.main import main
from tests.cli.fakehub import TOKEN, FakeHub, serving


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """How a command ended."""

    status: int
    out: str
    err: str


Shunter = Callable[..., Done]


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with serving() as hub:
        yield hub


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of whoever runs the tests, a home of their own, and no waiting between tries."""
    for name in [name for name in os.environ if name.startswith("SHUNTER_") or name == "NO_COLOR"]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(client, "PAUSE_S", 0.0)
    monkeypatch.setattr(client, "STREAM_PAUSES_S", (0.0,) * 5)


@pytest.fixture
def shunter(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], fake: FakeHub) -> Shunter:
    """Run a command in this process, against the scripted hub."""
    monkeypatch.setenv("SHUNTER_URL", fake.url)
    monkeypatch.setenv("SHUNTER_TOKEN", TOKEN)

    def run(*words: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["shunter", *map(str, words)])
        capfd.readouterr()
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        out, err = capfd.readouterr()
        return Done(status=status, out=out, err=err)

    return run


def shunter_process(*words: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own."""
    command = [sys.executable, "-m", "hub.cli.main", *words]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, **(environ or {})},
        timeout=60,
        check=False,
    )
