"""One image on its way to a runner, in a thread of its own, for however many jobs wait for it.

Invariant: whoever waits leaves when its own job is to stop; when nobody waits any more the fetch ends,
and its part file stays for the next one.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hub.carry.fetch import Fetched, fetch, manifest_of
from hub.carry.link import Aborted as LinkAborted
from hub.carry.link import Address, Denied, LinkError
from hub.carry.part import NotWhole, Part, PartInUse
from hub.carry.transfer import Moved, NotHeld, Patience, Transfer
from hub.chunks.manifest import Manifest
from runner.errors import Aborted
from runner.images_room import mib
from runner.outcome import is_full
from runner.unpack import NoRoom
from runner.workspace import NotPrepared

log = logging.getLogger(__name__)


class NotFetched(NotPrepared):
    """The image cannot be had, here or elsewhere: its words say why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an image is put together and what is at hand for it, once there is room."""

    part: Path
    target: Path
    manifest: Path
    held: Mapping[str, tuple[Path, Manifest]]


class Fetch:
    """The fetch of one image. Its public fields are written under the lock of `Images`, or by its thread.

    `known` is the manifest that an earlier life kept; None: none. `admit` makes room for a manifest and
    gives the place; it may raise NoRoom. `keep` is told when the image has its place, and `ended` at last,
    whatever came of it.
    """

    def __init__(
        self,
        image: str,
        address: Address,
        patience: Patience,
        *,
        known: Callable[[], Manifest | None],
        admit: Callable[[Manifest], Place],
        keep: Callable[[Manifest], None],
        ended: Callable[["Fetch"], None],
    ) -> None:
        self.image = image
        self.waiters = 0
        self.manifest: Manifest | None = None
        self.part: Part | None = None
        self.done: Fetched | None = None
        self.done_bytes = 0
        self.over = threading.Event()
        self._known, self._admit, self._keep, self._ended = known, admit, keep, ended
        self._failure: Callable[[], Exception] | None = None
        self._transfer = Transfer(address, patience=patience)
        self._thread = threading.Thread(target=self._run, name=f"image-{image[:12]}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def give_up(self) -> None:
        """Nobody waits for it any more."""
        self._transfer.abort()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    @property
    def given_up(self) -> bool:
        """Whether it ends without its image."""
        return self._transfer.aborted

    def result(self) -> Fetched:
        """What it took, once it is over. Raises NoRoom, NotFetched, OSError, or Aborted."""
        if self._failure is not None:
            raise self._failure()
        assert self.done is not None
        return self.done

    def _run(self) -> None:
        try:
            with self._transfer:
                self.done = self._work()
        except (LinkAborted, Aborted):
            self._failure = Aborted
        except NoRoom as error:
            self._fail(NoRoom, str(error))
        except Denied as error:
            gone = " (push it again)" if error.status == 404 else ""
            self._fail(NotFetched, f"image {self.image[:12]} cannot be fetched: {error}{gone}")
        except (LinkError, NotWhole, PartInUse) as error:
            self._fail(NotFetched, f"image {self.image[:12]} cannot be fetched: {error}")
        except OSError as error:
            self._fail_of_disk(error)
        except Exception as error:  # whoever waits must hear of it
            log.exception("image %s: the fetch failed", self.image[:12])
            self._fail(NotFetched, f"image {self.image[:12]} cannot be fetched: the runner failed: {error}")
        finally:
            self._ended(self)
            self.over.set()

    def _work(self) -> Fetched:
        manifest = self._known() or manifest_of(self._transfer, self.image)
        place = self._admit(manifest)
        self.manifest = manifest

        def add(count: int) -> None:
            self.done_bytes += count

        def report(moved: Moved) -> None:
            add(moved.raw_bytes)

        with Part(place.part, self.image, manifest) as part:
            self.part = part
            try:
                done = fetch(
                    self._transfer,
                    part,
                    place.target,
                    held=place.held,
                    at_hand=add,
                    report=report,
                    go_on=self._go_on,
                )
            except NotWhole:
                part.remove()
                place.manifest.unlink(missing_ok=True)
                raise
            except (NotHeld, Denied):  # the kept manifest may be the fault: the next fetch asks for it again
                place.manifest.unlink(missing_ok=True)
                raise
            except OSError as error:
                if is_full(error):
                    part.remove()  # it must not keep from others what it cannot use
                raise
            finally:
                self.part = None
        self._keep(manifest)
        return done

    def _go_on(self) -> None:
        if self._transfer.aborted:
            raise Aborted

    def _fail(self, kind: type[Exception], text: str) -> None:
        self._failure = lambda: kind(text)

    def _fail_of_disk(self, error: OSError) -> None:
        if not is_full(error):
            number, text, name = error.errno, error.strerror, error.filename
            self._failure = lambda: OSError(number, text, name)
            return
        size = 0 if self.manifest is None else self.manifest.bytes
        self._fail(NoRoom, f"no space left for the image: it takes {mib(size)} MiB")
