"""Images in the store: chunks held and claimed, images that come and go, on every database."""

from collections.abc import Sequence

import pytest
from sqlalchemy.exc import DBAPIError

from hub.store import image_chunks, image_gc, image_names, images
from hub.store.engine import Store
from hub.store.image_chunks import ChunkRow, Claimant, NewChunk
from hub.store.image_owners import Holder

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
MANIFEST = images.Manifest(body=b"m", digest="d")
ALL, ANDY, DEMO, BEA = Holder(), Holder("andy"), Holder("andy", "andy/demo"), Holder("bea")


def name(number: int) -> str:
    """A chunk's or an image's name."""
    return f"{number:064x}"


def claimant(holder: Holder = ALL, now_ms: int = NOW_MS) -> Claimant:
    return Claimant(holder=holder, now_ms=now_ms, until_ms=now_ms + HOUR_MS)


async def keep(
    store: Store, pack: str, numbers: Sequence[int], holder: Holder = ALL, now_ms: int = NOW_MS
) -> None:
    """A pack of chunks of 10 bytes each, sent by `holder`."""
    chunks = [
        NewChunk(hash=name(one), start=10 * place, length=10, bytes=20) for place, one in enumerate(numbers)
    ]
    await image_chunks.add_pack(store.writer, pack, chunks, claimant(holder, now_ms))


async def push(
    store: Store, number: int, chunks: Sequence[int], holder: Holder = ALL, now_ms: int = NOW_MS
) -> int:
    """An image that lists `chunks`, accepted for `holder`; its id."""
    new = images.NewImage(
        hash=name(number), bytes=20, arch=None, cutter="c", chunks=len(chunks), created_ms=now_ms
    )
    image = await images.begin(store.writer, new)
    assert (
        await images.link(store.writer, image, claimant(holder, now_ms), [name(one) for one in chunks]) == []
    )
    assert await images.accept(store.writer, image, holder, manifest=MANIFEST, arch=None, now_ms=now_ms) == []
    return image


async def usable(store: Store, holder: Holder, numbers: Sequence[int], now_ms: int = NOW_MS) -> list[int]:
    async with store.read() as conn:
        found = await image_chunks.usable(conn, holder, [name(one) for one in numbers], now_ms)
    return sorted(int(one, 16) for one in found)


async def located(store: Store, reader: Holder | None, numbers: Sequence[int]) -> dict[str, ChunkRow]:
    async with store.read() as conn:
        return await image_chunks.locate(conn, [name(one) for one in numbers], reader)


async def test_a_chunk_is_found_where_its_pack_was_indexed(store: Store) -> None:
    await keep(store, "p1", [1, 2])
    assert await located(store, None, [1, 2, 3]) == {
        name(1): ChunkRow(hash=name(1), pack="p1", start=0, length=10, bytes=20),
        name(2): ChunkRow(hash=name(2), pack="p1", start=10, length=10, bytes=20),
    }


async def test_a_chunk_that_is_held_stays_where_it_is(store: Store) -> None:
    await keep(store, "p1", [1])
    await keep(store, "p2", [1, 2], BEA)
    found = await located(store, None, [1, 2])
    assert (found[name(1)].pack, found[name(2)].pack) == ("p1", "p2")


async def test_what_one_owner_sent_another_may_not_count_on_until_it_sends_it(store: Store) -> None:
    await keep(store, "p1", [1, 2], ANDY)
    assert await usable(store, ANDY, [1, 2]) == [1, 2]
    assert await usable(store, BEA, [1, 2]) == []
    assert await image_chunks.claim(store.writer, claimant(BEA), [name(1)]) == frozenset()
    assert await image_chunks.claim_sent(store.writer, claimant(BEA), [name(1)]) == {name(1)}
    assert await usable(store, BEA, [1, 2]) == [1]
    assert await usable(store, ALL, [1, 2, 3]) == [1, 2]


async def test_a_claim_ends_and_the_chunks_of_readable_images_stay_usable(store: Store) -> None:
    await keep(store, "p1", [1, 2], ANDY)
    await push(store, 100, [1], ANDY)
    later_ms = NOW_MS + HOUR_MS
    assert await usable(store, ANDY, [1, 2], later_ms) == [1]
    assert await usable(store, DEMO, [1, 2]) == [1]
    assert await usable(store, BEA, [1, 2]) == []


