"""One job of a pipeline file as a JobSpec: its sandbox resolved, its steps, its units.

Invariant: a job runs in ONE tier, on one architecture, on one runner. What several sandboxes of a
job ask is joined: the most memory, CPUs and disk, and every image. This reads nodes that `Checker`
found sound, and only those; a fault noted here is one that no schema can say.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hub.wire.base import plain_text
from hub.wire.claim import ImageRef, Step
from hub.wire.pipeline_matrix import Choice
from hub.wire.pipeline_yaml import Faults, Node, join, quoted
from hub.wire.spec import DEFAULT_TIMEOUT_S, Concurrency, JobSpec

MAX_TIMEOUT_S = 7 * 86400  # what runs for a week is a service, not a job
_CAS = "cas://blake3/"
_UNIT_MIB = {"MiB": 1, "GiB": 1024, "TiB": 1024 * 1024}
_UNIT_S = {"h": 3600, "m": 60, "s": 1}
_MACHINE = ("image", "tier", "arch", "memory", "cpus", "disk", "network")
_STEP_NAME = 100  # characters of a command that serve as the name of its step


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A sandbox as asked for. None: not asked."""

    image: ImageRef | None
    tier: str
    arch: str | None
    memory_mib: int | None
    cpus: int | None
    disk_mib: int | None
    network: bool | None


class Builder:
    """Builds the jobs of one file from its sandboxes and its defaults."""

    def __init__(self, root: Node, faults: Faults) -> None:
        self._faults = faults
        self._nodes = entries(root.entries.get("sandboxes"))
        self._env = {} if faults.under("env") else texts(root.entries.get("env"))
        timeout = None if faults.under("timeout") else root.entries.get("timeout")
        self._timeout_s = self._duration(timeout, "timeout") or DEFAULT_TIMEOUT_S
        self._places: dict[str, Place | None] = {}
        for name, node in self._nodes.items():
            path = f"sandboxes.{name}"
            sound = not faults.under(path)
            self._places[name] = self._place(node.entries, path, node.line) if sound else None

    @property
    def env_weight(self) -> int:
        """Characters that the file's own `env` adds to each job."""
        return sum(len(name) + len(value) for name, value in self._env.items())

    def job(self, name: str, path: str, node: Node, choice: Choice, needs: tuple[str, ...]) -> JobSpec | None:
        """The job; None: it has a fault, which is noted."""
        given = node.entries
        place = self._home(node, path)
        steps, step_places = self._steps(given["steps"], join(path, "steps"), place)
        timeout_s = self._duration(given.get("timeout"), join(path, "timeout")) or self._timeout_s
        if place is None or self._faults.under(path):
            return None
        places = [place, *step_places]
        images = {(p.image.name, p.image.hash): p.image for p in places if p.image is not None}
        return JobSpec(
            name=name,
            tier=place.tier,
            arch=next((p.arch for p in places if p.arch is not None), None),
            network=next((p.network for p in places if p.network is not None), None),
            images=list(images.values()),
            labels=_words(given.get("labels")),
            needs=list(needs),
            env=self._env | choice.env() | texts(given.get("env")),
            steps=steps,
            artifacts=_words(given.get("artifacts")),
            reports={kind: _words(globs) for kind, globs in entries(given.get("reports")).items()},
            timeout_s=timeout_s,
            retries=_whole(given.get("retries")) or 0,
            memory_mib=_most(p.memory_mib for p in places),
            cpus=_most(p.cpus for p in places),
            disk_mib=_most(p.disk_mib for p in places),
            concurrency=_concurrency(given.get("concurrency")),
            keep=given["keep"].text if "keep" in given else None,
        )

    def _home(self, node: Node, path: str) -> Place | None:
        """The sandbox of the job: the one it names, with the keys beside it in place of its own."""
        own = {key: node.entries[key] for key in _MACHINE if key in node.entries}
        name = node.entries.get("sandbox")
        if name is None:
            return self._place(own, path, node.line)
        place = self._named(name, join(path, "sandbox"))
        if place is None or not own:
            return place
        return self._place({**self._nodes[name.text].entries, **own}, path, node.line)

    def _named(self, name: Node, path: str) -> Place | None:
        if name.text not in self._nodes:
            text = f"no sandbox {quoted(name.text)} stands under `sandboxes`"
            self._faults.add(path, text, name.line, self._faults.nearest(name.text, self._nodes))
        return self._places.get(name.text)

    def _place(self, given: Mapping[str, Node], path: str, line: int) -> Place | None:
        image = _image(given["image"].text) if "image" in given else None
        tier = given["tier"].text if "tier" in given else "namespace" if image else "process"
        network = given["network"].text.lower() == "true" if "network" in given else None
        if image is None and tier != "process":
            self._faults.add(path, f"tier {tier} runs an image, and none is named", line)
        elif image is not None and tier == "process":
            text = "tier process runs on the machine itself and takes no image: drop one of them"
            self._faults.add(path, text, line)
        elif network is False and tier == "process":
            text = "tier process cannot cut the network off: name an image, or drop `network`"
            self._faults.add(join(path, "network"), text, given["network"].line)
        return Place(
            image=image,
            tier=tier,
            arch=given["arch"].text if "arch" in given else None,
            memory_mib=_mib(given.get("memory")),
            cpus=_whole(given.get("cpus")),
            disk_mib=_mib(given.get("disk")),
            network=network,
        )

    def _steps(self, node: Node, path: str, home: Place | None) -> tuple[list[Step], list[Place]]:
        steps, places = [], []
        for index, item in enumerate(node.items):
            where = f"{path}[{index}]"
            given = item.entries
            run = (given["run"] if item.kind == "mapping" else item).text
            image = None
            if "sandbox" in given:
                place = self._named(given["sandbox"], join(where, "sandbox"))
                if place and home and self._alike(place, home, given["sandbox"], join(where, "sandbox")):
                    places.append(place)
                    image = (place.image.name or place.image.hash) if place.image else None
            title = given["name"].text if "name" in given else _title(run)
            steps.append(Step(name=title, run=run, image=image, env=texts(given.get("env"))))
        return steps, places

    def _alike(self, place: Place, home: Place, name: Node, path: str) -> bool:
        """Whether a step's sandbox can stand beside the job's own; a fault says why not."""
        differs = None
        if place.tier != home.tier:
            differs = f"is of tier {place.tier}, the job of tier {home.tier}; a job runs in one tier"
        elif place.arch and home.arch and place.arch != home.arch:
            differs = f"is {place.arch}, the job is {home.arch}; a job runs on one machine"
        elif None not in (place.network, home.network) and place.network is not home.network:
            differs = "and the job's own differ in `network`; a job has one network"
        if differs:
            self._faults.add(path, f"sandbox {quoted(name.text)} {differs}", name.line)
        return differs is None

    def _duration(self, node: Node | None, path: str) -> int | None:
        if node is None:
            return None
        seconds = sum(int(count) * _UNIT_S[unit] for count, unit in re.findall(r"([0-9]+)([hms])", node.text))
        if not 1 <= seconds <= MAX_TIMEOUT_S:
            most = f"{MAX_TIMEOUT_S // 3600}h"
            self._faults.add(path, f"must be from 1s to {most}; not {quoted(node.text)}", node.line)
        return seconds


