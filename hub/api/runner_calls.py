"""Calls of runners: claim a job, and work on it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hub.api.asking import hub_of, principal_of
from hub.api.bodies import answer, nothing, read_body, read_message, spooled
from hub.api.people import number, path_id
from hub.errors import BadRequest
from hub.service import artifacts, attempts, claims, results, workspaces
from hub.wire.base import MAX_LOG_PIECE_BYTES
from hub.wire.claim import Claim, Drain, Finish, GiveBack, Heartbeat, Start


async def claim(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    message = await read_message(request, Claim)
    address = request.client.host if request.client else ""
    async with _leaving(request) as gone:
        given = await claims.claim(hub, principal, message, address=address, gone=gone)
    return nothing() if given is None else answer(given)


@asynccontextmanager
async def _leaving(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set once the client has left: the server does not cancel a handler then."""
    gone = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    watching = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        watching.cancel()


async def drain(request: Request) -> Response:
    await claims.drain(hub_of(request), principal_of(request), await read_message(request, Drain))
    return nothing()


async def start(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    await attempts.start(hub, principal, path_id(request), await read_message(request, Start))
    return nothing()


async def heartbeat(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    message = await read_message(request, Heartbeat)
    return answer(await attempts.heartbeat(hub, principal, path_id(request), message))


async def append_log(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    offset = number(request, "offset")
    if offset is None:
        raise BadRequest("`offset` is needed: the number of the byte at which the piece begins")
    piece = await read_body(request, MAX_LOG_PIECE_BYTES)
    return answer(
        await attempts.append_log(hub, principal, path_id(request), lease_of(request), offset, piece)
    )


async def finish(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    await attempts.finish(hub, principal, path_id(request), await read_message(request, Finish))
    return nothing()


async def decline(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    await attempts.decline(hub, principal, path_id(request), await read_message(request, GiveBack))
    return nothing()


async def release(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    await attempts.release(hub, principal, path_id(request), await read_message(request, GiveBack))
    return nothing()


async def put_artifact(request: Request) -> Response:
    hub, principal, lease = hub_of(request), principal_of(request), lease_of(request)
    attempt = await attempts.mine(hub, principal, path_id(request), lease)
    path = artifacts.check_path(request.path_params["path"])
    report = request.query_params.get("report")
    kind = None if report is None else results.kind_of(report)
    async with spooled(request, hub.spool, hub.config.artifact_mib * 2**20) as (file, size, digest):
        kept = await artifacts.put(hub, attempt, path, file, size, digest)
        if kind is not None:
            await results.put(hub, attempt, kind, path, file)
        return answer(kept, 201)


async def get_workspace(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    attempt = await attempts.mine(hub, principal, path_id(request), lease_of(request))
    found, pieces = await workspaces.read(hub, attempt)
    headers = {"Content-Length": str(found.bytes)}
    return StreamingResponse(hub.tally.served(pieces), media_type="application/zstd", headers=headers)


def lease_of(request: Request) -> str:
    """The header `Lease`. Raises BadRequest."""
    lease = request.headers.get("lease", "")
    if not lease or len(lease) > 200:
        raise BadRequest("the header `Lease` is needed: the token of the attempt's lease")
    return lease