@pytest.mark.parametrize(
    ("holder", "readers"),
    [(ALL, "all andy demo other bea"), (ANDY, "all andy demo other"), (DEMO, "all andy demo")],
)
async def test_a_chunk_is_served_to_who_may_read_an_image_that_lists_it(
    store: Store, holder: Holder, readers: str
) -> None:
    await keep(store, "p1", [1, 2], holder)
    await push(store, 100, [1], holder)
    everybody = {"all": ALL, "andy": ANDY, "demo": DEMO, "other": Holder("andy", "andy/other"), "bea": BEA}
    for word, reader in everybody.items():
        assert list(await located(store, reader, [1])) == ([name(1)] if word in readers.split() else []), word
        assert reader.reads(holder) == (word in readers.split())
        assert await located(store, reader, [2]) == {}, "no image lists it"


async def test_a_manifest_may_not_list_what_its_sender_has_not_shown_to_have(store: Store) -> None:
    await keep(store, "p1", [1], ANDY)
    await keep(store, "p2", [2], BEA)
    new = images.NewImage(hash=name(9), bytes=40, arch=None, cutter="c", chunks=2, created_ms=NOW_MS)
    image = await images.begin(store.writer, new)
    assert await images.link(store.writer, image, claimant(BEA), [name(1), name(2), name(3)]) == [
        name(1),
        name(3),
    ]


async def test_a_bad_chunk_is_missing_until_it_is_sent_again(store: Store) -> None:
    await keep(store, "p1", [1, 2])
    image = await push(store, 100, [1, 2])
    found = await located(store, None, [1])
    assert await image_chunks.mark_bad(store.writer, found.values(), NOW_MS) == {name(1)}
    assert await usable(store, ALL, [1, 2]) == [2]
    assert await located(store, None, [1]) == {}
    assert await image_chunks.mark_good(store.writer, found.values(), NOW_MS) == {name(1)}
    assert await image_chunks.mark_good(store.writer, found.values(), NOW_MS) == frozenset()
    assert await image_chunks.mark_bad(store.writer, found.values(), NOW_MS) == {name(1)}
    async with store.read() as conn:
        assert await images.damaged(conn) == {name(100): 1}
        assert await images.damage(conn) == {name(1): [name(100)]}
    assert await images.accept(store.writer, image, BEA, manifest=MANIFEST, arch=None, now_ms=NOW_MS) == [
        name(1)
    ]
    await keep(store, "p2", [1])
    assert (await located(store, None, [1]))[name(1)].pack == "p2"
    assert await image_chunks.mark_bad(store.writer, found.values(), NOW_MS) == frozenset(), "it has moved"
    assert await image_chunks.mark_good(store.writer, found.values(), NOW_MS) == frozenset()
    async with store.read() as conn:
        assert await images.damaged(conn) == {}


async def test_chunks_that_nobody_lists_or_claims_go_and_no_others(store: Store) -> None:
    await keep(store, "p1", [1, 2, 3])
    await push(store, 100, [1])
    later_ms = NOW_MS + HOUR_MS
    assert await image_chunks.claim(store.writer, claimant(now_ms=later_ms - 1), [name(2)]) == {name(2)}
    async with store.read() as conn:
        (pack,) = await image_gc.packs(conn, now_ms=later_ms)
    assert (pack.live, pack.live_bytes, pack.doomed, pack.doomed_bytes, pack.claimed) == (3, 30, 1, 10, 1)
    assert await image_gc.drop_chunks(store.writer, now_ms=later_ms) == (1, 10)
    assert sorted(await located(store, None, [1, 2, 3])) == [name(1), name(2)]
    assert not await image_gc.drop_pack(store.writer, pack.id)


async def test_a_plan_counts_what_goes_with_images_that_leave(store: Store) -> None:
    await keep(store, "p1", [1, 2, 3])
    first = await push(store, 100, [1, 2])
    await push(store, 101, [2, 3])
    later_ms = NOW_MS + HOUR_MS
    async with store.read() as conn:
        (pack,) = await image_gc.packs(conn, now_ms=later_ms, leaving=[first])
    assert (pack.live, pack.doomed) == (3, 1)


