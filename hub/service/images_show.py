"""Images as a reader sees them: only those within its reach, and only what it may know of them."""

from collections.abc import Iterable

from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.images_live import LiveImage, holder_of
from hub.service.reach import sees
from hub.store import images as store
from hub.store.image_owners import Holder
from hub.wire.images import ImageList, ImageView

MAX_LISTED = 1000  # images of one answer: more than a page shows, and a second of the database at most
MAX_READERS = 100  # whose sizes are remembered


async def listing(hub: Hub, principal: Principal) -> ImageList:
    """The images that the reader may read, newest first."""
    authorise(principal, "read")
    reader = holder_of(principal)
    sizes = await _sizes(hub, reader)
    seen = sorted(hub.images.seen_by(reader), key=lambda one: -one.row.id)
    shown = seen[:MAX_LISTED]
    named, held = _names(hub, reader), _holders(hub, principal)
    views = [
        _view(
            one, reader, sizes.get(one.row.id), named.get(one.row.hash, ()), held.get(one.row.hash, ([], 0))
        )
        for one in shown
    ]
    return ImageList(images=views, more=len(seen) - len(shown))


async def _sizes(hub: Hub, reader: Holder) -> dict[int, tuple[int, int]]:
    """Bytes at rest and bytes shared, by image; worked out once until an image comes or goes."""
    if reader not in hub.images.sizes:
        async with hub.store.read() as conn:
            found = await store.sizes(conn, reader)
        if len(hub.images.sizes) >= MAX_READERS:
            hub.images.sizes.clear()
        hub.images.sizes[reader] = found
    return hub.images.sizes[reader]


def _names(hub: Hub, reader: Holder) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for (whose, name), one in hub.images.names.items():
        if reader.reads(whose):
            found.setdefault(one, []).append(name)
    return found


def _holders(hub: Hub, principal: Principal) -> dict[str, tuple[list[str], int]]:
    """Runners that hold each image: the names of those that the reader sees, and how many others."""
    found: dict[str, tuple[list[str], int]] = {}
    for live in hub.dispatch.fleet.live.values():
        seen = sees(principal, live)
        for one in live.offer.images if live.offer is not None else ():
            names, others = found.get(one, ([], 0))
            found[one] = ([*names, live.name], others) if seen else (names, others + 1)
    return found


def _view(
    image: LiveImage,
    reader: Holder,
    sizes: tuple[int, int] | None,
    names: Iterable[str],
    held: tuple[list[str], int],
) -> ImageView:
    row = image.row
    mine = {one: owner for one, owner in image.owners.items() if reader.reads(one)}
    widest = min(mine, key=lambda one: (bool(one.owner), bool(one.project), one))
    used = [owner.used_ms for owner in mine.values() if owner.used_ms is not None]
    return ImageView(
        hash=row.hash,
        bytes=row.bytes,
        arch=row.arch,
        cutter=row.cutter,
        chunks=row.chunks,
        owner=widest.project or widest.owner or None,
        created_at=min(owner.created_ms for owner in mine.values()),
        used_at=max(used, default=None),
        names=sorted(set(names)),
        stored_bytes=None if sizes is None else sizes[0],
        shared_bytes=0 if sizes is None else sizes[1],
        held_by=sorted(held[0]),
        held_by_others=held[1],
        damaged=image.missing,
    )
