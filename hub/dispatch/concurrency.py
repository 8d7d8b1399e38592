"""Concurrency groups: at most so many jobs of a group at a time, in queue order.

A job holds its group's place from when it is queued until it is final, over any number of
attempts. Who holds and who waits follows from the unfinished jobs, so that nothing of it is
stored: after a restart those that are out hold first, then the others in queue order.
"""

from bisect import insort
from dataclasses import dataclass, field

from hub.dispatch.attempts import LiveJob

GroupName = tuple[str, str]  # project, and the group's name in it


def _order(job: LiveJob) -> tuple[int, int, int]:
    return job.queued().order


@dataclass(slots=True, eq=False)
class _Group:
    holders: dict[int, LiveJob] = field(default_factory=dict)
    waiting: list[LiveJob] = field(default_factory=list)


class Concurrency:
    """All groups that somebody holds. `waiting`: the jobs that wait for theirs, by id."""

    def __init__(self) -> None:
        self._groups: dict[GroupName, _Group] = {}
        self.waiting: dict[int, LiveJob] = {}

    def enter(self, job: LiveJob, *, out: bool = False) -> bool:
        """Let `job` hold its group's place, or wait for it: False. `out`: it runs, and so holds it."""
        if job.group is None:
            return True
        group = self._groups.setdefault(_name(job), _Group())
        if job.id in group.holders:
            return True
        if not out and len(group.holders) >= job.group.limit:
            if job.id not in self.waiting:
                self.waiting[job.id] = job
                insort(group.waiting, job, key=_order)
            return False
        self._wait_no_more(group, job)
        group.holders[job.id] = job
        return True

    def leave(self, job: LiveJob) -> LiveJob | None:
        """`job` is final: the job whose turn it now may be, which `enter` will let in."""
        group = self._groups.get(_name(job)) if job.group is not None else None
        if group is None:
            return None
        self._wait_no_more(group, job)
        held = group.holders.pop(job.id, None) is not None
        if not group.holders and not group.waiting:
            del self._groups[_name(job)]
        return group.waiting[0] if held and group.waiting else None

    def _wait_no_more(self, group: _Group, job: LiveJob) -> None:
        if self.waiting.pop(job.id, None) is not None:
            group.waiting.remove(job)

    def superseded_by(self, job: LiveJob) -> list[int]:
        """Jobs of older runs that `job` wants out of its way; empty where it does not ask for that."""
        if job.group is None or not job.group.cancel_running:
            return []
        group = self._groups.get(_name(job), _Group())
        others = (*group.holders.values(), *group.waiting)
        return [other.id for other in others if other.run.id < job.run.id]

    def held_by(self, job: LiveJob) -> tuple[int, ...]:
        """The runs that hold the group of `job`."""
        group = self._groups.get(_name(job), _Group())
        return tuple(sorted({holder.run.id for holder in group.holders.values()}))


def _name(job: LiveJob) -> GroupName:
    return (job.run.project, job.group.group if job.group is not None else "")
