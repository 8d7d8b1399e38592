"""What each page shows of its views, with whom it speaks, and what it never lets through."""

import dataclasses
from pathlib import Path
from typing import Any

import httpx
import pytest
from jinja2 import Environment, meta, nodes

from hub import assets
from hub.web.contexts import PAGES, Frame, select
from hub.web.contexts import Page as Context
from hub.web.log import MAX_LINES
from hub.web.site import CONTENT_POLICY, Site, open_site
from hub.wire.fleet import QueueView
from hub.wire.runs import JobView, Remedy, Shortage
from tests.web import samples
from tests.web.reading import Page
from tests.web.serving import Answers

TEMPLATES = assets.templates()
FRAME = Frame(title="A page", section="runs", now_ms=samples.NOW_MS, person="andy", may_submit=True)


@pytest.fixture(scope="module")
def site() -> Site:
    return open_site(TEMPLATES)


def page_of(answer: httpx.Response, status: int = 200) -> Page:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-security-policy"] == CONTENT_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "no-cache" in answer.headers["cache-control"]
    assert "private" in answer.headers["cache-control"]
    return Page(answer.text)


# --- the list of runs


async def test_the_root_leads_to_the_runs(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs")


async def test_the_list_shows_each_run_with_its_status_and_progress(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs"))
    assert "Teach the parser to keep comments" in page.text
    assert "2/5" in page.text
    assert page.all("a", href="/runs/42")
    for status in ("running", "succeeded", "failed", "canceled", "error", "queued"):
        assert page.all("span", class_=f"status is-{status}")
    assert page.all("time", datetime="2026-12-01T02:29:45.000Z")


async def test_the_filters_reach_the_service_and_stay_in_the_links(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    page = page_of(
        await browser.get("/runs?project=andy/demo&status=failed&search=%22a%26b%22&before=90&junk=1")
    )
    filters = {"project": "andy/demo", "status": "failed", "search": '"a&b"', "before": 90, "limit": 50}
    assert answers.asked == [("listing", filters)]
    assert page.all("a", href="/runs?project=andy%2Fdemo&status=failed&search=%22a%26b%22&before=36")
    assert page.all("input", name="search", value='"a&b"')
    assert [each["value"] for each in page.all("option") if "selected" in each] == ["failed"]


async def test_the_newest_page_has_no_way_to_newer_ones(browser: httpx.AsyncClient) -> None:
    first = page_of(await browser.get("/runs"))
    assert "Newest" not in first.text
    later = page_of(await browser.get("/runs?before=36"))
    assert "Newest" in later.text


@pytest.mark.parametrize(
    "query", ["status=broken", "before=x", "before=-1", "before=" + "9" * 30, "before=²"]
)
async def test_a_filter_that_means_nothing_is_refused_with_words(
    browser: httpx.AsyncClient, query: str
) -> None:
    page = page_of(await browser.get(f"/runs?{query}"), 400)
    assert "Bad request" in page.text


async def test_an_empty_hub_says_how_to_begin(browser: httpx.AsyncClient, answers: Answers) -> None:
    answers.runs, answers.next = [], None
    assert "shunter run submit" in page_of(await browser.get("/runs")).text
    assert "No run is like that" in page_of(await browser.get("/runs?status=failed")).text
    assert "no older runs" in page_of(await browser.get("/runs?before=1")).text


# --- one run


async def test_a_run_shows_who_submitted_what_and_where_it_stands(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42"))
    for words in (
        "Teach the parser",
        "andy/demo",
        "#42",
        "refs/heads/main",
        "9f86d081884c",
        "2 of 5 jobs done",
    ):
        assert words in page.text
    assert "5 min 15 s" in page.text
    assert page.all("form", action="/runs/42/cancel", method="post")
    assert not page.all("form", action="/runs/42/retry")


async def test_every_job_shows_its_sentence_as_the_views_have_it(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42"))
    for job in samples.jobs():
        if job.placed:
            assert f"placed: {job.placed}" in page.text
        if job.waiting:
            assert f"{job.status}: {job.waiting.headline}" in page.text


async def test_the_job_that_runs_is_shown_where_none_was_asked_for(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42"))
    assert page.all("section", id="log", data_job="171")
    assert page.all("a", href="/runs/42?job=171#run-detail", aria_current="true")


def test_the_first_job_that_runs_or_went_wrong_or_waits_is_selected() -> None:
    done, running, failed, queued, blocked = samples.jobs()
    assert select([done, failed, running], None) is running
    assert select([done, queued, failed], None) is failed
    assert select([done, blocked, queued], None) is queued
    assert select([done, blocked], None) is done
    assert select([done, running], done.id) is done
    assert select([done, running], 999) is running
    assert select([], None) is None


async def test_a_waiting_job_shows_every_lack_of_every_runner_with_its_remedy(
    browser: httpx.AsyncClient,
) -> None:
    page = page_of(await browser.get("/runs/42?job=173"))
    waiting = samples.waiting_nowhere()
    for each in waiting.runners:
        assert each.runner in page.text
        for lack in each.lacks:
            assert lack.text in page.text
            assert lack.remedy
            assert lack.remedy.text in page.text
    assert "2 runners not named here" in page.text
    panel = page.all("details", data_keep="waiting")
    assert len(panel) == 1
    assert "open" in panel[0]
    assert len(page.all("li", class_="lack is-lasting")) == 3
    assert len(page.all("li", class_="lack is-passing")) == 2
    assert "somebody has to act" in page.text


async def test_a_placed_job_shows_all_that_was_compared(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?job=170"))
    for words in (
        "Why earth-9",
        "chosen",
        "ahead of tank: speed class 3 against 1 (was waiting)",
        "held 4 s for earth-9, which took it",
        "2.4 s before",
        "lacks label ssd",
        "add the label ssd to mars-1",
    ):
        assert words in page.text
    assert page.all("tr", class_="chosen")


async def test_a_job_shows_what_it_takes_in_the_words_of_its_view(browser: httpx.AsyncClient) -> None:
    for job in samples.jobs():
        assert job.takes
        assert f"Takes{job.takes}" in page_of(await browser.get(f"/runs/42?job={job.id}")).text


async def test_a_failed_job_shows_exit_code_error_and_steps(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?job=172"))
    assert "Exit code1" in page.text
    assert "step 2 ended with exit status 1" in page.text
    assert "failed, exit 1" in page.text
    assert page.all("form", action="/jobs/172/retry", method="post")
    assert page.all("a", href="/api/v1/jobs/172/artifacts/dist/demo-0.4.0-py3-none-any.whl")


async def test_a_job_that_ran_out_is_not_said_to_have_failed_in_the_machinery(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    short = [Shortage(of="disk", had_mib=5018, asks_mib=6337, runner="mars-1")]
    for shortages, words in ((short, "What went wrong: no disk"), ([], "The machinery failed: no disk")):
        answers.run = samples.run(jobs=[samples.job(status="error", error="no disk", shortages=shortages)])
        assert words in page_of(await browser.get("/runs/42")).text


async def test_attempts_are_told_where_one_was_lost(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?job=171"))
    assert "2 attempts" in page.text
    assert "lost: it was not heard from for 60 s" in page.text
    assert "attempt" not in page_of(await browser.get("/runs/42?job=170")).text


async def test_the_log_is_folded_numbered_and_told_where_to_go_on(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?job=171"))
    folds = page.all("details", class_="fold")
    assert [("open" in each, each.get("data-exit")) for each in folds] == [(False, "0"), (True, None)]
    section = page.all("section", id="log")[0]
    assert section["data-offset"] == str(len(samples.LOG))
    assert section["data-next"] == str(samples.LOG.count(b"\n") + 1)
    assert page.all("div", id="L4")
    assert "<script>alert(1)</script> &amp; \ufffdreversed" in page.text


async def test_the_end_of_a_long_log_is_read_piece_by_piece(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    answers.log_bytes = b"".join(b"line %07d\n" % number for number in range(200_000))
    page = page_of(await browser.get("/runs/42?job=171"))
    assert "line 0199999" in page.text
    assert "Only the end is shown" in page.text
    assert page.all("section", id="log")[0]["data-offset"] == str(len(answers.log_bytes))
    assert len(page.all("div", class_="l")) == MAX_LINES


async def test_a_log_is_read_by_pages_whose_lines_have_their_numbers(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    answers.log_bytes = b"##[step 1/1] make\n" + b"".join(b"line %d\n" % number for number in range(2, 2501))
    page = page_of(await browser.get("/jobs/171/lines?page=2"))
    assert "page 2 of 3" in page.text
    assert "2500 lines" in page.text
    assert page.all("div", id="L1001")
    assert page.all("div", id="L2000")
    assert not page.all("div", id="L2001")
    assert [each for each in page.all("details", class_="fold") if "open" in each]
    assert page.all("a", rel="next", href="/jobs/171/lines?page=3")
    assert page.all("a", rel="prev", href="/jobs/171/lines?page=1")
    last = page_of(await browser.get("/jobs/171/lines?page=99"))
    assert "page 3 of 3" in last.text
    assert not last.all("a", rel="next")


async def test_a_line_leads_to_its_page(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/jobs/171/lines?line=1001")
    assert answer.headers["location"] == "/jobs/171/lines?page=2#L1001"
    assert (await browser.get("/jobs/171/lines?line=x")).status_code == 400


async def test_a_run_of_many_jobs_still_shows_what_each_runner_lacks_for_the_one_that_is_looked_at(
    browser: httpx.AsyncClient, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    brief = samples.waiting_nowhere().model_copy(update={"runners": [], "more": 3})
    answers.run = samples.run(
        jobs=[job.model_copy(update={"waiting": brief}) if job.waiting else job for job in samples.jobs()]
    )

    async def in_full(hub: Any, principal: Any, job_id: int) -> JobView:
        return next(job for job in samples.jobs() if job.id == job_id)

    monkeypatch.setattr("hub.web.pages.jobs.view", in_full)
    page = page_of(await browser.get("/runs/42?job=173"))
    assert len(page.all("li", class_="lack is-lasting")) == 3


async def test_a_job_is_a_bar_and_a_box_that_lead_to_it(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?job=171"))
    bars = [each for each in page.all("svg", class_="time") if each.get("role") == "img"]
    assert len(bars) == 5
    assert bars[1]["aria-label"] == (
        "waited for what it needs 19 s, waited for a runner 2 min 07 s, was held for a better runner 15 s, "
        "was prepared 12 s, ran 2 min 22 s"
    )
    assert page.all("rect", class_="t t-running is-lost")
    assert page.all("rect", class_="t t-running is-running")
    assert page.all("a", class_="box is-running is-here", href="/runs/42?job=171#run-detail")
    assert "deploy blocked; needs test (python=3.12), train" in page.text
    assert page.all("a", class_="status is-failed", href="/runs/42?job=172#run-detail")


async def test_a_blocked_job_leads_to_the_jobs_that_it_waits_for(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?job=174"))
    needed = page.html.partition('class="needed"')[2].partition("</ul>")[0]
    assert 'href="/runs/42?job=171#run-detail"' in needed
    assert 'href="/runs/42?job=173#run-detail"' in needed
    assert 'href="/runs/42?job=170#run-detail"' not in needed


async def test_the_fewest_changes_that_would_mend_it_stand_in_a_list(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    mend = [Remedy(text="add the label gpu to mars-1", change={}), Remedy(text="start tank", change={})]
    waiting = samples.waiting_nowhere().model_copy(update={"mend": mend})
    answers.run = samples.run(jobs=[samples.job(status="queued", waiting=waiting)])
    text = page_of(await browser.get("/runs/42")).text
    assert "The fewest changes that would mend it add the label gpu to mars-1start tank" in text
    assert "for 2 min 10 s, as of 4 s ago" in text


async def test_the_fragment_has_the_parts_without_log_and_frame(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runs/42?fragment=jobs&job=173"))
    assert page.all("header", id="run-head")
    assert page.all("section", id="run-jobs")
    assert page.all("section", id="run-detail")
    assert not page.all("section", id="log")
    assert not page.all("html")


async def test_a_run_without_jobs_has_a_page(browser: httpx.AsyncClient, answers: Answers) -> None:
    answers.run = samples.run(jobs=[], jobs_total=0, jobs_done=0)
    assert "This run has no jobs" in page_of(await browser.get("/runs/42")).text


async def test_a_job_leads_to_its_run(browser: httpx.AsyncClient) -> None:
    assert (await browser.get("/jobs/173")).headers["location"] == "/runs/42?job=173"


async def test_the_whole_log_is_plain_text_that_no_browser_takes_for_a_page(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    answers.log_bytes = samples.LOG * 500
    answer = await browser.get("/jobs/171/log")
    assert answer.content == answers.log_bytes
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"


# --- runners and queue


async def test_runners_show_their_state_room_and_jobs(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/runners"))
    for words in ("silent", "draining", "quarantined", "not heard from yet", "it declined 5 jobs in a row"):
        assert words in page.text
    for words in (
        "14.8 GiB free",
        "6.2 GiB used",
        "8 GiB committed",
        "4 GiB kept back",
        "10.0.0.4, 10.0.0.9",
    ):
        assert words in page.text
    for words in ("serves andy/*", "serves andy/demo", "serves every project", "awaited by job 173"):
        assert words in page.text
    assert page.all("a", href="/runs/42?job=171")


async def test_the_queue_shows_each_job_with_its_headline(browser: httpx.AsyncClient) -> None:
    page = page_of(await browser.get("/queue"))
    for job in samples.queue().jobs:
        assert job.waiting
        assert job.waiting.headline in page.text
    assert "and 7 jobs more" in page.text
    assert page.all("li", class_="queued kind-nowhere")


async def test_nothing_that_waits_and_no_runners_are_said_in_words(
    browser: httpx.AsyncClient, answers: Answers
) -> None:
    answers.queued, answers.fleet = QueueView(jobs=[]), answers.fleet.model_copy(update={"runners": []})
    assert "Nothing waits" in page_of(await browser.get("/queue")).text
    assert "shunter runners add" in page_of(await browser.get("/runners")).text


# --- errors


@pytest.mark.parametrize(
    "path", ["/runs/43", "/jobs/9/log", "/nothing", f"/runs/{2**63}", "/runs/" + "9" * 400]
)
async def test_what_is_not_there_is_a_page_that_leads_on(browser: httpx.AsyncClient, path: str) -> None:
    page = page_of(await browser.get(path), 404)
    assert "Not found" in page.text
    assert page.all("a", href="/runs")


async def test_a_fault_of_the_hub_is_told_without_its_words(
    browser: httpx.AsyncClient, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*args: Any) -> None:
        raise RuntimeError("the secret words of a fault")

    monkeypatch.setattr("hub.web.pages.queue.view", fail)
    page = page_of(await browser.get("/queue"), 500)
    assert "secret" not in page.text
    assert "The hub failed at this" in page.text


async def test_a_method_that_a_page_does_not_take_is_told(browser: httpx.AsyncClient) -> None:
    assert "Not possible" in page_of(await browser.post("/runs"), 405).text


# --- static files


async def test_static_files_are_immutable_at_their_own_version_only(
    browser: httpx.AsyncClient, site: Site
) -> None:
    page = page_of(await browser.get("/runs"))
    sheet = page.all("link", rel="stylesheet")[0]["href"]
    assert sheet
    assert site.version in sheet
    answer = await browser.get(sheet)
    assert "immutable" in answer.headers["cache-control"]
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    old = await browser.get(sheet.replace(site.version, "0" * 16))
    assert old.status_code == 200
    assert old.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "name", ["..%2Fruns.html", "%2e%2e/layout.html", "css/", "css%00", "/etc/passwd", ""]
)
async def test_no_address_reaches_a_file_outside_of_the_table(
    browser: httpx.AsyncClient, site: Site, name: str
) -> None:
    assert (await browser.get(f"/static/{site.version}/{name}")).status_code == 404


def test_a_name_that_is_not_in_the_table_is_no_file(site: Site) -> None:
    assert site.asset(site.version, "css/shunter.css")
    assert site.asset(site.version, "../runs.html") is None


def test_the_scripts_make_no_markup_from_text_and_load_nothing_from_elsewhere() -> None:
    for path in (TEMPLATES / "static" / "js").glob("*.js"):
        source = path.read_text()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "https://",
            ".style",
        ):
            assert word not in source, f"{path.name} has {word}"


# --- what is rendered is what is declared


def used_by(template: str, environment: Environment) -> set[str]:
    """The names that a template and all that it takes in use without defining them."""
    source = (TEMPLATES / template).read_text()
    tree = environment.parse(source)
    set_here = {name.name for name in tree.find_all(nodes.Name) if name.ctx == "store"}
    set_here |= {each.target for each in tree.find_all(nodes.Import)}
    names = set(meta.find_undeclared_variables(tree)) - set_here
    for each in meta.find_referenced_templates(tree):
        if each and each != "macros.html":  # which is imported, and sees only its arguments
            names |= used_by(each, environment)
    return names - set(environment.globals)


@pytest.mark.parametrize("context", PAGES, ids=lambda context: context.__name__)
def test_a_page_uses_exactly_what_its_context_declares(context: type[Context], site: Site) -> None:
    declared = {field.name for field in dataclasses.fields(context)}
    assert used_by(context.template, site.environment) == declared


def test_macros_know_nothing_but_their_arguments(site: Site) -> None:
    tree = site.environment.parse((TEMPLATES / "macros.html").read_text())
    names = meta.find_undeclared_variables(tree) - set(site.environment.globals)
    macros = {macro.name for macro in tree.find_all(nodes.Macro)}
    assert names <= macros


def test_every_template_belongs_to_a_page_or_to_one_that_does() -> None:
    parts = {"layout.html", "macros.html", "chart.html", "results.html", "job.html", "log.html"}
    known = {context.template for context in PAGES} | parts
    assert {path.name for path in Path(TEMPLATES).glob("*.html")} == known
