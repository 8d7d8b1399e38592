"""The live runners: what each last said, what is placed on it, and who of them is free to take a job.

Runners of one shape and one speed class that fetch the same images have the same lasting verdict and
the same rank for a demand, so they share an `Entry`. Within an entry two sorted lists say who waits in
a claim and who is about with a free slot, best first: a decision reads their heads instead of all
runners.

Whoever changes a runner calls `Fleet.changed` before the next decision. No rule of fit stands here.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from hub.dispatch.attempts import LiveAttempt, OpenClaim
from hub.dispatch.queue import Group
from hub.placement.fit import Shape, shape
from hub.placement.headroom import Headroom, headroom
from hub.placement.model import Fleet as FleetValue
from hub.placement.model import (
    HubImage,
    Kept,
    Offer,
    Placed,
    QueuedJob,
    Runner,
    Sandbox,
    Settings,
    Standing,
    State,
)
from hub.placement.rank import Ease, ease, is_there
from hub.wire.claim import Claim

ENDED_ROOM_MS = 60_000  # room of an ended job whose runner does not say that its sandbox is gone
ADDRESSES = 4  # processes remembered per token


Key = tuple[Shape, int | None, frozenset[str]]  # shape, speed class, images on their way


@dataclass(slots=True, eq=False)
class Entry:
    """Runners with one key. The lists hold the runners' ease, best first."""

    key: Key
    members: set[str] = field(default_factory=set)
    groups: set[Group] = field(default_factory=set)  # demands that its runners could ever take
    waiting: list[Ease] = field(default_factory=list)
    about: list[Ease] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAwaited:
    """The job that was last held for a runner. `took` None: it is still held, or went out of the queue."""

    job: int
    project: str
    at_ms: int
    took: bool | None = None


@dataclass(slots=True, eq=False)
class LiveRunner:
    """One registered runner. `claim` None: it never polled since the hub knows it."""

    name: str
    labels: frozenset[str] = frozenset()  # given by an admin, beside those it states
    owner: str | None = None
    project: str | None = None
    state: State = "active"
    state_reason: str = ""
    claim: Claim | None = None
    offer: Offer | None = None
    heard_ms: int | None = None
    polled_ms: int | None = None
    saved_ms: int = 0
    idle_memory_mib: int | None = None
    broken_promises: int = 0
    instance: str | None = None
    replaced: list[str] = field(default_factory=list)  # instances that a newer one took over from
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)  # instance -> (address, when)
    open_claim: OpenClaim | None = None
    attempts: dict[int, LiveAttempt] = field(default_factory=dict)
    placed: dict[int, Placed] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)  # placed, over, room not yet given back -> until when
    awaited_by: dict[int, QueuedJob] = field(default_factory=dict)
    spent_claims: list[str] = field(default_factory=list)
    watched: bool = False  # a timer looks when it no longer counts as there
    not_started: int = 0  # claims in a row that a living runner did not confirm
    failures_ms: list[int] = field(default_factory=list)  # when the machinery failed on it
    kept: Kept | None = None
    last_awaited: LastAwaited | None = None
    entry: Entry | None = None
    counted: Counter[str] = field(default_factory=Counter)  # jobs by owner, as in `Fleet.held`
    _listed: Ease | None = None
    _model: Runner | None = None
    _headroom: Headroom | None = None

    def touch(self) -> None:
        """Forget what was worked out: a fact has changed."""
        self._model = self._headroom = None

    @property
    def model(self) -> Runner:
        """The runner as placement sees it."""
        if self._model is None:
            standing = Standing(
                state=self.state,
                state_reason=self.state_reason,
                owner=self.owner,
                project=self.project,
                heard_ms=self.heard_ms,
                polled_ms=self.polled_ms,
                waiting=self.open_claim is not None,
                placed=tuple(self.placed.values()),
                idle_memory_mib=self.idle_memory_mib,
                broken_promises=self.broken_promises,
                kept=self.kept,
            )
            self._model = Runner(name=self.name, offer=self.offer, standing=standing)
        return self._model

    def headroom(self, settings: Settings) -> Headroom:
        """What is left on it, worked out once per change."""
        if self._headroom is None:
            self._headroom = headroom(self.model, settings)
        return self._headroom

    def record(self, claim: Claim, now_ms: int) -> None:
        """Take over what a claim says, all at once: disk free and disk taken are of one moment."""
        self.claim, self.heard_ms, self.polled_ms = claim, now_ms, now_ms
        live = {box.job: box for box in claim.running}
        for job in [job for job in self.ended if job not in live]:
            del self.ended[job], self.placed[job]
        for job, placed in self.placed.items():
            if job in live:
                self.placed[job] = _with_taken(placed, live[job].disk_mib)
        self.offer = offer_of(claim, self.labels)
        if not self.placed and not live and claim.facts.memory_used_mib is not None:
            self.idle_memory_mib = claim.facts.memory_used_mib
        self.touch()

    def meet(self, instance: str, address: str, now_ms: int) -> None:
        """Remember which process used the token."""
        self.addresses.pop(instance, None)
        self.addresses[instance] = (address, now_ms)
        while len(self.addresses) > ADDRESSES:
            del self.addresses[next(iter(self.addresses))]

    def forget(self, job: int) -> None:
        """The room of `job` is free."""
        self.placed.pop(job, None)
        self.ended.pop(job, None)
        if self.offer is not None and any(box.job == job for box in self.offer.live):
            live = tuple(box for box in self.offer.live if box.job != job)
            self.offer = replace(self.offer, live=live)
        self.touch()


