"""Pushes, removals, collections, fetches and damage in any order: no accepted image ever has a hole.

Each example is a hub that lives through a drawn list of steps; several steps go on at the same time, so
that their writes interleave as they would in life. What the hub said is believed and held against it.
"""

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub.blobs import Blobs
from hub.service import images_packs
from hub.service.images_gc import KEEP_MS
from tests.hubs import Api, Running, running
from tests.postgres import Cluster, postgres_cluster
from tests.pushing import Made, fetched, made, missing, pull, send_chunks

__all__ = ["postgres_cluster"]

# Four images that share chunks: halves of two files put together.
_LEFT, _RIGHT = made(1, 160), made(2, 160)
IMAGES = (_LEFT, _RIGHT, Made(_LEFT.data + _RIGHT.data), Made(_RIGHT.data + _LEFT.data[: 80 * 1024]))

STEP = st.one_of(
    st.tuples(st.just("push"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("push"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("half"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("remove"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("gc"), st.just(0), st.just(0)),
    st.tuples(st.just("gc"), st.just(0), st.just(0)),
    st.tuples(st.just("pull"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("age"), st.sampled_from([1200, 4600, KEEP_MS // 1000]), st.just(0)),
    st.tuples(st.just("name"), st.integers(0, 3), st.integers(0, 1)),
    st.tuples(st.just("unname"), st.just(0), st.integers(0, 1)),
)
STEPS = st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=2, max_size=8)


class World:
    """Two owners, what each may rely on, and the promise that is held."""

    def __init__(self, hub: Running, owners: list[Api]) -> None:
        self.hub = hub
        self.owners = owners
        self.time_leaps = False

    async def carry_out(self, step: tuple[str, int, int]) -> None:
        what, which, who = step
        api = self.owners[who]
        image = IMAGES[which % len(IMAGES)]
        if what == "push":
            await self.push(api, image)
        elif what == "half":
            wanted = await missing(api, image.bodies)
            await send_chunks(api, {name: image.bodies[name] for name in wanted[: len(wanted) // 2]})
        elif what == "remove":
            answer = await api.call("DELETE", f"/images/{image.hash}")
            assert answer.status_code in (204, 404, 409), answer.text
        elif what == "gc":
            assert (await self.hub.admin.call("POST", "/images/gc")).status_code == 200
        elif what == "pull":
            await self.pull(api, image)
        elif what == "name":
            answer = await api.call("PUT", "/images/names/it", json={"hash": image.hash})
            assert answer.status_code in (200, 404), answer.text
        elif what == "unname":
            answer = await api.call("DELETE", "/images/names/it")
            assert answer.status_code in (204, 404), answer.text
        else:
            self.hub.clock.ms += which * 1000

    async def push(self, api: Api, image: Made) -> None:
        """As a client does it: ask, send, tell; where it is told that chunks are missing, once more."""
        for _ in range(3):
            wanted = await missing(api, image.bodies)
            sent = await send_chunks(api, {name: image.bodies[name] for name in wanted})
            assert sent.status_code == 201, sent.text
            answer = await api.call("PUT", f"/images/{image.hash}", json=image.manifest())
            if answer.status_code == 201:
                return
            assert answer.status_code == 409, answer.text
            assert self.time_leaps, "what was sent, or need not be, was gone within the hour"

    async def pull(self, api: Api, image: Made) -> None:
        """An image that is there before and after is whole in between."""
        before = await api.call("GET", f"/images/{image.hash}")
        found = await pull(api, image.hash)
        after = await api.call("GET", f"/images/{image.hash}")
        if found is not None:
            assert found == image.data
        elif before.status_code == 200 and after.status_code == 200:
            # it may have been removed and pushed anew between two questions; it must be whole now
            assert await pull(api, image.hash) in (image.data, None)

    async def hold_to_the_promise(self) -> None:
        """At rest between steps: every image that is listed is whole, and every name means one."""
        for api in self.owners:
            listed = {view["hash"]: view for view in (await api.get("/images"))["images"]}
            for image in IMAGES:
                found = await pull(api, image.hash)
                assert (found == image.data) is (image.hash in listed), "an accepted image has a hole"
                assert found in (image.data, None)
            for name in (await api.get("/images/names"))["names"]:
                assert name["hash"] in listed, "a name means an image that is gone"
            assert not any(view["damaged"] for view in listed.values())
        assert self.hub.hub.dispatch.fleet.value.images.keys() == self.hub.hub.images.images.keys()
        assert not self.hub.hub.images.pushing
        assert not self.hub.hub.images.arriving
        assert not self.hub.hub.images.writing


_keep = Blobs.keep


def _slowly(blobs: Blobs, name: str, body: bytes) -> None:
    """As a bucket does it: others go on between the bytes and the row that names them."""
    _keep(blobs, name, body)
    time.sleep(0.01)


async def live(folder: Path, steps: list[list[tuple[str, int, int]]], database: str | None = None) -> None:
    async with running(folder, database=database) as hub:
        owners = [await hub.token("images", owner=owner) for owner in ("andy", "bea")]
        world = World(hub, owners)
        for together in steps:
            world.time_leaps = any(what == "age" for what, *_ in together)
            await asyncio.gather(*(world.carry_out(step) for step in together))
            await world.hold_to_the_promise()
        clock = hub.clock
    async with running(folder, clock, database=database) as hub:  # and over a restart
        for api in owners:
            api.client = hub.client
        world = World(hub, owners)
        await world.hold_to_the_promise()
        await hub.tick(2 * KEEP_MS / 1000)
        await hub.admin.post("/images/gc")
        await world.hold_to_the_promise()
        report = await hub.admin.call("GET", "/images/check")
        assert '"sound":true' in report.text
        kept = {name for view in await _manifests(hub) for name, _ in view["chunks"]}
        assert await fetched(hub.admin, sorted(kept) or ["0" * 64]) == {
            name: body for image in IMAGES for name, body in image.bodies.items() if name in kept
        }
        rest = sum(path.stat().st_size for path in (folder / "blobs" / "packs").rglob("*") if path.is_file())
        needed = sum(len(body) for name, body in _all_bodies().items() if name in kept)
        assert rest <= 2 * needed, "what nobody needs was collected, but for the lesser half of a pack"


async def _manifests(hub: Running) -> list[dict[str, Any]]:
    listed = (await hub.admin.get("/images"))["images"]
    return [await hub.admin.get(f"/images/{view['hash']}") for view in listed]


def _all_bodies() -> dict[str, bytes]:
    return {name: body for image in IMAGES for name, body in image.bodies.items()}


@settings(max_examples=max(10, settings().max_examples // 4), suppress_health_check=[HealthCheck.too_slow])
@given(STEPS)
def test_no_accepted_image_ever_has_a_hole(steps: list[list[tuple[str, int, int]]]) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(images_packs, "PACK_BYTES", 100 * 1024)  # several packs an image
        patched.setattr(Blobs, "keep", _slowly)
        asyncio.run(live(Path(folder), steps))


@pytest.mark.postgres
def test_no_accepted_image_ever_has_a_hole_on_postgresql(postgres_cluster: Cluster, tmp_path: Path) -> None:
    rng = random.Random(20261201)
    kinds = ("push", "push", "half", "remove", "gc", "pull", "name", "unname")
    for number in range(6):
        steps: list[list[tuple[str, int, int]]] = [
            [(rng.choice(kinds), rng.randrange(4), rng.randrange(2)) for _ in range(rng.randint(1, 4))]
            for _ in range(6)
        ]
        steps.insert(3, [("age", KEEP_MS // 1000, 0), ("gc", 0, 0), ("push", 2, 0)])
        name = asyncio.run(postgres_cluster.make_database())
        folder = tmp_path / str(number)
        folder.mkdir()
        asyncio.run(live(folder, steps, postgres_cluster.url(name)))
        asyncio.run(postgres_cluster.admin(f"DROP DATABASE {name} WITH (FORCE)"))
