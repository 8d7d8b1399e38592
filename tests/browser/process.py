"""A hub as a process of its own, somebody who submits runs to it, and a runner that is told what to do.

The runner here is scripted: what a page shows at each moment of a job is decided by the test.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

START_S = 30.0  # for a hub to answer on a machine that is busy
STOP_S = 15.0


@dataclass
class HubProcess:
    """`shunter hub` with its data in `folder`. It can be killed and started again at the same address."""

    folder: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The admin token of the first start."""
        return (self.folder / "admin-token").read_text().strip()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        if not self.port:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = free.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SHUNTER_")}
        command = [sys.executable, "-c", "from hub.cli.main import main; main()", "hub"]
        with (self.folder.parent / "hub.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data", str(self.folder), "--listen", f"127.0.0.1:{self.port}"],
                stdout=log,
                stderr=log,
                env=environment,
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                if httpx.get(f"{self.url}/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            said = (self.folder.parent / "hub.log").read_text()
            assert self.process.poll() is None, said
            assert time.monotonic() < deadline, said
            time.sleep(0.05)

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_S)

    def stop(self) -> None:
        """End it as an administrator would."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        self.process.wait(STOP_S)


@dataclass
class Api:
    """Calls with one token."""

    hub: HubProcess
    token: str

    def call(self, method: str, path: str, **more: Any) -> Any:
        headers = {"authorization": f"Bearer {self.token}", **more.pop("headers", {})}
        answer = httpx.request(method, f"{self.hub.url}/api/v1{path}", headers=headers, timeout=30, **more)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def submit(self, pipeline: str, **more: Any) -> int:
        body = {"project": "andy/demo", "pipeline": pipeline, **more}
        number: int = self.call("POST", "/runs", json=body)["id"]
        return number

    def runner(self, name: str, **offer: Any) -> "Runner":
        """A new runner that has not polled yet."""
        made = self.call("POST", "/runners", json={"name": name})
        return Runner(
            self.hub, made["token"], name, {"tiers": ["process"], "instance": f"instance-of-{name}", **offer}
        )


@dataclass
class Runner(Api):
    """Does as it is told, with the one job it has."""

    name: str
    offer: dict[str, Any]
    given: dict[str, Any] = field(default_factory=dict)
    written: int = 0

    def poll(self) -> None:
        """Show what it is and has, and take nothing. A job that fits must not be waiting."""
        assert self.call("POST", "/claim", json={**self.offer, "wait_s": 0}) is None

    def take(self) -> int:
        """Claim a job and begin it."""
        self.given = self.call("POST", "/claim", json={**self.offer, "wait_s": 20})
        assert self.given, "nothing was there to take"
        self.written = 0
        self._do("POST", "start", {"phase": "running"})
        number: int = self.given["job"]["id"]
        return number

    def write(self, piece: bytes) -> None:
        """Add to the job's log."""
        path = f"/jobs/{self.given['job']['id']}/log?offset={self.written}"
        self.call("POST", path, content=piece, headers={"Lease": self.given["lease"]["token"]})
        self.written += len(piece)

    def leave(self, path: str, body: bytes) -> None:
        """Leave an artifact."""
        url = f"/jobs/{self.given['job']['id']}/artifacts/{path}"
        self.call("PUT", url, content=body, headers={"Lease": self.given["lease"]["token"]})

    def at_step(self, step: int) -> None:
        self._do("POST", "heartbeat", {"step": step})

    def finish(self, outcome: str = "succeeded", **more: Any) -> None:
        self._do("POST", "finish", {"outcome": outcome, **more})

    def _do(self, method: str, verb: str, body: dict[str, Any]) -> None:
        body = {"lease": self.given["lease"]["token"], **body}
        self.call(method, f"/jobs/{self.given['job']['id']}/{verb}", json=body)
