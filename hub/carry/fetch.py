"""All of a fetch: a manifest, what is at hand already, what is lacking, the whole.

Invariant: whatever ends it, the part file stays as it is, and the same call goes on from there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hub.carry.link import Denied
from hub.carry.part import READ_ONLY, GoOn, Part, no_check
from hub.carry.transfer import Moved, Report, Transfer, no_report
from hub.chunks.manifest import MAX_MANIFEST_BYTES, BadManifest, Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What a fetch took: all in chunks and raw bytes, but for `wire_bytes`, as they travelled."""

    chunks: int  # distinct ones of the image
    fetched_chunks: int
    fetched_bytes: int
    wire_bytes: int
    recalled_bytes: int  # an earlier try had written
    copied_bytes: int  # files at hand had


def manifest_of(transfer: Transfer, name: str) -> Manifest:
    """The manifest of image `name`. Raises LinkError; Denied where the answer is none."""
    body = transfer.ask("GET", f"/images/{name}", max_bytes=MAX_MANIFEST_BYTES)
    try:
        return Manifest.from_json(body)
    except BadManifest as error:
        raise Denied(200, {"detail": f"the hub's manifest of {name} cannot be: {error}"}) from None


def fetch(
    transfer: Transfer,
    part: Part,
    target: Path,
    *,
    held: Mapping[str, tuple[Path, Manifest]] | None = None,
    at_hand: Callable[[int], None] = lambda _: None,
    report: Report = no_report,
    go_on: GoOn = no_check,
    mode: int = READ_ONLY,
) -> Fetched:
    """Fill `part` and give it its place at `target`. `held`: files at hand, with their manifests.

    `at_hand` hears how many bytes need not be fetched, `report` of each batch that was, and `go_on` is
    called between pieces and may raise. Raises LinkError, NotWhole (the part is then useless), OSError as
    the disk does.
    """
    recalled = part.recall(go_on)
    copied = part.copy(held or {}, go_on)
    at_hand(recalled + copied)
    lacking = part.lacking
    wire_bytes = 0

    def add(moved: Moved) -> None:
        nonlocal wire_bytes
        wire_bytes += moved.wire_bytes
        report(moved)

    def put(name: str, raw: bytes) -> None:
        go_on()
        part.put(name, raw)

    transfer.fetch(lacking, put, add)
    part.complete(target, go_on, mode=mode)
    return Fetched(
        chunks=len(part.manifest.names),
        fetched_chunks=len(lacking),
        fetched_bytes=sum(size for _, size in lacking),
        wire_bytes=wire_bytes,
        recalled_bytes=recalled,
        copied_bytes=copied,
    )
