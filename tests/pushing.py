"""Images for tests: made from a seed, cut as clients cut them, and pushed through the real routes."""

import io
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx

from hub.chunks.chunk import encode, name_of
from hub.chunks.cutter import CUTTERS, DEFAULT_CUTTER, cut
from hub.chunks.frames import END, MEDIA_TYPE, Frames, frame
from tests.hubs import Api, Running

KIB = 1024


@dataclass(frozen=True)
class Made:
    """A file, its chunks and its manifest."""

    data: bytes
    arch: str | None = None

    @cached_property
    def hash(self) -> str:
        return name_of(self.data)

    @cached_property
    def chunks(self) -> list[bytes]:
        return list(cut(CUTTERS[DEFAULT_CUTTER], io.BytesIO(self.data)))

    @cached_property
    def bodies(self) -> dict[str, bytes]:
        """The encoded chunks by name, each once, in order."""
        return {name_of(raw): encode(raw) for raw in self.chunks}

    def manifest(self, **more: Any) -> dict[str, Any]:
        listed = [[name_of(raw), len(raw)] for raw in self.chunks]
        form = {"bytes": len(self.data), "arch": self.arch, "cutter": DEFAULT_CUTTER, "chunks": listed}
        return {**form, **more}


def made(seed: int, kib: int = 300, *, arch: str | None = None) -> Made:
    """An image of random bytes: some five chunks by default."""
    return Made(random.Random(seed).randbytes(kib * KIB), arch)


def edited(image: Made, seed: int) -> Made:
    """The same with its last bytes changed: all chunks but the last are shared."""
    return Made(image.data[:-100] + random.Random(seed).randbytes(100), image.arch)


def body_of(bodies: Mapping[str, bytes]) -> bytes:
    """Chunks in one framed body."""
    return b"".join([frame(name, body) for name, body in bodies.items()] + [END])


async def send_chunks(api: Api, bodies: Mapping[str, bytes]) -> httpx.Response:
    return await api.call(
        "POST", "/images/chunks", content=body_of(bodies), headers={"Content-Type": MEDIA_TYPE}
    )


async def missing(api: Api, names: Iterable[str]) -> list[str]:
    found: list[str] = (await api.post("/images/missing", json={"chunks": list(names)}))["missing"]
    return found


async def push(api: Api, image: Made, *, name: str | None = None, **more: Any) -> int:
    """Push an image as a client does, and name it; how many chunks had to be sent."""
    wanted = await missing(api, image.bodies)
    if wanted:
        sent = await send_chunks(api, {one: image.bodies[one] for one in wanted})
        assert sent.status_code == 201, sent.text
    put = await api.call("PUT", f"/images/{image.hash}", json=image.manifest(**more))
    assert put.status_code == 201, put.text
    if name is not None:
        await point(api, name, image.hash, **more)
    return len(wanted)


async def point(api: Api, name: str, image_hash: str, **more: Any) -> httpx.Response:
    answer = await api.call("PUT", f"/images/names/{name}", json={"hash": image_hash, **more})
    assert answer.status_code == 200, answer.text
    return answer


async def fetched(api: Api, names: Iterable[str]) -> dict[str, bytes]:
    """Chunks in one framed answer; empty where the hub has none of them."""
    answer = await api.call("POST", "/images/chunks/fetch", json={"chunks": list(names)})
    if answer.status_code == 404:
        return {}
    assert answer.status_code == 200, answer.text
    frames = Frames()
    found = dict(frames.feed(answer.content))
    frames.close()
    return found


async def pull(api: Api, image_hash: str) -> bytes | None:
    """The whole file, put together from what the hub gives; None: there is a hole in it, or no image."""
    from hub.chunks.chunk import decode

    answer = await api.call("GET", f"/images/{image_hash}")
    if answer.status_code != 200:
        return None
    chunks = answer.json()["chunks"]
    bodies: dict[str, bytes] = {}
    names = list(dict.fromkeys(name for name, _ in chunks))
    for start in range(0, len(names), 1000):
        bodies |= await fetched(api, names[start : start + 1000])
    if any(name not in bodies for name in names):
        return None
    return b"".join(decode(bodies[name], name=name, bytes_=size, max_bytes=2**20) for name, size in chunks)


def at_rest(hub: Running) -> int:
    """Bytes of all packs of a hub that keeps them in its data folder."""
    packs = hub.hub.config.data / "blobs" / "packs"
    return sum(path.stat().st_size for path in packs.rglob("*") if path.is_file())
