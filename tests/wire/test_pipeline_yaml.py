"""YAML as nodes: bounds that hold, lines that are right, words that keep their spelling."""

import time

import pytest
import yaml

from hub.wire import pipeline_yaml
from hub.wire.pipeline_yaml import MAX_BYTES, Faults, Node, read


def tree(text: str) -> Node:
    faults = Faults()
    node = read(text, faults)
    assert not faults
    assert node is not None
    return node


def fault(text: str) -> tuple[int | None, str]:
    faults = Faults()
    read(text, faults)
    (only,) = faults.listed()
    return only.line, only.text


@pytest.fixture(params=["in C", "in Python"])
def _either_reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in Python":
        monkeypatch.setattr(pipeline_yaml, "_LOADER", yaml.SafeLoader)


@pytest.mark.usefixtures("_either_reader")
@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("1", "number"),
        ("-1.5e3", "number"),
        ("'1'", "text"),
        ('"true"', "text"),
        ("true", "boolean"),
        ("yes", "text"),
        ("0x10", "text"),
        ("~", "empty"),
        ("''", "text"),
        ("!!str 1", "text"),
        ("! 1", "text"),
        (".inf", "text"),
    ],
)
def test_a_word_is_what_it_looks_like(written: str, kind: str) -> None:
    assert tree(f"a: {written}").entries["a"].kind == kind


@pytest.mark.usefixtures("_either_reader")
def test_every_node_and_every_key_knows_its_line() -> None:
    root = tree("a:\n  - x\n  - y:\n      1\nb: |\n  one\n  two\n")
    assert root.key_lines == {"a": 1, "b": 5}
    assert [item.line for item in root.entries["a"].items] == [2, 3]
    assert root.entries["a"].items[1].entries["y"].line == 4


@pytest.mark.usefixtures("_either_reader")
def test_an_alias_is_its_anchors_value_and_merging_keeps_what_stands_in_the_mapping() -> None:
    root = tree("a: &a {x: 1, y: 2}\nb: *a\nc: {<<: *a, y: 3}\nd: {<<: [{x: 8}, *a], z: 9}\n")
    assert root.entries["b"] is root.entries["a"]
    assert {key: node.text for key, node in root.entries["c"].entries.items()} == {"y": "3", "x": "1"}
    assert {key: node.text for key, node in root.entries["d"].entries.items()} == {
        "z": "9",
        "x": "8",
        "y": "2",
    }


@pytest.mark.usefixtures("_either_reader")
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "is written twice; the first stands on line 1"),
        ("a:\n  - [\n", None, "is not YAML"),
        ("a: b: c", 1, "is not YAML"),
        ("a: 1\n--- \nb: 2\n", 2, "second document"),
        ("", 1, "is empty"),
        ("# nothing\n", 1, "is empty"),
        ("a: 1\nb: \0", 2, "U+0000"),
        ("a: \ud800", 1, "U+D800"),
        ("a:\n  !!python/object:os.system x", 2, "tags mean nothing here"),
        ("a: !!set {x}", 1, "tags mean nothing here"),
        ("a: *b", 1, "no anchor `b`"),
        ("a: &a [*a]", 1, "no anchor `a`"),
        ("? [x]\n: y", 1, "a key that is not a word but a list"),
        ("<<: 3", 1, "merges mappings only"),
        ("[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]", 1, "levels deep"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text: str, line: int | None, words: str) -> None:
    at, why = fault(text)
    assert words in why
    assert line is None or at == line


def test_a_file_that_is_too_long_is_not_read() -> None:
    assert fault("#" * (MAX_BYTES + 1))[1] == f"the file has {MAX_BYTES + 1} bytes; {MAX_BYTES} are the most"


@pytest.mark.parametrize(
    "text",
    [
        "[" * 500_000,
        "{a: " * 200_000,
        "? " * 300_000,
        "- a\n" * 250_000,
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{c}: &{c} [{','.join([f'*{p}'] * 9)}]\n" for p, c in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "x: &x {" + ",".join(f"k{n}: 1" for n in range(2000)) + "}\n" + "y: {<<: *x}\n" * 3000,
    ],
    ids=["lists", "mappings", "keys", "items", "aliases", "merges"],
)
def test_a_hostile_file_is_refused_in_little_time(text: str) -> None:
    faults = Faults()
    before = time.process_time()
    read(text, faults)
    assert faults
    assert time.process_time() - before < 10  # about half a second; unbounded it would take hours
