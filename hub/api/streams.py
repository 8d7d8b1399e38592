"""Live: a run's state, a job's state and its log, as server-sent events.

Each event of a log has the id ATTEMPT:OFFSET, the offset after it; a client that comes back with it
in `Last-Event-ID` goes on exactly there. The event `end` comes once, after the last byte.
"""

import codecs
import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import StreamingResponse

from hub.api.asking import hub_of, principal_of
from hub.api.people import path_id
from hub.service import jobs, runs
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.wire.runs import FINAL, JobView

BEAT_S = 10.0  # a comment at least this often, so that no proxy takes the line for dead
PIECE_BYTES = 64 * 1024  # of a log, in one event
FINAL_RUN = frozenset({"succeeded", "failed", "canceled", "error"})


async def of_run(request: Request) -> StreamingResponse:
    """GET /runs/{id}/events: `run` with the whole run, at each change; `end` when it is over."""
    hub, principal, run_id = hub_of(request), principal_of(request), path_id(request)
    await runs.find(hub, principal, run_id)
    return _stream(_run_events(hub, principal, run_id))


async def of_job(request: Request) -> StreamingResponse:
    """GET /jobs/{id}/events: `job` at each change, `log` as it grows, `end` when both are over."""
    hub, principal, job_id = hub_of(request), principal_of(request), path_id(request)
    await jobs.find(hub, principal, job_id)
    seen = request.headers.get("last-event-id") or request.query_params.get("after", "")
    attempt, _, offset = seen.partition(":")
    start = (int(attempt), int(offset)) if attempt.isdecimal() and offset.isdecimal() else (0, 0)
    return _stream(_job_events(hub, principal, job_id, start))


def _stream(events: AsyncIterator[str]) -> StreamingResponse:
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def event(name: str, data: str, event_id: str | None = None) -> str:
    """One event. `data` is JSON on one line."""
    head = f"id: {event_id}\n" if event_id is not None else ""
    return f"{head}event: {name}\ndata: {data}\n\n"


async def _run_events(hub: Hub, principal: Principal, run_id: int) -> AsyncIterator[str]:
    with hub.events.listen(("run", run_id)) as listener:
        told = ""
        while not hub.events.closed:
            run = await runs.view(hub, principal, run_id)
            now = run.model_dump_json(
                exclude={"jobs": {"__all__": {"waiting": {"as_of"}, "log_bytes": True}}}
            )
            if now != told:
                told = now
                yield event("run", run.model_dump_json())
            if run.status in FINAL_RUN:
                yield event("end", "{}")
                return
            if not await listener.wait(BEAT_S):
                yield ": still here\n\n"


async def _job_events(
    hub: Hub, principal: Principal, job_id: int, start: tuple[int, int]
) -> AsyncIterator[str]:
    number, offset = start
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with hub.events.listen(("job", job_id), ("log", job_id)) as listener:
        told = ""
        while not hub.events.closed:
            job = await jobs.view(hub, principal, job_id)
            if job.attempt != number:
                number, offset = job.attempt, 0
                decoder.reset()
            now = job.model_dump_json(exclude={"waiting": {"as_of"}, "log_bytes": True})
            if now != told:
                told = now
                yield event("job", job.model_dump_json())
            while piece := hub.logs.read(job_id, number, offset, PIECE_BYTES):
                begins = offset - len(decoder.getstate()[0])
                text = decoder.decode(piece)
                offset += len(piece)
                # a character that is cut in two goes whole into the next event, and after its id
                ends = offset - len(decoder.getstate()[0])
                data = json.dumps({"attempt": number, "offset": begins, "text": text})
                yield event("log", data, f"{number}:{ends}")
            if _is_over(hub, job, number, offset):
                yield event("end", "{}")
                return
            if not await listener.wait(BEAT_S):
                yield ": still here\n\n"


def _is_over(hub: Hub, job: JobView, number: int, offset: int) -> bool:
    return job.status in FINAL and offset >= hub.logs.size(job.id, number)
