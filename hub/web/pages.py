"""The pages and their addresses, on one screen: `routes()`.

A handler reads through the service, as the API does, and renders one context. It changes nothing;
forms do (`forms`).
"""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from hub import assets
from hub.errors import BadRequest, HubError, Unauthorised
from hub.service import images_show, jobs, queue, queue_day, results_show, runners, runs
from hub.web import forms
from hub.web.chart import chart_of
from hub.web.contexts import (
    RUN_STATUSES,
    Detail,
    LinesPage,
    QueuePage,
    RunnersPage,
    RunPage,
    RunParts,
    RunsPage,
    picture_of,
    select,
    steps_of,
)
from hub.web.images_page import images_page
from hub.web.lines import PAGE_LINES, read_page
from hub.web.log import TAIL_BYTES, Log, fold
from hub.web.preview_page import preview_form, preview_page
from hub.web.runner_forms import drain_runner, resume_runner
from hub.web.site import PRIVATE, SECURITY_HEADERS, Site, open_site
from hub.web.tokens_page import add_token, remove_token, tokens_page
from hub.web.visit import Endpoint, Visit, endpoint, error_page, form_endpoint, go, visit_of
from hub.wire.runs import FINAL, JobView

PAGE_RUNS = 50  # runs on one page of the list: two screens
LOG_PIECE_BYTES = 2**18  # of a raw log at a time, so that a long one is never in memory whole


def routes() -> list[BaseRoute]:
    """Every page, form and static file. The application's state has the hub as `hub`."""
    site = open_site(assets.templates())
    pages = {
        "/": home,
        "/runs": runs_page,
        "/runs/{id:int}": run_page,
        "/jobs/{id:int}": job_page,
        "/jobs/{id:int}/log": log_page,
        "/jobs/{id:int}/lines": lines_page,
        "/runners": runners_page,
        "/queue": queue_page,
        "/images": images_page,
        "/preview": preview_page,
        "/tokens": tokens_page,
        "/login": forms.login_page,
    }
    posts = {
        "/login": forms.sign_in_form,
        "/logout": forms.sign_out_form,
        "/runs/{id:int}/cancel": forms.cancel_run,
        "/runs/{id:int}/retry": forms.retry_run,
        "/jobs/{id:int}/cancel": forms.cancel_job,
        "/jobs/{id:int}/retry": forms.retry_job,
        "/preview": preview_form,
        "/tokens": add_token,
        "/tokens/{id:int}/remove": remove_token,
        "/runners/{name}/drain": drain_runner,
        "/runners/{name}/resume": resume_runner,
    }
    return [
        *(Route(path, endpoint(site, page), methods=["GET"]) for path, page in pages.items()),
        *(Route(path, form_endpoint(site, form), methods=["POST"]) for path, form in posts.items()),
        Route("/static/{version}/{name:path}", _static(site), methods=["GET"]),
    ]


async def home(visit: Visit) -> Response:
    return go("/runs")


async def runs_page(visit: Visit) -> Response:
    """The list of runs: `?project=`, `?status=`, `?search=`, `?before=`."""
    query = visit.request.query_params
    project, status, search = (query.get(name, "").strip() for name in ("project", "status", "search"))
    if status and status not in RUN_STATUSES:
        raise BadRequest(f"`status` is one of {', '.join(RUN_STATUSES)}")
    before = visit.number("before")
    found = await runs.listing(
        visit.hub,
        visit.reader,
        project=project or None,
        status=status or None,
        search=search or None,
        before=before,
        limit=PAGE_RUNS,
    )
    filters = {"project": project, "status": status, "search": search}
    kept = {name: value for name, value in filters.items() if value}
    page = RunsPage(
        frame=visit.frame("Runs", "runs"),
        runs=tuple(found.runs),
        project=project,
        status=status,
        search=search,
        statuses=RUN_STATUSES,
        older=_address("/runs", {**kept, "before": str(found.next)}) if found.next is not None else None,
        newest=_address("/runs", kept) if before is not None else None,
    )
    return visit.site.respond(page)


async def run_page(visit: Visit) -> Response:
    """One run, with one of its jobs in full: `?job=`. `?fragment=jobs`: what its script swaps."""
    run = await runs.view(visit.hub, visit.reader, visit.id())
    job = select(run.jobs, visit.number("job"))
    detail = await _detail(visit, job) if job else None
    frame = visit.frame(f"Run {run.id}: {run.title or run.project}", "runs")
    final = run.status in FINAL
    log = await _read_log(visit, job) if job and "fragment" not in visit.request.query_params else None

    def answer() -> Response:
        picture = picture_of(run, frame.now_ms)
        if "fragment" in visit.request.query_params:
            parts = RunParts(frame=frame, run=run, final=final, picture=picture, detail=detail)
            return visit.site.respond(parts)
        page = RunPage(frame=frame, run=run, final=final, picture=picture, detail=detail, log=log)
        return visit.site.respond(page)

    # hundreds of jobs and of lines take tens of milliseconds, in which no runner would be answered
    return await asyncio.to_thread(answer)


async def job_page(visit: Visit) -> Response:
    """A job's address leads to it on the page of its run."""
    job = await jobs.view(visit.hub, visit.reader, visit.id())
    return go(f"/runs/{job.run}?job={job.id}")


