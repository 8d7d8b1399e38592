"""Servers under load, each a process of its own: a hub, and the same server with an empty endpoint."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

READY_S = 30


@dataclass(frozen=True)
class Served:
    """A server that answers. `token` is the admin's."""

    port: int
    token: str
    pid: int


async def _empty(request: Request) -> Response:
    return Response(status_code=204)


app = Starlette(routes=[Route("/empty", _empty, methods=["POST"]), Route("/healthz", _empty)])


@contextmanager
def hub(folder: Path) -> Iterator[Served]:
    """A hub on an empty folder, as `shunter hub` starts it."""
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "hub.cli.main",
        "hub",
        "--data",
        str(folder),
        "--listen",
        f"127.0.0.1:{port}",
    ]
    with _running(command, port, folder) as pid:
        yield Served(port, (folder / "admin-token").read_text().strip(), pid)


@contextmanager
def empty(folder: Path) -> Iterator[Served]:
    """uvicorn, set as the hub sets it, with an empty POST endpoint: the limit of any call."""
    port = _free_port()
    command = [sys.executable, "-m", "uvicorn", "tests.bench.servers:app", "--port", str(port)]
    command += [
        "--loop",
        "uvloop",
        "--http",
        "httptools",
        "--no-access-log",
        "--timeout-keep-alive",
        "75",
        "--log-level",
        "warning",
    ]
    with _running(command, port, folder) as pid:
        yield Served(port, "none", pid)


@contextmanager
def _running(command: list[str], port: int, folder: Path) -> Iterator[int]:
    with (folder.parent / f"{folder.name}.log").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "NO_COLOR": "1"})
    try:
        _wait_for(port, process)
        yield process.pid
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the server ended at once; see its log") from None
            time.sleep(0.05)
    raise RuntimeError(f"the server on port {port} did not answer within {READY_S} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
