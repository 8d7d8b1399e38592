"""`shunter image import`: any source of a system made into one squashfs file.

The invariant: the same source gives the same bytes, so the same hash, on whatever machine, day and
user; and where anything goes wrong nothing is left behind, and a file that stood there before stands
there still. Order, times and names of owners on this machine therefore do not count; modes, ids,
links, devices, holes and capabilities are the source's own.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from hub.cli.errors import CliError, Usage
from hub.cli.image_import_meta import MAX_EPOCH
from hub.cli.image_import_tree import MEMBERS, MIB, Limits
from hub.cli.session import Json, Session, show
from hub.cli.terminal import one_line
from hub.cli.words import Argument, Option

if TYPE_CHECKING:
    from hub.cli.image_import_source import Wanted
    from hub.cli.image_import_tree import Tree
    from hub.cli.login import Target

HASH_PIECE = 1 << 20
MAX_MEMBERS = 20_000_000  # what --max-members may allow: 12 GB of memory
MAX_MIB = 64 << 20  # what --max-mib may allow: 64 TiB
_ENDINGS = re.compile(r"(\.(oci|tar|tgz|txz|tzst|gz|xz|zst))+$")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


Source = Annotated[
    str,
    Argument(
        metavar="SOURCE", help="A tar, an OCI archive or layout, a folder, debian:SUITE, or - for a tar."
    ),
]


Epoch = Annotated[
    int | None,
    Option(
        "--epoch",
        metavar="SECONDS",
        help="Later times become this one [SOURCE_DATE_EPOCH, else 0].",
        low=0,
        high=MAX_EPOCH,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """An image that was made. `hash`: the BLAKE3 of its bytes; `arch` None: nothing tells it."""

    file: Path
    hash: str
    bytes: int
    arch: str | None
    notes: tuple[str, ...] = ()


def run(
    session: Session,
    source: Source,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Where to write [SOURCE.sqfs, here].")
    ] = None,
    arch: Annotated[
        str | None, Option("--arch", metavar="ARCH", help="As `uname -m` says it [what the source says].")
    ] = None,
    compress: Annotated[bool, Option("--compress", help="Smaller on a runner's disk, more to send.")] = False,
    epoch: Epoch = None,
    include: Annotated[
        list[str] | None,
        Option("--include", metavar="PACKAGES", help="Packages of a Debian suite besides the base."),
    ] = None,
    name: Annotated[
        str | None,
        Option("--name", "-n", metavar="NAME", help="Push it too, and let this name point to it."),
    ] = None,
    owner: Annotated[
        str | None, Option("--owner", metavar="OWNER", help="Push for this owner's projects alone [for all].")
    ] = None,
    max_members: Annotated[
        int, Option("--max-members", help="Refuse a source of more.", low=1, high=MAX_MEMBERS)
    ] = MEMBERS,
    max_mib: Annotated[
        int, Option("--max-mib", help="Refuse a source of more content.", low=1, high=MAX_MIB)
    ] = MIB,
) -> None:
    """Make an image from a tar, an OCI archive, a folder or a Debian suite.

    The same source gives the same file, byte for byte. All times are 1970 unless --epoch keeps those
    before it. With --name the file is pushed to the hub too, as by `shunter image push`.
    """
    from hub.cli.image_import_arch import is_arch
    from hub.cli.image_import_source import Wanted

    if arch is not None and not is_arch(arch):
        raise Usage(f"--arch {arch}: is no architecture; `uname -m` prints one")
    wanted = Wanted(
        source=source,
        arch=arch,
        includes=tuple(include or ()),
        epoch_s=_epoch() if epoch is None else epoch,
        limits=Limits(members=max_members, bytes=max_mib << 20),
    )
    if owner is not None and name is None:
        raise Usage("--owner is for an image that is pushed: see --name")
    hub = session.target() if name is not None else None  # words that are wrong are told before the work
    made = make(wanted, output or default_output(source), compress=compress)
    answer: Json = {"file": str(made.file), "hash": made.hash, "bytes": made.bytes, "arch": made.arch}
    lines = _lines(made)
    if hub is not None:
        pushed, more = _push(hub, made, name, owner)
        answer["pushed"] = pushed
        lines += more
    show(session, answer, lambda: lines)


def _push(hub: "Target", made: Imported, name: str | None, owner: str | None) -> tuple[Json, list[str]]:
    """Bring the image to the hub, as `image push` does: what to print as JSON, and as lines."""
    from hub.cli.image_progress import saving
    from hub.cli.image_push import Wish, push

    done = push(hub, Wish(file=made.file, name=name, arch=made.arch, owner=owner))
    saved = saving(done.sent_chunks, done.chunks, "sent", done.wire_bytes, made.bytes)
    return done.json(), [f"pushed as {one_line(name)}", saved]


def make(wanted: "Wanted", output: Path, *, compress: bool = False) -> Imported:
    """Read a source and write its image to `output`, in one step at the end.

    For the main thread only: a signal that ends the process is heard, so that nothing is left.
    Raises Usage where the words are wrong, CliError where the source or the disk is bad.
    """
    from hub.cli.image_import_bytes import Workspace
    from hub.cli.image_import_pyc import stale
    from hub.cli.image_import_source import read

    _check_output(wanted.source, output)
    with _workshop(output) as folder, ExitStack() as files:
        workspace = Workspace(folder=folder, files=files, max_bytes=wanted.limits.bytes)
        found = read(wanted, workspace, _tell)
        notes = list(found.notes)
        old = stale(found.tree, wanted.epoch_s)
        if old.count:
            notes.append(
                f"{old.count} compiled Python files are out of date by the clamped times, and compiled "
                f"again in every job: --epoch {old.epoch_s} keeps them"
            )
        made = folder / "image"
        hashed, size = _write(found.tree, made, wanted.epoch_s, compress)
        made.replace(output)
        _sync_folder(output.parent)
    return Imported(file=output, hash=hashed, bytes=size, arch=found.arch, notes=tuple(notes))


def default_output(source: str) -> Path:
    """In this folder, named like the source: `debian.tar.zst` gives `debian.sqfs`."""
    last = Path(source).resolve().name if source != "-" else "image"
    stem = _UNSAFE.sub("-", _ENDINGS.sub("", last.replace("debian:", "debian-"))).strip("-.")
    return Path(f"{stem or 'image'}.sqfs")


def _write(tree: "Tree", file: Path, epoch_s: int, compress: bool) -> tuple[str, int]:
    """Write the image, and give its hash and its size."""
    from blake3 import blake3

    from hub.cli import image_import_squash as squash
    from hub.cli.image_progress import progress

    with file.open("w+b") as target:
        with progress("writing the image", squash.size_of(tree)) as advance:
            squash.write(tree, target, epoch_s=epoch_s, compress=compress, told=advance)
        target.flush()
        os.fsync(target.fileno())
        target.seek(0)
        size = os.fstat(target.fileno()).st_size
        digest = blake3()
        with progress("hashing the image", size) as advance:
            while piece := target.read(HASH_PIECE):
                digest.update(piece)
                advance(len(piece))
    file.chmod(0o666 & ~_umask())
    return digest.hexdigest(), size


@contextmanager
def _workshop(output: Path) -> Iterator[Path]:
    """A folder beside the output, which is gone at the end, however that comes. Raises CliError."""
    from hub.cli.interrupts import Interrupts

    with Interrupts() as interrupts:
        folder: Path | None = None
        try:
            folder = Path(tempfile.mkdtemp(prefix=".shunter-import-", dir=output.parent))
            yield folder
        except OSError as error:
            place = error.filename or output.parent
            raise CliError(f"{os.fsdecode(place)}: {error.strerror or error}") from None
        finally:
            interrupts.calm()
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


def _check_output(source: str, output: Path) -> None:
    """Refuse an output that would be read as part of its source, or that is no place for a file."""
    if output.is_dir():
        raise Usage(f"{output}: is a folder; --output names the file to write")
    if not output.parent.is_dir():
        raise Usage(f"{output.parent}: there is no such folder")
    folder = Path(source)
    if folder.is_dir() and output.resolve().parent.is_relative_to(folder.resolve()):
        raise Usage(f"{output}: stands within {source}, which it is made of; see --output")


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _epoch() -> int:
    """SOURCE_DATE_EPOCH, else 0. Raises Usage where it is no time."""
    text = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or int(text[:12]) > MAX_EPOCH:
        raise Usage(f"SOURCE_DATE_EPOCH={text[:40]}: is not within 0 and {MAX_EPOCH}")
    return int(text)


def _tell(words: str) -> None:
    """A line about what begins; the standard output is for the answer."""
    print(one_line(words), file=sys.stderr, flush=True)


def _lines(made: Imported) -> list[str]:
    return [
        f"{one_line(made.file)}: {made.bytes:,} bytes, {made.arch or 'architecture unknown'}",
        f"hash {made.hash}",
        *(f"note: {one_line(note)}" for note in made.notes),
    ]
