"""What goes wrong under images: damaged bytes, full disks, and hubs that are killed between two writes."""

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hub import app as hub_app
from hub.blobs import Blobs
from hub.store import image_chunks
from hub.store import images as store
from hub.store.errors import Closed
from tests.hubs import Running, running
from tests.pushing import fetched, made, missing, point, pull, push, send_chunks


def packs_of(hub: Running) -> list[Path]:
    folder = hub.hub.config.data / "blobs" / "packs"
    return [path for path in folder.rglob("*") if path.is_file()]


async def check(hub: Running) -> tuple[dict[str, Any], int]:
    """What a check reports, and how often it told how far it came."""
    answer = await hub.admin.call("GET", "/images/check")
    events = [
        dict(line.split(": ", 1) for line in one.splitlines()) for one in answer.text.split("\n\n") if one
    ]
    assert events[-1]["event"] == "end"
    (report,) = [json.loads(one["data"]) for one in events if one["event"] == "report"]
    return report, sum(one["event"] == "progress" for one in events)


def harm(pack: Path, at: int) -> None:
    """Change one byte at rest."""
    with pack.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 0xFF]))


async def test_a_chunk_that_does_not_read_well_counts_as_missing_and_the_next_push_heals_it(
    hub: Running,
) -> None:
    image = made(1, arch="x86_64")
    await push(hub.admin, image, name="debian-12")
    (pack,) = packs_of(hub)
    harm(pack, 100)
    first = next(iter(image.bodies))
    found = await fetched(hub.admin, image.bodies)
    assert found == {name: body for name, body in image.bodies.items() if name != first}
    (view,) = (await hub.admin.get("/images"))["images"]
    assert view["damaged"] == 1
    assert hub.hub.dispatch.fleet.value.images == {}, "nobody could fetch it"
    assert (await hub.admin.call("GET", f"/images/chunks/{first}")).status_code == 404
    assert await missing(hub.admin, image.bodies) == [first]
    assert await push(hub.admin, image) == 1
    assert await pull(hub.admin, image.hash) == image.data
    assert (await hub.admin.get("/images"))["images"][0]["damaged"] == 0
    assert image.hash in hub.hub.dispatch.fleet.value.images
    assert (await check(hub))[0]["sound"]


async def test_a_pack_that_is_cut_off_or_gone_loses_the_chunks_behind_the_cut_alone(hub: Running) -> None:
    first, second = made(1), made(2)
    await push(hub.admin, first)
    (pack,) = packs_of(hub)
    await push(hub.admin, second)
    (other,) = set(packs_of(hub)) - {pack}
    os.truncate(pack, pack.stat().st_size - 10)
    other.unlink()
    assert list(await fetched(hub.admin, first.bodies)) == list(first.bodies)[:-1]
    assert await fetched(hub.admin, second.bodies) == {}
    report, _ = await check(hub)
    assert not report["sound"]
    assert sorted(report["damaged_images"]) == sorted([first.hash, second.hash])
    assert len(report["damaged_chunks"]) == 1 + len(second.bodies)
    assert await push(hub.admin, first) == 1
    assert await push(hub.admin, second) == len(second.bodies)
    assert (await check(hub))[0]["sound"]


async def test_a_check_reads_everything_and_tells_what_is_damaged_and_in_which_images(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image)
    report, told = await check(hub)
    assert (report["sound"], report["chunks"], report["images"], told) == (True, len(image.bodies), 1, 1)
    assert report["bytes"] == sum(map(len, image.bodies.values()))
    (pack,) = packs_of(hub)
    harm(pack, 100)
    hub.hub.blobs.keep("packs/ab/" + "ab" * 16, b"an orphan")
    report, _ = await check(hub)
    (damaged,) = report["damaged_chunks"]
    assert (damaged["hash"], damaged["images"]) == (next(iter(image.bodies)), [image.hash])
    assert (report["sound"], report["orphan_packs"]) == (False, 1)
    report, _ = await check(hub)
    assert "before" in report["damaged_chunks"][0]["reason"]


async def test_a_folder_that_was_away_for_a_while_heals_by_a_check(hub: Running) -> None:
    image = made(1)
    await push(hub.admin, image)
    (pack,) = packs_of(hub)
    pack.rename(pack.with_suffix(".away"))
    assert await fetched(hub.admin, image.bodies) == {}
    pack.with_suffix(".away").rename(pack)
    assert (await check(hub))[0]["sound"]
    assert await pull(hub.admin, image.hash) == image.data


async def test_a_manifest_that_was_changed_at_rest_is_found_and_healed(hub: Running) -> None:
    from sqlalchemy import text

    image = made(1)
    await push(hub.admin, image)
    await hub.hub.store.writer.run(
        lambda conn: conn.execute(text("UPDATE image_manifests SET body = :body"), {"body": b"\0" * 36})
    )
    assert (await hub.admin.call("GET", f"/images/{image.hash}")).status_code == 404
    report, _ = await check(hub)
    assert (report["sound"], report["damaged_images"]) == (False, [image.hash])
    await push(hub.admin, image)
    assert (await check(hub))[0]["sound"]
    assert await pull(hub.admin, image.hash) == image.data


