"""A runner works on a job: confirm, heartbeat, log, artifacts, and the ways an attempt ends.

The lease is a fence: what is sent with the lease of an attempt that is over gets Conflict and
changes nothing. Any accepted call renews it. The write decides, not what is remembered here.
"""

import asyncio
import hmac
import logging

from hub.dispatch.attempts import LiveAttempt
from hub.errors import Conflict, NotFound, TooLarge
from hub.logs import LogFull
from hub.service import ready, runners, shortages
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.store import attempts as store
from hub.store import endings
from hub.store.endings import Ended, Ending, How
from hub.wire.base import plain_text
from hub.wire.claim import Finish, GiveBack, Heartbeat, LogOffset, Pulse, Start
from hub.wire.spec import JobSpec

log = logging.getLogger(__name__)

RENEW_EVERY_S = 5  # log pieces and artifacts renew the lease at most this often: each renewal is a write
MAX_NOT_STARTED = 2  # claims in a row that a living runner did not confirm
MAX_FAILURES = 3  # failures of the machinery on one runner within FAILURES_MS
FAILURES_MS = 600_000


async def start(hub: Hub, principal: Principal, job_id: int, message: Start) -> None:
    """The claim arrived. Conflict: drop the job without running it."""
    attempt = await _mine(hub, principal, job_id, message.lease)
    now_ms = hub.now_ms()
    confirmed = store.Confirmed(
        job=job_id,
        lease=message.lease,
        phase=message.phase,
        now_ms=now_ms,
        expires_ms=now_ms + hub.config.lease_ms,
    )
    beat = await store.confirm(hub.store.writer, confirmed)
    if beat is None:
        raise _over()
    if message.phase == "running" and attempt.job.running_ms is None:
        hub.tally.started(now_ms - attempt.job.queued_ms)
    attempt.confirmed = True
    attempt.canceling = beat.cancel
    attempt.job.running_ms = now_ms if message.phase == "running" else None
    _heard(hub, attempt, confirmed.expires_ms)
    if (runner := hub.dispatch.fleet.live.get(attempt.runner)) is not None:
        runner.not_started = 0
    hub.events.tell(("job", job_id), ("run", attempt.job.run.id))


async def heartbeat(hub: Hub, principal: Principal, job_id: int, message: Heartbeat) -> Pulse:
    """The attempt lives. The answer says whether it is to stop."""
    attempt = await _mine(hub, principal, job_id, message.lease)
    await _renew(hub, attempt, memory_mib=message.memory_mib, disk_mib=message.disk_mib, step=message.step)
    if message.step is not None and message.step != attempt.step:
        attempt.step = message.step
        hub.events.tell(("job", job_id), ("run", attempt.job.run.id))
    return Pulse(cancel=attempt.canceling, ttl_s=hub.config.lease_s)


async def append_log(
    hub: Hub, principal: Principal, job_id: int, lease: str, offset: int, piece: bytes
) -> LogOffset:
    """Add `piece`, which begins at byte `offset`. Conflict with the offset wanted where there is a gap."""
    attempt = await _mine(hub, principal, job_id, lease)
    await renew(hub, attempt)
    if hub.dispatch.attempts.get(job_id) is not attempt:
        raise _over()
    try:
        size = hub.logs.append(job_id, attempt.number, offset, piece)
    except LogFull:
        raise TooLarge(f"a job's log may be {hub.config.log_mib} MiB long; the rest is not kept") from None
    if size is None:
        wanted = hub.logs.size(job_id, attempt.number)
        raise Conflict(f"the log goes on at byte {wanted}", offset=wanted)
    hub.events.tell(("log", job_id))
    return LogOffset(offset=size, cancel=attempt.canceling)


