"""One demand judged on every runner: what waiting reasons, previews and the fleet view read from.

By `fit.lacks` like everything else. A caller judges each distinct demand once and asks the judgement
as often as it likes; it holds for one instant. Who needs the kind of waiting alone asks `lineup`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hub.placement.cause import Fitting, Seen, Stuck, StuckOf
from hub.placement.fit import lacks
from hub.placement.headroom import Headroom, headroom
from hub.placement.lack import distance
from hub.placement.model import Demand, Fleet, Lack, QueuedJob, Runner, Settings
from hub.placement.rank import Preference, is_there, preference


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One runner, judged for one demand."""

    runner: Runner
    room: Headroom
    lacks: tuple[Lack, ...]  # empty: it fits
    there: bool  # it may be awaited
    preference: Preference

    @property
    def nearness(self) -> tuple[tuple[int, int, int], Preference]:
        """Smaller is nearer to a fit; those that fit are in order of preference."""
        return distance(self.lacks), self.preference

    @property
    def lasting(self) -> tuple[Lack, ...]:
        """What waiting will not mend."""
        return tuple(lack for lack in self.lacks if lack.lasting)

    @property
    def lasts(self) -> bool:
        return any(lack.lasting for lack in self.lacks)

    def has(self, code: str) -> bool:
        return any(lack.code == code for lack in self.lacks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One demand, judged on every runner at one instant; nearest to a fit first."""

    demand: Demand
    settings: Settings
    now_ms: int
    verdicts: tuple[Verdict, ...]

    @property
    def fitting(self) -> tuple[str, ...]:
        """Names of the runners that could take it now, best first."""
        return tuple(verdict.runner.name for verdict in self.verdicts if not verdict.lacks)

    def of(self, runner: str) -> Verdict | None:
        """The verdict on one runner; None: it is not in the fleet."""
        return next((verdict for verdict in self.verdicts if verdict.runner.name == runner), None)

    @property
    def serving(self) -> tuple[Verdict, ...]:
        """The runners that serve the job's project, nearest to a fit first."""
        return tuple(verdict for verdict in self.verdicts if not verdict.has("scope"))

    def seen(self, job: QueuedJob) -> Seen:
        """What `cause` asks, for one of the jobs that share this judgement."""
        fitting = [
            Fitting(runner=verdict.runner, best=verdict.preference[:3], there=verdict.there)
            for verdict in self.verdicts
            if not verdict.lacks
        ]
        could = [verdict for verdict in self.verdicts if verdict.lacks and not verdict.lasts]
        heard = next((verdict for verdict in could if not verdict.has("silent")), None)
        return Seen(
            now_ms=self.now_ms,
            settings=self.settings,
            fitting=fitting,
            could=len(could),
            unheard=sum(1 for verdict in could if verdict.has("silent")),
            nearest=None if heard is None else (heard.runner.name, heard.lacks[0]),
            kept=next((one.runner.name for one in could if _is_kept_for(job, one.runner)), None),
            stuck=self._stuck,
        )

    def _stuck(self) -> Stuck | None:
        if not (serving := self.serving):
            return None
        whole = StuckOf()
        for verdict in serving:
            whole.add(verdict.runner.name, verdict.lasting)
        return whole.done(serving[0].runner.name, serving[0].lasting)


def _is_kept_for(job: QueuedJob, runner: Runner) -> bool:
    kept = runner.standing.kept
    return kept is not None and kept.job == job.id


def judge(
    job: QueuedJob,
    fleet: Fleet,
    now_ms: int,
    rooms: Mapping[str, Headroom] | None = None,
    lasting: Callable[[str], tuple[Lack, ...]] | None = None,
) -> Judgement:
    """Judge `job` on every runner. Jobs of one demand and priority, with nothing of their own, share one.

    `rooms`: the runners' headroom by name, and `lasting`: `fit.shape_lacks` of each, where the caller
    has them.
    """
    demand, settings = job.demand, fleet.settings
    verdicts = []
    for name, runner in fleet.runners.items():
        room = headroom(runner, settings) if rooms is None else rooms[name]
        verdicts.append(
            Verdict(
                runner=runner,
                room=room,
                lacks=lacks(job, runner, fleet, now_ms, room=room, lasting=lasting and lasting(name)),
                there=is_there(runner, now_ms, settings),
                preference=preference(demand, runner, room, now_ms, settings, job.lost_on, job.wish),
            )
        )
    verdicts.sort(key=lambda verdict: verdict.nearness)
    return Judgement(demand=demand, settings=settings, now_ms=now_ms, verdicts=tuple(verdicts))
