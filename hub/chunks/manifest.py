"""The manifest of an image: its chunks in order; and what of it is already at hand in other images.

Invariant: a Manifest that exists is sound in itself: its sizes add up, each is one that its cutter can
make, a name has one size, and it is within the bounds. Whether its chunks are held, and are together the
image that it is filed under, is checked in `whole`.

Not to be done here: reading or writing files, and asking who holds what.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hub.chunks.chunk import is_name
from hub.chunks.cutter import cutter

MAX_IMAGE_BYTES = 64 * 2**30  # more than any disk image of a job was seen to need; beyond it is a mistake
MAX_CHUNKS = 2**20  # of 64 GiB at 64 KiB; some 200 MB in memory, the most that one manifest may cost
MAX_MANIFEST_BYTES = MAX_CHUNKS * 80 + 4096  # as JSON: a name, a size and their punctuation are 78 bytes
MAX_ARCH_CHARACTERS = 32

Text = str | bytes


class BadManifest(ValueError):
    """A manifest that contradicts itself or goes beyond a bound, in words for whoever sent it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """An image of `bytes` bytes, cut by `cutter` into `chunks`: (name, bytes) in order.

    `arch`: what its programs run on (x86_64, aarch64); None: not known, matches any. BadManifest on
    construction for whatever cannot be.
    """

    bytes: int
    cutter: str
    chunks: tuple[tuple[str, int], ...]
    arch: str | None = None

    def __post_init__(self) -> None:
        try:
            largest = cutter(self.cutter).max_bytes
        except (ValueError, TypeError) as error:
            raise BadManifest(str(error)) from None
        if not 1 <= self.bytes <= MAX_IMAGE_BYTES:
            raise BadManifest(f"an image has 1 to {MAX_IMAGE_BYTES} bytes, not {self.bytes}")
        if not 1 <= len(self.chunks) <= MAX_CHUNKS:
            raise BadManifest(f"an image has 1 to {MAX_CHUNKS} chunks, not {len(self.chunks)}")
        if self.arch is not None and not _is_arch(self.arch):
            raise BadManifest(f"arch is written in small letters, digits and _, not {self.arch!r:.60}")
        sizes: dict[str, int] = {}
        for index, (name, size) in enumerate(self.chunks):
            if not is_name(name):
                raise BadManifest(f"chunks[{index}]: a name is 64 hexadecimal digits, not {name!r:.80}")
            if not 1 <= size <= largest:
                raise BadManifest(f"chunks[{index}]: {self.cutter} makes 1 to {largest} bytes, not {size}")
            if sizes.setdefault(name, size) != size:
                raise BadManifest(f"chunks[{index}]: {name} has {size} bytes here and {sizes[name]} before")
        total = sum(size for _, size in self.chunks)
        if total != self.bytes:
            raise BadManifest(f"the chunks have {total} bytes together; the image has {self.bytes}")

    @property
    def names(self) -> dict[str, int]:
        """The distinct chunks, in the order in which each is first needed, with their bytes."""
        return dict(self.chunks)

    @property
    def places(self) -> dict[str, tuple[int, int]]:
        """Where each distinct chunk first stands in the image: its offset and its bytes."""
        found: dict[str, tuple[int, int]] = {}
        offset = 0
        for name, size in self.chunks:
            found.setdefault(name, (offset, size))
            offset += size
        return found

    def to_json(self) -> str:
        """As it travels and is kept: {"bytes", "arch", "cutter", "chunks": [[name, bytes], ...]}."""
        form = {"bytes": self.bytes, "arch": self.arch, "cutter": self.cutter, "chunks": self.chunks}
        return json.dumps(form, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: Text) -> "Manifest":
        """From its form; what else the object says is passed over. BadManifest for anything else."""
        if len(text) > MAX_MANIFEST_BYTES:
            raise BadManifest(f"a manifest has {MAX_MANIFEST_BYTES} bytes at most, not {len(text)}")
        try:
            form = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadManifest(f"not JSON: {error}") from None
        if not isinstance(form, dict):
            raise BadManifest("a manifest is a JSON object")
        return cls.from_form(form)

    @classmethod
    def from_form(cls, form: Mapping[str, Any]) -> "Manifest":
        """From an object of JSON, already read."""
        try:
            size, name, listed = form["bytes"], form["cutter"], form["chunks"]
        except KeyError as error:
            raise BadManifest(f"a manifest has the field {error.args[0]}") from None
        arch = form.get("arch")
        if not _is_count(size) or not isinstance(name, str) or not isinstance(arch, str | None):
            raise BadManifest("bytes is a whole number, cutter and arch are text")
        if not isinstance(listed, list | tuple):
            raise BadManifest("chunks is a list of [name, bytes]")
        if len(listed) > MAX_CHUNKS:
            raise BadManifest(f"an image has 1 to {MAX_CHUNKS} chunks, not {len(listed)}")
        return cls(bytes=size, cutter=name, chunks=tuple(_pairs(listed)), arch=arch)


