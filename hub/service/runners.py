"""Runners: list, add, change, remove, and what is written of the live ones."""

import json
from typing import cast

from hub.dispatch.fleet import LiveRunner, offer_of
from hub.errors import Conflict, NotFound
from hub.placement.model import State
from hub.service import ready
from hub.service.access import Principal, authorise, hash_secret, new_secret
from hub.service.hub import Hub
from hub.service.reach import sees
from hub.service.views import runner_view
from hub.store import runners as store
from hub.store.errors import Taken
from hub.store.rows import RunnerRow
from hub.wire.claim import Claim
from hub.wire.fleet import ChangeRunner, NewRunner, NewRunnerToken, RunnerList, RunnerView


async def listing(hub: Hub, principal: Principal) -> RunnerList:
    """The runners that could serve a project within the reader's reach, by name."""
    authorise(principal, "read")
    live = sorted(hub.dispatch.fleet.live.values(), key=lambda one: one.name)
    return RunnerList(runners=[runner_view(hub, principal, one) for one in live if sees(principal, one)])


async def view(hub: Hub, principal: Principal, name: str) -> RunnerView:
    """One runner."""
    authorise(principal, "read")
    live = _find(hub, name)
    if not sees(principal, live):
        raise NotFound(f"there is no runner {name}, or your token does not reach it")
    return runner_view(hub, principal, live)


async def add(hub: Hub, principal: Principal, message: NewRunner) -> NewRunnerToken:
    """Register a runner; its token is in the answer and nowhere else. Raises Conflict."""
    authorise(principal, "admin")
    secret = new_secret("shr")

    async def whole() -> None:
        row = store.NewRunner(
            name=message.name,
            token_hash=hash_secret(secret),
            labels=json.dumps(sorted(set(message.labels))),
            owner=message.scope.owner,
            project=message.scope.project,
            created_ms=hub.now_ms(),
        )
        try:
            await store.add(hub.store.writer, row)
        except Taken as error:
            raise Conflict(str(error)) from None
        hub.tokens.by_hash[row.token_hash] = Principal(name=message.name, kind="runner")
        live = LiveRunner(
            name=message.name,
            labels=frozenset(message.labels),
            owner=message.scope.owner,
            project=message.scope.project,
        )
        hub.dispatch.fleet.add(live, hub.now_ms())
        hub.events.tell(("queue",))

    await hub.dispatch.tasks.whole(whole())
    return NewRunnerToken(name=message.name, token=secret)


async def change(hub: Hub, principal: Principal, name: str, message: ChangeRunner) -> RunnerView:
    """Drain or resume a runner, or change its labels or scope; what is None stays."""
    authorise(principal, "admin")
    live = _find(hub, name)

    async def whole() -> None:
        if message.labels is not None:
            live.labels = frozenset(message.labels)
            if live.claim is not None:
                live.offer = offer_of(live.claim, live.labels)
        if message.scope is not None:
            live.owner, live.project = message.scope.owner, message.scope.project
        if message.labels is not None or message.scope is not None:
            hub.dispatch.runner_changed(live)  # at once: no decision may see it changed and listed as before
            changed = store.ChangedRunner(
                name=name,
                labels=json.dumps(sorted(live.labels)),
                scope=store.Scope(owner=live.owner, project=live.project),
            )
            await store.change(hub.store.writer, changed)
        if message.state is not None:
            live.not_started, live.broken_promises = 0, 0
            await set_state(hub, live, message.state, "")
        hub.dispatch.runner_changed(live)
        hub.events.tell(("queue",))

    await hub.dispatch.tasks.whole(whole())
    return runner_view(hub, principal, live)


async def remove(hub: Hub, principal: Principal, name: str) -> None:
    """Forget a runner and its token; what it ran is queued again. Its name stays where it is mentioned."""
    authorise(principal, "admin")
    live = _find(hub, name)

    async def whole() -> None:
        attempts = list(live.attempts.values())
        removed = await store.remove(hub.store.writer, name, now_ms=hub.now_ms())
        hub.tokens.by_hash = {
            digest: one
            for digest, one in hub.tokens.by_hash.items()
            if not (one.kind == "runner" and one.name == name)
        }
        await gone(hub, live)
        for attempt in attempts:
            hub.dispatch.leases.over(attempt)
        for ended in removed.ended.values() if removed is not None else ():
            await ready.follow(hub, ended.changes, lost_on=name)

    await hub.dispatch.tasks.whole(whole())


async def gone(hub: Hub, live: LiveRunner) -> None:
    """The live runner is no more: its claim ends, and what was held for it is offered elsewhere."""
    hub.dispatch.remove_runner(live)
    hub.events.tell(("queue",))


async def set_state(hub: Hub, live: LiveRunner, state: State, reason: str) -> None:
    """Change a runner's state, durably, and let what fits now go to it or elsewhere."""
    live.state, live.state_reason = state, reason
    await save(hub, live)
    hub.dispatch.runner_changed(live)
    hub.events.tell(("queue",))


async def save(hub: Hub, live: LiveRunner) -> None:
    """Write what a restart should know of a runner."""
    await store.save(
        hub.store.writer,
        store.Saved(
            name=live.name,
            state=live.state,
            state_reason=live.state_reason,
            offer=live.claim.model_dump_json(exclude_defaults=True) if live.claim is not None else None,
            instance=live.instance,
            heard_ms=live.heard_ms,
            polled_ms=live.polled_ms,
            idle_memory_mib=live.idle_memory_mib,
            broken_promises=live.broken_promises,
        ),
    )


async def load(hub: Hub) -> None:
    """Know every registered runner and its token, once at start."""
    async with hub.store.read() as conn:
        rows = await store.listing(conn)
    for row in rows:
        hub.tokens.by_hash[row.token_hash] = Principal(name=row.name, kind="runner")
        hub.dispatch.fleet.add(live_runner(row), hub.now_ms())


def live_runner(row: RunnerRow) -> LiveRunner:
    """A runner as the store remembers it; what it last said counts until it says more."""
    labels = frozenset(str(label) for label in json.loads(row.labels))
    live = LiveRunner(
        name=row.name,
        labels=labels,
        owner=row.owner,
        project=row.project,
        state=cast(State, row.state),  # written by `save` from a LiveRunner
        state_reason=row.state_reason,
        heard_ms=row.heard_ms,
        polled_ms=row.polled_ms,
        instance=row.instance,
        idle_memory_mib=row.idle_memory_mib,
        broken_promises=row.broken_promises,
    )
    if row.offer is not None:
        live.claim = Claim.model_validate_json(row.offer)
        live.offer = offer_of(live.claim, labels)
    return live


def _find(hub: Hub, name: str) -> LiveRunner:
    live = hub.dispatch.fleet.live.get(name)
    if live is None:
        raise NotFound(f"there is no runner {name}, or your token does not reach it")
    return live
