"""The tree that an image is to hold, in memory: names, modes, owners, and where the bytes lie.

The invariant: every name in it leads to a place below its root, whatever the source said; nothing
is ever unpacked on this machine's disk, so that owners and devices stay right for a plain user too.
Contents are not read here: a node only knows where they are. Links are followed as a process would
whose root this tree is. Do not order or clamp here: that is the writer's work.
"""

import enum
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from hub.cli.errors import CliError

MEMBERS = 1_000_000  # unless told otherwise; a node costs ~600 bytes of memory, large images have 400,000
MIB = 64 << 10  # unless told otherwise: 64 GiB, several times the largest images
MAX_NAME = 255  # bytes: what Linux takes
MAX_DEPTH = 256  # folders within each other: real trees have under 50, and a path ends at 4096 bytes
MAX_HOPS = 40  # links followed on one path, as Linux does
MAX_TARGET = 4095  # bytes of a symbolic link: what Linux takes
MAX_ID = 2**32 - 2  # the last one means "no id"
MAX_CAPABILITY = 64  # bytes: version 3 of the attribute has 24
MAX_MAJOR, MAX_MINOR = 2**12 - 1, 2**20 - 1  # what Linux encodes in 32 bits


class Kind(enum.Enum):
    """What a node is; the value is the type's number in squashfs."""

    FOLDER = 1
    FILE = 2
    LINK = 3
    BLOCK = 4
    CHARACTER = 5
    FIFO = 6


class Content(Protocol):
    """Where the bytes of a file lie."""

    @property
    def size(self) -> int: ...

    def blocks(self, size: int) -> Iterator[bytes]:
        """All bytes in pieces of `size`, only the last shorter. Raises CliError where they are not there."""


@dataclass(slots=True, kw_only=True, eq=False)
class Node:
    """One file, folder, link or device; several names for one node are hard links."""

    kind: Kind
    mode: int = 0o755  # the lower 12 bits
    uid: int = 0
    gid: int = 0
    mtime_s: int = 0  # as the source says, before clamping; may be negative
    content: Content | None = None  # of a file; None: empty
    target: bytes = b""  # of a symbolic link
    device: tuple[int, int] = (0, 0)
    capability: bytes | None = None  # the attribute security.capability
    children: dict[bytes, "Node"] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the file, holes included."""
        return self.content.size if self.content else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a source may at most be: far over any real image, and under what this machine can bear."""

    members: int = MEMBERS
    bytes: int = MIB << 20  # of all contents, each counted as long as it will be


