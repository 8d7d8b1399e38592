"""Sources that tests import, built here byte by byte, and images read back by another's hand."""

import gzip
import hashlib
import io
import json
import lzma
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import zstandard

from hub.cli.image_import import Imported, make
from hub.cli.image_import_source import Wanted
from hub.cli.image_import_tree import Limits

needs_squashfs = pytest.mark.skipif(shutil.which("unsquashfs") is None, reason="needs squashfs-tools")

Member = tuple[tarfile.TarInfo, bytes]
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")  # cap_net_raw=ep, as setcap writes it
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def member(name: str, data: bytes = b"", *, capability: bytes | None = None, **fields: Any) -> Member:
    """A member of a tar; a plain file unless `type` says otherwise."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    if capability is not None:
        text = capability.decode("utf-8", "surrogateescape")
        info.pax_headers = {"SCHILY.xattr.security.capability": text}
    return info, data


def folder(name: str, **fields: Any) -> Member:
    return member(name, **{"type": tarfile.DIRTYPE, "mode": 0o755, **fields})


def link(name: str, target: str) -> Member:
    return member(name, type=tarfile.SYMTYPE, linkname=target, mode=0o777)


def hard(name: str, target: str) -> Member:
    return member(name, type=tarfile.LNKTYPE, linkname=target)


def tar(members: Iterable[Member], form: Literal[0, 1, 2] = tarfile.PAX_FORMAT) -> bytes:
    """A tar of the members in the order given, ended by two blocks of zeros and no more."""
    out = io.BytesIO()
    for info, data in members:
        out.write(info.tobuf(form, "utf-8", "surrogateescape"))
        out.write(data + bytes(-len(data) % 512))
    out.write(bytes(1024))
    return out.getvalue()


def imported(source: Path | str, output: Path, **words: Any) -> Imported:
    """Import with plain defaults; `limits`, `arch` and the like go to what is wanted."""
    compress = words.pop("compress", False)
    wanted = {"limits": Limits(), **words}
    return make(Wanted(source=str(source), **wanted), output, compress=compress)


def imported_tar(tmp_path: Path, members: Iterable[Member], **words: Any) -> Imported:
    """The image of a tar of these members, as tmp_path/image.sqfs."""
    source = tmp_path / "source.tar"
    source.write_bytes(tar(members))
    return imported(source, tmp_path / "image.sqfs", **words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A line of `unsquashfs -lln`."""

    mode: str
    owner: str
    size: str  # of a device: its numbers
    time: str
    target: str = ""


_LINE = re.compile(r"(\S{10}) (\d+/\d+) +(\d+, *\d+|\d+) (\S+ \S+) squashfs-root(.*)")


def listing(image: Path) -> dict[str, Listed]:
    """What an image holds, by path ("" is the root), as unsquashfs tells it."""
    done = subprocess.run(["unsquashfs", "-UTC", "-lln", image], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        parts = _LINE.fullmatch(line)
        assert parts, line
        name, _, target = parts[5].partition(" -> ")
        mode, owner, size, time = parts[1], parts[2], parts[3].replace(" ", ""), parts[4]
        found[name.removeprefix("/")] = Listed(mode=mode, owner=owner, size=size, time=time, target=target)
    return found


def names(image: Path) -> set[str]:
    return set(listing(image)) - {""}


def content(image: Path, name: str) -> bytes:
    return subprocess.run(["unsquashfs", "-cat", image, name], capture_output=True, check=True).stdout


def unpacked(image: Path, target: Path, *words: str) -> Path:
    """The image's files in a folder."""
    command = ["unsquashfs", "-quiet", "-no-progress", *words, "-d", str(target), str(image)]
    subprocess.run(command, capture_output=True, check=True)
    return target


Blobs = dict[str, bytes]


def blob(blobs: Blobs, data: bytes, **more: Any) -> dict[str, Any]:
    """Keep a blob, and give its descriptor."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    blobs[digest] = data
    return {"digest": digest, "size": len(data), **more}


def manifest(blobs: Blobs, layers: Sequence[bytes], *, arch: str = "amd64", **more: Any) -> dict[str, Any]:
    """Keep a manifest with its config and layers, and give its descriptor."""
    config = blob(blobs, json.dumps({"architecture": arch, "os": "linux"}).encode())
    value = {"schemaVersion": 2, "config": config, "layers": [blob(blobs, layer) for layer in layers]}
    return blob(blobs, json.dumps(value).encode(), **more)


def layout_files(blobs: Blobs, manifests: Sequence[dict[str, Any]]) -> dict[str, bytes]:
    """The files of a layout, by name."""
    index = json.dumps({"schemaVersion": 2, "manifests": list(manifests)}).encode()
    kept = {f"blobs/{digest.replace(':', '/')}": data for digest, data in blobs.items()}
    return {**kept, "index.json": index, "oci-layout": b'{"imageLayoutVersion": "1.0.0"}'}


def layout(*layers: bytes, arch: str = "amd64") -> dict[str, bytes]:
    """The files of a layout with one image."""
    blobs: Blobs = {}
    only = manifest(blobs, layers, arch=arch)
    return layout_files(blobs, [only])


def archive(files: dict[str, bytes]) -> bytes:
    return tar(member(name, data) for name, data in files.items())


def write_folder(target: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return target
