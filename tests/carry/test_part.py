"""A file put together from chunks: what counts as there, what is believed, and what is left of it."""

import errno
import os
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.carry import part as part_module
from hub.carry.fetch import Fetched, fetch, manifest_of
from hub.carry.link import Denied, Lost
from hub.carry.part import NotWhole, Part, PartInUse
from hub.carry.transfer import Patience, Transfer
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER
from hub.chunks.manifest import Manifest
from hub.chunks.whole import describe
from tests.carry.contents import edited, made
from tests.carry.imagehub import Answer, Fault, ImageHub, serving

QUICK = Patience(first_s=0.001, most_s=0.004, give_up_s=0.05)
CONTENT = made(3_000_000)


def described(content: bytes) -> tuple[str, Manifest]:
    return describe(BytesIO(content), CUTTERS[DEFAULT_CUTTER])


@pytest.fixture
def hub() -> Iterator[ImageHub]:
    with serving() as made_hub:
        yield made_hub


def fetched(hub: ImageHub, name: str, folder: Path, **more: object) -> Fetched:
    with Transfer(hub.address, patience=QUICK) as transfer:
        manifest = manifest_of(transfer, name)
        with Part(folder / "part", name, manifest) as part:
            return fetch(transfer, part, folder / "image", **more)  # type: ignore[arg-type]  # each test's own words


def test_an_image_arrives_whole_read_only_and_nothing_else_is_left(hub: ImageHub, tmp_path: Path) -> None:
    name = hub.hold(CONTENT)
    done = fetched(hub, name, tmp_path)
    assert (tmp_path / "image").read_bytes() == CONTENT
    assert (tmp_path / "image").stat().st_mode & 0o777 == 0o444
    assert [path.name for path in tmp_path.iterdir()] == ["image"]
    assert done.fetched_chunks == done.chunks == len(hub.served)
    assert done.fetched_bytes == len(CONTENT)
    assert done.wire_bytes < 0.7 * len(CONTENT)


def test_only_what_a_similar_file_lacks_is_fetched(hub: ImageHub, tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    seed.write_bytes(CONTENT)
    newer = edited(CONTENT)
    name = hub.hold(newer)
    done = fetched(hub, name, tmp_path, held={"seed": (seed, described(CONTENT)[1])})
    assert (tmp_path / "image").read_bytes() == newer
    assert 1 <= done.fetched_chunks <= 12
    assert done.copied_bytes + done.fetched_bytes >= len(newer)
    assert len(hub.served) == done.fetched_chunks


def test_a_similar_file_that_is_not_what_it_was_is_not_believed(hub: ImageHub, tmp_path: Path) -> None:
    seed = tmp_path / "seed"
    damaged = bytearray(CONTENT)
    damaged[1_000_000] ^= 1
    seed.write_bytes(damaged[:2_500_000])
    name = hub.hold(CONTENT)
    gone = (tmp_path / "gone", described(CONTENT)[1])
    held = {"gone": gone, "seed": (seed, described(CONTENT)[1])}
    done = fetched(hub, name, tmp_path, held=held)
    assert (tmp_path / "image").read_bytes() == CONTENT
    assert 500_000 < done.fetched_bytes < 1_400_000


def test_a_fetch_that_was_cut_off_goes_on_where_it_stood(hub: ImageHub, tmp_path: Path) -> None:
    name = hub.hold(CONTENT)
    hub.faults = [Fault("/fetch", cut=400_000), *(Fault("/fetch", status=503) for _ in range(100))]
    with pytest.raises(Lost):
        fetched(hub, name, tmp_path)
    hub.faults, before = [], len(hub.served)
    done = fetched(hub, name, tmp_path)
    assert (tmp_path / "image").read_bytes() == CONTENT
    assert done.recalled_bytes > 400_000
    assert done.recalled_bytes + done.fetched_bytes == len(CONTENT)
    assert len(hub.served) - before == done.fetched_chunks < done.chunks


def test_what_a_part_file_holds_is_read_and_not_believed(hub: ImageHub, tmp_path: Path) -> None:
    name = hub.hold(CONTENT)
    wrong = bytearray(CONTENT)
    wrong[0] ^= 1
    (tmp_path / "part").write_bytes(wrong + b"and more")
    done = fetched(hub, name, tmp_path)
    assert done.fetched_chunks == 1
    assert (tmp_path / "image").read_bytes() == CONTENT


def test_a_chunk_that_stands_at_several_places_is_fetched_once(hub: ImageHub, tmp_path: Path) -> None:
    content = made(600_000) + bytes(2_000_000) + made(600_000)
    name = hub.hold(content)
    done = fetched(hub, name, tmp_path)
    assert (tmp_path / "image").read_bytes() == content
    assert len(hub.served) == len(set(hub.served)) == done.chunks < len(hub.manifests[name].chunks)


def test_a_manifest_that_is_not_the_images_never_makes_an_image(hub: ImageHub, tmp_path: Path) -> None:
    name = hub.hold(CONTENT)
    manifest = hub.manifests[name]
    first, second, *rest = manifest.chunks
    swapped = Manifest(bytes=manifest.bytes, cutter=manifest.cutter, chunks=(second, first, *rest))
    hub.manifests[name] = swapped
    with pytest.raises(NotWhole, match=f"not {name}"):
        fetched(hub, name, tmp_path)
    assert not (tmp_path / "image").exists()


def test_what_is_no_manifest_is_refused(hub: ImageHub, tmp_path: Path) -> None:
    hub.instead[f"/images/{'0' * 64}"] = Answer(200, b'{"bytes": 3}')
    with pytest.raises(Denied, match="cannot be: a manifest has the field"):
        fetched(hub, "0" * 64, tmp_path)


def test_a_part_file_has_one_writer(tmp_path: Path) -> None:
    name, manifest = described(CONTENT)
    with Part(tmp_path / "part", name, manifest), pytest.raises(PartInUse, match="another process"):
        Part(tmp_path / "part", name, manifest)
    with Part(tmp_path / "part", name, manifest) as again:
        assert again.lacking == tuple(manifest.names.items())


def test_a_link_in_the_place_of_a_part_file_is_not_followed(tmp_path: Path) -> None:
    name, manifest = described(CONTENT)
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "part").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic"):
        Part(tmp_path / "part", name, manifest)
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_part_that_lacks_a_chunk_is_never_complete(tmp_path: Path) -> None:
    name, manifest = described(CONTENT)
    with Part(tmp_path / "part", name, manifest) as part, pytest.raises(ValueError, match="are lacking"):
        part.complete(tmp_path / "image")


