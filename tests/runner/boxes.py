"""Sandboxes of the namespace tier for tests: as root, and as a plain user of this machine."""

import base64
import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner.sandbox.place import program

ROOT = Path(__file__).parents[2]
NOBODY = 65534
# What the driver, and `python -m runner`, load beside the project's own.
PACKAGES = (
    "pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection",
    "urllib3", "blake3", "zstandard",
)  # fmt: skip


# It must load all that, and be able to start itself again, as the runner does.
TRY = """import subprocess, sys, runner.sandbox.base, blake3, zstandard, urllib3
subprocess.run([sys.executable, "-I", "-S", "-c", ""], check=True)"""


def need(name: str, package: str) -> str:
    """Where a program is, or a skip."""
    found = program(name)
    if found is None:
        pytest.skip(f"needs {name} (Debian: {package})")
    return found


def make_image(folder: Path, path: Path, name: str) -> Path:
    """A squashfs file with busybox and nothing else; /etc/name tells one from another."""
    squash, busybox = need("mksquashfs", "squashfs-tools"), need("busybox", "busybox-static")
    for each in ("bin", "etc", "tmp", "root", "usr/bin", "var"):
        (folder / each).mkdir(parents=True)
    shutil.copy(busybox, folder / "bin/busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in applets:
        if applet != "busybox":
            (folder / "bin" / applet).symlink_to("busybox")
    (folder / "etc/name").write_text(name + "\n")
    (folder / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nbuilder:x:1000:1000::/:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\nbuilder:x:1000:\n")
    words = [squash, str(folder), str(path), "-noappend", "-no-progress", "-all-root", "-no-xattrs", "-quiet"]
    subprocess.run(words, check=True, capture_output=True)
    path.chmod(0o644)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a command in a sandbox ended."""

    code: int
    out: str
    short: str | None
    memory_mib: int | None
    disk_mib: int | None
    took_s: float


class Driver:
    """`boxdriver` as a process: the agent, as far as sandboxes go."""

    def __init__(self, work: Path, python: list[str], environ: dict[str, str]) -> None:
        self.work = work
        self.secret = f"secret{secrets.token_hex(8)}"
        self.popen = subprocess.Popen(
            [*python, "-m", "tests.runner.boxdriver", str(work)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "SHUNTER_TOKEN": self.secret, **environ},
            cwd=environ["PYTHONPATH"].split(os.pathsep)[0],
            text=True,
            start_new_session=True,
        )

    def ask(self, **said: Any) -> dict[str, Any]:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.write(json.dumps(said) + "\n")
        self.popen.stdin.flush()
        line = self.popen.stdout.readline()
        assert line, "the driver died: see its stderr above"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def make(self, name: str, *images: Path, **said: Any) -> dict[str, Any]:
        """A sandbox with these images, named by their files' names."""
        return self.ask(make=name, images={path.stem: str(path) for path in images}, **said)

    def run(self, name: str, script: str = "", **said: Any) -> Ran:
        if "argv" not in said:
            said["script"] = script
        answer = self.ask(run=name, **said)
        assert "broken" not in answer, answer
        answer["out"] = base64.b64decode(answer["out"]).decode(errors="replace")
        return Ran(**answer)

    def end(self, name: str) -> None:
        self.ask(end=name)

    def close(self) -> None:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.close()
        try:
            self.popen.wait(30)
        finally:
            self.popen.kill()
            self.popen.wait()
            self.popen.stdout.close()


def public_tree() -> Iterator[tuple[Path, list[str]]]:
    """A copy of the project that any user may read, and the words that run Python there as a plain user.

    The interpreter of the tests may stand in a home that is closed to others; then the system's own does.
    """
    if os.geteuid() != 0:
        yield ROOT, [sys.executable]
        return
    drop = [need("setpriv", "util-linux"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    with tempfile.TemporaryDirectory(prefix="shunter-plain-", dir="/var/tmp") as name:
        tree = Path(name)
        tree.chmod(0o755)
        ignore = shutil.ignore_patterns("__pycache__")
        for top in ("runner", "hub", "tests/runner"):
            shutil.copytree(ROOT / top, tree / top, ignore=ignore)
        (tree / "tests/__init__.py").touch()
        for package in PACKAGES:
            spec = importlib.util.find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            origin = Path(spec.origin)
            if spec.submodule_search_locations:
                shutil.copytree(origin.parent, tree / package, ignore=ignore)
            else:
                shutil.copy(origin, tree)
        subprocess.run(["chmod", "-R", "a+rX", str(tree)], check=True)
        for python in (sys.executable, os.path.realpath(sys.executable), "/usr/bin/python3"):
            words = [*drop, python, "-B"]
            tried = subprocess.run(
                [*words, "-c", TRY],
                env={"PYTHONPATH": str(tree)}, cwd=tree, capture_output=True, check=False,
            )  # fmt: skip
            if tried.returncode == 0:
                yield tree, words
                return
        pytest.skip("needs a Python of this version that a plain user may run")


def own_address() -> str | None:
    """An address of this machine that is not its loopback; None: it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            return None
        address = str(probe.getsockname()[0])
    return None if address.startswith("127.") else address
