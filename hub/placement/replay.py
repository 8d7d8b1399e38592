"""Decisions judged again: a journal's entries, and the plain board asked anew at each decision.

Nothing that the hub remembered is used: the fleet and the queue are those that the entries before the
decision come to, and the same `choose` and `offer` judge them from scratch. Under the settings of the
journal every plan is the same; one that is not is a fault of the hub's memory, or of the file.

Invariant: each decision is judged on the state that was RECORDED, one step. Under other settings a
changed decision would have changed all that follows; what comes of that is for `simulate`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

from hub.placement.board import PlainBoard
from hub.placement.choose import choose, offer
from hub.placement.journal import ClaimDecided, Decided, Journal, ReadyDecided, Scene
from hub.placement.model import Fleet, Plan, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A decision, and what it is now. `now` None: the journal does not know what it was made for."""

    at_ms: int
    decided: Decided
    now: Plan | None

    @property
    def same(self) -> bool:
        """Whether both plans are one, to the last field."""
        return self.decided.plan == self.now


def replay(
    journal: Journal, settings: Settings | None = None, *, last: int | None = None
) -> Iterator[Judged]:
    """Every decision of the journal in its order, or the `last` ones only, judged again.

    `settings` None: those it was made under. Each costs what the plain board does: all runners, and
    all jobs up to the one that is taken.
    """
    scene = Scene()
    under = journal.settings if settings is None else settings
    skip = 0 if last is None else max(0, decisions(journal) - last)
    for entry in journal.entries:
        what = entry.what
        if not isinstance(what, ClaimDecided | ReadyDecided):
            scene.apply(what)
        elif skip:
            skip -= 1
        else:
            yield Judged(at_ms=entry.at_ms, decided=what, now=judge(scene, what, entry.at_ms, under))


def decisions(journal: Journal) -> int:
    """How many decisions the journal has."""
    return sum(isinstance(entry.what, ClaimDecided | ReadyDecided) for entry in journal.entries)


def judge(scene: Scene, decided: Decided, now_ms: int, settings: Settings) -> Plan | None:
    """What the rules say for the same question on `scene`; None: it knows no such runner or job."""
    fleet = Fleet(runners=scene.runners, images=scene.images, settings=settings)
    board = PlainBoard(fleet, scene.jobs.values(), now_ms)
    if isinstance(decided, ClaimDecided):
        return choose(board, decided.runner) if decided.runner in scene.runners else None
    job = scene.jobs.get(decided.job)
    return None if job is None else offer(board, job)


def held_for(settings: Settings, hold_ms: int) -> Settings:
    """The same settings with another hold."""
    return replace(settings, hold_ms=hold_ms)


def differences(judged: Judged) -> tuple[str, ...]:
    """What is not the same, one sentence a job: "job 17: mars-1 instead of earth-9"."""
    if judged.same:
        return ()
    if judged.now is None:
        asked = judged.decided
        who = asked.runner if isinstance(asked, ClaimDecided) else f"job {asked.job}"
        return (f"{who}: a decision about it, and no entry that tells of it",)
    before, now = _fates(judged.decided.plan), _fates(judged.now)
    found = tuple(
        f"job {job}: {now.get(job, 'stays queued')} instead of {before.get(job, 'staying queued')}"
        for job in sorted(before.keys() | now.keys())
        if before.get(job) != now.get(job)
    )
    return found or (f"the same for every job, but not {_unlike(judged.decided.plan, judged.now)}",)


def _fates(plan: Plan) -> dict[int, str]:
    """What becomes of each job of a plan, in words."""
    fates = {hold.job: f"held for {hold.awaited}" for hold in plan.holds}
    if plan.take is not None and plan.runner is not None:
        fates[plan.take.id] = plan.runner
    return fates


def _unlike(before: Plan, now: Plan) -> str:
    """The names of the fields in which two plans with the same fates differ."""
    names = (field.name for field in fields(Plan))
    return ", ".join(name for name in names if getattr(before, name) != getattr(now, name))
