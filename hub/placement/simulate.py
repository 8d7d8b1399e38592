"""A simulation: a trace run through the real decision in virtual time, under one policy or another.

Fit, rank, headroom and hold are asked of `placement` like everywhere. What stands here beside is what
a hub's shell and its runners do: claims come and end, holds run out, images are fetched over a link
one after the other, and a runner offers an image from its next claim on. Invariants: the same trace,
policy and seed give the same outcome; every job that a runner of the trace can ever take ends. No rule
may be written here again.
"""

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from hub.placement.choose import hold_limit_ms
from hub.placement.fit import as_placed
from hub.placement.model import (
    Demand,
    Hold,
    HubImage,
    Offer,
    Plan,
    QueuedJob,
    Runner,
    Settings,
    Standing,
    Wish,
)
from hub.placement.need import RECENT, usual_ms
from hub.placement.policies import HOLDS_MS, Policy, VirtualBoard, policies
from hub.placement.rank import Rank, is_there, rank
from hub.placement.trace import Trace, TraceJob, TraceRunner

PROJECT, TIER = "trace/project", "namespace"  # one for all: a trace says nothing of either


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One job's way. Times in ms from the beginning of the trace."""

    job: int
    runner: str
    ready_ms: int
    placed_ms: int
    start_ms: int  # its images are there, its work begins
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a trace under one policy."""

    policy: str
    ran: tuple[Ran, ...]  # in the order of their ends
    nowhere: tuple[int, ...]  # jobs that no runner of the trace can ever take
    bytes_fetched: int
    holds_won: int  # held jobs that went to a runner better than any that passed them over
    holds_lost: int  # held jobs that did not
    use: float  # share of the fleet's slots that was taken, from the first job to the last end


@dataclass(slots=True, kw_only=True)
class _Machine:
    """A runner beside what the board knows of it."""

    spec: TraceRunner
    dice: random.Random
    there_ms: dict[str, int]  # images it holds or fetches, and from when it holds them
    link_free_ms: int = 0
    claim: int = 0  # number of its last claim
    poll_due: bool = False


class Simulation:
    """A trace under one policy. `run` it once."""

    def __init__(self, trace: Trace, policy: Policy, *, seed: int = 0) -> None:
        settings = replace(Settings(), hold_ms=policy.hold_ms)
        images = {one.name: HubImage(arch=one.arch, size_mib=one.bytes >> 20) for one in trace.images}
        self.trace = trace
        self.policy = policy
        self.board = VirtualBoard((_runner(one) for one in trace.runners), images, settings)
        self._bytes = {one.name: one.bytes for one in trace.images}
        self._machines = {
            one.name: _Machine(
                spec=one,
                dice=random.Random(f"{seed}/{one.name}"),  # noqa: S311 - a made pause, not a secret
                there_ms=dict.fromkeys(one.images, 0),
            )
            for one in trace.runners
        }
        self._jobs = {job.id: job for job in trace.jobs}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._durations: dict[str, tuple[int, ...]] = {}
        self._passed: dict[int, Rank] = {}  # the best rank that a held job was passed over by
        self._ran: list[Ran] = []
        self._nowhere: list[int] = []
        self._fetched = self._won = self._lost = 0

    def run(self) -> Outcome:
        """Let time pass until every job that fits somewhere has ended."""
        for machine in self._machines.values():
            self._poll_in(machine, round(machine.dice.random() * machine.spec.pause_ms))
        for job in self.trace.jobs:
            self._at(job.at_ms, lambda job=job: self._ready(job))  # type: ignore[misc]  # bound now
        while self._events and len(self._ran) + len(self._nowhere) < len(self._jobs):
            self.board.now_ms, _, event = heapq.heappop(self._events)
            event()
        return self._outcome()

    def _outcome(self) -> Outcome:
        taken_ms = sum(one.end_ms - one.placed_ms for one in self._ran)
        first_ms = min((one.ready_ms for one in self._ran), default=0)
        span_ms = max((one.end_ms for one in self._ran), default=0) - first_ms
        slots = sum(one.slots for one in self.trace.runners)
        return Outcome(
            policy=self.policy.name,
            ran=tuple(self._ran),
            nowhere=tuple(self._nowhere),
            bytes_fetched=self._fetched,
            holds_won=self._won,
            holds_lost=self._lost,
            use=taken_ms / (span_ms * slots) if span_ms else 0.0,
        )

    def _at(self, at_ms: int, event: Callable[[], None]) -> None:
        self._count += 1  # events of one instant happen in the order in which they were planned
        heapq.heappush(self._events, (at_ms, self._count, event))

    # -- jobs

    def _ready(self, job: TraceJob) -> None:
        queued = QueuedJob(
            id=job.id,
            demand=Demand(
                project=PROJECT,
                tier=TIER,
                arch=job.arch,
                images=job.images,
                labels=job.labels,
                memory_mib=job.memory_mib,
                cpus=job.cpus,
            ),
            order=(0, job.at_ms, job.id),
            usual_ms=usual_ms(self._durations.get(job.name, ())),
            wish=None if job.wish is None else Wish(runner=job.wish),
        )
        self.board.add(queued)
        if any(self.board.can_ever(queued, name) for name in self._machines):
            self._offer(job.id)
        else:
            self.board.remove(job.id)
            self._nowhere.append(job.id)

    def _offer(self, job_id: int) -> None:
        if (job := self.board.queue.get(job_id)) is not None:
            best = next(iter(self.board.waiting(job)), None) if self.board.settings.hold_ms else None
            self._carry_out(self.policy.ready(self.board, job), best)

    def _carry_out(self, plan: Plan, asker: str | None) -> None:
        """The job that is taken goes first: a new hold may free an older one, and that job go to `asker`."""
        if plan.take is not None and plan.runner is not None:
            self._assign(plan.take.id, self._machines[plan.runner])
        for hold in plan.holds:
            if asker is not None and hold.job in self.board.queue:
                self._hold(hold, asker)

    def _assign(self, job_id: int, machine: _Machine) -> None:
        board, spec, now_ms = self.board, machine.spec, self.board.now_ms
        queued, job, runner = board.remove(job_id), self._jobs[job_id], board.runners[spec.name]
        if (passed := self._passed.pop(job_id, None)) is not None:
            won = rank(queued.demand, runner, queued.lost_on) > passed
            self._won, self._lost = self._won + won, self._lost + (not won)
        for image in sorted(queued.demand.images - machine.there_ms.keys()):
            size = self._bytes[image]
            machine.link_free_ms = max(now_ms, machine.link_free_ms) + -(-size * 1000 // spec.link_bytes_s)
            machine.there_ms[image] = machine.link_free_ms
            self._fetched += size
        start_ms = max((now_ms, *(machine.there_ms[image] for image in queued.demand.images)))
        end_ms = start_ms + -(-job.work_ms * 100 // spec.speed)
        ran = Ran(
            job=job_id,
            runner=spec.name,
            ready_ms=job.at_ms,
            placed_ms=now_ms,
            start_ms=start_ms,
            end_ms=end_ms,
        )
        self._at(end_ms, lambda: self._end(ran, job, machine))
        placed = (*runner.standing.placed, as_placed(queued, runner, board.fleet))
        self._change(machine, placed=placed, waiting=False, broken_promises=0)
        self._poll_in(machine, machine.spec.pause_ms)

    def _end(self, ran: Ran, job: TraceJob, machine: _Machine) -> None:
        self._ran.append(ran)
        durations = (ran.end_ms - ran.start_ms, *self._durations.get(job.name, ()))
        self._durations[job.name] = durations[:RECENT]
        standing = self.board.runners[ran.runner].standing
        self._change(machine, placed=tuple(one for one in standing.placed if one.job != ran.job))
        if self.board.runners[ran.runner].standing.waiting:
            self._poll(machine)  # a runner ends its open claim for a new one when a job of its own ends
        else:
            polled_ms = standing.polled_ms or 0
            self._poll_in(machine, max(0, polled_ms + machine.spec.pause_ms - self.board.now_ms))

    # -- claims

    def _poll_in(self, machine: _Machine, ms: int) -> None:
        """Its next claim comes in about `ms`, unless one is due already."""
        if not machine.poll_due:
            machine.poll_due = True
            self._at(
                self.board.now_ms + round(ms * machine.dice.uniform(0.9, 1.1)), lambda: self._due(machine)
            )

    def _due(self, machine: _Machine) -> None:
        machine.poll_due = False
        self._poll(machine)

    def _poll(self, machine: _Machine) -> None:
        name, now_ms = machine.spec.name, self.board.now_ms
        runner = self.board.runners[name]
        if len(runner.standing.placed) >= machine.spec.slots:
            return  # it asks again when a job of its own ends
        holds = frozenset(image for image, there_ms in machine.there_ms.items() if there_ms <= now_ms)
        coming = frozenset(machine.there_ms.keys() - holds)
        if (offer := runner.offer) is not None and (offer.images, offer.fetching) != (holds, coming):
            self.board.set_runner(replace(runner, offer=replace(offer, images=holds, fetching=coming)))
        machine.claim += 1
        claim = machine.claim
        self._change(machine, waiting=True, polled_ms=now_ms, heard_ms=now_ms)
        if self.board.runners[name].standing.waiting:
            self._carry_out(self.policy.claim(self.board, name), name)
        if machine.spec.poll_ms == 0:
            self._close(machine, claim)
        elif self.board.runners[name].standing.waiting:
            self._at(now_ms + machine.spec.poll_ms, lambda: self._close(machine, claim))

    def _close(self, machine: _Machine, claim: int) -> None:
        """A claim ends without a job, unless it was answered or replaced."""
        if machine.claim == claim and self.board.runners[machine.spec.name].standing.waiting:
            now_ms = self.board.now_ms
            self._change(machine, waiting=False, polled_ms=now_ms, heard_ms=now_ms)
            self._poll_in(machine, machine.spec.pause_ms)

    # -- holds

    def _hold(self, hold: Hold, asker: str) -> None:
        """A job was passed over by `asker`. Its clock starts at the first pass and never again."""
        board = self.board
        job, now_ms = board.queue[hold.job], board.now_ms
        mine = rank(job.demand, board.runners[asker], job.lost_on)
        self._passed[job.id] = max(mine, self._passed.get(job.id, mine))
        if job.held_for == hold.awaited:
            return
        since_ms = now_ms if job.held_since_ms is None else job.held_since_ms
        board.add(replace(job, held_since_ms=since_ms, held_for=hold.awaited))
        if job.held_since_ms is None:
            self._at(now_ms + hold_limit_ms(job, board.settings), lambda: self._hold_over(job.id))
        machine, standing = self._machines[hold.awaited], board.runners[hold.awaited].standing
        self._recheck(hold.awaited)
        if standing.waiting:
            self._offer(job.id)
        else:
            away_ms = (standing.polled_ms or 0) + board.settings.polling_ms + 1
            self._at(max(now_ms, away_ms), lambda: self._recheck(machine.spec.name))

    def _hold_over(self, job_id: int) -> None:
        job = self.board.queue.get(job_id)
        if job is None:
            return
        self.board.add(replace(job, held_for=None))
        if job.held_for is not None:
            broken = self.board.runners[job.held_for].standing.broken_promises
            self._change(self._machines[job.held_for], broken_promises=broken + 1)
        self._offer(job_id)

    def _recheck(self, runner: str) -> None:
        """Offer elsewhere what is held for a runner that cannot or need not take it any more."""
        board = self.board
        if not (awaited := board.awaited_by(runner)):
            return
        there = is_there(board.runners[runner], board.now_ms, board.settings)
        kept: list[QueuedJob] = []
        dropped: list[QueuedJob] = []
        for job in awaited:
            (kept if there and board.fits_beside(job, runner, kept) else dropped).append(job)
        for job in dropped:
            board.add(replace(job, held_for=None))
        for job in dropped:
            self._offer(job.id)

    def _change(self, machine: _Machine, **changes: object) -> None:
        runner = self.board.runners[machine.spec.name]
        standing = replace(runner.standing, **changes)  # type: ignore[arg-type]  # the callers' names are fields
        self.board.set_runner(replace(runner, standing=standing))
        self._recheck(runner.name)


def _runner(spec: TraceRunner) -> Runner:
    """A runner of the trace before its first claim, whose offer is known: all it lacks is to be heard."""
    said = Offer(
        tiers=(TIER,),
        arch=spec.arch,
        labels=spec.labels,
        images=spec.images,
        fetches_images=True,
        max_jobs=spec.slots,
        cpus=spec.cpus,
        memory_mib=spec.memory_mib,
        speed=spec.speed,
        speed_class=spec.speed_class,
    )
    return Runner(name=spec.name, offer=said, standing=Standing())


def simulate(trace: Trace, *, seed: int = 0, holds_ms: Sequence[int] = HOLDS_MS) -> Iterator[Outcome]:
    """`trace` under every policy, one after the other, with the same pauses of the runners."""
    return (Simulation(trace, policy, seed=seed).run() for policy in policies(seed, holds_ms))
