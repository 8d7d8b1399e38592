"""What each page is rendered from: one frozen value per page, and nothing else reaches its template.

A template is named by its context (`template`), and uses exactly the fields declared here: undefined
names are errors, and a test holds the two lists equal. Views of the wire go in as they are, so that a
page shows what the API shows.
"""

from dataclasses import dataclass
from typing import ClassVar, get_args

from hub.web.chart import Chart
from hub.web.graph import Graph, graph_of
from hub.web.log import Log
from hub.web.spans import Spans, spans_of, tally
from hub.wire.fleet import QueueView, RunnerView, TokenMade, TokenView
from hub.wire.images import ImageList
from hub.wire.problem import Fault
from hub.wire.results import Results
from hub.wire.runs import FINAL, Artifact, Comparison, JobStatus, JobView, Preview, RunStatus, RunView

RUN_STATUSES: tuple[str, ...] = get_args(RunStatus)
JOB_STATUSES: tuple[str, ...] = get_args(JobStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What stands around every page. `person` None: nobody is signed in. `now_ms`: since 1970."""

    title: str
    section: str  # of the navigation: runs, queue, runners; empty: none of them
    now_ms: int
    person: str | None = None
    may_submit: bool = False  # whether cancel and retry are offered; the service decides all the same
    may_admin: bool = False  # whether what concerns the whole hub is offered


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsPage:
    """The list of runs, newest first. `project`, `status`, `search` empty: all; an href None: no page."""

    template: ClassVar[str] = "runs.html"

    frame: Frame
    runs: tuple[RunView, ...]
    project: str
    status: str
    search: str
    statuses: tuple[str, ...]
    older: str | None
    newest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job and where it stands: `done`, `failed`, `running`, `pending` or `not run`."""

    name: str
    state: str
    exit_code: int | None = None
    duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """The selected job. `comparison` None: it was never placed. `final`: it will not change again.

    `results` None: it left none.
    """

    job: JobView
    final: bool
    steps: tuple[Step, ...]
    comparison: Comparison | None
    artifacts: tuple[Artifact, ...]
    results: Results | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A run at a glance: its jobs on one axis of time, what needs what, and how many are in which state.

    `tally`: status, count, the first such job. `graph` None: no job needs another.
    """

    spans: Spans
    graph: Graph | None
    tally: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of a run's page that its script swaps when the run changes; the log is not one."""

    template: ClassVar[str] = "run_parts.html"

    frame: Frame
    run: RunView
    final: bool
    picture: Picture
    detail: Detail | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One run. `detail`, `log` None: it has no jobs."""

    template: ClassVar[str] = "run.html"

    frame: Frame
    run: RunView
    final: bool
    picture: Picture
    detail: Detail | None
    log: Log | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesPage:
    """A page of a job's log; pages count from 1. `count`: lines of the log in all."""

    template: ClassVar[str] = "lines.html"

    frame: Frame
    job: JobView
    log: Log
    page: int
    pages: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnersPage:
    """The runners, by name. `images`: the names of those that they hold, by hash."""

    template: ClassVar[str] = "runners.html"

    frame: Frame
    runners: tuple[RunnerView, ...]
    images: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesPage:
    """The images, newest first."""

    template: ClassVar[str] = "images.html"

    frame: Frame
    images: ImageList


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewPage:
    """A pipeline that is tried. `result` None: it was not. `problem` empty: nothing was wrong."""

    template: ClassVar[str] = "preview.html"

    frame: Frame
    project: str
    pipeline: str
    result: Preview | None
    problem: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensPage:
    """The API tokens. `made`: the one that was made just now, with its secret. `problem` empty: none."""

    template: ClassVar[str] = "tokens.html"

    frame: Frame
    tokens: tuple[TokenView, ...]
    kinds: tuple[str, ...]
    made: TokenMade | None
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """What waits, in queue order, and why; `chart`: the day behind it."""

    template: ClassVar[str] = "queue.html"

    frame: Frame
    queue: QueueView
    chart: Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginPage:
    """Signing in. `goal`: the path to go to afterwards. `fault` empty: nothing was wrong."""

    template: ClassVar[str] = "login.html"

    frame: Frame
    goal: str
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorPage:
    """What went wrong (`title`) and what to do about it (`detail`)."""

    template: ClassVar[str] = "error.html"

    frame: Frame
    status: int
    title: str
    detail: str


HubPage = ImagesPage | PreviewPage | TokensPage
Page = HubPage | RunsPage | RunPage | RunParts | LinesPage | RunnersPage | QueuePage | LoginPage | ErrorPage
PAGES: tuple[type[Page], ...] = (
    ImagesPage, PreviewPage, TokensPage,
    RunsPage, RunPage, RunParts, LinesPage, RunnersPage, QueuePage, LoginPage, ErrorPage,
)  # fmt: skip


def picture_of(run: RunView, now_ms: int) -> Picture:
    """The run at a glance, at `now_ms`."""
    return Picture(spans=spans_of(run, now_ms), graph=graph_of(run.jobs), tally=tally(run.jobs))


def steps_of(job: JobView) -> tuple[Step, ...]:
    """The job's steps, each with its result where it has one."""
    steps = []
    for index, name in enumerate(job.steps):
        if index < len(job.results):
            result = job.results[index]
            state = "done" if result.exit_code == 0 else "failed"
            steps.append(
                Step(name=name, state=state, exit_code=result.exit_code, duration_s=result.duration_s)
            )
        elif job.status in FINAL:
            steps.append(Step(name=name, state="not run"))
        elif job.step is None or index > job.step:
            steps.append(Step(name=name, state="pending"))
        else:  # results come only with the finish: a step below the one that runs is done
            steps.append(Step(name=name, state="running" if index == job.step else "done"))
    return tuple(steps)


def select(jobs: list[JobView], wanted: int | None) -> JobView | None:
    """The job asked for; else the first that runs, that went wrong, that waits for a runner; or the first."""
    for job in jobs:
        if job.id == wanted:
            return job
    for statuses in (("running", "preparing", "canceling"), ("failed", "timed_out", "error"), ("queued",)):
        for job in jobs:
            if job.status in statuses:
                return job
    return jobs[0] if jobs else None
