"""A fake hub, and the real agent against it: in this process, or as a process of its own."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runner import leftovers
from runner.agent import Agent
from runner.client import Hub
from runner.config import Config, Timing
from runner.offer import ImageCache
from runner.sandbox.keeper import descendants
from runner.tiers import Tiers
from tests.runner import boxes
from tests.runner.fakehub import DEADLINE_S, TOKEN, FakeHub, eventually

ROOT = Path(__file__).parents[2]
QUICK = Timing(grace_s=0.5, heartbeat_s=0.05, retry_s=0.02, retry_most_s=0.1, release_s=2.0)


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    made = FakeHub()
    yield made
    made.close()


@dataclass(slots=True)
class Running:
    """An agent in a thread of this process."""

    agent: Agent
    thread: threading.Thread
    work: Path
    status: list[int]

    def ended(self, seconds: float = DEADLINE_S) -> int:
        """Its exit status, once it has ended."""
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the agent goes on"
        return self.status[0]


Start = Callable[..., Running]


@pytest.fixture
def start(hub: FakeHub, tmp_path: Path) -> Iterator[Start]:
    """Start an agent; keywords are fields of its Config, or its tiers and images."""
    made: list[Running] = []
    others = set(descendants(os.getpid()))  # of whatever else this process has been asked to test

    def begin(*, tiers: Tiers | None = None, images: ImageCache | None = None, **more: Any) -> Running:
        work = tmp_path / f"work-{len(made)}"
        lock = leftovers.take(work)
        os.close(lock)
        settings: dict[str, Any] = {"timing": QUICK, "speed": 100, "wait_s": 5}
        config = Config(url=hub.url, token=TOKEN, work=work, **(settings | more))
        agent = Agent(config, Hub(hub.url, config.token), tiers=tiers, images=images)
        status: list[int] = []
        thread = threading.Thread(target=lambda: status.append(agent.run()), daemon=True)
        running = Running(agent=agent, thread=thread, work=work, status=status)
        made.append(running)
        thread.start()
        return running

    yield begin
    for each in made:
        each.agent.drain()
        each.agent.drain()
        each.thread.join(DEADLINE_S)
        assert not each.thread.is_alive()
        assert list((each.work / "jobs").iterdir()) == [], "a job left files"
    assert set(descendants(os.getpid())) <= others, "a job left processes"


class Process:
    """The agent as users start it."""

    def __init__(self, hub: FakeHub, work: Path, *words: str, **environ: str) -> None:
        clean = {name: text for name, text in os.environ.items() if not name.startswith("SHUNTER_")}
        environ = {"SHUNTER_URL": hub.url, "SHUNTER_TOKEN": TOKEN} | environ
        self.stderr = work.with_suffix(".stderr")
        with self.stderr.open("wb") as stderr:
            self.popen = subprocess.Popen(
                [sys.executable, "-m", "runner", "--work", str(work), "--speed", "100", *words],
                env=clean | environ,
                cwd=ROOT,
                stderr=stderr,
                start_new_session=True,
            )

    def tell(self, number: int) -> None:
        os.kill(self.popen.pid, number)

    def ended(self, seconds: float = DEADLINE_S) -> int:
        return self.popen.wait(seconds)

    @property
    def said(self) -> str:
        return self.stderr.read_text()


@pytest.fixture
def process(hub: FakeHub, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Start `python -m runner` with these words, and these variables beside the usual."""
    made: list[Process] = []

    def begin(*words: str, **environ: str) -> Process:
        name = environ.pop("work", f"process-{len(made)}")
        made.append(Process(hub, tmp_path / name, *words, **environ))
        return made[-1]

    yield begin
    for each in made:
        if each.popen.poll() is None:
            each.tell(signal.SIGKILL)
            each.popen.wait()


@pytest.fixture
def mark() -> str:
    """A word that no other process on this machine has in its command line."""
    return f"mark{secrets.token_hex(6)}"


def with_mark(mark: str) -> list[int]:
    """The processes that have it, not counting the dead."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal() and int(path.name) != os.getpid():
            try:
                state = (path / "stat").read_bytes().rpartition(b")")[2].split()[0]
                if mark.encode() in (path / "cmdline").read_bytes() and state not in b"ZX":
                    found.append(int(path.name))
            except OSError:
                continue
    return found


def gone(mark: str) -> bool:
    """Whether no process with the mark is left, soon."""
    return eventually(lambda: not with_mark(mark), f"{mark} is gone", 10)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Two images that any user of this machine may read."""
    with tempfile.TemporaryDirectory(prefix="shunter-images-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = [
            boxes.make_image(tmp_path_factory.mktemp("tree"), folder / f"{letter * 64}.sqfs", text)
            for letter, text in (("a", "first"), ("b", "second"))
        ]
        yield made[0], made[1]


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that any user of this machine may read."""
    with tempfile.TemporaryDirectory(prefix="shunter-public-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def image(images: tuple[Path, Path]) -> Path:
    return images[0]


@pytest.fixture
def other_image(images: tuple[Path, Path]) -> Path:
    return images[1]


@pytest.fixture(scope="session")
def plain() -> Iterator[tuple[Path, list[str]]]:
    """Where and how Python runs as a plain user."""
    yield from boxes.public_tree()


@pytest.fixture(params=["root", "user"])
def who(request: pytest.FixtureRequest) -> str:
    """As whom the runner runs."""
    if request.param == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    return str(request.param)


@pytest.fixture
def box_driver(who: str, plain: tuple[Path, list[str]]) -> Iterator[Callable[..., boxes.Driver]]:
    """Start processes that hold sandboxes, as root or as a plain user; keywords: its environment."""
    for name, package in (("bwrap", "bubblewrap"), ("unsquashfs", "squashfs-tools"), ("mke2fs", "e2fsprogs")):
        boxes.need(name, package)
    tree, python = plain if who == "user" else (ROOT, [sys.executable])
    with tempfile.TemporaryDirectory(
        prefix=f"shunter-{who}-", dir="/var/tmp", ignore_cleanup_errors=True
    ) as name:
        made: list[boxes.Driver] = []
        if who == "user" and os.geteuid() == 0:
            os.chown(name, boxes.NOBODY, boxes.NOBODY)

        def begin(**environ: str) -> boxes.Driver:
            made.append(boxes.Driver(Path(name), python, {"PYTHONPATH": str(tree)} | environ))
            return made[-1]

        yield begin
        for each in made:
            each.close()
