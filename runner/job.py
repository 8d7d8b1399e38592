"""The work on one assignment, in a thread of its own: confirm, prepare, run, keep, report.

Invariants: nothing of a job runs before the hub has taken its `start`; nothing of it is left once
the work has ended, whatever way it ended; and how it ended is told once, as an outcome, a decline
or a release, unless the attempt is over, when nothing is told.

The job's clock (its timeout) begins with its first step; preparing has a bound of its own.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from hub.wire.base import plain_text
from hub.wire.claim import Assignment, Finish, ImageRef, Live, Outcome, Short, StepResult
from runner import artifacts, workspace
from runner.attempt import Attempt
from runner.client import Hub
from runner.config import Config
from runner.errors import Aborted, HubError, Over
from runner.outcome import Ended, is_full, ran_out, reason
from runner.report import Log
from runner.sandbox.base import Command, Reason, Sandbox, SandboxBroken, Stop, Usage
from runner.sandbox.process import ProcessSandbox
from runner.tiers import Tiers
from runner.unpack import SPARE_BYTES, NoRoom

log = logging.getLogger(__name__)

State = Literal["preparing", "running", "ending"]
MAX_ERROR = 1000
REWINDS = 20  # how often the log is sent again from where the hub says, before its end is told without it


class Decline(Exception):
    """The machine cannot take this job: its words say why."""


class ImageSource(Protocol):
    """Where a job's images come from: the runner's cache."""

    def use(self, image: str) -> AbstractContextManager[None]:
        """While entered, the image stays."""

    def ensure(self, ref: ImageRef, *, stop: Stop, until: float, note: Callable[[str], None]) -> Path:
        """The file of an image, fetched if it must be, until the monotonic time `until`; `note` hears how.

        Raises NoRoom, OSError, or Aborted once `stop` has a reason.
        """


class Work:
    """One assignment. `done` is called at the very end, when nothing of it is left."""

    def __init__(
        self,
        hub: Hub,
        given: Assignment,
        config: Config,
        *,
        folder: Path,
        locked: Callable[[str], None],
        done: Callable[["Work"], None],
        tiers: Tiers | None = None,
        images: ImageSource | None = None,
    ) -> None:
        self.job = given.job
        self.stop = Stop()
        self._config = config
        self._attempt = Attempt(hub, given, config.timing, self.stop, locked)
        self._images = images
        self._in_use = ExitStack()  # its images
        self._unfit: str | None = None  # why this runner cannot have the job's sandbox
        self._sandbox: Sandbox = ProcessSandbox(folder, grace_s=config.timing.grace_s)
        try:
            known = tiers or Tiers(offered=config.tiers)
            self._sandbox = known.sandbox(self.job, folder, grace_s=config.timing.grace_s)
        except SandboxBroken as error:
            self._unfit = str(error)
        self._done = done
        self._state: State = "preparing"
        self._step: int | None = None
        self._results: list[StepResult] = []
        self._log: Log | None = None
        self._thread = threading.Thread(target=self._run, name=f"job-{self.job.id}", daemon=True)

    @property
    def lease(self) -> str:
        """The attempt's name."""
        return self._attempt.lease

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def live(self) -> Live:
        """What a claim says of it."""
        usage = self._sandbox.usage()
        return Live(
            job=self.job.id,
            lease=self.lease,
            state=self._state,
            memory_mib=self.job.memory_mib,
            disk_mib=usage.disk_mib,
            cpus=self.job.cpus,
        )

    def _run(self) -> None:
        try:
            self._attempt.start("preparing")
            self._attempt.beat(self._sandbox.usage, lambda: self._step)
            self._carry_out()
        except (Over, Aborted) as error:
            if self.stop.reason == "released":
                self._give_back()
            else:
                log.warning("job %d: dropped: %s", self.job.id, error)
        except HubError as error:
            log.error("job %d: the hub does not take it: %s", self.job.id, error.detail)
        except Exception:
            log.exception("job %d: failed in the runner", self.job.id)
        finally:
            self._attempt.rest()
            self._clear_away()
            self._done(self)

    def _carry_out(self) -> None:
        try:
            ended = self._work()
        except Decline as error:
            log.warning("job %d: declined: %s", self.job.id, error)
            self._attempt.decline(str(error))
            return
        except (Over, Aborted):
            raise
        except Exception as error:  # whatever it is, the hub must hear of it
            log.exception("job %d: the machinery failed", self.job.id)
            short: Short | None = "disk" if is_full(error) else None
            ended = Ended(outcome="error", error=f"the runner failed: {error}", short=short)
        self._state = "ending"
        self._step = None
        self._sandbox.end()
        if self.stop.at_once:
            raise Aborted
        self._finish(ended)

    def _work(self) -> Ended:
        """From the empty folder to the outcome."""
        try:
            self._sandbox.prepare()
            self._log = Log(
                self._sandbox.folder / "log",
                self._attempt.append_log,
                self.stop,
                self._attempt.backoff(),
                give_up_s=self._config.timing.away_s,
            )
            self._prepare(self._log)
        except (NoRoom, OSError, SandboxBroken) as error:  # nothing has run yet: elsewhere it may
            if isinstance(error, workspace.Cramped) and self._sandbox.own_disk:  # as large as it asked for
                words = ran_out("disk", self.job, self._sandbox.usage())
                return Ended(outcome="error", error=f"{error}: {words}", short="disk")
            raise Decline(reason(error)) from None
        except workspace.NotPrepared as error:
            if self.stop.reason == "timed_out":  # the bound on preparing, which asks the same way
                return Ended(outcome="error", error="preparing took too long")
            return self._stopped() or Ended(
                outcome="error", error=str(error), short=self._sandbox.short_of(1)
            )
        except Aborted:
            return self._stopped() or Ended(outcome="error", error="preparing was given up")
        if self.stop.reason == "timed_out":
            return Ended(outcome="error", error="preparing took too long")
        if (stopped := self._stopped()) is not None:
            return stopped
        self._attempt.start("running")
        self._state = "running"
        ended = self._steps(self._log)
        self._sandbox.end()  # what a step left running must not change what is kept
        return ended if self.stop.reached("canceled") else self._keep(ended, self._log)

    def _prepare(self, log_: Log) -> None:
        """Fill the workspace."""
        job, bound = self.job, time.monotonic() + self._config.timing.prepare_s
        if self._unfit is not None:
            raise Decline(f"the job could not be prepared: {self._unfit}")
        self._sandbox.lay(self._fetch_images(log_, bound))
        if job.workspace is None:
            return
        if job.workspace.hash is not None:
            sentence = workspace.fetch_pack(
                self._attempt.hub,
                job.id,
                self.lease,
                job.workspace,
                self._sandbox.workspace,
                self.stop,
                self._attempt.backoff(),
                until=bound,
                beside=self._sandbox.folder,
                spare_bytes=0 if self._sandbox.own_disk else SPARE_BYTES,
            )
            log_.note(sentence)
        else:  # with nothing of the job's in its environment: git runs outside the sandbox
            workspace.fetch_commit(
                self._sandbox, job.workspace, self._sandbox.env(), log_.write, self.stop, until=bound
            )

    def _fetch_images(self, log_: Log, until: float) -> dict[str, Path]:
        """The files of the job's images by hash, the sandbox's own first."""
        if self.job.tier == "process" and not self.job.images:
            return {}
        if self._images is None:
            raise Decline(f"this runner has no {self.job.tier} tier with images")
        for ref in self.job.images:
            self._in_use.enter_context(self._images.use(ref.hash))
        try:
            return {
                ref.hash: self._images.ensure(ref, stop=self.stop, until=until, note=log_.note)
                for ref in self.job.images
            }
        except NoRoom as error:  # on the machine's disk, whatever the sandbox's own is like
            raise Decline(reason(error)) from None

    def _steps(self, log_: Log) -> Ended:
        """One step after the other, until one fails or the job is to stop."""
        until = time.monotonic() + self.job.timeout_s
        for index, step in enumerate(self.job.steps):
            self._step = index
            log_.step(index + 1, len(self.job.steps), step.name)
            began = time.monotonic()
            command = Command(script=step.run, env=self._env(step.env), image=step.image)
            code = self._sandbox.run(command, log_.write, self.stop, until)
            took_s = round(time.monotonic() - began, 3)
            if self.stop.reason is not None:
                log_.note(f"runner: {_WHY[self.stop.reason].format(seconds=self.job.timeout_s)}")
            log_.exit(code, took_s)
            self._results.append(
                StepResult(name=plain_text(" ".join(step.name.split())), exit_code=code, duration_s=took_s)
            )
            if (stopped := self._stopped()) is not None:
                return Ended(outcome=stopped.outcome, exit_code=code, error=stopped.error)
            if code != 0:
                short = self._sandbox.short_of(code)
                error = None if short is None else ran_out(short, self.job, self._sandbox.usage())
                return Ended(outcome="failed", exit_code=code, error=error, short=short)
        return Ended(outcome="succeeded", exit_code=0)

    def _stopped(self) -> Ended | None:
        """How the job ends because it was told to stop; None: it was not."""
        reason = self.stop.reason
        if reason is None:
            return None
        if reason == "timed_out":
            return Ended(outcome="timed_out", error=f"the job took more than {self.job.timeout_s} s")
        if reason == "canceled":
            return Ended(outcome="canceled")
        raise Aborted

    def _keep(self, ended: Ended, log_: Log) -> Ended:
        """Send what the job leaves. What cannot be kept, although it was asked for, fails the job."""
        if not self.job.artifacts and not self.job.reports:
            return ended
        try:
            shown = self._sandbox.env()["SHUNTER_WORKSPACE"]
            found = artifacts.search(
                self._sandbox.workspace, self.job.artifacts, reports=self.job.reports, shown=shown
            )
            for note in found.notes:
                log_.note(f"artifacts: {note}")
            for file in found.files:
                self._attempt.put_artifact(file)
        except Aborted:
            return self._stopped() or ended
        except Over:
            raise
        except (HubError, artifacts.TooMany) as error:
            sentence = f"its artifacts could not be kept: {error}"
            log_.note(f"artifacts: {sentence}")
            outcome: Outcome = "failed" if ended.outcome == "succeeded" else ended.outcome
            return replace(ended, outcome=outcome, error=ended.error or sentence)
        if found.files:
            total = sum(file.bytes for file in found.files)
            log_.note(f"artifacts: {len(found.files)} files, {total / 2**20:.1f} MiB")
        return ended

    def _finish(self, ended: Ended) -> None:
        """Tell the end, after the whole log."""
        if self._log is not None and ended.error is not None:
            self._note_end(self._log, ended.error)
        usage = self._sandbox.usage()
        for _ in range(REWINDS):
            length = None if self._log is None else self._log.close()
            if self.stop.at_once:
                raise Aborted
            try:
                self._attempt.finish(self._message(ended, usage, length))
            except Over as error:
                if error.offset is None or self._log is None:
                    raise
                self._log.rewind(error.offset)
            else:
                log.info("job %d: %s", self.job.id, ended.outcome)
                return
        self._attempt.finish(self._message(ended, usage, None))

    def _note_end(self, log_: Log, error: str) -> None:
        try:
            log_.note(f"runner: {plain_text(' '.join(error.split()))}")
        except OSError:
            log.warning("job %d: the disk is full, its log ends early", self.job.id)

    def _message(self, ended: Ended, usage: Usage, log_bytes: int | None) -> Finish:
        return Finish(
            lease=self.lease,
            outcome=ended.outcome,
            exit_code=ended.exit_code,
            error=None if ended.error is None else plain_text(ended.error, MAX_ERROR),
            short=ended.short,
            peak_disk_mib=usage.peak_disk_mib,
            peak_memory_mib=usage.peak_memory_mib,
            log_bytes=log_bytes,
            gone=True,  # the sandbox was ended before
            steps=self._results,
        )

    def _give_back(self) -> None:
        self._sandbox.end()
        try:
            self._attempt.release("the runner shuts down")
            log.warning("job %d: given back", self.job.id)
        except (HubError, Aborted) as error:
            log.warning("job %d: could not be given back: %s", self.job.id, error)

    def _clear_away(self) -> None:
        """Leave nothing. The log goes last: while it is open, its sender may still read it."""
        self.stop.ask("over")
        try:
            self._sandbox.end()  # first: the log may have to wait for a call that is under way
            if self._log is not None:
                self._log.remove()
            self._sandbox.destroy()
            self._in_use.close()
        except OSError:
            log.exception("job %d: its folder cannot be removed", self.job.id)
        self.stop.close()

    def _env(self, step: Mapping[str, str]) -> dict[str, str]:
        """The environment of a step: what it says, over the job's, over the least that programs expect."""
        return {**self._sandbox.env(), **self.job.env, **step}


_WHY: dict[Reason, str] = {
    "timed_out": "stopped after {seconds} s, the job's timeout",
    "canceled": "canceled",
    "released": "given back",
    "over": "the attempt is over",
}
