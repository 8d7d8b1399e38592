"""An image as a whole: described in one pass, and believed only if its bytes have its name."""

import io
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import BinaryIO, cast

import pytest

from hub.chunks import whole
from hub.chunks.chunk import BadChunk, encode, name_of
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER, SlowCutter, cut, cutter
from hub.chunks.manifest import BadManifest, Manifest
from hub.chunks.whole import BadImage, describe, verify, verify_encoded
from tests.chunks.inputs import listing, noise, peak_growth_kib

CUTTER = cutter(DEFAULT_CUTTER)
IMAGE = noise(2_000_000) + listing(40_000) + bytes(1_500_000) + noise(500_000, "end")
RAWS = list(cut(CUTTER, io.BytesIO(IMAGE)))
NAME, MANIFEST = describe(io.BytesIO(IMAGE), CUTTER)
BODIES = [(name_of(raw), encode(raw)) for raw in RAWS]


@pytest.mark.parametrize("name", CUTTERS)
def test_a_file_is_described_by_its_name_and_its_chunks(name: str) -> None:
    found, manifest = describe(io.BytesIO(IMAGE), cutter(name), arch="x86_64")
    assert found == name_of(IMAGE)
    chunks = cut(cutter(name), io.BytesIO(IMAGE))
    assert manifest == Manifest(
        bytes=len(IMAGE), cutter=name, arch="x86_64", chunks=tuple((name_of(raw), len(raw)) for raw in chunks)
    )


def test_a_file_is_described_from_where_it_stands() -> None:
    file = io.BytesIO(b"head" + IMAGE)
    file.seek(4)
    assert describe(file, CUTTER) == (NAME, MANIFEST)


def test_progress_counts_up_to_the_whole() -> None:
    for run in (
        lambda told: describe(io.BytesIO(IMAGE), CUTTER, progress=told.append),
        lambda told: verify_encoded(BODIES, MANIFEST, NAME, progress=told.append),
    ):
        told: list[int] = []
        run(told)
        assert told == sorted(told)
        assert len(told) >= 5
        assert told[-1] == len(IMAGE)


def test_an_empty_file_is_no_image() -> None:
    with pytest.raises(BadManifest, match="the file is empty"):
        describe(io.BytesIO(b""), CUTTER)


def test_a_file_beyond_the_bound_is_given_up_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "MAX_IMAGE_BYTES", 10_000_000)
    file = open("/dev/urandom", "rb")  # noqa: PTH123, SIM115 - it has no end
    with file, pytest.raises(BadManifest, match="an image has 10000000 bytes in 1048576 chunks at most"):
        describe(cast(BinaryIO, file), CUTTER)


def test_slow_code_is_refused_before_a_byte_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hub.chunks.cutter._is_compiled", lambda function: False)
    file = io.BytesIO(IMAGE)
    with pytest.raises(SlowCutter, match="runs as pure Python"):
        describe(file, CUTTER)
    assert file.tell() == 0
    assert describe(file, CUTTER, allow_slow=True) == (NAME, MANIFEST)


def test_what_reading_raises_comes_through_and_leaves_no_thread() -> None:
    class Breaks(io.BytesIO):
        def readinto(self, into: object) -> int:
            if self.tell() > 3_000_000:
                raise OSError("the disk is gone")
            return super().readinto(cast(bytearray, into))

    before = threading.active_count()
    with pytest.raises(OSError, match="the disk is gone"):
        describe(Breaks(IMAGE), CUTTER)
    assert threading.active_count() == before


def test_the_right_chunks_are_the_image() -> None:
    verify(RAWS, name=NAME, bytes_=len(IMAGE))
    verify_encoded(BODIES, MANIFEST, NAME)
    verify_encoded(iter(BODIES), MANIFEST, NAME)


def test_the_image_has_repeats() -> None:
    assert len(MANIFEST.names) < len(MANIFEST.chunks)  # or the tests here would not see them


@pytest.mark.parametrize(
    ("raws", "bytes_", "words"),
    [
        (RAWS[:-1], len(IMAGE), f"together; the image has {len(IMAGE)}"),
        ([*RAWS, b"x"], len(IMAGE), f"more than the {len(IMAGE)} bytes"),
        ([RAWS[1], RAWS[0], *RAWS[2:]], len(IMAGE), f"not {NAME}"),
        ([], len(IMAGE), "the chunks have 0 bytes together"),
        (RAWS, len(IMAGE) - 1, "more than"),
    ],
    ids=["one missing", "one more", "another order", "none", "another size"],
)
def test_raw_chunks_that_are_another_whole_are_refused(raws: list[bytes], bytes_: int, words: str) -> None:
    with pytest.raises(BadImage, match=words):
        verify(raws, name=NAME, bytes_=bytes_)


def test_an_endless_supply_of_chunks_ends_at_the_size_that_was_stated() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(1000)

    with pytest.raises(BadImage):
        verify(endless(), name=NAME, bytes_=10_000)
    assert taken == 11


