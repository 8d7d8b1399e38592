"""Why a job waits, before it is said to anybody: the kind, and the facts that its headline tells.

The kind is decided here and nowhere else, from what was `Seen` of the runners: by `judgement`, which
judges all of them in full, or by `lineup`, which looks no further than the kind needs. A cause can be
kept and told to any reader later (`headline.of`); it holds no words made for one of them.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hub.placement.choose import hold_is_over, hold_limit_ms
from hub.placement.images import LACKS, images_phrase, images_rank
from hub.placement.model import Lack, QueuedJob, Runner, Settings

Kind = Literal["needs", "group", "none", "held", "turn", "busy", "silent", "nowhere"]
Best = tuple[int, int, int]  # the first three of a `Preference`: the rank, negated; less is better


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFull:
    """The concurrency group that keeps a job back."""

    name: str
    limit: int
    runs: tuple[int, ...] = ()  # that hold it and that the reader may see


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """A runner that could take the job now."""

    runner: Runner
    best: Best
    there: bool  # it may be awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class Stuck:
    """The runners that serve a project, where each of them has a lasting lack."""

    serving: int
    nearest: str
    lasting: tuple[Lack, ...]  # those of the nearest, in their order
    shared: Lack | None  # the first that all have in the same words, whoever reads them; None: there is none
    quarantined: tuple[tuple[str, Lack], ...] = ()  # all of them, where each is out for a reason of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was seen of the runners for one job at one instant."""

    now_ms: int
    settings: Settings
    fitting: Sequence[Fitting]  # best first
    could: int  # runners without a lasting lack; read where none fits
    unheard: int  # silent ones among them
    nearest: tuple[str, Lack] | None  # of the others: the one nearest to a fit, and its first lack
    kept: str | None  # the runner that is kept for the job, if it is one that could
    stuck: Callable[[], Stuck | None]  # None: no runner serves the project; asked where none could


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why a job waits. Fields are of the kinds that they are named with; others leave them as they are."""

    kind: Kind
    project: str = ""  # none
    needs: tuple[str, ...] = ()
    group: GroupFull | None = None
    runner: str = ""  # held: the awaited; turn: where it would go; busy: the nearest to a fit
    better: str = ""  # held: what the awaited runner has
    until_ms: int = 0  # held: when the hold ends
    place: int | None = None  # turn: in line, from 1; None: not worked out
    lack: Lack | None = None  # busy: the first of the nearest
    kept: str | None = None  # busy: the runner that is kept for the job
    unheard: int = 0  # busy, silent: how many that could take it were not heard from
    of: int = 0  # silent: of how many
    stuck: Stuck | None = None  # nowhere
    readable: bool = True  # silent: False where the runners could not be read at all

    @property
    def meaning(self) -> tuple[str, ...]:
        """Equal while a reader would be told the same but for figures, names of equals and the time."""
        match self.kind:
            case "needs":
                return (self.kind, *self.needs)
            case "group" if self.group is not None:
                return (self.kind, self.group.name, *map(str, self.group.runs))
            case "held":
                return (self.kind, self.runner)
            case "busy" if self.lack is not None:
                return (self.kind, self.lack.code, self.kept or "", "unheard" if self.unheard else "")
            case "nowhere" if self.stuck is not None:
                shared = self.stuck.shared
                told = self.stuck.lasting if shared is None else (shared,)
                return (self.kind, "all" if shared is not None else "", *(lack.code for lack in told))
        return (self.kind,)


UNREADABLE = Cause(kind="silent", readable=False)


def cause(job: QueuedJob, seen: Seen, place: int | None = None) -> Cause:
    """Why `job` waits for a runner: the first kind that holds. `place`: in line, where it fits somewhere."""
    awaited = next((one for one in seen.fitting if one.runner.name == job.held_for), None)
    if awaited is not None:
        bests = (one.best for one in seen.fitting)
        if (found := held(job, awaited, bests, seen.now_ms, seen.settings)) is not None:
            return found
    if seen.fitting:
        goes_to = next((one for one in seen.fitting if one.there), seen.fitting[0])
        return Cause(kind="turn", runner=goes_to.runner.name, place=place)
    if seen.nearest is not None:
        name, lack = seen.nearest
        return Cause(kind="busy", runner=name, lack=lack, kept=seen.kept, unheard=seen.unheard)
    if seen.could:
        return Cause(kind="silent", unheard=seen.unheard, of=seen.could)
    stuck = seen.stuck()
    if stuck is None:
        return Cause(kind="none", project=job.demand.project)
    return Cause(kind="nowhere", stuck=stuck)


def held(
    job: QueuedJob, awaited: Fitting, bests: Iterable[Best], now_ms: int, settings: Settings
) -> Cause | None:
    """The hold of `job` for `awaited`, on which it fits. `bests`: of all runners on which it fits.

    None: it is not held for it, or not any more, or the runner is not there to be awaited.
    """
    if job.held_for != awaited.runner.name or not awaited.there or hold_is_over(job, now_ms, settings):
        return None
    since_ms = now_ms if job.held_since_ms is None else job.held_since_ms
    return Cause(
        kind="held",
        runner=awaited.runner.name,
        better=_why_better(job, awaited, bests),
        until_ms=since_ms + hold_limit_ms(job, settings),
    )


def _why_better(job: QueuedJob, awaited: Fitting, bests: Iterable[Best]) -> str:
    """What the awaited runner has that the others who could take the job have not."""
    best, offer = awaited.best, awaited.runner.offer
    assert offer is not None, "only a runner that polled is awaited"
    below = min((other for other in bests if other > best), default=None)
    if below is not None and best[0] != below[0]:
        return "it was not lost under this job"
    has = job.demand.images and images_rank(job.demand, offer) != LACKS
    if has and (below is None or best[1] != below[1]):
        return images_phrase(job.demand, offer)
    if offer.speed_class is not None:
        return f"speed class {offer.speed_class}"
    return images_phrase(job.demand, offer)


class StuckOf:
    """Puts a `Stuck` together from runners that serve a project, or sets of them with equal lacks."""

    def __init__(self) -> None:
        self.serving = 0
        self._shared: list[Lack] | None = None
        self._quarantined: list[tuple[str, Lack]] = []

    def add(self, name: str, lasting: Sequence[Lack], number: int = 1) -> None:
        """`number` runners lack `lasting` for good; where they are quarantined it is one, called `name`."""
        self.serving += number
        if lasting and lasting[0].code == "quarantined":
            self._quarantined.append((name, lasting[0]))
        said = [lack for lack in lasting if lack.code != "quarantined"]
        if self._shared is None:
            self._shared = said
        elif self._shared:
            texts = {lack.text for lack in said}
            self._shared = [lack for lack in self._shared if lack.text in texts]

    def done(self, nearest: str, lasting: tuple[Lack, ...]) -> Stuck:
        """The whole; `lasting`: what the `nearest` runner lacks for good."""
        several = self.serving > 1
        every = several and len(self._quarantined) == self.serving
        return Stuck(
            serving=self.serving,
            nearest=nearest,
            lasting=lasting,
            shared=replace(self._shared[0], remedy=None) if several and self._shared else None,
            quarantined=tuple(sorted(self._quarantined, key=lambda one: one[0])) if every else (),
        )
