"""Real processes for tests: a hub and runners as an operator starts them, and calls from outside.

Nothing sleeps for a timer: `until` looks again and again with a deadline.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

DEADLINE_S = 60.0


def until(what: str, look: Callable[[], T | None], deadline_s: float = DEADLINE_S) -> T:
    """The first answer of `look` that is not None or False."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError(f"waited {deadline_s} s in vain until {what}")


class House:
    """One hub and its runners, in one folder. `settings` are the hub's, such as SHUNTER_HOLD_S."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.settings = settings
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.hub: subprocess.Popen[bytes] | None = None
        self.runners: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "House":
        self.start_hub()
        return self

    def __exit__(self, *error: object) -> None:
        for process in [*self.runners.values(), self.hub]:
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()

    def start_hub(self) -> None:
        """Start it, again perhaps, and wait until it answers."""
        command = [sys.executable, "-m", "hub.cli.main", "hub", "--data", str(self.folder / "hub")]
        command += ["--listen", f"127.0.0.1:{self.port}"]
        self.hub = self._start("hub", command, self.settings)
        until("the hub answers", self._ready)

    def start_runner(self, name: str, *options: str, token: str | None = None) -> "subprocess.Popen[bytes]":
        """Register a runner, where it has no token yet, and start its process."""
        token = token or self.call("POST", "/runners", {"name": name})["token"]
        command = [
            sys.executable,
            "-m",
            "runner",
            "--hub",
            self.url,
            "--work",
            str(self.folder / name),
            *options,
        ]
        self.runners[name] = self._start(name, command, {"SHUNTER_TOKEN": token})
        return self.runners[name]

    def kill_hub(self) -> None:
        """SIGKILL: it has no chance to tidy up."""
        assert self.hub is not None
        self.hub.send_signal(signal.SIGKILL)
        self.hub.wait()

    def log_of(self, name: str) -> str:
        """What a process said so far."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @property
    def token(self) -> str:
        return (self.folder / "hub" / "admin-token").read_text().strip()

    def call(self, method: str, path: str, message: Any = None) -> Any:
        """An API call as the admin: its JSON, or its bytes where it is none."""
        body = None if message is None else json.dumps(message).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data=body, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
        return json.loads(found) if is_json and found else found

    def submit(self, pipeline: dict[str, Any] | str) -> int:
        """Submit a pipeline; the run's id."""
        text = pipeline if isinstance(pipeline, str) else json.dumps({"version": 1, **pipeline})
        return int(self.call("POST", "/runs", {"project": "andy/demo", "pipeline": text})["id"])

    def run(self, run: int) -> Any:
        return self.call("GET", f"/runs/{run}")

    def ended(self, run: int, deadline_s: float = DEADLINE_S) -> Any:
        """The run, once it is over."""
        final = {"succeeded", "failed", "canceled", "error"}

        def look() -> Any:
            view = self.run(run)
            return view if view["status"] in final else None

        return until(f"run {run} is over", look, deadline_s)

    def _ready(self) -> bool:
        assert self.hub is not None
        if self.hub.poll() is not None:
            raise AssertionError(f"the hub ended: {self.log_of('hub')[-2000:]}")
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _start(self, name: str, command: list[str], extra: dict[str, str]) -> "subprocess.Popen[bytes]":
        environ = {key: value for key, value in os.environ.items() if not key.startswith("SHUNTER_")}
        with (self.folder / f"{name}.log").open("ab") as out:
            return subprocess.Popen(
                command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**environ, **extra}
            )
