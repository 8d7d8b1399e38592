"""What is left on a runner after all that is spoken for.

Observed use is not capacity: a sandbox that started half a minute ago has not touched most of what
it may use. So the worse of what is observed and what is committed counts, and a job that is both
placed and reported live counts once. Placing one more job never makes anything here larger.
"""

from dataclasses import dataclass

from hub.placement.model import Offer, Placed, Runner, Sandbox, Settings

# A parked or orphaned sandbox holds its memory, but nobody works in it: no slot, no CPUs.
_AT_WORK = frozenset({"preparing", "running", "ending"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What is left on one runner. May be negative where it is committed beyond what it has."""

    free_memory_mib: int | None  # after use, commitments and reserve; None: its memory was never reported
    used_mib: int | None  # the worse of observed and committed plus baseline; None as above
    committed_mib: int  # memory of all that is placed or live
    committed_jobs: int  # how many of these ask for memory
    free_cpus: int | None  # None: never reported
    free_disk_mib: int | None  # after what placed jobs have still to take; None: never reported
    free_slots: int  # 0 for a runner that never polled


def headroom(runner: Runner, settings: Settings) -> Headroom:
    """What is left on `runner`, in MiB, CPUs and slots."""
    offer, standing = runner.offer, runner.standing
    if offer is None:
        return _NEVER_POLLED
    placed, live = standing.placed, offer.live
    if not placed and not live:
        committed_mib = jobs = busy = cpus_taken = 0
    else:
        committed_mib, jobs = _memory_committed(placed, live)
        busy, cpus_taken = _at_work(placed, live)
    used = free_memory = None
    if offer.memory_mib is not None:
        used = _memory_used(offer, committed_mib, bool(placed or live), standing.idle_memory_mib, settings)
        free_memory = offer.memory_mib - used - reserve_mib(offer, settings)
    return Headroom(
        free_memory_mib=free_memory,
        used_mib=used,
        committed_mib=committed_mib,
        committed_jobs=jobs,
        free_cpus=None if offer.cpus is None else offer.cpus - cpus_taken,
        free_disk_mib=None
        if offer.free_disk_mib is None
        else offer.free_disk_mib - _disk_owed(placed, offer),
        free_slots=offer.max_jobs - busy,
    )


def reserve_mib(offer: Offer, settings: Settings) -> int:
    """Memory kept back: what the runner states, else the hub's setting."""
    return settings.reserve_mib if offer.reserve_mib is None else offer.reserve_mib


_NEVER_POLLED = Headroom(
    free_memory_mib=None,
    used_mib=None,
    committed_mib=0,
    committed_jobs=0,
    free_cpus=None,
    free_disk_mib=None,
    free_slots=0,
)


def _memory_committed(placed: tuple[Placed, ...], live: tuple[Sandbox, ...]) -> tuple[int, int]:
    """Memory of placed jobs and live sandboxes, united by job id, and how many jobs hold it."""
    by_job: dict[int, int] = {}
    everything: tuple[Placed | Sandbox, ...] = (*placed, *live)
    for one in everything:
        memory = one.memory_mib or 0
        if memory >= by_job.get(one.job, 0):
            by_job[one.job] = memory
    return sum(by_job.values()), sum(1 for memory in by_job.values() if memory)


def _at_work(placed: tuple[Placed, ...], live: tuple[Sandbox, ...]) -> tuple[int, int]:
    """Slots and CPUs taken by what is placed or at work, united by job id."""
    at_work = (sandbox for sandbox in live if sandbox.state in _AT_WORK)
    everything: tuple[Placed | Sandbox, ...] = (*placed, *at_work)
    by_job: dict[int, int] = {}
    for one in everything:
        by_job[one.job] = max(one.cpus or 0, by_job.get(one.job, 0))
    return len(by_job), sum(by_job.values())


def _memory_used(
    offer: Offer, committed_mib: int, anything_committed: bool, idle_mib: int | None, settings: Settings
) -> int:
    """The worse of what is observed and of what is committed plus what the machine uses for itself."""
    observed = offer.memory_used_mib or 0
    if not anything_committed:
        return max(observed, settings.baseline_mib)
    baseline = max(observed - committed_mib, idle_mib or 0, settings.baseline_mib)
    return max(observed, committed_mib + baseline)


def _disk_owed(placed: tuple[Placed, ...], offer: Offer) -> int:
    """MiB that placed jobs have still to take: the rest of each promise, and each image once."""
    rest = 0
    images: dict[str, int] = {}
    for job in placed:
        rest += max(0, (job.disk_mib or 0) - (job.disk_taken_mib or 0))
        images.update(job.fetching)
    return rest + sum(mib for image, mib in images.items() if image not in offer.images)
