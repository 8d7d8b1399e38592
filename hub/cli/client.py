"""The hub's HTTP client for people: ask, send a file, follow events.

The invariant: every failure leaves here as a CliError whose words say what to do, and only a call
that may be repeated (a read, a PUT by hash, a submit with a key) is ever sent twice. Redirects are
not followed: a token goes only where its owner said.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import quote, urlencode

import urllib3

from hub.cli.errors import CliError, Refused, Unreachable, Usage
from hub.cli.login import Target
from hub.cli.sse import Event, EventTooLarge, Parser
from hub.cli.terminal import one_line

API = "/api/v1"
CONNECT_S = 5.0  # a hub in reach accepts within milliseconds
READ_S = 60.0  # no call of people waits on purpose; a live stream says something every 15 s
SEND_S = 600.0  # for a whole packed folder on a slow line, per blocking read or write
TRIES = 3  # of a call that may be repeated: a hub that restarts is back within this
PAUSE_S = 0.4  # before the second try, doubled before the third
MAX_ANSWER_BYTES = 256 * 2**20  # any JSON; larger ones come from something that is no hub
STREAM_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, *([5.0] * 10))  # a minute of trying before giving up

Json = dict[str, Any]
Query = Mapping[str, str | int | None]


class NoStream(Exception):
    """The hub has no events at this path: ask from time to time instead."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer."""

    status: int
    body: bytes

    def json(self) -> Json:
        """The object it holds. Raises Unreachable where it holds none: that was no hub."""
        try:
            value = json.loads(self.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Unreachable("the answer is not a hub's: is the address right?")
        return value


class Client:
    """Requests to one hub. `sleep` waits between tries, in seconds."""

    def __init__(self, target: Target, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self.target = target
        self._sleep = sleep
        self._pool = urllib3.PoolManager(num_pools=1, maxsize=2, retries=False)

    def get(self, path: str, query: Query | None = None) -> Reply:
        """GET below `/api/v1`."""
        return self.ask("GET", path, query)

    def ask(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Mapping[str, object] | None = None,
        *,
        repeat: bool = False,
    ) -> Reply:
        """One call with a JSON body or none; `repeat` says that sending it twice does no harm.

        Raises Refused for an error answer and Unreachable where no hub answers.
        """
        headers = self._headers()
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        url = self.url(path, query)
        tries = TRIES if repeat or method in ("GET", "HEAD") else 1
        for number in range(tries):
            try:
                return self._reply(self._open(method, url, headers, content))
            except Unreachable:
                if number + 1 == tries:
                    raise
            except urllib3.exceptions.HTTPError as error:
                if number + 1 == tries:
                    raise self._unreachable(error) from None
            self._sleep(PAUSE_S * 2**number)
        raise AssertionError("every try returns or raises")

    def send(self, path: str, query: Query, source: IO[bytes], size: int) -> Reply:
        """PUT `size` bytes read from `source`. Raises as `ask` does."""
        headers = {
            **self._headers(),
            "Content-Type": "application/octet-stream",
            "Content-Length": str(size),
        }
        try:
            return self._reply(self._open("PUT", self.url(path, query), headers, source, read_s=SEND_S))
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from None

    def pieces(self, path: str, query: Query) -> Iterator[bytes]:
        """The bytes of an answer that may be larger than memory, as they come.

        Raises as `ask` does, also in the midst: the caller knows how far it came.
        """
        try:
            response = self._open("GET", self.url(path, query), self._headers())
            if response.status != 200:
                yield self._reply(response).body
                return
            try:
                while piece := response.read1(65536):
                    yield piece
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from None

    def events(self, path: str) -> Iterator[Event]:
        """The events at `path` until `end`, over as many connections as it takes.

        A connection that ends without `end` is made again with the last id. Raises NoStream where
        the hub has none there, Refused where it says no, Unreachable after a minute without any.
        """
        last_id, failures = "", 0
        while True:
            try:
                for event in self._stream(path, last_id):
                    last_id, failures = event.id, 0
                    yield event
                    if event.name == "end":
                        return
                problem: Exception = Unreachable(f"{self.target.url} ended the stream again and again")
            except (urllib3.exceptions.HTTPError, OSError) as error:
                problem = self._unreachable(error)
            except Unreachable as error:
                problem = error
            if failures == len(STREAM_PAUSES_S):
                raise problem
            self._sleep(STREAM_PAUSES_S[failures])
            failures += 1

    def pause(self, seconds: float) -> None:
        """Wait between two looks at something that has no events."""
        self._sleep(seconds)

    def url(self, path: str, query: Query | None = None) -> str:
        """The whole address of an API path."""
        given = {key: value for key, value in (query or {}).items() if value is not None}
        return f"{self.target.url}{API}{path}" + (f"?{urlencode(given)}" if given else "")

    def _stream(self, path: str, last_id: str) -> Iterator[Event]:
        headers = self._headers()
        headers["Accept"] = "text/event-stream"
        if last_id:
            headers["Last-Event-ID"] = last_id
        response = self._open("GET", self.url(path), headers)
        try:
            if response.status in (404, 405, 406, 501):
                raise NoStream
            if response.status != 200:
                self._reply(response)
            if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise NoStream
            parser = Parser(last_id=last_id)
            while piece := response.read1(65536):
                yield from parser.feed(piece)
        except EventTooLarge:
            raise CliError("an event passed every bound: is that a Shunter hub?") from None
        finally:
            response.close()

    def _open(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        body: bytes | IO[bytes] | None = None,
        *,
        read_s: float = READ_S,
    ) -> urllib3.BaseHTTPResponse:
        """The answer's head; its body is still to be read."""
        return self._pool.request(
            method,
            url,
            body=body,
            headers=headers,
            redirect=False,
            preload_content=False,
            timeout=urllib3.Timeout(connect=CONNECT_S, read=read_s),
        )

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "shunter"}
        if self.target.token:
            headers["Authorization"] = f"Bearer {self.target.token}"
        return headers

    def _reply(self, response: urllib3.BaseHTTPResponse) -> Reply:
        body = response.read(MAX_ANSWER_BYTES + 1)
        if len(body) > MAX_ANSWER_BYTES:
            response.close()
            raise CliError("the answer passed every bound: is that a Shunter hub?")
        response.release_conn()
        if 200 <= response.status < 300:
            return Reply(response.status, body)
        if 300 <= response.status < 400:
            where = one_line(response.headers.get("Location", "elsewhere"))
            raise Usage(f"{self.target.url} sends on to {where}: give --hub the address it means")
        problem = _problem(response, body)
        if not problem and response.status in (502, 503, 504):
            raise Unreachable(f"{self.target.url} answered {response.status}: the hub behind it is away")
        if response.status == 401 and not self.target.token:
            raise Refused(401, {"detail": f"{self.target.url} wants a token: shunter login"})
        if not problem:
            problem = {"detail": f"{self.target.url} answered {response.status} without saying why"}
        raise Refused(response.status, problem)

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self.target.url} cannot be reached: {_cause(error)}")


def segment(text: str) -> str:
    """`text` as one piece of a path, whatever it holds."""
    return quote(text, safe="")


def _problem(response: urllib3.BaseHTTPResponse, body: bytes) -> Json:
    """The problem object of an error answer; empty where there is none."""
    if "json" not in response.headers.get("Content-Type", ""):
        return {}
    try:
        problem = json.loads(body)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _cause(error: Exception) -> str:
    """The plain words behind an exception of the HTTP library."""
    if isinstance(error, urllib3.exceptions.NameResolutionError):
        return "no such host"
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror:
            return seen.strerror[0].lower() + seen.strerror[1:]
        seen = seen.__cause__ or seen.__context__
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return f"no connection within {CONNECT_S:.0f} s"
    if isinstance(error, urllib3.exceptions.TimeoutError):
        return "no answer in time"
    if isinstance(error, urllib3.exceptions.SSLError):
        return "its certificate or encryption is not accepted"
    return "the connection broke"
