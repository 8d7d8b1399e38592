"""A manifest that exists is sound in itself; whatever else arrives is refused in words."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.chunks.chunk import name_of
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER, cutter
from hub.chunks.manifest import (
    MAX_CHUNKS,
    MAX_IMAGE_BYTES,
    MAX_MANIFEST_BYTES,
    BadManifest,
    Manifest,
)

A, B, C = (name_of(text) for text in (b"a", b"b", b"c"))
LARGEST = cutter(DEFAULT_CUTTER).max_bytes


def manifest(*chunks: tuple[str, int], **changes: Any) -> Manifest:
    fields = {"bytes": sum(size for _, size in chunks), "cutter": DEFAULT_CUTTER, "chunks": chunks, **changes}
    return Manifest(**fields)


def form(**changes: Any) -> dict[str, Any]:
    return {"bytes": 5, "arch": "x86_64", "cutter": DEFAULT_CUTTER, "chunks": [[A, 2], [B, 3]], **changes}


names = st.binary(min_size=1, max_size=2).map(name_of)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    sizes = draw(st.dictionaries(names, st.integers(1, LARGEST), min_size=1, max_size=12))
    chunks = draw(st.lists(st.sampled_from(sorted(sizes.items())), min_size=1, max_size=30))
    return manifest(
        *chunks, cutter=draw(st.sampled_from(sorted(CUTTERS))), arch=draw(st.none() | st.just("aarch64"))
    )


@given(made=manifests())
def test_a_manifest_comes_back_from_what_is_written(made: Manifest) -> None:
    assert Manifest.from_json(made.to_json()) == made
    assert Manifest.from_json(made.to_json().encode()) == made
    assert Manifest.from_form(json.loads(made.to_json())) == made


def test_the_form_is_the_contracts() -> None:
    assert json.loads(manifest((A, 2), (B, 3), arch="x86_64").to_json()) == form()


def test_what_a_newer_hub_adds_is_passed_over_and_arch_may_be_left_out() -> None:
    told = form(more={"x": 1})
    del told["arch"]
    assert Manifest.from_form(told) == manifest((A, 2), (B, 3))


@given(made=manifests())
def test_names_are_distinct_and_places_are_where_they_first_stand(made: Manifest) -> None:
    assert made.names == dict(made.chunks)
    assert list(made.names) == list(made.places)
    for name, (offset, size) in made.places.items():
        index = [chunk for chunk, _ in made.chunks].index(name)
        assert offset == sum(size for _, size in made.chunks[:index])
        assert size == made.names[name]


@pytest.mark.parametrize(
    ("chunks", "changes", "words"),
    [
        ([(A, 2)], {"bytes": 3}, "the chunks have 2 bytes together; the image has 3"),
        ([(A, 2)], {"bytes": 0}, "an image has 1 to 68719476736 bytes, not 0"),
        ([(A, 2)], {"bytes": -2}, "not -2"),
        ([(A, 2)], {"bytes": MAX_IMAGE_BYTES + 1}, "not 68719476737"),
        ([], {"bytes": 2}, "an image has 1 to 1048576 chunks, not 0"),
        ([(A, 1)] * (MAX_CHUNKS + 1), {}, "not 1048577"),
        ([(A, 2), (B, 0)], {}, r"chunks\[1\]: fastcdc2020-64k makes 1 to 262144 bytes, not 0"),
        ([(A, 2), (B, -1)], {}, r"chunks\[1\]: .* not -1"),
        ([(A, LARGEST + 1)], {}, r"chunks\[0\]: .* not 262145"),
        ([(A, 2), (B, 3), (A, 3)], {}, rf"chunks\[2\]: {A} has 3 bytes here and 2 before"),
        ([(A[:-1], 2)], {}, r"chunks\[0\]: a name is 64 hexadecimal digits"),
        ([(A.upper(), 2)], {}, "a name is 64 hexadecimal digits"),
        ([("../" + A[3:], 2)], {}, "a name is 64 hexadecimal digits"),
        ([(A, 2)], {"cutter": "rabin-1m"}, "no cutter 'rabin-1m': this version knows fastcdc2020-64k"),
        ([(A, 2)], {"arch": "X86"}, "arch is written in small letters"),
        ([(A, 2)], {"arch": ""}, "arch is written in small letters"),
        ([(A, 2)], {"arch": "x" * 33}, "arch is written in small letters"),
    ],
    ids=range(17),
)
def test_a_manifest_that_cannot_be_is_refused(
    chunks: list[tuple[str, int]], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadManifest, match=words):
        manifest(*chunks, **changes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        (b"\xff\xfe{}", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"bytes": ' + "9" * 5000 + "}", "not JSON"),
        ("[]", "a manifest is a JSON object"),
        ("null", "a manifest is a JSON object"),
        ("{}", "has the field bytes"),
        (json.dumps(form(bytes="5")), "bytes is a whole number"),
        (json.dumps(form(bytes=5.0)), "bytes is a whole number"),
        (json.dumps(form(bytes=True)), "bytes is a whole number"),
        (json.dumps(form(bytes=float("nan"))), "bytes is a whole number"),
        (json.dumps(form(cutter=None)), "cutter and arch are text"),
        (json.dumps(form(cutter=["x"])), "cutter and arch are text"),
        (json.dumps(form(arch=5)), "cutter and arch are text"),
        (json.dumps(form(chunks={A: 5})), "chunks is a list"),
        (json.dumps(form(chunks=A)), "chunks is a list"),
        (json.dumps(form(chunks=[[A, 5, 0]])), r"chunks\[0\]: a chunk is \[name, bytes\]"),
        (json.dumps(form(chunks=[[A, 2], A])), r"chunks\[1\]: a chunk is \[name, bytes\]"),
        (json.dumps(form(chunks=[[A, "5"]])), r"chunks\[0\]: a chunk is \[name, bytes\]"),
        (json.dumps(form(chunks=[[A, True]])), r"chunks\[0\]: a chunk is \[name, bytes\]"),
        (json.dumps(form(chunks=[[[A], 5]])), r"chunks\[0\]: a name is 64 hexadecimal digits"),
        (json.dumps(form(chunks=[[{}, 5]])), r"chunks\[0\]: a name is 64 hexadecimal digits"),
        (json.dumps(form(chunks=[0] * (MAX_CHUNKS + 1))), "1 to 1048576 chunks, not 1048577"),
        (" " * (MAX_MANIFEST_BYTES + 1), "a manifest has 83890176 bytes at most"),
    ],
    ids=range(25),
)
def test_text_that_is_no_manifest_is_refused(text: str | bytes, words: str) -> None:
    with pytest.raises(BadManifest, match=words) as caught:
        Manifest.from_json(text)
    assert len(str(caught.value)) < 400


def test_the_longest_manifest_that_may_be_is_within_the_bound_of_its_text() -> None:
    longest = max(len(json.dumps([A, LARGEST], separators=(",", ":"))) + 1, 0)
    assert longest * MAX_CHUNKS + len(json.dumps(form(chunks=[]))) < MAX_MANIFEST_BYTES


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(
    told=st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("bytes", "arch", "cutter", "chunks"), json_values)
    ).map(lambda told: form(**told))
)
def test_any_json_is_a_manifest_or_a_bad_manifest(told: dict[str, Any]) -> None:
    with suppress(BadManifest):
        assert sum(size for _, size in Manifest.from_json(json.dumps(told)).chunks) == told["bytes"]
