"""A skip in CI is a failure, unless it is for something else than what the machine lacks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """\
import pytest

def test_that_skips_for_want_of_a_program():
    pytest.skip("needs a program")

@pytest.mark.skipif(True, reason="needs a kernel")
def test_that_is_marked_to_skip():
    pass

def test_that_skips_for_another_reason():
    pytest.skip("is for another system")
"""
MODULE = 'import pytest\npytest.skip("needs a browser", allow_module_level=True)\n'


def outcomes(folder: Path, **environ: str) -> str:
    """The last line of what pytest says of the tests above, under this project's conftest."""
    shutil.copy(Path(__file__).parent / "conftest.py", folder)
    (folder / "test_a.py").write_text(TESTS)
    (folder / "test_b.py").write_text(MODULE)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--continue-on-collection-errors",
    ]
    env = {key: value for key, value in os.environ.items() if key not in ("CI", "SHUNTER_SKIPS")}
    done = subprocess.run(
        [*command, str(folder)], cwd=folder, env=env | environ, capture_output=True, text=True
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("environ", [{}, {"CI": "false"}, {"CI": "true", "SHUNTER_SKIPS": "allow"}])
def test_on_a_developers_machine_a_test_may_skip(tmp_path: Path, environ: dict[str, str]) -> None:
    assert outcomes(tmp_path, **environ).startswith("4 skipped in")


def test_in_ci_a_skip_for_want_of_something_is_a_failure(tmp_path: Path) -> None:
    assert outcomes(tmp_path, CI="true").startswith("1 failed, 1 skipped, 2 errors in")
