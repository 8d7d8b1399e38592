"""Whatever a field holds, on a page it is text."""

import dataclasses

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hub import assets
from hub.web.chart import chart_of
from hub.web.contexts import (
    RUN_STATUSES,
    Detail,
    Frame,
    QueuePage,
    RunnersPage,
    RunPage,
    RunsPage,
    picture_of,
    select,
    steps_of,
)
from hub.web.contexts import Page as Context
from hub.web.log import fold
from hub.web.site import open_site
from hub.wire.fleet import QueueView, RunnerView
from hub.wire.runs import FINAL, Artifact, Comparison, Considered, JobView, RunView
from tests.web import samples
from tests.web.hostile import HOSTILE, JOBS, RUNNERS, RUNS
from tests.web.reading import Page
from tests.web.samples import NOW_MS

SITE = open_site(assets.templates())
FRAME = Frame(title="A page", section="runs", now_ms=NOW_MS, person="andy", may_submit=True)
thorough = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def harmless(context: Context) -> None:
    html = SITE.render(context)
    assert not set(html) & set("\x00\x07\x1b\u202e\u2066\ud800")
    Page(html)


@thorough
@given(run=RUNS, path=HOSTILE, log=HOSTILE)
def test_no_text_of_a_run_becomes_markup(run: RunView, path: str, log: str) -> None:
    job = select(run.jobs, None)
    detail = (
        None
        if job is None
        else Detail(
            job=job,
            final=job.status in FINAL,
            steps=steps_of(job),
            comparison=Comparison.model_construct(
                job=1,
                runners=[Considered.model_construct(runner=path, lacks=[])],
                more=1,
                decided_at=run.created_at,
            ),
            artifacts=(Artifact.model_construct(path=path, bytes=1, hash=""),),
        )
    )
    tail = f"##[step 1/1] {log}\n{log}\n".encode("utf-8", "replace")
    shown = fold(tail, start=0, total=len(tail), final=True)
    final = run.status in FINAL
    picture = picture_of(run, NOW_MS)
    log_shown = shown if detail else None
    harmless(RunPage(frame=FRAME, run=run, final=final, picture=picture, detail=detail, log=log_shown))


@thorough
@given(runs=st.lists(RUNS, max_size=3), text=HOSTILE)
def test_no_text_of_a_list_becomes_markup(runs: list[RunView], text: str) -> None:
    harmless(
        RunsPage(
            frame=dataclasses.replace(FRAME, person=text, title=text),
            runs=tuple(runs),
            project=text,
            status="",
            search=text,
            statuses=RUN_STATUSES,
            older=None,
            newest=None,
        ),
    )


@thorough
@given(runners=st.lists(RUNNERS, max_size=3), jobs=st.lists(JOBS, max_size=3))
def test_no_text_of_the_fleet_or_the_queue_becomes_markup(
    runners: list[RunnerView], jobs: list[JobView]
) -> None:
    harmless(RunnersPage(frame=FRAME, runners=tuple(runners), images={}))
    queue = QueueView.model_construct(jobs=jobs, more=1)
    harmless(QueuePage(frame=FRAME, queue=queue, chart=chart_of(samples.day())))
