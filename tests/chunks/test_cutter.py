"""Boundaries stay where they are: whatever the machine, the version, and the way the bytes arrive."""

import importlib.util
import io
import os
import sys
import threading
from typing import BinaryIO, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.chunks import cutter as module
from hub.chunks.cutter import BUFFER_BYTES, CUTTERS, DEFAULT_CUTTER, Cutter, SlowCutter, cut, cutter
from tests.chunks.inputs import listing, noise

if importlib.util.find_spec("fastcdc") is None:
    pytest.skip("needs fastcdc (no wheels for this Python)", allow_module_level=True)

# The lengths of the chunks of 2 MiB of noise and of 16,000 lines of text. They were read off pyfastcdc
# 0.3.1 and fastcdc 1.7.0; a library that says otherwise is another cutter, and needs another name.
GOLDEN = {
    ("fastcdc2020-64k", "noise"): [
        59490, 124042, 83616, 67439, 25927, 70867, 231875, 57707, 35373, 109411, 66422, 136659, 39570, 43345,
        85315, 35558, 110395, 84027, 63887, 17096, 23213, 92746, 97076, 122455, 39613, 100864, 73164,
    ],
    ("fastcdc2020-64k", "listing"): [
        57757, 19602, 190656, 36279, 112817, 63000, 60256, 210311, 30518, 33391, 81413,
    ],
    ("fastcdc2016-64k", "noise"): [
        22007, 44580, 66572, 140354, 51324, 53946, 70392, 47679, 63800, 52236, 67531, 43793, 48564, 36335,
        129721, 125330, 27846, 93998, 120296, 62327, 57745, 40726, 77925, 77530, 84528, 60903, 44082, 58186,
        58503, 81774, 61199, 25420,
    ],
    ("fastcdc2016-64k", "listing"): [
        56444, 31308, 48295, 92676, 62547, 93973, 83440, 55765, 66752, 23058, 31429, 49271, 89337, 52117,
        48116, 11472,
    ],
}  # fmt: skip
INPUTS = {"noise": noise(2 * 2**20, "shunter golden"), "listing": listing(16_000)}
BASE = noise(3 * 2**20)  # longer than the buffer, so that chunks cross its end

every_cutter = pytest.mark.parametrize("name", CUTTERS)


def chunks_of(name: str, data: bytes) -> list[bytes]:
    return list(cut(cutter(name), io.BytesIO(data)))


