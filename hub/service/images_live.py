"""The images that the hub holds, in memory: what each is, whose, how it is named, and what is under way.

Invariant: an image is here exactly while somebody owns it in the store and it may be given out. To
resolve a name and to pin what it means is one step without an await, and so is to see that an image is
not needed and to take it out: no run is ever submitted with an image that is being collected.

Not to be done here: reading or writing the store (`images`, `images_names`, `images_gc` do).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from hub.errors import Forbidden
from hub.placement.model import HubImage
from hub.service.access import Principal, authorise
from hub.store.image_owners import Holder
from hub.store.images import ImageRow, OwnerRow

MAX_UPLOADS = 16  # bodies of chunks read at a time: each holds a pack of 8 MiB and a frame at most
MAX_CHECKS = 2  # images checked against their names at a time: each takes every core there is


@dataclass(slots=True, eq=False)
class LiveImage:
    """An image, and who may use it. `missing`: chunks of it that were found bad; then it is not given out."""

    row: ImageRow
    owners: dict[Holder, OwnerRow]
    missing: int = 0

    def is_read_by(self, reader: Holder) -> bool:
        return any(reader.reads(owner) for owner in self.owners)

    def serves(self, project: str) -> bool:
        """Whether jobs of `project` may use it."""
        return any(owner.serves(project) for owner in self.owners)

    @property
    def in_placement(self) -> HubImage | None:
        """As the rules see it; None: it is damaged, and nobody could fetch it."""
        if self.missing:
            return None
        scopes = (
            None if Holder() in self.owners else frozenset(one.project or one.owner for one in self.owners)
        )
        return HubImage(arch=self.row.arch, size_mib=-(-self.row.bytes // 2**20), scopes=scopes)


@dataclass(slots=True, eq=False)
class Catalogue:
    """All images by hash, and what each name means now, by whose it is and what it is."""

    images: dict[str, LiveImage] = field(default_factory=dict)
    names: dict[tuple[Holder, str], str] = field(default_factory=dict)
    pins: Counter[str] = field(default_factory=Counter)  # images of runs that are being submitted
    pushing: dict[str, asyncio.Lock] = field(default_factory=dict)  # one push of an image at a time
    turns: Counter[str] = field(default_factory=Counter)  # who is in such a push, or waits for one
    arriving: dict[str, asyncio.Event] = field(default_factory=dict)  # chunks whose pack is being written
    writing: set[str] = field(default_factory=set)  # packs that are not indexed yet
    sizes: dict[Holder, dict[int, tuple[int, int]]] = field(default_factory=dict)  # as worked out by reader
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_UPLOADS))
    checks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_CHECKS))
    collecting: asyncio.Lock = field(default_factory=asyncio.Lock)  # one collection at a time
    naming: asyncio.Lock = field(default_factory=asyncio.Lock)  # casync ids of one image at a time

    def seen_by(self, reader: Holder) -> Iterator[LiveImage]:
        """The images that `reader` may read."""
        return (image for image in self.images.values() if image.is_read_by(reader))

    def find(self, image_hash: str, reader: Holder) -> LiveImage | None:
        """An image, if `reader` may read it."""
        image = self.images.get(image_hash)
        return image if image is not None and image.is_read_by(reader) else None

    def names_for(self, project: str) -> dict[str, str]:
        """What each name means to a job of `project`: its own before its owner's before everybody's."""
        found: dict[str, str] = {}
        for holder in (
            Holder(),
            Holder(project.partition("/")[0]),
            Holder(project.partition("/")[0], project),
        ):
            found.update((name, one) for (whose, name), one in self.names.items() if whose == holder)
        return found

    def names_of(self, image_hash: str) -> Iterator[tuple[Holder, str]]:
        """The names that mean an image now, with whose they are."""
        return (key for key, one in self.names.items() if one == image_hash)

    def is_busy(self, image_hash: str) -> bool:
        """Whether somebody is alone with an image now."""
        return image_hash in self.pushing

    @asynccontextmanager
    async def alone_with(self, image_hash: str) -> AsyncIterator[None]:
        """One push or removal of an image at a time; where nobody else is, without an await."""
        lock = self.pushing.setdefault(image_hash, asyncio.Lock())
        self.turns[image_hash] += 1
        try:
            async with lock:
                yield
        finally:
            self.turns[image_hash] -= 1
            if not self.turns[image_hash]:
                del self.turns[image_hash], self.pushing[image_hash]

    @contextmanager
    def pinned(self, hashes: Iterable[str]) -> Iterator[None]:
        """Keep images from being taken away until the run that asks for them is on the books."""
        pinned = list(hashes)
        self.pins.update(pinned)
        try:
            yield
        finally:
            self.pins.subtract(pinned)
            for one in pinned:
                if self.pins[one] <= 0:
                    del self.pins[one]


def holder_of(principal: Principal, runner: tuple[str | None, str | None] | None = None) -> Holder:
    """Whose projects a token reaches. `runner`: the owner and project that a runner serves."""
    owner, project = runner or (principal.scope.owner, principal.scope.project)
    if project is not None:
        return Holder(project.partition("/")[0], project)
    return Holder(owner or "")


def target_of(principal: Principal, owner: str | None) -> Holder:
    """Whom something is for that `principal` sends: its whole reach, or one owner within it."""
    authorise(principal, "images")
    mine = holder_of(principal)
    if owner is None:
        return mine
    if not mine.rules(Holder(owner)):
        raise Forbidden(f"this token may not send images for {owner}: leave `owner` out")
    return Holder(owner)
