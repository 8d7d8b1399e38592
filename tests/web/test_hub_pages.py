"""The pages of images, preview and tokens, the results of a job, and the day behind the queue."""

import dataclasses
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from hub import assets
from hub.errors import Unprocessable
from hub.web.chart import HEIGHT, chart_of
from hub.web.contexts import Detail as JobDetail
from hub.web.contexts import Frame, ImagesPage, PreviewPage, RunPage, TokensPage, picture_of, steps_of
from hub.web.log import fold
from hub.web.site import open_site
from hub.web.words import percent
from hub.wire.fleet import Scope, TokenMade, TokenView
from hub.wire.images import ImageList, ImageView
from hub.wire.problem import Fault
from hub.wire.results import Coverage, FailedTest, FlakyTest, PackageCoverage, ReportFile, Results, SlowTest
from hub.wire.runs import Preview, PreviewJob
from tests.web import samples
from tests.web.hostile import HOSTILE, RUNNER_LACKS, WAITING
from tests.web.reading import Page
from tests.web.serving import ADMIN_SECRET, BASE_URL, Answers

OWN = {"origin": BASE_URL}
FRAME = Frame(title="A", section="", now_ms=samples.NOW_MS, person="a", may_submit=True, may_admin=True)


def read(answer: httpx.Response, status: int = 200) -> Page:
    assert answer.status_code == status, answer.text
    return Page(answer.text)


@pytest.fixture
def admin(browser: httpx.AsyncClient) -> httpx.AsyncClient:
    browser.cookies.set("shunter_session", ADMIN_SECRET)
    return browser


# --- results


async def test_a_job_shows_what_failed_with_its_words_then_flaky_slow_and_coverage(
    browser: httpx.AsyncClient,
) -> None:
    page = read(await browser.get("/runs/42?job=172"))
    for words in (
        "Tests214",
        "Failed3 (1 error)",
        "Skipped3",
        "Coverage87.4 %",
        "assert [] == ['b']",
        "and 1 more that failed",
        "1 flaky test",
        "passed and failed on commit 9f86d081884c",
        "tests.test_api::test_all_pages12 s",
        "old.xml could not be read: it is not XML",
        "15 tests beyond the first 10 were not read",
        "demo.parser",
        "75 %",
    ):
        assert words in page.text
    assert page.text.index("test_keeps_comments") < page.text.index("flaky test") < page.text.index("slowest")
    assert "open" in page.all("details", data_keep="test-1")[0]
    assert "open" not in page.all("details", data_keep="test-2")[0]


async def test_a_job_without_results_shows_no_panel(browser: httpx.AsyncClient, answers: Answers) -> None:
    answers.found = Results(job=172, attempt=1)
    assert not read(await browser.get("/runs/42?job=172")).all("section", id="run-results")


def test_a_part_is_never_shown_as_the_whole() -> None:
    assert [percent(rate) for rate in (0, 0.5, 0.8744, 0.9999, 1)] == [
        "0 %",
        "50 %",
        "87.4 %",
        "99.9 %",
        "100 %",
    ]


# --- images


async def test_images_show_size_names_holders_use_and_damage(browser: httpx.AsyncClient) -> None:
    page = read(await browser.get("/images"))
    for words in (
        "debian-12",
        "base",
        "793 MiB",
        "297 MiB at rest",
        "84.2 %",
        "earth-9, tank and 2 others",
        "5 min ago",
        "never",
        "for andy/demo",
        "damaged: 3 chunks lost; push it again",
        "nobody",
        "and 4 images more",
    ):
        assert words in page.text


# --- preview


