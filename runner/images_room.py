"""Which images go so that one more has room: a plan made of sizes and times, carried out by the caller.

Invariant: nothing is removed in vain: either the plan makes room, or NoRoom is raised and all stays.
What nobody finishes goes first (part files), then images, the least recently used first; never what is
used now. Pure: no disk is looked at here.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from runner.images_shelf import Held, Rest
from runner.unpack import NoRoom

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An image that is to come, in bytes: of the whole, and what the disk must still take for it."""

    bytes: int
    grows_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What images may take together, what others that are being fetched take of it, and the disk."""

    limit_bytes: int
    fetching_bytes: int  # of the whole of each
    free_bytes: int  # of the disk, after what those that are being fetched will still take


def make_room(
    wanted: Wanted,
    bounds: Bounds,
    held: Iterable[Held],
    rests: Iterable[Rest],
    *,
    used: Collection[str],
    spared: Collection[str] = (),
) -> tuple[str, ...]:
    """The hashes to remove, in order. `used`: may not go; `spared`: go last, for they save fetching.

    Raises NoRoom, which says what is in the way.
    """
    if wanted.bytes > bounds.limit_bytes:
        raise NoRoom(
            f"the image takes {mib(wanted.bytes)} MiB; this runner keeps at most "
            f"{mib(bounds.limit_bytes)} MiB of images (--images-mib)"
        )
    held, rests = list(held), list(rests)
    taken = sum(one.bytes for one in held) + sum(one.disk_bytes for one in rests) + bounds.fetching_bytes
    over = taken + wanted.bytes - bounds.limit_bytes
    short = wanted.grows_bytes - bounds.free_bytes
    candidates = [(0, one.written_ns, one.hash, one.disk_bytes) for one in rests]
    candidates += [(1 + (one.hash in spared), one.used_ns, one.hash, one.bytes) for one in held]
    goes, freed = [], 0
    for _, _, image, size in sorted(candidates):
        if freed >= max(over, short):
            break
        if image not in used:
            goes.append(image)
            freed += size
    if freed >= max(over, short):
        return tuple(goes)
    if freed < over:
        raise NoRoom(
            f"no space left for the image: it takes {mib(wanted.bytes)} MiB, and images in use take "
            f"{mib(taken - freed)} of the {mib(bounds.limit_bytes)} MiB that this runner keeps of them"
        )
    raise NoRoom(
        f"no space left for the image: it takes {mib(wanted.grows_bytes)} MiB more, and "
        f"{mib(max(0, bounds.free_bytes) + freed)} MiB can be had"
    )


def mib(size: int) -> int:
    """Bytes in MiB, rounded up."""
    return -(-size // MIB)
