"""`shunter replay` on a file and on a hub: what it says, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hub.placement.journal import ClaimDecided, Ended, Entry, Journal, What, lines
from hub.placement.model import Hold, Plan, Settings
from tests.cli.conftest import Shunter
from tests.cli.fakehub import Answer, FakeHub, problem
from tests.fleets import NOW_MS, job, runner

SLOW = runner("earth-9", waiting=True, speed_class=1)
FAST = runner("mars-1", speed_class=5)
GIVEN = ClaimDecided(runner="earth-9", plan=Plan(take=job(17), runner="earth-9"))
HELD = ClaimDecided(runner="earth-9", plan=Plan(holds=(Hold(job=17, awaited="mars-1"),)))


def text_of(*what: What, dropped: int = 0) -> str:
    """A journal in which something happens every second."""
    entries = tuple(Entry(at_ms=NOW_MS + 1000 * number, what=one) for number, one in enumerate(what))
    journal = Journal(begin_ms=NOW_MS, settings=Settings(), entries=entries, dropped=dropped)
    return "".join(f"{line}\n" for line in lines(journal))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    path.write_text(text_of(SLOW, FAST, job(17), HELD, HELD, dropped=7))
    return path


def test_a_journal_that_is_as_it_was_has_no_difference(shunter: Shunter, file: Path) -> None:
    done = shunter("replay", file)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        "2 decisions in 0 min 4 s since 2027-01-15T08:00:00.000Z; 7 before that are not kept",
        "judged again, 2 of them: no difference",
    ]


def test_a_difference_is_told_with_its_time_and_ends_with_a_failure(shunter: Shunter, file: Path) -> None:
    file.write_text(text_of(SLOW, job(17), HELD, GIVEN))
    done = shunter("replay", file)
    assert done.status == 1
    assert done.out.splitlines()[1:] == [
        "judged again: 1 of 2 decisions differ",
        "  2027-01-15T08:00:02.000Z  claim of earth-9",
        "    job 17: earth-9 instead of held for mars-1",
    ]
    assert "please report them" in done.err


def test_another_hold_tells_what_would_have_changed_and_that_it_is_one_step(
    shunter: Shunter, file: Path
) -> None:
    done = shunter("replay", file, "--hold", 0)
    assert (done.status, done.err) == (0, "")
    said = done.out.splitlines()
    assert said[1] == "with a hold of 0 s instead of 15 s: 2 of 2 decisions would change"
    assert said[2:4] == [
        "  2027-01-15T08:00:03.000Z  claim of earth-9",
        "    job 17: earth-9 instead of held for mars-1",
    ]
    assert said[-2].startswith("each is judged on the state that was recorded, one step")
    same = shunter("replay", file, "--hold", 30).out.splitlines()
    assert same[1:] == ["with a hold of 30 s instead of 15 s: 0 of 2 decisions would change"]


def test_many_differences_are_counted(shunter: Shunter, file: Path) -> None:
    there = runner("mars-1", speed_class=5, waiting=True)
    file.write_text(text_of(SLOW, there, job(17), *[GIVEN] * 30))
    done = shunter("replay", file)
    assert done.out.count("job 17: held for mars-1 instead of earth-9") == 20
    assert done.out.splitlines()[-1] == "  and 10 more (--json tells all)"
    last = shunter("replay", file, "--last", 3).out.splitlines()
    assert last[1] == "judged again: 3 of 3 decisions differ"


def test_json_tells_all_of_it(shunter: Shunter, file: Path) -> None:
    said = json.loads(shunter("replay", file, "--hold", 0, "--json").out)
    assert (said["decisions"], said["dropped"], said["judged"]) == (2, 7, 2)
    assert (said["hold_ms"], said["recorded_hold_ms"]) == (0, 15_000)
    row = said["differences"][0]
    assert (row["asked"], row["runner"], row["job"], row["at_ms"]) == (
        "claim",
        "earth-9",
        None,
        NOW_MS + 3000,
    )
    assert row["decided"] == {"holds": [{"job": 17, "awaited": "mars-1"}]}
    assert (row["now"]["take"]["id"], row["now"]["runner"]) == (17, "earth-9")
    assert row["text"] == ["job 17: earth-9 instead of held for mars-1"]


def test_a_broken_line_is_told_with_its_file_and_number(shunter: Shunter, file: Path) -> None:
    whole = file.read_text()
    file.write_text(whole.replace('"speed_class":5', '"speed_class":"fast"'))
    done = shunter("replay", file)
    words = f"shunter: {file}: line 3: offer.speed_class is not a whole number\n"
    assert (done.status, done.out, done.err) == (2, "", words)
    file.write_text(whole[: len(whole) // 2])
    assert shunter("replay", file).status == 2
    file.write_bytes(b"\xff\n")
    assert "is not UTF-8 text" in shunter("replay", file).err
    assert "No such file" in shunter("replay", file.with_name("none")).err


def test_names_of_a_file_cannot_forge_what_a_terminal_shows(shunter: Shunter, file: Path) -> None:
    forged = ClaimDecided(runner="earth-9", plan=Plan(take=job(17), runner="\x1b[2Jmars"))
    file.write_text(text_of(SLOW, job(17), forged))
    done = shunter("replay", file)
    assert "instead of" in done.out
    assert "\x1b" not in done.out


def test_a_hub_is_asked_where_no_file_is_named(shunter: Shunter, fake: FakeHub, file: Path) -> None:
    fake.on("GET", "/journal", Answer(body=file.read_bytes(), type="application/x-ndjson"))
    assert "2 of them: no difference" in shunter("replay").out
    kept = file.with_name("kept.jsonl")
    assert "2 of them: no difference" in shunter("replay", "--save", kept).out
    assert kept.read_bytes() == file.read_bytes()


def test_an_answer_that_is_cut_off_is_no_journal(shunter: Shunter, fake: FakeHub, file: Path) -> None:
    kept = file.with_name("kept.jsonl")
    fake.on("GET", "/journal", Answer(body=file.read_bytes()[:-30], cut=True))
    assert shunter("replay").status == 3
    assert shunter("replay", "--save", kept).status == 3
    fake.on("GET", "/journal", Answer(body=file.read_bytes()[:-30]))
    done = shunter("replay")
    assert done.status == 2
    assert "the hub's journal: line" in done.err
    assert sorted(path.name for path in file.parent.iterdir() if path.is_file()) == [file.name]


def test_a_hub_that_refuses_is_told(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/journal", problem(403, "it takes an admin token"))
    done = shunter("replay")
    assert (done.status, done.err) == (1, "shunter: it takes an admin token\n")


def test_a_trace_of_it_is_simulated(shunter: Shunter, file: Path) -> None:
    ended = Ended(job=17, runner="earth-9", project="andy/demo", name="test", how="succeeded", ran_ms=9000)
    file.write_text(text_of(SLOW, FAST, job(16), job(17), job(18, usual_ms=4000), GIVEN, ended))
    trace = file.with_name("trace.jsonl")
    done = shunter("replay", file, "--trace", trace)
    assert (done.status, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{trace}: 2 jobs on 2 runners",
        "1 take as long as they did, 1 as long as they usually do; 1 left out "
        "(how long they take is not known)",
    ]
    said = json.loads(shunter("simulate", trace, "--json").out)
    assert {row["jobs"] for row in said["policies"]} == {2}


def test_a_trace_that_cannot_be_made_or_written_is_an_error(shunter: Shunter, file: Path) -> None:
    done = shunter("replay", file, "--trace", file.parent / "none" / "x")
    assert (done.status, "No such file" in done.err) == (1, True)
    file.write_text(text_of())
    done = shunter("replay", file, "--trace", file.with_name("x"))
    assert (done.status, "nothing to simulate" in done.err) == (1, True)


@pytest.mark.parametrize(
    "words",
    [("--save", "x"), ("--trace", "x", "--hold", "3"), ("--trace", "x", "--last", "3"), ("--hold=-1",)],
)
def test_words_that_do_not_go_together_are_refused(
    words: tuple[str, ...], shunter: Shunter, file: Path
) -> None:
    assert shunter("replay", file, *words).status == 2


def test_the_command_line_loads_the_rules_only_for_this_command() -> None:
    code = "import sys, hub.cli.main; print([name for name in sys.modules if 'placement' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
