"""What is said with a guest, against one that follows a script: an enemy, or one that dies."""

import io
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.sandbox import microvm_guest
from runner.sandbox.base import Command, SandboxBroken, Stop
from runner.sandbox.microvm import _Meter, launcher, write_tar
from runner.sandbox.microvm_guest import Port
from runner.sandbox.microvm_said import KILL_S, TOKEN_S, Ending, Output, Taken
from runner.unpack import BadPack, unpack_tar
from tests.runner.guests import Scripted

TOKEN = b"0123456789abcdef0123456789abcdef"


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.close()


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


@given(
    st.lists(st.sampled_from([b"x", TOKEN[:7], TOKEN[:31], b"0", TOKEN[5:], b"\xff\n"])),
    st.binary(max_size=40),
    st.lists(st.integers(1, 40)),
)
def test_a_steps_output_is_what_it_wrote_however_it_is_cut_up(
    parts: list[bytes], after: bytes, cuts: list[int]
) -> None:
    wrote = b"".join(parts)
    if TOKEN in wrote + TOKEN[:-1]:
        wrote = b""
    heard = bytearray()
    output = Output(TOKEN, heard.extend)
    stream = wrote + TOKEN + after
    for cut in [*cuts, len(stream)]:
        piece, stream = stream[:cut], stream[cut:]
        if piece:
            output.take(piece)
    assert output.ended
    assert bytes(heard) == wrote + after


def test_output_is_passed_on_at_once_unless_it_may_be_the_token() -> None:
    heard = bytearray()
    output = Output(TOKEN, heard.extend)
    output.take(b"compiling ... ")
    assert heard == b"compiling ... "
    output.take(b"0123")
    assert heard == b"compiling ... "
    output.flush()
    assert heard == b"compiling ... 0123"


def test_a_step_is_asked_first_then_killed_and_never_waited_for_without_a_bound() -> None:
    stop = Stop()
    ending = Ending(100.0)
    assert ending.next(10.0, stop, 5.0, told=False) is None
    stop.ask("canceled")
    said: list[Literal["term", "kill", "over"] | None] = [
        ending.next(now, stop, 5.0, told=False) for now in (20.0, 24.9, 25.0, 25.1, 25.0 + KILL_S)
    ]
    assert said == ["term", None, "kill", None, "over"]


def test_a_token_that_never_comes_is_not_waited_for_without_a_bound() -> None:
    ending = Ending(1e9)
    assert ending.next(10.0, Stop(), 5.0, told=True) is None
    assert ending.next(10.0 + TOKEN_S - 0.1, Stop(), 5.0, told=True) is None
    assert ending.next(10.0 + TOKEN_S, Stop(), 5.0, told=True) == "over"


def test_a_step_runs_and_its_code_and_kills_are_told(scripted: Scripted) -> None:
    heard = bytearray()

    def part() -> None:
        line, _, rest = scripted.hear().partition(b"\n")
        word, token, first, second = line.split()
        assert (word, rest) == (b"run", b"launchscript")
        assert (int(first), int(second)) == (6, 6)
        scripted.say("use 5000000 100 60 50 1024")
        scripted.ends["out"].sendall(b"wrote" + token)
        scripted.say("started\nexit 3 2")

    thread = scripted.play(part)
    assert scripted.guest.run(b"launch", b"script", heard.extend, Stop(), soon(), 1.0) == (3, 2)
    thread.join()
    assert heard == b"wrote"
    assert scripted.used == [Taken(memory_bytes=5_000_000, disk_bytes=40 * 1024, room_bytes=50 * 1024)]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("x" * 5000, "no line"),
        ("exit many 0", "no exit code"),
        ("exit 1", "no exit code"),
        ("use 1 2 3", "no measure"),
        (f"use 1 2 3 4 {2**60}", "no measure"),
        ("fail it \x1b[31mcannot", "the guest: it [31mcannot"),
    ],
)
def test_what_a_guest_says_is_never_taken_for_more_than_it_is(
    scripted: Scripted, said: str, words: str
) -> None:
    scripted.say(said)
    with pytest.raises(SandboxBroken) as caught:
        scripted.guest.run(b"", b"", lambda piece: None, Stop(), soon(), 1.0)
    assert words in str(caught.value)


def test_lines_that_nobody_asked_for_are_not_kept_without_a_bound(scripted: Scripted) -> None:
    scripted.say("\n".join(["chatter"] * 5000))
    scripted.say("ready")
    until = soon()
    while time.monotonic() < until and scripted.guest.look([], [], 0.1, None) == set():
        if len(scripted.guest._lines) >= 100:
            break
    assert len(scripted.guest._lines) == 100


def test_a_guest_that_ends_by_itself_is_told_with_its_last_words(scripted: Scripted) -> None:
    scripted.print("Booting\nKernel panic - not syncing\n\x1b[0m\n\n")
    scripted.die(1)
    with pytest.raises(SandboxBroken, match=r"QEMU: 1\): \[0m|Kernel panic"):
        scripted.guest.wait_ready(None, soon())


