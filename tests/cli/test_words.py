from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from hub.cli.session import Session
from hub.cli.words import Argument, Group, Option, run

said: list[Any] = []


def _default(session: Session) -> None:
    """What the group does alone."""
    said.append(("default", session))


def _paint(
    session: Session,
    count: Annotated[int, Argument(metavar="COUNT", low=1)],
    where: Annotated[Path | None, Argument(metavar="WHERE")] = None,
    tone: Annotated[Literal["dark", "light"], Option("--tone")] = "dark",
    layer: Annotated[list[str] | None, Option("--layer", "-l")] = None,
    dry: Annotated[bool, Option("--dry")] = False,
    keep: Annotated[bool, Option("--keep")] = True,
    deep: Annotated[int, Option("--deep", low=-2, high=2)] = 0,
) -> None:
    """Paint things."""
    said.append((session, count, where, tone, layer, dry, keep, deep))


def _told(*words: str) -> Any:
    said.clear()
    group = Group("top", "All.")
    inner = Group("house", "A house.", _default)
    inner.add("paint", _paint)
    group.add("house", inner)
    run(group, words, lambda: "top 1.2")
    return said.pop()


def test_what_a_function_takes_is_what_its_command_takes() -> None:
    words = ("house", "paint", "3", "x/y", "--tone", "light", "-l", "a", "--layer", "b", "--dry", "--no-keep")
    told = _told(*words, "--deep", "-2")
    assert told == (Session(), 3, Path("x/y"), "light", ["a", "b"], True, False, -2)


def test_what_is_not_given_is_the_default_of_the_function() -> None:
    assert _told("house", "paint", "3") == (Session(), 3, None, "dark", None, False, True, 0)


def test_a_group_with_a_default_does_it_alone() -> None:
    assert _told("house", "--json") == ("default", Session(as_json=True))


@pytest.mark.parametrize(
    "words",
    [
        ("--hub", "a", "--json", "house", "--token", "t-1", "paint", "3", "--hub", "b"),
        ("house", "paint", "--json", "--hub=b", "3", "--token", "t-1"),
    ],
)
def test_the_global_option_that_stands_last_wins(words: tuple[str, ...]) -> None:
    assert _told(*words)[0] == Session(hub="b", token="t-1", as_json=True)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("house", "paint"),
        ("house", "paint", "0"),
        ("house", "paint", "three"),
        ("house", "paint", "3", "--deep", "3"),
        ("house", "paint", "3", "--tone", "grey"),
        ("house", "paint", "3", "--dr"),
        ("house", "burn"),
    ],
)
def test_wrong_words_end_with_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        _told(*words)
    assert ended.value.code == 2
    assert "usage: top" in "".join(capsys.readouterr())