def entries(node: Node | None) -> Mapping[str, Node]:
    """What a mapping holds; nothing, where it is absent or is no mapping."""
    return node.entries if node is not None else {}


def texts(node: Node | None) -> dict[str, str]:
    """A mapping of text, numbers and booleans as text, each as it was written."""
    return {key: value.text for key, value in entries(node).items()}


def _words(node: Node | None) -> list[str]:
    """The items of a list as text, each once, in their order."""
    return list(dict.fromkeys(item.text for item in node.items)) if node is not None else []


def _whole(node: Node | None) -> int | None:
    return int(node.text) if node is not None else None


def _mib(node: Node | None) -> int | None:
    return int(node.text[:-3]) * _UNIT_MIB[node.text[-3:]] if node is not None else None


def _most(figures: Iterable[int | None]) -> int | None:
    return max((figure for figure in figures if figure is not None), default=None)


def _image(text: str) -> ImageRef:
    if text.startswith(_CAS):
        return ImageRef(hash=text.removeprefix(_CAS))
    return ImageRef(name=text, hash="")


def _title(run: str) -> str:
    """A step's name, where it has none of its own: the first line of its command."""
    lines = run.strip().splitlines()
    return plain_text(lines[0], _STEP_NAME).replace("\t", " ") if lines else "(nothing)"


def _concurrency(node: Node | None) -> Concurrency | None:
    if node is None:
        return None
    given = node.entries
    return Concurrency(
        group=given["group"].text,
        limit=_whole(given.get("limit")) or 1,
        cancel_running="cancel_running" in given and given["cancel_running"].text.lower() == "true",
    )
