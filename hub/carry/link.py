"""One connection to a hub, kept open, for bodies that are large.

The standard library's client carries batches of chunks a third faster than a pooling one (measured:
263 against 198 MB/s). Invariants: used by one thread at a time and given up from any other; every
failure leaves as one of the errors below; a redirect is not followed, so that a token goes only where
its owner said. Nothing is asked twice here: `transfer` does that.

    LinkError
    ├── Lost        no answer to rely on: cut, refused, timed out, 408, 425, 429, 5xx. Ask again
    ├── Denied      any other answer than a success, with what it said
    └── Aborted     this side gave it up
"""

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

CONNECT_S = 5.0  # a hub in reach accepts within milliseconds
READ_S = 60.0  # between two pieces of an answer
MAX_ANSWER_BYTES = 4 * 2**20  # any answer but a manifest and a stream
MAX_PROBLEM_BYTES = 2**20
PIECE_BYTES = 2**18  # of a streamed answer, as large as the largest chunk
NO_ROOM = 507  # the hub's disk is full: no accident of the way, and not over in a minute
_BASE = "/api/v1"


class LinkError(Exception):
    """The base: its text says what happened."""


class Lost(LinkError):
    """The call may or may not have arrived.

    `retry_after_s`: what the answer asked for; None: nothing. `went_on`: part of it arrived, and is
    not lacking any more.
    """

    def __init__(self, detail: str, *, retry_after_s: float | None = None, went_on: bool = False) -> None:
        super().__init__(detail)
        self.retry_after_s = retry_after_s
        self.went_on = went_on


class Denied(LinkError):
    """The hub understood, and will not. `problem`: its RFC 9457 object, empty where it sent none."""

    def __init__(self, status: int, problem: Mapping[str, object]) -> None:
        super().__init__(str(problem.get("detail") or problem.get("title") or f"the hub answered {status}"))
        self.status = status
        self.problem = dict(problem)


class Aborted(LinkError):
    """Given up by this side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A hub and who asks. `ca`: a file of certificates to trust; None: the system's."""

    url: str
    token: str | None = field(repr=False)
    agent: str
    ca: str | None = None


class Link:
    """A connection to the hub at `address`, made when it is first needed and again after a failure."""

    def __init__(self, address: Address, *, read_s: float = READ_S) -> None:
        parts = urlsplit(address.url)
        assert parts.hostname is not None
        self._prefix = parts.path.rstrip("/") + _BASE
        self._read_s = read_s
        self._headers = {"User-Agent": address.agent, "Accept": "application/json, */*"}
        if address.token:
            self._headers["Authorization"] = f"Bearer {address.token}"
        self._aborted = threading.Event()
        self._connection: HTTPConnection
        if parts.scheme == "https":
            trusted = ssl.create_default_context(cafile=address.ca)
            self._connection = HTTPSConnection(parts.hostname, parts.port, timeout=CONNECT_S, context=trusted)
        else:
            self._connection = HTTPConnection(parts.hostname, parts.port, timeout=CONNECT_S)

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        media_type: str = "application/json",
        *,
        read_s: float | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        """The body of a good answer of at most `max_bytes`."""
        with self._translated():
            answer = self._begin(method, path, body, media_type, read_s)
            return self._whole(answer, max_bytes)

    def stream(self, method: str, path: str, body: bytes) -> Generator[bytes, None, None]:
        """A good answer, piece by piece. Where it is not read to its end, the connection is made anew."""
        with self._translated():
            answer = self._begin(method, path, body, "application/json", None)
        ended = False
        try:
            while True:
                with self._translated():
                    piece = answer.read(PIECE_BYTES)
                if not piece:
                    break
                yield piece
            if answer.length:  # a body of stated length that is short reads as one that ended
                raise Lost("the answer was cut off")
            ended = True
        finally:
            if not ended:
                self.close()

    def abort(self) -> None:
        """Give up what is under way, from another thread; it and all that follows raise Aborted."""
        self._aborted.set()
        link = self._connection.sock
        if link is not None:
            with contextlib.suppress(OSError):  # not yet connected, or closed already
                # The plain one: TLS would first say good-bye through the link that another thread reads.
                socket.socket.shutdown(link, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the next call makes another."""
        self._connection.close()

    def _begin(
        self, method: str, path: str, body: bytes | None, media_type: str, read_s: float | None
    ) -> HTTPResponse:
        """Send a request and read the head of its answer. Raises Lost or Denied unless it is good."""
        if self._connection.sock is None:
            self._connection.timeout = CONNECT_S
            self._connection.connect()
        if self._aborted.is_set():
            raise Aborted("given up")
        self._connection.sock.settimeout(read_s or self._read_s)
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = media_type
        self._connection.request(method, self._prefix + path, body=body, headers=headers)
        answer = self._connection.getresponse()
        if not 200 <= answer.status < 300:
            raise _refusal(answer, answer.read(MAX_PROBLEM_BYTES))
        return answer

    def _whole(self, answer: HTTPResponse, max_bytes: int) -> bytes:
        data = answer.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise Denied(answer.status, {"detail": "the answer is beyond its bound: is that a Shunter hub?"})
        if answer.length:
            raise Lost("the answer was cut off")
        return data

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Failures as the errors of this module; after one the connection is made anew."""
        try:
            yield
        except LinkError:
            self.close()
            if self._aborted.is_set():
                raise Aborted("given up") from None
            raise
        except (HTTPException, OSError, ValueError) as error:
            self.close()
            if self._aborted.is_set():
                raise Aborted("given up") from None
            raise Lost(_cause(error)) from None


def _refusal(answer: HTTPResponse, body: bytes) -> LinkError:
    """What an answer that is no success means."""
    problem: dict[str, object] = {}
    with contextlib.suppress(ValueError):
        found = json.loads(body)
        problem = found if isinstance(found, dict) else {}
    status = answer.status
    if status != NO_ROOM and (status in (408, 425, 429) or status >= 500):
        told = answer.headers.get("Retry-After", "")
        wait_s = float(told) if told.isdecimal() else None
        return Lost(str(problem.get("detail") or f"the hub answered {status}"), retry_after_s=wait_s)
    return Denied(status, problem)


def _cause(error: Exception) -> str:
    """The plain words behind a failed call."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"its certificate or encryption is not accepted: {error.reason or error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[0].lower() + error.strerror[1:]
    return f"the connection broke ({type(error).__name__})"
