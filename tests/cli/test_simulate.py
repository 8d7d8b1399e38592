import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hub.cli.simulate import picture, table
from tests.cli.conftest import Shunter

SMALL = ("--runners", 4, "--jobs", 30)
POLICIES = [
    "first poller",
    "random runner",
    "image locality",
    "hold 0 s",
    "hold 5 s",
    "hold 15 s",
    "hold 30 s",
]


def test_a_table_has_one_row_a_policy(shunter: Shunter) -> None:
    done = shunter("simulate", *SMALL)
    head, names, *rows = done.out.splitlines()
    assert done.status == 0
    assert head == "steady, seed 1: 30 jobs on 4 runners"
    assert names.split()[:2] == ["policy", "start"]
    assert [row[:14].strip() for row in rows] == POLICIES
    assert len({len(row) for row in rows}) == 1


def test_json_says_the_same_figures_and_the_same_seed_says_them_again(shunter: Shunter) -> None:
    first = shunter("simulate", *SMALL, "--kind", "cold", "--seed", 5, "--json").out
    assert shunter("simulate", *SMALL, "--kind", "cold", "--seed", 5, "--json").out == first
    assert shunter("simulate", *SMALL, "--kind", "cold", "--seed", 6, "--json").out != first
    found = json.loads(first)
    assert [row["policy"] for row in found["policies"]] == POLICIES
    assert all(row["jobs"] == 30 and row["bytes_fetched"] > 0 for row in found["policies"])


def test_holds_are_those_that_are_asked_for(shunter: Shunter) -> None:
    found = json.loads(shunter("simulate", *SMALL, "--hold", "2.5", "--hold", "1", "--json").out)
    assert [row["policy"] for row in found["policies"]][3:] == ["hold 1 s", "hold 2.5 s"]


def test_several_seeds_are_pooled(shunter: Shunter) -> None:
    def rows(*words: object) -> list[dict[str, Any]]:
        found = json.loads(shunter("simulate", *SMALL, "--json", *words).out)["policies"]
        assert isinstance(found, list)
        return found

    one, two, both = rows("--seed", 3), rows("--seed", 4), rows("--seed", 3, "--seeds", 2)
    for first, second, pooled in zip(one, two, both, strict=True):
        assert pooled["jobs"] == 60
        assert pooled["bytes_fetched"] == first["bytes_fetched"] + second["bytes_fetched"]
        assert abs(2 * pooled["start_mean_ms"] - first["start_mean_ms"] - second["start_mean_ms"]) <= 3
        least, most = sorted((first["finish_p95_ms"], second["finish_p95_ms"]))
        assert least <= pooled["finish_p95_ms"] <= most


@pytest.mark.parametrize("hold", ["soon", "-1", "nan", "inf", "601"])
def test_a_hold_that_is_no_number_of_seconds_is_refused(hold: str, shunter: Shunter) -> None:
    done = shunter("simulate", *SMALL, f"--hold={hold}")
    assert (done.status, done.out) == (2, "")
    assert f"--hold {hold}" in done.err


def test_more_jobs_than_memory_has_room_for_are_refused(shunter: Shunter) -> None:
    done = shunter("simulate", "--runners", 100, "--jobs", 50_000, "--seeds", 5)
    assert (done.status, done.err) == (2, "shunter: the jobs of all --seeds: 200000 at most\n")


def test_a_written_trace_gives_the_answer_it_was_made_for(shunter: Shunter, tmp_path: Path) -> None:
    file = tmp_path / "load.jsonl"
    made = json.loads(shunter("simulate", *SMALL, "--write", file, "--json").out)
    again = json.loads(shunter("simulate", file, "--json").out)
    assert again["policies"] == made["policies"]
    assert again["load"] == "load.jsonl, seed 1: 30 jobs on 4 runners"


def test_a_bad_trace_is_told_with_its_file_and_line(shunter: Shunter, tmp_path: Path) -> None:
    file = tmp_path / "load.jsonl"
    file.write_text('{"record": "image", "name": "A", "bytes": 1}\n\n')
    done = shunter("simulate", file)
    assert (done.status, done.err) == (2, f"shunter: {file}: line 2: is empty; every line is one record\n")
    file.write_bytes(b"\xff\n")
    assert "is not UTF-8" in shunter("simulate", file).err
    assert "No such file" in shunter("simulate", tmp_path / "none").err


def test_jobs_that_fit_nowhere_are_counted(shunter: Shunter, tmp_path: Path) -> None:
    file = tmp_path / "load.jsonl"
    shunter("simulate", "--runners", 2, "--jobs", 3, "--write", file)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    for record in records:
        if record["record"] == "job":
            record["labels"] = ["gpu"]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = shunter("simulate", file)
    assert done.status == 0
    assert done.out.splitlines()[-1] == "3 jobs fit on no runner and are left out"


def test_the_picture_is_well_formed_and_has_a_bar_for_every_figure(shunter: Shunter, tmp_path: Path) -> None:
    file = tmp_path / "x.svg"
    assert shunter("simulate", *SMALL, "--kind", "cold", "--svg", file).status == 0
    text = file.read_text()
    root = ElementTree.fromstring(text)
    bars = [one for one in root.iter("{http://www.w3.org/2000/svg}rect") if one.get("class") in ("a", "p")]
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    assert len(bars) == len(POLICIES) * 5
    for bar in bars:
        assert float(bar.attrib["x"]) + float(bar.attrib["width"]) < width
        assert float(bar.attrib["y"]) + float(bar.attrib["height"]) < height
    assert "prefers-color-scheme:dark" in text


def test_a_title_cannot_break_the_picture() -> None:
    root = ElementTree.fromstring(picture("<b>&\x1b", []))
    assert root[0].text == "<b>&\ufffd"
    assert len(table([])) == 1


def test_a_picture_that_cannot_be_written_is_an_error(shunter: Shunter, tmp_path: Path) -> None:
    done = shunter("simulate", *SMALL, "--svg", tmp_path / "none" / "x.svg")
    assert done.status == 1
    assert "No such file" in done.err


def test_the_command_line_loads_the_rules_only_for_this_command() -> None:
    code = "import sys, hub.cli.main; print([name for name in sys.modules if 'placement' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
