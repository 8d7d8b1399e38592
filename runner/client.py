"""The hub, as a runner calls it: one method per call of the contract.

Every call either returns what the hub said or raises one of `errors`. Nothing here decides what to
do about it, with one exception: `persist` asks again while the hub is away. All calls are safe to
repeat, for the lease and the offset make the second one the same as the first. Thread-safe; a poll
has a connection of its own, so that it can be given up from another thread.
"""

import contextlib
import json
import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

import urllib3
from pydantic import BaseModel, ValidationError
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from hub.wire.base import plain_text
from hub.wire.claim import (
    Assignment,
    Claim,
    Drain,
    Finish,
    GiveBack,
    Heartbeat,
    LogOffset,
    Pulse,
    Start,
)
from runner.errors import Aborted, Away, HubError, Locked, Missing, Over, Refused, TooLarge
from runner.sandbox.base import Reason, Stop

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

CONNECT_S = 5.0
READ_S = 30.0  # for an answer that the hub does not hold back
BEYOND_POLL_S = 10.0  # for the answer to a poll, beyond its own length
MAX_ANSWER_BYTES = 16 * 2**20  # an assignment carries scripts of at most 4 MiB, in JSON
CONNECTIONS = 16  # kept open; more are made and dropped where more calls are under way
AGENT = "shunter-runner"
_BASE = "/api/v1"


class Hub:
    """A hub at `url`, for one runner's token. `ca`: certificates to trust instead of the system's."""

    def __init__(self, url: str, token: str, *, ca: Path | None = None, read_s: float = READ_S) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._https = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._prefix = parts.path.rstrip("/") + _BASE
        self._root = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._prefix}"
        self._ca = None if ca is None else str(ca)
        self._read_s = read_s
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": AGENT}
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS, retries=False, ca_certs=self._ca, cert_reqs="CERT_REQUIRED"
        )

    def poll(self, claim: Claim) -> "Poll":
        """A claim that is not yet sent."""
        connection: HTTPConnection
        if self._https:
            connection = HTTPSConnection(
                self._host, self._port, timeout=CONNECT_S, ca_certs=self._ca, cert_reqs="CERT_REQUIRED"
            )
        else:
            connection = HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        return Poll(connection, self._prefix + "/claim", dict(self._headers), claim)

    def drain(self, claim_id: str | None) -> None:
        """This runner finishes what it has."""
        self._tell("/runner/drain", Drain(claim_id=claim_id))

    def start(self, job: int, message: Start) -> None:
        """Confirm. Over: drop the job without running it."""
        self._tell(f"/jobs/{job}/start", message)

    def heartbeat(self, job: int, message: Heartbeat, *, read_s: float) -> Pulse:
        """The attempt lives."""
        return _read(Pulse, self._tell(f"/jobs/{job}/heartbeat", message, read_s=read_s))

    def finish(self, job: int, message: Finish) -> None:
        """The job has ended. Over with an offset: its log is not whole."""
        self._tell(f"/jobs/{job}/finish", message)

    def decline(self, job: int, message: GiveBack) -> None:
        """Not here."""
        self._tell(f"/jobs/{job}/decline", message)

    def release(self, job: int, message: GiveBack) -> None:
        """Given back."""
        self._tell(f"/jobs/{job}/release", message)

    def append_log(self, job: int, lease: str, offset: int, piece: bytes) -> LogOffset:
        """A piece of the log. Over with an offset: the log goes on there."""
        headers = {"Lease": lease, "Content-Type": "application/octet-stream"}
        return _read(LogOffset, self._ask("POST", f"/jobs/{job}/log?offset={offset}", piece, headers))

    def put_artifact(
        self, job: int, lease: str, name: str, file: BinaryIO, size: int, *, report: str | None = None
    ) -> None:
        """A file that the job left; read from where `file` stands. `report`: what it is to be read as."""
        headers = {
            "Lease": lease,
            "Content-Type": "application/octet-stream",
            "Content-Length": str(size),
        }
        query = "" if report is None else f"?report={quote(report)}"
        self._ask("PUT", f"/jobs/{job}/artifacts/{quote(name)}{query}", file, headers)

    @contextmanager
    def workspace(self, job: int, lease: str) -> Iterator[Iterator[bytes]]:
        """The packed folder, piece by piece; a cut link raises Away from the iterator."""
        with _translated():
            answer = self._pool.request(
                "GET",
                f"{self._root}/jobs/{job}/workspace",
                headers={**self._headers, "Lease": lease},
                timeout=urllib3.Timeout(connect=CONNECT_S, read=self._read_s),
                preload_content=False,
                decode_content=False,
                redirect=False,
            )
        try:
            if answer.status != 200:
                with _translated():
                    body = answer.read(MAX_ANSWER_BYTES)
                _check(answer.status, body, answer.headers.get("Retry-After"))
            yield _pieces(answer)
        finally:
            answer.close()

    def _tell(self, path: str, message: BaseModel, *, read_s: float | None = None) -> bytes:
        body = message.model_dump_json(exclude_none=True).encode()
        return self._ask("POST", path, body, {"Content-Type": "application/json"}, read_s)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | BinaryIO,
        headers: dict[str, str],
        read_s: float | None = None,
    ) -> bytes:
        with _translated():
            answer = self._pool.request(
                method,
                self._root + path,
                body=body,
                headers={**self._headers, **headers},
                timeout=urllib3.Timeout(connect=CONNECT_S, read=read_s or self._read_s),
                redirect=False,
            )
        _check(answer.status, answer.data, answer.headers.get("Retry-After"))
        return answer.data


