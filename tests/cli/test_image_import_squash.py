"""The squashfs file read back by another's hand: unsquashfs, and the kernel where it may be asked."""

import os
import random
import struct
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hub.cli.image_import_pyc import stale
from hub.cli.image_import_squash import BLOCK
from hub.cli.image_import_tree import Kind, Limits, Node, Tree
from tests.cli.image_sources import (
    CAPABILITY,
    Member,
    folder,
    hard,
    imported,
    imported_tar,
    link,
    listing,
    member,
    needs_squashfs,
    unpacked,
    write_folder,
)

SIZES = (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 77)


def contents() -> dict[str, bytes]:
    """Files of every awkward length: noise, what compresses well, holes, and the same twice."""
    noise = random.Random(7)
    found = {}
    for size in SIZES:
        found[f"noise/{size}"] = noise.randbytes(size)
        found[f"text/{size}"] = (b"all work and no play " * (size // 21 + 1))[:size]
        found[f"holes/{size}"] = bytes(size)
        found[f"again/{size}"] = found[f"noise/{size}"]
        found[f"mixed/{size}"] = (noise.randbytes(100) + bytes(BLOCK + 5)) * (size // BLOCK)
    return found


@needs_squashfs
@pytest.mark.parametrize("compress", [False, True])
def test_files_of_every_length_come_back(compress: bool, tmp_path: Path) -> None:
    files = contents()
    made = imported(write_folder(tmp_path / "s", files), tmp_path / "x.sqfs", compress=compress)
    target = unpacked(made.file, tmp_path / "u")
    assert {name: (target / name).read_bytes() for name in files} == files
    noise = sum(SIZES)
    assert noise < made.bytes < (1.2 if compress else 3) * noise  # what is there twice is kept once


@needs_squashfs
def test_a_large_folder_and_far_hard_links_come_back(tmp_path: Path) -> None:
    """More entries than a run, more bytes than a plain folder, numbers further apart than 16 bits."""
    members: list[Member] = [folder("many")]
    members += [member(f"many/{number:05}-{'x' * 40}", str(number).encode()) for number in range(1500)]
    members += [member(f"far/{number}") for number in range(33_500)]
    members += [hard("z/first", f"many/00000-{'x' * 40}"), hard("a/last", "far/9")]
    image = imported_tar(tmp_path, members).file
    target = unpacked(image, tmp_path / "u")
    assert len(list((target / "many").iterdir())) == 1500
    assert (target / f"many/01499-{'x' * 40}").read_bytes() == b"1499"
    assert len(list((target / "far").iterdir())) == 33_500
    assert (target / "z/first").samefile(target / f"many/00000-{'x' * 40}")
    assert (target / "a/last").samefile(target / "far/9")


@needs_squashfs
@pytest.mark.parametrize("compress", [False, True])
def test_the_kernel_reads_what_unsquashfs_reads(compress: bool, tmp_path: Path) -> None:
    files = contents()
    source = write_folder(tmp_path / "s", files)
    (source / "hard").hardlink_to(source / "mixed" / str(SIZES[-1]))
    (source / "soft").symlink_to("mixed")
    for number in range(2000):
        (source / f"empty-{number:04}-{'y' * 60}").touch()
    image = imported(source, tmp_path / "x.sqfs", compress=compress).file
    mounted = tmp_path / "m"
    mounted.mkdir()
    done = subprocess.run(["mount", "-o", "loop,ro", image, mounted], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the kernel may not be asked here: {done.stderr.strip()[:100]}")
    try:
        subprocess.run(["diff", "-r", "--no-dereference", source, mounted], check=True)
        assert (mounted / "hard").samefile(mounted / "mixed" / str(SIZES[-1]))
        assert (mounted / "hard").stat().st_nlink == 2
        assert mounted.stat().st_nlink == source.stat().st_nlink
    finally:
        subprocess.run(["umount", mounted], check=True)


NAMES = st.binary(min_size=1, max_size=12).filter(
    lambda name: not {*b"/\0"} & {*name} and name not in (b".", b"..")
)
TREES = st.recursive(
    st.tuples(st.binary(max_size=300), st.integers(0, 0o7777)),
    lambda below: st.dictionaries(NAMES, below, max_size=6),
    max_leaves=25,
)


@needs_squashfs
@settings(max_examples=25)
@given(st.dictionaries(NAMES, TREES, max_size=6), st.booleans())
def test_any_tree_comes_back(tree: dict[bytes, object], compress: bool) -> None:
    members: list[Member] = []
    wanted: dict[bytes, tuple[int, bytes | None]] = {}

    def put(prefix: bytes, value: object) -> None:
        if isinstance(value, dict):
            members.append(folder(os.fsdecode(prefix)))
            wanted[prefix] = (0o755, None)
            for name, below in value.items():
                put(prefix + b"/" + name, below)
        elif isinstance(value, tuple):
            members.append(member(os.fsdecode(prefix), value[0], mode=value[1]))
            wanted[prefix] = (value[1], value[0])

    for name, value in tree.items():
        if name != b"dev":
            put(name, value)
    with tempfile.TemporaryDirectory() as place:
        image = imported_tar(Path(place), members, compress=compress).file
        target = os.fsencode(unpacked(image, Path(place) / "u"))
        found = {}
        for path, folders, files in os.walk(target):
            for name in folders + files:
                whole = path + b"/" + name
                data = None if name in folders else Path(os.fsdecode(whole)).read_bytes()
                found[os.path.relpath(whole, target)] = (os.lstat(whole).st_mode & 0o7777, data)
        assert found == wanted


@needs_squashfs
def test_an_empty_source_is_an_image_of_a_root_folder(tmp_path: Path) -> None:
    made = imported_tar(tmp_path, [])
    assert list(listing(made.file)) == [""]
    assert made.bytes == 4096


@needs_squashfs
def test_an_image_with_capabilities_compressed_or_not_is_listed_whole(tmp_path: Path) -> None:
    members = [
        member(f"p{number}", b"p", capability=CAPABILITY[:-1] + bytes([number])) for number in range(200)
    ]
    members += [link("l", "p1"), member("d/x", b"x")]
    plain = listing(imported_tar(tmp_path, members).file)
    packed = listing(imported_tar(tmp_path, members, compress=True).file)
    assert plain == packed
    assert len(plain) == 204


def test_a_small_edit_moves_nothing_before_it(tmp_path: Path) -> None:
    """What chunks rely on: contents stand in the order of paths, each behind the other."""
    noise = random.Random(1)
    files = {f"f{number}": noise.randbytes(100_000) for number in range(9)}
    before = imported(write_folder(tmp_path / "s", files), tmp_path / "a").file.read_bytes()
    write_folder(tmp_path / "s", {"f8": noise.randbytes(50_000)})
    after = imported(tmp_path / "s", tmp_path / "b").file.read_bytes()
    assert before[96:800_096] == after[96:800_096] == b"".join(files[f"f{number}"] for number in range(8))


def test_compiled_python_files_that_clamping_makes_stale_are_told(tmp_path: Path) -> None:
    def compiled(flags: int, time_s: int) -> bytes:
        return struct.pack("<4I", 3495, flags, time_s, 10) + b"code"

    members = [
        member("lib/a.py", b"a", mtime=1_700_000_000),
        member("lib/__pycache__/a.cpython-311.pyc", compiled(0, 1_700_000_000)),
        member("lib/b.py", b"b", mtime=1_600_000_000),
        member("lib/__pycache__/b.cpython-311.pyc", compiled(0, 1_600_000_000)),
        member("lib/checked.py", b"c", mtime=1_700_000_000),
        member("lib/__pycache__/checked.cpython-311.pyc", compiled(1, 1_700_000_000)),
        member("lib/old.py", b"d", mtime=1_700_000_000),
        member("lib/__pycache__/old.cpython-311.pyc", compiled(0, 1_500_000_000)),
        member("lib/__pycache__/gone.cpython-311.pyc", compiled(0, 1_700_000_000)),
        member("lib/__pycache__/short.cpython-311.pyc", b"x"),
    ]
    notes = [note for note in imported_tar(tmp_path, members).notes if "compiled" in note]
    assert notes[0].startswith("2 compiled Python files are out of date")
    assert notes[0].endswith("--epoch 1700000000 keeps them")
    kept = imported_tar(tmp_path, members, epoch_s=1_700_000_000).notes
    assert not [note for note in kept if "compiled" in note]
    tree = Tree("t", Limits())
    tree.add(b"__pycache__", Node(kind=Kind.FILE))
    assert stale(tree, 0).count == 0
