"""The headline of each kind of waiting, each made in one place.

Invariant: a name that the reader may not see does not occur, nor does what only that runner's owner
may know. Which kind holds is decided in `waiting`, not here.
"""

from collections.abc import Collection, Sequence

from hub.placement.choose import hold_limit_ms
from hub.placement.images import images_phrase
from hub.placement.judgement import Judgement, Verdict
from hub.placement.lack import ROOM, said_of_many
from hub.placement.model import Lack, QueuedJob
from hub.placement.words import count, listing, named, ordinal, whole_seconds_up

UNREADABLE = "cannot tell: the runners could not be read (this is not a full fleet: ask again)"


def needs(names: Sequence[str]) -> str:
    """`waits for build, lint`."""
    return f"waits for {listing(names)}"


def group(name: str, limit: int, runs: Sequence[int]) -> str:
    """`waits for run 41 (group deploy-prod, 1 at a time)`; without the run where it may not be seen."""
    for_whom = named("run", [str(run) for run in runs]) if runs else "its turn"
    return f"waits for {for_whom} (group {name}, {limit} at a time)"


def none(project: str) -> str:
    """`no runner serves andy/demo`."""
    return f"no runner serves {project}"


def held(
    job: QueuedJob,
    awaited: Verdict,
    serving: Sequence[Verdict],
    judgement: Judgement,
    visible: Collection[str] | None,
) -> str:
    """`held for earth-9 (holds the image), 11 s left`."""
    name = _name(awaited.runner.name, visible, "a better runner")
    held_ms = 0 if job.held_since_ms is None else judgement.now_ms - job.held_since_ms
    left = whole_seconds_up(hold_limit_ms(job, judgement.settings) - held_ms)
    return f"held for {name} ({_why_better(awaited, serving, judgement)}), {left} s left"


def turn(place: int, runner: str, visible: Collection[str] | None) -> str:
    """`next in line on earth-9`, `3rd in line`. `place` counts from 1."""
    if place > 1:
        return f"{ordinal(place)} in line"
    return f"next in line on {_name(runner, visible, 'a runner')}"


def busy(runner: str, lack: Lack, unheard: int, kept: str | None, visible: Collection[str] | None) -> str:
    """`waits for room: earth-9 runs 2 of 2 jobs`, and how many others were not heard from.

    `kept`: the runner that is kept for the job; None: none is.
    """
    waits = "waits for room" if lack.code in ROOM else "waits"
    others = ""
    if unheard:
        were = "was" if unheard == 1 else "were"
        others = f" ({count(unheard, 'runner')} that could take it {were} not heard from)"
    name = _name(runner, visible, "a runner")
    keeps = ""
    if kept is not None:
        keeps = f"; {'it' if kept == runner else _name(kept, visible, 'a runner')} is kept for this job"
    return f"{waits}: {name} {_phrase(lack, runner, visible)}{keeps}{others}"


def silent(unheard: int, of: int) -> str:
    """`cannot tell: 3 of 3 runners that could take it were not heard from (…)`."""
    were = "was" if unheard == 1 else "were"
    return (
        f"cannot tell: {unheard} of {count(of, 'runner')} that could take it {were} not heard from"
        " (this is not a full fleet: check the runners)"
    )


def nowhere(serving: Sequence[Verdict], visible: Collection[str] | None) -> str:
    """`no runner can take it: 4 runners, all lack label gpu`, or the fewest changes that would mend it.

    `serving`: the runners that serve the project, nearest to a fit first; each has a lasting lack.
    """
    number = f"no runner can take it: {count(len(serving), 'runner')}"
    nearest = serving[0]
    lasting = [lack for lack in nearest.lacks if lack.lasting]
    if len(serving) == 1 and len(lasting) == 1:
        return f"{number}, it {_phrase(lasting[0], nearest.runner.name, visible)}"
    if (shared := _shared(serving, visible)) is not None:
        return f"{number}, all {said_of_many(shared)}"
    name = _name(nearest.runner.name, visible, "one")
    phrases = [_phrase(lack, nearest.runner.name, visible).partition(";")[0] for lack in lasting]
    changes = "; ".join(lack.remedy.text for lack in lasting if lack.remedy is not None)
    return f"{number}; nearest is {name}, which {' and '.join(phrases)}: {changes}"


def _shared(serving: Sequence[Verdict], visible: Collection[str] | None) -> str | None:
    """The first lasting lack that all of several runners have in the same words; None: there is none."""
    if len(serving) < 2:
        return None
    said = [
        [_phrase(lack, verdict.runner.name, visible) for lack in verdict.lacks if lack.lasting]
        for verdict in serving
    ]
    everywhere = set(said[0]).intersection(*said[1:])
    return next((text for text in said[0] if text in everywhere), None)


def _why_better(awaited: Verdict, serving: Sequence[Verdict], judgement: Judgement) -> str:
    """What the awaited runner has that the others who could take the job have not."""
    best = awaited.preference[:3]
    others = [verdict.preference[:3] for verdict in serving if not verdict.lacks]
    below = min((other for other in others if other > best), default=None)
    offer = awaited.runner.offer
    assert offer is not None, "only a runner that polled is awaited"
    if below is not None and best[0] != below[0]:
        return "it was not lost under this job"
    holds = judgement.demand.images and judgement.demand.images <= offer.images
    if holds and (below is None or best[1] != below[1]):
        return images_phrase(judgement.demand, offer)
    if offer.speed_class is not None:
        return f"speed class {offer.speed_class}"
    return images_phrase(judgement.demand, offer)


def _name(runner: str, visible: Collection[str] | None, instead: str) -> str:
    return runner if visible is None or runner in visible else instead


def _phrase(lack: Lack, runner: str, visible: Collection[str] | None) -> str:
    """The lack's sentence; without what others wrote of a runner that the reader may not see."""
    if visible is not None and lack.abroad is not None:
        return lack.abroad
    if visible is None or runner in visible or lack.code not in ("quarantined", "declined"):
        return lack.text
    return lack.text.partition(":")[0]
