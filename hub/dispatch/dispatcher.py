"""The dispatcher: facts in, decisions of `placement.choose` carried out, one write each.

A job is on the books in exactly one place: waiting for its needs, in the queue, or out as an
attempt. A decision takes effect here at once and is then written; only when the write is durable
is the claim answered, and an attempt whose write failed never was. Nothing that can fail stands
between that write and the answer.

What makes a job placeable wakes exactly the best waiting runner: see `ready`, `runner_freed` and
the timers. The sweep is the safety net, and counts what only it found.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from hub.dispatch.answer import draw_up
from hub.dispatch.attempts import LiveAttempt, LiveJob, OpenClaim
from hub.dispatch.board import LiveBoard
from hub.dispatch.concurrency import Concurrency
from hub.dispatch.events import Events
from hub.dispatch.fleet import Fleet, LiveRunner
from hub.dispatch.holds import Holds
from hub.dispatch.journal import ENTRIES, DecisionJournal
from hub.dispatch.keeps import Keeps
from hub.dispatch.leases import Leases
from hub.dispatch.queue import Queue
from hub.dispatch.reasons import Reasons
from hub.dispatch.rounds import TOLD, Rounds
from hub.dispatch.tasks import Tasks
from hub.dispatch.timers import Timers
from hub.placement import model
from hub.placement.choose import choose, offer
from hub.placement.fit import as_placed
from hub.placement.rank import is_there
from hub.store import attempts as attempt_store
from hub.store import jobs as job_store
from hub.store.writer import Writer

log = logging.getLogger(__name__)

ASK_AGAIN_MS = 5000  # after a store that did not answer


async def _nobody(*which: object) -> None:
    """Until the service says who knows."""


class Dispatcher:
    """All that is live. One event loop; no await between reading and deciding."""

    def __init__(
        self,
        *,
        writer: Writer,
        now_ms: Callable[[], int],
        settings: model.Settings,
        lease_ms: int,
        start_ms: int,
        journal_entries: int = ENTRIES,
    ) -> None:
        self.writer = writer
        self.now_ms = now_ms
        self.settings = settings
        self.lease_ms = lease_ms
        self.fleet = Fleet(settings)
        self.queue = Queue()
        self.board = LiveBoard(self.fleet, self.queue)
        self.journal = DecisionJournal(settings, now_ms, journal_entries)
        self.fleet.noted, self.queue.noted = self.journal.runner, self.journal.job
        self.reasons = Reasons(self.board)
        self.timers = Timers()
        self.events = Events()
        self.jobs: dict[int, LiveJob] = {}
        self.holds = Holds(
            board=self.board,
            timers=self.timers,
            jobs=self.jobs,
            now_ms=now_ms,
            offer=self._offer,
            changed=self._changed,
            save=self._save_hold,
        )
        self.keeps = Keeps(self.fleet, self.queue, self.runner_changed)
        self.rounds = Rounds(
            board=self.board,
            reasons=self.reasons,
            keeps=self.keeps,
            writer=writer,
            now_ms=now_ms,
            tell=lambda job_id: self._tell(self.jobs[job_id]),
        )
        self.concurrency = Concurrency()
        self.on_superseded: Callable[[list[int]], Coroutine[Any, Any, None]] = _nobody
        self.rescued_by_sweep = 0
        self.closing = False
        self.on_unsure: Callable[[int], Coroutine[Any, Any, None]] = _nobody
        self.on_invalid: Callable[[int, str], Coroutine[Any, Any, None]] = _nobody
        self.tasks = Tasks()
        self.leases = Leases(
            fleet=self.fleet,
            timers=self.timers,
            tasks=self.tasks,
            now_ms=now_ms,
            start_ms=start_ms,
            room_changed=self.runner_changed,
        )

    # -- jobs -----------------------------------------------------------------------------------

    def ready(self, job: LiveJob) -> None:
        """`job` may run now, if its group has a place: give it to the best waiting runner, or queue it."""
        self.jobs[job.id] = job
        if not self.concurrency.enter(job):
            self._tell(job)
            if older := self.concurrency.superseded_by(job):
                self.tasks.spawn(self.on_superseded(older))
            return
        self._enqueue(job)
        self._offer(job.id)

    def final(self, job_id: int) -> LiveJob | None:
        """`job_id` is final: forget it, and let the next of its group in. None: it was not known."""
        if job_id in self.queue:
            self._dequeue(job_id)
        job = self.jobs.pop(job_id, None)
        if job is not None and (following := self.concurrency.leave(job)) is not None:
            self.ready(following)
        return job

    def _enqueue(self, job: LiveJob) -> None:
        group = self.queue.add(job.queued())
        if group is not None:
            self.board.group_made(group)
        self.rounds.joined(job.id)
        self.reasons.forget()
        self._tell(job)

    def _dequeue(self, job_id: int) -> model.QueuedJob:
        queued = self.queue.get(job_id)
        assert queued is not None, "only a queued job is taken out"
        self.holds.leave(queued)
        self.rounds.left(job_id)
        if (kept := self.keeps.leave(job_id)) is not None:  # others may have it, once this is done
            self.timers.at(self.now_ms(), lambda _: self.runner_changed(kept))
        self.reasons.forget()
        if (group := self.queue.remove(job_id)) is not None:
            self.board.group_gone(group)
        return queued

    def _offer(self, job_id: int) -> bool:
        """Offer a queued job to the open claims; whether one was given it."""
        job = self.queue.get(job_id)
        if job is None:
            return False
        self.board.now_ms = self.now_ms()
        return self._carry_out(self.journal.ready(self.board, job_id, offer(self.board, job)))

    def _choose(self, runner: LiveRunner) -> bool:
        """Let a runner with an open claim choose; whether it took a job."""
        if runner.open_claim is None:
            return False
        self.board.now_ms = self.now_ms()
        return self._carry_out(self.journal.claim(self.board, runner.name, choose(self.board, runner.name)))

    def _carry_out(self, plan: model.Plan) -> bool:
        """Give what is to be given, then begin the holds; whether a job was given.

        In this order: a new hold may free a job of an old one, which must not be offered to a claim
        that has been decided already.
        """
        runner = None if plan.take is None or plan.runner is None else self.fleet.live[plan.runner]
        given = plan.take is not None and runner is not None and self._assign(plan.take.id, runner)
        for hold in plan.holds:
            self.holds.begin(hold)
        return given or (runner is not None and self._choose(runner))

    # -- holds ----------------------------------------------------------------------------------

    def _save_hold(self, job: model.QueuedJob) -> None:
        assert job.held_since_ms is not None, "a hold begins at its first pass"
        held = job_store.Held(job=job.id, since_ms=job.held_since_ms, awaited=job.held_for)
        self.tasks.spawn(job_store.hold(self.writer, held))
        self._tell(self.jobs[job.id])

    # -- images ---------------------------------------------------------------------------------

    def images_changed(self, images: Mapping[str, model.HubImage | None]) -> None:
        """The hub holds these images now, or (None) no more: what waits for one may go to an open claim."""
        after = {**self.fleet.value.images, **images}
        held = {name: one for name, one in after.items() if one is not None}
        self.fleet.value = replace(self.fleet.value, images=held)
        changed = self.board.images_changed(images.keys())
        self.reasons.forget()
        for runner in list(self.fleet.live.values()):
            self.holds.recheck(runner)
        entries = {entry for group in changed for entry in group.verdicts}
        for runner in list(self.fleet.live.values()):
            if runner.open_claim is not None and runner.entry in entries:
                self._choose(runner)
        for group in changed:
            for job in group.jobs[:TOLD]:
                self._tell(self.jobs[job.id])

    # -- runners --------------------------------------------------------------------------------

    def _changed(self, runner: LiveRunner) -> None:
        """Facts of `runner` changed: list it anew, and look at what is held for it."""
        self.fleet.changed(runner, self.now_ms())
        self.reasons.forget()
        self.holds.recheck(runner)

    def runner_changed(self, runner: LiveRunner) -> None:
        """An admin changed it, or its room changed: whatever fits now may go to its open claim."""
        self._changed(runner)
        self._choose(runner)

    def remove_runner(self, runner: LiveRunner) -> None:
        """It is registered no more: its claim ends, what is held for it is offered elsewhere."""
        claim, runner.open_claim = runner.open_claim, None
        if claim is not None:
            claim.close()
        self.fleet.remove(runner.name)
        for job_id in list(runner.awaited_by):
            self.holds.end(job_id)
            self._offer(job_id)

    def polled(self, runner: LiveRunner) -> None:
        """It polled just now; look again when it will no longer count as there."""
        self._changed(runner)
        if runner.polled_ms is not None and not runner.watched:
            runner.watched = True
            self.timers.at(runner.polled_ms + self.settings.polling_ms + 1, lambda _: self._away(runner))

    def _away(self, runner: LiveRunner) -> None:
        runner.watched = False
        if self.fleet.live.get(runner.name) is not runner:
            return
        if is_there(runner.model, self.now_ms(), self.settings) and runner.open_claim is None:
            self.polled(runner)  # it polled again in the meantime
        else:
            self._changed(runner)

    # -- claims ---------------------------------------------------------------------------------

    def open(self, runner: LiveRunner, claim: OpenClaim) -> None:
        """A claim came in and waits: let it choose. Closes one that it replaces."""
        if runner.open_claim is not None:
            runner.open_claim.close()
        if self.closing or self.fleet.live.get(runner.name) is not runner:  # or removed while it was read
            claim.close()
            return
        runner.open_claim = claim
        self.polled(runner)
        self._choose(runner)

    def close(self, runner: LiveRunner, claim: OpenClaim, *, heard: bool) -> None:
        """A claim ended without a job. `heard`: its line was open to the end, so the runner is about."""
        claim.close()
        if runner.open_claim is not claim:
            return
        runner.open_claim = None
        if heard:
            runner.heard_ms = runner.polled_ms = self.now_ms()
        self.polled(runner)

    def _assign(self, job_id: int, runner: LiveRunner) -> bool:
        """Give a queued job to a runner's open claim: on the books now, answered once it is written.

        False: its rows say nothing valid. It fails alone, and stops nobody else.
        """
        claim, queued, job = runner.open_claim, self.queue.get(job_id), self.jobs[job_id]
        assert claim is not None, "a job is given to an open claim only"
        assert queued is not None, "only a queued job is given"
        try:
            attempt, row = draw_up(self.board, queued, job, claim, self.lease_ms)
        except ValueError as error:
            log.exception("job %d is not valid", job_id)
            self._dequeue(job_id)
            self.tasks.spawn(self.on_invalid(job_id, str(error)))
            return False
        self._dequeue(job_id)
        self.leases.add(attempt, runner)
        runner.placed[job_id] = as_placed(queued, runner.model, self.fleet.value)
        runner.open_claim, claim.given = None, attempt
        self.holds.taken(queued, runner)
        runner.broken_promises = 0
        self._changed(runner)
        self.tasks.spawn(self._write(attempt, claim, row))
        return True

    async def _write(self, attempt: LiveAttempt, claim: OpenClaim, row: attempt_store.Claimed) -> None:
        try:
            written = await attempt_store.claim(self.writer, row)
        except Exception as error:
            log.exception("job %d could not be given to %s", attempt.job.id, attempt.runner)
            self._never_was(attempt)
            claim.fail(error)
            return
        if not written:  # canceled in the meantime
            self._never_was(attempt)
            self._again(claim)
            return
        attempt.job.attempt = attempt.number
        attempt.committed.set()
        claim.close(attempt)
        self.leases.time(attempt)
        if attempt.runner not in self.fleet.live:  # it was removed while this was written
            self.tasks.spawn(self.leases.on_lapsed(attempt, "not delivered"))
        self._tell(attempt.job)

    def _never_was(self, attempt: LiveAttempt) -> None:
        """Its write failed, or seemed to: take it off the books, and let the store say what is true."""
        self.leases.forget(attempt)
        attempt.committed.set()  # whoever waits for the write learns that the attempt is on no books
        runner = self.fleet.live.get(attempt.runner)
        if runner is not None:
            runner.forget(attempt.job.id)
            self._changed(runner)
        self.unsure(attempt.job.id)

    def unsure(self, job_id: int) -> None:
        """Ask the store where a job stands, again and again until it answers."""

        async def ask() -> None:
            try:
                await self.on_unsure(job_id)
            except Exception:
                log.exception("the store does not say where job %d stands", job_id)
                self.timers.at(self.now_ms() + ASK_AGAIN_MS, lambda _: self.unsure(job_id))

        self.tasks.spawn(ask())

    def _again(self, claim: OpenClaim) -> None:
        """The job it was given is gone: let the claim choose once more."""
        claim.given = None
        runner = self.fleet.live.get(claim.runner)
        if runner is None or runner.open_claim is not None or claim.answer.done():
            claim.close()
            return
        runner.open_claim = claim
        self.runner_changed(runner)

    # -- the safety net -------------------------------------------------------------------------

    def sweep(self) -> int:
        """Let every open claim choose again; returns, and counts, the jobs that only this found."""
        found = 0
        if len(self.queue):
            waiting = [runner for runner in self.fleet.live.values() if runner.open_claim is not None]
            found = sum(self._choose(runner) for runner in waiting)
        found += self.leases.sweep(self.now_ms())
        self.keeps.recheck(self.now_ms())
        self.rescued_by_sweep += found
        if found:
            log.warning("the sweep found %d jobs that no wake-up had placed", found)
        return found

    # -- the shell ------------------------------------------------------------------------------

    @property
    def attempts(self) -> dict[int, LiveAttempt]:
        """The attempts that are out, by job."""
        return self.leases.attempts

    def _tell(self, job: LiveJob) -> None:
        self.events.tell(("job", job.id), ("run", job.run.id), ("queue",))

    def shut(self) -> None:
        """The hub stops: open claims are answered with nothing, and streams end."""
        self.closing = True
        for runner in self.fleet.live.values():
            if runner.open_claim is not None:
                runner.open_claim.close()
        self.events.close()
