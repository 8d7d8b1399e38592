"""How fast bytes at rest leave: the hub's framed fetch, and nginx with the same packs as files.

Eight clients at once, each a curl that keeps its connection and throws away what comes. The hub finds
each chunk in its database, opens it and holds it to its name before it leaves; nginx hands files to the
kernel and checks nothing. Its figure is the limit of the machine's loopback, not of the same work.
"""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.servers import Served

CLIENTS = 8
BATCH = 64  # chunks in one call, as the project's own clients ask
READY_S = 10

NGINX = """
worker_processes auto;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
{user}
events {{ worker_connections 128; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


def missing() -> str | None:
    """What keeps the serving from being measured here."""
    if shutil.which("curl") is None:
        return "apt-get install curl"
    return None if _nginx() else "apt-get install nginx-light"


def from_hub(hub: Served, image: str, folder: Path) -> float:
    """MB/s of bodies and frames that eight clients get, each the whole image."""
    request = urllib.request.Request(f"http://127.0.0.1:{hub.port}/api/v1/images/{image}")
    request.add_header("Authorization", f"Bearer {hub.token}")
    with urllib.request.urlopen(request, timeout=60) as answer:
        names = list(dict.fromkeys(name for name, _ in json.load(answer)["chunks"]))
    calls = []
    for start in range(0, len(names), BATCH):
        body = folder / f"batch-{start}"
        body.write_text(json.dumps({"chunks": names[start : start + BATCH]}))
        calls.append(
            f'url = "http://127.0.0.1:{hub.port}/api/v1/images/chunks/fetch"\n'
            f'header = "Authorization: Bearer {hub.token}"\nheader = "Content-Type: application/json"\n'
            f'data-binary = "@{body}"\n'
        )
    return _together(calls, folder)


def from_nginx(packs: Path, folder: Path) -> float:
    """MB/s that eight clients get from nginx, each all the packs."""
    with _serving(packs, folder) as port:
        names = sorted(path.relative_to(packs) for path in packs.rglob("*") if path.is_file())
        return _together([f'url = "http://127.0.0.1:{port}/{name}"\n' for name in names], folder)


def _together(calls: Sequence[str], folder: Path) -> float:
    """MB/s over all clients, each of which makes all the calls one after the other on one connection."""
    script = folder / "calls"
    told = 'output = "/dev/null"\nwrite-out = "%{http_code} %{size_download}\\n"\nsilent\n'
    script.write_text("next\n".join(told + call for call in calls))
    began = time.perf_counter()
    clients = [
        subprocess.Popen(["curl", "--config", str(script)], stdout=subprocess.PIPE, text=True)
        for _ in range(CLIENTS)
    ]
    said = [client.communicate()[0].split("\n") for client in clients]
    seconds = time.perf_counter() - began
    answers = [line.split() for lines in said for line in lines if line]
    if {status for status, _ in answers} != {"200"} or len(answers) != CLIENTS * len(calls):
        raise RuntimeError("a client did not get what it asked for")
    return sum(int(size) for _, size in answers) / seconds / 1e6


@contextmanager
def _serving(root: Path, folder: Path) -> Iterator[int]:
    program = _nginx()
    if program is None:
        raise RuntimeError("nginx is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    user = "user root;" if Path("/root").owner() == _me() else ""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, root=root, port=port, user=user))
    process = subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        _wait_for(port)
        yield port
    finally:
        process.terminate()
        process.wait(20)


def _me() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()


def _nginx() -> str | None:
    return shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


def _wait_for(port: int) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1):
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"nginx did not listen within {READY_S} s; see its error.log")
