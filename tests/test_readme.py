"""The README is true: its example is a valid file, and its tables name what there is, no more, no less."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from hub.config import Config
from hub.wire.pipeline import json_schema, parse

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PIPELINE = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)


def table(first: str) -> set[str]:
    """The words in backquotes in the first column of the table whose head begins with `first`."""
    rows = README.partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    assert rows, first
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row.split(" | ")[0])}


def test_the_example_is_a_pipeline_and_shows_every_key() -> None:
    assert PIPELINE is not None
    assert [job.name for job in parse(PIPELINE[1]).jobs] == ["lint", "test-3.11", "test-3.12", "deploy"]
    schema = json_schema()
    of_sandbox, of_job = (set(schema["$defs"][name]["properties"]) for name in ("sandbox", "job"))
    for key in {*schema["properties"], *of_sandbox, *of_job}:
        assert re.search(rf"\b{key}:", PIPELINE[1]), f"the example shows {key}"


def test_the_tables_explain_every_key_of_the_file() -> None:
    schema = json_schema()
    of_sandbox, of_job = (set(schema["$defs"][name]["properties"]) for name in ("sandbox", "job"))
    assert table("key of the file") == set(schema["properties"])
    assert table("key of a sandbox") == of_sandbox
    assert table("key of a job") == of_job - of_sandbox


def test_the_table_of_settings_names_every_setting_with_its_default() -> None:
    settings = {f"SHUNTER_{setting.name.upper()}": setting.default for setting in fields(Config)}
    assert table("variable") == set(settings)
    for name, default in settings.items():
        if isinstance(default, int | float):
            row = next(line for line in README.splitlines() if line.startswith("|") and f"`{name}`" in line)
            assert re.search(rf"\b{default:g}\b", row), f"{name} is {default:g}"


@pytest.mark.parametrize("words", sorted(table("command")))
def test_every_command_of_the_table_is_there(words: str) -> None:
    group = next((g for g in ("run", "runners", "token") if f"`shunter {g} " in _row(words)), None)
    command = words.split()[1:] if words.startswith("shunter ") else [*([group] if group else []), words]
    done = subprocess.run(
        [sys.executable, "-m", "hub.cli.main", *command, "--help"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def _row(words: str) -> str:
    return next(
        line for line in README.splitlines() if line.startswith("| `shunter ") and f"`{words}`" in line
    )


def test_every_file_that_is_linked_is_there() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []


def test_every_target_that_is_named_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        set(re.findall(r"\bmake ([a-z]+)\b", re.sub(r"```yaml.*?```", "", README, flags=re.DOTALL)))
        <= targets
    )
