"""The pipeline file: YAML text in, checked jobs out, or every fault with its line.

Invariants: `parse` raises nothing but PipelineError, whatever the text, and what it returns is
whole: names are unique, every need names a job, no job waits for itself, each job runs in one tier.
The shape of the file stands in `pipeline_schema`, its bounds on size in `pipeline_yaml`. Images
stay as written here; no name is looked up and nothing of the hub is asked.

Images, until the run is submitted: `debian-12` is `ImageRef(name="debian-12", hash="")` and a
step's image is the name; `cas://blake3/HASH` is `ImageRef(name=None, hash=HASH)` and a step's
image is the hash.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hub.wire.base import MAX_JOBS
from hub.wire.pipeline_check import Checker
from hub.wire.pipeline_jobs import MAX_TIMEOUT_S, Builder, entries
from hub.wire.pipeline_matrix import Choice, choices, fill
from hub.wire.pipeline_schema import json_schema
from hub.wire.pipeline_yaml import MAX_BYTES, MAX_FAULTS, MAX_WEIGHT, Faults, Node, quoted, read
from hub.wire.problem import Fault
from hub.wire.spec import JobSpec, Pipeline

__all__ = ["MAX_BYTES", "MAX_FAULTS", "MAX_TIMEOUT_S", "PipelineError", "json_schema", "parse"]

MAX_NAME = 100  # characters of a job's name, as hub.wire.base.Name


class PipelineError(ValueError):
    """The file has faults: all of them, at most MAX_FAULTS, in the order of the file."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = faults
        super().__init__("; ".join(_sentence(fault) for fault in faults))


def _sentence(fault: Fault) -> str:
    line = f"line {fault.line}: " if fault.line else ""
    hint = f" (did you mean {fault.nearest}?)" if fault.nearest else ""
    return f"{line}{fault.path or 'the file'} {fault.text}{hint}"