def test_a_disk_that_takes_only_a_part_of_a_write_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, manifest = described(CONTENT)
    real, left = os.pwrite, [100]

    def pwrite(fd: int, data: memoryview, offset: int) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = real(fd, data[: left[0]], offset)
        left[0] -= done
        return done

    monkeypatch.setattr(os, "pwrite", pwrite)
    chunk, size = manifest.chunks[0]
    with Part(tmp_path / "part", name, manifest) as part:
        with pytest.raises(OSError, match="No space left"):
            part.put(chunk, CONTENT[:size])
        assert chunk in dict(part.lacking)


def test_a_file_system_that_knows_no_holes_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lseek(fd: int, at: int, how: int) -> int:
        raise OSError(errno.EINVAL, "Invalid argument")

    (tmp_path / "part").write_bytes(CONTENT)
    monkeypatch.setattr(os, "lseek", lseek)
    name, manifest = described(CONTENT)
    with Part(tmp_path / "part", name, manifest) as part:
        assert part.recall() == sum(manifest.names.values())
        assert part.lacking == ()


@settings(max_examples=40, deadline=None)
@given(kept=st.sets(st.integers(0, 40)), torn=st.integers(0, 2_999_999))
def test_after_any_writes_a_part_lacks_just_the_chunks_that_are_not_there(
    tmp_path_factory: pytest.TempPathFactory, kept: set[int], torn: int
) -> None:
    folder = tmp_path_factory.mktemp("part")
    name, manifest = described(CONTENT)
    spoilt, offset = set(), 0
    with Part(folder / "part", name, manifest) as part:
        for index, (chunk, size) in enumerate(manifest.chunks):
            if index in kept:
                part.put(chunk, CONTENT[offset : offset + size])
            if index not in kept or offset <= torn < offset + size:
                spoilt.add(chunk)
            offset += size
    with (folder / "part").open("r+b") as file:
        file.seek(torn)
        file.write(bytes([CONTENT[torn] ^ 1]))
    with Part(folder / "part", name, manifest) as part:
        part.recall()
        assert {chunk for chunk, _ in part.lacking} == spoilt


def test_the_hash_of_a_file_is_that_of_its_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "READ_BYTES", 70_000)
    (tmp_path / "file").write_bytes(CONTENT)
    with (tmp_path / "file").open("rb") as file:
        assert part_module.hash_of(file.fileno()) == described(CONTENT)[0]
