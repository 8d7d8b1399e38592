"""The OpenAPI document is valid, whole, and true to the routes."""

from pathlib import Path

from openapi_spec_validator import OpenAPIV31SpecValidator

from hub.api.openapi import document
from hub.api.routes import BASE, CALLS
from tests.hubs import running


def test_the_document_is_valid_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(document("1.0")).validate()


def test_every_call_is_in_it() -> None:
    paths = document("1.0")["paths"]
    for call in CALLS:
        path = BASE + call.path.replace("{path:path}", "{path}")
        assert call.method.lower() in paths[path], path
    assert sum(len(methods) for methods in paths.values()) == len(CALLS)


async def test_the_hub_serves_it_and_the_schema_of_the_pipeline_file(tmp_path: Path) -> None:
    async with running(tmp_path) as hub:
        assert (await hub.admin.get("//openapi.json"))["openapi"] == "3.1.0"
        assert "properties" in await hub.admin.get("//pipeline.schema.json")
        for path in ("//healthz", "//readyz", "//metrics"):
            assert (await hub.admin.call("GET", path)).status_code == 200
