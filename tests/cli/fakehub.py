"""A hub that answers from a script: real HTTP on a real socket, answers made of the wire models."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from hub.wire.problem import MEDIA_TYPE, Fault, Problem
from hub.wire.runs import JobView, Lack, Remedy, RunnerLacks, RunView, Waiting

TOKEN = "a-token-of-the-tests"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, as it came."""

    method: str
    path: str  # below /api/v1
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def message(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to send. `cut`: close the connection after the body without ending the answer."""

    status: int = 200
    body: bytes = b""
    type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    cut: bool = False


Script = Callable[[Call], Answer]


@dataclass(slots=True)
class FakeHub:
    """Calls and their scripted answers; a list of answers is used up one by one, its last one for ever.

    A path that ends in `*` stands for all that begin so and have no script of their own.
    """

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    _answers: dict[tuple[str, str], list[Script]] = field(default_factory=dict)

    def on(self, method: str, path: str, *answers: Answer | BaseModel | Script) -> None:
        self._answers[(method, path)] = [_script(each) for each in answers]

    def answer(self, call: Call) -> Answer:
        self.calls.append(call)
        if call.headers.get("authorization") != f"Bearer {TOKEN}":
            return problem(401, "this token is not valid")
        above = call.path.rpartition("/")[0] + "/*"
        scripts = self._answers.get((call.method, call.path)) or self._answers.get((call.method, above))
        if not scripts:
            return problem(404, f"no answer is scripted for {call.method} {call.path}")
        return (scripts.pop(0) if len(scripts) > 1 else scripts[0])(call)

    def made(self, method: str, path: str) -> list[Call]:
        return [call for call in self.calls if (call.method, call.path) == (method, path)]


def _script(answer: Answer | BaseModel | Script) -> Script:
    if isinstance(answer, Answer):
        return lambda _: answer
    if isinstance(answer, BaseModel):
        body = answer.model_dump_json().encode()
        return lambda _: Answer(body=body)
    return answer


def problem(status: int, detail: str, *faults: Fault) -> Answer:
    body = Problem(title="No", status=status, detail=detail, faults=list(faults)).model_dump_json()
    return Answer(status=status, body=body.encode(), type=MEDIA_TYPE)


def stream(*events: tuple[str, str] | tuple[str, str, str], cut: bool = False) -> Answer:
    """Events as (name, data) or (name, data, id)."""
    text = ": hello\n\n"
    for name, data, *ids in events:
        text += "".join(f"id: {each}\n" for each in ids) + f"event: {name}\ndata: {data}\n\n"
    return Answer(body=text.encode(), type="text/event-stream", cut=cut)


@contextmanager
def serving() -> Iterator[FakeHub]:
    fake = FakeHub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def _serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            call = Call(
                method=self.command,
                path=parts.path.removeprefix("/api/v1"),
                query=dict(parse_qsl(parts.query)),
                headers={name.lower(): text for name, text in self.headers.items()},
                body=self.rfile.read(length),
            )
            answer = fake.answer(call)
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.type)
            for name, text in answer.headers:
                self.send_header(name, text)
            live = answer.type == "text/event-stream"
            if live:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(len(answer.body) + answer.cut))
            self.end_headers()
            if self.command != "HEAD":
                if live:
                    for at in range(0, len(answer.body), 50):  # in pieces that respect nothing
                        piece = answer.body[at : at + 50]
                        self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                    self.wfile.write(b"" if answer.cut else b"0\r\n\r\n")
                else:
                    self.wfile.write(answer.body)
            self.close_connection = self.close_connection or answer.cut

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - the library's names

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


# Builders with plain defaults: a test states only what it is about.

T0 = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(T0.timestamp() + seconds, UTC)


def a_job(name: str = "build", **given: Any) -> JobView:
    fields: dict[str, Any] = {"id": 17, "run": 42, "project": "andy/demo", "status": "queued", "attempt": 1}
    return JobView(**(fields | {"name": name} | given))


def a_run(*jobs: JobView, **given: Any) -> RunView:
    done = sum(job.status == "succeeded" for job in jobs)
    fields: dict[str, Any] = {
        "id": 42,
        "project": "andy/demo",
        "status": "running",
        "created_at": T0,
        "jobs_total": len(jobs),
        "jobs_done": done,
        "jobs": list(jobs),
    }
    return RunView(**(fields | given))


def lacking_gpu(*runners: str) -> Waiting:
    remedy = Remedy(
        text="add the label gpu to a runner, or drop it from the job",
        change={"runner.labels": {"add": ["gpu"]}},
    )
    lack = Lack(code="label", text="lacks label gpu", lasting=True, remedy=remedy)
    return Waiting(
        kind="nowhere",
        headline=f"no runner can take it: {len(runners)} runners, all lack label gpu",
        runners=[RunnerLacks(runner=name, lacks=[lack]) for name in runners],
    )
