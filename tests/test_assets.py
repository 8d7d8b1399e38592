"""Where the files that are not code are found."""

from pathlib import Path

import pytest

from hub import assets


def test_the_checkout_holds_pages_and_migrations() -> None:
    assert (assets.migrations() / "env.py").is_file()
    assert assets.templates().is_dir()


def test_a_wheel_is_looked_into_before_what_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "hub"
    (tmp_path / "migrations").mkdir()
    (package / "migrations").mkdir(parents=True)
    monkeypatch.setattr(assets, "_PACKAGE", package)
    assert assets.migrations() == package / "migrations"
    with pytest.raises(FileNotFoundError, match="install it again"):
        assets.templates()
