"""The decisions of late, with all that they were made from, so that they can be judged again.

Values of placement are frozen, so that the journal keeps references and writes nothing: what is said
here costs a few microseconds. What a runner was between two decisions nobody judged, so only its last
value before a decision is kept; an idle fleet's polls fill nothing. What falls off the front is
applied to the base, so that what is left can always be replayed.

Invariant: at each decision in the journal, base and entries before it come to exactly the runners, the
queue and the images that the decision saw. Whoever changes a runner or the queue says so here before
the next decision, images are asked for at each; `tests/dispatch` holds the hub to it by replaying storms.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace

from hub.dispatch.attempts import LiveAttempt
from hub.dispatch.board import LiveBoard
from hub.placement.journal import (
    ClaimDecided,
    Ended,
    Entry,
    Images,
    Journal,
    Out,
    ReadyDecided,
    Removed,
    Scene,
    What,
)
from hub.placement.model import HubImage, Offer, Plan, QueuedJob, Runner, Settings

ENTRIES = 20_000  # some 10 MiB: the last 5,000 jobs that were given out, or so
PER_WEIGHT = 8  # image names, sandboxes or holds that weigh as much as an entry: half a KiB or so
_DECIDED = (ClaimDecided, ReadyDecided)


class DecisionJournal:
    """The entries of late: `limit` of them at most, and fewer where some are long. 0: off."""

    def __init__(self, settings: Settings, now_ms: Callable[[], int], limit: int = ENTRIES) -> None:
        self.limit = limit
        self._settings = settings
        self._now_ms = now_ms
        self._base = Scene()
        self._begin_ms = now_ms()
        self._dropped = 0
        self._entries: deque[tuple[int, What, int]] = deque()  # when, what, its weight: a tuple costs least
        self._weight = 0
        self._changed: dict[str, Runner | None] = {}  # since the last decision; None: removed
        self._offers: dict[str, Offer | None] = {}  # the last in the entries, by runner
        self._images: Mapping[str, HubImage] = {}

    def __len__(self) -> int:
        return len(self._entries)

    # -- what is told ---------------------------------------------------------------------------

    def runner(self, name: str, runner: Runner | None) -> None:
        """A runner is new, or was changed, or was heard from; None: it is registered no more."""
        if self.limit:
            self._changed[name] = runner

    def job(self, job_id: int, job: QueuedJob | None) -> None:
        """A job is queued, or was changed while it is; None: it is not queued any more."""
        if self.limit:
            self._add(self._now_ms(), Out(job=job_id) if job is None else job)

    def ended(self, attempt: LiveAttempt, how: str, now_ms: int) -> None:
        """An attempt is over; `how`: its outcome, or what else became of it."""
        if not self.limit:
            return
        job, began_ms = attempt.job, attempt.job.running_ms
        self._add(
            now_ms,
            Ended(
                job=job.id,
                runner=attempt.runner,
                project=job.run.project,
                name=job.name,
                how=how,
                ran_ms=max(0, now_ms - began_ms) if attempt.confirmed and began_ms is not None else None,
            ),
        )

    def claim(self, board: LiveBoard, runner: str, plan: Plan) -> Plan:
        """What `choose` said for a runner on `board`; the plan as it came."""
        if self.limit and len(board.queue):  # over an empty queue nothing is decided
            self._catch_up(board)
            self._add(board.now_ms, ClaimDecided(runner=runner, plan=plan), len(plan.holds) // PER_WEIGHT)
        return plan

    def ready(self, board: LiveBoard, job: int, plan: Plan) -> Plan:
        """What `offer` said for a queued job on `board`; the plan as it came."""
        if self.limit:
            self._catch_up(board)
            self._add(board.now_ms, ReadyDecided(job=job, plan=plan))
        return plan

    # -- what is asked --------------------------------------------------------------------------

    def value(self) -> Journal:
        """All of it, as it is now. None of the values in it changes later."""
        told = (
            *self._base.told(self._begin_ms),
            *(Entry(at_ms=at_ms, what=what) for at_ms, what, _ in self._entries),
        )
        return Journal(begin_ms=self._begin_ms, settings=self._settings, entries=told, dropped=self._dropped)

    # -- the entries ----------------------------------------------------------------------------

    def _catch_up(self, board: LiveBoard) -> None:
        """Bring the entries to what a decision on `board` sees."""
        at_ms, images = board.now_ms, board.fleet.value.images
        if images is not self._images:  # another set of them is another mapping: a fleet's value is frozen
            if images != self._images:
                self._add(at_ms, Images(held=images), len(images) // PER_WEIGHT)
            self._images = images
        for name, runner in self._changed.items():
            if runner is None:
                self._offers.pop(name, None)
                self._add(at_ms, Removed(name=name))
            else:
                shared, weight = self._shared(runner)
                self._add(at_ms, shared, weight)
        self._changed.clear()

    def _shared(self, runner: Runner) -> tuple[Runner, int]:
        """`runner` with what its last offer said too kept once; and how much more it weighs for the rest.

        A claim that names the same thousand images again is otherwise 100 KiB of text of its own.
        """
        offer, before = runner.offer, self._offers.get(runner.name)
        if offer is None or offer is before:
            return runner, 0
        extra = len(offer.live)
        if before is not None and offer.images == before.images:
            offer = replace(offer, images=before.images)
            runner = Runner(name=runner.name, offer=offer, standing=runner.standing)
        else:
            extra += len(offer.images)
        self._offers[runner.name] = offer
        return runner, extra // PER_WEIGHT

    def _add(self, at_ms: int, what: What, more: int = 0) -> None:
        self._entries.append((at_ms, what, 1 + more))
        self._weight += 1 + more
        while self._weight > self.limit:
            self._begin_ms, oldest, weight = self._entries.popleft()
            self._weight -= weight
            self._dropped += isinstance(oldest, _DECIDED)
            self._base.apply(oldest)
