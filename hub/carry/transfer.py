"""Many chunks over a few connections, in batches, until all have arrived.

Batches of 64 chunks on two connections carry three to nine times as much as one call per chunk
(measured). Invariants: at most two batches of each connection are in memory; a batch whose answer was
lost is asked again, which changes nothing, and only for what is still lacking; a chunk is handed on only
after its bytes were found to have its name. What is asked again, and how often, is decided here alone.
"""

import itertools
import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from hub.carry.link import MAX_ANSWER_BYTES, Aborted, Address, Denied, Link, LinkError, Lost
from hub.chunks.chunk import BadChunk, decode, encode, max_encoded_bytes
from hub.chunks.frames import END, HEAD_BYTES, MEDIA_TYPE, BadFrames, Frames, frame

T = TypeVar("T")
Wanted = tuple[str, int]  # a chunk's name and its bytes

CONNECTIONS = 2  # a third carries no more: opening and naming chunks keeps two cores busy
BATCH_CHUNKS = 64  # measured: larger batches are no faster, and each costs memory
BATCH_BYTES = 8 * 2**20  # of a body; 64 of the largest chunks would be twice that
ASK_CHUNKS = 4096  # names in one call of `missing`, as the hub bounds it
MAX_GARBLED = 5  # times that one batch comes or arrives with wrong bytes before it is no accident of the way
NOT_CHUNKS = (400, 422)  # what a hub says to a body that is not what it should be


class Garbled(LinkError):
    """What comes is, again and again, not what was asked for: a proxy in between, or a hub with damage."""