@pytest.mark.parametrize(
    ("bodies", "words"),
    [
        (BODIES[:-1], f"{len(BODIES) - 1} chunks of {len(BODIES)}; .* is missing"),
        ([], f"0 chunks of {len(BODIES)}"),
        ([*BODIES, BODIES[0]], f"more than the {len(BODIES)} chunks"),
        ([BODIES[1], BODIES[0], *BODIES[2:]], rf"chunks\[0\] is {BODIES[1][0]}; the manifest says"),
        ([*BODIES[:20], ("a" * 64, BODIES[20][1]), *BODIES[21:]], r"chunks\[20\] is a{64}"),
    ],
    ids=["one missing", "none", "one more", "another order", "another name"],
)
def test_bodies_that_do_not_follow_the_manifest_are_refused(
    bodies: list[tuple[str, bytes]], words: str
) -> None:
    with pytest.raises(BadImage, match=words):
        verify_encoded(bodies, MANIFEST, NAME)


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "other bytes": (lambda raw: encode(noise(len(raw), "other")), "have the name"),
    "half a frame": (lambda raw: encode(raw)[:-1], "not one whole zstd frame"),
    "another length": (lambda raw: encode(raw[1:]), "states"),
    "nothing": (lambda raw: b"", "not a zstd frame"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("at", [0, 20, len(BODIES) - 1])
def test_the_chunk_that_is_damaged_is_named(at: int, kind: str) -> None:
    damage, words = DAMAGE[kind]
    damaged = [*BODIES[:at], (BODIES[at][0], damage(RAWS[at])), *BODIES[at + 1 :]]
    before = threading.active_count()
    with pytest.raises(BadChunk, match=rf"chunks\[{at}\] {BODIES[at][0]}: .*{words}"):
        verify_encoded(damaged, MANIFEST, NAME)
    assert threading.active_count() == before


def test_good_chunks_under_another_name_are_refused() -> None:
    with pytest.raises(BadImage, match=f"together {NAME}, not {'0' * 64}"):
        verify_encoded(BODIES, MANIFEST, "0" * 64)
    swapped = replace(MANIFEST, chunks=(MANIFEST.chunks[1], MANIFEST.chunks[0], *MANIFEST.chunks[2:]))
    with pytest.raises(BadImage, match=f"not {NAME}"):
        verify_encoded([BODIES[1], BODIES[0], *BODIES[2:]], swapped, NAME)


def test_a_store_that_fails_while_bodies_are_read_comes_through() -> None:
    def failing() -> Iterator[tuple[str, bytes]]:
        yield from BODIES[:30]
        raise ConnectionError("the bucket is gone")

    before = threading.active_count()
    with pytest.raises(ConnectionError, match="the bucket is gone"):
        verify_encoded(failing(), MANIFEST, NAME)
    assert threading.active_count() == before


PREPARE = """
import io
from hub.chunks.chunk import encode, name_of
from hub.chunks.cutter import DEFAULT_CUTTER, cutter
from hub.chunks.manifest import Manifest
from hub.chunks.whole import describe, verify_encoded
from tests.chunks.inputs import noise
from blake3 import blake3
PIECE = noise(2**20)
class Long(io.RawIOBase):
    left = 300 * 2**20
    def readinto(self, into):
        size = min(len(into), self.left, len(PIECE))
        into[:size] = PIECE[:size]
        into[:8] = self.left.to_bytes(8, "big")
        self.left -= size
        return size
describe(io.BytesIO(PIECE), cutter(DEFAULT_CUTTER))
"""
DESCRIBE = """
name, manifest = describe(Long(), cutter(DEFAULT_CUTTER))
assert manifest.bytes == 300 * 2**20 and len(manifest.chunks) > 3000
"""
SUPPLY = """
COUNT = 1200
def raw(n):
    return n.to_bytes(8, "big") + PIECE[: 2**18 - 8]
whole = blake3()
chunks = []
for n in range(COUNT):
    whole.update(raw(n))
    chunks.append((name_of(raw(n)), 2**18))
manifest = Manifest(bytes=COUNT * 2**18, cutter=DEFAULT_CUTTER, chunks=tuple(chunks))
encode(raw(0))
"""
VERIFY = """
bodies = ((name, encode(raw(n))) for n, (name, _) in enumerate(manifest.chunks))
verify_encoded(bodies, manifest, whole.hexdigest())
"""


def test_describing_300_mb_takes_the_memory_of_a_few_batches() -> None:
    assert peak_growth_kib(PREPARE, DESCRIBE) < 32 * 1024


def test_checking_300_mb_takes_the_memory_of_a_few_batches() -> None:
    threads = min(whole.MAX_THREADS, max(2, os.cpu_count() or 1))
    assert peak_growth_kib(PREPARE + SUPPLY, VERIFY) < (12 + 8 * threads) * 1024
