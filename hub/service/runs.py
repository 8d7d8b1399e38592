"""Runs: submit, list, view, cancel, retry."""

import asyncio
from collections.abc import Mapping
from typing import Literal

from hub.dispatch.attempts import LiveRun
from hub.errors import BadRequest, NotFound, Unprocessable
from hub.service import history, images_names, ready, results
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.views import job_view, run_view, undone_needs
from hub.service.waiting import looks_for_view
from hub.store import jobs as job_store
from hub.store import runs as store
from hub.store import workspaces as workspace_store
from hub.store.rows import JobRow, RunRow
from hub.wire.claim import Workspace
from hub.wire.pipeline import PipelineError, parse
from hub.wire.problem import Fault
from hub.wire.runs import FINAL, RunList, RunView, Submit, Submitted, WorkspaceRef
from hub.wire.spec import JobSpec, Pipeline

QUICK = 16_384  # characters of YAML that are read in a millisecond or two: a thread would cost more
MAX_PAGE = 200  # runs in one answer
JUDGED = 20  # jobs of a run that are each judged in full for a view of it: some 10 ms each at 1,000 runners


async def submit(hub: Hub, principal: Principal, message: Submit) -> Submitted:
    """Store a run and queue its jobs. Raises Unprocessable with every fault of the pipeline."""
    authorise(principal, "submit", message.project)
    pipeline = await read_pipeline(hub, message.project, message.pipeline)
    with hub.images.pinned(images_names.hashes_of(pipeline)):
        return await _submit(hub, principal, message, pipeline)


async def _submit(hub: Hub, principal: Principal, message: Submit, pipeline: Pipeline) -> Submitted:
    workspace = await _workspace(hub, message.project, message.workspace)
    run = store.NewRun(
        project=message.project,
        title=message.title,
        ref=message.ref,
        commit=message.commit or (workspace.commit if workspace else None),
        priority=message.priority,
        key=message.key,
        submitted_by=principal.name,
        retry_of=None,
        pipeline=message.pipeline,
        workspace=workspace.model_dump_json(exclude_none=True) if workspace else None,
        created_ms=hub.now_ms(),
    )
    made = await _store(hub, run, pipeline.jobs, {})
    hub.dispatch.tasks.spawn(images_names.used(hub, message.project, images_names.hashes_of(pipeline)))
    return made


async def _store(
    hub: Hub, run: store.NewRun, specs: list[JobSpec], ran_out: Mapping[str, str | None]
) -> Submitted:
    """Write a run and tell the live fleet of its jobs; never half done, whoever leaves meanwhile.

    `ran_out`: by name, what jobs that are run again ran out of, as it was stored.
    """
    jobs = [
        store.NewJob(
            name=spec.name,
            needs=tuple(spec.needs),
            spec=spec.model_dump_json(exclude_defaults=True),
            shortages=ran_out.get(spec.name),
        )
        for spec in specs
    ]

    async def whole() -> Submitted:
        made = await store.submit(hub.store.writer, run, jobs)
        if not made.existed:
            live = LiveRun(
                id=made.run_id,
                project=run.project,
                workspace=run.workspace,
                ref=run.ref,
                commit=run.commit,
            )
            for job_id, new, spec in zip(made.job_ids, jobs, specs, strict=True):
                job = await ready.new_job(hub, job_id, live, new, spec, run)
                hub.dispatch.jobs[job.id] = job
                if not new.needs:
                    hub.dispatch.ready(job)
            hub.events.tell(("runs",), ("queue",))
        return Submitted(id=made.run_id, url=f"{hub.config.base_url}/runs/{made.run_id}")

    return await hub.dispatch.tasks.whole(whole())


async def read_pipeline(hub: Hub, project: str, text: str) -> Pipeline:
    """The pipeline, each image's name resolved for `project`. Raises Unprocessable with every fault.

    Whoever pins its images at once (`Catalogue.pinned`) keeps them from being collected.
    """
    try:
        pipeline = parse(text) if len(text) < QUICK else await asyncio.to_thread(parse, text)
    except PipelineError as error:
        raise Unprocessable("mend the pipeline file and submit it again", faults=error.faults) from None
    pipeline, faults = images_names.resolve(hub, project, pipeline, text)
    for spec in pipeline.jobs:
        if spec.keep not in (None, "never"):
            faults.append(_unknown_yet(spec.name, "keep", "keeps sandboxes", text))
    if faults:
        raise Unprocessable("mend the pipeline file and submit it again", faults=faults)
    return pipeline


def _unknown_yet(job: str, key: str, what: str, text: str) -> Fault:
    said = f"this version of the hub does not know how it {what}: leave it out"
    return Fault(path=f"jobs.{job}.{key}", text=said, line=_line_of(f"{key}:", text))