def _pairs(listed: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, int]]:
    for index, pair in enumerate(listed):
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not _is_count(pair[1]):
            raise BadManifest(f"chunks[{index}]: a chunk is [name, bytes], not {pair!r:.100}")
        yield pair[0], pair[1]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_arch(text: str) -> bool:
    return 1 <= len(text) <= MAX_ARCH_CHARACTERS and not text.strip("abcdefghijklmnopqrstuvwxyz0123456789_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One chunk at its place in the wanted file, and where its bytes come from.

    `held` is the image at whose `held_offset` the same bytes stand; both None: to be fetched, or, where
    `Plan.fetch` names it once and it stands at several places, written again.
    """

    name: str
    bytes: int
    offset: int
    held: str | None = None
    held_offset: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a file is put together: its pieces in order, without a gap; what is fetched, each once.

    Without slots, so that what is worked out from it is worked out once.
    """

    pieces: tuple[Piece, ...]
    fetch: tuple[tuple[str, int], ...]  # (name, bytes), in the order of first need

    @cached_property
    def places(self) -> Mapping[str, tuple[int, ...]]:
        """Where each chunk that is fetched stands in the wanted file: every offset, ascending."""
        found: dict[str, list[int]] = {}
        for piece in self.pieces:
            if piece.held is None:
                found.setdefault(piece.name, []).append(piece.offset)
        return {name: tuple(offsets) for name, offsets in found.items()}


def plan(wanted: Manifest, held: Mapping[str, Manifest]) -> Plan:
    """What of `wanted` stands in which of the `held` files (by name), and what has to be fetched.

    A chunk is taken from behind the one that was taken last, if it stands there, so that long equal
    stretches are read in one sweep, insertions or not; else from the first of `held` that has it. A held
    file may turn out to be damaged: whoever copies checks each piece by its name, and fetches it otherwise.
    """
    needed = wanted.names
    first: dict[str, tuple[str, int, int]] = {}  # chunk: held file, index and offset there
    for source, manifest in held.items():
        offset = 0
        for index, (name, size) in enumerate(manifest.chunks):
            if name in needed:
                first.setdefault(name, (source, index, offset))
            offset += size
    pieces: list[Piece] = []
    fetch: dict[str, int] = {}
    follows: tuple[str, int, int] | None = None  # what stands behind the last piece that was taken
    offset = 0
    for name, size in wanted.chunks:
        place = follows if follows and _stands_at(held, follows, name) else first.get(name)
        if place is None:
            fetch.setdefault(name, size)
            pieces.append(Piece(name=name, bytes=size, offset=offset))
        else:
            source, index, there = place
            pieces.append(Piece(name=name, bytes=size, offset=offset, held=source, held_offset=there))
            follows = (source, index + 1, there + size)
        offset += size
    return Plan(pieces=tuple(pieces), fetch=tuple(fetch.items()))


def _stands_at(held: Mapping[str, Manifest], place: tuple[str, int, int], name: str) -> bool:
    source, index, _ = place
    chunks = held[source].chunks
    return index < len(chunks) and chunks[index][0] == name
