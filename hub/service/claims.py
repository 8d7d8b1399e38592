"""A runner claims a job.

The offer is recorded first and then judged like any other runner's. A repeat of a claim whose
answer was lost gets the same attempt again; a runner that holds an attempt it never heard of is
told of that one before any other.
"""

import asyncio
import logging
from typing import Any

from hub.dispatch.answer import assignment
from hub.dispatch.attempts import LiveAttempt, OpenClaim
from hub.dispatch.fleet import LiveRunner
from hub.errors import Conflict, NotFound
from hub.service import attempts, runners
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.wire.claim import Assignment, Claim, Drain

log = logging.getLogger(__name__)

SPENT_CLAIMS = 32  # claim ids remembered per runner: more than it can have under way
SAVE_EVERY_MS = 600_000  # an unchanged offer is written this often at most: an idle poll writes nothing


async def claim(
    hub: Hub, principal: Principal, message: Claim, *, address: str = "", gone: asyncio.Event | None = None
) -> Assignment | None:
    """A job for the runner that asks; None: nothing within `wait_s`, or `gone` was set (it left).

    Raises Conflict for a process that a newer one with the same token took over from.
    """
    authorise(principal, "work")
    runner = hub.dispatch.fleet.live.get(principal.name)
    if runner is None:
        raise NotFound("this runner is not registered any more")
    hub.tally.claims += 1
    now_ms = hub.now_ms()
    await _meet(hub, runner, message, address, now_ms)
    _record(hub, runner, message, now_ms)
    if (again := _repeated(runner, message)) is not None:
        hub.dispatch.polled(runner)
        await again.committed.wait()
        return _answer(hub, again) if runner.attempts.get(again.job.id) is again else None
    if message.claim_id in runner.spent_claims:
        hub.dispatch.polled(runner)
        return None
    answer: asyncio.Future[LiveAttempt | None] = asyncio.get_running_loop().create_future()
    opened = OpenClaim(
        runner=runner.name,
        instance=message.instance,
        claim_id=message.claim_id,
        address=address,
        answer=answer,
    )
    hub.dispatch.open(runner, opened)
    heard = await _wait(opened, message.wait_s, gone)
    if opened.given is None:
        hub.dispatch.close(runner, opened, heard=heard)
    attempt = await answer
    if attempt is None:
        if message.instance is not None and message.instance in runner.replaced:
            raise _replaced()
        return None
    if message.claim_id is not None:
        runner.spent_claims = [*runner.spent_claims[1 - SPENT_CLAIMS :], message.claim_id]
    return _answer(hub, attempt)


async def drain(hub: Hub, principal: Principal, message: Drain) -> None:
    """The runner finishes what it has; its open poll ends, and nothing more is offered to it."""
    authorise(principal, "work")
    runner = hub.dispatch.fleet.live.get(principal.name)
    if runner is None:
        raise NotFound("this runner is not registered any more")
    await runners.set_state(hub, runner, "draining", "its process is shutting down")
    if runner.open_claim is not None:
        hub.dispatch.close(runner, runner.open_claim, heard=False)


async def _wait(opened: OpenClaim, wait_s: float, gone: asyncio.Event | None) -> bool:
    """Wait for the answer; True unless the runner left first. A job being given is waited for."""
    left = asyncio.ensure_future(gone.wait()) if gone is not None else None
    try:
        waited: set[asyncio.Future[Any]] = {opened.answer}
        if left is not None:
            waited.add(left)
        if wait_s > 0 and not opened.answer.done():
            await asyncio.wait(waited, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        return left is None or not left.done()
    finally:
        if left is not None:
            left.cancel()


def _record(hub: Hub, runner: LiveRunner, message: Claim, now_ms: int) -> None:
    """Take over what the claim says, and write it where it is news."""
    before = runner.offer
    runner.record(message, now_ms)
    news = before is None or _slow(before) != _slow(runner.offer)
    if news or now_ms - runner.saved_ms >= SAVE_EVERY_MS:
        runner.saved_ms = now_ms
        hub.dispatch.tasks.spawn(runners.save(hub, runner))


def _slow(offer: object) -> tuple[object, ...]:
    """What a restart should remember of an offer; figures that change from poll to poll do not count."""
    names = ("tiers", "arch", "labels", "images", "max_jobs", "cpus", "memory_mib", "speed_class")
    return tuple(getattr(offer, name) for name in names)


def _repeated(runner: LiveRunner, message: Claim) -> LiveAttempt | None:
    """The attempt that this claim, or one whose answer the runner never saw, has led to."""
    listed = {box.job for box in message.running}
    for attempt in runner.attempts.values():
        same = message.claim_id is not None and attempt.claim_id == message.claim_id
        unheard = not attempt.confirmed and attempt.job.id not in listed
        if same or unheard:
            return attempt
    return None


def _answer(hub: Hub, attempt: LiveAttempt) -> Assignment:
    if attempt.answer is None:  # taken over at start: the lease and the sentence are in the store
        attempt.answer = assignment(attempt, hub.config.lease_ms)
    return attempt.answer


def _replaced() -> Conflict:
    return Conflict("another, newer process uses this token: give each runner process a token of its own")


async def _meet(hub: Hub, runner: LiveRunner, message: Claim, address: str, now_ms: int) -> None:
    """Tell processes with one token apart: the newest is served, an older one is refused.

    What an older process ran and the new one does not list is lost now, unless the older is seen
    to be alive (its claim is open): then its attempts live on by their own leases.
    """
    instance = message.instance
    if instance is None:
        return
    runner.meet(instance, address, now_ms)
    if instance in runner.replaced:
        raise _replaced()
    before, runner.instance = runner.instance, instance
    if before == instance:
        return
    if runner.state == "draining" and runner.state_reason:  # it drained to shut down; this is a new life
        await runners.set_state(hub, runner, "active", "")
    if runner.state == "quarantined":
        await runners.set_state(hub, runner, "active", "")
    runner.not_started = 0
    if before is None:
        return
    runner.replaced = [*runner.replaced[-8:], before]
    alive = runner.open_claim is not None and runner.open_claim.instance == before
    if runner.open_claim is not None:
        hub.dispatch.close(runner, runner.open_claim, heard=False)
    if alive:
        log.warning(
            "runner %s: two processes use its token; the newer, at %s, is served", runner.name, address
        )
        return
    listed = {box.job for box in message.running}
    for attempt in [one for one in runner.attempts.values() if one.job.id not in listed]:
        if attempt.instance == before:
            await attempts.lost(hub, attempt, "its runner was started anew")
