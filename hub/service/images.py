"""Images: accepted when whole, shown, listed, and taken away. The hub never unpacks one.

Invariant: an image that was accepted has every chunk, and they hash together to its name. It is
whoever's token pushed it; knowing its hash gives nobody a right to it.
"""

import asyncio
import json
import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hub.chunks.chunk import BadChunk, name_of
from hub.chunks.cutter import DEFAULT_CUTTER
from hub.chunks.manifest import BadManifest, Manifest
from hub.chunks.whole import BadImage as NotWhole
from hub.chunks.whole import verify_encoded
from hub.errors import BadImage, Conflict, NotFound
from hub.service import images_packs as packs
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.images_chunks import claimant_of, reader_of
from hub.service.images_live import LiveImage, holder_of, target_of
from hub.store import image_chunks as chunk_store
from hub.store import images as store
from hub.store.image_owners import Holder
from hub.wire.images import ImagePlace, ManifestBody, ManifestView
from hub.wire.problem import Fault

_ENTRY = struct.Struct(">32sI")  # a chunk of a manifest at rest: its name and its raw bytes
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # as wire.base.Owner
WINDOW = 256  # chunks of an image read at a time while it is checked: 16 MiB as a rule, 64 at most
MAX_TOLD = 20  # missing chunks that a refusal names; POST /images/missing tells them all


async def put(hub: Hub, principal: Principal, image_hash: str, body: bytes) -> ImagePlace:
    """Accept an image whose chunks are all held and hash together to its name. `body`: a ManifestBody.

    Raises BadImage for a manifest that cannot be, or is another image's; Conflict where chunks are
    missing, which the faults name. Nothing is accepted then, and the chunks stay for an hour.
    """
    authorise(principal, "images")
    try:
        manifest, owner = await asyncio.to_thread(_read, body)
    except BadManifest as error:
        raise BadImage(f"{error}: cut the file again and send what that gives") from None
    target = target_of(principal, owner)
    if manifest.cutter != DEFAULT_CUTTER:
        raise BadImage(
            f"this hub's images are cut by {DEFAULT_CUTTER}: cut the file by that and send it again"
        )
    return await hub.dispatch.tasks.whole(_put(hub, principal, image_hash, manifest, target))


def _read(body: bytes) -> tuple[Manifest, str | None]:
    """The manifest in a body, and for whom it is. By hand: a million chunks are too many for pydantic."""
    try:
        form = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"not JSON: {error}") from None
    if not isinstance(form, dict):
        raise BadManifest("a manifest is a JSON object")
    if unknown := sorted(form.keys() - ManifestBody.model_fields.keys()):
        raise BadImage(
            "mend the fields named in `faults`", faults=[_unknown(key) for key in unknown[:MAX_TOLD]]
        )
    owner = form.get("owner")
    if owner is not None and not (isinstance(owner, str) and _OWNER.fullmatch(owner)):
        raise BadManifest("owner is the part of a project before the slash")
    return Manifest.from_form(form), owner


def _unknown(key: str) -> Fault:
    return Fault(path=key[:200], text="is not a field of this message")


async def _put(
    hub: Hub, principal: Principal, image_hash: str, manifest: Manifest, target: Holder
) -> ImagePlace:
    async with hub.images.alone_with(image_hash):
        return await _put_alone(hub, principal, image_hash, manifest, target)


async def _put_alone(
    hub: Hub, principal: Principal, image_hash: str, manifest: Manifest, target: Holder
) -> ImagePlace:
    known = hub.images.images.get(image_hash)
    before = target if known is not None and target in known.owners else None
    packed = pack(manifest)
    new = store.NewImage(
        hash=image_hash,
        bytes=manifest.bytes,
        arch=manifest.arch,
        cutter=manifest.cutter,
        chunks=len(manifest.chunks),
        created_ms=hub.now_ms(),
    )
    image = await store.begin(hub.store.writer, new)
    try:
        kept = None if known is None else await _manifest_of(hub, image)
        await _link(hub, principal, image, manifest, listed=kept in (None, packed))
        if known is None or known.missing or kept != packed:
            await _verify(hub, image_hash, manifest)
        bad = await store.accept(
            hub.store.writer,
            image,
            target,
            manifest=store.Manifest(body=packed, digest=name_of(packed)) if kept is None else None,
            arch=manifest.arch,
            now_ms=hub.now_ms(),
        )
        if bad:
            raise _missing(bad)
    except BaseException:
        with suppress(Exception):  # what went wrong first is what is told; a collection drops it too
            await store.drop(hub.store.writer, image)  # unless somebody owns it
        raise
    await reload(hub, image_hash)
    return ImagePlace(hash=image_hash, bytes=manifest.bytes, new=before is None)


