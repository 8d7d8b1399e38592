"""One visit to one page: the request with all that a handler needs.

Handlers are functions of a `Visit`; `endpoint` makes a Starlette endpoint of one. They raise the
errors of `hub.errors`, which `pages.on_hub_error` turns into pages.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hub.errors import BadRequest, NotFound, Unauthorised
from hub.service import access
from hub.service.access import Principal
from hub.service.hub import Hub
from hub.web.contexts import ErrorPage, Frame
from hub.web.session import from_own_page, secret_of
from hub.web.site import PRIVATE, SECURITY_HEADERS, Site

MAX_ID = 2**63 - 1  # what the store's integers hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request to a page. `principal` None: nobody is signed in."""

    request: Request
    hub: Hub
    site: Site
    principal: Principal | None

    @property
    def reader(self) -> Principal:
        """Who is signed in. Raises Unauthorised where nobody is."""
        if self.principal is None:
            raise Unauthorised("sign in to see this page")
        return self.principal

    def frame(self, title: str, section: str = "") -> Frame:
        """What stands around the page."""
        person = self.principal
        return Frame(
            title=title,
            section=section,
            now_ms=self.hub.now_ms(),
            person=person.name if person else None,
            may_submit=person is not None and "submit" in access.ALLOWS[person.kind],
            may_admin=person is not None and person.kind == "admin" and person.everywhere,
        )

    def id(self) -> int:
        """The `{id}` of the address. Raises NotFound for one that no store could hold."""
        number = int(self.request.path_params["id"])
        if number > MAX_ID:
            raise NotFound("there is nothing with such a number")
        return number

    def number(self, name: str) -> int | None:
        """A number in the query; None: not there. Raises BadRequest for anything else."""
        text = self.request.query_params.get(name, "")
        if not text:
            return None
        if not (text.isascii() and text.isdigit()) or int(text[:20]) > MAX_ID:
            raise BadRequest(f"`{name}` in the address is to be a number")
        return int(text)


Handler = Callable[[Visit], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def endpoint(site: Site, handler: Handler) -> Endpoint:
    """The endpoint of a page that is read."""

    async def answer(request: Request) -> Response:
        return await handler(visit_of(site, request))

    return answer


def form_endpoint(site: Site, handler: Handler) -> Endpoint:
    """The endpoint of a form: reached only from the hub's own pages."""

    async def checked(visit: Visit) -> Response:
        from_own_page(visit.request, visit.hub.config.base_url)
        return await handler(visit)

    return endpoint(site, checked)


def visit_of(site: Site, request: Request) -> Visit:
    """The visit behind a request."""
    hub: Hub = request.app.state.hub
    secret = secret_of(request)
    principal = access.find(hub.tokens, secret, hub.now_ms()) if secret else None
    return Visit(request=request, hub=hub, site=site, principal=principal)


def go(path: str) -> Response:
    """Send the browser to `path` on this hub, by GET."""
    return RedirectResponse(path, 303, headers={**SECURITY_HEADERS, "cache-control": PRIVATE})


def error_page(visit: Visit, status: int, title: str, detail: str) -> Response:
    """A page that says what went wrong and what to do."""
    page = ErrorPage(frame=visit.frame(title), status=status, title=title, detail=detail)
    return visit.site.respond(page, status)
