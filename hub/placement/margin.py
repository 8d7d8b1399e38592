"""By what the chosen runner was ahead of the next, and what a job was held for and whether that paid.

Beside the placed sentence and of the same moment. Both name another runner, so they are kept with the
name apart: a reader who may not see that runner is told `another runner`.
"""

from collections.abc import Collection
from dataclasses import dataclass

from hub.placement.choose import hold_limit_ms
from hub.placement.images import images_phrase
from hub.placement.model import Demand, Offer, QueuedJob, Runner, Settings
from hub.placement.rank import Preference

NAME = "{runner}"  # stands for the name of the other runner


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A sentence that may name one runner, as `NAME`. `runner` None: it names none."""

    text: str
    runner: str | None = None

    def to(self, visible: Collection[str] | None) -> str:
        """The sentence for a reader; `visible`: the names it may see. None: all."""
        if self.runner is None:
            return self.text
        seen = visible is None or self.runner in visible
        return self.text.replace(NAME, self.runner if seen else "another runner")


def margin(
    demand: Demand,
    chosen: Runner,
    its: Preference,
    other: Runner | None,
    others: Preference | None,
) -> Told:
    """By what `chosen` was ahead of `other`, the best of those that could have taken the job too.

    `its` and `others` are their preferences. `other` None: nobody else could take it.
    """
    if other is None or others is None:
        return Told(text="no other runner could take it")
    ahead = its < others
    if its[:3] == others[:3] and not ahead:
        return Told(text=f"as good as {NAME}, which was not given it", runner=other.name)
    why = _difference(demand, chosen, its, other, others)
    if ahead:
        return Told(text=f"ahead of {NAME}: {why}", runner=other.name)
    late = "whose room is promised to jobs before it" if other.standing.waiting else "which did not ask"
    return Told(text=f"behind {NAME}, {late}: {why}", runner=other.name)


def waited(job: QueuedJob, chosen: str, now_ms: int, settings: Settings) -> tuple[Told, bool | None] | None:
    """What `job` was held for, and whether the wait paid: the awaited runner took it. None: it was not held.

    The second is None where it is no longer known who was awaited.
    """
    if job.held_since_ms is None:
        return None
    held = f"held {held_for(job, now_ms, settings)} for"
    if job.awaited is None:
        return Told(text=f"{held} a better runner"), None
    paid = job.awaited == chosen
    return Told(
        text=f"{held} {NAME}, which {'took it' if paid else 'did not take it'}", runner=job.awaited
    ), paid


def held_for(job: QueuedJob, now_ms: int, settings: Settings) -> str:
    """`4 s`: how long a job was held; no longer than a hold may last, however long it then still waited."""
    since_ms = now_ms if job.held_since_ms is None else job.held_since_ms
    held_ms = min(now_ms - since_ms, hold_limit_ms(job, settings))
    return f"{held_ms // 1000} s" if held_ms >= 1000 else "less than 1 s"


def _difference(demand: Demand, chosen: Runner, its: Preference, other: Runner, others: Preference) -> str:
    """The first part of the preference in which the two differ, in words, of `chosen` against `other`."""
    kept, images, speed, unwished, (slots, unknown, load, _) = its
    kept_there, images_there, speed_there, unwished_there, ease_there = others
    slots_there, unknown_there, load_there, _ = ease_there
    if kept != kept_there:
        return "it was not lost under this job" if kept < kept_there else "it was lost under this job before"
    if images != images_there:
        mine, yours = (images_phrase(demand, one.offer or Offer(tiers=())) for one in (chosen, other))
        return f"it {mine}, the other {yours}"
    if speed != speed_there:
        return f"speed class {-speed} against {-speed_there}"
    if unwished != unwished_there:
        return f"the last job of this run ran {'on it' if unwished < unwished_there else 'on the other'}"
    if slots != slots_there:
        return f"free slots, {-slots} against {-slots_there}"
    if unknown != unknown_there:
        return f"the load of {'the other' if unknown < unknown_there else 'it'} is not known"
    if load != load_there:
        return f"load, {load:.2f} against {load_there:.2f}"
    return "equal in all but the name"