async def _manifest_of(hub: Hub, image: int) -> bytes | None:
    """The packed manifest of an image; None: it is not what it was when the whole was checked."""
    async with hub.store.read() as conn:
        found = await store.manifest(conn, image)
    return found.body if found is not None and name_of(found.body) == found.digest else None


async def _link(hub: Hub, principal: Principal, image: int, manifest: Manifest, *, listed: bool) -> None:
    """Let the image list its chunks. Raises Conflict where the pusher may not count on one of them.

    Not `listed`: the image is held already, by other chunks; these only show that the pusher has it.
    """
    claimant, names = claimant_of(hub, principal), list(manifest.names)
    if listed:
        missing = await store.link(hub.store.writer, image, claimant, names)
    else:
        async with hub.store.read() as conn:
            usable = await chunk_store.usable(conn, claimant.holder, names, claimant.now_ms)
        missing = [name for name in names if name not in usable]
    if missing:
        raise _missing(missing)


def _missing(names: Sequence[str]) -> Conflict:
    faults = [Fault(path="chunks", text=f"{name} is missing") for name in names[:MAX_TOLD]]
    many = f"{len(names)} chunks are" if len(names) != 1 else "1 chunk is"
    return Conflict(
        f"{many} missing: POST /images/missing tells which, send them and try again", faults=faults
    )


async def _verify(hub: Hub, image_hash: str, manifest: Manifest) -> None:
    """Hold the whole to its name, in threads. Raises BadImage, or Conflict where a chunk is damaged."""
    loop = asyncio.get_running_loop()

    def locate(names: Sequence[str]) -> dict[str, chunk_store.ChunkRow]:
        async def ask() -> dict[str, chunk_store.ChunkRow]:
            async with hub.store.read() as conn:
                return await chunk_store.locate(conn, names)

        return asyncio.run_coroutine_threadsafe(ask(), loop).result()

    def bodies() -> Iterator[tuple[str, bytes]]:
        for window in chunk_store.slices(manifest.chunks, WINDOW):
            rows = locate(list(dict(window)))
            found: dict[str, bytes] = {}
            for group in packs.groups(rows.values()):
                spans = [(row.start, row.length) for row in group]
                read = hub.blobs.spans(group[0].pack, spans)
                found.update(zip((row.hash for row in group), read, strict=True))
            for name, _ in window:
                if name not in found:
                    raise BadChunk(f"{name} is missing")
                yield name, found[name]

    async with hub.images.checks:
        try:
            await asyncio.to_thread(verify_encoded, bodies(), manifest, image_hash)
        except (BadChunk, EOFError, FileNotFoundError):
            await _look_for_damage(hub, manifest)
        except NotWhole as error:
            raise BadImage(
                f"{error}: the file changed while it was cut, or this is another's manifest"
            ) from None


async def _look_for_damage(hub: Hub, manifest: Manifest) -> None:
    """Read every chunk by itself, so that the damaged ones are marked. Raises Conflict, or BadImage where
    all are sound and the manifest gives one another size."""
    names = list(manifest.names)
    async with hub.store.read() as conn:
        rows = await chunk_store.locate(conn, names)
    sound: dict[str, int] = {}
    async for some in packs.read(hub, rows.values()):
        sound.update((row.hash, row.bytes) for row, _ in some)
    if lost := [name for name in names if name not in sound]:
        raise _missing(lost)
    faults = [
        Fault(path="chunks", text=f"{name} has {sound[name]} bytes, not {size}")
        for name, size in manifest.names.items()
        if sound[name] != size
    ]
    raise BadImage("the manifest does not describe its chunks: cut the file again", faults=faults[:MAX_TOLD])


def pack(manifest: Manifest) -> bytes:
    """The chunks of a manifest as they rest: 36 bytes each."""
    return b"".join(_ENTRY.pack(bytes.fromhex(name), size) for name, size in manifest.chunks)


def unpack(body: bytes) -> list[tuple[str, int]]:
    """The chunks, in order, of a manifest at rest."""
    return [(name.hex(), size) for name, size in _ENTRY.iter_unpack(body)]