async def test_an_image_that_nobody_owns_any_more_is_dropped_with_its_links(store: Store) -> None:
    await keep(store, "p1", [1, 2], ANDY)
    image = await push(store, 100, [1, 2], ANDY)
    assert await images.accept(store.writer, image, BEA, manifest=MANIFEST, arch="x", now_ms=NOW_MS) == []
    assert not await images.disown(store.writer, image, [ANDY])
    await images.drop(store.writer, image)
    async with store.read() as conn:
        assert [row.arch for row in await images.listing(conn)] == ["x"]
    assert await images.disown(store.writer, image, [BEA, DEMO])
    async with store.read() as conn:
        assert await images.unowned(conn) == [(image, name(100))]
    await images.drop(store.writer, image)
    async with store.read() as conn:
        assert (await images.listing(conn), await images.unowned(conn)) == ([], [])
    assert await image_gc.drop_chunks(store.writer, now_ms=NOW_MS + HOUR_MS) == (2, 20)
    async with store.read() as conn:
        (pack,) = await image_gc.packs(conn, now_ms=NOW_MS)
    assert await image_gc.drop_pack(store.writer, pack.id)


async def test_chunks_move_to_a_new_pack_unless_they_were_healed_elsewhere(store: Store) -> None:
    await keep(store, "p1", [1, 2])
    async with store.read() as conn:
        (pack,) = await image_gc.packs(conn, now_ms=NOW_MS)
        old = await image_gc.in_pack(conn, pack.id)
    await image_chunks.mark_bad(store.writer, [old[1]], NOW_MS)
    await keep(store, "p2", [2])
    new = [NewChunk(hash=one.hash, start=100 + one.start, length=10, bytes=20) for one in old]
    await image_gc.move(store.writer, "p3", list(zip(old, new, strict=True)), now_ms=NOW_MS)
    found = await located(store, None, [1, 2])
    assert [(one.pack, one.start) for one in found.values()] == [("p3", 100), ("p2", 0)]
    assert await image_gc.drop_pack(store.writer, pack.id)


async def test_claims_that_ended_are_forgotten(store: Store) -> None:
    await keep(store, "p1", list(range(1, 1200)))
    assert await image_gc.purge_claims(store.writer, now_ms=NOW_MS) == 0
    assert await image_gc.purge_claims(store.writer, now_ms=NOW_MS + HOUR_MS) == 1199


async def test_a_name_keeps_what_it_meant_before_up_to_a_bound(store: Store) -> None:
    for number in range(image_names.MAX_HISTORY + 5):
        await image_names.point(store.writer, ANDY, "debian-12", name(number), by="t", now_ms=NOW_MS + number)
    await image_names.point(store.writer, ALL, "debian-12", None, by="t", now_ms=NOW_MS)
    async with store.read() as conn:
        rows = await image_names.listing(conn)
    assert rows[0].hash is None
    mine = [row for row in rows if row.holder == ANDY]
    assert [mine[0].hash, mine[-1].hash, len(mine)] == [
        name(image_names.MAX_HISTORY + 4),
        name(5),
        image_names.MAX_HISTORY,
    ]


async def test_shared_bytes_count_only_what_the_reader_may_read(store: Store) -> None:
    await keep(store, "p1", [1, 2, 3])
    first = await _shared_images(store)
    async with store.read() as conn:
        assert await images.sizes(conn, ALL) == {first[0]: (20, 40), first[1]: (20, 20), first[2]: (10, 20)}
        assert await images.sizes(conn, ANDY) == {first[0]: (20, 20), first[1]: (20, 20)}


async def _shared_images(store: Store) -> list[int]:
    for holder in (ANDY, BEA):
        await image_chunks.claim_sent(store.writer, claimant(holder), [name(1), name(2), name(3)])
    made = [await push(store, 100, [1, 2], ANDY), await push(store, 101, [2, 3], ANDY)]
    return [*made, await push(store, 102, [1], BEA)]


async def test_the_last_use_is_written_for_those_whose_project_it_was_and_not_too_often(store: Store) -> None:
    await keep(store, "p1", [1], ANDY)
    image = await push(store, 100, [1], ANDY)
    assert await images.accept(store.writer, image, BEA, manifest=MANIFEST, arch=None, now_ms=NOW_MS) == []
    for now_ms, before_ms in ((NOW_MS, NOW_MS), (NOW_MS + 5, NOW_MS)):
        await images.touch(store.writer, [name(100)], "andy/demo", now_ms=now_ms, before_ms=before_ms)
    async with store.read() as conn:
        found = {row.owner: row.used_ms for row in await images.owners(conn)}
    assert found == {"andy": NOW_MS, "bea": None}


async def test_a_pack_whose_index_fails_leaves_no_row(store: Store) -> None:
    await keep(store, "p1", [1])
    with pytest.raises(DBAPIError):
        await keep(store, "p1", [2])
    assert await located(store, None, [2]) == {}
