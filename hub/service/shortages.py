"""An attempt ended for want of memory or disk: what is kept of it, and whether more can be had.

The figures and sentences are `placement.shortage`'s; whether any runner could ever hold the job is
asked of `placement.fit`. Here is only what a finish means for the job, and the form it is stored in.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hub.dispatch.attempts import LiveAttempt
from hub.placement.fit import shape, shape_lacks
from hub.placement.model import Demand, Shortage
from hub.placement.shortage import ended_sentence, raised, shortage, with_shortage
from hub.service.hub import Hub
from hub.wire.claim import Finish, Short
from hub.wire.runs import SHORTAGES
from hub.wire.runs import Shortage as ShortageView


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """What a finish says of a job that ran out."""

    short: Short
    sentence: str  # the job's error, should it not be tried again
    shortages: tuple[Shortage, ...]  # the job's from now on
    more: bool  # some registered runner could hold what it asks for now


def of_finish(hub: Hub, attempt: LiveAttempt, message: Finish) -> Shortfall | None:
    """What the attempt ran out of; None: it did not fail, or for another reason."""
    if message.short is None or message.outcome not in ("failed", "error"):
        return None
    job, of = attempt.job, message.short
    last_mib = attempt.memory_mib if of == "memory" else attempt.disk_mib
    told_mib = message.peak_memory_mib if of == "memory" else message.peak_disk_mib
    peak_mib = last_mib if told_mib is None else told_mib
    found = shortage(job.demand, of, attempt.runner, peak_mib, job.shortages)
    shortages = job.shortages if found is None else with_shortage(job.shortages, found)
    more = some_runner_holds(hub, raised(job.demand, shortages))
    sentence = ended_sentence(of, found, attempt.runner, more=more)
    if message.outcome == "error" and message.error:  # the machinery's own words; a step's are in the log
        sentence += f" ({message.error})"
    return Shortfall(short=of, sentence=sentence, shortages=shortages, more=more)


def some_runner_holds(hub: Hub, demand: Demand) -> bool:
    """Whether some registered runner lacks nothing for good of `demand`; who never polled may have all."""
    fleet = hub.dispatch.fleet
    shapes = {shape(runner) for runner in fleet.values()}
    return any(not shape_lacks(demand, one, fleet.value) for one in shapes)


def to_json(shortages: Iterable[Shortage]) -> str:
    """As the store keeps them."""
    return SHORTAGES.dump_json(views(shortages)).decode()


def from_json(stored: str | None) -> tuple[Shortage, ...]:
    """As the store had them. Raises ValueError where that says nothing valid."""
    if stored is None:
        return ()
    return tuple(
        Shortage(of=one.of, had_mib=one.had_mib, asks_mib=one.asks_mib, runner=one.runner)
        for one in SHORTAGES.validate_json(stored)
    )


def views(shortages: Iterable[Shortage]) -> list[ShortageView]:
    """As they travel."""
    return [
        ShortageView(of=one.of, had_mib=one.had_mib, asks_mib=one.asks_mib, runner=one.runner)
        for one in shortages
    ]
