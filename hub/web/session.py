"""Who is signed in, and whether a form was sent from one of this hub's own pages.

The cookie `shunter_session` holds the token itself: what a token may do, when it ends and that it
can be revoked are then the same for a browser as for a program, and the hub keeps no second kind of
session. It is HttpOnly (no script reads it), SameSite=Lax (no other site's form carries it) and
Secure wherever the hub is reached over https. The API accepts it for GET alone; whatever changes
something comes through a form here, and `from_own_page` has to hold for it.
"""

from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from hub.errors import BadRequest, Forbidden, TooLarge

COOKIE = "shunter_session"
MAX_AGE_S = 30 * 86_400  # then the token is asked for again; revoking it ends the session at once
MAX_FORM_BYTES = 8192  # of a form that says no more: a token and a path
MAX_FIELDS = 16
FORM_TYPE = "application/x-www-form-urlencoded"


def secret_of(request: Request) -> str | None:
    """The token that the browser sent; None: none."""
    return request.cookies.get(COOKIE) or None


def is_secure(request: Request, base_url: str) -> bool:
    """Whether the reader came over https, directly or through a proxy that ends it."""
    return request.url.scheme == "https" or base_url.startswith("https://")


def sign_in(response: Response, secret: str, *, secure: bool) -> None:
    """Have the browser keep `secret`."""
    response.set_cookie(
        COOKIE, secret, max_age=MAX_AGE_S, path="/", httponly=True, samesite="lax", secure=secure
    )


def sign_out(response: Response, *, secure: bool) -> None:
    """Have the browser forget."""
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax", secure=secure)


def from_own_page(request: Request, base_url: str) -> None:
    """Let a form pass that one of the hub's own pages sent, or raise Forbidden.

    Browsers tell where a form comes from in Sec-Fetch-Site (over https and on localhost) and in
    Origin; the first decides where it is there. A request with neither is not a form from a browser
    of this decade, and programs have the API.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None:
        own = site == "same-origin"
    else:
        hosts = {request.headers.get("host", ""), urlsplit(base_url).netloc} - {""}
        own = origin is not None and urlsplit(origin).netloc in hosts
    if not own:
        raise Forbidden(
            "this form was not sent from a page of this hub: open the page and press the button there"
        )


async def read_form(request: Request, limit: int = MAX_FORM_BYTES) -> dict[str, str]:
    """The fields of a form, the last of each name. Raises TooLarge, BadRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise BadRequest(f"a form is sent as {FORM_TYPE}")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise TooLarge(f"this form has at most {limit} bytes")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise BadRequest("the form cannot be read: it is not UTF-8, or has too many fields") from None


def goal_of(text: str | None) -> str:
    """A path on this hub to go to after signing in; `/runs` for whatever else `text` is.

    `//host` and `/\\host` are other sites to a browser, and a control character inside hides them.
    """
    if not text or len(text) > 2000 or not text.isprintable() or not text.isascii():
        return "/runs"
    if not text.startswith("/") or text.startswith("//") or "\\" in text:
        return "/runs"
    return text
