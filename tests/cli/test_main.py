import subprocess
import sys

import pytest

from hub.wire.fleet import QueueView
from hub.wire.problem import Fault
from tests.cli.conftest import Shunter, shunter_process
from tests.cli.fakehub import TOKEN, Answer, FakeHub, a_job, a_run, problem

LOADS_NOTHING_HEAVY = """
import sys
sys.argv = ["shunter", *{words!r}]
from hub.cli.main import main
try:
    main()
except SystemExit:
    pass
heavy = {{"sqlmodel", "sqlalchemy", "starlette", "jinja2", "rich", "hub.wire", "pathspec", "zstandard"}}
print(sorted(heavy & set(sys.modules)), file=sys.stderr)
"""


@pytest.mark.parametrize("words", [["--help"], ["run", "view", "42"], ["run", "watch", "42"], ["queue"]])
def test_a_command_loads_only_what_it_needs(words: list[str], fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run(a_job(status="succeeded"), status="succeeded"))
    fake.on("GET", "/queue", QueueView(jobs=[]))
    environ = {"SHUNTER_URL": fake.url, "SHUNTER_TOKEN": TOKEN, "PATH": "/usr/bin:/bin"}
    code = LOADS_NOTHING_HEAVY.format(words=words)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environ, timeout=60, check=True
    )
    assert done.stderr == "[]\n"
    assert done.stdout


def test_the_version_is_that_of_the_package() -> None:
    done = shunter_process("--version")
    assert (done.returncode, done.stdout) == (0, "shunter 0.1.0\n")


@pytest.mark.parametrize(
    "words",
    [
        ("--hub", "URL", "--token", TOKEN, "--json", "queue"),
        ("queue", "--hub", "URL", "--token", TOKEN, "--json"),
        ("--json", "queue", "--token", TOKEN, "--hub", "URL"),
        ("--token", "wrong-token", "queue", "--token", TOKEN, "--json", "--hub", "URL"),
    ],
)
def test_global_options_stand_before_or_after_the_subcommand(
    words: tuple[str, ...], shunter: Shunter, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("SHUNTER_TOKEN", "not-this-one")
    fake.on("GET", "/queue", QueueView(jobs=[]))
    done = shunter(*(fake.url if word == "URL" else word for word in words))
    assert (done.status, done.out) == (0, '{\n  "jobs": [],\n  "more": 0,\n  "groups": []\n}\n')


def test_global_options_may_stand_between_a_group_and_its_command(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runs/42", a_run())
    done = shunter("run", "--json", "view", 42)
    assert done.status == 0
    assert done.out.startswith("{")


def test_wrong_words_exit_with_2(shunter: Shunter) -> None:
    assert shunter("no-such-command").status == 2
    assert shunter("run", "view", "forty-two").status == 2
    assert shunter("queue", "--hub", "ftp://example.org").status == 2


def test_a_hub_that_is_not_there_exits_with_3_and_says_where_it_was_looked_for(shunter: Shunter) -> None:
    done = shunter("queue", "--hub", "http://127.0.0.1:9")
    assert done.status == 3
    assert done.err == "shunter: http://127.0.0.1:9 cannot be reached: connection refused\n"


def test_an_error_answer_exits_with_1_and_prints_its_detail_on_one_line(
    shunter: Shunter, fake: FakeHub
) -> None:
    fake.on("GET", "/queue", problem(403, "this token may not read all projects: ask for one that may"))
    done = shunter("queue")
    assert (done.status, done.out) == (1, "")
    assert done.err == "shunter: this token may not read all projects: ask for one that may\n"


def test_a_detail_cannot_command_the_terminal(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/queue", problem(409, "no\x1b]0;title\x07\x9b2J", Fault(path="a\nb", text="c\u202e")))
    done = shunter("queue")
    assert done.err == "shunter: no\ufffd]0;title\ufffd\ufffd2J\na\ufffdb: c\ufffd\n"


def test_a_gateway_without_a_hub_behind_it_is_a_hub_that_cannot_be_reached(
    shunter: Shunter, fake: FakeHub
) -> None:
    fake.on("GET", "/queue", Answer(status=502, type="text/html", body=b"<html>"))
    done = shunter("queue")
    assert done.status == 3
    assert len(fake.made("GET", "/queue")) == 3


def test_something_that_is_no_hub_is_told_as_such(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/queue", Answer(type="text/html", body=b"<html>welcome"))
    done = shunter("queue")
    assert done.status == 3
    assert "is the address right?" in done.err


def test_without_a_token_the_answer_is_how_to_sign_in(
    shunter: Shunter, fake: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SHUNTER_TOKEN")
    done = shunter("queue")
    assert done.status == 1
    assert "shunter login" in done.err


def test_json_is_what_the_api_gave_even_what_this_version_does_not_know(
    shunter: Shunter, fake: FakeHub
) -> None:
    fake.on("GET", "/queue", Answer(body='{"jobs":[],"more":0,"später":[1.50,"é"]}'.encode()))
    assert '"später": [\n    1.5,\n    "é"\n  ]' in shunter("queue", "--json").out


def test_a_redirect_is_told_and_not_followed(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/queue", Answer(status=301, headers=(("Location", "https://hub.example/api/v1/queue"),)))
    done = shunter("queue")
    assert done.status == 2
    assert "https://hub.example/api/v1/queue" in done.err
