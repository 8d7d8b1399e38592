"""Collecting images: what is never taken, what a plan says, and that the disk gets its room back."""

from hub.service.images_gc import KEEP_MS
from tests.hubs import Running, pipeline
from tests.pushing import at_rest, edited, made, missing, pull, push, send_chunks

WEEK_S = KEEP_MS / 1000
HOURS_S = 2 * 3600  # longer than any claim lasts


async def test_a_plan_tells_what_a_collection_then_takes_and_changes_nothing_itself(hub: Running) -> None:
    kept, gone = made(1), made(2)
    await push(hub.admin, kept, name="debian-12")
    await push(hub.admin, gone)
    await hub.tick(WEEK_S)
    before = at_rest(hub)
    planned = await hub.admin.post("/images/gc?dry_run=true")
    assert at_rest(hub) == before
    assert await pull(hub.admin, gone.hash) == gone.data
    assert [(one["hash"], one["reason"]) for one in planned["images"]] == [
        (gone.hash, "no name, never used, pushed 7 days ago")
    ]
    done = await hub.admin.post("/images/gc")
    assert {**done, "took_s": 0.0} == {**planned, "took_s": 0.0}
    assert (done["chunks"], done["kept_images"]) == (len(gone.bodies), 1)
    assert before - at_rest(hub) == done["bytes"] == sum(map(len, gone.bodies.values()))
    assert await pull(hub.admin, gone.hash) is None
    assert await pull(hub.admin, kept.hash) == kept.data
    again = await hub.admin.post("/images/gc")
    assert (again["images"], again["chunks"], again["packs"], again["bytes"]) == ([], 0, 0, 0)


async def test_an_image_that_an_unfinished_job_needs_is_kept_and_one_that_was_used_of_late(
    hub: Running,
) -> None:
    image = made(1)
    await push(hub.admin, image)
    run = await hub.submit(pipeline(build={"image": f"cas://blake3/{image.hash}"}))
    await hub.tick(WEEK_S)
    assert (await hub.admin.post("/images/gc"))["images"] == []
    await hub.admin.call("POST", f"/runs/{run}/cancel")
    run = await hub.submit(pipeline(build={"image": f"cas://blake3/{image.hash}"}))
    await hub.settle()
    await hub.admin.call("POST", f"/runs/{run}/cancel")
    await hub.tick(WEEK_S - 1)
    assert (await hub.admin.post("/images/gc"))["images"] == []
    await hub.tick(1)
    assert [one["reason"] for one in (await hub.admin.post("/images/gc"))["images"]] == [
        "no name, last used 7 days ago"
    ]
    assert hub.hub.dispatch.fleet.value.images == {}


async def test_chunks_of_a_push_under_way_are_kept_for_an_hour_and_then_collected(hub: Running) -> None:
    image = made(1)
    await send_chunks(hub.admin, image.bodies)
    await hub.tick(3600)
    done = await hub.admin.post("/images/gc")
    assert (done["chunks"], done["kept_chunks"]) == (0, len(image.bodies))
    assert await missing(hub.admin, image.bodies) == [], "and asking again keeps them for another"
    await hub.tick(3600)
    assert (await hub.admin.post("/images/gc"))["chunks"] == 0
    await hub.tick(HOURS_S)
    done = await hub.admin.post("/images/gc")
    assert (done["chunks"], done["packs"]) == (len(image.bodies), 1)
    assert at_rest(hub) == 0
    assert await missing(hub.admin, image.bodies) == list(image.bodies)


async def test_a_pack_that_is_mostly_garbage_is_written_anew(hub: Running) -> None:
    whole = made(1, kib=1000)
    await push(hub.admin, whole)
    part = edited(whole, 2)
    few = dict(list(part.bodies.items())[:2])
    small = type(whole)(b"".join(whole.chunks[:2]))
    assert set(small.bodies) == set(few)
    await push(hub.admin, small, name="small")
    await hub.admin.call("DELETE", f"/images/{whole.hash}")
    await hub.tick(HOURS_S)
    planned = await hub.admin.post("/images/gc?dry_run=true")
    done = await hub.admin.post("/images/gc")
    assert (
        (done["packs"], done["bytes"])
        == (planned["packs"], planned["bytes"])
        == (
            1,
            sum(len(body) for name, body in whole.bodies.items() if name not in few),
        )
    )
    assert at_rest(hub) == sum(map(len, few.values()))
    assert await pull(hub.admin, small.hash) == small.data


async def test_chunks_that_were_sent_one_by_one_are_put_together(hub: Running) -> None:
    image = made(1)
    for name, body in image.bodies.items():
        assert (await hub.admin.call("PUT", f"/images/chunks/{name}", content=body)).status_code == 201
    await push(hub.admin, image, name="debian-12")
    folder = hub.hub.config.data / "blobs" / "packs"
    assert len([path for path in folder.rglob("*") if path.is_file()]) == len(image.bodies)
    await hub.admin.post("/images/gc")
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 1
    assert await pull(hub.admin, image.hash) == image.data
    assert (await hub.admin.post("/images/gc"))["packs"] == 0


async def test_blobs_that_no_row_names_are_collected(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image, name="debian-12")
    hub.hub.blobs.keep("packs/ab/" + "ab" * 16, b"left by a hub that was killed")
    planned = await hub.admin.post("/images/gc?dry_run=true")
    done = await hub.admin.post("/images/gc")
    assert (planned["packs"], planned["bytes"]) == (done["packs"], done["bytes"]) == (1, 29)
    assert at_rest(hub) == sum(map(len, image.bodies.values()))
    assert await pull(hub.admin, image.hash) == image.data
