"""Jobs that need images, as the agent prepares them: what the hub is told meanwhile, and how it ends.

The sandboxes here are the process tier's, under the name of one that uses images: what is tested is the
way to the image, not what is done with it.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hub.carry.transfer import Patience
from hub.wire.claim import AssignedJob
from runner.agent import Agent
from runner.client import Hub
from runner.config import Config
from runner.images import Images
from runner.sandbox.base import Sandbox
from runner.sandbox.process import ProcessSandbox
from runner.tiers import Tiers
from tests.carry.contents import made
from tests.carry.imagehub import ImageHub, serving
from tests.runner.conftest import QUICK
from tests.runner.fakehub import DEADLINE_S, TOKEN, FakeHub, eventually

CONTENT = made(1_000_000)
FIRST = Patience(first_s=0.001, most_s=0.01, give_up_s=0.1)


class Loose(ProcessSandbox):
    """Takes images and does nothing with them but see that they are there."""

    def lay(self, images: Mapping[str, Path]) -> None:
        assert all(path.is_file() for path in images.values())
        super().lay({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain(Tiers):
    """A tier that uses images, without what keeps its jobs apart."""

    def sandbox(self, job: AssignedJob, folder: Path, *, grace_s: float) -> Sandbox:
        return Loose(folder, grace_s=grace_s)


@pytest.fixture
def store() -> Iterator[ImageHub]:
    with serving() as made_hub:
        yield made_hub


Begin = Callable[..., tuple[Agent, Images]]


@pytest.fixture
def begin(hub: FakeHub, store: ImageHub, tmp_path: Path) -> Iterator[Begin]:
    """Start an agent with images."""
    running: list[tuple[Agent, Images, threading.Thread]] = []

    def start(limit_mib: int = 1000, **more: Any) -> tuple[Agent, Images]:
        work = tmp_path / "work"
        (work / "jobs").mkdir(parents=True)
        tiers = ("namespace",)
        settings: dict[str, Any] = {"timing": QUICK, "speed": 100, "wait_s": 5, "tiers": tiers}
        config = Config(url=hub.url, token=TOKEN, work=work, **(settings | more))
        images = Images(work / "images", limit_mib, store.address, patience=FIRST)
        agent = Agent(config, Hub(hub.url, TOKEN), tiers=Plain(offered=tiers), images=images)
        thread = threading.Thread(target=agent.run, daemon=True)
        thread.start()
        running.append((agent, images, thread))
        return agent, images

    yield start
    for agent, images, thread in running:
        agent.drain()
        agent.drain()
        images.close()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        assert list((tmp_path / "work" / "jobs").iterdir()) == []


def asks(hub: FakeHub, image: str, job: int = 1, **more: Any) -> str:
    ref = {"name": "debian-12", "hash": image, "bytes": len(CONTENT)}
    return hub.queue(job, "echo hello", tier="namespace", images=[ref], **more)


@pytest.fixture
def gate(store: ImageHub) -> Iterator[threading.Event]:
    """While it is not set, the hub holds back every call about images."""
    event = threading.Event()
    store.before = lambda path: _wait(event)
    yield event
    event.set()


def _wait(event: threading.Event) -> None:
    assert event.wait(60)


def last_claim(hub: FakeHub) -> dict[str, Any]:
    claims = hub.of("/claim")
    return {"images": [], **claims[-1].json} if claims else {}


def test_a_job_is_preparing_while_its_image_comes_and_its_heart_beats(
    hub: FakeHub, store: ImageHub, begin: Begin, gate: threading.Event
) -> None:
    image = store.hold(CONTENT, arch="x86_64")
    asks(hub, image)
    begin(max_jobs=2)
    eventually(lambda: last_claim(hub).get("fetching") == [image], "the claim says that it is fetching")
    assert last_claim(hub)["running"][0]["state"] == "preparing"
    assert last_claim(hub)["images"] == []
    before = len(hub.of("/heartbeat"))
    eventually(lambda: len(hub.of("/heartbeat")) > before + 3, "its heart beats")
    assert [call.json["phase"] for call in hub.of("/start")] == ["preparing"]
    gate.set()
    assert hub.finish_of(1)["outcome"] == "succeeded"
    assert [call.json["phase"] for call in hub.of("/start")] == ["preparing", "running"]
    assert f"image debian-12 ({image[:12]}): ".encode() in hub.log(1)
    eventually(lambda: last_claim(hub)["images"] == [image], "the claim says that it holds it")
    assert last_claim(hub)["image_archs"] == {image: "x86_64"}
    assert last_claim(hub)["fetching"] == []
    assert last_claim(hub)["fetches_images"] is True


def test_an_image_that_has_come_ends_an_open_poll_that_does_not_tell_of_it(
    hub: FakeHub, store: ImageHub, begin: Begin, gate: threading.Event
) -> None:
    image = store.hold(CONTENT)
    asks(hub, image)
    hub.queue(2, "sleep 60", tier="namespace")
    begin(max_jobs=3, wait_s=50)  # a poll lasts longer than this test
    eventually(lambda: last_claim(hub).get("fetching") == [image], "it is fetching")
    gate.set()
    eventually(lambda: last_claim(hub)["images"] == [image], "it holds it")


def test_a_cancel_ends_the_fetch_of_an_image(
    hub: FakeHub, store: ImageHub, begin: Begin, gate: threading.Event
) -> None:
    asks(hub, store.hold(CONTENT))
    _, images = begin()
    eventually(images.fetching, "it is fetching")
    hub.cancel(1)
    assert hub.finish_of(1)["outcome"] == "canceled"
    eventually(lambda: not images.fetching(), "the fetch has ended")


def test_the_bound_on_preparing_ends_the_fetch_of_an_image(
    hub: FakeHub, store: ImageHub, begin: Begin, gate: threading.Event
) -> None:
    asks(hub, store.hold(CONTENT))
    _, images = begin(timing=replace(QUICK, prepare_s=0.2))
    said = hub.finish_of(1)
    assert (said["outcome"], "took too long" in said["error"]) == ("error", True)
    eventually(lambda: not images.fetching(), "the fetch has ended")


def test_a_shutdown_ends_the_fetch_of_an_image_and_gives_the_job_back(
    hub: FakeHub, store: ImageHub, begin: Begin, gate: threading.Event
) -> None:
    asks(hub, store.hold(CONTENT))
    agent, images = begin()
    eventually(images.fetching, "it is fetching")
    agent.drain()
    agent.drain()
    eventually(lambda: hub.of("/release"), "it is given back")


def test_an_image_without_room_is_a_decline_with_the_reason(
    hub: FakeHub, store: ImageHub, begin: Begin
) -> None:
    asks(hub, store.hold(made(3_000_000)))
    begin(limit_mib=1)
    [call] = eventually(lambda: hub.of("/decline"), "it is declined")
    assert "the image takes 3 MiB; this runner keeps at most 1 MiB of images" in call.json["reason"]
    assert hub.finished == {}


def test_an_image_that_the_hub_has_lost_is_an_error_of_the_machinery(
    hub: FakeHub, store: ImageHub, begin: Begin
) -> None:
    asks(hub, "0" * 64)
    begin()
    said = hub.finish_of(1)
    assert (said["outcome"], "there is no image 000000000000" in said["error"]) == ("error", True)


def test_an_image_is_kept_while_its_job_runs_and_may_go_afterwards(
    hub: FakeHub, store: ImageHub, begin: Begin, tmp_path: Path
) -> None:
    first, second = store.hold(made(1_500_000, seed=1)), store.hold(made(1_500_000, seed=2))
    end = tmp_path / "end"
    refs = [{"hash": first, "bytes": 1_500_000}]
    hub.queue(1, f"until test -e {end}; do sleep 0.02; done", tier="namespace", images=refs)
    _, images = begin(limit_mib=2, max_jobs=2)
    eventually(lambda: [c for c in hub.of("/start") if c.json["phase"] == "running"], "the first runs")
    asks(hub, second, job=2)
    eventually(lambda: hub.of("/2/decline"), "the second is declined")
    end.touch()
    hub.finish_of(1)
    asks(hub, second, job=3)
    assert hub.finish_of(3)["outcome"] == "succeeded"
    assert list(images.held()) == [second]


def test_two_jobs_of_one_image_fetch_it_once(
    hub: FakeHub, store: ImageHub, begin: Begin, gate: threading.Event
) -> None:
    image = store.hold(CONTENT)
    asks(hub, image, job=1)
    asks(hub, image, job=2)
    agent, _ = begin(max_jobs=2)
    eventually(lambda: agent.running == 2, "both are here")
    gate.set()
    assert hub.finish_of(1)["outcome"] == hub.finish_of(2)["outcome"] == "succeeded"
    assert len(store.served) == len(store.manifests[image].names)
