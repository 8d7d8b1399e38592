"""A program that holds sandboxes of the namespace tier and does as it is told, one line of JSON each.

Tests start it as root and as a plain user, and kill it: it stands for the agent. `python boxdriver.py
WORK`; `{"make": NAME, "images": {HASH: PATH}, ...}`, `{"run": NAME, "script": …}`, `{"end": NAME}`.
"""

import base64
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from runner.sandbox import cgroups, namespace, namespace_check
from runner.sandbox.base import Command, SandboxBroken, Stop
from runner.sandbox.namespace import Asked, Means, NamespaceSandbox


def means(work: Path) -> Means:
    """What the machine has, as the check would find it."""
    root = os.geteuid() == 0
    return Means(as_root=root, mounts=root, homes=cgroups.ready(cgroups.homes()), unpacked=work / "unpacked")


def make(work: Path, said: dict[str, Any], boxes: dict[str, NamespaceSandbox]) -> dict[str, Any]:
    found = means(work)
    if said.get("groups") is False:
        found = namespace.Means(
            as_root=found.as_root,
            mounts=said.get("mounts", found.mounts),
            homes={name: cgroups.Home(version=None, why="told so") for name in cgroups.CONTROLLERS},
            unpacked=found.unpacked,
        )
    namespace.PROCESSES = said.get("processes", 4096)
    words: tuple[str, ...] = ()
    images = {name: Path(path) for name, path in said["images"].items()}
    if said.get("machine"):  # an empty image, and the machine's own programs over it
        words = namespace_check._machine()
        images = {"empty": work / "empty"}
        images["empty"].write_bytes(namespace_check.empty_image())
    (work / "jobs").mkdir(exist_ok=True)
    folder = work / "jobs" / said["make"]
    box = NamespaceSandbox(folder, found, Asked(**said.get("asked", {})), grace_s=0.3, words=words)
    boxes[said["make"]] = box
    box.prepare()
    began = time.monotonic()
    box.lay(images)
    keeper = box._outside._keeper
    return {
        "workspace": str(box.workspace),
        "took_s": time.monotonic() - began,
        "mark": box._outside.mark,
        "keeper": keeper.pid if keeper else None,
        "entrances": box._group.entrances,
    }


def run(box: NamespaceSandbox, said: dict[str, Any]) -> dict[str, Any]:
    heard = bytearray()
    stop = Stop()
    if (after := said.get("cancel_after_s")) is not None:
        threading.Timer(after, stop.ask, ("canceled",)).start()
    command = Command(
        argv=tuple(said.get("argv", ())),
        script=said.get("script"),
        env={**box.env(), **said.get("env", {})},
        image=said.get("image"),
        outside=said.get("outside", False),
    )
    began = time.monotonic()
    code = box.run(command, heard.extend, stop, began + said.get("seconds", 60))
    took_s = time.monotonic() - began
    short = box.short_of(code)
    usage = box.usage()
    return {
        "code": code,
        "out": base64.b64encode(bytes(heard)).decode(),
        "short": short,
        "memory_mib": usage.peak_memory_mib,
        "disk_mib": usage.peak_disk_mib,
        "took_s": took_s,
    }


def main() -> None:
    os.umask(0o022)
    work = Path(sys.argv[1])
    boxes: dict[str, NamespaceSandbox] = {}
    for line in sys.stdin:
        said = json.loads(line)
        answer: dict[str, Any]
        try:
            if "make" in said:
                answer = make(work, said, boxes)
            elif "run" in said:
                answer = run(boxes[said["run"]], said)
            elif "check" in said:
                answer = {"why": namespace_check.check(work).why}
            else:
                boxes.pop(said["end"]).destroy()
                answer = {}
        except SandboxBroken as error:
            answer = {"broken": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
