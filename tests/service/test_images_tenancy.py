"""Whose images are whose: what a token may not have looks exactly like what is not there."""

from typing import Any

from tests.hubs import Api, Running
from tests.pushing import at_rest, fetched, made, missing, point, pull, push, send_chunks


async def _asked(api: Api, image_hash: str, names: list[str]) -> list[Any]:
    """All that a token can find out about an image and its chunks."""
    answers = [
        await api.call("GET", f"/images/{image_hash}"),
        await api.call("DELETE", f"/images/{image_hash}"),
        await api.call("GET", f"/images/chunks/{names[0]}"),
        await api.call("POST", "/images/chunks/fetch", json={"chunks": names}),
        await api.call("PUT", "/images/names/theirs", json={"hash": image_hash}),
    ]
    listed = [(await api.call("GET", path)).json() for path in ("/images", "/images/names")]
    lacking = await missing(api, names)
    return [*((one.status_code, one.json()) for one in answers), *listed, len(lacking)]


async def test_anothers_image_looks_exactly_like_one_that_is_not_there(hub: Running) -> None:
    image, invented = made(1), made(2)
    await push(await hub.token("images", owner="andy"), image, name="theirs")
    for scope in ({"owner": "bea"}, {"project": "bea/tool"}):
        bea = await hub.token("images", **scope)
        names = list(image.bodies)
        foreign = await _asked(bea, image.hash, names)
        nothing = await _asked(bea, invented.hash, [f"{number:064x}" for number in range(len(names))])
        assert foreign == nothing
    assert await pull(hub.admin, image.hash) == image.data


async def test_chunks_of_another_are_taken_again_and_not_kept_twice(hub: Running) -> None:
    image = made(1)
    andy, bea = await hub.token("images", owner="andy"), await hub.token("images", owner="bea")
    await push(andy, image)
    before = at_rest(hub)
    assert await push(bea, image) == len(image.bodies)
    assert at_rest(hub) == before
    assert await pull(bea, image.hash) == image.data
    assert (await hub.admin.get("/images"))["images"][0]["hash"] == image.hash
    assert (await bea.call("DELETE", f"/images/{image.hash}")).status_code == 204
    assert await pull(bea, image.hash) is None
    assert await pull(andy, image.hash) == image.data


async def test_a_manifest_of_anothers_chunks_gives_nobody_their_bytes(hub: Running) -> None:
    """Who knows the names of chunks, and not their bytes, cannot have them listed as its own."""
    image = made(1)
    await push(await hub.token("images", owner="andy"), image)
    bea = await hub.token("images", owner="bea")
    answer = await bea.call("PUT", f"/images/{image.hash}", json=image.manifest())
    assert answer.status_code == 409
    assert await pull(bea, image.hash) is None
    assert await fetched(bea, image.bodies) == {}


async def test_chunks_that_were_sent_and_not_listed_yet_are_given_to_nobody(hub: Running) -> None:
    image = made(1)
    andy = await hub.token("images", owner="andy")
    await send_chunks(andy, image.bodies)
    assert await missing(andy, image.bodies) == []
    assert await fetched(andy, image.bodies) == {}
    assert await missing(await hub.token("images", owner="bea"), image.bodies) == list(image.bodies)


async def test_runners_have_images_as_far_as_their_scope_reaches(hub: Running) -> None:
    andys, everybodys = made(1), made(2)
    await push(await hub.token("images", owner="andy"), andys)
    await push(hub.admin, everybodys)
    for scope, reads in (
        ({}, True),
        ({"owner": "andy"}, True),
        ({"project": "andy/demo"}, True),
        ({"owner": "bea"}, False),
        ({"project": "bea/tool"}, False),
    ):
        machine = await hub.machine(f"m{len(str(scope))}-{reads}", scope=scope)
        assert await pull(machine, everybodys.hash) == everybodys.data, scope
        assert (await pull(machine, andys.hash) == andys.data) is reads, scope
        assert (await machine.call("PUT", f"/images/{andys.hash}", json=andys.manifest())).status_code == 403
        assert (await machine.call("GET", "/images")).status_code == 403


async def test_an_image_for_all_is_pushed_for_one_owner_where_that_is_asked(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image, name="debian-12", owner="andy")
    (view,) = (await hub.admin.get("/images"))["images"]
    assert (view["owner"], view["names"]) == ("andy", ["debian-12"])
    assert await pull(await hub.token("read", owner="bea"), image.hash) is None
    assert await pull(await hub.token("read", project="andy/demo"), image.hash) == image.data
    owner = await hub.token("images", owner="andy")
    refused = await owner.call("PUT", f"/images/{image.hash}", json=image.manifest(owner="bea"))
    assert refused.status_code == 403
    refused = await owner.call("POST", "/images/missing", json={"chunks": list(image.bodies), "owner": "bea"})
    assert refused.status_code == 403
    project = await hub.token("images", project="andy/demo")
    refused = await project.call("PUT", "/images/names/x", json={"hash": image.hash, "owner": "andy"})
    assert refused.status_code == 403, "a project's token names nothing for the owner's other projects"


async def test_a_name_for_all_cannot_mean_an_image_that_is_not_for_all(hub: Running) -> None:
    image = made(1)
    await push(await hub.token("images", owner="andy"), image)
    answer = await hub.admin.call("PUT", "/images/names/debian-12", json={"hash": image.hash})
    assert (answer.status_code, "push it for them" in answer.json()["detail"]) == (400, True)
    await push(hub.admin, image, name="debian-12")


async def test_what_is_everybodys_is_not_one_owners_to_remove_or_name_anew(hub: Running) -> None:
    image, mine = made(1), made(2)
    await push(hub.admin, image, name="debian-12")
    andy = await hub.token("images", owner="andy")
    assert (await andy.call("DELETE", f"/images/{image.hash}")).status_code == 409
    assert (await andy.call("DELETE", "/images/names/debian-12")).status_code == 404
    await push(andy, mine)
    await point(andy, "debian-12", mine.hash)
    reader = await hub.token("read", owner="bea")
    assert [one["hash"] for one in (await reader.get("/images/names"))["names"]] == [image.hash]
    for call in (("POST", "/images/gc"), ("POST", "/images/gc?dry_run=true"), ("GET", "/images/check")):
        assert (await andy.call(*call)).status_code == 403


async def test_only_tokens_of_their_kind_push(hub: Running) -> None:
    image = made(1)
    for kind in ("read", "submit"):
        api = await hub.token(kind)
        assert (await send_chunks(api, image.bodies)).status_code == 403
        answer = await api.call("POST", "/images/missing", json={"chunks": list(image.bodies)})
        assert answer.status_code == 403
    assert at_rest(hub) == 0
