"""What tars may hold: every kind of member kept, every bad one told, whatever the bytes are."""

import os
import struct
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.cli.errors import CliError
from hub.cli.image_import_tree import Limits
from tests.cli.image_sources import (
    CAPABILITY,
    PACKED,
    Member,
    content,
    folder,
    hard,
    imported,
    imported_tar,
    link,
    listing,
    member,
    names,
    needs_squashfs,
    tar,
    unpacked,
)

SMALL = (
    folder("bin"),
    member("bin/sh", b"#!" * 300, mode=0o755),
    hard("bin/dash", "bin/sh"),
    member("x", b"y"),
)


@needs_squashfs
def test_every_kind_of_member_comes_through(tmp_path: Path) -> None:
    long = "/".join(["d" * 200] * 3)
    image = imported_tar(
        tmp_path,
        [
            folder(".", mode=0o711, uid=5, gid=6),
            member("./sbin/su", b"su", mode=0o4755, uid=4_000_000_000, gid=7),
            member("sbin/ping", b"ping", capability=CAPABILITY),
            link("lib", "usr/lib"),
            folder("usr/lib"),
            member("lib/libc.so", b"libc"),
            member(long, b"long"),
            member("caf\udce9 \n", b"no UTF-8"),
            member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3, mode=0o666),
            member("loop", type=tarfile.BLKTYPE, devmajor=7, devminor=70_000),
            member("pipe", type=tarfile.FIFOTYPE, mode=0o600),
            hard("pipe2", "pipe"),
        ],
    ).file
    (tmp_path / "source.tar").unlink()
    assert content(image, "usr/lib/libc.so") == b"libc"
    assert content(image, long) == b"long"
    target = unpacked(image, tmp_path / "u", "-no-xattrs", "-ignore-errors")
    assert (target / os.fsdecode(b"caf\xe9 \n")).read_bytes() == b"no UTF-8"
    assert (target / "pipe").stat().st_nlink == 2
    (target / os.fsdecode(b"caf\xe9 \n")).unlink()
    told = subprocess.run(["unsquashfs", "-lln", image], capture_output=True, check=True).stdout.decode(
        "latin-1"
    )
    assert "drwx--x--x 5/6 " in told
    assert "-rwsr-xr-x 4000000000/7 " in told
    assert "crw-rw-rw- 0/0                   1,  3 " in told
    if os.geteuid() == 0:  # unsquashfs 4.5 lists large numbers wrongly, and makes them right
        assert os.minor((target / "loop").stat().st_rdev) == 70_000
    assert "lib -> usr/lib" in told


@needs_squashfs
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to set capabilities")
def test_a_capability_is_the_only_attribute_that_is_kept(tmp_path: Path) -> None:
    ping, data = member("ping", b"ping", capability=CAPABILITY)
    ping.pax_headers = {**ping.pax_headers, "SCHILY.xattr.security.selinux": "x", "SCHILY.xattr.user.a": "b"}
    members = [(ping, data), member("plain", b"plain"), member("other", b"ping", capability=CAPABILITY)]
    for compress in (False, True):
        image = imported_tar(tmp_path, members, compress=compress).file
        target = unpacked(image, tmp_path / f"u{compress}")
        assert os.listxattr(target / "ping") == os.listxattr(target / "other") == ["security.capability"]
        assert os.getxattr(target / "ping", "security.capability") == CAPABILITY
        assert os.listxattr(target / "plain") == []


@needs_squashfs
def test_a_later_member_replaces_an_earlier_one_and_leaves_its_other_names(tmp_path: Path) -> None:
    image = imported_tar(
        tmp_path,
        [
            member("a", b"first"),
            hard("b", "a"),
            member("a", b"second"),
            folder("d"),
            member("d/x", b"x"),
            folder("d", mode=0o700),
            folder("e"),
            member("e/gone", b""),
            member("e", b"now a file"),
        ],
    ).file
    assert content(image, "a") == b"second"
    assert content(image, "b") == b"first"
    found = listing(image)
    assert set(found) == {"", "a", "b", "d", "d/x", "e"}
    assert found["d"].mode == "drwx------"
    assert found["e"].size == "10"


