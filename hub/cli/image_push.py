"""An image file brought to the hub: cut and named in one pass, then only what the hub lacks is sent.

The invariant: the whole may be repeated after a failure at any place, and goes on where it stood: what
has arrived is not asked for again. The name is put last, so that it never points to half an image.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hub.carry.link import Denied
from hub.carry.transfer import ASK_CHUNKS, BATCH_BYTES, Moved, Transfer
from hub.chunks.chunk import name_of
from hub.chunks.cutter import Cutter, SlowCutter, cutter
from hub.chunks.manifest import BadManifest, Manifest
from hub.chunks.whole import describe
from hub.cli.client import segment
from hub.cli.errors import CliError, Usage
from hub.cli.image_progress import Advance, progress
from hub.cli.image_transfer import transferring
from hub.cli.login import Target

Json = dict[str, Any]

ROUNDS = 3  # chunks can be lost between the question and the manifest; more often is no accident
CHECK_BYTES_PER_S = 50e6  # the hub checks the whole before it answers: the slowest disk to wait for
LEAST_CHECK_S = 120.0
NOT_WHOLE = (400, 409, 422)  # what a hub says to a manifest whose chunks it has not all


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to push. `name`: what shall point to it; `arch` None: not known; `owner` None: for all."""

    file: Path
    name: str | None = None
    arch: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What came of it. `place` and `name`: as the API gave them; `name` None: none was asked for."""

    place: Json
    name: Json | None
    chunks: int  # distinct ones of the image
    sent_chunks: int
    sent_bytes: int  # raw
    wire_bytes: int

    def json(self) -> Json:
        """What the API gave, with the figures beside it."""
        sent = {"chunks": self.sent_chunks, "of": self.chunks, "bytes": self.sent_bytes}
        named = {} if self.name is None else {"name": self.name}
        return {**self.place, **named, "sent": {**sent, "wire_bytes": self.wire_bytes}}


def push(target: Target, wish: Wish) -> Pushed:
    """Bring the file to the hub. Raises CliError."""
    with _opened(wish.file) as (file, length), transferring(target) as transfer:
        settings = settings_of(transfer)
        if length > settings.get("max_image_bytes", length):
            raise Usage(f"{wish.file} has {length} bytes; the hub takes {settings['max_image_bytes']}")
        with progress(f"cutting {wish.file.name}", length) as advance:
            name, manifest = described(file, cutter_of(settings), advance, arch=wish.arch)
        chunks = _Chunks(file, wish.file, manifest)
        sent = _Sent()
        place = _deliver(transfer, wish, name, manifest, chunks, sent, settings)
        named = None
        if wish.name is not None:
            body = {"hash": name, "owner": wish.owner}
            answer = transfer.ask("PUT", f"/images/names/{segment(wish.name)}", json.dumps(body).encode())
            named = object_of(answer)
    return Pushed(
        place=place,
        name=named,
        chunks=len(manifest.names),
        sent_chunks=sent.chunks,
        sent_bytes=sent.raw_bytes,
        wire_bytes=sent.wire_bytes,
    )


def settings_of(transfer: Transfer) -> Json:
    """The hub's cutter and bounds."""
    return object_of(transfer.ask("GET", "/images/settings"))


def cutter_of(settings: Mapping[str, Any]) -> Cutter:
    """The hub's cutter. Raises CliError where this version has none such: it would share no chunk."""
    try:
        found = cutter(str(settings.get("cutter")))
    except ValueError as error:
        raise CliError(f"the hub cuts images otherwise than this shunter can: {error}; upgrade it") from None
    told = tuple(settings.get(f"{which}_bytes") for which in ("min", "average", "max"))
    if told != (found.min_bytes, found.average_bytes, found.max_bytes):
        raise CliError(f"the hub's {found.name} cuts into other sizes than this shunter's; upgrade it")
    return found


