"""A folder read into a tree: names, modes, owners, times, links and capabilities as they are on disk.

The invariant: no link is followed and no other file system's contents are missed; a file that cannot
be read is an error, not a gap. Contents are read when the image is written, and must not have changed.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from hub.cli.errors import CliError
from hub.cli.image_import_bytes import OnDisk
from hub.cli.image_import_tree import Kind, Node, Tree

CAPABILITY = b"security.capability"
_KINDS = {
    stat.S_IFDIR: Kind.FOLDER,
    stat.S_IFREG: Kind.FILE,
    stat.S_IFLNK: Kind.LINK,
    stat.S_IFBLK: Kind.BLOCK,
    stat.S_IFCHR: Kind.CHARACTER,
    stat.S_IFIFO: Kind.FIFO,
}
_NO_ATTRIBUTE = {errno.ENODATA, errno.ENOTSUP, errno.EPERM, errno.EACCES}


def read_folder(tree: Tree, folder: Path) -> int:
    """Add all that a folder holds; gives how many sockets were left out, which no image needs.

    Raises CliError where something cannot be read.
    """
    names: dict[tuple[int, int], bytes] = {}
    sockets = 0
    for name, path in _walk(b"", os.fsencode(folder)):
        try:
            found = os.lstat(path)
            if stat.S_ISSOCK(found.st_mode):
                sockets += 1
                continue
            identity = (found.st_dev, found.st_ino)
            if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                first = names.setdefault(identity, name)
                if first is not name:
                    tree.link(name, first)
                    continue
            tree.add(name, _node(path, found, identity))
        except OSError as error:
            raise CliError(f"{os.fsdecode(path)}: cannot be read: {error.strerror}") from None
    return sockets


def _walk(name: bytes, path: bytes) -> Iterator[tuple[bytes, bytes]]:
    """A folder, then all below it in the order of names: (name in the tree, path on disk)."""
    yield name or b".", path
    try:
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        raise CliError(f"{os.fsdecode(path)}: cannot be read: {error.strerror}") from None
    for entry in entries:
        below = name + b"/" + entry.name if name else entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(below, entry.path)
        else:
            yield below, entry.path


def _node(path: bytes, found: os.stat_result, identity: tuple[int, int]) -> Node:
    kind = _KINDS[stat.S_IFMT(found.st_mode)]
    is_device = kind in (Kind.BLOCK, Kind.CHARACTER)
    return Node(
        kind=kind,
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        mtime_s=int(found.st_mtime),
        content=OnDisk(path=path, size=found.st_size, identity=identity) if kind is Kind.FILE else None,
        target=os.readlink(path) if kind is Kind.LINK else b"",  # noqa: PTH115 - names are bytes
        device=(os.major(found.st_rdev), os.minor(found.st_rdev)) if is_device else (0, 0),
        capability=_capability(path) if kind is Kind.FILE else None,
    )


def _capability(path: bytes) -> bytes | None:
    if not hasattr(os, "getxattr"):
        return None
    try:
        return os.getxattr(path, CAPABILITY, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return None
        raise
