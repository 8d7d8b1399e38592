"""The real casync takes images from a hub: byte for byte, by name or hash, with a token and not without."""

import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hub.chunks import caibx
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER
from tests.e2e.processes import House

CASYNC = shutil.which("casync")
pytestmark = pytest.mark.skipif(CASYNC is None, reason="needs casync (apt-get install casync)")

KIB = 1024


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with House(tmp_path) as house:
        yield house


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file with what compresses, what does not, and what stands in it twice."""
    made = random.Random(1)
    noise = made.randbytes(900 * KIB)
    text = b"".join(b"%d of %d\n" % (made.randrange(10**6), number) for number in range(60_000))
    path = tmp_path / "debian.img"
    path.write_bytes(noise + text + bytes(1000 * KIB) + noise + b"the end")
    return path


def casync(*words: str | Path, cwd: Path) -> "subprocess.CompletedProcess[str]":
    assert CASYNC is not None
    # It takes what stands in its cache folder for the truth, so each call gets an empty home.
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    return subprocess.run(
        [CASYNC, *map(str, words)], cwd=cwd, env=environ, capture_output=True, text=True, timeout=60
    )


def push(house: House, image: Path, name: str, token: str | None = None) -> None:
    command = [sys.executable, "-m", "hub.cli.main", "image", "push", str(image), "--name", name]
    command += ["--hub", house.url, "--token", token or house.token]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def store(house: House, user: str) -> str:
    """Where casync finds the images. `user`: as in a URL, `TOKEN` or `name:TOKEN`."""
    return f"http://{user}@127.0.0.1:{house.port}/casync"


def holds_nothing(out: Path) -> bool:
    """Whether no byte of an image arrived; casync makes the file before it asks for anything."""
    return not out.exists() or not out.read_bytes().strip(b"\0")


def token_of(house: House, kind: str, **scope: str) -> str:
    made = house.call("POST", "/tokens", {"name": f"{kind}-{len(scope)}", "kind": kind, "scope": scope})
    return str(made["token"])


def test_casync_extracts_an_image_by_its_name_byte_for_byte(
    house: House, image: Path, tmp_path: Path
) -> None:
    push(house, image, "debian-12")
    where = store(house, token_of(house, "read"))
    out = tmp_path / "out"
    done = casync("extract", f"--store={where}/store", f"{where}/debian-12.caibx", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == image.read_bytes()


def test_casync_finds_the_store_beside_an_index_that_is_asked_for_by_hash(
    house: House, image: Path, tmp_path: Path
) -> None:
    push(house, image, "debian-12")
    (known,) = house.call("GET", "/images")["images"]
    out = tmp_path / "out"
    where = store(house, f"ci:{house.token}")
    done = casync("extract", f"{where}/{known['hash']}.caibx", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == image.read_bytes()


@pytest.mark.parametrize("user", ["", "shnt_wrong@", "ci:shnt_wrong@"])
def test_casync_gets_nothing_without_a_token_that_is_known(
    house: House, image: Path, tmp_path: Path, user: str
) -> None:
    push(house, image, "debian-12")
    right = store(house, house.token)
    assert casync("extract", f"{right}/debian-12.caibx", tmp_path / "right", cwd=tmp_path).returncode == 0
    wrong = f"http://{user}127.0.0.1:{house.port}/casync"
    out = tmp_path / "out"
    done = casync("extract", f"--store={wrong}/store", f"{wrong}/debian-12.caibx", out, cwd=tmp_path)
    assert done.returncode != 0
    assert holds_nothing(out)
    # whoever has the index has no chunk yet
    done = casync("extract", f"--store={wrong}/store", f"{right}/debian-12.caibx", out, cwd=tmp_path)
    assert done.returncode != 0
    assert holds_nothing(out)


def test_casync_gets_nothing_of_another_owners_image(house: House, image: Path, tmp_path: Path) -> None:
    push(house, image, "debian-12", token_of(house, "images", owner="andy"))
    andy = store(house, token_of(house, "read", owner="andy"))
    bea = store(house, token_of(house, "read", owner="bea"))
    out = tmp_path / "out"
    assert casync("extract", f"{andy}/debian-12.caibx", tmp_path / "right", cwd=tmp_path).returncode == 0
    done = casync("extract", f"{bea}/debian-12.caibx", out, cwd=tmp_path)
    assert done.returncode != 0
    assert holds_nothing(out)
    done = casync("extract", f"--store={bea}/store", f"{andy}/debian-12.caibx", out, cwd=tmp_path)
    assert done.returncode != 0
    assert holds_nothing(out)


def test_an_index_is_written_as_casync_writes_it(image: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.caibx"
    done = casync("make", f"--store={tmp_path / 'store'}", made, image, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    theirs = made.read_bytes()
    chunks, before = [], 0
    for end, id_ in struct.iter_unpack("<Q32s", theirs[64:-40]):
        chunks.append((id_.hex(), end - before))
        before = end
    data, at = image.read_bytes(), 0
    for id_, size in chunks:
        assert caibx.id_of(data[at : at + size]) == id_
        at += size
    ours = caibx.index(chunks, CUTTERS[DEFAULT_CUTTER])
    flags = slice(16, 24)  # its own say how a folder was archived, too; of a blob only the digest counts
    assert int.from_bytes(theirs[flags], "little") & 0x2000000000000000
    assert (ours[: flags.start], ours[flags.stop :]) == (theirs[: flags.start], theirs[flags.stop :])
