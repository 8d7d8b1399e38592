"""Why a job waits: exactly one kind, its headline, and the runners with what each lacks.

Worked out from the same fit as the claim. `judge` judges a demand once on every runner; `reason`
makes the answer for one job and one reader from it; the kind is decided in `cause`. "Full" and "cannot
tell" send a person to different places and are never reported as one another. What the reader may not
see is counted, not named, in the headline too.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from hub.placement import headline
from hub.placement.cause import UNREADABLE, Cause, GroupFull, Kind, cause
from hub.placement.headroom import Headroom, headroom
from hub.placement.judgement import Judgement, Verdict, judge
from hub.placement.lack import as_told
from hub.placement.model import Fleet, Lack, QueuedJob, Remedy
from hub.placement.remedy import fewest
from hub.placement.turn import Rivals, ahead, holding

__all__ = [
    "GroupFull",
    "Judgement",
    "Kind",
    "RunnerLacks",
    "Verdict",
    "Waiting",
    "cause_of",
    "explain",
    "judge",
    "list_runners",
    "place_in_line",
    "reason",
]

LISTED = 50  # runners listed with one reason; the others are counted: a page and a message stay small


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerLacks:
    """A runner and all that it lacks, in the one order; empty: it could take the job now."""

    runner: str
    lacks: tuple[Lack, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Why a job waits."""

    kind: Kind
    headline: str
    runners: tuple[RunnerLacks, ...] = ()
    more: int = 0  # runners counted, not named: beyond the bound or the reader's reach
    mend: tuple[Remedy, ...] = ()  # `nowhere`: the fewest changes that, all made, let one runner take it


def reason(
    job: QueuedJob,
    judgement: Judgement | None,
    place_in_line: int | None = 1,
    *,
    needs: Sequence[str] = (),
    group: GroupFull | None = None,
    visible: Collection[str] | None = None,
    limit: int = LISTED,
    fleet: Fleet | None = None,
) -> Waiting:
    """Why `job` waits, for one reader.

    `judgement` None: the runners could not be read, which is told as such and never as a full fleet.
    `place_in_line`: from 1; read only where the job fits. `needs`: jobs it depends on that are not
    done. `group`: its concurrency group, where that is full. `visible`: names the reader may see;
    None: all. `fleet`: the one that was judged; None: what would mend `nowhere` is not worked out.
    """
    why = cause_of(job, judgement, place_in_line, needs=needs, group=group)
    now_ms = 0 if judgement is None else judgement.now_ms
    text = headline.of(why, now_ms, visible)
    if judgement is None:
        return Waiting(kind=why.kind, headline=text)
    runners, more = list_runners(judgement, visible, limit=limit)
    mend: tuple[Remedy, ...] = ()
    if why.kind == "nowhere" and fleet is not None:
        mend = fewest(job, judgement.serving, fleet, judgement.now_ms, visible)
    return Waiting(kind=why.kind, headline=text, runners=runners, more=more, mend=mend)


def cause_of(
    job: QueuedJob,
    judgement: Judgement | None,
    place_in_line: int | None = None,
    *,
    needs: Sequence[str] = (),
    group: GroupFull | None = None,
) -> Cause:
    """The first kind that holds of needs, group and those that the runners decide; see `reason`."""
    if needs:
        return Cause(kind="needs", needs=tuple(needs))
    if group is not None:
        return Cause(kind="group", group=group)
    return UNREADABLE if judgement is None else cause(job, judgement.seen(job), place_in_line)


def list_runners(
    judgement: Judgement,
    visible: Collection[str] | None = None,
    *,
    without: str | None = None,
    limit: int = LISTED,
) -> tuple[tuple[RunnerLacks, ...], int]:
    """The runners with their lacks, nearest to a fit first, and how many more there are.

    `visible`: names the reader may see; None: all. `without`: a runner that is told of elsewhere.
    """
    others = [verdict for verdict in judgement.verdicts if verdict.runner.name != without]
    seen = (verdict for verdict in others if visible is None or verdict.runner.name in visible)
    listed = tuple(
        RunnerLacks(runner=verdict.runner.name, lacks=as_told(verdict.lacks, everywhere=visible is None))
        for verdict in islice(seen, limit)
    )
    return listed, len(others) - len(listed)


def explain(
    job: QueuedJob,
    fleet: Fleet,
    queue: Iterable[QueuedJob],
    now_ms: int,
    *,
    needs: Sequence[str] = (),
    group: GroupFull | None = None,
    visible: Collection[str] | None = None,
) -> Waiting:
    """Why `job` waits in `queue`, everything judged anew: for one question, not for a whole queue."""
    rooms = {name: headroom(runner, fleet.settings) for name, runner in fleet.runners.items()}
    judgement = judge(job, fleet, now_ms, rooms)
    place = 1
    if judgement.fitting and not needs and group is None:
        place = place_in_line(job, judgement, fleet, queue, rooms)
    return reason(job, judgement, place, needs=needs, group=group, visible=visible, fleet=fleet)


def place_in_line(
    job: QueuedJob,
    judgement: Judgement,
    fleet: Fleet,
    queue: Iterable[QueuedJob],
    rooms: Mapping[str, Headroom] | None = None,
) -> int:
    """1 more than the queued jobs ahead that could be given a runner on which `job` fits too."""
    wanted = set(judgement.fitting)
    contends: dict[object, bool] = {}  # by demand and priority, and by job where it has declines
    rivals: dict[str, Rivals] = {}
    for other in queue:
        if other.id == job.id or other.priority < job.priority:
            continue
        key: object = other.id if other.declines else (other.demand, other.priority)
        if key not in contends:
            contends[key] = not wanted.isdisjoint(judge(other, fleet, judgement.now_ms, rooms).fitting)
        if contends[key]:
            its = rivals.setdefault(other.demand.owner, Rivals())
            its.higher += other.priority > job.priority
            its.equal += other.priority == job.priority
            its.older += other.priority == job.priority and other.order < job.order
    return 1 + ahead(job, rivals, holding(fleet))
