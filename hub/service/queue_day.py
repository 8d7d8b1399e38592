"""The day behind the queue: how many waited, and how long, as far as a reader's token reaches."""

from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.store import queue_day as store
from hub.store.queue_day import Day

__all__ = ["Day", "day"]

BUCKET_MS = 15 * 60_000
BUCKETS = 96  # a day
FRESH_MS = 60_000  # an answer is told again for this long: a page asks every few seconds
MAX_READERS = 100  # whose answers are remembered


async def day(hub: Hub, principal: Principal) -> Day:
    """The last day in quarters of an hour."""
    authorise(principal, "read")
    now_ms = hub.now_ms()
    scope = (principal.scope.owner, principal.scope.project)
    known = hub.days.get(scope)
    if known is not None and 0 <= now_ms - known.as_of_ms < FRESH_MS:
        return known
    async with hub.store.read() as conn:
        found = await store.day(
            conn,
            now_ms=now_ms,
            bucket_ms=BUCKET_MS,
            count=BUCKETS,
            longest_ms=int(hub.config.queue_s * 1000),
            owner=scope[0],
            project=scope[1],
        )
    if len(hub.days) >= MAX_READERS:
        hub.days.clear()
    hub.days[scope] = found
    return found