async def finish(hub: Hub, principal: Principal, job_id: int, message: Finish) -> None:
    """The job has ended. The very same again is accepted again and changes nothing."""
    attempt = await _mine(hub, principal, job_id, message.lease, ended_too=True)
    number = attempt.number
    size = hub.logs.size(job_id, number)
    if message.log_bytes is not None and message.log_bytes > size:
        raise Conflict(f"the log goes on at byte {size}", offset=size)
    await asyncio.to_thread(hub.logs.sync, job_id, number)
    error = plain_text(message.error, 4000) if message.error else None
    want = shortages.of_finish(hub, attempt, message)
    fails = message.outcome == "error" if want is None else want.more
    ending = Ending(
        job=job_id,
        number=number,
        lease=message.lease,
        how="finished",
        now_ms=hub.now_ms(),
        outcome=message.outcome,
        exit_code=message.exit_code,
        error=error if want is None else plain_text(want.sentence, 4000),
        short=None if want is None else want.short,
        shortages=None if want is None else shortages.to_json(want.shortages),
        peak_memory_mib=message.peak_memory_mib,
        peak_disk_mib=message.peak_disk_mib,
        results="[" + ",".join(step.model_dump_json() for step in message.steps) + "]",
        log_bytes=size,
        requeue=fails and _may_retry(attempt),
    )
    runner = hub.dispatch.fleet.live.get(attempt.runner)
    if message.gone and runner is not None:  # its next claim is on the way: it is about, as if it had polled
        runner.polled_ms = hub.now_ms()
        hub.dispatch.polled(runner)
    ended = await end(hub, attempt, ending, room_back=message.gone)
    if ended.state == "over":
        raise _over()
    if ended.state == "applied" and message.outcome == "error" and want is None:
        await _failed_there(hub, attempt, error or "")


async def decline(hub: Hub, principal: Principal, job_id: int, message: GiveBack) -> None:
    """The runner will not take it; the job keeps its place in the queue, this runner is passed over."""
    await _give_back(hub, principal, job_id, message, "declined")


async def release(hub: Hub, principal: Principal, job_id: int, message: GiveBack) -> None:
    """Given back, by a shutdown say; queued again at once, and no retry is spent."""
    await _give_back(hub, principal, job_id, message, "released")


async def _give_back(hub: Hub, principal: Principal, job_id: int, message: GiveBack, how: How) -> None:
    attempt = await _mine(hub, principal, job_id, message.lease)
    reason = plain_text(message.reason.replace("\n", " "), 300) or "no reason given"
    ending = Ending(
        job=job_id, number=attempt.number, lease=message.lease, how=how, reason=reason, now_ms=hub.now_ms()
    )
    if (await end(hub, attempt, ending, room_back=True)).state == "over":
        raise _over()


async def lapsed(hub: Hub, attempt: LiveAttempt, how: How) -> None:
    """A deadline of the attempt has passed, unless its runner was quicker with a word."""
    now_ms = hub.now_ms()
    if how == "not delivered":
        ending = Ending(
            job=attempt.job.id,
            number=attempt.number,
            how=how,
            now_ms=now_ms,
            reason=f"{attempt.runner}'s claim was not confirmed; queued again",
        )
        if (await end(hub, attempt, ending, room_back=True)).state == "applied":
            await _not_started(hub, attempt)
        return
    ending = Ending(
        job=attempt.job.id,
        number=attempt.number,
        how="lost",
        now_ms=now_ms,
        horizon_ms=now_ms,
        reason="its runner was not heard from",
    )
    if (await end(hub, attempt, ending)).state == "over":  # a word of its runner was quicker
        hub.dispatch.leases.look_again(attempt)


async def lost(hub: Hub, attempt: LiveAttempt, reason: str) -> None:
    """The attempt is known to be gone, before its lease has run out."""
    ending = Ending(job=attempt.job.id, number=attempt.number, how="lost", now_ms=hub.now_ms(), reason=reason)
    await end(hub, attempt, ending, room_back=True)


async def end(hub: Hub, attempt: LiveAttempt, ending: Ending, *, room_back: bool = False) -> Ended:
    """End an attempt: one write, then the live fleet, then who is to be told. Never left half done."""

    async def whole() -> Ended:
        ended = await endings.end(hub.store.writer, ending)
        if ended.state == "applied":
            hub.tally.leases_lost += ending.how == "lost"
            hub.dispatch.journal.ended(attempt, ending.outcome or ending.how, ending.now_ms)
            hub.dispatch.leases.over(attempt, room_back=room_back)
            await ready.follow(hub, ended.changes, runner=attempt.runner, ending=ending)
        return ended

    return await hub.dispatch.tasks.whole(whole())


