"""The OpenAPI 3.1 document, made from the route table and the wire messages."""

import re
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hub.api.route import Call, Param
from hub.api.routes import BASE, CALLS
from hub.wire.problem import MEDIA_TYPE, Problem

REFS = "#/components/schemas/{model}"


def document(version: str) -> dict[str, Any]:
    """The whole document."""
    kinds: list[type[BaseModel]] = [Problem]
    for call in CALLS:
        kinds += [kind for kind in (call.takes, call.gives) if kind is not None and kind not in kinds]
    taken = {call.takes for call in CALLS}
    names, schemas = models_json_schema(
        [(kind, "validation" if kind in taken else "serialization") for kind in kinds], ref_template=REFS
    )
    refs = {kind: schema for (kind, _), schema in names.items()}
    paths: dict[str, Any] = {}
    for call in CALLS:
        paths.setdefault(BASE + _plain(call.path), {})[call.method.lower()] = _operation(call, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Shunter",
            "version": version,
            "description": "A CI runner hub that gives each job to the best runner there is, and says why.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas.get("$defs", {}),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _plain(path: str) -> str:
    return re.sub(r"\{(\w+):path\}", r"{\1}", path)


def _operation(call: Call, refs: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": call.handler.__name__,
        "summary": call.text,
        "description": "Takes any token." if call.who == "anybody" else f"Takes a {call.who} token.",
        "tags": [call.who],
        "parameters": [*_path_params(call.path), *map(_param, call.params)],
        "responses": {
            str(_status(call)): _response(call, refs),
            "default": {
                "description": "A problem; `detail` says what to do",
                "content": {MEDIA_TYPE: {"schema": refs[Problem]}},
            },
        },
    }
    if call.path == "/claim":
        operation["responses"]["204"] = {"description": "Nothing within `wait_s`"}
    if call.takes is not None:
        content = {"application/json": {"schema": refs[call.takes]}}
        operation["requestBody"] = {"required": True, "content": content}
    elif call.takes_bytes:
        operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    return operation


def _status(call: Call) -> int:
    return call.status if call.gives is not None or call.media is not None or call.method == "HEAD" else 204


def _response(call: Call, refs: dict[Any, Any]) -> dict[str, Any]:
    response: dict[str, Any] = {"description": call.text}
    if call.gives is not None:
        response["content"] = {"application/json": {"schema": refs[call.gives]}}
    elif call.media is not None:
        response["content"] = {call.media: {}}
    return response


def _path_params(path: str) -> list[dict[str, Any]]:
    kinds = {"id": {"type": "integer", "minimum": 1}, "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}
    return [
        {"name": name, "in": "path", "required": True, "schema": kinds.get(name, {"type": "string"})}
        for name in re.findall(r"\{(\w+)(?::path)?\}", path)
    ]


def _param(param: Param) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": param.type}
    if param.type == "integer":
        schema["minimum"] = 0
    return {
        "name": param.name,
        "in": param.where,
        "required": param.required,
        "description": param.text,
        "schema": schema,
    }
