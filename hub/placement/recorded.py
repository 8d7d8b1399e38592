"""A journal as a trace: what a real fleet was given to do, for `simulate` to give it again.

What a trace has no word for is told by the words it has: a tier and a scope as labels that runners
offer and jobs ask for, a reserve of a runner's own as memory. What nobody measured is a figure below,
and what cannot be told is left out and counted. Invariant: the trace is whole, as `trace` asks.

A runner is there from the beginning with the images of its first line and the figures of its last,
whatever became of it; what ran already when the journal begins is not in the trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from hub.placement.fit import shape, shape_lacks
from hub.placement.journal import Ended, Images, Journal, JournalError
from hub.placement.model import Demand, Fleet, HubImage, Offer, QueuedJob, Runner, Settings
from hub.placement.trace import (
    MAX_COUNT,
    MAX_MS,
    Trace,
    TraceImage,
    TraceJob,
    TraceRunner,
    assemble,
)

LINK_BYTES_S = 25_000_000  # 200 Mbit/s, no runner tells its own
IMAGE_BYTES = 500_000_000  # of an image the hub does not hold: a system and a compiler
SPEED = 100  # of a runner that tells none: work takes as long as it took there
OPEN_MS, PAUSE_MS = 25_000, 50  # of a runner that keeps its claims open: the contract's default
ASKS_MS = 5000  # between the claims of one that does not, where fewer than two were seen
RAN = frozenset({"succeeded", "failed", "timed_out"})  # ends of an attempt that ran as long as it takes
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A trace, and how many of its jobs take as long as they did, or as long as they usually do.

    `left_out`: jobs of which nobody knows how long they take, or that came after a trace's longest time.
    """

    trace: Trace
    measured: int
    usual: int
    left_out: int


@dataclass(slots=True)
class _Seen:
    """A runner over the journal."""

    first: Offer
    last: Runner
    waits: bool = False
    polled_ms: list[int] = field(default_factory=list)

    @property
    def offer(self) -> Offer:
        return self.last.offer or self.first


def recorded(journal: Journal) -> Recorded:
    """The trace of a journal. Raises JournalError where no runner ever polled."""
    runners: dict[str, _Seen] = {}
    jobs: dict[int, tuple[int, QueuedJob]] = {}
    ended: dict[int, Ended] = {}
    held: dict[str, HubImage] = {}
    for entry in journal.entries:
        match entry.what:
            case Runner(offer=Offer()) as runner:
                _see(runners, runner)
            case QueuedJob() as job:
                jobs[job.id] = (jobs[job.id][0] if job.id in jobs else entry.at_ms, job)
            case Ended() as end:
                if end.job not in ended or end.how in RAN:
                    ended[end.job] = end
            case Images(held=more):
                held.update(more)
    if not runners:
        raise JournalError("no runner polled while the journal was kept: there is nothing to simulate")
    return _assemble(journal, runners, jobs, ended, held)


def _see(runners: dict[str, _Seen], runner: Runner) -> None:
    assert runner.offer is not None, "only a runner that polled is seen"
    seen = runners.setdefault(runner.name, _Seen(first=runner.offer, last=runner))
    seen.last = runner
    seen.waits = seen.waits or runner.standing.waiting
    polled_ms = runner.standing.polled_ms
    if polled_ms is not None and polled_ms not in seen.polled_ms[-1:]:
        seen.polled_ms.append(polled_ms)


def _assemble(
    journal: Journal,
    runners: Mapping[str, _Seen],
    jobs: Mapping[int, tuple[int, QueuedJob]],
    ended: Mapping[int, Ended],
    held: Mapping[str, HubImage],
) -> Recorded:
    made: list[TraceJob] = []
    measured = 0
    labels = _Labels.of(runners, [job for _, job in jobs.values()])
    for ready_ms, job in jobs.values():
        end = ended.get(job.id)
        at_ms = max(0, ready_ms - journal.begin_ms)
        took_ms = _work_ms(end, runners)
        work_ms = job.usual_ms if took_ms is None else took_ms
        if work_ms is None or at_ms > MAX_MS:
            continue
        measured += took_ms is not None
        made.append(_job(job, end, at_ms, work_ms, labels.asked(job), runners))
    images = frozenset[str]().union(*(job.images for job in made))
    records: tuple[TraceImage | TraceRunner | TraceJob, ...] = (
        *(_image(name, held.get(name, HubImage())) for name in images),
        *(_runner(seen, images, labels.offered(seen), journal.settings) for seen in runners.values()),
        *made,
    )
    return Recorded(
        trace=assemble(records),
        measured=measured,
        usual=len(made) - measured,
        left_out=len(jobs) - len(made),
    )


