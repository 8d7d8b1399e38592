import pytest

from hub.cli.ignore import read, verdict


@pytest.mark.parametrize(
    ("rule", "path", "ignored"),
    [
        ("*.log", "a/b.log", True),
        ("*.log", "a/b.log.txt", None),
        ("/a", "b/a", None),
        ("a/b", "c/a/b", None),
        ("a/b", "a/b", True),
        ("**/b", "a/c/b", True),
        ("a/**", "a/b/c", True),
        ("a/**", "a", None),
        ("a/**/c", "a/c", True),
        ("a*c", "a/c", None),
        ("a[/]c", "a/c", None),
        ("a[!x]c", "a/c", None),
        ("[[:digit:]]x", "7x", True),
        ("[]-]", "]", True),
        ("[z-a]", "z", None),
        ("open[", "open[", None),
        (r"\#x", "#x", True),
        ("#x", "#x", None),
        (r"\!x", "!x", True),
        ("!x", "x", False),
        ("x  ", "x", True),
        (r"x\ ", "x ", True),
        ("x\r", "x", True),
        ("a.b", "axb", None),
        ("", "x", None),
        ("/", "x", None),
    ],
)
def test_a_rule_speaks_of_what_git_says_it_does(rule: str, path: str, ignored: bool | None) -> None:
    assert verdict(read([rule]), path, is_folder=False) is ignored


def test_a_rule_for_folders_leaves_a_file_alone() -> None:
    rules = read(["build/"])
    assert verdict(rules, "x/build", is_folder=True) is True
    assert verdict(rules, "x/build", is_folder=False) is None


def test_the_last_rule_that_speaks_decides() -> None:
    rules = read(["*", "!*.c", "x.c"])
    assert [verdict(rules, name, is_folder=False) for name in ("a.h", "a.c", "x.c")] == [True, False, True]


def test_taking_back_a_folder_says_nothing_of_what_is_in_it() -> None:
    assert verdict(read(["*.log", "!a/"]), "a/a.log", is_folder=True) is True
