"""Signing in and out, and forms that only the hub's own pages may send."""

from http.cookies import SimpleCookie

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.web.session import goal_of
from tests.web.reading import Page
from tests.web.serving import BASE_URL, RUNNER_SECRET, SECRET, Answers, application, client

OWN = {"origin": BASE_URL, "sec-fetch-site": "same-origin"}
ACTIONS = ["/runs/42/cancel", "/runs/42/retry", "/jobs/172/cancel", "/jobs/172/retry"]


async def test_who_is_not_signed_in_goes_to_sign_in_and_comes_back(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.get("/runs/42?job=171")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/login?goal=%2Fruns%2F42%3Fjob%3D171"
    page = Page((await stranger.get(answer.headers["location"])).text)
    assert page.all("input", type="hidden", name="goal", value="/runs/42?job=171")
    signed_in = await stranger.post("/login", data={"token": SECRET, "goal": "/runs/42?job=171"}, headers=OWN)
    assert signed_in.headers["location"] == "/runs/42?job=171"
    assert (await stranger.get("/runs/42?job=171")).status_code == 200


@pytest.mark.parametrize("path", ["/runs", "/runs/42", "/jobs/171", "/jobs/171/log", "/runners", "/queue"])
async def test_no_page_is_shown_to_a_stranger(stranger: httpx.AsyncClient, path: str) -> None:
    assert (await stranger.get(path)).status_code == 303


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.post("/login", data={"token": f" {SECRET}\n", "goal": ""}, headers=OWN)
    cookie = SimpleCookie(answer.headers["set-cookie"])["shunter_session"]
    assert cookie.value == SECRET
    assert cookie["httponly"]
    assert cookie["samesite"] == "lax"
    assert cookie["path"] == "/"
    assert not cookie["secure"]


async def test_the_cookie_is_kept_to_https_where_the_hub_is_reached_by_it(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = application(answers, monkeypatch, base_url="https://hub.test")
    async with client(app, signed_in=False) as stranger:
        answer = await stranger.post("/login", data={"token": SECRET}, headers=OWN)
    assert SimpleCookie(answer.headers["set-cookie"])["shunter_session"]["secure"]


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("", 400, "Paste a token"),
        ("shu_wrong", 401, "not valid here"),
        ("x" * 5000, 401, "not valid here"),
        ("tökén", 401, "not valid here"),
        (RUNNER_SECRET, 403, "a runner's token"),
    ],
)
async def test_a_token_that_is_none_is_refused_with_words(
    stranger: httpx.AsyncClient, token: str, status: int, words: str
) -> None:
    answer = await stranger.post("/login", data={"token": token, "goal": "/queue"}, headers=OWN)
    assert answer.status_code == status
    assert words in Page(answer.text).text
    assert "set-cookie" not in answer.headers
    assert Page(answer.text).all("input", name="goal", value="/queue")


async def test_signing_out_forgets_the_token(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/logout", headers=OWN)
    assert answer.headers["location"] == "/login"
    cookie = SimpleCookie(answer.headers["set-cookie"])["shunter_session"]
    assert cookie.value == ""
    assert cookie["max-age"] == "0"


@pytest.mark.parametrize("path", ACTIONS)
async def test_a_button_of_the_page_does_what_it_says(
    browser: httpx.AsyncClient, answers: Answers, path: str
) -> None:
    answer = await browser.post(path, headers=OWN)
    _, noun, number, verb = path.split("/")
    assert answers.asked == [(f"{verb} {noun[:-1]}", int(number))]
    back = {"retry": "/runs/43", "cancel": f"/{noun}/{number}"}[verb]
    assert (answer.status_code, answer.headers["location"]) == (303, back)


@pytest.mark.parametrize("path", [*ACTIONS, "/login", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.test"},
        {"origin": BASE_URL, "sec-fetch-site": "cross-site"},
        {"origin": BASE_URL, "sec-fetch-site": "same-site"},
        {"origin": f"{BASE_URL}.evil.test"},
        {"origin": "null"},
        {"referer": f"{BASE_URL}/runs"},
        {},
    ],
)
async def test_a_form_from_elsewhere_changes_nothing(
    browser: httpx.AsyncClient, answers: Answers, path: str, headers: dict[str, str]
) -> None:
    answer = await browser.post(path, data={"token": SECRET}, headers=headers)
    assert answer.status_code == 403
    assert answers.asked == []
    assert "set-cookie" not in answer.headers
    assert "not sent from a page of this hub" in Page(answer.text).text


async def test_an_old_browser_is_known_by_its_origin(browser: httpx.AsyncClient, answers: Answers) -> None:
    assert (await browser.post("/runs/42/cancel", headers={"origin": BASE_URL})).status_code == 303


async def test_a_proxy_that_changes_the_host_does_not_lock_people_out(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    headers = {"origin": BASE_URL, "host": "127.0.0.1:8417"}
    assert (await browser.post("/runs/42/cancel", headers=headers)).status_code == 303


@pytest.mark.parametrize("path", ACTIONS)
async def test_a_stranger_changes_nothing(stranger: httpx.AsyncClient, answers: Answers, path: str) -> None:
    assert (await stranger.post(path, headers=OWN)).status_code == 401
    assert answers.asked == []


@pytest.mark.parametrize("path", ACTIONS)
async def test_a_link_changes_nothing(browser: httpx.AsyncClient, answers: Answers, path: str) -> None:
    assert (await browser.get(path)).status_code == 405
    assert answers.asked == []


async def test_a_form_that_is_too_large_or_no_form_is_refused(stranger: httpx.AsyncClient) -> None:
    large = await stranger.post("/login", data={"token": "x" * 9000}, headers=OWN)
    assert large.status_code == 413
    other = await stranger.post("/login", json={"token": SECRET}, headers=OWN)
    assert other.status_code == 400
    many = await stranger.post("/login", data={f"f{number}": "1" for number in range(20)}, headers=OWN)
    assert many.status_code == 400


@pytest.mark.parametrize(
    "goal",
    ["", "runs", "//evil.test", "/\\evil.test", "https://evil.test", "/\t/evil.test", "/\n/evil.test", "/é",
     "javascript:alert(1)", "/" + "x" * 3000],
)  # fmt: skip
def test_signing_in_never_leads_to_another_site(goal: str) -> None:
    assert goal_of(goal) == "/runs"


@given(st.text(max_size=30))
def test_whatever_the_goal_is_it_is_a_path_here(text: str) -> None:
    goal = goal_of("/" + text)
    assert goal.startswith("/")
    assert not goal.startswith(("//", "/\\"))
    assert goal.isprintable()
