"""Who is asking: a bearer token, or for reading the cookie of somebody who signed in."""

from starlette.requests import Request

from hub.errors import Unauthorised
from hub.service import access
from hub.service.access import Principal
from hub.service.hub import Hub

COOKIE = "shunter_session"
MAX_TOKEN = 200  # characters: longer is none of ours, and is not hashed


def hub_of(request: Request) -> Hub:
    """The hub that serves this request."""
    hub: Hub = request.app.state.hub
    return hub


def principal_of(request: Request) -> Principal:
    """The holder of the request's token. Raises Unauthorised.

    The cookie counts for reading only: a page elsewhere can make a browser send it.
    """
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        secret = request.cookies.get(COOKIE, "") if request.method in ("GET", "HEAD") else ""
    secret = secret.strip()
    if not secret:
        raise Unauthorised(
            "send `Authorization: Bearer TOKEN`; an admin makes tokens with `shunter token add`"
        )
    principal = find(request, secret)
    if principal is None:
        raise Unauthorised("this token is not known here: it may be mistyped, revoked or expired")
    return principal


def find(request: Request, secret: str) -> Principal | None:
    """The holder of a token, however it came; None: unknown, revoked or expired."""
    hub = hub_of(request)
    return access.find(hub.tokens, secret, hub.now_ms()) if len(secret) <= MAX_TOKEN else None
