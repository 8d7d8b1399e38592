"""The project that `shunter demo` tests: a real one, with the pipeline that tests it.

A source distribution of a small, pure Python library with a real test suite, fetched by pip; where
no package index can be reached, this checkout's own tests of the placement rules, and the demo says so.
"""

import importlib.util
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

from hub.cli.errors import CliError

PACKAGE = "toolz"
VERSION = "1.0.0"  # fixed: 180 tests that pass in 3 s on Python 3.11 to 3.13, and need only pytest
FETCH_S = 90  # pip with a slow index; without one it gives up by itself much sooner
OWN_SUITES = ("headroom", "lack", "placed", "waiting")
MIN_SUITES = 2  # less would not show jobs beside each other


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder with a pipeline file in it. `note`: what the demo says of it."""

    name: str
    folder: Path
    pipeline: Path
    jobs: int
    note: str


_TESTS = """\
version: 1
env:
  PYTHON: {python}
  PYTHONPATH: {path}
  PYTHONDONTWRITEBYTECODE: "1"
{more}jobs:
  compile:
    steps:
      - name: compile every file
        run: '"$PYTHON" -m compileall -q -f {sources}'
  test:
    needs: [compile]
    matrix: {{suite: [{suites}]}}
    timeout: 5m
    steps:
      - name: pytest
        run: '"$PYTHON" -m pytest -q -p no:cacheprovider -o addopts= {tests}/test_"$MATRIX_SUITE".py'
  count:
    needs: [test]
    steps:
      - name: count the tests
        run: '"$PYTHON" -m pytest -q -p no:cacheprovider -o addopts= --collect-only {tests} | tail -n 1'
"""

NOWHERE = """\
version: 1
jobs:
  train:
    labels: [gpu]
    steps:
      - run: nvidia-smi
"""


def prepare(folder: Path) -> Project:
    """The project, ready to be submitted, below `folder`. Raises CliError where there is none."""
    path = _tools(folder)
    fetched = _fetch(folder)
    if fetched is not None:
        suites: tuple[str, ...] = ("itertoolz", "functoolz", "dicttoolz", "curried")
        note = f"{PACKAGE} {VERSION}, a library from PyPI, with its own test suite"
        tests = f"{PACKAGE}/tests"
        # Plugins that happen to be installed here are nothing to the library, and start slowly.
        more = '  PYTEST_DISABLE_PLUGIN_AUTOLOAD: "1"\n'
        return _project(f"demo/{PACKAGE}", fetched, PACKAGE, tests, suites, path, note, more)
    own = _own_checkout(folder)
    suites = tuple(name for name in OWN_SUITES if (own / f"tests/placement/test_{name}.py").is_file())
    if len(suites) < MIN_SUITES:
        raise CliError("this checkout has no tests of the placement rules, and PyPI cannot be reached")
    note = "PyPI cannot be reached: the tests of the placement rules, from this checkout, instead"
    return _project("demo/shunter", own, "hub/placement", "tests/placement", suites, path, note)


def _project(
    name: str,
    folder: Path,
    sources: str,
    tests: str,
    suites: tuple[str, ...],
    path: str,
    note: str,
    more: str = "",
) -> Project:
    pipeline = folder / ".shunter.yaml"
    text = _TESTS.format(
        python=_quoted(sys.executable),
        path=_quoted(path),
        sources=sources,
        tests=tests,
        suites=", ".join(suites),
        more=more,
    )
    pipeline.write_text(text, "utf-8")
    return Project(name=name, folder=folder, pipeline=pipeline, jobs=len(suites) + 2, note=note)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _tools(folder: Path) -> str:
    """A PYTHONPATH with pytest on it; empty where this Python has it already."""
    if importlib.util.find_spec("pytest") is not None:
        return ""
    tools = folder / "tools"
    if not _pip("install", "-q", "--target", str(tools), "pytest"):
        raise CliError("the demo runs a test suite: pip install pytest, and try again")
    return str(tools)


def _fetch(folder: Path) -> Path | None:
    """The source distribution, unpacked; None where pip could not get it."""
    sources = folder / "source"
    sources.mkdir(parents=True, exist_ok=True)
    wanted = ("--no-deps", "--no-binary", PACKAGE, "-d", str(sources), f"{PACKAGE}=={VERSION}")
    if not _pip("download", "-q", *wanted):
        return None
    archives = list(sources.glob("*.tar.gz"))
    if len(archives) != 1:
        return None
    with tarfile.open(archives[0]) as archive:
        archive.extractall(sources, filter="data")
    return sources / f"{PACKAGE}-{VERSION}"


def _pip(*words: str) -> bool:
    command = [sys.executable, "-m", "pip", *words]
    options = ["--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "10"]
    try:
        done = subprocess.run(  # noqa: S603 - this Python's own pip, no shell
            [*command, *options], capture_output=True, timeout=FETCH_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _own_checkout(folder: Path) -> Path:
    """A copy of this checkout's code and tests."""
    top = Path(__file__).resolve().parents[2]
    if not (top / "tests" / "placement").is_dir():
        raise CliError(
            "PyPI cannot be reached, and this is no checkout with tests of its own: try again later"
        )
    copy = folder / "source" / "shunter"
    skip = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("hub", "tests"):
        shutil.copytree(top / name, copy / name, ignore=skip, dirs_exist_ok=True)
    shutil.copy(top / "pyproject.toml", copy)
    return copy