class Tree:
    """A root folder, filled by `add`, `link` and `remove`. `label` begins every error."""

    def __init__(self, label: str, limits: Limits) -> None:
        self.root = Node(kind=Kind.FOLDER)
        self.label = label
        self._limits = limits
        self._members = 0
        self._bytes = 0

    def add(self, name: bytes, node: Node) -> None:
        """Put a node under a name; a later one replaces an earlier, only a folder keeps what it holds.

        Raises CliError where the name or the node cannot be in an image, or a limit is passed.
        """
        self._check(name, node)
        parts = self._parts(name)
        if not parts:
            if node.kind is not Kind.FOLDER:
                raise self.fault(name, "is the tree's root, and no folder")
            node.children = self.root.children
            self.root = node
            return
        path = self._folder(name, parts[:-1])
        if node.kind is Kind.LINK and _climbs(node.target, len(path) - 1):
            raise self.fault(name, f"is a link to {shown(node.target)}, out of the tree")
        before = path[-1].children.get(parts[-1])
        if node.kind is Kind.FOLDER and before is not None and before.kind is Kind.FOLDER:
            node.children = before.children
        path[-1].children[parts[-1]] = node

    def link(self, name: bytes, target: bytes) -> None:
        """Give the node named `target` another name. Raises CliError where there is none, or a folder."""
        self._count(name, 0)
        parts, there = self._parts(name), self._parts(target)
        holder = self._resolve(there[:-1]) if there else None
        node = holder[-1].children.get(there[-1]) if holder else None
        if node is None:
            raise self.fault(name, f"is a hard link to {shown(target)}, which is not there")
        if node.kind is Kind.FOLDER or not parts:
            raise self.fault(name, f"is a hard link to {shown(target)}, which is a folder")
        self._folder(name, parts[:-1])[-1].children[parts[-1]] = node

    def remove(self, name: bytes) -> None:
        """Take a name away, with all below it; nothing happens where it is not there."""
        parts = self._parts(name)
        holder = self._resolve(parts[:-1]) if parts else None
        if holder:
            holder[-1].children.pop(parts[-1], None)

    def clear(self, name: bytes) -> None:
        """Take away all that a folder holds; nothing happens where there is no such folder."""
        found = self._resolve(self._parts(name))
        if found:
            found[-1].children = {}

    def hollow(self, name: bytes) -> None:
        """Take away all that a folder at the root holds, if it is one itself and no link to one."""
        node = self.root.children.get(name)
        if node is not None:
            node.children = {}

    def find(self, name: str) -> Node | None:
        """What stands there after every link was followed; None: nothing."""
        found = self._resolve(self._parts(name.encode()))
        return found[-1] if found else None

    def fault(self, name: bytes, words: str) -> CliError:
        """An error about one member."""
        return CliError(f"{self.label}: {shown(name)} {words}")

    def _check(self, name: bytes, node: Node) -> None:
        self._count(name, node.size)
        if not (0 <= node.uid <= MAX_ID and 0 <= node.gid <= MAX_ID):
            raise self.fault(name, f"has the owner {node.uid}:{node.gid}, which Linux does not know")
        if node.capability is not None and len(node.capability) > MAX_CAPABILITY:
            raise self.fault(name, "has a capability attribute that is none")
        if node.kind is Kind.LINK and not 0 < len(node.target) <= MAX_TARGET:
            raise self.fault(name, f"is a link of {len(node.target)} bytes; 1 to {MAX_TARGET} can be")
        if not (0 <= node.device[0] <= MAX_MAJOR and 0 <= node.device[1] <= MAX_MINOR):
            raise self.fault(name, "is a device whose number Linux does not know")
        node.mode = stat.S_IMODE(node.mode)

    def _count(self, name: bytes, size: int) -> None:
        self._members += 1
        self._bytes += size
        if self._members > self._limits.members:
            raise self.fault(name, f"is one member over {self._limits.members} (see --max-members)")
        if self._bytes > self._limits.bytes:
            raise self.fault(name, f"brings the contents over {self._limits.bytes >> 20} MiB (see --max-mib)")

    def _parts(self, name: bytes) -> list[bytes]:
        """The parts of a name within the tree; none: the root."""
        if name.startswith(b"/"):
            raise self.fault(name, "is an absolute name, out of the tree")
        parts = [part for part in name.split(b"/") if part not in (b"", b".")]
        if b".." in parts:
            raise self.fault(name, "leads out of the tree")
        if b"\0" in name or any(len(part) > MAX_NAME for part in parts):
            raise self.fault(name, f"is no name: over {MAX_NAME} bytes, or with a NUL")
        if len(parts) > MAX_DEPTH:
            raise self.fault(name, f"is more than {MAX_DEPTH} folders deep")
        return parts

    def _folder(self, name: bytes, parts: list[bytes]) -> list[Node]:
        """The folders from the root to the one named; those that no member tells of are made."""
        path = self._resolve(parts, make=True)
        if path is None or path[-1].kind is not Kind.FOLDER:
            raise self.fault(name, "stands below something that is no folder")
        if len(path) > MAX_DEPTH:
            raise self.fault(name, f"is more than {MAX_DEPTH} folders deep")
        return path

    def _resolve(self, parts: list[bytes], *, make: bool = False) -> list[Node] | None:
        """The nodes from the root to the one named, links followed; None: it is not there."""
        path = [self.root]
        todo = parts[::-1]
        hops = 0
        while todo:
            part = todo.pop()
            if path[-1].kind is not Kind.FOLDER:
                return None
            if part == b"..":
                del path[max(1, len(path) - 1) :]
                continue
            child = path[-1].children.get(part)
            if child is None and make:
                child = path[-1].children[part] = Node(kind=Kind.FOLDER)
            if child is None:
                return None
            if child.kind is not Kind.LINK:
                path.append(child)
                continue
            hops += 1
            if hops > MAX_HOPS:
                return None
            if child.target.startswith(b"/"):
                path = [self.root]
            todo += [each for each in reversed(child.target.split(b"/")) if each not in (b"", b".")]
        return path


def shown(name: bytes) -> str:
    """A name within a sentence: what is no UTF-8 escaped, and never longer than a line."""
    text = name.decode("utf-8", "backslashreplace")
    return f'"{text if len(text) <= 120 else text[:117] + "..."}"'


def _climbs(target: bytes, depth: int) -> bool:
    """Whether a relative link that stands `depth` folders below the root leads above it.

    An absolute one begins at the image's own root, as for every process that runs in it.
    """
    if target.startswith(b"/"):
        return False
    for part in target.split(b"/"):
        if part == b"..":
            depth -= 1
        elif part not in (b"", b"."):
            depth += 1
        if depth < 0:
            return True
    return False
