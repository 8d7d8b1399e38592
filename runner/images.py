"""The images of a runner: what it holds, what it fetches, what it may remove.

Invariants: an image has one fetch at a time, whoever waits for it; what is in use is never removed; what
`held` says is here and was found to have its name; what images take together stays within the limit, and
the disk keeps what the agent itself needs. Thread-safe.

A job takes `use` first and asks `ensure` within it, so that nothing can remove the image in between.
"""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hub.carry.link import Address
from hub.carry.transfer import Patience
from hub.chunks.manifest import Manifest
from hub.wire.base import MAX_IMAGES
from hub.wire.claim import ImageRef
from runner.errors import Aborted
from runner.images_fetch import Fetch, NotFetched, Place
from runner.images_room import MIB, Bounds, Wanted, make_room
from runner.images_shelf import Shelf
from runner.sandbox.base import Stop
from runner.unpack import SPARE_BYTES, NoRoom

__all__ = ["Images", "NoRoom", "NotFetched", "default_limit_mib"]

log = logging.getLogger(__name__)

SEEDS = 4  # similar images looked into: the newest few are what a new one was made from
LOOK_S = 0.1  # between two looks of a waiter at its own job; the end of the fetch wakes it at once
NOTE_EVERY_S = 10.0  # of a long fetch, in the job's log
PART_DAYS = 7  # an unfinished fetch is kept for resuming; after that nobody is likely to ask again
SHARE = 5  # of the disk, by default
MOST_MIB = 50 * 1024  # by default: more is an owner's decision
RETRIES = Patience(first_s=0.5, most_s=10.0, give_up_s=1800.0)  # whoever waits has a bound of its own

Note = Callable[[str], None]


