"""Bodies in, within their bounds, and answers out. What is wrong with a body is told by field."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import blake3
from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hub.errors import BadRequest, TooLarge
from hub.wire.base import MAX_BODY_BYTES
from hub.wire.problem import Fault

M = TypeVar("M", bound=BaseModel)

MAX_FAULTS = 20  # told of one body; more would not help whoever wrote it


async def read_body(request: Request, limit: int = MAX_BODY_BYTES) -> bytes:
    """The whole body. Raises TooLarge as soon as it is over `limit` bytes, whatever its header says."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > limit:
        raise TooLarge(f"the body has {said} bytes: {limit} at most")
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > limit:
            raise TooLarge(f"the body is over {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def read_message(request: Request, kind: type[M]) -> M:
    """The body as a message. Raises BadRequest that names each field that is wrong."""
    body = await read_body(request)
    try:
        return kind.model_validate_json(body or b"{}")
    except ValidationError as error:
        raise BadRequest("mend the fields named in `faults`", faults=faults_of(error)) from None


def faults_of(error: ValidationError) -> list[Fault]:
    """Each fault with its path, as `facts.speed_class` or `labels[3]`."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [
        Fault(path=path_of(one["loc"]), text=_said(one["type"], one["msg"])) for one in found[:MAX_FAULTS]
    ]


def path_of(place: tuple[int | str, ...]) -> str:
    """`("jobs", 3, "name")` as `jobs[3].name`."""
    path = ""
    for part in place:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path[:200]


def _said(kind: str, text: str) -> str:
    return "is not a field of this message" if kind == "extra_forbidden" else text[:300]


@asynccontextmanager
async def spooled(request: Request, folder: Path, limit: int) -> AsyncIterator[tuple[Path, int, str]]:
    """The body in a temporary file: its path, length and BLAKE3. Gone when the block ends.

    Raises TooLarge, with nothing left behind, as soon as it is over `limit` bytes.
    """
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > limit:
        raise TooLarge(f"this is {said} bytes: {limit} at most")
    digest, size = blake3.blake3(), 0
    with tempfile.NamedTemporaryFile(dir=folder, prefix="upload-") as file:
        async for piece in request.stream():
            size += len(piece)
            if size > limit:
                raise TooLarge(f"this is over {limit} bytes")
            digest.update(piece)
            file.write(piece)
        file.flush()
        yield Path(file.name), size, digest.hexdigest()


def answer(message: BaseModel, status: int = 200) -> Response:
    """A message as JSON."""
    return Response(message.model_dump_json(), status, media_type="application/json")


def nothing() -> Response:
    """204: done, and nothing to say."""
    return Response(status_code=204)
