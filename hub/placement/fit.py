"""Why a job does not fit on a runner: the one definition, asked by everybody.

The checks fall in two kinds: those that depend only on the demand, on slow facts of the runner (its
`Shape`) and on what the hub holds; and those that change from minute to minute. A caller may remember
the answers of the first kind per (demand, shape) and pass them in. No predicate answers yes or no:
`first_lack` runs the same checks as `lacks` and stops early, `codes` runs them all and words nothing.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from hub.placement import lack
from hub.placement.headroom import Headroom, headroom
from hub.placement.model import Demand, Fleet, HubImage, Kept, Lack, Offer, Placed, QueuedJob, Runner
from hub.placement.rank import is_silent
from hub.placement.shortage import ran_out

# A lack's code, and how to make it: a lack's words cost several times what finding it does.
Found = tuple[str, Callable[[], Lack]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The slow facts of a runner that fit depends on. Runners of one shape share one slow verdict."""

    polled: bool  # False: it never polled, and nothing but its scope is known
    owner: str | None
    project: str | None
    tiers: tuple[str, ...]
    arch: str | None
    labels: frozenset[str]
    exclusive: bool
    images: frozenset[str]
    image_archs: tuple[tuple[str, str], ...]
    fetches_images: bool
    memory_mib: int | None
    reserve_mib: int | None
    cpus: int | None


def shape(runner: Runner) -> Shape:
    """The shape of `runner`, as of its last offer."""
    offer = runner.offer or _NO_OFFER
    return Shape(
        polled=runner.offer is not None,
        owner=runner.standing.owner,
        project=runner.standing.project,
        tiers=offer.tiers,
        arch=offer.arch,
        labels=offer.labels,
        exclusive=offer.exclusive,
        images=offer.images,
        image_archs=offer.image_archs,
        fetches_images=offer.fetches_images,
        memory_mib=offer.memory_mib,
        reserve_mib=offer.reserve_mib,
        cpus=offer.cpus,
    )


def lacks(
    job: QueuedJob,
    runner: Runner,
    fleet: Fleet,
    now_ms: int,
    *,
    room: Headroom | None = None,
    lasting: tuple[Lack, ...] | None = None,
) -> tuple[Lack, ...]:
    """All that `runner` lacks for `job` at `now_ms`, in the order of `lack.ORDER`; empty: it fits.

    `room`: its headroom, and `lasting`: its `shape_lacks`, where the caller has them; None: worked out.
    """
    return tuple(make() for _, make in _each(job, runner, fleet, now_ms, room, lasting))


def first_lack(
    job: QueuedJob,
    runner: Runner,
    fleet: Fleet,
    now_ms: int,
    *,
    room: Headroom | None = None,
    lasting: tuple[Lack, ...] | None = None,
) -> Lack | None:
    """The first of `lacks`, at the cost of one; None: it fits."""
    return next((make() for _, make in _each(job, runner, fleet, now_ms, room, lasting)), None)


def codes(
    job: QueuedJob,
    runner: Runner,
    fleet: Fleet,
    now_ms: int,
    *,
    room: Headroom | None = None,
    lasting: tuple[Lack, ...] | None = None,
) -> tuple[str, ...]:
    """The codes of `lacks`, at a fraction of the cost: for who compares many runners. Empty: it fits."""
    return tuple([code for code, _ in _each(job, runner, fleet, now_ms, room, lasting)])


def shape_lacks(demand: Demand, of: Shape, fleet: Fleet) -> tuple[Lack, ...]:
    """The lacks that follow from the runner's shape and the hub's images and settings alone.

    All are lasting. They hold until the runner's shape, the hub's images or the settings change.
    """
    return tuple(_each_of_shape(demand, of, fleet))


def images_to_fetch(demand: Demand, offer: Offer, fleet: Fleet) -> tuple[tuple[str, int], ...]:
    """Images of `demand` that the runner does not hold, each with its MiB (0: the size is unknown)."""
    missing = demand.images - offer.images
    return tuple((image, _image_mib(image, demand, fleet)) for image in sorted(missing)) if missing else ()


