"""Calls about the hub itself: runners, tokens and its journal."""

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hub.api.asking import hub_of, principal_of
from hub.api.bodies import answer, nothing, read_message
from hub.api.people import path_id
from hub.service import journal, runners, tokens
from hub.wire.fleet import ChangeRunner, NewRunner, NewToken


async def list_runners(request: Request) -> Response:
    return answer(await runners.listing(hub_of(request), principal_of(request)))


async def view_runner(request: Request) -> Response:
    return answer(await runners.view(hub_of(request), principal_of(request), request.path_params["name"]))


async def add_runner(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    return answer(await runners.add(hub, principal, await read_message(request, NewRunner)), 201)


async def change_runner(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    message = await read_message(request, ChangeRunner)
    return answer(await runners.change(hub, principal, request.path_params["name"], message))


async def remove_runner(request: Request) -> Response:
    await runners.remove(hub_of(request), principal_of(request), request.path_params["name"])
    return nothing()


async def list_tokens(request: Request) -> Response:
    return answer(await tokens.listing(hub_of(request), principal_of(request)))


async def add_token(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    return answer(await tokens.add(hub, principal, await read_message(request, NewToken)), 201)


async def remove_token(request: Request) -> Response:
    await tokens.remove(hub_of(request), principal_of(request), path_id(request))
    return nothing()


async def view_journal(request: Request) -> Response:
    pieces = journal.journal(hub_of(request), principal_of(request))
    return StreamingResponse(pieces, media_type="application/x-ndjson", headers={"Cache-Control": "no-cache"})
