"""Compiled Python files that clamped times make useless.

Python compares the time of a source with the one in its compiled file (PEP 552, flags 0) and compiles
again where they differ: in every job anew, as an image cannot be written. Nothing is changed here;
whoever imports is told, and which epoch would keep them.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from hub.cli.image_import_tree import Kind, Node, Tree

_HEAD = 16  # magic, flags, time, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """How many compiled files clamping makes useless, and the least epoch that would keep them all."""

    count: int
    epoch_s: int


def stale(tree: Tree, epoch_s: int) -> Stale:
    """Those whose source's time is clamped by this epoch, and was right before."""
    times = [time_s for folder in _folders(tree.root) for time_s in _times(folder) if time_s > epoch_s]
    return Stale(count=len(times), epoch_s=max(times, default=0))


def _folders(folder: Node) -> Iterator[Node]:
    yield folder
    for node in folder.children.values():
        if node.kind is Kind.FOLDER:
            yield from _folders(node)


def _times(folder: Node) -> Iterator[int]:
    """Of each compiled file that fits to a source of this folder: the source's time."""
    compiled = folder.children.get(b"__pycache__")
    if compiled is None or compiled.kind is not Kind.FOLDER:
        return
    for name, node in compiled.children.items():
        source = folder.children.get(name.split(b".")[0] + b".py")
        if not name.endswith(b".pyc") or source is None or node.kind is not Kind.FILE or not node.content:
            continue
        head = next(iter(node.content.blocks(_HEAD)), b"")
        if len(head) == _HEAD:
            _, flags, time_s, _ = struct.unpack("<4I", head)
            if flags == 0 and time_s == source.mtime_s:
                yield time_s