def image_fetch_mib(demand: Demand, runner: Runner, fleet: Fleet) -> int:
    """MiB that fetching will add to the runner's disk, without what placed jobs already fetch."""
    if runner.offer is None:
        return 0
    coming = {image for placed in runner.standing.placed for image, _ in placed.fetching}
    return sum(mib for image, mib in images_to_fetch(demand, runner.offer, fleet) if image not in coming)


def as_placed(job: QueuedJob, runner: Runner, fleet: Fleet) -> Placed:
    """What `job` takes on `runner` once it is placed there. The runner must have polled."""
    demand = job.demand
    return Placed(
        job=job.id,
        owner=demand.owner,
        order=job.order,
        memory_mib=demand.memory_mib,
        cpus=demand.cpus,
        disk_mib=demand.disk_mib,
        fetching=() if runner.offer is None else images_to_fetch(demand, runner.offer, fleet),
    )


def with_jobs(runner: Runner, jobs: Iterable[QueuedJob], fleet: Fleet) -> Runner:
    """`runner` as it will be once `jobs` are placed there too.

    If nothing is committed on it now, what it uses now is its idle reading from then on: else the
    first job placed would seem to be what uses it, and the same memory be handed out twice.
    """
    more = tuple(as_placed(job, runner, fleet) for job in jobs)
    if not more:
        return runner
    standing, offer = runner.standing, runner.offer
    idle_mib = standing.idle_memory_mib
    if offer is not None and offer.memory_used_mib is not None and not (standing.placed or offer.live):
        idle_mib = offer.memory_used_mib
    standing = replace(standing, placed=standing.placed + more, idle_memory_mib=idle_mib)
    return replace(runner, standing=standing)


_NO_OFFER = Offer(tiers=())


def _each(
    job: QueuedJob,
    runner: Runner,
    fleet: Fleet,
    now_ms: int,
    room: Headroom | None,
    lasting: tuple[Lack, ...] | None,
) -> Iterator[Found]:
    demand, standing, settings, offer = job.demand, runner.standing, fleet.settings, runner.offer
    if standing.state != "active":
        if standing.state == "quarantined":
            yield "quarantined", partial(lack.quarantined, standing.state_reason)
        else:
            yield "draining", lack.draining
    if is_silent(runner, now_ms, settings):
        never = offer is None or standing.heard_ms is None
        unheard_ms = None if never else now_ms - (standing.heard_ms or 0)
        yield "silent", partial(lack.silent, unheard_ms, settings)
    memory: Found | None = None
    cpus: Found | None = None
    of_shape = _each_of_shape(demand, shape(runner), fleet) if lasting is None else lasting
    for one in of_shape:
        if one.code == "memory":
            memory = _made(one)
        elif one.code == "cpus":
            cpus = _made(one)
        else:
            yield _made(one)
    if standing.kept is not None and _keeps_out(standing.kept, job):
        yield "kept", partial(lack.kept, standing.kept, demand.project, now_ms)
    if offer is None:
        return
    if room is None:
        room = headroom(runner, settings)
    if memory := memory or _memory_now(demand, offer, room):
        yield memory
    if cpus := cpus or _cpus_now(demand, offer, room):
        yield cpus
    if disk := _disk_now(demand, runner, fleet, room):
        yield disk
    for decline in job.declines:
        if decline.runner == runner.name and now_ms - decline.at_ms < settings.decline_ms:
            yield "declined", partial(lack.declined, decline, now_ms, settings)
            break
    if room.free_slots < 1:
        yield "slots", partial(lack.slots, room.free_slots, offer.max_jobs)


def _made(one: Lack) -> Found:
    return one.code, lambda: one


