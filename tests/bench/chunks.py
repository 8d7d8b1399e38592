"""Chunks: how fast a file is cut, hashed, encoded and checked, beside reading it.

    python -m tests.bench.chunks [FILE]

Without FILE the input is made of what stands under /usr, one file behind the other, up to 256 MiB: real
programs and text, as an image holds them. Each figure is the best of three rounds in MB/s of raw bytes,
its ratio to reading the same file from the page cache in the same run, and MB a second of processor time,
which other work on the machine disturbs least. What two threads gain shows only where two processors are
free. Ratios travel between machines; absolute figures do not.
"""

import json
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from blake3 import blake3

from hub.chunks.chunk import decode, encode, name_of
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER, cut, cutter, require_native
from hub.chunks.frames import END, Frames, frame
from hub.chunks.manifest import Manifest
from hub.chunks.whole import describe, verify, verify_encoded

BYTES = 256 * 2**20
PIECE = 2**20
ROUNDS = 3
THREADS = 2
Work = Callable[[], object]


def gather(target: Path) -> None:
    """Fill `target` with files of this machine, in the order of their paths."""
    left = BYTES
    with target.open("wb") as out:
        for source in sorted(Path("/usr").rglob("*")):
            if left == 0:
                break
            if source.is_symlink() or not source.is_file():
                continue
            try:
                left -= out.write(source.read_bytes()[:left])
            except OSError:  # gone meanwhile, or not for us to read
                continue


def read(path: Path) -> Iterator[bytes]:
    """The file in pieces."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


def spend(items: Iterable[object]) -> None:
    """Take all of `items`, and keep none."""
    deque(items, maxlen=0)


def cutting(path: Path, name: str) -> Work:
    """Cut the file, chunk by chunk."""

    def work() -> None:
        with path.open("rb", buffering=0) as file:
            spend(cut(cutter(name), file))

    return work


def in_threads(do: Callable[[bytes], bytes], raws: list[bytes]) -> Work:
    """Do it to all, in two threads."""

    def work() -> None:
        with ThreadPoolExecutor(THREADS) as pool:
            lots = [raws[at : at + 16] for at in range(0, len(raws), 16)]
            spend(pool.map(lambda lot: [do(raw) for raw in lot], lots))

    return work


def describing(path: Path) -> tuple[str, Manifest]:
    """The file's name and manifest."""
    with path.open("rb", buffering=0) as file:
        return describe(file, cutter(DEFAULT_CUTTER))


def hashing(path: Path) -> str:
    """The file's name, from pieces."""
    hasher = blake3()
    for piece in read(path):
        hasher.update(piece)
    return hasher.hexdigest()


def framing(bodies: list[tuple[str, bytes]]) -> None:
    """Write the stream of all bodies, and read it again in pieces of a socket's size."""
    for start in range(0, len(bodies), 64):
        stream = b"".join(frame(name, body) for name, body in bodies[start : start + 64]) + END
        frames = Frames()
        for at in range(0, len(stream), 65536):
            frames.feed(stream[at : at + 65536])
        frames.close()


def works(path: Path) -> dict[str, Work]:
    """What is measured, by name; reading comes first."""
    chosen = cutter(DEFAULT_CUTTER)
    name, manifest = describing(path)
    with path.open("rb") as file:
        raws = list(cut(chosen, file))
    bodies = [(name_of(raw), encode(raw)) for raw in raws]
    encoded = sum(len(body) for _, body in bodies)
    print(f"{manifest.bytes / 1e6:.0f} MB, {len(raws)} chunks, encoded {encoded / manifest.bytes:.0%}")

    def opened() -> Iterator[bytes]:
        for (chunk, size), (_, body) in zip(manifest.chunks, bodies, strict=True):
            yield decode(body, name=chunk, bytes_=size, max_bytes=chosen.max_bytes)

    return {
        "read": lambda: spend(read(path)),
        **{f"cut, {each}": cutting(path, each) for each in CUTTERS},
        "hash the whole": lambda: hashing(path),
        "hash each chunk": lambda: [name_of(raw) for raw in raws],
        "describe (cut, hash both, two threads)": lambda: describing(path),
        "encode": lambda: [encode(raw) for raw in raws],
        "encode, two threads": in_threads(encode, raws),
        "decode and check each name": lambda: spend(opened()),
        "decode and check each name, then the whole": lambda: verify(
            opened(), name=name, bytes_=manifest.bytes
        ),
        "verify_encoded (the same, in threads)": lambda: verify_encoded(bodies, manifest, name),
        "frame and unframe": lambda: framing(bodies),
        "the manifest to JSON and back": lambda: Manifest.from_json(manifest.to_json()),
    }


def measure(work: Work) -> tuple[float, float]:
    """Seconds that passed, and of processor time: the best of the rounds, since what disturbs adds."""
    passed, used = float("inf"), float("inf")
    for _ in range(ROUNDS):
        start, start_used = time.perf_counter(), time.process_time()
        work()
        passed = min(passed, time.perf_counter() - start)
        used = min(used, time.process_time() - start_used)
    return passed, used


def main() -> int:
    """Run all, print a table, and the same as JSON on the last line."""
    for name in CUTTERS:
        require_native(cutter(name))
    with tempfile.TemporaryDirectory(prefix="shunter-bench-") as folder:
        path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(folder) / "image"
        if len(sys.argv) == 1:
            gather(path)
        size, found = path.stat().st_size, {}
        for what, work in works(path).items():
            passed, used = measure(work)
            found[what] = size / passed / 1e6
            print(
                f"  {what:<44} {found[what]:6.0f} MB/s  {found[what] / found['read']:6.3f} of reading"
                f"  {size / used / 1e6:6.0f} MB/s of processor"
            )
    print(json.dumps({what: round(figure) for what, figure in found.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
