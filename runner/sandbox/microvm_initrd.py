"""The first files of a guest: busybox, the kernel modules a job needs, and `microvm_init.sh`, as one archive.

Format: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst ("newc"). It is not
compressed, for an emulated guest unpacks more slowly than it reads. Invariant: the same kernel, busybox and
script give the same bytes, so that the archive is kept under its hash and checked once.
"""

import gzip
import lzma
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import zstandard

from runner.sandbox.base import SandboxBroken

INIT = Path(__file__).with_name("microvm_init.sh")
# Loaded in this order, each after what it depends on; those of NETWORK only where there is one.
MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio_rng", "squashfs", "ext4", "overlay")
NETWORK = ("virtio_net",)
MAX_MODULE_BYTES = 64 * 2**20  # unpacked; the largest in use is ext4, with 1 MiB
FOLDERS = ("bin", "cg", "dev", "lib", "lib/network", "lower", "new", "proc", "rw", "steps", "sys")
# The programs of busybox that the script calls by name.
APPLETS = (
    "cat", "chmod", "cp", "dd", "env", "hostname", "insmod", "ip", "kill", "ln", "mkdir", "mkfifo", "mknod",
    "mount", "nsenter", "poweroff", "rm", "setsid", "sh", "sleep", "stat", "sync", "tar", "umount", "unshare",
    "usleep",
)  # fmt: skip
_FILE, _FOLDER, _LINK = 0o100755, 0o40755, 0o120777


def build(modules: Path, busybox: Path, init: Path = INIT) -> bytes:
    """The archive, from a folder of a kernel's modules. Raises SandboxBroken, OSError."""
    found = _found(modules)
    first = _ordered(found, MODULES)
    then = [name for name in _ordered(found, (*MODULES, *NETWORK)) if name not in first]
    archive = _Archive()
    for folder in FOLDERS:
        archive.add(folder, _FOLDER)
    archive.add("bin/busybox", _FILE, _static(busybox))
    for applet in APPLETS:
        archive.add(f"bin/{applet}", _LINK, b"busybox")
    archive.add("init", _FILE, init.read_bytes())
    for folder, names in (("lib", first), ("lib/network", then)):
        for number, name in enumerate(names):
            archive.add(f"{folder}/{number:02d}-{name}.ko", _FILE, _module(found[name]))
    return archive.end()


class _Archive:
    """A cpio archive in the making."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._count = 0

    def add(self, name: str, mode: int, data: bytes = b"") -> None:
        """One entry, root's, without a time."""
        self._count += 1
        word = name.encode() + b"\0"
        figures = (self._count, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(word), 0)
        self._bytes += b"070701" + b"".join(b"%08X" % figure for figure in figures) + word
        self._pad()
        self._bytes += data
        self._pad()

    def end(self) -> bytes:
        """The whole."""
        self.add("TRAILER!!!", 0)
        return bytes(self._bytes)

    def _pad(self) -> None:
        self._bytes += b"\0" * (-len(self._bytes) % 4)


def _found(modules: Path) -> dict[str, Path]:
    """Every module below the folder, by its name as the kernel says it."""
    found = {}
    for at, _, names in os.walk(modules):
        for name in names:
            if match := re.fullmatch(r"(.+)\.ko(\.xz|\.zst|\.gz)?", name):
                found[match[1].replace("-", "_")] = Path(at, name)
    return found


def _ordered(found: Mapping[str, Path], wanted: Sequence[str]) -> list[str]:
    """The modules to load, each after those it depends on. What is not a module is built in."""
    order: list[str] = []

    def add(name: str, above: tuple[str, ...] = ()) -> None:
        if name in order or name not in found or name in above:
            return
        for needed in _needs(_module(found[name])):
            add(needed, (*above, name))
        order.append(name)

    for name in wanted:
        add(name)
    return order


def _needs(module: bytes) -> Iterator[str]:
    """What a module says that it depends on, those it asks for by name only (`softdep`) among it."""
    for word, split in ((rb"\0depends=([^\0]*)", ","), (rb"\0softdep=pre: ([^\0]*)", None)):
        for match in re.finditer(word, module):
            for name in match[1].decode(errors="replace").split(split):
                if name and not name.endswith(":"):
                    yield name.replace("-", "_")


def _module(path: Path) -> bytes:
    """A module's bytes, unpacked: the guest's own busybox need not know how. Raises SandboxBroken."""
    packed = path.read_bytes()
    try:
        if path.suffix == ".xz":
            unpacked = lzma.LZMADecompressor(memlimit=2**28).decompress(packed, MAX_MODULE_BYTES)
        elif path.suffix == ".gz":
            unpacked = gzip.decompress(packed)
        elif path.suffix == ".zst":
            reader = zstandard.ZstdDecompressor().stream_reader(packed)
            unpacked = reader.read(MAX_MODULE_BYTES)
        else:
            unpacked = packed
    except (lzma.LZMAError, zstandard.ZstdError, OSError, EOFError) as error:
        raise SandboxBroken(f"the module {path.name} cannot be read: {error}") from None
    return unpacked


def _static(busybox: Path) -> bytes:
    """Busybox, which must need no libraries. Raises SandboxBroken."""
    program = busybox.read_bytes()
    if b"/ld-linux" in program[:4096] or b"/ld-musl" in program[:4096]:
        raise SandboxBroken(f"{busybox} needs libraries (Debian: busybox-static)")
    return program