def _each_of_shape(demand: Demand, of: Shape, fleet: Fleet) -> Iterator[Lack]:
    if not _serves(of, demand.project):
        yield lack.scope(demand.project)
    if not of.polled:
        return
    if demand.tier not in of.tiers:
        yield lack.tier(demand.tier, of.tiers)
    if of.arch is not None and (arch := _other_arch(demand, of, fleet)):
        yield lack.arch(arch, of.arch)
    if others := _images_of_others(demand, fleet):
        yield lack.image(others, fetches=True)
    elif missing := _missing_images(demand, of, fleet):
        yield lack.image(missing, fetches=of.fetches_images)
    if absent := demand.labels - of.labels:
        yield lack.label(absent)
    # A job that asks for a label either has one of the runner's or lacks it above.
    if of.exclusive and not demand.labels:
        yield lack.exclusive(of.labels)
    if demand.memory_mib and of.memory_mib is not None:
        reserve = fleet.settings.reserve_mib if of.reserve_mib is None else of.reserve_mib
        most = of.memory_mib - reserve - fleet.settings.baseline_mib
        if demand.memory_mib > most:
            yield lack.memory_never(demand.memory_mib, of.memory_mib, most, ran_out(demand, "memory"))
    if demand.cpus and of.cpus is not None and demand.cpus > of.cpus:
        yield lack.cpus_never(demand.cpus, of.cpus)


def _keeps_out(kept: Kept, job: QueuedJob) -> bool:
    """Whether a runner that is kept is not to be had for `job`."""
    return job.priority <= kept.priority and job.demand != kept.demand


def _serves(of: Shape, project: str) -> bool:
    if of.project is not None and of.project != project:
        return False
    return of.owner is None or of.owner == project.partition("/")[0]


def _other_arch(demand: Demand, of: Shape, fleet: Fleet) -> str | None:
    """The architecture that the job needs where it is known and not the runner's."""
    if demand.arch is not None:
        return demand.arch if demand.arch != of.arch else None
    for image in sorted(demand.images):
        held = _held(image, demand, fleet)
        arch = held.arch if held is not None else None
        if arch is None:
            arch = next((known for name, known in of.image_archs if name == image), None)
        if arch is not None and arch != of.arch:
            return arch
    return None


def _images_of_others(demand: Demand, fleet: Fleet) -> frozenset[str]:
    """Images that the hub holds for others alone: a job that names one's hash gets it from no runner."""
    if not demand.images or not fleet.images:
        return frozenset()
    return frozenset(
        image for image in demand.images if image in fleet.images and _held(image, demand, fleet) is None
    )


def _held(image: str, demand: Demand, fleet: Fleet) -> HubImage | None:
    """What the hub holds, as far as the demand's project may know."""
    held = fleet.images.get(image)
    return held if held is not None and held.serves(demand.project) else None


def _missing_images(demand: Demand, of: Shape, fleet: Fleet) -> frozenset[str]:
    """Images that the runner neither holds nor can fetch."""
    missing = demand.images - of.images
    if missing and of.fetches_images:
        return frozenset(image for image in missing if image not in fleet.images)
    return missing


def _memory_now(demand: Demand, offer: Offer, room: Headroom) -> Found | None:
    need, free = demand.memory_mib, room.free_memory_mib
    if not need or free is None or offer.memory_mib is None or need <= free:
        return None
    why = ran_out(demand, "memory")
    return "memory", partial(lack.memory_now, need, offer.memory_mib, offer.memory_used_mib, free, room, why)


def _cpus_now(demand: Demand, offer: Offer, room: Headroom) -> Found | None:
    need, free = demand.cpus, room.free_cpus
    if not need or free is None or offer.cpus is None or need <= free:
        return None
    return "cpus", partial(lack.cpus_now, need, offer.cpus, free)


def _disk_now(demand: Demand, runner: Runner, fleet: Fleet, room: Headroom) -> Found | None:
    free = room.free_disk_mib
    if free is None:
        return None
    fetch = image_fetch_mib(demand, runner, fleet) if demand.images else 0
    need = (demand.disk_mib or 0) + fetch
    if need == 0 or need <= free:
        return None
    return "disk", partial(
        lack.disk, demand.disk_mib or 0, fetch, demand.disk_peak_mib, free, ran_out(demand, "disk")
    )


def _image_mib(image: str, demand: Demand, fleet: Fleet) -> int:
    held = _held(image, demand, fleet)
    return 0 if held is None or held.size_mib is None else held.size_mib
