"""A tar read into a tree: its members' heads only, with the places where their contents lie.

The invariant: a tar that is cut off, damaged or built to exhaust memory is an error that names the
member; what stands before the fault is not taken. Pax, GNU and old tars, sparse members among them.
Nothing is unpacked. Of extended attributes only capabilities are taken: the others are of the machine
that the tar was made on (labels of SELinux, marks of overlay file systems).
"""

import tarfile
from collections.abc import Iterator
from typing import IO, cast

from hub.cli.errors import CliError
from hub.cli.image_import_bytes import Span
from hub.cli.image_import_tree import Kind, Node, Tree

MAX_HEAD = 4 << 20  # bytes of one member's heads: a sparse map of 170,000 extents; names need 4 KiB
WHITEOUT, OPAQUE = b".wh.", b".wh..wh..opq"
CAPABILITY = "SCHILY.xattr.security.capability"
_BLOCK = tarfile.BLOCKSIZE
_KINDS = {
    tarfile.DIRTYPE: Kind.FOLDER,
    tarfile.SYMTYPE: Kind.LINK,
    tarfile.BLKTYPE: Kind.BLOCK,
    tarfile.CHRTYPE: Kind.CHARACTER,
    tarfile.FIFOTYPE: Kind.FIFO,
}


def read_tar(tree: Tree, span: Span) -> None:
    """Add every member of a plain tar. Raises CliError where it is not whole or a member cannot be."""
    for member in _members(span):
        _add(tree, span, member)


def apply_layer(tree: Tree, span: Span) -> None:
    """Lay an OCI layer over what the tree holds. Raises CliError, as `read_tar`.

    Whiteouts go first, wherever they stand: they are about the layers below, never about their own.
    """
    for member in _members(span):
        name = _encoded(member.name)
        if _is_mark(name):
            _whiteout(tree, name)
    for member in _members(span):
        if not _is_mark(_encoded(member.name)):
            _add(tree, span, member)


def _is_mark(name: bytes) -> bool:
    """Whether a member tells of a layer and is none of its files; so is what stands below such a one."""
    return any(part.startswith(WHITEOUT) for part in name.split(b"/"))


def _whiteout(tree: Tree, name: bytes) -> None:
    folder, _, last = name.rpartition(b"/")
    if _is_mark(folder) or (last.startswith(WHITEOUT * 2) and last != OPAQUE):
        return  # what a storage driver keeps for itself
    if last == OPAQUE:
        tree.clear(folder)
        return
    gone = last[len(WHITEOUT) :]
    if gone in (b"", b".", b".."):
        raise tree.fault(name, "is a whiteout of nothing")
    tree.remove(folder + b"/" + gone if folder else gone)


def _add(tree: Tree, span: Span, member: tarfile.TarInfo) -> None:
    name = _encoded(member.name)
    if member.islnk():
        tree.link(name, _encoded(member.linkname))
        return
    kind = Kind.FILE if member.isreg() else _KINDS.get(member.type)
    if kind is None:
        raise tree.fault(name, f"is of a kind that no image holds ({member.type!r})")
    capability = member.pax_headers.get(CAPABILITY)
    tree.add(
        name,
        Node(
            kind=kind,
            mode=member.mode & 0o7777,
            uid=member.uid,
            gid=member.gid,
            mtime_s=_seconds(member.mtime),
            content=_content(tree, name, span, member) if kind is Kind.FILE else None,
            target=_encoded(member.linkname) if kind is Kind.LINK else b"",
            device=(member.devmajor, member.devminor) if member.isdev() and not member.isfifo() else (0, 0),
            capability=_encoded(capability) if capability is not None and kind is Kind.FILE else None,
        ),
    )


def _content(tree: Tree, name: bytes, span: Span, member: tarfile.TarInfo) -> Span:
    extents = None
    stored = member.size
    if member.issparse():
        found = cast(list[tuple[int, int]] | None, member.sparse) or []  # as it is, not as it is typed
        extents = tuple((start, length) for start, length in found if length)
        end = 0
        for start, length in extents:
            if start < end or length < 0 or start + length > member.size:
                raise tree.fault(name, "has a map of its holes that cannot be")
            end = start + length
        stored = sum(length for _, length in extents)
    if member.offset_data + stored > span.stored:
        raise tree.fault(name, "is cut off: the archive ends within it")
    label = f"{span.label}: {member.name}"
    offset = span.offset + member.offset_data
    return Span(label=label, file=span.file, offset=offset, stored=stored, size=member.size, extents=extents)


def _members(span: Span) -> Iterator[tarfile.TarInfo]:
    """Every member in the archive's order. Raises CliError where it does not end as a tar ends."""
    heads = _Heads(span)
    try:
        with tarfile.open(
            fileobj=cast(IO[bytes], heads), mode="r:", encoding="utf-8", errors="surrogateescape"
        ) as tar:
            kept: list[tarfile.TarInfo] = vars(tar)["members"]  # tarfile would keep every one
            while (member := tar.next()) is not None:
                kept.clear()
                if member.size < 0:
                    raise CliError(f"{span.label}: is damaged: a member's size is negative")
                yield member
                heads.begin()
            last = span.read(tar.offset, _BLOCK)
    except (tarfile.TarError, ValueError, OverflowError, LookupError) as error:
        raise CliError(f"{span.label}: is no tar, or a damaged one: {error}") from None
    if len(last) < _BLOCK:
        raise CliError(f"{span.label}: is cut off: the archive has no end mark")
    if last.strip(b"\0"):
        raise CliError(f"{span.label}: is damaged: no member begins at byte {tar.offset}")


class _Heads:
    """The file that tarfile reads heads from: no more for one member than MAX_HEAD bytes."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._at = 0
        self._left = MAX_HEAD

    def begin(self) -> None:
        """The next member's heads come."""
        self._left = MAX_HEAD

    def read(self, count: int) -> bytes:
        self._left -= count
        if count < 0 or self._left < 0:
            raise tarfile.ReadError(f"a member's head has more than {MAX_HEAD} bytes")
        data = self._span.read(self._at, count)
        self._at += len(data)
        return data

    def seek(self, at: int) -> int:
        if at < 0:
            raise tarfile.ReadError("a member's size is negative")
        self._at = at
        return at

    def tell(self) -> int:
        return self._at


def _encoded(text: str) -> bytes:
    """The bytes of a name, as the archive has them."""
    return text.encode("utf-8", "surrogateescape")


def _seconds(mtime: float) -> int:
    """Whole seconds; a time that is no number is 0."""
    try:
        return int(mtime)
    except (ValueError, OverflowError):
        return 0
