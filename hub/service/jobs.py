"""Jobs: view, log, placement, artifacts, cancel, retry."""

import asyncio
import json

from hub.dispatch.show import told_view
from hub.errors import BadRequest, NotFound
from hub.service import history, ready, results, runs
from hub.service.access import Principal, authorise
from hub.service.hub import Hub
from hub.service.reach import visible_runners
from hub.service.views import job_view, undone_needs, waiting_of
from hub.store import artifacts as artifact_store
from hub.store import jobs as job_store
from hub.store import runs as store
from hub.store.rows import JobRow
from hub.wire.runs import FINAL, Artifact, ArtifactList, Comparison, Considered, JobView, Submitted

MAX_LOG_READ_BYTES = 4 * 2**20  # one answer; a longer log is read piece by piece


async def find(hub: Hub, principal: Principal, job_id: int, *, submit: bool = False) -> JobRow:
    """The job's row. Raises NotFound, also where it is beyond the reader's reach."""
    async with hub.store.read() as conn:
        row = await store.job(conn, job_id)
    if row is None:
        raise NotFound("there is no such thing here, or your token does not reach it")
    authorise(principal, "submit" if submit else "read", row.project)
    return row


async def view(hub: Hub, principal: Principal, job_id: int) -> JobView:
    """One job, with its attempts and, where it waits, the reason."""
    row = await find(hub, principal, job_id)
    async with hub.store.read() as conn:
        attempts = await store.attempts_of(conn, [job_id])
        others = await store.jobs_of(conn, row.run_id) if row.status == "blocked" else []
    await history.learned(hub, row.project, row.name)
    view = job_view(hub, principal, row, attempts.get(job_id, []), undone_needs(row, others))
    return (await results.with_results(hub, [view]))[0]


async def placement(hub: Hub, principal: Principal, job_id: int) -> Comparison:
    """The whole comparison behind `placed`, or behind `waiting`."""
    row = await find(hub, principal, job_id)
    if row.status in ("queued", "blocked"):
        async with hub.store.read() as conn:
            others = await store.jobs_of(conn, row.run_id)
        return Comparison(job=job_id, waiting=waiting_of(hub, principal, row, undone_needs(row, others)))
    async with hub.store.read() as conn:
        attempts = await store.attempts_of(conn, [job_id])
        kept = await store.comparison(conn, job_id, row.attempt)
    newest = next((one for one in attempts.get(job_id, []) if one.number == row.attempt), None)
    stored = json.loads(kept) if kept else {}
    considered = [Considered.model_validate(one) for one in stored.get("runners", [])]
    seen = visible_runners(hub, principal)
    shown = [one for one in considered if seen is None or one.chosen or one.runner in seen]
    return Comparison(
        job=job_id,
        placed=row.placed,
        runner=row.runner,
        decided_at=newest.assigned_ms if newest else None,
        runners=shown,
        more=stored.get("more", 0) + len(considered) - len(shown),
        margin=told_view(stored.get("margin"), seen),
        waited=told_view(stored.get("waited"), seen),
        wait_paid=stored.get("paid"),
    )


async def log(
    hub: Hub,
    principal: Principal,
    job_id: int,
    offset: int = 0,
    limit: int = MAX_LOG_READ_BYTES,
    attempt: int | None = None,
) -> tuple[bytes, int]:
    """Bytes of the log from `offset`, `limit` at most, and its length now. `attempt` None: the newest."""
    row = await find(hub, principal, job_id)
    number = row.attempt if attempt is None else attempt
    limit = min(limit, MAX_LOG_READ_BYTES)
    piece = await asyncio.to_thread(hub.logs.read, job_id, number, offset, limit)
    return piece, hub.logs.size(job_id, number)


async def artifacts(hub: Hub, principal: Principal, job_id: int) -> ArtifactList:
    """What the newest attempt left."""
    await find(hub, principal, job_id)
    async with hub.store.read() as conn:
        rows = await artifact_store.listing(conn, job_id)
    return ArtifactList(artifacts=[Artifact(path=one.path, bytes=one.bytes, hash=one.hash) for one in rows])


async def cancel(hub: Hub, principal: Principal, job_id: int) -> None:
    """End it at once if it waits; else its runner is told. A job that is final stays as it is."""
    await find(hub, principal, job_id, submit=True)

    async def whole() -> None:
        changes = await job_store.cancel_job(
            hub.store.writer, job_id, now_ms=hub.now_ms(), start_ms=hub.config.start_ms
        )
        await ready.follow(hub, changes)

    await hub.dispatch.tasks.whole(whole())


async def retry(hub: Hub, principal: Principal, job_id: int) -> Submitted:
    """A new run of this job, and of the jobs that need it and so never ran."""
    row = await find(hub, principal, job_id, submit=True)
    if row.status not in FINAL:
        raise BadRequest(f"job {job_id} is not over: cancel it first, or wait")
    async with hub.store.read() as conn:
        run = await store.get(conn, row.run_id)
        rows = await store.jobs_of(conn, row.run_id)
    if run is None:
        raise NotFound("the job's run is gone")
    chosen = {row.name}
    skipped = [one for one in rows if one.status == "skipped"]
    while more := [one for one in skipped if one.name not in chosen and chosen & set(ready.needs_of(one))]:
        chosen.update(one.name for one in more)
    return await runs.run_again(hub, principal, run, [one for one in rows if one.name in chosen])