class Fleet(Mapping[str, Runner]):
    """All live runners. As a mapping, the runners as placement sees them."""

    def __init__(self, settings: Settings, images: Mapping[str, HubImage] | None = None) -> None:
        self.settings = settings
        self.live: dict[str, LiveRunner] = {}
        self.held: Counter[str] = Counter()  # jobs by owner: `placement.turn.holding`, kept up to date
        self.entries: dict[Key, Entry] = {}
        self.value = FleetValue(runners=self, images=images or {}, settings=settings)
        self.entry_made: Callable[[Entry], None] = lambda entry: None
        self.entry_gone: Callable[[Entry], None] = lambda entry: None
        self.noted: Callable[[str, Runner | None], None] = lambda name, runner: None  # None: removed

    def __getitem__(self, name: str) -> Runner:
        return self.live[name].model

    def __iter__(self) -> Iterator[str]:
        return iter(self.live)

    def __len__(self) -> int:
        return len(self.live)

    def room(self, name: str) -> Headroom:
        """What is left on a runner."""
        return self.live[name].headroom(self.settings)

    def add(self, runner: LiveRunner, now_ms: int) -> None:
        """Know a runner."""
        self.live[runner.name] = runner
        self.changed(runner, now_ms)

    def remove(self, name: str) -> LiveRunner | None:
        """Forget a runner; its open claim and attempts are the caller's to end."""
        runner = self.live.pop(name, None)
        if runner is not None:
            self.noted(name, None)
            self._unlist(runner)
            self._leave(runner)
            self._count(runner, Counter())
        return runner

    def changed(self, runner: LiveRunner, now_ms: int) -> None:
        """Put `runner` where its facts now belong; one that was removed meanwhile belongs nowhere."""
        if self.live.get(runner.name) is not runner:
            return
        runner.touch()
        self.noted(runner.name, runner.model)
        self._count(runner, Counter(one.owner for one in runner.placed.values() if one.owner is not None))
        self._unlist(runner)
        if runner.offer is None:
            self._leave(runner)
            return
        key = (shape(runner.model), runner.offer.speed_class, runner.offer.fetching)
        if runner.entry is None or runner.entry.key != key:
            self._leave(runner)
            self._join(runner, key)
        self._list(runner, now_ms)

    def _count(self, runner: LiveRunner, owners: Counter[str]) -> None:
        if owners == runner.counted:
            return
        self.held.subtract(runner.counted)
        self.held.update(owners)
        for owner in runner.counted:
            if not self.held[owner]:
                del self.held[owner]
        runner.counted = owners

    def _join(self, runner: LiveRunner, key: Key) -> None:
        runner.entry = self.entries.get(key)
        if runner.entry is not None:
            runner.entry.members.add(runner.name)
            return
        runner.entry = self.entries[key] = Entry(key=key, members={runner.name})
        self.entry_made(runner.entry)

    def _list(self, runner: LiveRunner, now_ms: int) -> None:
        """List it where a decision may find it. A saving only: whoever is listed is judged all the same."""
        entry = runner.entry
        if entry is None:
            return
        room = runner.headroom(self.settings)
        runner._listed = ease(runner.model, room, now_ms, self.settings)
        if room.free_slots > 0 and is_there(runner.model, now_ms, self.settings):
            insort(entry.about, runner._listed)
        if runner.open_claim is not None:
            insort(entry.waiting, runner._listed)

    def _unlist(self, runner: LiveRunner) -> None:
        if runner.entry is None or runner._listed is None:
            return
        for names in (runner.entry.about, runner.entry.waiting):
            index = bisect_left(names, runner._listed)
            if index < len(names) and names[index] == runner._listed:
                del names[index]
        runner._listed = None

    def _leave(self, runner: LiveRunner) -> None:
        if (entry := runner.entry) is None:
            return
        entry.members.discard(runner.name)
        runner.entry = None
        if not entry.members:
            del self.entries[entry.key]
            self.entry_gone(entry)


def offer_of(claim: Claim, labels: frozenset[str]) -> Offer:
    """The offer that a claim makes; `labels` are those an admin gave the runner."""
    facts = claim.facts
    return Offer(
        tiers=tuple(claim.tiers),
        arch=claim.arch,
        labels=labels.union(claim.labels),
        exclusive=claim.exclusive,
        images=frozenset(claim.images),
        image_archs=tuple(sorted(claim.image_archs.items())),
        fetches_images=claim.fetches_images,
        fetching=frozenset(claim.fetching),
        max_jobs=claim.max_jobs,
        cpus=claim.cpus,
        memory_mib=claim.memory_mib,
        reserve_mib=claim.reserve_mib,
        memory_used_mib=facts.memory_used_mib,
        free_disk_mib=facts.free_disk_mib,
        speed=facts.speed,
        speed_class=facts.speed_class,
        load1=facts.load1,
        accel=facts.accel,
        live=tuple(
            Sandbox(job=box.job, state=box.state, memory_mib=box.memory_mib, cpus=box.cpus)
            for box in claim.running
        ),
    )


def _with_taken(placed: Placed, disk_mib: int | None) -> Placed:
    return placed if disk_mib is None else replace(placed, disk_taken_mib=disk_mib)
