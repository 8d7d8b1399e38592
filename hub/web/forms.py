"""What a page can change: sign in and out, cancel and retry. Every form ends in a redirect.

Each handler runs behind the check that the form came from one of the hub's own pages; what the
person may do is decided by the service.
"""

from starlette.responses import Response

from hub.service import access, jobs, runs
from hub.web.contexts import LoginPage
from hub.web.session import goal_of, is_secure, read_form, sign_in, sign_out
from hub.web.visit import Visit, go

MAX_TOKEN = 200  # characters: longer than any token the hub makes


async def login_page(visit: Visit) -> Response:
    """The form that asks for a token; whoever is signed in already is sent on."""
    goal = goal_of(visit.request.query_params.get("goal"))
    if visit.principal is not None:
        return go(goal)
    return _ask(visit, goal, "")


async def sign_in_form(visit: Visit) -> Response:
    """Take a token for this browser."""
    form = await read_form(visit.request)
    goal, secret = goal_of(form.get("goal")), form.get("token", "").strip()
    if not secret:
        return _ask(visit, goal, "Paste a token: `shunter token add` makes one.", 400)
    found = None
    if len(secret) <= MAX_TOKEN and secret.isascii():
        found = access.find(visit.hub.tokens, secret, visit.hub.now_ms())
    if found is None:
        return _ask(visit, goal, "This token is not valid here: it is mistyped, revoked or expired.", 401)
    if found.kind == "runner":
        return _ask(
            visit, goal, "This is a runner's token: a person signs in with a token of their own.", 403
        )
    answer = go(goal)
    sign_in(answer, secret, secure=is_secure(visit.request, visit.hub.config.base_url))
    return answer


async def sign_out_form(visit: Visit) -> Response:
    """Forget the token in this browser; the token itself stays valid."""
    answer = go("/login")
    sign_out(answer, secure=is_secure(visit.request, visit.hub.config.base_url))
    return answer


async def cancel_run(visit: Visit) -> Response:
    await runs.cancel(visit.hub, visit.reader, visit.id())
    return go(f"/runs/{visit.id()}")


async def retry_run(visit: Visit) -> Response:
    """Goes to the new run."""
    made = await runs.retry(visit.hub, visit.reader, visit.id())
    return go(f"/runs/{made.id}")


async def cancel_job(visit: Visit) -> Response:
    await jobs.cancel(visit.hub, visit.reader, visit.id())
    return go(f"/jobs/{visit.id()}")


async def retry_job(visit: Visit) -> Response:
    """Goes to the new run."""
    made = await jobs.retry(visit.hub, visit.reader, visit.id())
    return go(f"/runs/{made.id}")


def _ask(visit: Visit, goal: str, fault: str, status: int = 200) -> Response:
    return visit.site.respond(LoginPage(frame=visit.frame("Sign in"), goal=goal, fault=fault), status)
