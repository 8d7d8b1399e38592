"""A small hub that keeps images in dictionaries, over real sockets, and fails as a test asks it to.

It holds to the contract: a chunk is kept only under its name, a manifest only if it is whole. `faults`
are used up one by one, each by the first call that it is meant for.
"""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from hub.carry.link import Address
from hub.chunks.chunk import BadChunk, decode, encode
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER
from hub.chunks.frames import END, Frames, frame
from hub.chunks.manifest import Manifest
from hub.chunks.whole import BadImage, describe, verify

TOKEN = "a-token-of-the-tests"
SETTINGS = {
    "cutter": DEFAULT_CUTTER,
    "min_bytes": 16384,
    "average_bytes": 65536,
    "max_bytes": 262144,
    "max_chunks": 4096,
    "max_image_bytes": 2**36,
    "max_image_chunks": 2**20,
    "batch_bytes": 16 * 2**20,
}


@dataclass(slots=True)
class Fault:
    """What goes wrong with the next call whose path ends with `path`.

    lose: carried out, and its answer lost. status: answered so, not carried out. cut: only so many
    bytes of the answer. wrong: the byte at that place of the answer is another. omit: one chunk is
    left out of a stream.
    """

    path: str
    lose: bool = False
    status: int = 0
    cut: int | None = None
    wrong: int | None = None
    omit: bool = False


@dataclass(slots=True)
class Answer:
    status: int
    body: bytes = b""
    media_type: str = "application/json"


@dataclass
class ImageHub:
    url: str = ""
    chunks: dict[str, bytes] = field(default_factory=dict)  # encoded
    manifests: dict[str, Manifest] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    received: list[str] = field(default_factory=list)  # chunks that came, repeats too
    served: list[str] = field(default_factory=list)  # chunks that were sent
    instead: dict[str, Answer] = field(default_factory=dict)  # what a path answers, always
    before: Callable[[str], None] = lambda path: None  # called before each call is carried out
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> Address:
        return Address(url=self.url, token=TOKEN, agent="tests")

    def hold(self, content: bytes, *, arch: str | None = None) -> str:
        """Take an image as if it had been pushed; its name."""
        name, manifest = describe(BytesIO(content), CUTTERS[DEFAULT_CUTTER], arch=arch)
        offset = 0
        for chunk, size in manifest.chunks:
            self.chunks.setdefault(chunk, encode(content[offset : offset + size]))
            offset += size
        self.manifests[name] = manifest
        return name

    def count(self, method: str, path: str) -> int:
        """How many calls there were."""
        return self.calls.count((method, path))

    def take(self, path: str) -> Fault | None:
        with self.lock:
            for index, fault in enumerate(self.faults):
                if path.endswith(fault.path):
                    return self.faults.pop(index)
        return None

    def answer(self, method: str, path: str, token: str, body: bytes) -> Answer:
        with self.lock:
            self.calls.append((method, path))
        if token != f"Bearer {TOKEN}":
            return problem(401, "this token is not valid")
        if path in self.instead:
            return self.instead[path]
        for kind, pattern, act in _ROUTES:
            if kind == method and (found := re.fullmatch(pattern, path)):
                return act(self, body, *found.groups())
        return problem(404, f"there is no {method} {path}")

    # One method per call.

    def settings(self, body: bytes) -> Answer:
        return told(SETTINGS)

    def missing(self, body: bytes) -> Answer:
        return told({"missing": [name for name in json.loads(body)["chunks"] if name not in self.chunks]})

    def take_chunks(self, body: bytes) -> Answer:
        frames = Frames()
        pairs = frames.feed(body)
        frames.close()
        try:
            for name, packed in pairs:
                decode(packed, name=name, max_bytes=SETTINGS["max_bytes"])  # type: ignore[arg-type]  # JSON
        except BadChunk as error:
            return problem(422, str(error))
        with self.lock:
            self.received += (name for name, _ in pairs)
            self.chunks.update(pairs)
        return told({"received": len(pairs), "kept": len(pairs), "bytes": len(body)})

    def put_manifest(self, body: bytes, name: str) -> Answer:
        manifest = Manifest.from_json(body)
        if lacking := [chunk for chunk in manifest.names if chunk not in self.chunks]:
            return problem(409, f"{len(lacking)} of its chunks are missing: send them first")
        whole = (decode(self.chunks[chunk], max_bytes=2**18) for chunk, _ in manifest.chunks)
        try:
            verify(whole, name=name, bytes_=manifest.bytes)
        except BadImage as error:
            return problem(422, str(error))
        new = name not in self.manifests
        self.manifests[name] = manifest
        return told({"hash": name, "bytes": manifest.bytes, "new": new}, 201)

    def manifest(self, body: bytes, name: str) -> Answer:
        if name not in self.manifests:
            return problem(404, f"there is no image {name[:12]}")
        return told({"hash": name, **json.loads(self.manifests[name].to_json())})

    def stream(self, body: bytes) -> Answer:
        asked = [name for name in json.loads(body)["chunks"] if name in self.chunks]
        with self.lock:
            self.served += asked
        framed = b"".join(frame(name, self.chunks[name]) for name in asked) + END
        return Answer(200, framed, "application/vnd.shunter.chunks")

    def images(self, body: bytes) -> Answer:
        return told({"images": [self.view(name) for name in self.manifests], "more": 0})

    def view(self, name: str) -> dict[str, Any]:
        manifest = self.manifests[name]
        return {
            "hash": name, "bytes": manifest.bytes, "arch": manifest.arch, "cutter": manifest.cutter,
            "chunks": len(manifest.chunks), "created_at": "2026-05-01T12:00:00Z",
            "names": [each for each, of in self.names.items() if of == name],
        }  # fmt: skip

    def all_names(self, body: bytes) -> Answer:
        views = [{"name": name, "hash": of, "updated_at": "2026-05-01T12:00:00Z", "history": []}
                 for name, of in self.names.items()]  # fmt: skip
        return told({"names": views})

    def put_name(self, body: bytes, name: str) -> Answer:
        wanted = json.loads(body)["hash"]
        if wanted not in self.manifests:
            return problem(404, f"there is no image {wanted[:12]}")
        self.names[name] = wanted
        return told({"name": name, "hash": wanted, "updated_at": "2026-05-01T12:00:00Z", "history": []})

    def delete_name(self, body: bytes, name: str) -> Answer:
        return Answer(204) if self.names.pop(name, None) else problem(404, f"no image is named {name}")

    def delete(self, body: bytes, name: str) -> Answer:
        if name in self.names.values():
            return problem(409, "it has a name: give the name to another image first")
        return Answer(204) if self.manifests.pop(name, None) else problem(404, "there is no such image")

    def gc(self, body: bytes) -> Answer:
        return told({"images": [], "chunks": 3, "packs": 1, "bytes": 4096, "kept_images": 2})