def described(
    file: BinaryIO, by: Cutter, advance: Advance, *, arch: str | None = None
) -> tuple[str, Manifest]:
    """Name and manifest of a file, `advance` told of the bytes as they are done. Raises CliError."""
    done = 0

    def told(total: int) -> None:
        nonlocal done
        advance(total - done)
        done = total

    try:
        return describe(file, by, arch=arch, progress=told)
    except SlowCutter as error:
        raise CliError(str(error)) from None
    except BadManifest as error:
        raise Usage(str(error)) from None
    except OSError as error:
        raise CliError(f"the file cannot be read: {error.strerror or error}") from None


def object_of(body: bytes) -> Json:
    """The object that an answer holds. Raises CliError where it holds none."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CliError("the answer is not a hub's: is the address right?")
    return found


class _Sent:
    """What has travelled so far."""

    def __init__(self) -> None:
        self.chunks = self.raw_bytes = self.wire_bytes = 0

    def add(self, moved: Moved) -> None:
        """One batch more; the transfer calls this in one thread at a time."""
        self.chunks += moved.chunks
        self.raw_bytes += moved.raw_bytes
        self.wire_bytes += moved.wire_bytes


class _Chunks:
    """The chunks of a file that was cut, read again from where they stand."""

    def __init__(self, file: BinaryIO, path: Path, manifest: Manifest) -> None:
        self._file, self._path = file, path
        self._places: dict[str, tuple[int, int]] = {}
        offset = 0
        for name, length in manifest.chunks:
            self._places.setdefault(name, (offset, length))
            offset += length

    def read(self, name: str) -> bytes:
        """A chunk's bytes. Raises CliError where they are not what they were."""
        offset, length = self._places[name]
        try:
            raw = os.pread(self._file.fileno(), length, offset)
        except OSError as error:
            raise CliError(f"{self._path} cannot be read: {error.strerror}") from None
        if name_of(raw) != name:
            raise CliError(f"{self._path} has changed while it was being pushed: push it again")
        return raw


def _deliver(
    transfer: Transfer,
    wish: Wish,
    name: str,
    manifest: Manifest,
    chunks: _Chunks,
    sent: _Sent,
    settings: Mapping[str, Any],
) -> Json:
    """Send what is missing, then the manifest; again where chunks were lost in between."""
    body = json.dumps({**json.loads(manifest.to_json()), "owner": wish.owner}).encode()
    check_s = max(LEAST_CHECK_S, manifest.bytes / CHECK_BYTES_PER_S)
    batch_bytes = min(BATCH_BYTES, settings.get("batch_bytes", BATCH_BYTES))
    sizes = manifest.names

    def lacking() -> list[tuple[str, int]]:
        missing = transfer.missing(sizes, batch=settings.get("max_chunks", ASK_CHUNKS), owner=wish.owner)
        return [(each, sizes[each]) for each in missing]

    wanted = lacking()
    for number in range(ROUNDS):
        _send(transfer, wanted, chunks, sent, batch_bytes)
        try:
            return object_of(transfer.ask("PUT", f"/images/{name}", body, read_s=check_s))
        except Denied as error:
            if error.status not in NOT_WHOLE or number + 1 == ROUNDS:
                raise
            wanted = lacking()
            if not wanted:
                raise  # it is refused for what it is
    raise AssertionError("every round returns or raises")


def _send(
    transfer: Transfer, wanted: list[tuple[str, int]], chunks: _Chunks, sent: _Sent, batch_bytes: int
) -> None:
    if not wanted:
        return
    total = sum(length for _, length in wanted)
    with progress(f"sending {len(wanted):,} chunks", total) as advance:

        def report(moved: Moved) -> None:
            sent.add(moved)
            advance(moved.raw_bytes)

        transfer.send(wanted, chunks.read, report, batch_bytes=batch_bytes)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, int]]:
    """The file and its length. Raises Usage where it cannot be an image."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # no wait on a pipe
    except OSError as error:
        raise Usage(f"{path} cannot be read: {error.strerror}") from None
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Usage(f"{path} is no regular file; an image is one file, such as a squashfs")
        yield file, status.st_size