def parse(text: str) -> Pipeline:
    """The jobs of a pipeline file, in its order, matrices expanded and sandboxes resolved.

    Raises PipelineError with every fault: its line, its path (`jobs.build.needs[0]`) and, where
    there is one, the nearest valid word.
    """
    faults = Faults()
    root = read(text, faults)
    if root is not None:
        Checker(faults).check(root, "")
        jobs = _Reader(root, faults).jobs()
        if not faults:
            return Pipeline(jobs=jobs)
    raise PipelineError(faults.listed())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One job to be, of the job `source` of the file."""

    name: str
    source: str
    path: str
    node: Node
    choice: Choice
    sound: bool = False  # its shape is right: it can be built, if only to find what else is wrong
    needs: tuple[str, ...] = ()


class _Reader:
    """Turns a tree into jobs. The tree may have faults: what is sound in it is read all the same."""

    def __init__(self, root: Node, faults: Faults) -> None:
        self._faults = faults
        self._checker = Checker(faults)
        self._weight = root.weight
        if "env" in root.entries:  # told that there is no matrix to fill in from
            fill(root.entries["env"], Choice(values={}), "env", faults)
        self._builder = Builder(root, faults)
        self._sources = entries(root.entries.get("jobs"))
        self._made: dict[str, list[str]] = {}  # names of jobs, by the job of the file
        self._source_of: dict[str, str] = {}  # the job of the file, by the name of a job

    def jobs(self) -> list[JobSpec]:
        """All jobs that have no fault."""
        jobs = self._expanded()
        edges: dict[str, dict[str, tuple[str, int]]] = {name: {} for name in self._sources}
        jobs = [self._with_needs(job, edges[job.source]) for job in jobs]
        self._refuse_cycles(edges)
        specs = []
        for job in jobs:
            if not self._afford(sum(map(len, job.needs)), job):
                break
            if job.sound:
                spec = self._builder.job(job.name, job.path, job.node, job.choice, job.needs)
                specs += [spec] if spec else []
        return specs

    def _expanded(self) -> list[_Job]:
        """Every job, with its matrix written out; as many as the bounds let in."""
        jobs: list[_Job] = []
        for source, node in self._sources.items():
            path = f"jobs.{source}"
            self._made[source] = []
            for choice in choices(node, path, self._faults):
                job = _Job(name=choice.job_name(source), source=source, path=path, node=node, choice=choice)
                job = replace(job, node=fill(node, choice, path, self._faults))
                if len(jobs) == MAX_JOBS:
                    text = f"is one job too many; {MAX_JOBS} are the most, matrices written out"
                    self._faults.add(path, text, node.line)
                    return jobs
                weight = job.node.weight - node.entries["matrix"].weight if choice.values else job.node.weight
                if not self._afford(weight + self._builder.env_weight, job):
                    return jobs
                if job.node is not node:
                    self._checker.check(job.node, path, "job")
                jobs.append(replace(job, sound=not self._faults.under(path)))
                self._name(job)
        return jobs

    def _name(self, job: _Job) -> None:
        """Keep the name of a job, which must be short enough and the only one."""
        line = job.node.line
        owner = self._source_of.setdefault(job.name, job.source)
        if job.name in self._made[job.source]:
            text = f"two choices of the matrix give the name {quoted(job.name)}; make the values differ more"
            self._faults.add(f"{job.path}.matrix", text, line)
        elif owner != job.source:
            text = f"gives the name {quoted(job.name)}, which {quoted(owner)} gives too"
            self._faults.add(job.path, text, line)
        elif len(job.name) > MAX_NAME and job.choice.values:
            text = f"gives the name {quoted(job.name)} of {len(job.name)} characters; {MAX_NAME} are the most"
            self._faults.add(f"{job.path}.matrix", text, line)
        self._made[job.source].append(job.name)

    def _afford(self, weight: int, job: _Job) -> bool:
        """Count what a job adds to the run; False, with a fault, once the run is too large."""
        self._weight += weight
        if self._weight > MAX_WEIGHT:
            text = "makes the run too large, with matrices and defaults written out"
            self._faults.add(job.path, text, job.node.line)
        return self._weight <= MAX_WEIGHT

    def _with_needs(self, job: _Job, edges: dict[str, tuple[str, int]]) -> _Job:
        """The job with every job it waits for: the name of a matrix job means all of its jobs."""
        needed: dict[str, None] = {}
        given = job.node.entries.get("needs")
        for index, item in enumerate(given.items if given is not None else ()):
            path = f"{job.path}.needs[{index}]"
            if item.text in self._sources:
                source, names = item.text, self._made.get(item.text, [])
            elif item.text in self._source_of:
                source, names = self._source_of[item.text], [item.text]
            else:
                if not self._faults.under(path):
                    near = self._faults.nearest(item.text, [*self._sources, *self._source_of])
                    self._faults.add(path, f"no job {quoted(item.text)} stands under `jobs`", item.line, near)
                continue
            edges.setdefault(source, (path, item.line))
            needed.update(dict.fromkeys(names))
        return replace(job, needs=tuple(needed))

    def _refuse_cycles(self, edges: Mapping[str, Mapping[str, tuple[str, int]]]) -> None:
        """Note each way back to a job that is on the way: depth first, each job once, no recursion."""
        done: set[str] = set()
        for start in edges:
            way = [start] if start not in done else []
            ahead = [iter(edges[start])] if way else []
            while way:
                needed = next(ahead[-1], None)
                if needed is None:
                    done.add(way.pop())
                    ahead.pop()
                elif needed in way:
                    path, line = edges[way[-1]][needed]
                    cycle = " -> ".join([*way[way.index(needed) :], needed])
                    self._faults.add(path, f"closes a circle in which no job can start: {cycle}", line)
                elif needed not in done:
                    way.append(needed)
                    ahead.append(iter(edges[needed]))
