"""Names of images: pointed, listed, and resolved when a run is submitted, so that it means the same for ever.

A name is whose token pointed it: a job's own project comes before its owner, and that before everybody.
Not to be done here: resolving again later; a job keeps the hash.
"""

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from pydantic import TypeAdapter, ValidationError

from hub.chunks.chunk import is_name
from hub.errors import BadRequest, NotFound
from hub.service import images
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.images_live import Catalogue, holder_of, target_of
from hub.store import image_names as store
from hub.store import images as image_store
from hub.store.image_names import NameRow
from hub.store.image_owners import Holder
from hub.wire.base import Name
from hub.wire.claim import ImageRef
from hub.wire.images import NameChange, NameList, NamePut, NameView
from hub.wire.problem import Fault
from hub.wire.spec import JobSpec, Pipeline

MAX_NAMES = 10_000  # names of one holder: more than a person can tell apart, and what the memory bears
_NAME: TypeAdapter[str] = TypeAdapter(Name)
USED_EVERY_MS = 600_000  # the last use of an image is written this often at most


async def point(hub: Hub, principal: Principal, name: str, message: NamePut) -> NameView:
    """Let a name mean an image from now on. Raises NotFound, BadRequest for a name that cannot be one."""
    target = target_of(principal, message.owner)
    check_name(name)
    await hub.dispatch.tasks.whole(_point(hub, principal, target, name, message.hash))
    async with hub.store.read() as conn:
        rows = [row for row in await store.listing(conn) if (row.holder, row.name) == (target, name)]
    return _view(rows)


async def _point(hub: Hub, principal: Principal, target: Holder, name: str, image_hash: str) -> None:
    async with hub.images.alone_with(image_hash):  # it is not taken away while this is written
        image = images.find(hub, principal, image_hash)
        if not any(owner.rules(target) for owner in image.owners):
            raise BadRequest("not all whom this name is for may use the image: push it for them, too")
        if (target, name) not in hub.images.names and _count(hub.images, target) >= MAX_NAMES:
            raise BadRequest(f"there are {MAX_NAMES} names already: take some away")
        await store.point(hub.store.writer, target, name, image_hash, by=principal.name, now_ms=hub.now_ms())
        hub.images.names[target, name] = image_hash


def _count(live: Catalogue, holder: Holder) -> int:
    return sum(1 for whose, _ in live.names if whose == holder)


def check_name(name: str) -> str:
    """A name as a pipeline may write it. Raises BadRequest."""
    try:
        _NAME.validate_python(name)
    except ValidationError:
        name = ".."
    if ".." in name or is_name(name):
        raise BadRequest(
            "an image's name is 1 to 100 letters, digits, `-`, `_` and single dots, as debian-12, and no hash"
        )
    return name


async def take_away(hub: Hub, principal: Principal, name: str, owner: str | None = None) -> None:
    """Let a name mean nothing any more; its history stays. Raises NotFound."""
    target = target_of(principal, owner)
    check_name(name)

    async def whole() -> None:
        if (target, name) not in hub.images.names:
            raise NotFound(f"no image is named {name} here, or not with this token's reach")
        await store.point(hub.store.writer, target, name, None, by=principal.name, now_ms=hub.now_ms())
        hub.images.names.pop((target, name), None)

    await hub.dispatch.tasks.whole(whole())


async def listing(hub: Hub, principal: Principal) -> NameList:
    """The names within the reader's reach that mean an image, each with its history, newest first."""
    authorise(principal, "read")
    reader = holder_of(principal)
    async with hub.store.read() as conn:
        rows = await store.listing(conn)
    by_name: dict[tuple[Holder, str], list[NameRow]] = {}
    for row in rows:
        if reader.reads(row.holder):
            by_name.setdefault((row.holder, row.name), []).append(row)
    return NameList(names=[_view(some) for some in by_name.values() if some[0].hash is not None])


def _view(rows: list[NameRow]) -> NameView:
    newest = rows[0]
    assert newest.hash is not None, "a name that was taken away is not shown"
    history = [
        NameChange(hash=row.hash, at=row.set_ms, by=row.set_by) for row in rows if row.hash is not None
    ]
    return NameView(
        name=newest.name,
        hash=newest.hash,
        owner=newest.project or newest.owner or None,
        updated_at=newest.set_ms,
        history=history,
    )


async def load(hub: Hub) -> None:
    """At the start: know what each name means."""
    async with hub.store.read() as conn:
        rows = await store.listing(conn)
    seen: set[tuple[Holder, str]] = set()
    for row in rows:
        if (row.holder, row.name) not in seen:
            seen.add((row.holder, row.name))
            if row.hash is not None:
                hub.images.names[row.holder, row.name] = row.hash


# -- pipelines ----------------------------------------------------------------------------------


def resolve(hub: Hub, project: str, pipeline: Pipeline, text: str) -> tuple[Pipeline, list[Fault]]:
    """The pipeline with a hash for each image's name, and a fault for each name that means nothing.

    Without an await: whoever pins the hashes at once knows that they are still there.
    """
    known = hub.images.names_for(project)
    faults: list[Fault] = []
    jobs = []
    for spec in pipeline.jobs:
        hashes = {one.name: known[one.name] for one in spec.images if one.name and one.name in known}
        unknown = [one.name for one in spec.images if one.name and one.name not in hashes]
        faults += [_unknown(name, spec.name, known, text) for name in unknown]
        jobs.append(_resolved(hub, project, spec, hashes))
    return pipeline.model_copy(update={"jobs": jobs}), faults


def _unknown(name: str, job: str, known: Iterable[str], text: str) -> Fault:
    nearest = get_close_matches(name, list(known), 1)
    said = f"no image is named {name}: send one with `shunter image push`, or write cas://blake3/HASH"
    line = next((number for number, one in enumerate(text.splitlines(), start=1) if name in one), None)
    return Fault(path=f"jobs.{job}", text=said, line=line, nearest=nearest[0] if nearest else None)


def _resolved(hub: Hub, project: str, spec: JobSpec, hashes: dict[str, str]) -> JobSpec:
    if not spec.images:
        return spec
    refs: dict[str, ImageRef] = {}  # two names of one image are one image
    for one in spec.images:
        image_hash = hashes.get(one.name, "") if one.name else one.hash
        image = hub.images.images.get(image_hash)
        size = image.row.bytes if image is not None and image.serves(project) else None
        refs.setdefault(image_hash, ImageRef(name=one.name, hash=image_hash, bytes=size))
    steps = [
        step.model_copy(update={"image": hashes[step.image]}) if step.image in hashes else step
        for step in spec.steps
    ]
    return spec.model_copy(update={"images": list(refs.values()), "steps": steps})


def hashes_of(pipeline: Pipeline) -> frozenset[str]:
    """Every image that a resolved pipeline needs."""
    return frozenset(image.hash for spec in pipeline.jobs for image in spec.images)


async def used(hub: Hub, project: str, hashes: Iterable[str]) -> None:
    """Jobs of `project` were submitted that need these images."""
    now_ms = hub.now_ms()
    old = [
        one
        for one in sorted(hashes)
        if (image := hub.images.images.get(one)) is not None
        and any((row.used_ms or 0) < now_ms - USED_EVERY_MS for row in image.owners.values())
    ]
    if old:
        before_ms = now_ms - USED_EVERY_MS
        await image_store.touch(hub.store.writer, old, project, now_ms=now_ms, before_ms=before_ms)
        for image in [hub.images.images[one] for one in old if one in hub.images.images]:
            for owner, row in image.owners.items():
                if owner.serves(project):
                    image.owners[owner] = replace(row, used_ms=now_ms)