class Images:
    """The images below `folder`, at most `limit_mib` of them, from the hub at `address`.

    `changed` is called, without any lock, whenever `held` or `fetching` have.
    """

    def __init__(
        self, folder: Path, limit_mib: int, address: Address, *, patience: Patience = RETRIES
    ) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._limit_bytes = limit_mib * MIB
        self._address = address
        self._patience = patience
        self._lock = threading.Lock()
        self._uses: dict[str, int] = {}
        self._fetches: dict[str, Fetch] = {}
        self._closed = False
        self._shelf = Shelf(folder)
        self._tidy()

    def held(self) -> dict[str, str | None]:
        """The architecture of each image that is here (None: not known); the last used ones first."""
        with self._lock:
            newest = sorted(self._shelf.held.values(), key=lambda one: -one.used_ns)
        return {one.hash: one.arch for one in newest[:MAX_IMAGES]}

    def fetching(self) -> tuple[str, ...]:
        """Images that are on their way."""
        with self._lock:
            return tuple(image for image, fetch in self._fetches.items() if not fetch.given_up)

    def taken_mib(self) -> int:
        """What the images on their way have taken of the disk so far."""
        with self._lock:
            return sum(rest.disk_bytes for rest in self._shelf.rests() if rest.hash in self._fetches) // MIB

    @contextmanager
    def use(self, image: str) -> Iterator[None]:
        """While entered, the image is not removed once it is here."""
        with self._lock:
            self._uses[image] = self._uses.get(image, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._uses[image] -= 1
                if not self._uses[image]:
                    del self._uses[image]
                self._shelf.touch(image)

    def ensure(self, ref: ImageRef, *, stop: Stop, until: float, note: Note) -> Path:
        """The image's file, fetched if it is not here.

        `until` (a monotonic time) and `stop` end the waiting; `note` hears sentences for the job's log.
        Raises NoRoom: not on this machine now; NotFetched: nowhere; OSError as the disk does; Aborted
        once `stop` has any reason.
        """
        began_s = time.monotonic()
        while True:
            if stop.reason is not None or self._closed:
                raise Aborted
            with self._lock:
                if (held := self._shelf.get(ref.hash)) is not None:
                    self._shelf.touch(ref.hash)
                    return held.path
                fetch = self._join(ref.hash)
            self.changed()
            try:
                self._await(fetch, ref, stop, until, note)
            finally:
                self._leave(fetch)
            try:
                done = fetch.result()
            except Aborted:  # those before us gave it up as we came: begin it anew
                continue
            took_s = time.monotonic() - began_s
            note(
                f"image {_name(ref)}: {done.fetched_chunks} of {done.chunks} chunks fetched, "
                f"{done.wire_bytes / MIB:.1f} MiB in {took_s:.1f} s"
            )

    def close(self) -> None:
        """Give up what is on its way; part files stay."""
        with self._lock:
            self._closed = True
            fetches = list(self._fetches.values())
        for fetch in fetches:
            fetch.give_up()
        for fetch in fetches:
            fetch.join()

    def _await(self, fetch: Fetch, ref: ImageRef, stop: Stop, until: float, note: Note) -> None:
        """Wait for a fetch's end, telling how far it is."""
        told_s = time.monotonic()
        while not fetch.over.wait(LOOK_S):
            if stop.reason is not None:
                raise Aborted
            now_s = time.monotonic()
            if now_s > until:
                raise NotFetched(f"fetching image {_name(ref)} took too long")
            if now_s - told_s >= NOTE_EVERY_S and fetch.manifest is not None:
                told_s = now_s
                note(f"image {_name(ref)}: {100 * fetch.done_bytes // fetch.manifest.bytes} % is here")

    def _join(self, image: str) -> Fetch:
        """The fetch of `image`, begun if there is none. The lock is held."""
        fetch = self._fetches.get(image)
        if fetch is None:
            fetch = Fetch(
                image,
                self._address,
                self._patience,
                known=lambda: self._shelf.manifest(image),
                admit=lambda manifest: self._admit(image, manifest),
                keep=lambda manifest: self._keep(image, manifest),
                ended=self._ended,
            )
            self._fetches[image] = fetch
            fetch.start()
        fetch.waiters += 1
        return fetch

    def _leave(self, fetch: Fetch) -> None:
        with self._lock:
            fetch.waiters -= 1
            alone = fetch.waiters == 0 and not fetch.over.is_set()
            if alone:
                fetch.give_up()
        if alone:
            self.changed()

    def _admit(self, image: str, manifest: Manifest) -> Place:
        """Make room for an image whose chunks are now known, and find what is at hand for it."""
        with self._lock:
            seeds = self._seeds(image)
            rests = self._shelf.rests()
            others = [
                one for one in self._fetches.values() if one.image != image and one.manifest is not None
            ]
            still = sum(one.part.grows_bytes for one in others if one.part is not None)
            own = next((rest.disk_bytes for rest in rests if rest.hash == image), 0)
            free = shutil.disk_usage(self._shelf.folder).free - SPARE_BYTES - still
            goes = make_room(
                Wanted(bytes=manifest.bytes, grows_bytes=max(0, manifest.bytes - own)),
                Bounds(
                    limit_bytes=self._limit_bytes,
                    fetching_bytes=sum(one.manifest.bytes for one in others if one.manifest is not None),
                    free_bytes=free,
                ),
                self._shelf.held.values(),
                [rest for rest in rests if rest.hash not in self._fetches],
                used=self._uses.keys(),
                spared=seeds.keys(),
            )
            for each in goes:
                log.info("image %s is removed: room is needed for %s", each[:12], image[:12])
                self._shelf.remove(each)
            self._shelf.keep_manifest(image, manifest)
            # One that is removed by another fetch before it is opened is passed over there.
            held = {each: place for each, place in seeds.items() if each not in goes}
            path = self._shelf.path
            return Place(
                part=path(image, "part"),
                target=path(image, "img"),
                manifest=path(image, "manifest"),
                held=held,
            )

    def _seeds(self, image: str) -> dict[str, tuple[Path, Manifest]]:
        """The newest images at hand, with their chunks; the newest first. The lock is held."""
        newest = sorted(self._shelf.held.values(), key=lambda one: -one.mtime_ns)
        found: dict[str, tuple[Path, Manifest]] = {}
        for one in newest[:SEEDS]:
            if one.hash != image and (manifest := self._shelf.manifest(one.hash)) is not None:
                found[one.hash] = (one.path, manifest)
        return found

    def _ended(self, fetch: Fetch) -> None:
        """A fetch is over, well or not: its thread calls this last."""
        with self._lock:
            del self._fetches[fetch.image]
        self.changed()

    def _keep(self, image: str, manifest: Manifest) -> None:
        """An image has its place: from now on it is held. Raises OSError, and then it is not."""
        with self._lock:
            try:
                self._shelf.keep(image, manifest.arch)
            except OSError:
                with suppress(OSError):
                    self._shelf.remove(image)
                raise

    def _tidy(self) -> None:
        """At start: remove what an earlier life began long ago, and what is over the limit."""
        oldest_ns = time.time_ns() - PART_DAYS * 86_400 * 10**9
        for rest in self._shelf.rests():
            if rest.written_ns < oldest_ns:
                self._shelf.remove(rest.hash)
        held = sorted(self._shelf.held.values(), key=lambda one: one.used_ns)
        taken = sum(one.bytes for one in held)
        for one in held:
            if taken <= self._limit_bytes:
                break
            taken -= one.bytes
            log.info("image %s is removed: it is over the limit", one.hash[:12])
            self._shelf.remove(one.hash)


def default_limit_mib(folder: Path) -> int:
    """A fifth of the disk that `folder` stands on, at most 50 GiB."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    with suppress(OSError):
        return min(shutil.disk_usage(existing).total // SHARE // MIB, MOST_MIB)
    return 0


def _name(ref: ImageRef) -> str:
    return f"{ref.name} ({ref.hash[:12]})" if ref.name else ref.hash[:12]