class Poll:
    """One open claim, asked by one thread and given up by any other."""

    def __init__(self, connection: HTTPConnection, path: str, headers: dict[str, str], claim: Claim) -> None:
        self._connection = connection
        self._path = path
        self._headers = {**headers, "Content-Type": "application/json"}
        self._claim = claim
        self._aborted = threading.Event()

    def ask(self) -> Assignment | None:
        """The job, or None after the poll's length. Raises Aborted once `abort` was called."""
        try:
            with _translated():
                self._connection.connect()
                self._connection.timeout = self._claim.wait_s + BEYOND_POLL_S
                if self._aborted.is_set():
                    raise Aborted
                body = self._claim.model_dump_json(exclude_none=True).encode()
                self._connection.request(
                    "POST", self._path, body=body, headers=self._headers, preload_content=False
                )
                answer = self._connection.getresponse()
                data = answer.read(MAX_ANSWER_BYTES + 1)
            if len(data) > MAX_ANSWER_BYTES:
                raise Refused("the hub's answer to the claim is over its bound")
        except HubError:
            if self._aborted.is_set():
                raise Aborted from None
            raise
        finally:
            self._connection.close()
        _check(answer.status, data, answer.headers.get("Retry-After"))
        return None if answer.status == 204 else _read(Assignment, data)

    def abort(self) -> None:
        """Give it up. What the hub may have answered meanwhile comes again for the same claim id."""
        self._aborted.set()
        link = self._connection.sock
        if link is not None:
            with contextlib.suppress(OSError):  # not yet connected, or closed already
                # The plain one: TLS would first say good-bye through the very link another thread reads.
                socket.socket.shutdown(link, socket.SHUT_RDWR)


class Backoff:
    """How long to wait after the first, second, … failure: doubling, with jitter, bounded."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._next_s = first_s

    def reset(self) -> None:
        """It worked."""
        self._next_s = self._first_s

    def failed(self, error: HubError | None = None) -> float:
        """Seconds to wait now: between a half and the whole of the step, or longer if the hub says so."""
        step_s, self._next_s = self._next_s, min(2 * self._next_s, self._most_s)
        wait_s = step_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads a fleet's retries, hides nothing
        told_s = None if error is None else error.retry_after_s
        return wait_s if told_s is None else max(wait_s, min(told_s, self._most_s))


def persist(call: Callable[[], T], stop: Stop, backoff: Backoff, *, until: Reason, give_up_s: float) -> T:
    """`call`, again and again while the hub is away.

    Raises Aborted as soon as `stop` reaches `until`, the last Away after about `give_up_s`, and at once
    whatever else the hub answers.
    """
    waited_s = 0.0
    while True:
        try:
            return call()
        except Away as error:
            wait_s = backoff.failed(error)
            waited_s += wait_s
            if waited_s > give_up_s:
                raise
        if stop.wait(wait_s, until=until):
            raise Aborted


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        raise Away(plain_text(f"{type(error).__name__}: {error}", 300)) from None


def _pieces(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    with _translated():
        yield from answer.stream(2**18, decode_content=False)


def _check(status: int, data: bytes, retry_after: str | None) -> None:
    """Raise what an answer means, unless it is a success."""
    if 200 <= status < 300:
        return
    detail, offset = _problem(data)
    detail = detail or f"the hub answered {status}"
    if status == 409:
        raise Over(detail, offset=offset)
    if status in (408, 425, 429) or status >= 500:
        told_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
        raise Away(f"{status}: {detail}", retry_after_s=told_s)
    kinds: dict[int, type[HubError]] = {401: Locked, 403: Locked, 404: Missing, 413: TooLarge}
    raise kinds.get(status, Refused)(detail)


def _problem(data: bytes) -> tuple[str, int | None]:
    """The sentence and the offset of a problem; nothing where it is none (a proxy's page, say)."""
    try:
        problem = json.loads(data)
        faults = [f"{fault.get('path')} {fault.get('text')}" for fault in problem.get("faults") or ()]
        text = "; ".join([str(problem.get("detail") or ""), *faults])
        offset = problem.get("offset")
    except (ValueError, AttributeError):
        return "", None
    return plain_text(text.strip("; "), 1000), offset if isinstance(offset, int) and offset >= 0 else None


def _read(kind: type[M], data: bytes) -> M:
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        where = error.errors(include_url=False, include_input=False)[0]
        raise Refused(
            f"the hub's answer is not one of this protocol: {where['loc']} {where['msg']}"
        ) from None
