"""Processes for tests that kill them, forked from one that has loaded what they need.

`python -m tests.carry.lives` reads a JSON list of words a line: `shunter …` as a person types it, or
`cache FOLDER URL HASH`, a runner's cache that ensures an image. For each it forks a process, tells its
number, and at its end how it ended and what it said. Forked, for loading takes longer than a whole push.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from hub.carry.link import Address
from hub.cli import client, image_pull, image_push, show_images
from hub.cli.main import main
from hub.wire.claim import ImageRef
from runner.images import Images
from runner.sandbox.base import Stop
from tests.carry.imagehub import TOKEN

LOADED = (client, image_pull, image_push, show_images)


def cache(folder: str, url: str, image: str) -> None:
    images = Images(Path(folder), 1000, Address(url=url, token=TOKEN, agent="tests"))
    for held in images.held():
        print("held", held, flush=True)
    ref = ImageRef(hash=image, bytes=1)
    path = images.ensure(ref, stop=Stop(), until=time.monotonic() + 60, note=lambda text: None)
    print("done", path, flush=True)


def live(words: list[str], out: io.TextIOBase) -> int:
    """What the forked process does; its exit status."""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            if words[0] == "cache":
                cache(*words[1:])
            else:
                sys.argv = words
                main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else 1
    return 0


def serve() -> None:
    for line in sys.stdin:
        with tempfile.TemporaryFile("w+") as out:
            pid = os.fork()
            if pid == 0:
                status = 99
                try:
                    status = live(json.loads(line), out)
                    out.flush()
                finally:
                    os._exit(status)
            print(pid, flush=True)
            _, ended = os.waitpid(pid, 0)
            out.seek(0)
            print(json.dumps([os.waitstatus_to_exitcode(ended), out.read()]), flush=True)


if __name__ == "__main__":
    serve()
