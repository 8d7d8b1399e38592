"""Views whose every field is made up, hostile where it is text, missing where it may be.

They are built past the checks of the wire, as if a check had been forgotten.
"""

from typing import Any

from hypothesis import strategies as st

from hub.web.contexts import JOB_STATUSES, RUN_STATUSES
from hub.wire.claim import ImageRef, StepResult
from hub.wire.fleet import HeldJob, RunnerView
from hub.wire.runs import AttemptView, JobView, RunnerLacks, RunView, Waiting
from tests.web.samples import IMAGE, at, lack

HOSTILE = st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "' onmouseover='alert(1)",
        "</span></section></table>",
        "{{ 7 * 7 }}{% raise %}",
        "javascript:alert(1)",
        "a\u202egnp.exe\u2066",
        "nul\x00 bell\x07 esc\x1b[31m",
        "&lt;b&gt; &amp; &#60;",
        "ünïcödé 𝄞",
        "",
        "\ud800",
    ]
)
TIMES = st.integers(-(10**6), 10**9).map(at)
SMALL = st.integers(0, 10**6)


def views(model: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A view with every field made up, hostile where it is text; nothing is checked on the way in."""
    return st.builds(lambda **values: model.model_construct(**values), **fields)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


REMEDIES = st.builds(lambda text: lack("code", text, lasting=True, remedy=text), HOSTILE)
LACKS = st.lists(REMEDIES, max_size=2)
RUNNER_LACKS = st.builds(
    lambda name, lacks: RunnerLacks.model_construct(runner=name, lacks=lacks), HOSTILE, LACKS
)
WAITING = views(
    Waiting,
    kind=st.sampled_from(["needs", "held", "busy", "silent", "nowhere"]),
    headline=HOSTILE,
    since=maybe(TIMES),
    as_of=maybe(TIMES),
    runners=st.lists(RUNNER_LACKS, max_size=2),
    more=st.integers(0, 3),
)
IMAGES = st.builds(
    lambda name, size: ImageRef.model_construct(name=name, hash=IMAGE, bytes=size),
    maybe(HOSTILE),
    maybe(SMALL),
)
RESULTS = st.builds(
    lambda name, code, took: StepResult.model_construct(name=name, exit_code=code, duration_s=took),
    HOSTILE,
    maybe(st.integers(-255, 255)),
    maybe(st.floats(0, 1e6)),
)
ATTEMPTS = st.builds(
    lambda number, name, moment, other, ended: AttemptView.model_construct(
        number=number,
        runner=name,
        assigned_at=moment,
        started_at=other,
        ended_at=other,
        ended=ended,
        reason=name,
    ),
    SMALL,
    HOSTILE,
    TIMES,
    maybe(TIMES),
    maybe(HOSTILE),
)
JOBS = views(
    JobView,
    id=SMALL,
    run=SMALL,
    project=HOSTILE,
    name=HOSTILE,
    status=st.sampled_from(JOB_STATUSES),
    attempt=st.integers(0, 5),
    runner=maybe(HOSTILE),
    placed=HOSTILE,
    exit_code=maybe(st.integers(-255, 255)),
    error=maybe(HOSTILE),
    queued_at=maybe(TIMES),
    held_at=maybe(TIMES),
    held_until=maybe(TIMES),
    started_at=maybe(TIMES),
    finished_at=maybe(TIMES),
    needs=st.lists(HOSTILE, max_size=2),
    tier=HOSTILE,
    arch=maybe(HOSTILE),
    labels=st.lists(HOSTILE, max_size=2),
    images=st.lists(IMAGES, max_size=2),
    memory_mib=maybe(SMALL),
    cpus=maybe(SMALL),
    disk_mib=maybe(SMALL),
    timeout_s=maybe(SMALL),
    peak_memory_mib=maybe(SMALL),
    peak_disk_mib=maybe(SMALL),
    recent_memory_peak_mib=maybe(SMALL),
    recent_disk_peak_mib=maybe(SMALL),
    takes=HOSTILE,
    step=maybe(st.integers(0, 3)),
    steps=st.lists(HOSTILE, max_size=3),
    results=st.lists(RESULTS, max_size=3),
    waiting=maybe(WAITING),
    attempts=st.lists(ATTEMPTS, max_size=2),
)
RUNS = views(
    RunView,
    id=SMALL,
    project=HOSTILE,
    status=st.sampled_from(RUN_STATUSES),
    title=maybe(HOSTILE),
    ref=maybe(HOSTILE),
    commit=maybe(HOSTILE),
    priority=st.integers(-9, 9),
    submitted_by=maybe(HOSTILE),
    retry_of=maybe(SMALL),
    created_at=TIMES,
    finished_at=maybe(TIMES),
    jobs_total=SMALL,
    jobs_done=SMALL,
    jobs=st.lists(JOBS, max_size=3),
)
RUNNERS = views(
    RunnerView,
    name=HOSTILE,
    state=st.sampled_from(["active", "draining", "quarantined"]),
    state_reason=HOSTILE,
    waiting=st.booleans(),
    heard_at=maybe(TIMES),
    silent=st.booleans(),
    labels=st.lists(HOSTILE, max_size=2),
    arch=maybe(HOSTILE),
    tiers=st.lists(HOSTILE, max_size=2),
    max_jobs=maybe(st.integers(0, 9)),
    free_slots=maybe(st.integers(-3, 9)),
    cpus=maybe(st.integers(0, 64)),
    free_cpus=maybe(st.integers(-64, 64)),
    memory_mib=maybe(SMALL),
    memory_used_mib=maybe(SMALL),
    memory_committed_mib=maybe(SMALL),
    free_memory_mib=maybe(st.integers(-(10**6), 10**6)),
    reserve_mib=maybe(SMALL),
    free_disk_mib=maybe(SMALL),
    speed=maybe(SMALL),
    speed_class=maybe(st.integers(0, 9)),
    load1=maybe(st.floats(0, 1e6)),
    kernel=maybe(HOSTILE),
    os=maybe(HOSTILE),
    cpu=maybe(HOSTILE),
    instances=st.lists(HOSTILE, max_size=2),
    awaited_by=st.lists(SMALL, max_size=2),
    broken_promises=st.integers(0, 3),
    jobs=st.lists(
        st.builds(
            lambda name, run: HeldJob.model_construct(job=1, run=run, name=name, state=name),
            maybe(HOSTILE),
            maybe(SMALL),
        ),
        max_size=2,
    ),
)
