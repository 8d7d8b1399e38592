"""A small hub over real sockets that a test scripts: it loses answers, goes away, refuses.

It keeps what the contract says a hub keeps: one answer per claim id, a log per job with its offset,
the fence of a lease. `calls` has everything that arrived, in order.
"""

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

T = TypeVar("T")
TOKEN = f"token-{secrets.token_hex(12)}"  # another run of these tests may be on this machine
DEADLINE_S = 30.0


def eventually(look: Callable[[], T | None], what: str, seconds: float = DEADLINE_S) -> T:
    """The first true value of `look`, or a failure that says what was awaited."""
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until, f"still not after {seconds} s: {what}"
        time.sleep(0.01)
    return found


@dataclass(slots=True)
class Call:
    """One request that arrived."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    at: float = field(default_factory=time.monotonic)

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body or b"{}")
        return found


@dataclass(slots=True)
class Answer:
    """What is sent back. `lose`: nothing is, the link is cut."""

    status: int = 204
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    lose: bool = False


def problem(status: int, detail: str, **more: Any) -> Answer:
    """An error as the hub tells it."""
    text = json.dumps({"title": "x", "status": status, "detail": detail, **more})
    return Answer(status, text.encode(), {"Content-Type": "application/problem+json"})


def told(value: Any, status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


class FakeHub:
    """See the module. Use `url`; `close` at the end."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.logs: dict[int, bytearray] = {}
        self.artifacts: dict[str, bytes] = {}
        self.workspaces: dict[int, bytes] = {}
        self.finished: dict[int, dict[str, Any]] = {}
        self.canceled: set[int] = set()
        self.over: set[str] = set()  # leases
        self.ttl_s = 60.0
        # What a call gets instead: the first of the list whose path ends so, once each.
        self.script: list[tuple[str, Answer]] = []
        self._queue: list[dict[str, Any]] = []
        self._given: dict[str, dict[str, Any]] = {}
        self._leases: dict[int, str] = {}
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._open: set[socket.socket] = set()
        self._server: ThreadingHTTPServer | None = None
        self._port = 0
        self.up()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    # The test's side.

    def up(self) -> None:
        """Listen, on the same port as before."""
        self._server = _Server(("127.0.0.1", self._port), self)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def down(self) -> None:
        """Go away: nobody listens, and every open link is cut."""
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for link in list(self._open):
                with contextlib.suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)
            self._changed.notify_all()
        self._server = None

    def close(self) -> None:
        if self._server is not None:
            self.down()

    def queue(self, job: int = 1, *steps: str, **more: Any) -> str:
        """Queue a job with shell commands as its steps; its lease."""
        lease = secrets.token_hex(12)
        text = {
            "id": job, "run": 1, "project": "andy/demo", "name": "build", "attempt": 1, "tier": "process",
            "timeout_s": 60, "steps": [{"name": f"part {n}", "run": run} for n, run in enumerate(steps, 1)],
        }  # fmt: skip
        with self._changed:
            self._queue.append(
                {
                    "job": text | more,
                    "placed": "needs no image, idle",
                    "lease": {"token": lease, "ttl_s": self.ttl_s},
                }
            )
            self._leases[job] = lease
            self._changed.notify_all()
        return lease

    def end_attempt(self, lease: str) -> None:
        """From now on everything with this lease is answered with 409."""
        with self._lock:
            self.over.add(lease)

    def cancel(self, job: int) -> None:
        self.canceled.add(job)

    def instead(self, path: str, *answers: Answer) -> None:
        """The next calls whose path ends with `path` get these answers."""
        with self._lock:
            self.script.extend((path, answer) for answer in answers)

    def of(self, end: str) -> list[Call]:
        """The calls so far whose path, without a query, ends with `end`."""
        with self._lock:
            return [call for call in self.calls if urlsplit(call.path).path.endswith(end)]

    def log(self, job: int = 1) -> bytes:
        return bytes(self.logs.get(job, b""))

    def finish_of(self, job: int = 1, seconds: float = DEADLINE_S) -> dict[str, Any]:
        """What the runner said at the end of a job, once it has."""
        return eventually(lambda: self.finished.get(job), f"job {job} is finished", seconds)

    # The runner's side.

    def answer(self, call: Call) -> Answer:
        parts = urlsplit(call.path)
        with self._lock:
            self.calls.append(call)
            for index, (end, scripted) in enumerate(self.script):
                if parts.path.endswith(end):
                    del self.script[index]
                    if not (scripted.lose and end == "/claim"):
                        return scripted
                    self._claim(call)  # decided, and its answer lost
                    return scripted
        if call.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "this token is not valid")
        words = parts.path.removeprefix("/api/v1/").split("/")
        if words == ["claim"]:
            return self._claim(call)
        if words == ["runner", "drain"]:
            return Answer()
        return self._about_job(call, int(words[1]), words[2], words[3:])

    def _claim(self, call: Call) -> Answer:
        asked = call.json
        until = time.monotonic() + asked["wait_s"]
        with self._changed:
            while True:
                if (again := self._given.get(asked["claim_id"])) is not None:
                    return told(again)
                if self._queue:
                    given = self._given[asked["claim_id"]] = self._queue.pop(0)
                    return told(given)
                left = until - time.monotonic()
                if left <= 0 or self._server is None:
                    return Answer()
                self._changed.wait(left)

    def _about_job(self, call: Call, job: int, what: str, rest: list[str]) -> Answer:
        lease = call.headers.get("lease") or call.json.get("lease", "")
        with self._lock:
            if job not in self._leases:
                return problem(404, "there is no such job here for this runner")
            if lease in self.over:
                return problem(409, "the attempt is over")
            if what == "heartbeat":
                return told({"cancel": job in self.canceled, "ttl_s": self.ttl_s})
            if what == "log":
                return self._log(call, job)
            if what == "artifacts":
                self.artifacts[unquote("/".join(rest))] = call.body
                return told({"path": "/".join(rest), "bytes": len(call.body), "hash": "0" * 64}, 201)
            if what == "workspace":
                return Answer(200, self.workspaces[job])
            if what == "finish":
                return self._finish(call, job)
            if what in ("decline", "release"):
                self.over.add(lease)
            return Answer()

    def _log(self, call: Call, job: int) -> Answer:
        kept = self.logs.setdefault(job, bytearray())
        offset = int(parse_qs(urlsplit(call.path).query)["offset"][0])
        if offset > len(kept):
            return problem(409, f"the log goes on at byte {len(kept)}", offset=len(kept))
        kept.extend(call.body[len(kept) - offset :])
        return told({"offset": len(kept), "cancel": job in self.canceled})

    def _finish(self, call: Call, job: int) -> Answer:
        said = call.json
        size = len(self.logs.get(job, b""))
        if said.get("log_bytes", 0) > size:
            return problem(409, f"the log goes on at byte {size}", offset=size)
        self.finished[job] = said
        return Answer()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], hub: FakeHub) -> None:
        self.hub = hub
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A link that was cut is no fault of the test's."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.server.hub._open.add(self.connection)

    def finish(self) -> None:
        self.server.hub._open.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): text for name, text in self.headers.items()}
        answer = self.server.hub.answer(Call(self.command, self.path, body, headers))
        if answer.lose:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_GET = do_PUT = do_POST  # noqa: N815 - the names are http.server's

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing."""
