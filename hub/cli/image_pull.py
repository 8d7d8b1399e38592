"""An image brought from the hub into a file: only what is at hand nowhere is fetched.

The invariant: the output is either as it was or the whole image, checked. What was fetched before a
failure stays in a part file beside it, and a second start goes on from there.
"""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hub.carry.fetch import Fetched, fetch, manifest_of
from hub.carry.part import NotWhole, Part, PartInUse
from hub.carry.transfer import Moved, Transfer
from hub.chunks.cutter import cutter
from hub.chunks.manifest import Manifest
from hub.cli.errors import CliError, Usage
from hub.cli.image_progress import progress, size
from hub.cli.image_push import described
from hub.cli.image_transfer import transferring
from hub.cli.login import Target

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What came of it, and what it took."""

    hash: str
    file: Path
    manifest: Manifest
    fetched: Fetched

    def json(self) -> Json:
        """What the API said of the image, without its chunks, and the figures."""
        done = self.fetched
        return {
            "hash": self.hash,
            "bytes": self.manifest.bytes,
            "arch": self.manifest.arch,
            "cutter": self.manifest.cutter,
            "file": str(self.file),
            "fetched": {
                "chunks": done.fetched_chunks,
                "of": done.chunks,
                "bytes": done.fetched_bytes,
                "wire_bytes": done.wire_bytes,
            },
        }


def pull(target: Target, name: str, output: Path, seed: Path | None) -> Pulled:
    """Bring image `name` (64 digits) into `output`. Raises CliError.

    `seed`, and what stands at `output` before, give what they have of it.
    """
    if output.is_dir():
        raise Usage(f"{output} is a folder: name the file with --output")
    rest = output.with_name(f"{output.name}.{name[:12]}.part")
    with transferring(target) as transfer, _telling(rest):
        manifest = manifest_of(transfer, name)
        held = _at_hand(seed, output, manifest)
        with Part(rest, name, manifest) as part:
            _demand_room(part)
            done = _fill(transfer, part, output, held)
    return Pulled(hash=name, file=output, manifest=manifest, fetched=done)


def _fill(transfer: Transfer, part: Part, output: Path, held: Mapping[str, tuple[Path, Manifest]]) -> Fetched:
    umask = os.umask(0)
    os.umask(umask)
    with progress(f"fetching {output.name}", part.manifest.bytes) as advance:

        def report(moved: Moved) -> None:
            advance(moved.raw_bytes)

        try:
            return fetch(
                transfer, part, output, held=held, at_hand=advance, report=report, mode=0o666 & ~umask
            )
        except NotWhole as error:
            part.remove()
            raise CliError(f"what the hub calls {part.name[:12]} is another file: {error}") from None


def _at_hand(seed: Path | None, output: Path, manifest: Manifest) -> dict[str, tuple[Path, Manifest]]:
    """The files that may have some of it, cut as the image was. Raises Usage where one cannot be read."""
    found: dict[str, tuple[Path, Manifest]] = {}
    for path in (seed, output):
        if path is None or (path is output and not path.is_file()):
            continue
        try:
            with path.open("rb") as file, progress(f"cutting {path.name}", path.stat().st_size) as advance:
                name, of = described(file, cutter(manifest.cutter), advance)
        except OSError as error:
            raise Usage(f"{path} cannot be read: {error.strerror}") from None
        except Usage:  # it is empty
            continue
        found[name] = (path, of)
    return found


def _demand_room(part: Part) -> None:
    free = shutil.disk_usage(part.path.parent).free
    if part.grows_bytes > free:
        part_needs, has = size(part.grows_bytes), size(free)
        raise CliError(f"no space left for it: it takes {part_needs} more, and {has} are free")


@contextmanager
def _telling(rest: Path) -> Iterator[None]:
    """What the disk or another process says, in words."""
    try:
        yield
    except PartInUse:
        raise CliError(f"{rest} is being written: another pull of the same image is under way") from None
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise CliError(f"no space left; what came is kept in {rest}: make room and start again") from None
        raise CliError(f"{error.filename or rest}: {error.strerror}") from None
