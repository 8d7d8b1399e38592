"""Errors as they are answered: `application/problem+json`, with a `detail` that says what to do."""

import logging

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from hub.errors import HubError, NotFound
from hub.service import faults
from hub.wire.problem import MEDIA_TYPE, Problem

log = logging.getLogger(__name__)


def answer(error: HubError) -> Response:
    """The answer to a call that cannot be carried out."""
    problem = Problem(
        title=error.title, status=error.status, detail=error.detail, faults=error.faults, offset=error.offset
    )
    headers = {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    body = problem.model_dump_json(exclude_none=True)
    return Response(body, error.status, headers=headers, media_type=MEDIA_TYPE)


async def on_hub_error(request: Request, error: Exception) -> Response:
    """An expected error."""
    assert isinstance(error, HubError)
    return answer(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """The router's own: no such path, or a method that the path does not have."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return answer(NotFound("there is no such path: GET /openapi.json lists them"))
    problem = Problem(title="Not possible", status=error.status_code, detail=error.detail)
    return Response(
        problem.model_dump_json(exclude_none=True), error.status_code, error.headers, media_type=MEDIA_TYPE
    )


async def on_any_error(request: Request, error: Exception) -> Response:
    """A fault of ours, or of the machine under us; never the words of the fault itself."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    if (known := faults.of_machine(error)) is not None:
        log.error("%s: %s", known.title, error)
        return answer(known)
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return answer(HubError("the hub failed at this; its log says why. Nothing of this call was kept"))
