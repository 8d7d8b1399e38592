"""Many chunks in one body: they come back in any pieces, and a stream that is cut off never passes."""

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.chunks.chunk import encode, name_of
from hub.chunks.frames import END, HEAD_BYTES, LENGTH_BYTES, MAX_BODY_BYTES, BadFrames, Frames, frame
from tests.chunks.inputs import noise

bodies = st.lists(st.binary(min_size=1, max_size=300), max_size=12)


def stream(bodies: list[bytes]) -> bytes:
    return b"".join(frame(name_of(body), body) for body in bodies) + END


@given(bodies=bodies, cuts=st.lists(st.integers(0, 4000)))
def test_chunks_come_back_in_order_however_the_stream_is_cut_up(bodies: list[bytes], cuts: list[int]) -> None:
    whole = stream(bodies)
    marks = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    frames, found = Frames(), []
    for start, end in pairwise(marks):
        found += frames.feed(whole[start:end])
    frames.close()
    assert frames.ended
    assert found == [(name_of(body), body) for body in bodies]


@given(bodies=bodies.filter(bool), data=st.data())
def test_a_stream_that_is_cut_off_anywhere_is_told(bodies: list[bytes], data: st.DataObject) -> None:
    whole = stream(bodies)
    frames = Frames()
    found = frames.feed(whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert not frames.ended
    with pytest.raises(BadFrames, match=f"cut off after {len(found)} chunks"):
        frames.close()


def test_a_chunk_is_there_with_its_last_byte_and_not_before() -> None:
    frames = Frames()
    whole = frame(name_of(b"a"), b"body")
    for byte in whole[:-1]:
        assert frames.feed(bytes([byte])) == []
    assert frames.feed(whole[-1:]) == [(name_of(b"a"), b"body")]


def test_the_largest_chunk_of_any_cutter_is_within_the_bound() -> None:
    body = encode(noise(256 * 1024))
    assert len(body) <= MAX_BODY_BYTES < 257 * 1024
    assert Frames().feed(frame(name_of(b"x"), body) + END) == [(name_of(b"x"), body)]


@pytest.mark.parametrize("length", [MAX_BODY_BYTES + 1, 2**32 - 1])
def test_a_length_beyond_the_bound_is_refused_before_its_bytes_come(length: int) -> None:
    with pytest.raises(BadFrames, match=f"chunk 1 states {length} bytes"):
        Frames().feed(frame(name_of(b"a"), b"a") + length.to_bytes(LENGTH_BYTES, "big"))


def test_a_bound_may_be_tighter() -> None:
    body = bytes(100)
    assert Frames(max_body_bytes=100).feed(frame(name_of(body), body))
    with pytest.raises(BadFrames, match="states 100 bytes; 99 at most"):
        Frames(max_body_bytes=99).feed(frame(name_of(body), body))


def test_more_chunks_than_allowed_are_refused() -> None:
    assert len(Frames(max_frames=3).feed(stream([b"a", b"b", b"c"]))) == 3
    with pytest.raises(BadFrames, match="more than 3 chunks"):
        Frames(max_frames=3).feed(stream([b"a", b"b", b"c", b"d"]))


@pytest.mark.parametrize("later", [False, True])
def test_anything_behind_the_end_is_refused(later: bool) -> None:
    frames = Frames()
    if later:
        frames.feed(stream([b"a"]))
    with pytest.raises(BadFrames, match="bytes stand behind the end"):
        frames.feed(END if later else stream([b"a"]) + END)


def test_a_stream_with_a_fault_stays_faulty() -> None:
    frames = Frames()
    with pytest.raises(BadFrames):
        frames.feed(b"\xff" * HEAD_BYTES)
    with pytest.raises(BadFrames, match="states 4294967295 bytes"):
        frames.feed(stream([b"a"]))
    with pytest.raises(BadFrames, match="states 4294967295 bytes"):
        frames.close()


@pytest.mark.parametrize(
    ("name", "body"),
    [("a", b"a"), ("A" * 64, b"a"), ("a" * 64, b""), ("a" * 64, bytes(MAX_BODY_BYTES + 1))],
    ids=["short name", "capital name", "no body", "long body"],
)
def test_a_frame_that_no_reader_would_take_is_not_made(name: str, body: bytes) -> None:
    with pytest.raises(ValueError, match="a chunk's"):
        frame(name, body)


def test_a_reader_holds_one_frame_and_no_more() -> None:
    whole = frame(name_of(b"a"), noise(200_000))
    frames = Frames()
    frames.feed(whole)
    tracemalloc.start()
    try:
        for _ in range(500):  # 100 MB
            for start in range(0, len(whole), 50_000):
                frames.feed(whole[start : start + 50_000])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(whole)