@needs_squashfs
def test_what_dev_holds_is_left_out_and_a_link_of_that_name_stays(tmp_path: Path) -> None:
    inside = [folder("dev", mode=0o700), member("dev/null", type=tarfile.CHRTYPE), folder("srv/dev/x")]
    image = imported_tar(tmp_path, inside).file
    assert names(image) == {"dev", "srv", "srv/dev", "srv/dev/x"}
    image = imported_tar(tmp_path, [folder("d"), member("d/x"), link("dev", "d")]).file
    assert names(image) == {"d", "d/x", "dev"}


@needs_squashfs
@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_a_sparse_member_is_read_with_its_holes(form: str, tmp_path: Path) -> None:
    """Made by GNU tar, which writes both forms that are met."""
    holed = tmp_path / "s/holed"
    holed.parent.mkdir()
    with holed.open("wb") as file:
        for place in (4096, 300_000, 1_000_000):
            file.seek(place)
            file.write(os.urandom(5000))
        file.truncate(2_000_001)
    command = [
        "tar",
        f"--format={form}",
        "--sparse",
        "-C",
        str(holed.parent),
        "-cf",
        str(tmp_path / "s.tar"),
        ".",
    ]
    subprocess.run(command, check=True)
    made = imported(tmp_path / "s.tar", tmp_path / "x.sqfs")
    assert content(made.file, "holed") == holed.read_bytes()
    assert (tmp_path / "s.tar").stat().st_size < 100_000
    assert made.bytes < 1_000_000


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([member("../x")], '"../x" leads out of the tree'),
        ([member("a/../../x")], "leads out of the tree"),
        ([member("/etc/passwd")], '"/etc/passwd" is an absolute name'),
        ([link("a/b", "../../x")], '"a/b" is a link to "../../x", out of the tree'),
        ([link("x", "y/../../z")], "out of the tree"),
        ([hard("x", "../y")], "leads out of the tree"),
        ([hard("x", "/etc/passwd")], "is an absolute name"),
        ([hard("x", "y"), member("y")], '"x" is a hard link to "y", which is not there'),
        ([folder("y"), hard("x", "y")], "which is a folder"),
        ([member("x"), member("x/y")], "stands below something that is no folder"),
        ([link("x", "x"), member("x/y")], "stands below something that is no folder"),
        ([member("n" * 256)], "over 255 bytes"),
        ([folder("d/" * 257)], "256 folders deep"),
        ([link("x", "y" * 5000)], "is a link of 5000 bytes"),
        ([member("x", type=b"M")], "is of a kind that no image holds"),
        ([member("x", type=tarfile.CHRTYPE, devmajor=5000)], "whose number Linux does not know"),
        ([member("x", uid=2**32 - 1)], "which Linux does not know"),
        ([member("x", capability=bytes(65))], "capability attribute that is none"),
        ([member(".", b"x")], "is the tree's root, and no folder"),
    ],
)
def test_a_member_that_cannot_be_is_told_by_name(members: list[Member], words: str, tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r"source\.tar: ") as told:
        imported_tar(tmp_path, members)
    assert words in str(told.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "source.tar"]


def test_a_bomb_of_members_or_of_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CliError, match=r'"9" is one member over 9 \(see --max-members\)'):
        imported_tar(tmp_path, [member(str(number)) for number in range(50)], limits=Limits(members=9))
    with pytest.raises(CliError, match=r"over 1 MiB \(see --max-mib\)"):
        imported_tar(tmp_path, [member("x", bytes(2**20 + 1))], limits=Limits(bytes=2**20))
    source = tmp_path / "bomb"
    for pack in PACKED.values():
        source.write_bytes(pack(bytes(70 << 20)))
        assert source.stat().st_size < 300_000
        with pytest.raises(CliError, match="spreads to more than 1 MiB"):
            imported(source, tmp_path / "x.sqfs", limits=Limits(bytes=2**20))


