"""The agent: it claims jobs and runs each in a thread of its own.

Invariants: a poll never holds a slot, and there is at most one; whatever changes what a claim says
(a job has ended, an image has come) ends the open poll, so that the hub always judges by what is; a
claim whose answer may have been lost is asked again under the same id, and a new id only follows an
answer. The process ends by itself, saying why, when the hub no longer knows its token: it never listens
on as a ghost.

Nothing here knows signals: `drain` may be called from any thread, once for politely, twice for now.
"""

import logging
import secrets
import threading

from hub.wire.claim import Assignment, GiveBack
from runner.client import Backoff, Hub, Poll
from runner.config import Config
from runner.errors import Aborted, Away, HubError, Locked, Missing, Over
from runner.job import Work
from runner.offer import ImageCache, Offer
from runner.sandbox import keeper
from runner.sandbox.base import Reason
from runner.tiers import Tiers

log = logging.getLogger(__name__)

EXIT_DONE, EXIT_REFUSED = 0, 1
END_S = 2 * keeper.KILL_S + 5  # for sandboxes that are killed to end


class Agent:
    """One runner process. `run` returns its exit status."""

    def __init__(
        self,
        config: Config,
        hub: Hub,
        *,
        instance: str | None = None,
        tiers: Tiers | None = None,
        images: ImageCache | None = None,
    ) -> None:
        """`tiers` None: those of `config`, none of which needs a check. `images` None: it has none."""
        self._config = config
        self._tiers = tiers or Tiers(offered=config.tiers)
        self._images = images
        self._hub = hub
        self._offer = Offer.of(config, instance or secrets.token_hex(16), images)
        self._changed = threading.Condition()
        self._works: dict[str, Work] = {}
        self._poll: Poll | None = None
        self._news = False  # something changed since the claim of the open poll was made
        self._drains = 0
        self._fatal: str | None = None
        self._taken = 0
        self._claim_id = secrets.token_hex(16)
        self._unanswered = False  # the hub may have given a job for this claim id
        if images is not None:
            images.changed = self._images_changed

    def run(self) -> int:
        """Claim and run jobs until drained, `--once` is done, or the hub refuses this process."""
        backoff = Backoff(self._config.timing.retry_s, self._config.timing.retry_most_s)
        log.info("offers %s", self._offer.claim(None, ()).model_dump_json(exclude_none=True))
        while self._await_slot():
            try:
                given = self._ask()
            except Aborted:
                continue
            except (Locked, Missing, Over) as error:
                self._refused(error.detail)
                break
            except HubError as error:
                wait_s = backoff.failed(error)
                say = log.warning if isinstance(error, Away) else log.error
                say("no answer to the claim, next try in %.1f s: %s", wait_s, error.detail)
                self._rest(wait_s)
                continue
            backoff.reset()
            if given is not None:
                self._accept(given)
        return self._leave()

    def drain(self) -> None:
        """Take nothing more, finish what runs; a second call kills what runs and gives it back."""
        with self._changed:
            self._drains += 1
            self._tell()
            works = list(self._works.values()) if self._drains > 1 else []
        for work in works:
            work.stop.ask("released")

    @property
    def running(self) -> int:
        """Jobs that are here now."""
        with self._changed:
            return len(self._works)

    def _await_slot(self) -> bool:
        """Wait until there is room for a job; False: no more are to be taken."""
        with self._changed:
            while not self._over() and len(self._works) >= self._config.max_jobs:
                self._changed.wait()
            return not self._over()

    def _over(self) -> bool:
        return bool(self._drains or self._fatal or (self._config.once and self._taken))

    def _ask(self) -> Assignment | None:
        """One poll. Raises Aborted where something changed meanwhile."""
        with self._changed:
            if self._over():
                raise Aborted
            self._news = False
            works = list(self._works.values())
        poll = self._hub.poll(self._offer.claim(self._claim_id, [work.live() for work in works]))
        with self._changed:
            if self._news:
                raise Aborted
            self._poll = poll
        self._unanswered = True
        try:
            given = poll.ask()
        finally:
            with self._changed:
                self._poll = None
        self._unanswered = False
        self._claim_id = secrets.token_hex(16)
        return given

    def _accept(self, given: Assignment) -> None:
        """Begin a job, or give it back if it came too late."""
        job, lease = given.job, given.lease.token
        with self._changed:
            if self._drains or self._fatal:
                work = None
            elif lease in self._works:
                return
            else:
                folder = self._config.work / "jobs" / f"{job.id}-{job.attempt}-{secrets.token_hex(4)}"
                work = Work(
                    self._hub,
                    given,
                    self._config,
                    folder=folder,
                    locked=self._refused,
                    done=self._done,
                    tiers=self._tiers,
                    images=self._images,
                )
                self._works[lease] = work
                self._taken += 1
        if work is None:
            self._give_back(given)
            return
        log.info("job %d (%s %s, attempt %d): %s", job.id, job.project, job.name, job.attempt, given.placed)
        work.start()

    def _give_back(self, given: Assignment) -> None:
        """Release a job that nothing was done for."""
        try:
            message = GiveBack(lease=given.lease.token, reason="the runner shuts down")
            self._hub.release(given.job.id, message)
            log.info("job %d: given back, for it came while the runner shuts down", given.job.id)
        except HubError as error:  # the hub undoes it by itself, half a minute later
            log.warning("job %d: could not be given back: %s", given.job.id, error.detail)

    def _done(self, work: Work) -> None:
        """A job has ended and its room is free."""
        with self._changed:
            self._works.pop(work.lease, None)
            self._tell()

    def _images_changed(self) -> None:
        """An image came, went, or is on its way: the hub ranks by that."""
        with self._changed:
            self._tell()

    def _refused(self, detail: str) -> None:
        """The hub does not know this process any more: end it, and what runs."""
        with self._changed:
            self._fatal = self._fatal or detail
            self._tell()

    def _tell(self) -> None:
        """Something changed: end the open poll. The lock is held."""
        self._news = True
        if self._poll is not None:
            self._poll.abort()
        self._changed.notify_all()

    def _rest(self, seconds: float) -> None:
        """Wait before the next claim, unless no more are to be made."""
        with self._changed:
            self._changed.wait_for(self._over, seconds)

    def _leave(self) -> int:
        """Finish what runs, and tell the hub; the exit status."""
        if self._fatal is None and self._drains:
            self._say_drained()
        with self._changed:
            while self._works and self._fatal is None:
                self._changed.wait()
            works = list(self._works.values())
        if self._fatal is None:
            return EXIT_DONE
        log.error("the hub refuses this runner: %s", self._fatal)
        self._end(works, "over")
        return EXIT_REFUSED

    def _end(self, works: list[Work], reason: Reason) -> None:
        for work in works:
            work.stop.ask(reason)
        for work in works:
            if not work.join(END_S):
                log.error("job %d: does not end", work.job.id)

    def _say_drained(self) -> None:
        """Tell the hub that nothing more is wanted, and give back what it may have given meanwhile."""
        claim_id = self._claim_id if self._unanswered else None
        try:
            self._hub.drain(claim_id)
            if claim_id is None:
                return
            # The given-up poll may have had an answer. Asked once more under its id, the hub gives that one.
            with self._changed:
                works = list(self._works.values())
            claim = self._offer.claim(claim_id, [work.live() for work in works], wait_s=0)
            given = self._hub.poll(claim).ask()
        except HubError as error:
            log.warning("the hub was not told that this runner shuts down: %s", error.detail)
            return
        if given is not None and given.lease.token not in {work.lease for work in works}:
            self._give_back(given)