class NotHeld(LinkError):
    """The hub has lost chunks, and says so by leaving them out."""

    def __init__(self, chunks: int) -> None:
        super().__init__(f"the hub has lost {chunks} chunks of it: push the image again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to go on without an answer, in seconds: waits double from `first_s` to `most_s`."""

    first_s: float = 0.2
    most_s: float = 10.0
    give_up_s: float = 60.0  # of waiting since the last success


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What one batch has moved: chunks, their raw bytes, and their bytes on the way."""

    chunks: int
    raw_bytes: int
    wire_bytes: int


Report = Callable[[Moved], None]


def no_report(moved: Moved) -> None:
    """For a caller that shows nothing."""


class Transfer:
    """Chunks to and from the hub at `address`.

    `abort` from any thread ends everything under way; so does a failure of `send` or `fetch`, after
    which another Transfer goes on where this one stood.
    """

    def __init__(
        self, address: Address, *, patience: Patience | None = None, connections: int = CONNECTIONS
    ) -> None:
        self._patience = patience or Patience()
        self._links = [Link(address) for _ in range(connections)]
        self._over = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> "Transfer":
        return self

    def __exit__(self, *error: object) -> None:
        for link in self._links:
            link.close()

    def abort(self) -> None:
        """End all calls: they, and all that follow, raise Aborted."""
        self._over.set()
        for link in self._links:
            link.abort()

    @property
    def aborted(self) -> bool:
        """Whether it was given up."""
        return self._over.is_set()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        read_s: float | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        """One call that may be sent twice, until there is an answer. Raises LinkError."""
        link = self._links[0]
        return self._persist(lambda: link.ask(method, path, body, read_s=read_s, max_bytes=max_bytes))

    def missing(
        self, names: Iterable[str], *, batch: int = ASK_CHUNKS, owner: str | None = None
    ) -> list[str]:
        """Those of `names` that the hub wants to be sent for images of `owner`, in their order."""
        found: list[str] = []
        rest = iter(names)
        while asked := list(itertools.islice(rest, min(batch, ASK_CHUNKS))):
            body = json.dumps({"chunks": asked, "owner": owner}).encode()
            told = set(_names(self.ask("POST", "/images/missing", body)))
            found += (name for name in asked if name in told)
        return found

    def send(
        self,
        wanted: Iterable[Wanted],
        read: Callable[[str], bytes],
        report: Report = no_report,
        *,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Send chunks; `read` gives one's raw bytes, in any thread. Raises LinkError, or what `read` does."""

        def move(link: Link, batch: list[Wanted]) -> None:
            parts = [frame(name, encode(read(name))) for name, _ in batch]
            body = b"".join((*parts, END))
            del parts
            garbled = 0

            def deliver() -> None:
                nonlocal garbled
                try:
                    link.ask("POST", "/images/chunks", body, MEDIA_TYPE)
                except Denied as error:
                    garbled += 1
                    if error.status not in NOT_CHUNKS or garbled >= MAX_GARBLED:
                        raise
                    raise Lost(str(error)) from None  # what was sent was right: the way changed it

            self._persist(deliver)
            self._tell(report, batch, len(body))

        self._share(batches(wanted, batch_bytes), move)

    def fetch(
        self,
        wanted: Iterable[Wanted],
        put: Callable[[str, bytes], None],
        report: Report = no_report,
        *,
        batch_bytes: int = BATCH_BYTES,
    ) -> None:
        """Fetch chunks; `put` gets each, verified, in any thread. Raises LinkError, or what `put` does."""

        def move(link: Link, batch: list[Wanted]) -> None:
            lacking, wire_bytes, garbled = dict(batch), 0, 0

            def receive() -> None:
                nonlocal wire_bytes, garbled
                before = len(lacking)
                try:
                    for packed in _receive(link, lacking, put):
                        wire_bytes += packed
                except Lost as error:
                    error.went_on = len(lacking) < before
                    raise
                except (BadChunk, BadFrames) as error:
                    garbled += 1
                    if garbled >= MAX_GARBLED:
                        raise Garbled(f"what the hub sends is not what was asked for: {error}") from None
                    raise Lost(str(error), went_on=len(lacking) < before) from None

            self._persist(receive)
            self._tell(report, batch, wire_bytes)

        self._share(batches(wanted, batch_bytes), move)

    def _tell(self, report: Report, batch: Sequence[Wanted], wire_bytes: int) -> None:
        with self._lock:
            raw = sum(size for _, size in batch)
            report(Moved(chunks=len(batch), raw_bytes=raw, wire_bytes=wire_bytes))

    def _share(self, work: Iterator[list[Wanted]], move: Callable[[Link, list[Wanted]], None]) -> None:
        """Let every connection take batch after batch, in a thread each; the first failure ends all."""
        failures: list[BaseException] = []

        def run(link: Link) -> None:
            try:
                while not failures:
                    with self._lock:
                        batch = next(work, None)
                    if batch is None:
                        return
                    move(link, batch)
            except BaseException as error:  # it is raised again below, in the thread that asked
                failures.append(error)
                self.abort()  # the others would else go on, or wait for a hub that is away

        first, *others = self._links
        threads = [threading.Thread(target=run, args=(link,), daemon=True) for link in others]
        for thread in threads:
            thread.start()
        run(first)
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # an interrupt: nobody may write on when this has returned
            self.abort()
            for thread in threads:
                thread.join()
            raise
        if failures:
            raise failures[0]

    def _persist(self, call: Callable[[], T]) -> T:
        """`call` until it is answered. Raises the last Lost after `give_up_s` of waiting."""
        step_s, waited_s = self._patience.first_s, 0.0
        while True:
            if self._over.is_set():
                raise Aborted("given up")
            try:
                return call()
            except Lost as error:
                if error.went_on:
                    step_s, waited_s = self._patience.first_s, 0.0
                wait_s = step_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads retries, hides nothing
                if error.retry_after_s is not None:
                    wait_s = max(wait_s, min(error.retry_after_s, self._patience.most_s))
                waited_s += wait_s
                if waited_s > self._patience.give_up_s:
                    raise
            step_s = min(2 * step_s, self._patience.most_s)
            if self._over.wait(wait_s):
                raise Aborted("given up")


def batches(wanted: Iterable[Wanted], batch_bytes: int = BATCH_BYTES) -> Iterator[list[Wanted]]:
    """In order, at most BATCH_CHUNKS chunks each, of which no more than `batch_bytes` can come as frames.

    A chunk that is larger goes alone.
    """
    batch: list[Wanted] = []
    total = len(END)
    for one in wanted:
        most = HEAD_BYTES + max_encoded_bytes(one[1])
        if batch and (len(batch) == BATCH_CHUNKS or total + most > batch_bytes):
            yield batch
            batch, total = [], len(END)
        batch.append(one)
        total += most
    if batch:
        yield batch


def _receive(link: Link, lacking: dict[str, int], put: Callable[[str, bytes], None]) -> Iterator[int]:
    """One answer with the chunks `lacking`, each put and struck off; the bytes of each one's body.

    What was struck off before a failure has been put, and is not asked again.
    """
    frames = Frames()
    body = json.dumps({"chunks": list(lacking)}).encode()
    # Closed here and now: left to the collector, it would close the connection under a later call.
    with closing(link.stream("POST", "/images/chunks/fetch", body)) as pieces:
        for piece in pieces:
            for name, packed in frames.feed(piece):
                if (size := lacking.get(name)) is None:
                    raise BadFrames(f"chunk {name} came, which was not asked for")
                put(name, decode(packed, name=name, bytes_=size, max_bytes=size))
                del lacking[name]
                yield len(packed)
    frames.close()
    if lacking:
        raise NotHeld(len(lacking))


def _names(body: bytes) -> list[str]:
    try:
        missing = json.loads(body)["missing"]
    except (ValueError, KeyError, TypeError):
        missing = None
    if not isinstance(missing, list) or not all(isinstance(name, str) for name in missing):
        raise Denied(200, {"detail": "the answer is not a hub's: is the address right?"})
    return missing
