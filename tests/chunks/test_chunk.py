"""One chunk: what is encoded comes back, and whatever is not that chunk is refused without a cost."""

from contextlib import suppress

import pytest
import zstandard
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from hub.chunks.chunk import BadChunk, decode, encode, is_name, max_encoded_bytes, name_of
from tests.chunks.inputs import listing, noise, peak_growth_kib

MAX = 256 * 1024
TEXT = listing(1000)
MAGIC = bytes.fromhex("28b52ffd")
SKIPPABLE = bytes.fromhex("502a4d18") + (4).to_bytes(4, "little") + b"junk"


def raw_frame(stated: int, blocks: list[bytes], *, window: bytes = b"") -> bytes:
    """A frame by hand (RFC 8878): its header with 8 bytes of content size, and blocks with their heads."""
    descriptor = 0xC0 if window else 0xE0
    return MAGIC + bytes([descriptor]) + window + stated.to_bytes(8, "little") + b"".join(blocks)


def repeated(byte: int, size: int, *, last: bool) -> bytes:
    """A block of one byte `size` times, in 4 bytes."""
    return (last | 1 << 1 | size << 3).to_bytes(3, "little") + bytes([byte])


raws = st.binary(min_size=1, max_size=3000) | st.builds(
    lambda size, seed, cut: (noise(size, seed) + TEXT)[cut : cut + MAX],
    st.integers(1, MAX),
    st.text(max_size=3),
    st.integers(0, 5000),
)


@given(raw=raws)
def test_what_is_encoded_comes_back_and_states_its_size(raw: bytes) -> None:
    body = encode(raw)
    assert decode(body, name=name_of(raw), bytes_=len(raw), max_bytes=MAX) == raw
    assert zstandard.get_frame_parameters(body).content_size == len(raw)
    assert len(body) <= max_encoded_bytes(len(raw))
    assert encode(raw) == body


@given(raw=raws)
def test_a_foreign_decoder_reads_it_as_one_whole_frame(raw: bytes) -> None:
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    assert decompressor.decompress(encode(raw)) == raw
    assert decompressor.eof
    assert decompressor.unused_data == b""


@pytest.mark.parametrize("size", [1, 255, 128 * 1024 - 1, 128 * 1024, 128 * 1024 + 1, MAX])
def test_what_does_not_shrink_by_a_twentieth_is_stored_in_raw_blocks(size: int) -> None:
    raw = noise(size)
    body = encode(raw)
    assert raw[: 128 * 1024] in body
    assert decode(body, name=name_of(raw), bytes_=size, max_bytes=MAX) == raw


def test_what_shrinks_by_more_is_compressed() -> None:
    assert len(encode(TEXT)) < len(TEXT) / 2
    mostly = noise(60_000) + bytes(4_000)  # 6 % of it is nothing
    assert len(encode(mostly)) < 0.95 * len(mostly)
    hardly = noise(64_000) + bytes(1_500)  # 2 %: not worth opening
    assert len(encode(hardly)) > len(hardly)


def test_an_empty_chunk_is_no_chunk() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        encode(b"")


def test_a_name_is_the_blake3_of_the_bytes() -> None:
    # The digest of no bytes: BLAKE3's test vectors.
    assert name_of(b"") == "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert name_of(memoryview(TEXT)) == blake3(TEXT).hexdigest()


@pytest.mark.parametrize(
    "text", ["", "a" * 63, "a" * 65, "A" * 64, "0" * 31 + "gg" + "0" * 31, "a" * 63 + "\n", 7, None]
)
def test_what_is_not_written_as_a_name_is_none(text: object) -> None:
    assert is_name("0123456789abcdef" * 4)
    assert not is_name(text)


@pytest.mark.parametrize(
    "frame",
    [
        zstandard.ZstdCompressor(level=19, write_checksum=True).compress(TEXT),
        zstandard.ZstdCompressor(
            compression_params=zstandard.ZstdCompressionParameters(window_log=23, write_content_size=1)
        ).compress(TEXT),
        zstandard.ZstdCompressor(level=-5).compress(TEXT),
    ],
    ids=["with a checksum", "with a large window", "fast"],
)
def test_another_encoders_frame_is_taken(frame: bytes) -> None:
    assert decode(frame, name=name_of(TEXT), bytes_=len(TEXT), max_bytes=MAX) == TEXT
    assert decode(memoryview(frame), max_bytes=len(TEXT)) == TEXT
    assert decode(bytearray(frame), max_bytes=len(TEXT)) == TEXT


