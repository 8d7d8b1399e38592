"""Real processes killed at random moments: what is left is never wrong, and the next one goes on from it."""

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from blake3 import blake3

from hub.chunks.chunk import decode
from tests.carry.contents import made
from tests.carry.imagehub import TOKEN, ImageHub, serving

ROOT = Path(__file__).parents[2]
PUSHES, PULLS, ENSURES = 20, 20, 10  # kills of each: fifty in all, some twenty seconds
SIZE = 8_000_000
WITHIN_S = 0.15  # from a process's first call to its end, about


@pytest.fixture
def hub() -> Iterator[ImageHub]:
    with serving() as made_hub:
        yield made_hub


class Lives:
    """One process after the other, each killed or let be."""

    def __init__(self, hub: ImageHub, mother: "subprocess.Popen[str]") -> None:
        self._hub, self._mother = hub, mother
        self._called = threading.Event()
        hub.before = lambda path: self._called.set()

    def killed(self, dice: random.Random, *words: object) -> bool:
        """Kill it a random while after its first call to the hub; whether that came before its end."""
        pid, ended = self._begin(*words)
        while not self._called.wait(0.005) and not ended():
            pass  # it is still starting; one that finds all it needs here makes no call
        self._readable(dice.uniform(0, WITHIN_S))
        if not ended():
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(pid, signal.SIGKILL)
        status, said = self._end()
        assert status in (0, -signal.SIGKILL), said
        return status != 0

    def done(self, *words: object) -> str:
        """Let it end by itself; what it said."""
        self._begin(*words)
        status, said = self._end()
        assert status == 0, said
        return said

    def _begin(self, *words: object) -> tuple[int, Callable[[], bool]]:
        assert self._mother.stdin is not None
        assert self._mother.stdout is not None
        self._called.clear()
        self._mother.stdin.write(json.dumps([str(word) for word in words]) + "\n")
        self._mother.stdin.flush()
        pid = int(self._mother.stdout.readline())
        return pid, lambda: self._readable(0)

    def _readable(self, seconds: float) -> bool:
        """Whether its end is told within so many seconds. Its number was read, so nothing is buffered."""
        assert self._mother.stdout is not None
        return bool(select.select([self._mother.stdout], [], [], seconds)[0])

    def _end(self) -> tuple[int, str]:
        assert self._mother.stdout is not None
        status, said = json.loads(self._mother.stdout.readline())
        return status, said


@pytest.fixture
def lives(hub: ImageHub) -> Iterator[Lives]:
    environ = {**os.environ, "SHUNTER_URL": hub.url, "SHUNTER_TOKEN": TOKEN}
    command = [sys.executable, "-m", "tests.carry.lives"]
    with subprocess.Popen(
        command, env=environ, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as mother:
        yield Lives(hub, mother)


def test_a_push_that_is_killed_leaves_nothing_wrong_and_what_arrived_is_not_sent_again(
    hub: ImageHub, lives: Lives, tmp_path: Path
) -> None:
    dice = random.Random(1)
    file = tmp_path / "image"
    kills, seed = 0, 0
    while kills < PUSHES:
        seed += 1
        content = made(SIZE, seed)
        file.write_bytes(content)
        whole = blake3(content).hexdigest()
        before, first = set(hub.chunks), len(hub.received)
        tries = 0
        while kills < PUSHES:
            tries += 1
            if not lives.killed(dice, "shunter", "image", "push", file, "--name", "n"):
                break
            kills += 1
            assert hub.names.get("n", whole) in hub.manifests or "n" not in hub.names
        lives.done("shunter", "image", "push", file, "--name", "n")
        assert hub.names["n"] == whole
        raws = [
            decode(hub.chunks[name], name=name, max_bytes=2**18) for name, _ in hub.manifests[whole].chunks
        ]
        assert b"".join(raws) == content
        # A kill may cost the batches that were under way, and no more.
        new = len(set(hub.chunks) - before)
        assert len(hub.received) - first <= new + tries * 2 * 64


def test_a_pull_that_is_killed_leaves_the_old_file_or_the_new_and_goes_on(
    hub: ImageHub, lives: Lives, tmp_path: Path
) -> None:
    dice = random.Random(2)
    output = tmp_path / "out"
    old = b"what was there before"
    output.write_bytes(old)
    kills, seed = 0, 100
    while kills < PULLS:
        seed += 1
        content = made(SIZE, seed)
        name = hub.hold(content)
        while kills < PULLS:
            if not lives.killed(dice, "shunter", "image", "pull", name, "-o", output):
                break
            kills += 1
            assert output.read_bytes() in (old, content)
        lives.done("shunter", "image", "pull", name, "-o", output)
        assert output.read_bytes() == content
        assert [path.name for path in tmp_path.iterdir()] == ["out"]
        old = content


def test_a_runners_cache_that_is_killed_holds_only_what_is_whole(
    hub: ImageHub, lives: Lives, tmp_path: Path
) -> None:
    dice = random.Random(3)
    folder = tmp_path / "images"
    contents: dict[str, bytes] = {}
    kills, seed = 0, 200
    while kills < ENSURES:
        seed += 1
        content = made(SIZE, seed)
        name = hub.hold(content)
        contents[name] = content
        while kills < ENSURES:
            if not lives.killed(dice, "cache", folder, hub.url, name):
                break
            kills += 1
        said = lives.done("cache", folder, hub.url, name).split()
        assert Path(said[-1]).read_bytes() == content
        for held in (said[index + 1] for index, word in enumerate(said) if word == "held"):
            assert (folder / f"{held}.img").read_bytes() == contents[held]
        assert not list(folder.glob("*.part"))