async def test_a_chunk_damaged_before_the_manifest_comes_keeps_the_image_out(hub: Running) -> None:
    image = made(1)
    await send_chunks(hub.admin, image.bodies)
    (pack,) = packs_of(hub)
    harm(pack, 100)
    answer = await hub.admin.call("PUT", f"/images/{image.hash}", json=image.manifest())
    first = next(iter(image.bodies))
    assert (answer.status_code, answer.json()["faults"][0]["text"]) == (409, f"{first} is missing")
    assert await push(hub.admin, image) == 1


async def test_a_full_disk_is_told_and_nothing_half_is_kept(
    hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = made(1)

    def full(self: Blobs, name: str, body: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Blobs, "keep", full)
        answer = await send_chunks(hub.admin, image.bodies)
        assert (answer.status_code, answer.headers["content-type"]) == (507, "application/problem+json")
        assert "free some space" in answer.json()["detail"]
    assert await missing(hub.admin, image.bodies) == list(image.bodies)
    assert packs_of(hub) == []
    assert not hub.hub.images.writing
    assert not hub.hub.images.arriving
    assert await push(hub.admin, image) == len(image.bodies)


async def test_a_hub_killed_between_pack_and_index_leaves_an_orphan_that_is_collected(
    tmp_path: Path, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = made(1)

    async def killed(*_: object, **__: object) -> None:
        raise Closed("killed here")

    async with running(tmp_path, database=database) as hub:
        with monkeypatch.context() as patched:
            patched.setattr(image_chunks, "add_pack", killed)
            assert (await send_chunks(hub.admin, image.bodies)).status_code == 500
        assert len(packs_of(hub)) == 1
        clock = hub.clock
    async with running(tmp_path, clock, database=database) as hub:
        assert await missing(hub.admin, image.bodies) == list(image.bodies)
        assert (await check(hub))[0]["orphan_packs"] == 1
        assert (await hub.admin.post("/images/gc"))["packs"] == 1
        assert packs_of(hub) == []
        assert await push(hub.admin, image) == len(image.bodies)
        assert (await check(hub))[0]["sound"]


async def test_a_hub_killed_between_index_and_manifest_has_no_image_and_goes_on_where_it_stopped(
    tmp_path: Path, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = made(1)
    reached = asyncio.Event()

    async def never(*_: object, **__: object) -> None:
        reached.set()
        raise Closed("killed here")

    async with running(tmp_path, database=database) as hub:
        await send_chunks(hub.admin, image.bodies)
        with monkeypatch.context() as patched:
            patched.setattr(store, "accept", never)
            patched.setattr(store, "drop", never)
            answer = await hub.admin.call("PUT", f"/images/{image.hash}", json=image.manifest())
        assert (answer.status_code, reached.is_set()) == (500, True)
        async with hub.hub.store.read() as conn:
            assert len(await store.unowned(conn)) == 1
        clock = hub.clock
    async with running(tmp_path, clock, database=database) as hub:
        async with hub.hub.store.read() as conn:
            assert await store.unowned(conn) == []
        assert (await hub.admin.get("/images"))["images"] == []
        assert await push(hub.admin, image, name="debian-12") == 0
        assert await pull(hub.admin, image.hash) == image.data


async def test_a_removal_that_cannot_be_written_leaves_the_image_as_it_was(
    hub: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = made(1)
    await push(hub.admin, image)

    async def failing(*_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(store, "disown", failing)
        assert (await hub.admin.call("DELETE", f"/images/{image.hash}")).status_code == 507
    assert await pull(hub.admin, image.hash) == image.data
    assert image.hash in hub.hub.dispatch.fleet.value.images
    await point(hub.admin, "debian-12", image.hash)


async def test_a_real_full_disk_is_an_error_with_its_number(tmp_path: Path) -> None:
    """On a file system of 1 MiB, where this machine lets a test mount one."""
    import subprocess
    import sys

    program = """
import errno, sys
from pathlib import Path
from hub.blobs import Blobs
blobs = Blobs.open(sys.argv[1], Path(sys.argv[1]))
blobs.keep("packs/ab/small", b"x" * 1000)
try:
    blobs.keep("packs/ab/large", b"x" * 3_000_000)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
    assert [page for page in blobs.names("packs")] == [[("packs/ab/small", 1000)]]
    print("told")
"""
    script = f'mount -t tmpfs -o size=1m tmpfs "{tmp_path}" && exec "$@"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=Path(hub_app.__file__).parents[1]
    )
    if "ermission denied" in done.stderr or "not permitted" in done.stderr:
        pytest.skip("needs user namespaces")
    assert done.stdout == "told\n", done.stderr
