"""Calls of people and programs: runs, jobs, artifacts, workspaces."""

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hub.api.asking import hub_of, principal_of
from hub.api.bodies import answer, nothing, read_message, spooled
from hub.config import VERSION
from hub.errors import BadRequest, NotFound
from hub.service import artifacts, jobs, preview, queue, results_show, runs, workspaces
from hub.wire.fleet import Me
from hub.wire.runs import Submit

LOG_TYPE = "text/plain; charset=utf-8"


async def submit_run(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    made = await runs.submit(hub, principal, await read_message(request, Submit))
    response = answer(made, 201)
    response.headers["Location"] = f"/api/v1/runs/{made.id}"
    return response


async def list_runs(request: Request) -> Response:
    query = request.query_params
    found = await runs.listing(
        hub_of(request),
        principal_of(request),
        project=query.get("project") or None,
        status=query.get("status") or None,
        search=query.get("search") or None,
        before=number(request, "before"),
        limit=number(request, "limit") or 50,
    )
    return answer(found)


async def view_run(request: Request) -> Response:
    return answer(await runs.view(hub_of(request), principal_of(request), path_id(request)))


async def cancel_run(request: Request) -> Response:
    await runs.cancel(hub_of(request), principal_of(request), path_id(request))
    return nothing()


async def retry_run(request: Request) -> Response:
    return answer(await runs.retry(hub_of(request), principal_of(request), path_id(request)), 201)


async def view_job(request: Request) -> Response:
    return answer(await jobs.view(hub_of(request), principal_of(request), path_id(request)))


async def cancel_job(request: Request) -> Response:
    await jobs.cancel(hub_of(request), principal_of(request), path_id(request))
    return nothing()


async def retry_job(request: Request) -> Response:
    return answer(await jobs.retry(hub_of(request), principal_of(request), path_id(request)), 201)


async def job_placement(request: Request) -> Response:
    return answer(await jobs.placement(hub_of(request), principal_of(request), path_id(request)))


async def job_log(request: Request) -> Response:
    """The log from `offset`; `Log-Bytes` is its length now, so that a reader knows whether to ask on."""
    piece, size = await jobs.log(
        hub_of(request),
        principal_of(request),
        path_id(request),
        offset=number(request, "offset") or 0,
        limit=number(request, "limit") or jobs.MAX_LOG_READ_BYTES,
        attempt=number(request, "attempt"),
    )
    return Response(piece, media_type=LOG_TYPE, headers={"Log-Bytes": str(size), "Cache-Control": "no-cache"})


async def list_artifacts(request: Request) -> Response:
    return answer(await jobs.artifacts(hub_of(request), principal_of(request), path_id(request)))


async def job_results(request: Request) -> Response:
    return answer(await results_show.view(hub_of(request), principal_of(request), path_id(request)))


async def get_artifact(request: Request) -> Response:
    """The bytes, always as a download: what a job made is never shown as a page of the hub's."""
    found, pieces = await artifacts.read(
        hub_of(request), principal_of(request), path_id(request), request.path_params["path"]
    )
    name = quote(found.path.rpartition("/")[2])
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(found.bytes),
        "X-Content-Type-Options": "nosniff",
    }
    sent = hub_of(request).tally.served(pieces)
    return StreamingResponse(sent, media_type="application/octet-stream", headers=headers)


async def preview_run(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    return answer(await preview.preview(hub, principal, await read_message(request, Submit)))


async def view_queue(request: Request) -> Response:
    return answer(await queue.view(hub_of(request), principal_of(request)))


async def view_fleet(request: Request) -> Response:
    return answer(await queue.fleet(hub_of(request), principal_of(request)))


async def has_workspace(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    await workspaces.find(hub, principal, project_of(request), request.path_params["hash"])
    return Response()


async def put_workspace(request: Request) -> Response:
    hub, principal, project = hub_of(request), principal_of(request), project_of(request)
    workspaces.may_put(hub, principal, project)
    limit = hub.config.workspace_mib * 2**20
    async with spooled(request, hub.spool, limit) as (file, size, digest):
        if digest != request.path_params["hash"]:
            raise BadRequest(f"these bytes hash to {digest}, not to their name: send them again")
        return answer(await workspaces.put(hub, principal, project, digest, file, size), 201)


async def me(request: Request) -> Response:
    principal = principal_of(request)
    return answer(Me(name=principal.name, kind=principal.kind, scope=principal.scope, version=VERSION))


def path_id(request: Request) -> int:
    """The number in the path. One that no row can have is simply not there."""
    text = request.path_params["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound("there is no such thing here, or your token does not reach it")
    return int(text)


def number(request: Request, name: str) -> int | None:
    """A query parameter that is a number of 0 or more; None: not given. Raises BadRequest."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise BadRequest(f"`{name}` is a whole number of 0 or more")
    return int(text)


def project_of(request: Request) -> str:
    """The query parameter `project`. Raises BadRequest."""
    project = request.query_params.get("project", "")
    if not project or len(project) > 201:
        raise BadRequest("`project` is needed, as owner/name")
    return project