async def test_a_pipeline_is_tried_and_each_job_told_where_it_would_go(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    assert read(await browser.get("/preview")).all("textarea")
    form = {"project": "andy/demo", "pipeline": "version: 1\r\njobs: {}\r\n"}
    page = read(await browser.post("/preview", data=form, headers=OWN))
    assert answers.asked[0][1].pipeline == "version: 1\njobs: {}\n"
    for words in (
        "lint would go to earth-9",
        "placed: needs no image, idle",
        "lacks label ssd",
        "train nobody would",
    ):
        assert words in page.text
    assert samples.waiting_nowhere().headline in page.text
    assert "version: 1" in page.text


async def test_faults_are_told_with_their_line_and_what_was_written_stays(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    fault = Fault(path="jobs.a.needs[0]", text="no job `b`", line=6, nearest="bc")
    answers.fault = Unprocessable("mend it", faults=[fault])
    form = {"project": "andy/demo", "pipeline": "<a>\n</textarea>"}
    page = read(await browser.post("/preview", data=form, headers=OWN), 422)
    assert "1 fault in the pipeline file: line 6 jobs.a.needs[0] no job `b` (did you mean bc?)" in page.text
    assert "<a> </textarea>" in page.text
    assert page.all("textarea", aria_invalid="true")


async def test_a_project_that_is_none_is_told(browser: httpx.AsyncClient, answers: Answers) -> None:
    page = read(await browser.post("/preview", data={"project": "demo", "pipeline": "x"}, headers=OWN), 422)
    assert "A project is named owner/name." in page.text
    assert answers.asked == []


async def test_a_long_pipeline_has_room_in_its_form_and_no_more_than_that(browser: httpx.AsyncClient) -> None:
    long = {"project": "andy/demo", "pipeline": "ü" * 500_000}
    read(await browser.post("/preview", data=long, headers=OWN))
    read(await browser.post("/preview", data={"pipeline": "x" * 5_000_000}, headers=OWN), 413)


# --- tokens


async def test_an_admin_sees_tokens_and_a_new_secret_once(admin: httpx.AsyncClient, answers: Answers) -> None:
    page = read(await admin.get("/tokens"))
    for words in ("first admin", "ci of the demo", "andy/demo", "never"):
        assert words in page.text
    assert "sht_once" not in page.text
    form = {"name": "new", "kind": "read", "scope": "andy", "days": "30"}
    answer = await admin.post("/tokens", data=form, headers=OWN)
    assert "sht_once" in read(answer).text
    assert answer.headers["cache-control"] == "no-store"
    made = answers.asked[0][1]
    assert (made.name, made.kind, made.scope.owner, made.expires_in_s) == ("new", "read", "andy", 30 * 86_400)
    answer = await admin.post("/tokens/2/remove", headers=OWN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/tokens")
    assert answers.asked[1] == ("remove token", 2)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"name": " "}, "has a name"),
        ({"name": "x", "kind": "god"}, "is of a kind (read, submit, images, admin)"),
        ({"name": "x", "kind": "read", "scope": "a/b/c"}, "one project (owner/name)"),
        ({"name": "x", "kind": "read", "days": "0"}, "after 1 to 3660 days"),
        ({"name": "x", "kind": "read", "days": "²"}, "after 1 to 3660 days"),
        ({"name": "x\u202e", "kind": "read"}, "has a name of one line"),
    ],
)
async def test_what_is_wrong_with_a_token_is_told(
    admin: httpx.AsyncClient, answers: Answers, form: dict[str, str], words: str
) -> None:
    assert words in read(await admin.post("/tokens", data=form, headers=OWN), 400).text
    assert answers.asked == []


async def test_only_an_admin_is_led_to_the_tokens_or_sees_them(browser: httpx.AsyncClient) -> None:
    assert not read(await browser.get("/images")).all("a", href="/tokens")
    read(await browser.get("/tokens"), 403)
    read(await browser.post("/tokens", data={"name": "x", "kind": "read"}, headers=OWN), 403)
    browser.cookies.set("shunter_session", ADMIN_SECRET)
    assert read(await browser.get("/images")).all("a", href="/tokens")


@pytest.mark.parametrize(
    "path", ["/preview", "/tokens", "/tokens/2/remove", "/runners/tank/drain", "/runners/tank/resume"]
)
async def test_a_form_from_elsewhere_changes_nothing(
    admin: httpx.AsyncClient, answers: Answers, path: str
) -> None:
    form = {"name": "x", "kind": "read", "project": "andy/demo", "pipeline": "x"}
    for headers in ({"origin": "https://evil.test"}, {"sec-fetch-site": "cross-site", **OWN}, {}):
        read(await admin.post(path, data=form, headers=headers), 403)
    assert answers.asked == []


# --- runners and queue


async def test_runners_tell_what_they_were_awaited_and_are_kept_for_and_hold(
    admin: httpx.AsyncClient,
) -> None:
    page = read(await admin.get("/runners"))
    for words in (
        "last awaited 40 s ago by job 170, which it did not take",
        "kept for job 173, which smaller ones kept out",
        "let 1 hold in a row pass without taking the job",
        "holds 2 images",
        "debian-12, base",
        "no name",
    ):
        assert words in page.text