async def log_page(visit: Visit) -> Response:
    """The whole log of a job's newest attempt, as the text it is."""
    job_id, reader = visit.id(), visit.reader
    first, total = await jobs.log(visit.hub, reader, job_id, offset=0, limit=LOG_PIECE_BYTES)

    async def pieces() -> AsyncIterator[bytes]:
        piece, offset = first, 0
        while piece and offset < total:  # what comes after the start of the answer is left out
            yield piece[: total - offset]
            offset += len(piece)
            piece, _ = await jobs.log(visit.hub, reader, job_id, offset=offset, limit=LOG_PIECE_BYTES)

    headers = {**SECURITY_HEADERS, "cache-control": PRIVATE, "vary": "cookie"}
    headers["content-disposition"] = f'inline; filename="job-{job_id}.log"'
    return StreamingResponse(pieces(), media_type="text/plain", headers=headers)


async def lines_page(visit: Visit) -> Response:
    """The log of a job's newest attempt by pages: `?page=`, or `?line=`, which leads to its page."""
    job = await jobs.view(visit.hub, visit.reader, visit.id())
    if line := visit.number("line"):
        return go(f"/jobs/{job.id}/lines?page={1 + (line - 1) // PAGE_LINES}#L{line}")

    async def read(offset: int) -> tuple[bytes, int]:
        return await jobs.log(visit.hub, visit.reader, job.id, attempt=job.attempt, offset=offset)

    found = await read_page(read, max(1, visit.number("page") or 1), job.status in FINAL)
    page = LinesPage(
        frame=visit.frame(f"Log of {job.name}", "runs"),
        job=job,
        log=found.log,
        page=found.page,
        pages=found.pages,
        count=found.count,
    )
    return await asyncio.to_thread(visit.site.respond, page)


async def runners_page(visit: Visit) -> Response:
    """Every runner that the reader may see."""
    found = await runners.listing(visit.hub, visit.reader)
    images = (await images_show.listing(visit.hub, visit.reader)).images
    page = RunnersPage(
        frame=visit.frame("Runners", "runners"),
        runners=tuple(found.runners),
        images={image.hash: tuple(image.names) for image in images},
    )
    return visit.site.respond(page)


async def queue_page(visit: Visit) -> Response:
    """What waits, and why."""
    found = await queue.view(visit.hub, visit.reader)
    chart = chart_of(await queue_day.day(visit.hub, visit.reader))
    return visit.site.respond(QueuePage(frame=visit.frame("Queue", "queue"), queue=found, chart=chart))


async def on_hub_error(request: Request, error: Exception) -> Response:
    """A page that says what to do; whoever is not signed in goes to sign in, and comes back."""
    assert isinstance(error, HubError)
    visit = visit_of(open_site(assets.templates()), request)
    if isinstance(error, Unauthorised) and request.method in ("GET", "HEAD"):
        goal = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return go(_address("/login", {"goal": goal}))
    return error_page(visit, error.status, error.title, error.detail)


async def on_http_error(request: Request, error: Exception) -> Response:
    """The router's own: no such page, or a form sent to a page that takes none."""
    assert isinstance(error, HTTPException)
    visit = visit_of(open_site(assets.templates()), request)
    if error.status_code == 404:
        return error_page(
            visit, 404, "Not found", "There is no such page. What there is starts from the list of runs."
        )
    return error_page(
        visit,
        error.status_code,
        "Not possible",
        "This address is not for that. Go back, and reload the page.",
    )


async def on_any_error(request: Request, error: Exception) -> Response:
    """A fault of ours: told without its words, which the server logs when it is raised on."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    visit = visit_of(open_site(assets.templates()), request)
    return error_page(
        visit,
        500,
        "The hub failed at this",
        "Its log says why. Try again; if it stays, tell whoever runs it.",
    )


async def _detail(visit: Visit, job: JobView) -> Detail:
    placed = bool(job.placed)
    if job.waiting is not None and not job.waiting.runners:  # a run of many jobs tells the headlines alone
        job = await jobs.view(visit.hub, visit.reader, job.id)
    return Detail(
        job=job,
        final=job.status in FINAL,
        steps=steps_of(job),
        comparison=await jobs.placement(visit.hub, visit.reader, job.id) if placed else None,
        artifacts=tuple((await jobs.artifacts(visit.hub, visit.reader, job.id)).artifacts),
        results=await results_show.view(visit.hub, visit.reader, job.id) if job.attempt else None,
    )


async def _read_log(visit: Visit, job: JobView) -> Log:
    """The end of the log, folded. The service gives a piece at a time, of a size it chooses."""
    _, total = await jobs.log(visit.hub, visit.reader, job.id, attempt=job.attempt, offset=0, limit=1)
    start = offset = max(0, total - TAIL_BYTES)
    pieces: list[bytes] = []
    while offset < total:
        piece, _ = await jobs.log(
            visit.hub, visit.reader, job.id, attempt=job.attempt, offset=offset, limit=total - offset
        )
        if not piece:
            break  # it was cut or removed meanwhile: what was read is shown
        pieces.append(piece)
        offset += len(piece)
    tail = b"".join(pieces)
    final = job.status in FINAL
    return await asyncio.to_thread(fold, tail, start=start, total=total, final=final)


def _static(site: Site) -> Endpoint:
    async def answer(request: Request) -> Response:
        found = site.asset(request.path_params["version"], request.path_params["name"])
        if found is None:
            return error_page(visit_of(site, request), 404, "Not found", "there is no such file")
        return found

    return answer


def _address(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}" if query else path
