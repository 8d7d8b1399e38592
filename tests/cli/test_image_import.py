import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from hub.cli import image, image_import, image_push
from hub.cli.errors import CliError, Usage
from hub.cli.image_import_tree import Limits
from hub.cli.login import Target
from hub.cli.words import run
from tests.cli.image_sources import (
    PACKED,
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
    write_folder,
)

A_SYSTEM = (
    folder("bin", uid=3, gid=4),
    member("bin/sh", b"\x7fELF" + bytes(range(200)), mode=0o4755, mtime=1_600_000_000, uid=1000, gid=2000),
    hard("bin/dash", "bin/sh"),
    link("bin/bash", "dash"),
    member("etc/big", os.urandom(300_000), mtime=1_700_000_000),
    member("etc/empty"),
    folder("tmp", mode=0o1777),
    member("lib/null", type=b"3", devmajor=1, devminor=3, mode=0o666),
    member("lib/disk", type=b"4", devmajor=259, devminor=4097, mode=0o660, gid=6),
    member("lib/pipe", type=b"6", mode=0o600),
)


def command(*words: object) -> None:
    """`image import WORDS` as the command line carries it out."""
    run(image.app, ["import", *map(str, words)], lambda: "")


def left_in(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach and a plain user may write in."""
    with tempfile.TemporaryDirectory(prefix="shunter-test-", dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o777)
        yield place


@pytest.fixture
def plain_user(open_folder: Path) -> Iterator[None]:
    """What the test does is done as a user without rights, if it was root so far."""
    write_folder(open_folder / "warm", {"bin/sh": b""})
    imported(open_folder / "warm", open_folder / "warm.sqfs")  # modules load where only root may read
    (open_folder / "warm.sqfs").unlink()
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


# -- the same source, the same bytes --------------------------------------------------------------


@given(st.randoms(use_true_random=False), st.lists(st.integers(-5, 2**33), min_size=10, max_size=10))
def test_order_and_times_of_members_do_not_count(shuffler: random.Random, times: list[int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        first = imported_tar(Path(name), A_SYSTEM)
        links = [each for each in A_SYSTEM if each[0].islnk()]
        others = [each for each in A_SYSTEM if not each[0].islnk()]
        shuffler.shuffle(others)
        # A folder may come behind what it holds, and may be told only by that; a hard link may not.
        shuffled = [
            (info.replace(mtime=mtime, uname="root", gname="adm", deep=False), data)
            for (info, data), mtime in zip([*others, *links], times, strict=True)
        ]
        assert imported_tar(Path(name), shuffled).hash == first.hash


def test_order_and_times_on_disk_do_not_count(tmp_path: Path) -> None:
    files = {f"d{number % 7}/f{number}": os.urandom(number * 50) for number in range(60)}
    one = write_folder(tmp_path / "one", files)
    two = write_folder(tmp_path / "two", dict(reversed(files.items())))
    for number, path in enumerate(sorted(two.rglob("*"))):
        os.utime(path, (number, number * 1000))
    first = imported(one, tmp_path / "one.sqfs", compress=True)
    second = imported(two, tmp_path / "two.sqfs", compress=True)
    assert first.file.read_bytes() == second.file.read_bytes()
    assert first.hash == second.hash == blake3(first.file.read_bytes()).hexdigest()
    assert first.bytes == first.file.stat().st_size


def test_the_hash_of_a_known_source_never_changes(tmp_path: Path) -> None:
    """A hub that holds an image holds it still after an update of the command line."""
    members = [
        folder("bin"),
        member("bin/sh", b"one" * 100_000, mode=0o755, uid=1),
        hard("bin/dash", "bin/sh"),
        link("bin/bash", "sh"),
        member("dev-null", type=b"3", devmajor=1, devminor=3),
    ]
    found = imported_tar(tmp_path, members)
    assert found.hash == "d7c5334d891d477a9d928446a9f6784ee530643704c4e4bab5b0a25c09868c46"


@pytest.mark.parametrize("ending", sorted(PACKED))
def test_a_packed_tar_gives_what_the_plain_one_gives(ending: str, tmp_path: Path) -> None:
    plain = imported_tar(tmp_path, A_SYSTEM)
    source = tmp_path / "named-without-an-ending"
    source.write_bytes(PACKED[ending](tar(A_SYSTEM)))
    assert imported(source, tmp_path / "other.sqfs").hash == plain.hash


def test_two_packed_members_with_padding_are_one_source(tmp_path: Path) -> None:
    plain = tar(A_SYSTEM)
    for pack in PACKED.values():
        source = tmp_path / "two"
        source.write_bytes(pack(plain[:5000]) + bytes(512) + pack(plain[5000:]) + bytes(512))
        assert imported(source, tmp_path / "two.sqfs").hash == imported_tar(tmp_path, A_SYSTEM).hash


@needs_squashfs
def test_times_are_clamped_to_the_epoch_and_older_ones_stay(tmp_path: Path) -> None:
    found = listing(imported_tar(tmp_path, A_SYSTEM, epoch_s=1_650_000_000).file)
    assert found["bin/sh"].time == "2020-09-13 12:26"
    assert found["etc/big"].time == "2022-04-15 05:20"
    assert found[""].time == found["tmp"].time == "1970-01-01 00:00"


def test_source_date_epoch_is_heard_and_the_option_outranks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "s.tar"
    source.write_bytes(tar(A_SYSTEM))

    def hashed(*words: object) -> str:
        command(source, "-o", tmp_path / "o", "--json", *words)
        return str(json.loads(capsys.readouterr().out)["hash"])

    zero, late = hashed(), hashed("--epoch", 1_650_000_000)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1650000000")
    assert zero != late == hashed()
    assert hashed("--epoch", 0) == zero
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(Usage, match="SOURCE_DATE_EPOCH=yesterday"):
        hashed()


@needs_squashfs
def test_a_plain_user_makes_the_image_that_root_makes(
    tmp_path: Path, open_folder: Path, plain_user: None
) -> None:
    source = open_folder / "s.tar"
    source.write_bytes(tar(A_SYSTEM))
    made = imported(source, open_folder / "plain.sqfs")
    found = listing(made.file)
    assert found[""].owner == "0/0"
    assert found["bin/sh"].owner == "1000/2000"
    assert found["lib/null"].mode == "crw-rw-rw-"
    if os.getuid() == 0:
        os.seteuid(0)
        assert imported(source, tmp_path / "root.sqfs").hash == made.hash


def test_a_file_that_may_not_be_read_is_an_error_and_no_gap(open_folder: Path, plain_user: None) -> None:
    write_folder(open_folder / "s", {"etc/shadow": b"x", "etc/other": b"y"})
    (open_folder / "s/etc/shadow").chmod(0)
    with pytest.raises(CliError, match=r"etc/shadow: cannot be read: Permission denied"):
        imported(open_folder / "s", open_folder / "x.sqfs")
    (open_folder / "s/etc").chmod(0)
    with pytest.raises(CliError, match=r"s/etc: cannot be read: Permission denied"):
        imported(open_folder / "s", open_folder / "x.sqfs")
    (open_folder / "s/etc").chmod(0o755)
    assert left_in(open_folder) == ["s", "warm"]


# -- the command ----------------------------------------------------------------------------------


def test_json_names_the_file_and_its_hash_and_nothing_else_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "s.tar"
    source.write_bytes(tar([*A_SYSTEM, member("var/lib/dpkg/arch", b"arm64\n")]))
    command(source, "--output", tmp_path / "o.sqfs", "--json")
    out, err = capsys.readouterr()
    written = (tmp_path / "o.sqfs").read_bytes()
    assert json.loads(out) == {
        "file": str(tmp_path / "o.sqfs"),
        "hash": blake3(written).hexdigest(),
        "bytes": len(written),
        "arch": "aarch64",
    }
    assert not {"{", "}"} & set(err)


def test_with_a_name_it_is_pushed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wishes = []

    def push(target: Target, wish: image_push.Wish) -> image_push.Pushed:
        wishes.append((target.url, wish, wish.file.read_bytes()[:4]))
        place = {"hash": "h"}
        return image_push.Pushed(
            place=place, name={"name": "n"}, chunks=9, sent_chunks=2, sent_bytes=20, wire_bytes=1024
        )

    monkeypatch.setattr(image_push, "push", push)
    place = write_folder(tmp_path / "s", {"var/lib/dpkg/arch": b"amd64"})
    words = (place, "-o", tmp_path / "x", "--name", "debian-12", "--owner", "andy", "--hub", "http://h:1")
    command(*words, "--json")
    assert json.loads(capsys.readouterr().out)["pushed"]["sent"]["chunks"] == 2
    command(*words)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "pushed as debian-12",
        "saved 75 %: 2 of 9 chunks sent, 1.0 kB",
    ]
    wish = image_push.Wish(file=tmp_path / "x", name="debian-12", arch="x86_64", owner="andy")
    assert wishes == [("http://h:1", wish, b"hsqs")] * 2


def test_without_a_terminal_a_line_tells_each_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "My System", {"bin/x": b"x"})
    monkeypatch.chdir(tmp_path / "home")
    command(tmp_path / "My System")
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in err.splitlines()] == ["reading", "writing", "hashing"]
    assert out.startswith("My-System.sqfs: 4,096 bytes, architecture unknown\nhash ")
    assert "note: nothing tells its architecture" in out
    assert (tmp_path / "home/My-System.sqfs").exists()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("a/debian.tar.zst", "debian.sqfs"),
        ("x.oci.tar", "x.sqfs"),
        ("debian:bookworm", "debian-bookworm.sqfs"),
        ("-", "image.sqfs"),
        ("/", "image.sqfs"),
        (".tar", "image.sqfs"),
    ],
)
def test_the_output_is_named_like_the_source(source: str, name: str) -> None:
    assert image_import.default_output(source) == Path(name)


def test_what_stood_there_stays_until_the_new_image_is_whole(tmp_path: Path) -> None:
    output = tmp_path / "image.sqfs"
    output.write_bytes(b"before")
    with pytest.raises(CliError):
        imported_tar(tmp_path, [member("../x")])
    assert output.read_bytes() == b"before"
    imported_tar(tmp_path, A_SYSTEM)
    assert output.read_bytes()[:4] == b"hsqs"
    assert output.stat().st_mode & 0o777 == 0o666 & ~image_import._umask()
    assert left_in(tmp_path) == ["home", "image.sqfs", "source.tar"]


def test_words_that_cannot_be_meant_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s/sub").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    for words, fault in (
        ((tmp_path / "none",), "there is no such file or folder"),
        ((tmp_path / "pipe",), "neither a file nor a folder"),
        ((tmp_path / "s", "-o", tmp_path / "s/sub/x"), "stands within"),
        ((tmp_path / "s", "-o", tmp_path / "s"), "is a folder"),
        ((tmp_path / "s", "-o", tmp_path / "none/x"), "there is no such folder"),
        ((tmp_path / "s", "-o", tmp_path / "x", "--arch", "x86-64"), "is no architecture"),
        ((tmp_path / "s", "-o", tmp_path / "x", "--owner", "andy"), "see --name"),
        ((tmp_path / "s", "-o", tmp_path / "x", "--name", "n", "--hub", "ftp://x"), "ftp"),
        ((tmp_path / "s", "-o", tmp_path / "x", "--include", "git"), "--include is for debian:SUITE"),
    ):
        with pytest.raises(Usage, match=fault):
            command(*words)
    assert left_in(tmp_path) == ["home", "pipe", "s"]


def test_a_disk_that_cannot_take_it_is_told_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    source = tmp_path / "s.tar"
    source.write_bytes(tar(A_SYSTEM))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(CliError, match="File too large"):
            imported(source, tmp_path / "x.sqfs")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert left_in(tmp_path) == ["home", "s.tar"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_nothing_is_left(number: signal.Signals, tmp_path: Path) -> None:
    code = "import tests.cli.test_image_import as t; t.command('-', '-o', 'x.sqfs')"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, env=environ, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        process.stdin.write(tar(A_SYSTEM))  # without an end: it waits for more
        process.stdin.flush()
        until = time.monotonic() + 60
        while not list(tmp_path.glob(".shunter-import-*/input")):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(number)
        process.stdin.close()
        process.stdin = None
        process.communicate(timeout=60)
    assert process.returncode != 0
    assert left_in(tmp_path) == ["home"]


def test_a_tar_comes_through_a_pipe(tmp_path: Path) -> None:
    code = "import tests.cli.test_image_import as t; t.command('-', '-o', 'x.sqfs', '--json')"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environ,
        input=PACKED["gz"](tar(A_SYSTEM)),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["hash"] == imported_tar(tmp_path, A_SYSTEM).hash


# -- folders --------------------------------------------------------------------------------------


@needs_squashfs
def test_a_folder_keeps_modes_links_and_what_its_files_share(tmp_path: Path) -> None:
    place = write_folder(tmp_path / "s", {"bin/sh": b"sh", "dev/null": b"no device", "etc/x": b"x"})
    (place / "bin/sh").chmod(0o6711)
    (place / "bin/dash").hardlink_to(place / "bin/sh")
    (place / "bin/bash").symlink_to("/bin/dash")
    os.mkfifo(place / "pipe", 0o640)
    made = imported(place, tmp_path / "x.sqfs").file
    found = listing(made)
    assert set(found) == {"", "bin", "bin/sh", "bin/dash", "bin/bash", "dev", "etc", "etc/x", "pipe"}
    assert found["bin/sh"].mode == found["bin/dash"].mode == "-rws--s--x"
    assert found["bin/bash"].target == "/bin/dash"
    assert found["pipe"].mode.startswith("p")
    assert content(made, "bin/dash") == b"sh"


def test_a_socket_is_left_out_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    place = write_folder(tmp_path / "s", {"x": b"x"})
    monkeypatch.chdir(place)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        made = imported(place, tmp_path / "x.sqfs")
    assert made.notes[0].startswith("1 sockets are left out")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    place = write_folder(tmp_path / "s", {"etc/x": b"x"})
    (place / "etc/out").symlink_to("../../home")
    with pytest.raises(CliError, match=r'"etc/out" is a link to "../../home", out of the tree'):
        imported(place, tmp_path / "x.sqfs")


def test_a_folder_over_the_limits_is_refused(tmp_path: Path) -> None:
    place = write_folder(tmp_path / "s", {"a": b"x" * 10, "b": b"x" * 10})
    with pytest.raises(CliError, match="--max-members"):
        imported(place, tmp_path / "x.sqfs", limits=Limits(members=2))
    with pytest.raises(CliError, match="--max-mib"):
        imported(place, tmp_path / "x.sqfs", limits=Limits(bytes=19))
    assert imported(place, tmp_path / "x.sqfs", limits=Limits(members=3, bytes=20)).bytes == 4096


# -- Debian suites --------------------------------------------------------------------------------


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in on PATH that notes its words and writes a tar."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "made.tar").write_bytes(tar([member("var/lib/dpkg/arch", b"arm64\n"), *A_SYSTEM]))
    program = tmp_path / "programs/mmdebstrap"
    program.write_text(
        f'#!/bin/sh\necho "$SOURCE_DATE_EPOCH $@" >{tmp_path}/words\n'
        f'[ "$3" != fail ] || {{ echo "E: no such suite" >&2; exit 3; }}\n'
        f'for last; do :; done; cp {tmp_path}/made.tar "$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return tmp_path / "words"


@needs_squashfs
def test_a_suite_is_built_by_mmdebstrap(tmp_path: Path, mmdebstrap: Path) -> None:
    made = imported(
        "debian:bookworm", tmp_path / "x.sqfs", arch="aarch64", includes=("git,make", "?essential")
    )
    epoch, *words = mmdebstrap.read_text().split()
    assert words[:5] == [
        "--variant=minbase",
        "--format=tar",
        "--include=git,make,?essential",
        "--architectures=arm64",
        "bookworm",
    ]
    assert int(epoch) > 86400  # day 0 of a password means that it must be changed
    assert made.arch == "aarch64"
    assert "bin/sh" in names(made.file)


def test_a_suite_that_cannot_be_built_is_told_in_mmdebstraps_words(tmp_path: Path, mmdebstrap: Path) -> None:
    with pytest.raises(CliError, match="mmdebstrap failed: E: no such suite"):
        imported("debian:fail", tmp_path / "x.sqfs")
    for words, fault in (
        ({"source": "debian:--hook=x"}, "is no name of a suite"),
        ({"source": "debian:sid", "includes": ("--x",)}, "is no name of a package"),
        ({"source": "debian:sid", "arch": "vax"}, "Debian has no such architecture"),
    ):
        with pytest.raises(Usage, match=fault):
            imported(output=tmp_path / "x.sqfs", **words)
    assert left_in(tmp_path) == ["home", "made.tar", "programs", "words"]


def test_without_mmdebstrap_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CliError, match="apt-get install mmdebstrap"):
        imported("debian:bookworm", tmp_path / "x.sqfs")