async def test_an_admin_drains_and_resumes_a_runner(admin: httpx.AsyncClient, answers: Answers) -> None:
    page = read(await admin.get("/runners"))
    assert page.all("form", action="/runners/earth-9/drain")
    assert page.all("form", action="/runners/morpheus/resume")
    for verb in ("drain", "resume"):
        answer = await admin.post(f"/runners/earth-9/{verb}", headers=OWN)
        assert (answer.status_code, answer.headers["location"]) == (303, "/runners")
    assert answers.asked == [("earth-9", "draining"), ("earth-9", "active")]


async def test_whoever_is_no_admin_is_offered_no_drain(browser: httpx.AsyncClient) -> None:
    assert not read(await browser.get("/runners")).all("form", action="/runners/earth-9/drain")


async def test_the_queue_shows_its_day_in_bars_words_and_figures(browser: httpx.AsyncClient) -> None:
    page = read(await browser.get("/queue"))
    assert "0 jobs now, 12 at most, at 12:45 UTC" in page.text
    assert "84 jobs taken, after 11 s on average, 1 min 24 s at most" in page.text
    assert page.all("svg", role="img", aria_label="Waiting jobs: 0 jobs now, 12 at most, at 12:45 UTC")
    assert "12:45: 12 jobs waiting" in page.text
    assert "By the hour, in UTC" in page.text


def test_bars_stand_within_the_drawing_and_the_tallest_fills_it() -> None:
    chart = chart_of(samples.day())
    for bars in (chart.length, chart.waits):
        assert max(bar.height for bar in bars) == HEIGHT
        assert all(bar.x >= 0 and bar.x + bar.width <= 100 and bar.y + bar.height == HEIGHT for bar in bars)
    assert len(chart.hours) in (24, 25)


def test_a_day_on_which_nothing_happened_is_not_drawn() -> None:
    quiet = samples.day()
    buckets = tuple(
        dataclasses.replace(one, waiting=0, taken=0, mean_ms=None, most_ms=None) for one in quiet.buckets
    )
    chart = chart_of(dataclasses.replace(quiet, buckets=buckets))
    assert (chart.empty, chart.length, chart.waits) == (True, (), ())


# --- whatever a field holds is text


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=HOSTILE, waiting=WAITING, lacks=RUNNER_LACKS)
def test_no_text_of_these_pages_becomes_markup(text: str, waiting: Any, lacks: Any) -> None:
    site = open_site(assets.templates())
    at = samples.at(1)
    image = ImageView.model_construct(
        hash=text,
        bytes=1,
        arch=text,
        cutter=text,
        chunks=1,
        owner=text,
        created_at=at,
        names=[text],
        held_by=[text],
        damaged=1,
    )
    job = PreviewJob.model_construct(name=text, placed=text, waiting=waiting, runners=[lacks], more=1)
    fault = Fault.model_construct(path=text, text=text, line=1, nearest=text)
    scope = Scope.model_construct(owner=text, project=text)
    token: dict[str, Any] = {
        "id": 1,
        "name": text,
        "kind": text,
        "scope": scope,
        "created_at": at,
        "token": text,
    }
    found = Results.model_construct(
        job=1,
        attempt=1,
        failures=[FailedTest.model_construct(name=text, outcome="failed", message=text, output=text)],
        slowest=[SlowTest.model_construct(name=text, duration_s=1.0)],
        flaky=[FlakyTest.model_construct(name=text, why=text)],
        coverage=Coverage.model_construct(
            rate=0.5,
            lines=2,
            covered=1,
            packages=[PackageCoverage.model_construct(name=text, lines=2, covered=1)],
        ),
        files=[ReportFile.model_construct(path=text, kind="junit", fault=text, notes=[text])],
    )
    run, view = samples.run(), samples.jobs()[2]
    detail = JobDetail(
        job=view, final=True, steps=steps_of(view), comparison=None, artifacts=(), results=found
    )
    pages = (
        ImagesPage(frame=FRAME, images=ImageList.model_construct(images=[image])),
        PreviewPage(
            frame=FRAME,
            project=text,
            pipeline=text,
            result=Preview.model_construct(jobs=[job]),
            problem=text or "x",
            faults=(fault,),
        ),
        TokensPage(
            frame=FRAME,
            tokens=(TokenView.model_construct(**token),),
            kinds=(text,),
            made=TokenMade.model_construct(**token),
            problem=text,
        ),
        RunPage(
            frame=FRAME,
            run=run,
            final=False,
            picture=picture_of(run, samples.NOW_MS),
            detail=detail,
            log=fold(b"", start=0, total=0, final=True),
        ),
    )
    for page in pages:
        html = site.render(page)
        assert not set(html) & set("\x00\x07\x1b\u202e\u2066\ud800")
        Page(html)
