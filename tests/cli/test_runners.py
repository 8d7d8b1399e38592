import json

import pytest

from hub.cli.errors import Usage
from hub.cli.tokens import seconds
from hub.wire.fleet import (
    ChangeRunner,
    FleetView,
    HeldJob,
    NewRunner,
    NewRunnerToken,
    NewToken,
    QueueGroup,
    QueueView,
    RunnerList,
    RunnerView,
    Scope,
    Shape,
    TokenList,
    TokenMade,
    TokenView,
)
from tests.cli.conftest import Shunter
from tests.cli.fakehub import Answer, FakeHub, a_job, at, lacking_gpu, problem

EARTH = RunnerView(
    name="earth-9",
    state="active",
    waiting=True,
    heard_s_ago=0.2,
    labels=["ssd", "gpu"],
    max_jobs=2,
    jobs=[HeldJob(job=1, state="running")],
    cpus=8,
    free_cpus=6,
    free_memory_mib=20480,
    free_disk_mib=900,
    speed=100,
    speed_class=3,
)
MARS = RunnerView(
    name="mars-1",
    state="quarantined",
    state_reason="its last 3 jobs were lost: look at its log, then resume it",
    waiting=False,
    silent=True,
    heard_s_ago=42.0,
)


@pytest.mark.parametrize("words", [("runners",), ("runners", "list")])
def test_runners_show_state_room_and_reasons(words: tuple[str, ...], shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runners", RunnerList(runners=[EARTH, MARS]))
    lines = shunter(*words).out.splitlines()
    assert lines[0].split("  ")[0] == "runner"
    assert lines[1].split() == [
        *("earth-9", "active", "waiting", "for", "work", "1/2", "20.0", "GiB", "6", "of", "8"),
        *("900", "MiB", "100", "(class", "3)", "ssd", "gpu"),
    ]
    assert lines[2].split() == ["mars-1", "quarantined,", "silent", "42", "s", "ago", "0", "-", "-", "-", "-"]
    assert lines[3] == "  reason: its last 3 jobs were lost: look at its log, then resume it"


def test_no_runner_says_how_to_add_one(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/runners", RunnerList(runners=[]))
    assert shunter("runners").out == "no runners: shunter runners add NAME\n"


def test_add_prints_the_token_and_the_line_that_starts_it(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("POST", "/runners", NewRunnerToken(name="earth-9", token="its-own-token"))
    done = shunter("runners", "add", "earth-9", "-l", "ssd", "--label", "gpu", "--project", "andy/demo")
    assert f"shunter runner --hub {fake.url} --token its-own-token\n" in done.out
    sent = NewRunner.model_validate_json(fake.calls[0].body)
    assert (sent.name, sent.labels, sent.scope) == ("earth-9", ["ssd", "gpu"], Scope(project="andy/demo"))


def test_a_name_that_is_taken_exits_with_1(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("POST", "/runners", problem(409, "there is a runner earth-9 already"))
    assert shunter("runners", "add", "earth-9").status == 1


@pytest.mark.parametrize(("word", "state"), [("drain", "draining"), ("resume", "active")])
def test_drain_and_resume_change_the_state(word: str, state: str, shunter: Shunter, fake: FakeHub) -> None:
    fake.on("PATCH", "/runners/earth-9", EARTH)
    assert shunter("runners", word, "earth-9").status == 0
    sent = ChangeRunner.model_validate_json(fake.calls[0].body)
    assert (sent.state, sent.labels, sent.scope) == (state, None, None)


def test_a_name_stays_one_piece_of_the_path(shunter: Shunter, fake: FakeHub) -> None:
    shunter("runners", "rm", "../tokens/1?x")
    assert fake.calls[0].path == "/runners/..%2Ftokens%2F1%3Fx"


def test_rm_removes(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("DELETE", "/runners/earth-9", Answer(status=204))
    assert shunter("runners", "rm", "earth-9").out == "runner earth-9 is removed\n"


def test_a_token_is_made_with_kind_scope_and_end(shunter: Shunter, fake: FakeHub) -> None:
    made = TokenMade(
        id=3, name="bot", kind="read", scope=Scope(owner="andy"), created_at=at(0), token="shown-only-once"
    )
    fake.on("POST", "/tokens", made)
    done = shunter("token", "add", "bot", "--kind", "read", "--owner", "andy", "--expires", "30d")
    assert "  shown-only-once\n" in done.out
    sent = NewToken.model_validate_json(fake.calls[0].body)
    assert (sent.name, sent.kind, sent.scope, sent.expires_in_s) == (
        "bot",
        "read",
        Scope(owner="andy"),
        30 * 86400,
    )
    assert json.loads(shunter("--json", "token", "add", "bot").out)["token"] == "shown-only-once"
    assert NewToken.model_validate_json(fake.calls[1].body).kind == "submit"


def test_tokens_are_listed_without_secrets(shunter: Shunter, fake: FakeHub) -> None:
    token = TokenView(id=3, name="bot", kind="read", scope=Scope(), created_at=at(0), expires_at=at(60))
    fake.on("GET", "/tokens", TokenList(tokens=[token]))
    head, row = shunter("token", "list").out.splitlines()
    assert head.split() == ["id", "kind", "for", "used", "expires", "name"]
    assert row.split()[:5] == ["3", "read", "all", "projects", "never"]
    assert row.endswith("ago  bot")


def test_a_token_is_void_after_rm(shunter: Shunter, fake: FakeHub) -> None:
    fake.on("DELETE", "/tokens/3", Answer(status=204))
    assert shunter("token", "rm", 3).out == "token 3 is void\n"


def test_owner_and_project_exclude_each_other(shunter: Shunter, fake: FakeHub) -> None:
    assert shunter("token", "add", "x", "--owner", "a", "--project", "a/b").status == 2
    assert fake.calls == []


def test_times_are_read_with_their_unit() -> None:
    assert [seconds(text) for text in ("90m", "12h", "30d", "8w")] == [5400, 43200, 2592000, 4838400]
    for text in ("", "30", "0d", "1y", "-1d", "1.5h", "٣d"):
        with pytest.raises(Usage):
            seconds(text)


def test_the_queue_tells_why_each_job_waits(shunter: Shunter, fake: FakeHub) -> None:
    why = "no runner can take it: 2 runners, all lack label gpu"
    fake.on(
        "GET",
        "/queue",
        QueueView(
            jobs=[a_job("train", waiting=lacking_gpu("a", "b"))],
            more=7,
            groups=[QueueGroup(kind="nowhere", headline=why, jobs=8, oldest_s=75, first=[1])],
        ),
    )
    assert shunter("queue").out == (
        "8 jobs  oldest waits 1 min 15 s\n"
        "  waiting: no runner can take it: 2 runners, all lack label gpu\n"
        "\n"
        "run 42  train  andy/demo\n"
        "  waiting: no runner can take it: 2 runners, all lack label gpu\n"
        "and 7 more\n"
    )


def test_the_fleet_tells_what_the_queue_lacks(shunter: Shunter, fake: FakeHub) -> None:
    shape = Shape(
        jobs=3,
        project="andy/demo",
        tier="microvm",
        labels=["gpu"],
        memory_mib=8192,
        cpus=4,
        wants="3 jobs want {microvm, 8 GiB, 4 CPUs, label gpu}",
        kind="nowhere",
        headline="no runner can take it: 1 runner, all lack label gpu",
        oldest_s=75,
    )
    fake.on("GET", "/fleet", FleetView(runners=[EARTH], lacking=[shape]))
    out = shunter("fleet").out
    assert "andy/demo  3 jobs want {microvm, 8 GiB, 4 CPUs, label gpu}  oldest waits 1 min 15 s\n" in out
    assert "  waiting: no runner can take it: 1 runner, all lack label gpu\n" in out
    fake.on("GET", "/fleet", FleetView(runners=[EARTH], lacking=[]))
    assert "the queue lacks no capacity\n" in shunter("fleet").out