def _line_of(word: str, text: str) -> int | None:
    """The first line, from 1, on which `word` stands."""
    lines = enumerate(text.splitlines(), start=1)
    return next((number for number, line in lines if word in line), None)


async def _workspace(hub: Hub, project: str, asked: WorkspaceRef | None) -> Workspace | None:
    if asked is None:
        return None
    if (asked.hash is None) == (asked.git is None):
        raise BadRequest("`workspace` takes either `hash`, of a folder sent before, or `git` with `commit`")
    if asked.git is not None:
        if asked.commit is None:
            raise BadRequest("`workspace.git` needs `commit`, so that the run means the same for ever")
        return Workspace(git=asked.git, commit=asked.commit)
    assert asked.hash is not None
    async with hub.store.read() as conn:
        found = await workspace_store.get(conn, project=project, hash=asked.hash)
    if found is None:
        raise BadRequest("the hub does not have this workspace: send it first (PUT /workspaces/{hash})")
    return Workspace(hash=asked.hash, bytes=found.bytes)


async def listing(
    hub: Hub,
    principal: Principal,
    *,
    project: str | None = None,
    status: str | None = None,
    search: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> RunList:
    """Runs within the reader's reach, newest first."""
    authorise(principal, "read", project)
    limit = max(1, min(limit, MAX_PAGE))
    async with hub.store.read() as conn:
        rows = await store.page(
            conn,
            owner=principal.scope.owner,
            project=project or principal.scope.project,
            status=status,
            search=search,
            before=before,
            limit=limit + 1,
        )
    more = len(rows) > limit
    return RunList(runs=[run_view(row) for row in rows[:limit]], next=rows[limit - 1].id if more else None)


async def view(hub: Hub, principal: Principal, run_id: int) -> RunView:
    """One run with its jobs. Raises NotFound, also where it is beyond the reader's reach."""
    row = await find(hub, principal, run_id)
    async with hub.store.read() as conn:
        jobs = await store.jobs_of(conn, run_id)
        attempts = await store.attempts_of(conn, [job.id for job in jobs])
    for name in {job.name for job in jobs}:
        await history.learned(hub, row.project, name)
    looks = looks_for_view(hub) if len(jobs) > JUDGED else None
    views = [
        job_view(hub, principal, job, attempts.get(job.id, []), undone_needs(job, jobs), looks)
        for job in jobs
    ]
    return run_view(row, await results.with_results(hub, views))


async def find(
    hub: Hub, principal: Principal, run_id: int, action: Literal["read", "submit"] = "read"
) -> RunRow:
    """The run's row, for a principal that may do `action` with it."""
    async with hub.store.read() as conn:
        row = await store.get(conn, run_id)
    if row is None:
        raise NotFound("there is no such thing here, or your token does not reach it")
    authorise(principal, action, row.project)
    return row


async def cancel(hub: Hub, principal: Principal, run_id: int) -> None:
    """End what waits at once; tell the runners of what runs. What is final stays."""
    await find(hub, principal, run_id, "submit")

    async def whole() -> None:
        changes = await job_store.cancel_run(
            hub.store.writer, run_id, now_ms=hub.now_ms(), start_ms=hub.config.start_ms
        )
        await ready.follow(hub, changes)

    await hub.dispatch.tasks.whole(whole())


async def retry(hub: Hub, principal: Principal, run_id: int) -> Submitted:
    """A new run of the jobs that did not succeed. Raises BadRequest: there are none, or it is not over."""
    row = await find(hub, principal, run_id, "submit")
    async with hub.store.read() as conn:
        jobs = await store.jobs_of(conn, run_id)
    if any(job.status not in FINAL for job in jobs):
        raise BadRequest(f"run {run_id} is not over: cancel it first, or wait")
    again = [job for job in jobs if job.status != "succeeded"]
    if not again:
        raise BadRequest(f"all jobs of run {run_id} succeeded: submit it anew to run them again")
    return await run_again(hub, principal, row, again)


async def run_again(hub: Hub, principal: Principal, row: RunRow, jobs: list[JobRow]) -> Submitted:
    """A new run of `jobs` of the run `row`; what else they needed has succeeded and is needed no more."""
    names = {job.name for job in jobs}
    specs = []
    for job in jobs:
        spec = JobSpec.model_validate_json(job.spec)
        specs.append(spec.model_copy(update={"needs": [name for name in spec.needs if name in names]}))
    run = store.NewRun(
        project=row.project,
        title=row.title,
        ref=row.ref,
        commit=row.commit,
        priority=row.priority,
        key=None,
        submitted_by=principal.name,
        retry_of=row.id,
        pipeline=row.pipeline,
        workspace=row.workspace,
        created_ms=hub.now_ms(),
    )
    return await _store(hub, run, specs, {job.name: job.shortages for job in jobs})
