"""Images pushed, served, named, shown and removed, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect

from hub.chunks.chunk import encode, name_of
from hub.chunks.frames import frame
from hub.service import images_chunks, images_packs
from tests.hubs import Api, Running, pipeline, running
from tests.pushing import body_of, edited, fetched, made, missing, point, pull, push, send_chunks


@pytest.fixture
async def one_hub(tmp_path: Path) -> AsyncIterator[Running]:
    """A hub, where the database makes no difference."""
    async with running(tmp_path) as hub:
        yield hub


def packs_of(hub: Running) -> list[Path]:
    return [path for path in (hub.hub.config.data / "blobs" / "packs").rglob("*") if path.is_file()]


async def test_an_image_is_pushed_named_listed_and_pulled(hub: Running) -> None:
    image = made(1, arch="x86_64")
    assert await push(hub.admin, image, name="debian-12") == len(image.bodies)
    assert await pull(hub.admin, image.hash) == image.data
    (view,) = (await hub.admin.get("/images"))["images"]
    assert (view["hash"], view["bytes"], view["arch"], view["names"], view["owner"], view["damaged"]) == (
        image.hash,
        len(image.data),
        "x86_64",
        ["debian-12"],
        None,
        0,
    )
    assert view["stored_bytes"] == sum(map(len, image.bodies.values()))
    (name,) = (await hub.admin.get("/images/names"))["names"]
    assert (name["name"], name["hash"], len(name["history"])) == ("debian-12", image.hash, 1)
    assert hub.hub.dispatch.fleet.value.images[image.hash].size_mib == 1


async def test_the_hub_remembers_its_images_over_a_restart(tmp_path: Path) -> None:
    image = made(1, arch="x86_64")
    async with running(tmp_path) as hub:
        await push(hub.admin, image, name="debian-12")
    async with running(tmp_path) as hub:
        assert await pull(hub.admin, image.hash) == image.data
        assert hub.hub.dispatch.fleet.value.images[image.hash].arch == "x86_64"
        assert (await hub.admin.get("/images"))["images"][0]["names"] == ["debian-12"]
        assert await push(hub.admin, image) == 0


async def test_what_an_earlier_image_has_is_not_sent_and_not_kept_again(hub: Running) -> None:
    first = made(1)
    await push(hub.admin, first)
    second = edited(first, 2)
    assert await push(hub.admin, second) == 1
    assert await pull(hub.admin, second.hash) == second.data
    views = (await hub.admin.get("/images"))["images"]
    shared = sum(len(raw) for raw in first.chunks[:-1])
    assert [view["shared_bytes"] for view in views] == [shared, shared]
    before = sum(path.stat().st_size for path in packs_of(hub))
    answer = await send_chunks(hub.admin, first.bodies)
    assert answer.json() == {"received": len(first.bodies), "kept": 0, "bytes": 0}
    assert sum(path.stat().st_size for path in packs_of(hub)) == before


async def test_a_chunk_that_two_send_at_the_same_time_is_kept_once(one_hub: Running) -> None:
    image = made(1)
    answers = await asyncio.gather(*(send_chunks(one_hub.admin, image.bodies) for _ in range(5)))
    assert sum(answer.json()["kept"] for answer in answers) == len(image.bodies)
    assert sum(path.stat().st_size for path in packs_of(one_hub)) == sum(map(len, image.bodies.values()))


async def test_a_large_body_is_kept_pack_by_pack(one_hub: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_packs, "PACK_BYTES", 256 * 1024)
    monkeypatch.setattr(images_chunks, "CHECK_BYTES", 64 * 1024)
    image = made(1, kib=2000)
    await push(one_hub.admin, image)
    assert len(packs_of(one_hub)) > 4
    assert await pull(one_hub.admin, image.hash) == image.data


async def test_a_manifest_with_a_chunk_missing_is_refused_and_names_it(hub: Running) -> None:
    image = made(1)
    first, *rest = image.bodies
    await send_chunks(hub.admin, {name: image.bodies[name] for name in rest})
    answer = await hub.admin.call("PUT", f"/images/{image.hash}", json=image.manifest())
    assert (answer.status_code, answer.json()["faults"][0]["text"]) == (409, f"{first} is missing")
    assert "POST /images/missing" in answer.json()["detail"]
    assert (await hub.admin.get("/images"))["images"] == []
    assert hub.hub.dispatch.fleet.value.images == {}
    assert await push(hub.admin, image) == 1, "the others stayed"


async def test_a_manifest_that_is_another_files_is_refused(hub: Running) -> None:
    image, other = made(1), made(2)
    await send_chunks(hub.admin, image.bodies)
    answer = await hub.admin.call("PUT", f"/images/{other.hash}", json=image.manifest())
    assert answer.status_code == 422
    assert (await hub.admin.get("/images"))["images"] == []
    turned = image.manifest()
    turned["chunks"] = turned["chunks"][::-1]
    answer = await hub.admin.call("PUT", f"/images/{image.hash}", json=turned)
    assert answer.status_code == 422
    assert "the file changed while it was cut" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bytes": 7}, "the chunks have"),
        ({"cutter": "sawdust"}, "no cutter"),
        ({"cutter": "fastcdc2016-64k"}, "cut by fastcdc2020-64k"),
        ({"chunks": []}, "1 to"),
        ({"chunks": [["zz", 1]]}, "64 hexadecimal digits"),
        ({"chunks": "x"}, "a list"),
        ({"arch": "../x"}, "arch"),
        ({"owner": "a/b"}, "before the slash"),
    ],
)
async def test_a_manifest_that_cannot_be_is_told_what_is_wrong(
    one_hub: Running, change: dict[str, object], words: str
) -> None:
    image = made(1, kib=20)
    await send_chunks(one_hub.admin, image.bodies)
    answer = await one_hub.admin.call("PUT", f"/images/{image.hash}", json=image.manifest(**change))
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]


async def test_a_field_of_a_manifest_that_is_not_known_is_named(one_hub: Running) -> None:
    image = made(1, kib=20)
    answer = await one_hub.admin.call("PUT", f"/images/{image.hash}", json=image.manifest(colour="red"))
    assert (answer.status_code, answer.json()["faults"][0]["path"]) == (422, "colour")


async def test_sizes_in_a_manifest_are_those_of_the_chunks(one_hub: Running) -> None:
    image = made(1)
    await send_chunks(one_hub.admin, image.bodies)
    form = image.manifest()
    form["chunks"][0][1] -= 1
    form["chunks"][1][1] += 1
    answer = await one_hub.admin.call("PUT", f"/images/{image.hash}", json=form)
    assert answer.status_code == 422
    assert "does not describe its chunks" in answer.json()["detail"]
    assert len(await missing(one_hub.admin, image.bodies)) == 0, "the chunks are sound all the same"


BODY = encode(b"x" * 1000)
BAD_BODIES = {
    "no frame": (b"hello, hub", "not a zstd frame"),
    "cut off": (BODY[:-3], "not one whole zstd frame"),
    "junk behind": (BODY + b"junk", "zstd"),
    "another chunk": (encode(b"y" * 1000), "have the name"),
    "nothing": (b"", "1 to"),
}


@pytest.mark.parametrize("case", BAD_BODIES)
async def test_a_chunk_that_is_not_what_its_name_says_is_refused(one_hub: Running, case: str) -> None:
    body, words = BAD_BODIES[case]
    name = name_of(b"x" * 1000)
    one = await one_hub.admin.call("PUT", f"/images/chunks/{name}", content=body)
    assert one.status_code == 422, one.text
    assert words in one.json()["detail"]
    if body:
        good = made(1, kib=20)
        many = await send_chunks(one_hub.admin, {**good.bodies, name: body})
        assert (many.status_code, many.headers["content-type"]) == (422, "application/problem+json")
        assert name in many.json()["detail"]
    assert await missing(one_hub.admin, [name]) == [name]
    assert packs_of(one_hub) == []


async def test_a_body_of_frames_that_is_cut_off_is_refused_and_nothing_of_its_last_pack_kept(
    one_hub: Running,
) -> None:
    image = made(1)
    whole = body_of(image.bodies)
    for body in (whole[:-4], whole[: len(whole) // 2], whole + b"x", b"", b"\xff" * 100):
        answer = await one_hub.admin.call("POST", "/images/chunks", content=body)
        assert answer.status_code == 422, answer.text
        assert "Ask what is missing" in answer.json()["detail"]
    assert packs_of(one_hub) == []


async def test_a_sender_that_leaves_half_way_keeps_the_packs_that_were_whole(
    one_hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_packs, "PACK_BYTES", 128 * 1024)
    monkeypatch.setattr(images_chunks, "CHECK_BYTES", 1)
    image = made(1, kib=1000)

    async def half() -> AsyncIterator[bytes]:
        sent = 0
        for name, body in image.bodies.items():
            yield frame(name, body)
            sent += len(body)
            if sent > 500 * 1024:
                raise ClientDisconnect  # as the server tells it

    answer = await one_hub.admin.call("POST", "/images/chunks", content=half())
    assert answer.status_code == 499
    await one_hub.settle()
    left = await missing(one_hub.admin, image.bodies)
    assert 0 < len(left) < len(image.bodies)
    assert await push(one_hub.admin, image) == len(left)


async def test_a_sender_that_stalls_loses_its_place(
    one_hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_chunks, "STALLED_S", 0.01)
    never = asyncio.Event()

    async def stalls() -> AsyncIterator[bytes]:
        yield body_of(made(1).bodies)[:1000]
        await never.wait()

    answer = await one_hub.admin.call("POST", "/images/chunks", content=stalls())
    assert (answer.status_code, "nothing came" in answer.json()["detail"]) == (422, True)
    assert not one_hub.hub.images.uploads.locked()
    assert await push(one_hub.admin, made(1)) == len(made(1).bodies)


async def test_one_chunk_is_served_as_it_rests_and_for_ever(one_hub: Running) -> None:
    image = made(1)
    await push(one_hub.admin, image)
    name, body = next(iter(image.bodies.items()))
    answer = await one_hub.admin.call("GET", f"/images/chunks/{name}")
    assert answer.content == body
    assert "immutable" in answer.headers["cache-control"]
    for wrong in ("0" * 64, "%2e%2e", "x" * 64, name.upper()):
        assert (await one_hub.admin.call("GET", f"/images/chunks/{wrong}")).status_code == 404
    put = await one_hub.admin.call("PUT", f"/images/chunks/{name}", content=body)
    assert (put.status_code, put.json()["kept"]) == (201, 0)


async def test_chunks_that_are_not_held_are_left_out_of_a_stream(one_hub: Running) -> None:
    image = made(1)
    await push(one_hub.admin, image)
    names = [*image.bodies, "0" * 64]
    assert (await fetched(one_hub.admin, names)) == image.bodies
    answer = await one_hub.admin.call("POST", "/images/chunks/fetch", json={"chunks": ["0" * 64]})
    assert answer.status_code == 404


async def test_settings_tell_the_cutter(one_hub: Running) -> None:
    machine = await one_hub.machine("a")
    found = await Api(one_hub.client, machine.token).get("/images/settings")
    assert (found["cutter"], found["max_bytes"], found["max_chunks"]) == ("fastcdc2020-64k", 262144, 4096)


@pytest.mark.parametrize("name", ["..", "a..b", ".x", "a/b", "%2e%2e", "-x", "x" * 101, "0" * 64, "x%00"])
async def test_a_name_that_cannot_be_one_is_refused(one_hub: Running, name: str) -> None:
    image = made(1, kib=20)
    await push(one_hub.admin, image)
    answer = await one_hub.admin.call("PUT", f"/images/names/{name}", json={"hash": image.hash})
    assert answer.status_code in (400, 404, 405), answer.text
    assert (await one_hub.admin.get("/images/names"))["names"] == []


async def test_a_name_keeps_its_history_and_can_be_taken_away(hub: Running) -> None:
    first, second = made(1), made(2)
    await push(hub.admin, first, name="debian-12")
    await push(hub.admin, second, name="debian-12")
    (name,) = (await hub.admin.get("/images/names"))["names"]
    assert [one["hash"] for one in name["history"]] == [second.hash, first.hash]
    assert (await hub.admin.call("DELETE", "/images/names/debian-12")).status_code == 204
    assert (await hub.admin.call("DELETE", "/images/names/debian-12")).status_code == 404
    assert (await hub.admin.get("/images/names"))["names"] == []
    await point(hub.admin, "debian-12", first.hash)
    (name,) = (await hub.admin.get("/images/names"))["names"]
    assert [one["hash"] for one in name["history"]] == [first.hash, second.hash, first.hash]


async def test_a_name_cannot_mean_an_image_that_is_not_there(one_hub: Running) -> None:
    answer = await one_hub.admin.call("PUT", "/images/names/debian-12", json={"hash": "0" * 64})
    assert answer.status_code == 404


async def test_an_image_is_not_removed_while_a_name_or_an_unfinished_job_needs_it(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image, name="debian-12")
    run = await hub.submit(
        pipeline(build={"image": "debian-12"}, late={"image": "debian-12", "needs": ["build"]})
    )
    refused = await hub.admin.call("DELETE", f"/images/{image.hash}")
    assert (refused.status_code, "debian-12" in refused.json()["detail"]) == (409, True)
    await hub.admin.call("DELETE", "/images/names/debian-12")
    refused = await hub.admin.call("DELETE", f"/images/{image.hash}")
    assert (refused.status_code, "job" in refused.json()["detail"]) == (409, True)
    assert await pull(hub.admin, image.hash) == image.data
    await hub.admin.call("POST", f"/runs/{run}/cancel")
    assert (await hub.admin.call("DELETE", f"/images/{image.hash}")).status_code == 204
    assert (await hub.admin.call("GET", f"/images/{image.hash}")).status_code == 404
    assert hub.hub.dispatch.fleet.value.images == {}
    assert await fetched(hub.admin, image.bodies) == {}


async def test_a_listing_says_which_runners_hold_an_image_as_far_as_the_reader_sees_them(
    one_hub: Running,
) -> None:
    image = made(1)
    await push(one_hub.admin, image)
    for name, owner in (("beas", "bea"), ("andys", "andy")):
        machine = await one_hub.machine(name, scope={"owner": owner}, images=[image.hash])
        await machine.claim()
    reader = await one_hub.token("read", owner="andy")
    (view,) = (await reader.get("/images"))["images"]
    assert (view["held_by"], view["held_by_others"]) == (["andys"], 1)
    assert (await one_hub.admin.get("/images"))["images"][0]["held_by"] == ["andys", "beas"]


async def test_a_chunk_that_need_not_be_sent_stays_for_an_hour_and_asking_again_writes_little(
    one_hub: Running,
) -> None:
    image = made(1)
    await push(one_hub.admin, image)
    assert await missing(one_hub.admin, image.bodies) == []
    commits = one_hub.hub.store.writer.commits
    assert await missing(one_hub.admin, image.bodies) == []
    assert one_hub.hub.store.writer.commits == commits
    await one_hub.admin.call("DELETE", f"/images/{image.hash}")
    await one_hub.tick(3599)
    await one_hub.admin.post("/images/gc")
    assert await push(one_hub.admin, image) == 0