def test_a_guest_that_does_not_boot_or_obey_is_given_up_in_time(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SandboxBroken, match="did not boot in time"):
        scripted.guest.wait_ready(None, soon(0.1))
    monkeypatch.setattr(microvm_guest, "KILL_S", 0.1)
    assert scripted.guest.kill() is False


def test_a_job_that_is_to_end_at_once_waits_for_nothing(scripted: Scripted) -> None:
    stop = Stop()
    stop.ask("released")
    code, kills = scripted.guest.run(b"", b"", lambda piece: None, stop, soon(), 60.0)
    assert (code, kills) == (137, None)


def test_a_guest_that_takes_no_more_of_the_workspace_ends_the_sending(
    scripted: Scripted, tmp_path: Path
) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(50 * 2**20)  # more than any socket holds

    def part() -> None:
        assert scripted.hear() == b"fill\n"
        scripted.say("filled 1")

    scripted.play(part)
    assert scripted.guest.fill(lambda port: write_tar(tmp_path, port), Stop(), soon()) == 1


def test_what_a_guest_packs_is_unpacked_within_the_folder_and_nowhere_else(
    scripted: Scripted, tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, kind, link in (
            ("good/file", tarfile.REGTYPE, ""),
            ("../above", tarfile.REGTYPE, ""),
            (str(tmp_path / "absolute"), tarfile.REGTYPE, ""),
            ("out", tarfile.SYMTYPE, str(tmp_path)),
            ("out/through", tarfile.REGTYPE, ""),
            ("secret", tarfile.LNKTYPE, "../../etc/passwd"),
            ("out2", tarfile.LNKTYPE, "out"),
            ("device", tarfile.CHRTYPE, ""),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("last", tarfile.REGTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, link, 0o4755
            info.size = 4 if kind == tarfile.REGTYPE else 0
            tar.addfile(info, io.BytesIO(b"data"))

    def part() -> None:
        assert scripted.hear() == b"pack\n"
        scripted.ends["pack"].sendall(packed.getvalue())
        scripted.say("packed 0")

    left_out: list[str] = []
    scripted.play(part)

    def read(port: Port) -> None:
        unpack_tar(port, target, spare_bytes=0, left_out=left_out.append)

    assert scripted.guest.pack(read, Stop(), soon()) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"target"}
    assert {str(path.relative_to(target)) for path in target.rglob("*") if not path.is_dir()} >= {
        "good/file",
        "last",
    }
    assert (target / "out").readlink() == tmp_path
    assert (target / "good/file").stat().st_mode & 0o7777 == 0o755
    assert len(left_out) == 6


def test_a_guest_that_packs_without_end_is_stopped(scripted: Scripted, tmp_path: Path) -> None:
    info = tarfile.TarInfo("sparse")
    info.size = 2**40

    def part() -> None:
        scripted.hear()
        scripted.ends["pack"].sendall(info.tobuf())

    scripted.play(part)

    def read(port: Port) -> None:
        unpack_tar(port, tmp_path, max_bytes=2**20, spare_bytes=0, left_out=lambda said: None)

    with pytest.raises(BadPack, match="more than 1048576 bytes"):
        scripted.guest.pack(read, Stop(), soon())


def test_a_launcher_keeps_every_word_as_it_was() -> None:
    env = {"A": "'; rm -rf / #\n$(id)`id`\"", "B": "\udcff"}
    text = launcher(Command(argv=("/bin/echo", "$HOME"), env=env))
    assert b"\"'\"'; rm -rf / #\n$(id)`id`\"'" in text
    assert b"B=\xff" in text
    assert text.endswith(b"sh /bin/echo '$HOME'\n")


def test_a_kill_for_want_of_memory_counts_for_its_step_and_once() -> None:
    meter = _Meter()
    meter.note(Taken(memory_bytes=0, disk_bytes=2**20, room_bytes=64 * 2**20))
    meter.begin_step()
    meter.note_kills(1, 96)
    assert (meter.killed, meter.usage.peak_memory_mib) == (True, 96)
    meter.begin_step()
    meter.note_kills(1, 96)
    assert not meter.killed
    meter.begin()  # another guest counts from nothing
    meter.note_kills(1, 96)
    assert meter.killed


def test_a_disk_that_was_full_for_a_moment_was_full_for_its_step() -> None:
    meter = _Meter()
    meter.note(Taken(memory_bytes=0, disk_bytes=2**20, room_bytes=64 * 2**20))
    meter.begin_step()
    meter.note(Taken(memory_bytes=0, disk_bytes=65 * 2**20, room_bytes=0))
    meter.note(Taken(memory_bytes=0, disk_bytes=2**20, room_bytes=64 * 2**20))
    assert meter.was_full
    assert (meter.usage.disk_mib, meter.usage.peak_disk_mib) == (0, 64)
    meter.begin_step()
    assert not meter.was_full
