"""A hub's images under casync's names, on both databases: named once, and collected."""

import asyncio
import base64
import struct

import httpx
import pytest

from hub.chunks import caibx
from hub.chunks.chunk import decode
from hub.service import images_casync
from hub.store.image_chunks import ChunkRow
from tests.hubs import Api, Running
from tests.pushing import Made, edited, made, point, push


async def get(api: Api, path: str) -> httpx.Response:
    return await api.call("GET", f"//casync/{path}")


async def ids_of(api: Api, image: str) -> list[str]:
    """The chunk ids that an index lists, in order."""
    answer = await get(api, f"{image}.caibx")
    assert answer.status_code == 200, answer.text
    return [id_.hex() for _, id_ in struct.iter_unpack("<Q32s", answer.content[64:-40])]


async def pulled(api: Api, image: str) -> bytes:
    """The image, put together as casync does it."""
    parts = []
    for id_ in await ids_of(api, image):
        answer = await get(api, f"store/{id_[:4]}/{id_}.cacnk")
        assert answer.status_code == 200, answer.text
        parts.append(decode(answer.content, max_bytes=2**20))
        assert caibx.id_of(parts[-1]) == id_
    return b"".join(parts)


def basic(words: bytes) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(words).decode()}


async def test_an_image_comes_back_whole_under_casyncs_names(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image, name="debian-12")
    assert await pulled(hub.admin, "debian-12") == image.data
    assert await pulled(hub.admin, image.hash) == image.data


async def test_a_chunk_is_named_once_however_many_ask_at_the_same_time(
    hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = made(1)
    other = edited(image, 2)
    named: list[str] = []
    plain = images_casync._name

    def counting(group: tuple[tuple[ChunkRow, bytes], ...]) -> dict[str, str]:
        found = plain(group)
        named.extend(found)
        return found

    monkeypatch.setattr(images_casync, "_name", counting)
    await push(hub.admin, image)
    answers = await asyncio.gather(*(get(hub.admin, f"{image.hash}.caibx") for _ in range(4)))
    assert len({answer.content for answer in answers}) == 1
    assert sorted(named) == sorted(image.bodies)
    await push(hub.admin, other)
    await ids_of(hub.admin, other.hash)
    assert sorted(named) == sorted(image.bodies.keys() | other.bodies.keys())


async def test_what_never_changes_may_be_kept_and_a_name_may_not(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image, name="debian-12")
    (first, *_) = await ids_of(hub.admin, image.hash)
    by_hash = await get(hub.admin, f"{image.hash}.caibx")
    by_name = await get(hub.admin, "debian-12.caibx")
    chunk = await get(hub.admin, f"store/{first[:4]}/{first}.cacnk")
    assert "immutable" in by_hash.headers["cache-control"]
    assert "immutable" in chunk.headers["cache-control"]
    assert by_name.headers["cache-control"] == "private, no-cache"
    other = made(2)
    await push(hub.admin, other)
    await point(hub.admin, "debian-12", other.hash)
    moved = await get(hub.admin, "debian-12.caibx")
    assert by_name.headers["etag"] == by_hash.headers["etag"] != moved.headers["etag"]


async def test_a_chunk_goes_with_its_name_and_comes_again(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image)
    ids = await ids_of(hub.admin, image.hash)
    assert (await hub.admin.call("DELETE", f"/images/{image.hash}")).status_code == 204
    await hub.tick(3600 * 3)
    report = await hub.admin.post("/images/gc")
    assert report["chunks"] == len(image.bodies)
    for id_ in ids:
        assert (await get(hub.admin, f"store/{id_[:4]}/{id_}.cacnk")).status_code == 404
    await push(hub.admin, image)
    assert await ids_of(hub.admin, image.hash) == ids


async def test_a_token_counts_as_user_or_password_here_and_nowhere_else(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image, name="debian-12")
    token = (await hub.token("read")).token.encode()
    for words in (token + b":", b"ci:" + token, token):
        answer = await hub.client.get("/casync/debian-12.caibx", headers=basic(words))
        assert answer.status_code == 200
        assert (await hub.client.get("/api/v1/images", headers=basic(words))).status_code == 401
    for words in (b"", b":", b"ci:", b"\xff\xff:x", b"ci:" + token + b"x", token[:-1], b"x" * 10_000):
        answer = await hub.client.get("/casync/debian-12.caibx", headers=basic(words))
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert image.data[:100] not in answer.content
    answer = await hub.client.get("/casync/debian-12.caibx", headers={"Authorization": "Basic =?"})
    assert answer.status_code == 401


async def test_a_runners_token_reads_what_its_runner_serves(hub: Running) -> None:
    andys = await hub.token("images", owner="andy")
    await push(andys, made(1), name="debian-12")
    serves = await hub.machine("mars-1", scope={"owner": "andy"})
    foreign = await hub.machine("mars-2", scope={"owner": "bea"})
    assert await pulled(serves, "debian-12") == made(1).data
    assert (await get(foreign, "debian-12.caibx")).status_code == 404


async def test_another_owner_finds_neither_index_nor_chunk(hub: Running) -> None:
    image = made(1)
    await push(await hub.token("images", owner="andy"), image, name="debian-12")
    andy, bea = await hub.token("read", owner="andy"), await hub.token("read", owner="bea")
    ids = await ids_of(andy, "debian-12")
    for path in ("debian-12.caibx", f"{image.hash}.caibx", f"store/{ids[0][:4]}/{ids[0]}.cacnk"):
        assert (await get(andy, path)).status_code == 200
        assert (await get(bea, path)).status_code == 404


async def test_a_name_means_what_it_means_to_a_job_of_the_caller(hub: Running) -> None:
    everybodys, andys, beas = made(1), made(2), made(3)
    await push(hub.admin, everybodys, name="debian-12")
    await push(await hub.token("images", owner="andy"), andys, name="debian-12")
    await push(await hub.token("images", owner="bea"), beas, name="debian-12")
    project = await hub.token("read", owner="andy", project="andy/demo")
    for api, image in (
        (hub.admin, everybodys),
        (await hub.token("read", owner="andy"), andys),
        (project, andys),
        (await hub.token("read", owner="cay"), everybodys),
    ):
        assert await pulled(api, "debian-12") == image.data
    await push(await hub.token("images", owner="andy"), andys, name="tool")
    await push(await hub.token("images", owner="bea"), beas, name="tool")
    answer = await get(hub.admin, "tool.caibx")
    assert (answer.status_code, "2 images" in answer.json()["detail"]) == (409, True)


async def test_a_damaged_chunk_is_never_given_out_and_its_image_says_so(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image)
    (pack,) = (hub.hub.config.data / "blobs" / "packs").rglob("*/*")
    body = bytearray(pack.read_bytes())
    body[len(body) // 2] ^= 1
    pack.chmod(0o644)
    pack.write_bytes(body)
    answer = await get(hub.admin, f"{image.hash}.caibx")
    assert (answer.status_code, "damaged" in answer.json()["detail"]) == (404, True)
    assert await _healed(hub, image)


async def _healed(hub: Running, image: Made) -> bool:
    """Whether a push of the same makes it whole again."""
    await push(hub.admin, image)
    return await pulled(hub.admin, image.hash) == image.data


@pytest.mark.parametrize(
    "path", ["store/0000/x.cacnk", f"store/1111/{'0' * 64}.cacnk", "..caibx", "%00.caibx"]
)
async def test_what_is_no_path_of_a_store_is_not_there(hub: Running, path: str) -> None:
    assert (await get(hub.admin, path)).status_code == 404
