"""The published schema: it is one, and it agrees with what the hub takes."""

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hub.wire.pipeline import PipelineError, json_schema, parse
from tests.wire.test_pipeline import CONTRACT

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
BASE: dict[str, Any] = yaml.safe_load(CONTRACT)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a document."""
    found = [path] if path else []
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        found += places(below, (*path, key))
    return found


def changed(path: tuple[Any, ...], value: Any) -> Any:
    """The base document with the value at `path` replaced."""
    document = copy.deepcopy(BASE)
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return document


def structural(document: Any) -> list[str]:
    """Paths of the faults that `parse` finds in a document's shape."""
    try:
        parse(yaml.safe_dump(document, sort_keys=False, width=10_000))
    except PipelineError as error:
        return [fault.path for fault in error.faults if not _BEYOND.search(fault.text)]
    return []


# What no schema can say: names that must exist, circles, and what must agree across the file.
_BEYOND = re.compile(
    "stands under|circle|gives? the name|one tier|one machine|one network|runs an image|takes no|matrix here"
    "|here is|cut the network|must be from"
)
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 2000),
    st.sampled_from(
        ["x", "", "2GiB", "30m", "process", "microvm", "a b", "/abs", "../x", "0s", "-O2", "9" * 300]
    ),
    st.just([]),
    st.just({}),
    st.just(["x"]),
    st.just([1, None]),
    st.just({"x": "y"}),
    st.just({"run": "x"}),
    st.just({"group": "g"}),
)


def test_the_published_schema_is_a_schema_and_takes_the_contracts_file() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    json.dumps(json_schema())
    VALIDATOR.validate(BASE)


def test_each_call_gives_a_new_copy() -> None:
    json_schema()["$defs"].clear()
    assert json_schema()["$defs"]


@given(st.sampled_from(places(BASE)), _VALUES)
def test_parse_and_the_published_schema_agree(path: tuple[Any, ...], value: Any) -> None:
    document = changed(path, value)
    assert VALIDATOR.is_valid(document) == (structural(document) == [])


@pytest.mark.parametrize(
    "path", [p for p in places(BASE) if isinstance(p[-1], str)], ids=lambda p: ".".join(map(str, p))
)
def test_a_key_with_a_letter_too_many_is_refused_by_both_or_by_neither(path: tuple[Any, ...]) -> None:
    document = copy.deepcopy(BASE)
    at: Any = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1] + "q"] = at.pop(path[-1])
    assert VALIDATOR.is_valid(document) == (structural(document) == [])
