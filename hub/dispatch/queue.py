"""The queue: ready jobs, grouped by what they ask and their priority, so that equals are judged once.

Jobs with declines, losses or a wish of their own stand alone: their verdict may differ from that of
others with the same demand.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hub.placement.model import Demand, QueuedJob
from hub.placement.rank import Rank

GroupKey = tuple[Demand, int, int]  # priority, and the id of a job that stands alone


def group_key(job: QueuedJob) -> GroupKey:
    """Equal for jobs that share one verdict on every runner."""
    alone = job.declines or job.lost_on or job.wish
    return (job.demand, job.priority, job.id if alone else 0)


def _order(job: QueuedJob) -> tuple[int, int, int]:
    return job.order


@dataclass(slots=True, eq=False)
class Group:
    """Jobs with one demand and priority, in queue order. Never empty while it is in the queue.

    `verdicts` is the board's memory: the demand's rank on each entry of runners that could ever take it.
    Each `Any` is of a module that knows this one.
    """

    demand: Demand
    priority: int
    jobs: list[QueuedJob] = field(default_factory=list)
    verdicts: dict[Any, Rank] = field(default_factory=dict)
    known: Any = None  # why its jobs wait, as `reasons` remembers it; None: nobody looked yet

    def index(self, job: QueuedJob) -> int:
        """Where the job with `job`'s order stands."""
        return bisect_left(self.jobs, job.order, key=_order)

    def ahead_of(self, order: tuple[int, int, int]) -> int:
        """How many of the group come before `order`."""
        return bisect_left(self.jobs, order, key=_order)


class Queue:
    """All ready jobs."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, Group] = {}
        self._jobs: dict[int, QueuedJob] = {}
        self.noted: Callable[[int, QueuedJob | None], None] = lambda job_id, job: None  # None: taken out

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, job_id: int) -> bool:
        return job_id in self._jobs

    def get(self, job_id: int) -> QueuedJob | None:
        return self._jobs.get(job_id)

    def add(self, job: QueuedJob) -> Group | None:
        """Queue `job`; the group it made, or None where it joined one."""
        self._jobs[job.id] = job
        self.noted(job.id, job)
        key = group_key(job)
        group = self.groups.get(key)
        made = None
        if group is None:
            made = group = self.groups[key] = Group(demand=job.demand, priority=job.priority)
        insort(group.jobs, job, key=_order)
        return made

    def remove(self, job_id: int) -> Group | None:
        """Take the job out; the group that thereby ended, or None. The job must be queued."""
        job = self._jobs.pop(job_id)
        self.noted(job_id, None)
        key = group_key(job)
        group = self.groups[key]
        del group.jobs[group.index(job)]
        if group.jobs:
            return None
        del self.groups[key]
        return group

    def replace(self, job: QueuedJob) -> None:
        """Put `job` in the place of the one with its id; its group and order must be the same."""
        group = self.groups[group_key(job)]
        group.jobs[group.index(job)] = job
        self._jobs[job.id] = job
        self.noted(job.id, job)

    def group_of(self, job_id: int) -> Group:
        """The group of a queued job."""
        return self.groups[group_key(self._jobs[job_id])]

    def __iter__(self) -> Iterator[QueuedJob]:
        return iter(self._jobs.values())
