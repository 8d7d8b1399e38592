"""Images as they travel: the bounds are those of the chunks, and what a client says is checked."""

import json
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from hub.chunks import frames, manifest
from hub.chunks.chunk import name_of
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER
from hub.chunks.manifest import Manifest
from hub.wire import images
from hub.wire.images import Fetch, ImageView, ManifestBody, ManifestView, Missing, NamePut, NameView

A, B = name_of(b"a"), name_of(b"b")
MADE = Manifest(bytes=5, cutter=DEFAULT_CUTTER, chunks=((A, 2), (B, 3)), arch="x86_64")


def test_the_bounds_are_those_that_chunks_have() -> None:
    assert images.MAX_IMAGE_BYTES == manifest.MAX_IMAGE_BYTES
    assert images.MAX_IMAGE_CHUNKS == manifest.MAX_CHUNKS
    assert images.MAX_CALL_CHUNKS == frames.MAX_FRAMES
    assert all(cutter.max_bytes <= images.MAX_CHUNK_BYTES for cutter in CUTTERS.values())


def test_a_manifest_as_it_is_kept_is_the_message_that_is_sent() -> None:
    body = ManifestBody.model_validate_json(MADE.to_json())
    assert Manifest.from_form(body.model_dump()) == MADE
    assert Manifest.from_json(body.model_dump_json()) == MADE


def test_a_manifest_as_it_is_answered_is_read_back() -> None:
    view = ManifestView(hash=A, **json.loads(MADE.to_json()))
    assert Manifest.from_json(view.model_dump_json()) == MADE


@pytest.mark.parametrize("message", [Missing, Fetch])
def test_a_call_asks_for_a_bounded_number_of_chunks(message: type[BaseModel]) -> None:
    assert message.model_validate({"chunks": [A] * 4096})
    for chunks in ([], [A] * 4097, ["../x"], [A.upper()], [A + "\n"]):
        with pytest.raises(ValidationError):
            message.model_validate({"chunks": chunks})


@pytest.mark.parametrize(
    "change",
    [
        {"bytes": 0},
        {"bytes": images.MAX_IMAGE_BYTES + 1},
        {"arch": "../x"},
        {"cutter": ""},
        {"chunks": []},
        {"chunks": [[A, 0]]},
        {"chunks": [[A]]},
        {"chunks": [["x", 5]]},
        {"owner": "a/b"},
        {"hash": A},
    ],
    ids=str,
)
def test_a_manifest_with_a_fault_is_refused_with_its_place(change: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ManifestBody.model_validate({**json.loads(MADE.to_json()), **change})
    assert caught.value.errors()[0]["loc"][0] == next(iter(change))


def test_a_name_points_to_a_hash() -> None:
    assert NamePut(hash=A).owner is None
    with pytest.raises(ValidationError):
        NamePut(hash="debian-12")


def test_views_show_times_as_every_other_view_does() -> None:
    view = ImageView(hash=A, bytes=5, cutter=DEFAULT_CUTTER, chunks=2, created_at=1_700_000_000_000)
    assert '"created_at":"2023-11-14T22:13:20.000Z","used_at":null' in view.model_dump_json()
    name = NameView(name="debian-12", hash=A, updated_at=0, history=[{"hash": A, "at": 0}])
    assert name.history[0].by is None