def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    """A pax head, a GNU long name and a chain of sparse maps are read into memory."""
    info = member("x")[0]
    for kind in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XGLTYPE):
        head = info.replace(deep=False)
        head.size = 100 << 20
        head.type = kind
        source = tmp_path / "s.tar"
        source.write_bytes(head.tobuf(tarfile.GNU_FORMAT))
        os.truncate(source, 101 << 20)
        with pytest.raises(CliError, match="a member's head has more than"):
            imported(source, tmp_path / "x.sqfs")


def test_a_hole_map_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """Extents that overlap or go backwards would read what belongs to another member."""
    for extents in ([(0, 600), (512, 100)], [(5000, 10)], [(600, 10), (0, 10)]):
        numbers = "\n".join(map(str, (len(extents), *(each for pair in extents for each in pair)))) + "\n"
        data = numbers.encode().ljust(512, b"\0") + bytes(sum(length for _, length in extents))
        info = member("x", data)[0]
        info.pax_headers = {
            "GNU.sparse.major": "1",
            "GNU.sparse.minor": "0",
            "GNU.sparse.name": "x",
            "GNU.sparse.realsize": "1000",
        }
        with pytest.raises(CliError, match='"x" has a map of its holes that cannot be'):
            imported_tar(tmp_path, [(info, data)])


def test_a_tar_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = tar(SMALL)
    source = tmp_path / "s.tar"
    for end in (0, 1, 511, *range(512, len(whole) - 1024 + 1, 256), len(whole) - 1024 + 511):
        source.write_bytes(whole[:end])
        with pytest.raises(CliError, match=r"s\.tar"):
            imported(source, tmp_path / "x.sqfs")
    source.write_bytes(whole[:-512])
    assert imported(source, tmp_path / "x.sqfs").hash == imported_tar(tmp_path, SMALL).hash


@pytest.mark.parametrize("ending", sorted(PACKED))
def test_packed_data_that_is_cut_off_anywhere_is_refused(ending: str, tmp_path: Path) -> None:
    whole = PACKED[ending](tar(SMALL))
    source = tmp_path / "s"
    for end in range(1, len(whole)):
        source.write_bytes(whole[:end])
        with pytest.raises(CliError):
            imported(source, tmp_path / "x.sqfs")
    for place in range(8, len(whole), 7):
        source.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            imported(source, tmp_path / "x.sqfs")
        except CliError:
            continue
        assert ending != "xz"  # xz checks every byte; gzip and zstd have some that mean nothing


@given(st.data())
def test_whatever_the_bytes_are_the_end_is_an_image_or_an_error(data: st.DataObject) -> None:
    """Bytes of heads are changed, and their sums set right, so that the lies are believed."""
    whole = bytearray(tar([*SMALL, link("l", "x"), member("p", b"p" * 700, capability=CAPABILITY)]))
    for _ in range(data.draw(st.integers(1, 6))):
        block = data.draw(st.integers(0, len(whole) // 512 - 1)) * 512
        place, length = data.draw(
            st.sampled_from(
                [
                    (0, 100),
                    (100, 8),
                    (108, 8),
                    (124, 12),
                    (136, 12),
                    (156, 1),
                    (157, 100),
                    (257, 8),
                    (329, 16),
                ]
            )
        )
        text = data.draw(st.binary(min_size=1, max_size=length))
        whole[block + place : block + place + len(text)] = text
        head = bytes(whole[block : block + 148]) + b" " * 8 + bytes(whole[block + 156 : block + 512])
        whole[block + 148 : block + 156] = b"%06o\0 " % sum(head)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "s.tar"
        source.write_bytes(whole)
        try:
            made = imported(source, Path(name) / "x.sqfs", limits=Limits(bytes=2**20))
        except CliError:
            assert [path.name for path in Path(name).iterdir()] == ["s.tar"]
        else:
            magic, inodes = struct.unpack("<4sI", made.file.read_bytes()[:8])
            assert (magic, inodes > 0) == (b"hsqs", True)
