"""casync's index and ids, held against a reader written from the format alone."""

import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.chunks import caibx
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER

CUTTER = CUTTERS[DEFAULT_CUTTER]
IDS = st.binary(min_size=32, max_size=32).map(bytes.hex)
CHUNKS = st.lists(st.tuples(IDS, st.integers(1, CUTTER.max_bytes)), max_size=30)


def read(body: bytes) -> list[tuple[str, int]]:
    """The (id, bytes) of an index, as casync's caindex.c reads it; every number that it checks is checked."""
    words = struct.unpack_from("<8Q", body)
    assert words[:2] == (48, 0x96824D9C7B129FF9)
    assert words[2] == 0x2000000000000000
    assert 48 <= words[3] <= words[4] <= words[5] <= 128 * 2**20
    assert words[6:] == (2**64 - 1, 0xE75B9E112F17417D)
    tail = struct.unpack("<5Q", body[-40:])
    assert tail == (0, 0, 48, len(body) - 48, 0x4B4F050E5549ECD1)
    found, before = [], 0
    for end, id_ in struct.iter_unpack("<Q32s", body[64:-40]):
        assert before < end <= before + words[5]
        found.append((id_.hex(), end - before))
        before = end
    return found


@given(CHUNKS)
def test_an_index_tells_every_chunk_in_order_with_its_size(chunks: list[tuple[str, int]]) -> None:
    assert read(caibx.index(chunks, CUTTER)) == chunks


@pytest.mark.parametrize("size", [0, -1, CUTTER.max_bytes + 1])
def test_a_size_that_casync_would_refuse_is_not_written(size: int) -> None:
    with pytest.raises(ValueError, match="makes 1 to"):
        caibx.index([("0" * 64, size)], CUTTER)


def test_an_id_is_sha_512_with_its_own_beginning_and_not_a_cut_off_sha_512() -> None:
    # FIPS 180-4's example for "abc"
    known = "53048e2681941ef99b2e29b76b4c7dabe4c2d0c634fc6d46e0e2f13107e7af23"
    assert caibx.id_of(b"abc") == known
    assert caibx.id_of(memoryview(b"abc")) == known
    assert hashlib.sha512(b"abc").hexdigest()[:64] != known