async def renew(hub: Hub, attempt: LiveAttempt) -> None:
    """Renew the lease for a call that carries no figures, at most every few seconds."""
    now_ms = hub.now_ms()
    if attempt.expires_ms - now_ms < hub.config.lease_ms - RENEW_EVERY_S * 1000:
        await _renew(hub, attempt)
    else:
        _heard(hub, attempt, attempt.expires_ms)


async def mine(hub: Hub, principal: Principal, job_id: int, lease: str) -> LiveAttempt:
    """The caller's open attempt at a job, its lease checked."""
    return await _mine(hub, principal, job_id, lease)


async def _renew(
    hub: Hub,
    attempt: LiveAttempt,
    *,
    memory_mib: int | None = None,
    disk_mib: int | None = None,
    step: int | None = None,
) -> None:
    now_ms = hub.now_ms()
    beaten = store.Beaten(
        job=attempt.job.id,
        lease=attempt.lease,
        now_ms=now_ms,
        expires_ms=now_ms + hub.config.lease_ms,
        memory_mib=memory_mib,
        disk_mib=disk_mib,
        step=step,
    )
    beat = await store.beat(hub.store.writer, beaten)
    if beat is None:
        raise _over()
    attempt.canceling = beat.cancel
    attempt.memory_mib, attempt.disk_mib = memory_mib or attempt.memory_mib, disk_mib or attempt.disk_mib
    _heard(hub, attempt, beaten.expires_ms)


def _heard(hub: Hub, attempt: LiveAttempt, expires_ms: int) -> None:
    attempt.expires_ms = max(attempt.expires_ms, expires_ms)
    if (runner := hub.dispatch.fleet.live.get(attempt.runner)) is not None:
        runner.heard_ms = hub.now_ms()
        runner.touch()
        hub.dispatch.journal.runner(runner.name, runner.model)


async def _mine(
    hub: Hub, principal: Principal, job_id: int, lease: str, *, ended_too: bool = False
) -> LiveAttempt:
    """The caller's attempt. NotFound: not its job; Conflict: it was, and is over.

    `ended_too`: an attempt that is over is returned as well, for a call that may be repeated.
    """
    authorise(principal, "work")
    attempt = hub.dispatch.attempts.get(job_id)
    mine = attempt is not None and attempt.runner == principal.name
    if attempt is not None and mine and hmac.compare_digest(attempt.lease, lease):
        await attempt.committed.wait()
        return attempt
    async with hub.store.read() as conn:
        known = await store.by_lease(conn, job_id, lease)
    if known is None or known.runner != principal.name:
        raise (_over() if mine else NotFound("there is no such job here for this runner"))
    if not ended_too:
        raise _over()
    return await ready.ended_attempt(hub, known)


def _over() -> Conflict:
    return Conflict("the attempt is over: stop what runs of it and drop the job")


def _may_retry(attempt: LiveAttempt) -> bool:
    return attempt.job.losses < JobSpec.model_validate_json(attempt.job.spec).retries


async def _not_started(hub: Hub, attempt: LiveAttempt) -> None:
    """A runner that polls on but does not confirm what it is given gets no more, after the second time."""
    runner = hub.dispatch.fleet.live.get(attempt.runner)
    if runner is None or (runner.heard_ms or 0) <= attempt.assigned_ms:
        return
    runner.not_started += 1
    if runner.not_started >= MAX_NOT_STARTED and runner.state == "active":
        reason = f"it does not start jobs ({runner.not_started} in a row were not confirmed)"
        await runners.set_state(hub, runner, "quarantined", reason)


async def _failed_there(hub: Hub, attempt: LiveAttempt, error: str) -> None:
    """A machine on which the machinery keeps failing looks free, and would be given everything."""
    runner = hub.dispatch.fleet.live.get(attempt.runner)
    if runner is None:
        return
    now_ms = hub.now_ms()
    runner.failures_ms = [at for at in runner.failures_ms if now_ms - at < FAILURES_MS] + [now_ms]
    if len(runner.failures_ms) >= MAX_FAILURES and runner.state == "active":
        reason = f"{len(runner.failures_ms)} jobs failed in its machinery within 10 min: {error[:200]}"
        runner.failures_ms = []
        await runners.set_state(hub, runner, "quarantined", reason)
