"""The kernel of guests: Debian's cloud kernel, fetched by apt and unpacked, never installed.

`python -m runner kernel fetch` (see `fetch`) puts it into the runner's folder. Invariant: what stands under
its final name is whole. apt holds the package to the SHA-256 of its signed lists; nothing is run of it
here: no dpkg -i, no maintainer scripts.

The kernel is kept as the plain program that its compressed image holds (the boot protocol:
Documentation/arch/x86/boot.rst, `payload_offset`), for an emulated guest takes seconds to unpack it.
"""

import contextlib
import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import zstandard
from blake3 import blake3

from runner.sandbox import microvm_initrd, microvm_lz4
from runner.sandbox.base import SandboxBroken
from runner.sandbox.place import program

PACKAGE = "linux-image-cloud-amd64"  # names the newest of the series that this machine's Debian has
FETCH_S = 600.0  # 27 MB, on a slow line
MAX_KERNEL_BYTES = 2**28  # unpacked: a cloud kernel has 45 MB
_SETUP_SECTORS, _PAYLOAD = 0x1F1, 0x248
_FAULTS = (
    struct.error, IndexError, lzma.LZMAError, zlib.error, zstandard.ZstdError, microvm_lz4.BadFrame,
)  # fmt: skip
_ELF = b"\x7fELF"
HOW = (
    "fetch a kernel with `shunter runner kernel fetch` (Debian: apt-get), or install linux-image-cloud-amd64"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel with its first files, ready to boot. `hash`: BLAKE3 of both."""

    release: str
    kernel: Path
    initrd: Path
    hash: str


def find(folder: Path, *, system: Path = Path("/")) -> Kernel:
    """The newest kernel fetched into `folder`, else the machine's own of that kind; made ready there.

    Raises SandboxBroken, whose words say what is missing, or OSError.
    """
    busybox = program("busybox")
    if busybox is None:
        raise SandboxBroken("busybox is not installed (Debian: busybox-static)")
    found = [(each.name, each / "vmlinuz", each / "modules") for each in folder.glob("kernel-*/")]
    found = found or [
        (path.name, path, system / "lib/modules" / path.name.removeprefix("vmlinuz-"))
        for path in (system / "boot").glob("vmlinuz-*-cloud-amd64")
    ]
    if not found:
        raise SandboxBroken(f"there is no kernel for guests: {HOW}")
    name, image, modules = max(found, key=lambda each: _numbers(each[0]))
    kernel, initrd = _plain_once(folder, image), microvm_initrd.build(modules, Path(busybox))
    digest = blake3(kernel).update(initrd).hexdigest()
    ready = folder / f"ready-{digest[:32]}"
    if not ready.is_dir():
        _keep(ready, {"kernel": kernel, "initrd": initrd})
    return Kernel(
        release=re.sub("^(kernel|vmlinuz)-", "", name),
        kernel=ready / "kernel",
        initrd=ready / "initrd",
        hash=digest,
    )


def _plain_once(folder: Path, image: Path) -> bytes:
    """The program in the image, unpacked once and kept under the image's hash."""
    packed = image.read_bytes()
    kept = folder / f"plain-{blake3(packed).hexdigest()[:32]}"
    if not (kept / "kernel").is_file():
        _keep(kept, {"kernel": plain(packed)})
    return (kept / "kernel").read_bytes()


def plain(image: bytes) -> bytes:
    """The program in a compressed kernel image. Raises SandboxBroken."""
    if image.startswith(_ELF):
        return image
    try:
        offset, size = struct.unpack_from("<II", image, _PAYLOAD)
        start = ((image[_SETUP_SECTORS] or 4) + 1) * 512 + offset
        packed = image[start : start + size]
        if packed.startswith(b"\xfd7zXZ\0"):
            unpacked = lzma.LZMADecompressor(memlimit=2**28).decompress(packed, MAX_KERNEL_BYTES)
        elif packed.startswith(b"\x1f\x8b"):
            unpacked = zlib.decompressobj(31).decompress(packed, MAX_KERNEL_BYTES)
        elif packed.startswith(b"\x28\xb5\x2f\xfd"):
            # Linux writes the size of the program behind the frame, which the reader leaves alone.
            unpacked = zstandard.ZstdDecompressor().stream_reader(packed).read(MAX_KERNEL_BYTES)
        elif packed.startswith(microvm_lz4.MAGIC):
            unpacked = microvm_lz4.unpack(packed, MAX_KERNEL_BYTES)
        else:
            raise SandboxBroken(f"the kernel is packed in a way that is not known here: {packed[:4].hex()}")
    except _FAULTS as error:
        raise SandboxBroken(f"the kernel image cannot be read: {error}") from None
    if not unpacked.startswith(_ELF):
        raise SandboxBroken("the kernel image holds no program")
    return unpacked


def fetch(folder: Path) -> str:
    """Fetch the newest kernel into `folder`; its release. Earlier ones are removed. Raises SandboxBroken."""
    for tool, carrier in (("apt-get", "apt"), ("apt-cache", "apt"), ("dpkg-deb", "dpkg")):
        if program(tool) is None:
            raise SandboxBroken(f"{tool} is not here (Debian: {carrier}): install a cloud kernel yourself")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as made:
        at = Path(made)
        depends = _run(["apt-cache", "depends", "--important", PACKAGE], at)
        match = re.search(r"Depends: (linux-image-\S+-cloud-amd64)\s", depends)
        if match is None:
            raise SandboxBroken(f"apt knows no {PACKAGE}: run apt-get update, or use a Debian for amd64")
        _run(["apt-get", "download", "-q", match[1]], at)
        (package,) = at.glob("*.deb")
        _run(["dpkg-deb", "-x", str(package), "tree"], at)
        release = match[1].removeprefix("linux-image-")
        modules = next((path for path in (at / "tree").glob(f"*/modules/{release}")), None) or next(
            (path for path in (at / "tree").glob(f"usr/*/modules/{release}")), None
        )
        if modules is None:
            raise SandboxBroken(f"{package.name} holds no modules")
        part = at / "part"
        part.mkdir(mode=0o755)
        shutil.move(at / f"tree/boot/vmlinuz-{release}", part / "vmlinuz")
        shutil.move(modules, part / "modules")
        target = folder / f"kernel-{release}"
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    for other in (*folder.glob("kernel-*"), *folder.glob("ready-*"), *folder.glob("plain-*")):
        if other != target:
            shutil.rmtree(other, ignore_errors=True)
    return release


def _run(words: list[str], at: Path) -> str:
    path = program(words[0]) or words[0]
    environ = {"PATH": os.defpath, "LC_ALL": "C"}
    try:
        done = subprocess.run(  # noqa: S603 - the system's own tools
            [path, *words[1:]],
            cwd=at,
            env=environ,
            capture_output=True,
            text=True,
            timeout=FETCH_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SandboxBroken(f"{words[0]} took more than {FETCH_S:.0f} s") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise SandboxBroken(f"{words[0]}: {said[-1] if said else done.returncode}")
    return done.stdout


def _keep(ready: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder that has its name only once it is whole; any user may read them."""
    ready.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=ready.parent) as name:
        part = Path(name, "ready")
        part.mkdir(mode=0o755)
        for each, data in files.items():
            (part / each).write_bytes(data)
            (part / each).chmod(0o644)
        with contextlib.suppress(OSError):  # another process was quicker
            part.rename(ready)


def _numbers(name: str) -> list[int]:
    """What releases are ordered by."""
    return [int(number) for number in re.findall(r"\d+", name)]
