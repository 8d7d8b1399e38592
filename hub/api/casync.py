"""Images for casync: `/casync/NAME.caibx` is an index, `/casync/store/…/ID.cacnk` a chunk.

casync speaks plain HTTP and sends no header of ours, but curl, which it is built on, sends the
`user:password@` of a URL. So a token counts here as either of the two, and nowhere else: elsewhere a
browser could be made to send it. Not to be done here: writing; others push as `shunter image push` does.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hub.api import problems
from hub.api.asking import find, hub_of, principal_of
from hub.api.images import CHUNK_TYPE, FOR_EVER
from hub.chunks.caibx import CHUNK_SUFFIX, SUFFIX
from hub.chunks.chunk import is_name
from hub.errors import NotFound, Unauthorised
from hub.service import images_casync
from hub.service.access import Principal

BASE = "/casync"
# The second is where casync looks by itself, beside the index, when it is not told of a store.
STORES = ("store", "default.castr")
INDEX_TYPE = "application/octet-stream"
CHALLENGE = 'Basic realm="shunter: any token as the password", Bearer'

Handler = Callable[[Request], Awaitable[Response]]


def principal(request: Request) -> Principal:
    """The holder of the token that is the user name or the password. Raises Unauthorised."""
    scheme, _, words = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return principal_of(request)
    try:
        user, _, password = base64.b64decode(words.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):  # not base64, or not UTF-8
        user = password = ""
    for secret in (password, user):
        if secret and (found := find(request, secret)) is not None:
            return found
    raise Unauthorised("neither user name nor password is a token of this hub: http://TOKEN@host/casync/…")


def challenging(handler: Handler) -> Handler:
    """`handler`; where it is not told who asks, the answer says that a user name and password do."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except Unauthorised as error:
            refused = problems.answer(error)
            refused.headers["WWW-Authenticate"] = CHALLENGE
            return refused

    return answer


async def index(request: Request) -> Response:
    """GET /casync/{image}.caibx, by name or by hash: of a name, it may be another tomorrow."""
    hub, who, image = hub_of(request), principal(request), request.path_params["image"]
    image_hash = images_casync.resolve(hub, who, image)
    kept = FOR_EVER if image == image_hash else {"Cache-Control": "private, no-cache"}
    found = await images_casync.index(hub, who, image_hash)
    headers = {**kept, "ETag": f'"{found.hash}"', "Vary": "Authorization"}
    return Response(found.body, media_type=INDEX_TYPE, headers=headers)


async def chunk(request: Request) -> Response:
    """GET /casync/store/{first four digits}/{id}.cacnk."""
    hub, who, id_ = hub_of(request), principal(request), request.path_params["id"]
    if not is_name(id_) or request.path_params["prefix"] != id_[:4]:
        raise NotFound("a chunk's path is the first four digits of its id, and the 64 of the id")
    body = await images_casync.chunk(hub, who, id_)
    headers = {**FOR_EVER, "ETag": f'"{id_}"', "Vary": "Authorization"}
    return Response(body, media_type=CHUNK_TYPE, headers=headers)


def routes() -> list[Route]:
    """The two paths, one of them under two names."""
    return [
        *(
            Route(f"{BASE}/{store}/{{prefix}}/{{id}}{CHUNK_SUFFIX}", challenging(chunk), methods=["GET"])
            for store in STORES
        ),
        Route(f"{BASE}/{{image}}{SUFFIX}", challenging(index), methods=["GET"]),
    ]