GOOD = encode(TEXT)
_CHECKED = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
_BLOCKS_50 = [((1 | 50 << 3).to_bytes(3, "little")) + bytes(50)]
BAD = {
    "nothing": (b"", "not a zstd frame"),
    "junk": (b"junk" * 20, "not a zstd frame"),
    "raw bytes": (TEXT, "not a zstd frame"),
    "half a header": (GOOD[:5], "not a whole zstd header"),
    "a skippable frame": (SKIPPABLE, "not a zstd frame"),
    "a skippable frame before": (SKIPPABLE + GOOD, "not a zstd frame"),
    "a skippable frame behind": (GOOD + SKIPPABLE, "not one whole zstd frame"),
    "a second frame": (GOOD + GOOD, "not one whole zstd frame"),
    "an empty second frame": (GOOD + raw_frame(0, [b"\x01\0\0"]), "not one whole zstd frame"),
    "one byte behind": (GOOD + b"\0", "not one whole zstd frame"),
    "cut off": (GOOD[:-1], "not one whole zstd frame"),
    "no size": (zstandard.ZstdCompressor(write_content_size=False).compress(TEXT), "does not state"),
    "an empty frame": (zstandard.ZstdCompressor().compress(b""), "states that it is empty"),
    "an empty frame with content": (raw_frame(0, _BLOCKS_50), "states that it is empty"),
    "states more than it has": (raw_frame(60, _BLOCKS_50), "not one whole zstd frame"),
    "states less than it has": (raw_frame(40, _BLOCKS_50), "not one whole zstd frame"),
    "beyond the bound": (raw_frame(MAX + 1, _BLOCKS_50), "states 262145 bytes; a chunk has 262144 at most"),
    "beyond all bounds": (raw_frame(2**63, _BLOCKS_50), "a chunk has 262144 at most"),
    "a huge window": (raw_frame(50, _BLOCKS_50, window=b"\xa0"), "a window of 1073741824 bytes"),
    "a reserved block type": (raw_frame(50, [(1 | 3 << 1 | 50 << 3).to_bytes(3, "little")]), "not one whole"),
    "a wrong checksum": (_CHECKED[:-1] + bytes([_CHECKED[-1] ^ 1]), "not one whole zstd frame"),
    "a dictionary": (MAGIC + bytes([0x21, 7, 50]) + _BLOCKS_50[0], "needs the dictionary 7"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_body_is_refused_with_what_is_wrong(kind: str) -> None:
    body, words = BAD[kind]
    with pytest.raises(BadChunk, match=words):
        decode(body, max_bytes=MAX)


def test_a_size_and_a_name_that_were_not_asked_for_are_refused() -> None:
    with pytest.raises(BadChunk, match=f"states {len(TEXT)} bytes; the chunk has 5"):
        decode(GOOD, bytes_=5, max_bytes=MAX)
    with pytest.raises(BadChunk, match=f"have the name {name_of(TEXT)}, not {name_of(b'')}"):
        decode(GOOD, name=name_of(b""), max_bytes=MAX)
    with pytest.raises(BadChunk, match="at most"):
        decode(GOOD, max_bytes=len(TEXT) - 1)


@given(length=st.integers(0, len(GOOD) - 1))
def test_a_body_cut_off_anywhere_is_refused(length: int) -> None:
    with pytest.raises(BadChunk):
        decode(GOOD[:length], max_bytes=MAX)


@given(at=st.integers(0, len(GOOD) - 1), bit=st.integers(0, 7))
def test_a_bit_that_turned_is_refused_or_changes_nothing(at: int, bit: int) -> None:
    turned = bytearray(GOOD)
    turned[at] ^= 1 << bit
    with suppress(BadChunk):
        assert decode(turned, name=name_of(TEXT), bytes_=len(TEXT), max_bytes=MAX) == TEXT


@given(body=st.binary(max_size=200), magic=st.booleans())
def test_any_bytes_are_a_chunk_or_a_bad_chunk(body: bytes, magic: bool) -> None:
    with suppress(BadChunk):
        assert 1 <= len(decode(MAGIC * magic + body, max_bytes=MAX)) <= MAX


BOMBS = """
from tests.chunks.test_chunk import MAX, raw_frame, repeated
from hub.chunks.chunk import BadChunk, decode, encode
GIB = [repeated(0, 2**17, last=n == 8191) for n in range(8192)]
bombs = [
    raw_frame(2**30, GIB), raw_frame(MAX, GIB), raw_frame(1, GIB), raw_frame(MAX, GIB, window=bytes([0x68])),
    raw_frame(MAX, GIB[:1], window=bytes([0xa0])), raw_frame(2**62, GIB),
]
assert max(map(len, bombs)) < 33_000
decode(encode(bytes(MAX)), max_bytes=MAX)
"""
EXPLODE = """
for bomb in bombs:
    try:
        decode(bomb, max_bytes=MAX)
    except BadChunk:
        continue
    raise SystemExit("a bomb went through")
"""


def test_a_gibibyte_in_32_kilobytes_costs_no_more_than_a_chunk_and_a_window() -> None:
    assert peak_growth_kib(BOMBS, EXPLODE) < 10 * 1024