class Dribble(io.RawIOBase):
    """A file whose reads are as short as `steps` says, in turn."""

    def __init__(self, data: bytes, steps: list[int]) -> None:
        self._left, self._steps, self._turn = memoryview(data), steps, 0

    def readinto(self, into: object) -> int:
        view = memoryview(cast(bytearray, into))
        size = min(len(view), self._steps[self._turn % len(self._steps)], len(self._left))
        self._turn += 1
        view[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


class OnlyReads:
    """A file that knows read() and nothing else."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 10_000))


@pytest.mark.parametrize(("name", "kind"), GOLDEN)
def test_the_boundaries_are_those_that_are_written_down(name: str, kind: str) -> None:
    assert [len(chunk) for chunk in chunks_of(name, INPUTS[kind])] == GOLDEN[name, kind]


@every_cutter
def test_what_never_changes_is_cut_at_the_longest_chunk(name: str) -> None:
    assert [len(chunk) for chunk in chunks_of(name, bytes(600_000))] == [262_144, 262_144, 75_712]


def test_the_two_cutters_do_not_agree_and_so_have_two_names() -> None:
    assert chunks_of("fastcdc2020-64k", BASE) != chunks_of("fastcdc2016-64k", BASE)


@every_cutter
@given(data=st.data())
def test_chunks_are_within_their_bounds_and_together_the_file(name: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(BASE)) | st.sampled_from([0, 1, BUFFER_BYTES, BUFFER_BYTES + 1]))
    shown = BASE[:size]
    chunks = chunks_of(name, shown)
    assert b"".join(chunks) == shown
    assert all(cutter(name).min_bytes <= len(chunk) <= cutter(name).max_bytes for chunk in chunks[:-1])
    assert all(1 <= len(chunk) <= cutter(name).max_bytes for chunk in chunks[-1:])
    assert len(chunks) <= 1 or size / len(chunks) < 2 * cutter(name).average_bytes


@every_cutter
@given(
    steps=st.lists(st.integers(1, 300_000), min_size=1, max_size=8).filter(lambda steps: max(steps) > 9000)
)
def test_short_reads_move_no_boundary(name: str, steps: list[int]) -> None:
    assert list(cut(cutter(name), cast(BinaryIO, Dribble(BASE, steps)))) == chunks_of(name, BASE)


@every_cutter
@given(at=st.integers(0, len(BASE)), gone=st.integers(0, 2000), come=st.binary(max_size=2000))
def test_a_local_edit_changes_few_chunks(name: str, at: int, gone: int, come: bytes) -> None:
    edited = BASE[:at] + come + BASE[at + gone :]
    held = set(chunks_of(name, BASE))
    new = [chunk for chunk in chunks_of(name, edited) if chunk not in held]
    # Of some 40: the chunk of the edit, and those until the boundaries meet again.
    assert len(new) <= 8


@every_cutter
def test_a_chunk_is_the_callers_to_keep(name: str) -> None:
    kept = []
    for chunk in cut(cutter(name), io.BytesIO(BASE)):
        assert type(chunk) is bytes
        kept.append((chunk, bytes(bytearray(chunk))))
    assert all(chunk == copy for chunk, copy in kept)


def test_a_pipe_and_a_file_that_only_reads_are_cut_alike() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(BASE)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        through_pipe = list(cut(cutter(DEFAULT_CUTTER), cast(BinaryIO, pipe)))
    writer.join()
    assert through_pipe == chunks_of(DEFAULT_CUTTER, BASE)
    assert list(cut(cutter(DEFAULT_CUTTER), cast(BinaryIO, OnlyReads(BASE)))) == through_pipe


def test_a_file_that_does_not_block_is_refused_rather_than_cut_short() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with (
        os.fdopen(reading, "rb", buffering=0) as pipe,
        os.fdopen(writing, "wb"),
        pytest.raises(BlockingIOError, match="open it blocking"),
    ):
        next(cut(cutter(DEFAULT_CUTTER), cast(BinaryIO, pipe)))


def test_a_cutter_that_is_not_known_is_told_with_those_that_are() -> None:
    with pytest.raises(
        ValueError, match="no cutter 'rabin': this version knows fastcdc2020-64k, fastcdc2016"
    ):
        cutter("rabin")


@every_cutter
def test_compiled_code_is_loaded_here(name: str) -> None:
    module.require_native(cutter(name))


def without_compiled_code(monkeypatch: pytest.MonkeyPatch, chosen: Cutter) -> None:
    """As on a machine where the library was installed without its extension module."""
    library = {"fastcdc2020-64k": "pyfastcdc", "fastcdc2016-64k": "fastcdc"}[chosen.name]
    extension = {"pyfastcdc": "pyfastcdc.cy", "fastcdc": "fastcdc.fastcdc_cy"}[library]
    for loaded in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, extension, None)


@every_cutter
def test_the_pure_python_that_a_library_falls_back_to_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled = chunks_of(name, BASE[:200_000])
    without_compiled_code(monkeypatch, cutter(name))
    with pytest.raises(SlowCutter, match=r"runs as pure Python.*pip install"):
        module.require_native(cutter(name))
    assert capsys.readouterr() == ("", "")  # the library's own remark would stand in somebody's output
    module.require_native(cutter(name), allow_slow=True)
    assert chunks_of(name, BASE[:200_000]) == compiled  # slow, and yet the same cutter


@every_cutter
def test_a_cutter_that_is_not_installed_is_refused_with_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, {"fastcdc2020-64k": "pyfastcdc"}.get(name, "fastcdc"), None)
    for allow_slow in (False, True):
        with pytest.raises(SlowCutter, match=r"is not installed.*pip install"):
            module.require_native(cutter(name), allow_slow=allow_slow)
