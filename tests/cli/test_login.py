import json
import os
import stat
from pathlib import Path

import pytest

from hub.cli import login
from hub.cli.errors import Usage
from hub.wire.fleet import Me, QueueView, Scope
from tests.cli.conftest import Shunter
from tests.cli.fakehub import TOKEN, FakeHub

ME = Me(name="andy", kind="admin", scope=Scope(), version="0.1.0")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, shunter: Shunter) -> Shunter:
    """The command line without settings in the environment."""
    monkeypatch.delenv("SHUNTER_URL")
    monkeypatch.delenv("SHUNTER_TOKEN")
    return shunter


def test_login_stores_address_and_token_for_the_owner_alone(alone: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/me", ME)
    fake.on("GET", "/queue", QueueView(jobs=[]))
    done = alone("login", fake.url + "/", "--token", TOKEN)
    assert done.status == 0, done.err
    assert f"signed in to {fake.url} as andy (admin, all projects)" in done.out
    file = Path(os.environ["HOME"], ".config/shunter/login.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert alone("queue").out == "nothing waits\n"


def test_a_token_that_the_hub_does_not_know_is_not_stored(alone: Shunter, fake: FakeHub) -> None:
    done = alone("login", fake.url, "--token", "not-a-good-one")
    assert (done.status, done.err) == (1, "shunter: this token is not valid\n")
    assert not Path(os.environ["HOME"], ".config/shunter/login.json").exists()


def test_a_stored_token_goes_only_to_its_own_hub(alone: Shunter, fake: FakeHub) -> None:
    login.remember(login.path(os.environ), "http://elsewhere.example", TOKEN)
    assert alone("queue", "--hub", fake.url).status == 1
    assert "authorization" not in fake.calls[0].headers


def test_logout_forgets_the_token(alone: Shunter, fake: FakeHub) -> None:
    fake.on("GET", "/me", ME)
    alone("login", fake.url, "--token", TOKEN)
    assert alone("logout", fake.url).status == 0
    assert alone("logout", fake.url).status == 2
    assert TOKEN not in login.path(os.environ).read_text()


def test_flags_go_before_the_environment_and_that_before_what_is_stored(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path), "HOME": "/nowhere"}
    assert login.target(None, None, environ) == login.Target(url=login.DEFAULT_URL, token=None)
    login.remember(tmp_path / "shunter/login.json", "http://stored", "stored-token")
    assert login.target(None, None, environ) == login.Target(url="http://stored", token="stored-token")
    environ |= {"SHUNTER_URL": "http://env", "SHUNTER_TOKEN": "environ-token"}
    assert login.target(None, None, environ) == login.Target(url="http://env", token="environ-token")
    found = login.target("https://flag/", "flag-token", environ)
    assert found == login.Target(url="https://flag", token="flag-token")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("localhost:8417", "http://localhost:8417"),
        ("https://CI.example/shunter/", "https://ci.example/shunter"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_an_address_has_one_form(text: str, url: str) -> None:
    assert login.clean_url(text) == url


@pytest.mark.parametrize(
    "text", ["", "ftp://x", "http://", "http://x:port", "http://u:p@x", "http://x?y", "a b", "x\ny"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Usage):
        login.clean_url(text)


def test_a_wrong_token_is_refused_and_not_shown() -> None:
    with pytest.raises(Usage) as refused:
        login.clean_token("secret but\r\nInjected: yes")
    assert "secret" not in str(refused.value)
    assert login.clean_token("  good-token\n") == "good-token"


def test_a_file_that_others_may_read_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "login.json"
    login.remember(file, "http://x", "a-good-token")
    file.chmod(0o640)
    with pytest.raises(Usage, match="chmod 600"):
        login.load(file)


@pytest.mark.parametrize("content", ["", "[]", '{"hubs": 3}', '{"hubs": {"a"'])
def test_a_damaged_file_says_what_to_do(tmp_path: Path, content: str) -> None:
    file = tmp_path / "login.json"
    file.touch(0o600)
    file.write_text(content)
    with pytest.raises(Usage, match="run `shunter login` again"):
        login.load(file)


def test_two_hubs_keep_their_tokens_and_the_last_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "deep/er/login.json"
    login.remember(file, "http://one", "token-of-one")
    login.remember(file, "http://two", "token-of-two")
    assert json.loads(file.read_text())["default"] == "http://two"
    assert login.forget(file, "http://two")
    assert login.load(file) == login.Logins(default="http://one", tokens={"http://one": "token-of-one"})
    assert [each.name for each in file.parent.iterdir()] == ["login.json"]
