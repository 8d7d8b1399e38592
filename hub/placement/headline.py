"""The headline of each kind of waiting, each made in one place.

Invariant: a name that the reader may not see does not occur, nor does what only that runner's owner
may know. Which kind holds is decided in `cause`, not here.
"""

from collections.abc import Collection, Sequence

from hub.placement.cause import Cause, Stuck
from hub.placement.lack import ROOM, said_of_many
from hub.placement.model import Lack
from hub.placement.words import count, listing, named, ordinal, whole_seconds_up

UNREADABLE = "cannot tell: the runners could not be read (this is not a full fleet: ask again)"


def of(cause: Cause, now_ms: int, visible: Collection[str] | None = None) -> str:
    """What one reader is told. `now_ms`: what a hold has left is counted from it; `visible`: None: all."""
    match cause.kind:
        case "needs":
            return needs(cause.needs)
        case "group" if cause.group is not None:
            return group(cause.group.name, cause.group.limit, cause.group.runs)
        case "held":
            return held(cause.runner, cause.better, cause.until_ms - now_ms, visible)
        case "turn":
            return turn(cause.place, cause.runner, visible)
        case "busy" if cause.lack is not None:
            return busy(cause.runner, cause.lack, cause.unheard, cause.kept, visible)
        case "silent":
            return silent(cause.unheard, cause.of) if cause.readable else UNREADABLE
        case "nowhere" if cause.stuck is not None:
            return nowhere(cause.stuck, visible)
    return none(cause.project)


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


def held(awaited: str, better: str, left_ms: int, visible: Collection[str] | None) -> str:
    """`held for earth-9 (holds the image), 11 s left`. `better`: what the awaited runner has."""
    name = _name(awaited, visible, "a better runner")
    return f"held for {name} ({better}), {whole_seconds_up(max(0, left_ms))} s left"


def turn(place: int | None, runner: str, visible: Collection[str] | None) -> str:
    """`next in line on earth-9`, `3rd in line`. `place` counts from 1; None: it was not worked out."""
    if place is None:
        return "in line for a runner that has room"
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


def nowhere(stuck: Stuck, visible: Collection[str] | None) -> str:
    """`no runner can take it: 4 runners, all lack label gpu`, or the fewest changes that would mend it."""
    number = f"no runner can take it: {count(stuck.serving, 'runner')}"
    if stuck.serving == 1 and len(stuck.lasting) == 1:
        return f"{number}, it {_phrase(stuck.lasting[0], stuck.nearest, visible)}"
    if (shared := _shared(stuck, visible)) is not None:
        return f"{number}, all {said_of_many(shared)}"
    name = _name(stuck.nearest, visible, "one")
    phrases = [_phrase(lack, stuck.nearest, visible).partition(";")[0] for lack in stuck.lasting]
    changes = "; ".join(lack.remedy.text for lack in stuck.lasting if lack.remedy is not None)
    return f"{number}; nearest is {name}, which {' and '.join(phrases)}: {changes}"


def _shared(stuck: Stuck, visible: Collection[str] | None) -> str | None:
    """The first lasting lack that all of several runners have in the same words; None: there is none."""
    out = {_phrase(lack, name, visible) for name, lack in stuck.quarantined}
    if len(out) == 1:
        return out.pop()
    return None if stuck.shared is None else stuck.shared.text


def _name(runner: str, visible: Collection[str] | None, instead: str) -> str:
    return runner if visible is None or runner in visible else instead


def _phrase(lack: Lack, runner: str, visible: Collection[str] | None) -> str:
    """The lack's sentence; without what others wrote of a runner that the reader may not see."""
    if visible is not None and lack.abroad is not None:
        return lack.abroad
    if visible is None or runner in visible or lack.code not in ("quarantined", "declined"):
        return lack.text
    return lack.text.partition(":")[0]
