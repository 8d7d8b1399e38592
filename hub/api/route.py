"""One row of the route table: the path, what goes in, what comes out, and who may call it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]
Who = Literal["anybody", "read", "submit", "images", "admin", "runner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """A query parameter or header, as the OpenAPI document tells it."""

    name: str
    where: Literal["query", "header"] = "query"
    required: bool = False
    type: Literal["string", "integer"] = "string"
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the API. `gives` None: `status` 204, or bytes of the type `media`."""

    method: str
    path: str
    handler: Handler
    who: Who
    text: str
    takes: type[BaseModel] | None = None
    gives: type[BaseModel] | None = None
    status: int = 200
    params: tuple[Param, ...] = ()
    media: str | None = None  # of an answer that is not JSON
    takes_bytes: bool = False
