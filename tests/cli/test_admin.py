import os
import sys
from pathlib import Path

import pytest

import hub.app
from hub.config import Config
from tests.cli.conftest import Shunter


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    configs: list[Config] = []
    monkeypatch.setattr(hub.app, "serve", configs.append)
    return configs


def test_hub_serves_as_its_options_say(shunter: Shunter, served: list[Config], tmp_path: Path) -> None:
    done = shunter(
        *("hub", "--data", tmp_path, "--listen", "[::1]:9000"),
        *("--database", "postgresql+asyncpg://x/y", "--blobs", "s3://bucket"),
    )
    assert done.status == 0, done.err
    (config,) = served
    assert (config.data, config.host, config.port) == (tmp_path, "::1", 9000)
    assert (config.database, config.blobs) == ("postgresql+asyncpg://x/y", "s3://bucket")


def test_an_option_goes_before_the_environment(
    shunter: Shunter, served: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHUNTER_DATA", "/from/environment")
    monkeypatch.setenv("SHUNTER_HOLD_S", "3")
    shunter("hub", "--data", "/from/option")
    shunter("hub")
    assert [config.data for config in served] == [Path("/from/option"), Path("/from/environment")]
    assert served[0].hold_s == 3


def test_a_wrong_setting_exits_with_2_and_is_named(
    shunter: Shunter, served: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shunter("hub", "--listen", "nowhere").status == 2
    monkeypatch.setenv("SHUNTER_LEASE_S", "long")
    done = shunter("hub")
    assert done.status == 2
    assert "SHUNTER_LEASE_S" in done.err
    assert served == []


def test_every_setting_of_the_contract_is_in_the_help(shunter: Shunter) -> None:
    text = shunter("hub", "--help").out
    for name in ("HOLD_S", "POLLING_S", "SILENT_S", "LEASE_S", "RESERVE_MIB", "DATABASE", "BLOBS", "DATA"):
        default = getattr(Config(), name.lower())
        line = next(line for line in text.splitlines() if f"SHUNTER_{name} " in line)
        if isinstance(default, int | float):
            assert line.endswith(f"({default:g})")


def test_runner_becomes_the_runner_with_every_word_passed_on(
    shunter: Shunter, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[list[str]] = []

    def execv(program: str, words: list[str]) -> None:
        became.append([program, *words[1:]])
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    shunter("runner", "--hub", "http://x", "--token", "t", "--json", "--help")
    assert became[0][1:] == ["-m", "runner", "--hub", "http://x", "--token", "t", "--json", "--help"]


def test_the_base_installation_says_what_a_hub_needs(
    shunter: Shunter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hub.app")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = shunter("hub")
    assert done.status == 1
    assert "pip install 'shunter[hub]'" in done.err
