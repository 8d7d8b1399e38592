"""A squashfs 4.0 file from a tree: the same tree gives the same bytes, whoever writes it and where.

The invariant: what is written depends on the tree, the epoch and `compress` alone. It is written
here because mksquashfs (4.5, `-tar`) gives the root folder the id of whoever runs it and the time of
day, looks owners' names up on this machine, and differs from release to release; so that no image
would have one hash. Format: kernel documentation, filesystems/squashfs, and fs/squashfs of Linux.

Members stand in the order of their paths (bytes), contents likewise; identical contents stand once.
There are no fragments: tails stand behind their files, at no cost where nothing is compressed, and
an edit moves nothing but what follows it. Memory grows with the number of members, not their sizes.
"""

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from blake3 import blake3

from hub.cli.errors import CliError
from hub.cli.image_import_meta import MAX_EPOCH, METADATA, Metadata, write_index
from hub.cli.image_import_tree import Kind, Node, Tree

BLOCK_LOG = 17
BLOCK = 1 << BLOCK_LOG  # 128 KiB, as mksquashfs takes
LEVEL = 3  # zstd: 2.6 times smaller on a Debian system; higher levels win little and take much longer
PAD = 4096  # a loop device shows whole sectors only
MAX_IDS = 2**16 - 1  # owners and groups together; the table's count has 16 bits
NONE_32, NONE_64 = 2**32 - 1, 2**64 - 1
RAW = 1 << 24  # set in a block's size: it is not compressed
GZIP, ZSTD = 1, 6
# Raw inodes, data, fragments, attributes, ids.
RAW_FLAGS = 0x1 | 0x2 | 0x8 | 0x100 | 0x800
NO_FRAGMENTS, DUPLICATES, NO_XATTRS = 0x10, 0x40, 0x200
SECURITY = 2  # the prefix "security." of an attribute's name
_ZEROS = bytes(BLOCK)

Pack = Callable[[bytes], bytes]


class Told(Protocol):
    """Who is told of bytes that were written."""

    def __call__(self, count: int, /) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a file's content lies. `sizes`: a word a block, 0 for a hole."""

    start: int
    sizes: tuple[int, ...]
    hole_bytes: int


def write(tree: Tree, file: BinaryIO, *, epoch_s: int, compress: bool, told: Told) -> None:
    """Write the image; `file` is open for writing at its beginning, and seekable.

    Times are clamped to 0..`epoch_s` (at most MAX_EPOCH). Raises CliError where a content cannot be
    read or an image cannot hold the tree.
    """
    assert 0 <= epoch_s <= MAX_EPOCH, epoch_s
    _Writer(tree, file, epoch_s, _packer() if compress else None, told).write()


def _packer() -> Pack:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=LEVEL).compress


def walk(folder: Node) -> Iterator[Node]:
    """Every node below a folder in the order of paths, once for each of its names."""
    for _, node in sorted(folder.children.items()):
        yield node
        if node.kind is Kind.FOLDER:
            yield from walk(node)