def _work_ms(end: Ended | None, runners: Mapping[str, _Seen]) -> int | None:
    """How long the job takes at speed 100; None: it did not run to an end within the journal."""
    if end is None or end.ran_ms is None or end.how not in RAN:
        return None
    seen = runners.get(end.runner)
    speed = SPEED if seen is None else seen.offer.speed or SPEED
    return round(end.ran_ms * speed / 100)


def _job(
    job: QueuedJob,
    end: Ended | None,
    at_ms: int,
    work_ms: int,
    labels: frozenset[str],
    runners: Mapping[str, _Seen],
) -> TraceJob:
    demand = job.demand
    name = f"job-{job.id}" if end is None else end.name  # one that nobody can name teaches nobody
    return TraceJob(
        id=job.id,
        name=f"{demand.project}/{name}",
        at_ms=at_ms,
        work_ms=min(work_ms, MAX_MS),
        images=demand.images,
        memory_mib=_within(demand.memory_mib),
        cpus=_within(demand.cpus),
        arch=demand.arch,
        labels=labels,
        wish=job.wish.runner if job.wish is not None and job.wish.runner in runners else None,
    )


def _image(name: str, held: HubImage) -> TraceImage:
    size = IMAGE_BYTES if held.size_mib is None else held.size_mib * MIB
    return TraceImage(name=name, bytes=size, arch=held.arch)


def _runner(seen: _Seen, images: frozenset[str], labels: frozenset[str], settings: Settings) -> TraceRunner:
    """`images`: those that the trace's jobs ask for; others take no part in it."""
    offer = seen.offer
    memory_mib = offer.memory_mib
    if memory_mib is not None:
        kept_back = settings.reserve_mib if offer.reserve_mib is None else offer.reserve_mib
        memory_mib += Settings().reserve_mib - kept_back  # what is left for jobs is the same
    return TraceRunner(
        name=seen.last.name,
        slots=max(1, min(offer.max_jobs, 1024)),
        speed=max(1, min(offer.speed or SPEED, 100_000)),
        speed_class=max(0, min(offer.speed_class or 0, 9)),
        link_bytes_s=LINK_BYTES_S,
        poll_ms=OPEN_MS if seen.waits else 0,
        pause_ms=PAUSE_MS if seen.waits else _pause_ms(seen.polled_ms),
        images=seen.first.images & images,
        memory_mib=_within(memory_mib),
        cpus=_within(offer.cpus),
        arch=offer.arch,
        labels=labels,
    )


def _pause_ms(polled_ms: list[int]) -> int:
    """The usual time between two claims, a minute at most: what is longer was an absence."""
    gaps = [late - early for early, late in pairwise(polled_ms)]
    return round(min(max(median(gaps), PAUSE_MS), 60_000)) if gaps else ASKS_MS


def _within(figure: int | None) -> int | None:
    """A figure as a trace may have it; nothing asked for is not asked."""
    return min(figure, MAX_COUNT) if figure is not None and figure > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Labels:
    """Tiers and scopes as labels, each kind only where some runner could not take some job for it."""

    tiers: frozenset[str]
    projects: frozenset[str]

    @classmethod
    def of(cls, runners: Mapping[str, _Seen], jobs: list[QueuedJob]) -> "_Labels":
        asked = {(job.demand.project, job.demand.tier) for job in jobs}
        codes = frozenset[str]().union(*(_codes(seen, *one) for seen in runners.values() for one in asked))
        return cls(
            tiers=frozenset(tier for _, tier in asked if "tier" in codes),
            projects=frozenset(project for project, _ in asked if "scope" in codes),
        )

    def asked(self, job: QueuedJob) -> frozenset[str]:
        """What a job asks for, its tier and project with it."""
        tier = {f"tier:{one}" for one in self.tiers & {job.demand.tier}}
        return job.demand.labels | tier | {f"for:{one}" for one in self.projects & {job.demand.project}}

    def offered(self, seen: _Seen) -> frozenset[str]:
        """What a runner offers, its tiers and the projects in its scope with it."""
        tiers = {f"tier:{one}" for one in self.tiers if "tier" not in _codes(seen, "", one)}
        served = {f"for:{one}" for one in self.projects if "scope" not in _codes(seen, one, "")}
        return seen.offer.labels | tiers | served


def _codes(seen: _Seen, project: str, tier: str) -> frozenset[str]:
    """The codes of what a runner lacks for good for the barest job of that project and tier."""
    barest = Demand(project=project, tier=tier)
    return frozenset(one.code for one in shape_lacks(barest, shape(seen.last), Fleet(runners={})))
