"""Calls about images. Chunk bodies are read as a stream, so that memory stays bounded whoever sends."""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hub.api.asking import hub_of, principal_of
from hub.api.bodies import answer, nothing, read_body, read_message
from hub.api.streams import event
from hub.chunks.chunk import is_name
from hub.chunks.frames import MAX_BODY_BYTES, MEDIA_TYPE
from hub.chunks.manifest import MAX_MANIFEST_BYTES
from hub.errors import NotFound
from hub.service import images, images_check, images_chunks, images_gc, images_names, images_show
from hub.service.access import authorise
from hub.wire.images import CheckProgress, Fetch, Missing, NamePut

CHUNK_TYPE = "application/zstd"
# A name says what the bytes are, so they never change; private, because a token decides who may have them.
FOR_EVER = {"Cache-Control": "private, max-age=31536000, immutable"}
YES = frozenset({"1", "true", "yes"})


async def settings(request: Request) -> Response:
    return answer(images_chunks.settings(hub_of(request), principal_of(request)))


async def missing(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    return answer(await images_chunks.missing(hub, principal, await read_message(request, Missing)))


async def put_chunk(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    authorise(principal, "images")
    name = _hash(request)
    body = await read_body(request, MAX_BODY_BYTES)
    return answer(await images_chunks.put(hub, principal, name, body), 201)


async def put_chunks(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    return answer(await images_chunks.put_many(hub, principal, request.stream()), 201)


async def get_chunk(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    name = _hash(request)
    body = await images_chunks.get(hub, principal, name)
    hub.tally.bytes_served += len(body)
    return Response(body, media_type=CHUNK_TYPE, headers={**FOR_EVER, "ETag": f'"{name}"'})


async def fetch_chunks(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    frames = await images_chunks.fetch(hub, principal, await read_message(request, Fetch))
    sent = hub.tally.served(frames)
    return StreamingResponse(sent, media_type=MEDIA_TYPE, headers={"X-Accel-Buffering": "no"})


async def put_image(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    authorise(principal, "images")
    name = _hash(request)
    body = await read_body(request, MAX_MANIFEST_BYTES)
    return answer(await images.put(hub, principal, name, body), 201)


async def view_image(request: Request) -> Response:
    return answer(await images.manifest_of(hub_of(request), principal_of(request), _hash(request)))


async def list_images(request: Request) -> Response:
    return answer(await images_show.listing(hub_of(request), principal_of(request)))


async def remove_image(request: Request) -> Response:
    await images.remove(hub_of(request), principal_of(request), _hash(request))
    return nothing()


async def list_image_names(request: Request) -> Response:
    return answer(await images_names.listing(hub_of(request), principal_of(request)))


async def put_image_name(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    message = await read_message(request, NamePut)
    return answer(await images_names.point(hub, principal, request.path_params["name"], message))


async def remove_image_name(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    owner = request.query_params.get("owner") or None
    await images_names.take_away(hub, principal, request.path_params["name"], owner)
    return nothing()


async def collect_images(request: Request) -> Response:
    hub, principal = hub_of(request), principal_of(request)
    if request.query_params.get("dry_run", "").lower() in YES:
        return answer(await images_gc.plan(hub, principal))
    return answer(await images_gc.collect(hub, principal))


async def check_images(request: Request) -> Response:
    """GET /images/check: `progress` after each pack, `report` with what was found, then `end`."""
    hub, principal = hub_of(request), principal_of(request)
    authorise(principal, "admin")

    async def events() -> AsyncIterator[str]:
        async for found in images_check.check(hub, principal):
            if hub.events.closed:
                return
            name = "progress" if isinstance(found, CheckProgress) else "report"
            yield event(name, found.model_dump_json())
        yield event("end", "{}")

    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(events(), media_type="text/event-stream", headers=headers)


def _hash(request: Request) -> str:
    """The hash in the path. What is none is simply not there."""
    text: str = request.path_params["hash"]
    if not is_name(text):
        raise NotFound(
            "an image and a chunk are named by 64 small hexadecimal digits, the BLAKE3 of their bytes"
        )
    return text