class _Writer:
    def __init__(self, tree: Tree, file: BinaryIO, epoch_s: int, pack: Pack | None, told: Told) -> None:
        self._tree = tree
        self._file = file
        self._epoch_s = epoch_s
        self._pack = pack
        self._told = told
        self._written: dict[Node, Written] = {}
        self._numbers: dict[Node, int] = {}
        self._names: dict[Node, int] = {}
        self._ids: dict[int, int] = {}
        self._capabilities: dict[bytes, int] = {}
        self._references: dict[Node, int] = {}
        self._inodes = Metadata(pack)
        self._listings = Metadata(pack)

    def write(self) -> None:
        self._file.write(bytes(96))
        self._contents()
        self._folder(self._tree.root, parent=len(self._numbers) + 1)
        inodes_at = self._file.tell()
        self._file.write(self._inodes.close())
        listings_at = self._file.tell()
        self._file.write(self._listings.close())
        ids_at = write_index(self._file, b"".join(struct.pack("<I", each) for each in self._ids), self._pack)
        attributes_at = self._attributes() if self._capabilities else NONE_64
        end = self._file.tell()
        self._file.write(bytes(-end % PAD))
        flags = NO_FRAGMENTS | DUPLICATES | (0 if self._pack else RAW_FLAGS)
        self._file.seek(0)
        self._file.write(
            struct.pack(
                "<4s4I6H8Q",
                *(b"hsqs", len(self._numbers), self._epoch_s, BLOCK, 0),
                *(ZSTD if self._pack else GZIP, BLOCK_LOG),
                *(flags | (0 if self._capabilities else NO_XATTRS), len(self._ids), 4, 0),
                *(self._references[self._tree.root], end, ids_at, attributes_at, inodes_at, listings_at),
                *(NONE_64, NONE_64),
            )
        )

    # -- contents ---------------------------------------------------------------------------------

    def _contents(self) -> None:
        """Number every node, count its names, and write what files hold."""
        known: dict[bytes, Written] = {}
        self._numbers[self._tree.root] = 1
        for node in walk(self._tree.root):
            self._names[node] = self._names.get(node, 0) + 1
            if node in self._numbers:
                continue
            self._numbers[node] = len(self._numbers) + 1
            if node.size:
                self._written[node] = self._content(node, known)

    def _content(self, node: Node, known: dict[bytes, Written]) -> Written:
        """Write one file's blocks, or take them back where the same content stands already."""
        assert node.content is not None
        start = self._file.tell()
        digest = blake3(struct.pack("<Q", node.size))
        sizes = []
        holes = 0
        for block in node.content.blocks(BLOCK):
            digest.update(block)
            self._told(len(block))
            if block == _ZEROS[: len(block)]:
                sizes.append(0)
                holes += len(block)
                continue
            packed = self._pack(block) if self._pack else block
            if len(packed) >= len(block):
                packed = block
            sizes.append(len(packed) | (RAW if packed is block else 0))
            self._file.write(packed)
        written = Written(start=start, sizes=tuple(sizes), hole_bytes=holes)
        before = known.setdefault(digest.digest(), written)
        if before is not written:
            self._file.seek(start)
            self._file.truncate()
        return before

    # -- inodes and listings ----------------------------------------------------------------------

    def _folder(self, folder: Node, parent: int) -> None:
        """Write the inodes of all that a folder holds, then its listing, then its own inode."""
        entries = sorted(folder.children.items())
        for _, node in entries:
            if node.kind is Kind.FOLDER:
                self._folder(node, self._numbers[folder])
            elif node not in self._references:
                self._references[node] = self._inodes.put(self._inode(node))
        at = self._listings.place()
        listing = self._listing(entries)
        self._listings.put(listing)
        block, offset = at >> 16, at & 0xFFFF
        links = 2 + sum(node.kind is Kind.FOLDER for _, node in entries)
        size = len(listing) + 3  # the format counts "." and ".."
        attribute = self._attribute(folder)
        if size < 2**16 and attribute == NONE_32:
            inode = self._head(1, folder) + struct.pack("<IIHHI", block, links, size, offset, parent)
        else:
            inode = self._head(8, folder) + struct.pack(
                "<IIIIHHI", links, size, block, parent, 0, offset, attribute
            )
        self._references[folder] = self._inodes.put(inode)

    def _listing(self, entries: list[tuple[bytes, Node]]) -> bytes:
        """A folder's entries in runs: of at most 256, in one block of inodes, near in number."""
        out = []
        run: list[bytes] = []
        block = base = 0

        def close() -> None:
            if run:
                out.append(struct.pack("<III", len(run) - 1, block, base))
                out.extend(run)
                run.clear()

        for name, node in entries:
            reference, number = self._references[node], self._numbers[node]
            if len(run) == 256 or reference >> 16 != block or not -(2**15) <= number - base < 2**15:
                close()
            if not run:
                block, base = reference >> 16, number
            head = struct.pack("<HhHH", reference & 0xFFFF, number - base, node.kind.value, len(name) - 1)
            run.append(head + name)
        close()
        return b"".join(out)

    def _inode(self, node: Node) -> bytes:
        """The inode of anything but a folder."""
        attribute = self._attribute(node)
        extended = attribute != NONE_32
        if node.kind is Kind.FILE:
            return self._file_inode(node, attribute)
        head = self._head(node.kind.value + (7 if extended else 0), node)
        head += struct.pack("<I", self._names[node])
        if node.kind is Kind.LINK:
            head += struct.pack("<I", len(node.target)) + node.target
        elif node.kind in (Kind.BLOCK, Kind.CHARACTER):
            major, minor = node.device
            head += struct.pack("<I", (minor & 0xFF) | major << 8 | (minor & ~0xFF) << 12)
        return head + (struct.pack("<I", attribute) if extended else b"")

    def _file_inode(self, node: Node, attribute: int) -> bytes:
        found = self._written.get(node) or Written(start=0, sizes=(), hole_bytes=0)
        sizes = struct.pack(f"<{len(found.sizes)}I", *found.sizes)
        links = self._names[node]
        plain = links == 1 and attribute == NONE_32 and not found.hole_bytes
        if plain and node.size < 2**32 and found.start < 2**32:
            return self._head(2, node) + struct.pack("<IIII", found.start, NONE_32, 0, node.size) + sizes
        # A file that is one hole still has one byte on record, as mksquashfs writes it.
        holes = min(found.hole_bytes, max(node.size - 1, 0))
        return (
            self._head(9, node)
            + struct.pack("<QQQIIII", found.start, node.size, holes, links, NONE_32, 0, attribute)
            + sizes
        )

    def _head(self, kind: int, node: Node) -> bytes:
        time_s = max(0, min(node.mtime_s, self._epoch_s))
        owner, group = self._id(node.uid), self._id(node.gid)
        return struct.pack("<4H2I", kind, node.mode, owner, group, time_s, self._numbers[node])

    def _id(self, number: int) -> int:
        place = self._ids.setdefault(number, len(self._ids))
        if place >= MAX_IDS:
            raise CliError(f"{self._tree.label}: more than {MAX_IDS} owners and groups; an image has no more")
        return place

    # -- capabilities -----------------------------------------------------------------------------

    def _attribute(self, node: Node) -> int:
        if node.capability is None:
            return NONE_32
        return self._capabilities.setdefault(node.capability, len(self._capabilities))

    def _attributes(self) -> int:
        """Write the table of attributes and give its place."""
        name = b"capability"
        full = len(b"security." + name) + 1
        pairs = Metadata(self._pack)
        index = b""
        for value in self._capabilities:
            pair = struct.pack("<HH", SECURITY, len(name)) + name + struct.pack("<I", len(value)) + value
            index += struct.pack("<QII", pairs.put(pair), 1, full)
        pairs_at = self._file.tell()
        self._file.write(pairs.close())
        head = struct.pack("<QII", pairs_at, len(self._capabilities), 0)
        return write_index(self._file, index, self._pack, head)


def size_of(tree: Tree) -> int:
    """The bytes of all files that an image of the tree holds, each once: what `told` will add up to."""
    return sum(node.size for node in set(walk(tree.root)))


def sync(file: BinaryIO) -> None:
    """Bring what was written to the disk."""
    file.flush()
    os.fsync(file.fileno())


assert METADATA < 2**15  # a block's head has 15 bits for its size
