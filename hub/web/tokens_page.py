"""The page of the API tokens, for admins: list, add, revoke.

A new token's secret is in the one answer to the form that made it: it stands in no address, is kept by
no cache, and nothing here remembers it.
"""

from typing import get_args

from starlette.responses import Response

from hub.errors import BadRequest
from hub.service import tokens
from hub.web.contexts import TokensPage
from hub.web.session import read_form
from hub.web.visit import Visit, go
from hub.wire.fleet import NewToken, Scope, TokenKind, TokenMade

DAY_S = 86_400
MAX_DAYS = 3660  # ten years


async def tokens_page(visit: Visit) -> Response:
    """All tokens. Raises Forbidden for whoever may not see them."""
    return await _page(visit)


async def add_token(visit: Visit) -> Response:
    """Make a token, and show it this once."""
    reader = visit.reader
    form = await read_form(visit.request)
    try:
        made = await tokens.add(visit.hub, reader, _asked(form))
    except BadRequest as error:
        return await _page(visit, problem=error.detail, status=error.status)
    return await _page(visit, made=made)


async def remove_token(visit: Visit) -> Response:
    """Revoke it, at once."""
    await tokens.remove(visit.hub, visit.reader, visit.id())
    return go("/tokens")


def _asked(form: dict[str, str]) -> NewToken:
    """The token that a form asks for. Raises BadRequest that says what is wrong."""
    name, scope, days = (form.get(field, "").strip() for field in ("name", "scope", "days"))
    if not name:
        raise BadRequest("A token has a name, by which it is known in this list.")
    if days and not (days.isascii() and days.isdigit() and len(days) < 6 and 0 < int(days) <= MAX_DAYS):
        raise BadRequest(f"A token ends after 1 to {MAX_DAYS} days, or never.")
    try:
        return NewToken.model_validate(
            {
                "name": name,
                "kind": form.get("kind", ""),
                "scope": Scope(project=scope) if "/" in scope else Scope(owner=scope or None),
                "expires_in_s": int(days) * DAY_S if days else None,
            }
        )
    except ValueError:
        kinds = ", ".join(get_args(TokenKind))
        raise BadRequest(
            f"A token is of a kind ({kinds}), has a name of one line, and is for one owner, one project "
            f"(owner/name), or all."
        ) from None


async def _page(
    visit: Visit, *, made: TokenMade | None = None, problem: str = "", status: int = 200
) -> Response:
    found = await tokens.listing(visit.hub, visit.reader)
    page = TokensPage(
        frame=visit.frame("Tokens", "tokens"),
        tokens=tuple(found.tokens),
        kinds=get_args(TokenKind),
        made=made,
        problem=problem,
    )
    answer = visit.site.respond(page, status)
    if made is not None:
        answer.headers["cache-control"] = "no-store"
    return answer
