"""The wheel, installed outside the checkout: it holds what the hub needs, and the hub serves from it.

Nothing is fetched: the wheel goes into an environment of its own, which sees the packages of this
one by their folder. That does not show this checkout, because an editable install is a `.pth` file,
and those are read in an environment's own folder only.
"""

import os
import re
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
START_S = 60  # the hub starts in two seconds; a busy machine takes longer
STOP_S = 15

pytestmark = pytest.mark.xdist_group("wheel")  # its parts share one build


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Path:
    """A fresh environment with the wheel in it."""
    folder = wheel.parent / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), "-q", "--no-input"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True, cwd=wheel.parent)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def clean_env() -> dict[str, str]:
    """This process's environment without what points at the checkout or at a hub."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SHUNTER_"))}


@pytest.fixture
def served(environment: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a hub that runs from the wheel, outside the checkout."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    command = [str(environment / "bin/shunter"), "hub", "--data", str(tmp_path / "data"), "--listen", address]
    with (tmp_path / "hub.log").open("wb") as log:
        hub = subprocess.Popen(
            command, cwd=tmp_path, env=clean_env(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        wait_until_it_answers(hub, f"http://{address}/healthz", tmp_path / "hub.log")
        yield f"http://{address}"
    finally:
        hub.terminate()
        try:
            hub.wait(STOP_S)
        except subprocess.TimeoutExpired:
            hub.kill()
            raise


def wait_until_it_answers(hub: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        assert hub.poll() is None, f"the hub ended with {hub.returncode}:\n{log.read_text()}"
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                assert answer.status == 200
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    pytest.fail(f"the hub did not answer within {START_S} s:\n{log.read_text()}")


def fetch(url: str) -> tuple[str, str]:
    """Where a page was found after redirects, and its text."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.url, answer.read().decode()


def test_the_wheel_holds_the_pages_and_the_migrations_and_no_tests(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = [f"hub/{path.relative_to(ROOT)}" for path in tracked("templates") + tracked("migrations")]
    assert expected
    assert sorted(set(expected) - names) == []
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"hub", "runner"}


def tracked(folder: str) -> list[Path]:
    """The files of a folder that are more than Python's own leavings."""
    return [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]


def test_what_runs_from_the_wheel_is_not_the_checkout(environment: Path, tmp_path: Path) -> None:
    code = "import hub, runner; print(hub.__file__); print(runner.__file__)"
    command = [str(environment / "bin/python"), "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=clean_env(), capture_output=True, text=True, check=True)
    assert all(line.startswith(str(environment)) for line in done.stdout.splitlines())


def test_a_hub_from_the_wheel_serves_its_pages_and_its_documents(served: str) -> None:
    url, page = fetch(f"{served}/runs")
    assert "Sign in" in page
    assert url.startswith(f"{served}/login")

    linked = re.findall(r'(?:href|src)="(/static/[^"]+)"', page)
    assert linked, "the page links its style"
    assert all(fetch(served + path)[1] for path in linked)

    assert '"openapi"' in fetch(f"{served}/openapi.json")[1]
    assert "Shunter pipeline" in fetch(f"{served}/pipeline.schema.json")[1]


def test_the_commands_of_the_wheel_start(environment: Path, tmp_path: Path) -> None:
    for command in (["shunter", "--help"], ["shunter", "--version"], ["python", "-m", "runner", "--help"]):
        words = [str(environment / "bin" / command[0]), *command[1:]]
        done = subprocess.run(words, cwd=tmp_path, env=clean_env(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