_HASH = "([0-9a-f]{64})"
_ROUTES: list[tuple[str, str, Callable[..., Answer]]] = [
    ("GET", "/images/settings", ImageHub.settings),
    ("POST", "/images/missing", ImageHub.missing),
    ("POST", "/images/chunks", ImageHub.take_chunks),
    ("POST", "/images/chunks/fetch", ImageHub.stream),
    ("PUT", f"/images/{_HASH}", ImageHub.put_manifest),
    ("GET", f"/images/{_HASH}", ImageHub.manifest),
    ("DELETE", f"/images/{_HASH}", ImageHub.delete),
    ("GET", "/images", ImageHub.images),
    ("GET", "/images/names", ImageHub.all_names),
    ("PUT", "/images/names/([^/]+)", ImageHub.put_name),
    ("DELETE", "/images/names/([^/]+)", ImageHub.delete_name),
    ("POST", "/images/gc", ImageHub.gc),
]


def told(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


def problem(status: int, detail: str) -> Answer:
    text = json.dumps({"title": "No", "status": status, "detail": detail})
    return Answer(status, text.encode(), "application/problem+json")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    hub: ImageHub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _serve(self) -> None:
        path = urlsplit(self.path).path.removeprefix("/api/v1")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.before(path)
        fault = self.hub.take(path) or Fault(path)
        if fault.status:
            answer = problem(fault.status, "not now")
        else:
            answer = self.hub.answer(self.command, path, self.headers.get("Authorization", ""), body)
        if fault.lose:
            self._cut()
            return
        sent = bytearray(answer.body)
        if fault.wrong is not None:
            sent[fault.wrong] ^= 0x55
        if fault.omit:
            first = 36 + int.from_bytes(sent[:4], "big")
            del sent[:first]
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.media_type)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent[: fault.cut])
        if fault.cut is not None:
            self._cut()

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - the names are http.server's


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A link that was cut is no fault of the test's."""


@contextmanager
def serving() -> Iterator[ImageHub]:
    """A hub that listens."""
    hub = ImageHub()
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