async def manifest_of(hub: Hub, principal: Principal, image_hash: str) -> ManifestView:
    """The manifest of an image. Raises NotFound, also where it is beyond the reader's reach."""
    image = find(hub, principal, image_hash)
    body = await _manifest_of(hub, image.row.id)
    if body is None:
        raise NotFound("the image's manifest is damaged: push the image again, and it is healed")
    row = image.row
    chunks = await asyncio.to_thread(unpack, body)
    return ManifestView(hash=row.hash, bytes=row.bytes, arch=row.arch, cutter=row.cutter, chunks=chunks)


def find(hub: Hub, principal: Principal, image_hash: str) -> LiveImage:
    """An image that the caller may read. Raises NotFound."""
    image = hub.images.find(image_hash, reader_of(hub, principal))
    if image is None:
        raise gone()
    return image


def gone() -> NotFound:
    """What is not there, or not for this reader: the two look the same."""
    return NotFound(
        "the hub holds no such image for you: GET /images lists them, `shunter image push` sends one"
    )


async def remove(hub: Hub, principal: Principal, image_hash: str) -> None:
    """Take an image from those within the caller's reach; its bytes go with the next collection.

    Raises Conflict while a name of theirs means it, or a job that is not final needs it.
    """
    authorise(principal, "images")
    await hub.dispatch.tasks.whole(_remove(hub, principal, image_hash))


async def _remove(hub: Hub, principal: Principal, image_hash: str) -> None:
    image = find(hub, principal, image_hash)
    mine = holder_of(principal)
    owners = [one for one in image.owners if mine.rules(one)]
    if not owners:
        raise Conflict("this image is everybody's: it takes a token for all projects to remove it")
    if names := sorted(name for whose, name in hub.images.names_of(image_hash) if mine.rules(whose)):
        raise Conflict(f"it is named {', '.join(names)}: point the name elsewhere or take it away first")
    if image_hash in in_use(hub, mine):
        raise Conflict("a job that is not over needs it: cancel the job, or wait")
    if hub.images.is_busy(image_hash):
        raise Conflict("it is being pushed just now: try again")
    await take_away(hub, image, owners)


def in_use(hub: Hub, holder: Holder) -> frozenset[str]:
    """Images that unfinished jobs, and runs that are being submitted, need; of projects of `holder`."""
    used = {
        one
        for job in hub.dispatch.jobs.values()
        if holder.serves(job.demand.project)
        for one in job.demand.images
    }
    return frozenset(used | hub.images.pins.keys())


async def take_away(hub: Hub, image: LiveImage, owners: Sequence[Holder]) -> None:
    """Let `owners` have the image no more. Nobody is busy with it, and it is out of the live images before
    the first await: what the caller has checked still holds."""
    async with hub.images.alone_with(image.row.hash):  # nobody else is: this goes on at once
        await _take_away(hub, image, owners)


async def _take_away(hub: Hub, image: LiveImage, owners: Sequence[Holder]) -> None:
    left = {one: row for one, row in image.owners.items() if one not in owners}
    hub.images.sizes.clear()
    if left:
        image.owners = left
    else:
        del hub.images.images[image.row.hash]
    hub.dispatch.images_changed({image.row.hash: image.in_placement if left else None})
    try:
        if await store.disown(hub.store.writer, image.row.id, owners):
            await store.drop(hub.store.writer, image.row.id)
    except BaseException:
        await reload(hub, image.row.hash)
        raise


async def reload(hub: Hub, image_hash: str | None = None) -> None:
    """Take the images, or one of them, into memory as the store has them, and tell the fleet."""
    async with hub.store.read() as conn:
        rows = await store.listing(conn)
        owners = await store.owners(conn)
        damaged = await store.damaged(conn)
    whose: dict[int, dict[Holder, store.OwnerRow]] = {}
    for owner in owners:
        whose.setdefault(owner.image_id, {})[owner.holder] = owner
    found = {
        row.hash: LiveImage(row=row, owners=whose[row.id], missing=damaged.get(row.hash, 0))
        for row in rows
        if row.id in whose and image_hash in (None, row.hash)
    }
    hub.images.images.update(found)
    hub.images.sizes.clear()
    packs.tell_fleet(hub, found.values())


async def load(hub: Hub) -> None:
    """At the start: know every image and name, and drop what a killed hub was about to take in or away."""
    async with hub.store.read() as conn:
        left = await store.unowned(conn)
    for image, _ in left:
        await store.drop(hub.store.writer, image)
    await reload(hub)
