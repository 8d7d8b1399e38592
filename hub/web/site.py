"""Templates and static files, read once at the start, and the responses made from them.

Every response carries the same strict headers: nothing is loaded from elsewhere, nothing runs that
is not a file of this hub, nobody frames it. Static files are answered from memory by their name in a
fixed table, so that no request ever names a path on disk; their address holds a hash of all of
them, which makes them immutable for caches and moves the modules that import one another together.
"""

import hashlib
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from hub.web import words
from hub.web.contexts import Page
from hub.wire.runs import FINAL

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
PRIVATE = "private, no-cache"  # pages show what one token reaches; the back button still works
IMMUTABLE = "public, max-age=31536000, immutable"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """One static file."""

    body: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """All that pages are made from. `version` stands in the address of every static file."""

    environment: Environment
    assets: dict[str, Asset]
    version: str

    def render(self, page: Page) -> str:
        """The page's template, given exactly its fields."""
        template = self.environment.get_template(page.template)
        return template.render({field.name: getattr(page, field.name) for field in fields(page)})

    def respond(self, page: Page, status: int = 200) -> Response:
        """The page as a response, private to its reader."""
        headers = {**SECURITY_HEADERS, "cache-control": PRIVATE, "vary": "cookie"}
        return HTMLResponse(self.render(page), status_code=status, headers=headers)

    def asset(self, version: str, name: str) -> Response | None:
        """The static file called `name`; None: there is none. Immutable only at its own version."""
        found = self.assets.get(name)
        if found is None:
            return None
        caching = IMMUTABLE if version == self.version else "no-cache"
        headers = {**SECURITY_HEADERS, "cache-control": caching}
        return Response(found.body, media_type=found.media_type, headers=headers)


@cache  # files that do not change while the hub runs, for routes and error pages alike
def open_site(templates: Path) -> Site:
    """The site whose pages lie in `templates` and whose static files lie in its folder `static`."""
    assets = _read_assets(templates / "static")
    digest = hashlib.sha256()
    for name, asset in sorted(assets.items()):
        digest.update(f"{name}\0{len(asset.body)}\0".encode() + asset.body)
    version = digest.hexdigest()[:16]
    return Site(environment=_environment(templates, version), assets=assets, version=version)


def _read_assets(folder: Path) -> dict[str, Asset]:
    return {
        path.relative_to(folder).as_posix(): Asset(body=path.read_bytes(), media_type=_TYPES[path.suffix])
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in _TYPES
    }


def _environment(templates: Path, version: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.globals.update(static=f"/static/{version}", FINAL=FINAL)
    for name in (
        "iso",
        "full",
        "duration",
        "elapsed",
        "span",
        "age",
        "size",
        "mib",
        "seconds",
        "plural",
        "percent",
        "words",
        "address",
    ):
        environment.filters[name] = getattr(words, name)
    environment.filters["epoch_ms"] = words.epoch_ms
    return environment


def _finalize(value: Any) -> Any:
    """What is put on a page: no control or bidirectional character of anybody's; None as a dash."""
    if value is None:
        return "–"  # noqa: RUF001 - the dash that stands for "not reported"
    if isinstance(value, str) and not isinstance(value, Markup):
        return words.shown(value)
    return value
