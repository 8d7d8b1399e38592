"""Which architecture a tree is of, in the words of `uname -m`.

Asked in this order: what an OCI config says, what dpkg says, the head of the tree's own shell. The
first that knows is believed; nobody guesses, None means that nothing told.
"""

import re
import struct

from hub.cli.image_import_tree import Content, Kind, Tree

MAX_WORDS = 4096  # bytes of dpkg's list that are read: a line per architecture
# Go's words, which OCI uses, with a variant where it matters; then Debian's where they differ.
_GO = {
    "amd64": "x86_64",
    "arm64": "aarch64",
    "386": "i686",
    "arm": "armv7l",
    "arm/v6": "armv6l",
    "arm/v5": "armv5tel",
    "ppc64le": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "loong64": "loongarch64",
    "mips64le": "mips64",
}
_DEBIAN = {
    "amd64": "x86_64",
    "arm64": "aarch64",
    "i386": "i686",
    "armhf": "armv7l",
    "armel": "armv5tel",
    "ppc64el": "ppc64le",
    "s390x": "s390x",
    "riscv64": "riscv64",
    "loong64": "loongarch64",
    "mips64el": "mips64",
}
# (e_machine, bits, little endian), from the ELF specification's registry.
_ELF = {
    (62, 64, True): "x86_64",
    (183, 64, True): "aarch64",
    (3, 32, True): "i686",
    (40, 32, True): "armv7l",
    (21, 64, True): "ppc64le",
    (22, 64, False): "s390x",
    (243, 64, True): "riscv64",
    (258, 64, True): "loongarch64",
    (8, 64, True): "mips64",
}
_PROGRAMS = ("bin/sh", "bin/true", "usr/bin/true", "bin/busybox")
_WORD = re.compile(r"[a-z0-9_]{1,32}")


def is_arch(text: str) -> bool:
    """Whether the hub would take it as an architecture."""
    return _WORD.fullmatch(text) is not None


def from_go(arch: str, variant: str = "") -> str | None:
    """The architecture that an OCI config or index means; None: one without a name here."""
    return _GO.get(f"{arch}/{variant}") or _GO.get(arch)


def to_debian(arch: str) -> str | None:
    """What Debian calls an architecture; None: it has none of that name."""
    return next((debian for debian, ours in _DEBIAN.items() if ours == arch), None)


def of_tree(tree: Tree) -> str | None:
    """What dpkg says, else what the shell was built for."""
    listed = _beginning(tree, "var/lib/dpkg/arch", MAX_WORDS).decode("ascii", "replace").split()
    if listed and listed[0] in _DEBIAN:
        return _DEBIAN[listed[0]]
    for program in _PROGRAMS:
        found = of_elf(_beginning(tree, program, 20))
        if found:
            return found
    return None


def of_elf(head: bytes) -> str | None:
    """What a program was built for, from the first 20 bytes of its file; None: no ELF, or unknown."""
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    little = head[5] == 1
    (machine,) = struct.unpack("<H" if little else ">H", head[18:20])
    return _ELF.get((machine, {1: 32, 2: 64}.get(head[4], 0), little))


def _beginning(tree: Tree, name: str, count: int) -> bytes:
    """The first bytes of a file of the tree; none where there is no such file."""
    node = tree.find(name)
    content: Content | None = node.content if node and node.kind is Kind.FILE else None
    return next(iter(content.blocks(count)), b"") if content else b""
