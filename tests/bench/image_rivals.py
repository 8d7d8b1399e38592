"""The same images through others' programs: casync and borg on a local store, and the bare machine.

They read and write the local disk, with no server, no token and no fsync of what they keep; the hub
takes and gives everything through HTTP and makes it durable. That favours them.
"""

import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from blake3 import blake3

from tests.bench.spent import Spent, spend

PIECE = 2**20
TABLE = slice(64, -40)  # of a casync index: what lies between its headers and its tail


def read(path: Path) -> Iterator[bytes]:
    """The file in pieces."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


class Machine:
    """The physical limit: the least that any program must do with the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def reading(self, path: Path) -> float:
        """Seconds to read it, from the page cache."""
        return timed(lambda: sum(map(len, read(path))))

    def hashing(self, path: Path) -> float:
        """Seconds to read it and to work out its BLAKE3."""

        def work() -> None:
            hasher = blake3()
            for piece in read(path):
                hasher.update(piece)

        return timed(work)

    def writing(self, path: Path) -> float:
        """Seconds to copy it into a new file, durable at the end."""
        target = self._folder / "copy"

        def work() -> None:
            with target.open("wb", buffering=0) as out:
                for piece in read(path):
                    out.write(piece)
                os.fsync(out.fileno())

        try:
            return timed(work)
        finally:
            target.unlink(missing_ok=True)


def timed(work: Callable[[], object]) -> float:
    """Seconds that passed."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


class Casync:
    """`casync make` into a local store, `casync extract` out of it."""

    name = "casync"

    @staticmethod
    def missing() -> str | None:
        """What keeps it from being measured here."""
        return None if shutil.which("casync") else "apt-get install casync"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = folder / "store"

    def push(self, image: Path) -> tuple[Spent, int]:
        """What it cost, and the bytes that the store grew by."""
        before = _size(self._store)
        index = self._index(image)
        spent = spend(["casync", "make", f"--store={self._store}", index, image], cwd=self._folder)
        return spent, _size(self._store) - before

    def fetch(self, image: Path, seed: Path | None) -> tuple[Spent, int]:
        """What it cost, and the bytes of the chunks that the seed does not have."""
        out = self._folder / "out"
        words = [f"--seed={seed}"] if seed else []
        spent = spend(
            ["casync", "extract", f"--store={self._store}", *words, self._index(image), out], cwd=self._folder
        )
        demand_same(out, image)
        out.unlink()
        wanted = self._ids(image) - (self._ids(seed) if seed else set())
        return spent, sum((self._store / id_[:4] / f"{id_}.cacnk").stat().st_size for id_ in wanted)

    def _index(self, image: Path) -> Path:
        return self._folder / f"{image.stem}.caibx"

    def _ids(self, image: Path) -> set[str]:
        return {id_.hex() for _, id_ in struct.iter_unpack("<Q32s", self._index(image).read_bytes()[TABLE])}


class Borg:
    """`borg create` into a local repository without encryption, `borg extract` out of it."""

    name = "borg"

    @staticmethod
    def missing() -> str | None:
        """What keeps it from being measured here."""
        return None if shutil.which("borg") else "apt-get install borgbackup"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repository = folder / "repository"
        self._environ = {"BORG_BASE_DIR": str(folder), "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes"}
        self._borg("init", "--encryption=none", self._repository)

    def push(self, image: Path) -> tuple[Spent, int]:
        """What it cost, and the bytes that the repository grew by."""
        before = _size(self._repository)
        # Under one name, as an image that is built anew has; borg knows a file again by its path and times.
        shutil.copy(image, self._folder / "image")
        archive = f"{self._repository}::{image.stem}"
        spent = self._borg("create", "--compression=zstd,3", archive, "image")
        return spent, _size(self._repository) - before

    def fetch(self, image: Path, seed: Path | None) -> tuple[Spent, int] | None:
        """What it cost, and the compressed bytes of the archive. None: borg has no seeds."""
        if seed is not None:
            return None
        out = self._folder / "out"
        out.mkdir()
        archive = f"{self._repository}::{image.stem}"
        spent = self._borg("extract", archive, cwd=out)
        demand_same(out / "image", image)
        shutil.rmtree(out)
        return spent, self._compressed(archive)

    def _compressed(self, archive: str) -> int:
        said = self._borg("list", "--format={csize}{NL}", archive).said
        return sum(map(int, said.split()))

    def _borg(self, *words: str | Path, cwd: Path | None = None) -> Spent:
        return spend(["borg", *words], cwd=cwd or self._folder, environ=self._environ)


def demand_same(found: Path, image: Path) -> None:
    """Raises RuntimeError unless the file is the image, byte for byte: else a figure means nothing."""
    with found.open("rb") as one, image.open("rb") as other:
        while piece := one.read(PIECE):
            if piece != other.read(PIECE):
                raise RuntimeError(f"{found} is not {image}")
        if other.read(1):
            raise RuntimeError(f"{found} is cut off")


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
