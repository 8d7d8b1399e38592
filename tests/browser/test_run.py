"""The page of a run: in each state, for each eye, and with three hundred jobs."""

import json
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import People
from tests.browser.process import Api

pytestmark = pytest.mark.browser

GRAVE = ("serious", "critical")  # of axe-core's words for how much a fault keeps from people
WIDTHS = (390, 1280)
EVIL = '<img src=x onerror="alert(1)">"\'></svg><script>alert(2)</script>'

STATES = """\
version: 1
jobs:
  lint: {steps: [ruff check]}
  unit: {needs: [lint], steps: [pytest]}
  train: {labels: [gpu], steps: [./train]}
  big: {memory: 64GiB, steps: [./big]}
  deploy: {needs: [unit, train], steps: [./deploy]}
"""


def pipeline_of(jobs: int) -> str:
    """One job, `jobs` - 2 that need it, and one that needs them all."""
    shards = {f"shard-{number:03d}": {"needs": ["build"], "steps": ["make"]} for number in range(jobs - 2)}
    every = {
        "build": {"steps": ["make"]},
        **shards,
        "report": {"needs": list(shards), "labels": ["printer"], "steps": ["./report"]},
    }
    return json.dumps({"version": 1, "jobs": every})


def faults_of(page: Page) -> list[Any]:
    """What axe-core finds that keeps people from the page."""
    found = Axe().run(page).response["violations"]
    return [
        (each["id"], node["html"], node["failureSummary"])
        for each in found
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_run_in_every_state_is_open_to_all_and_no_wider_than_the_screen(
    people: People, admin: Api, scheme: str, width: int
) -> None:
    runner = admin.runner(f"all-{scheme}-{width}", memory_mib=16_384, cpus=4)
    run = admin.submit(STATES, title="Every state")
    runner.take()
    runner.write(b"##[step 1/1] ruff check\n\x1b[32mAll checks passed\x1b[0m\n##[exit 0] 0.1 s\n")
    runner.finish(exit_code=0)
    runner.take()
    runner.write(b"##[step 1/1] pytest\n\x1b[31mFAILED\x1b[0m tests/test_a.py\n##[exit 1] 0.3 s\n")
    person = people(color_scheme=scheme, viewport={"width": width, "height": 844})

    def look() -> None:
        for job in admin.call("GET", f"/runs/{run}")["jobs"]:
            page = person.open(f"/runs/{run}?job={job['id']}")
            expect(page.locator("#run-detail h2")).to_have_text(job["name"])
            if (why := page.locator("details[data-keep=comparison] > summary")).count():
                why.click()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, job["name"]
            assert faults_of(page) == [], job["name"]
            page.close()

    look()
    runner.finish("failed", exit_code=1)
    look()
    page = person.open(f"/jobs/{admin.call('GET', f'/runs/{run}')['jobs'][0]['id']}/lines")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert faults_of(page) == []


def test_a_waiting_job_says_what_lasts_what_passes_and_what_would_mend_it(people: People, admin: Api) -> None:
    admin.runner("small", memory_mib=8192, cpus=2).poll()
    admin.runner("lame", memory_mib=128 * 1024, cpus=2, max_jobs=1).poll()
    run = admin.submit("version: 1\njobs:\n  train: {labels: [gpu], memory: 32GiB, steps: [x]}\n")
    job = admin.call("GET", f"/runs/{run}")["jobs"][0]
    page = people().open(f"/runs/{run}")
    panel = page.locator(".waiting")
    expect(panel.locator(".headline")).to_have_text(job["waiting"]["headline"])
    expect(panel).to_contain_text("as of")
    for each in job["waiting"]["runners"]:
        row = panel.locator("tr", has=page.get_by_text(each["runner"], exact=True))
        for lack in each["lacks"]:
            cell = row.locator(".is-lasting" if lack["lasting"] else ".is-passing", has_text=lack["text"])
            expect(cell).to_have_count(1)
            if lack["remedy"]:
                expect(cell).to_contain_text(lack["remedy"]["text"])
    assert job["waiting"]["mend"]
    for change in job["waiting"]["mend"]:
        expect(panel.locator(".mend li", has_text=change["text"])).to_have_count(1)


def test_a_placed_job_says_of_each_runner_why_it_was_not_that_one(people: People, admin: Api) -> None:
    admin.runner("tank", facts={"speed": 64, "speed_class": 1}).poll()
    admin.runner("mars-1", facts={"speed": 80, "speed_class": 2}).poll()
    run = admin.submit("version: 1\njobs:\n  only: {steps: [make]}\n")
    best = admin.runner("earth-9", facts={"speed": 100, "speed_class": 3})
    job = best.take()
    told = admin.call("GET", f"/jobs/{job}/placement")
    page = people().open(f"/runs/{run}")
    page.locator("details[data-keep=comparison] > summary").click()
    table = page.locator(".compare")
    for each in told["runners"]:
        row = table.locator("tr", has=page.locator("th", has_text=each["runner"]))
        expect(row).to_contain_text("chosen" if each["chosen"] else each["margin"])
    expect(page.locator(".verdict")).to_contain_text(told["margin"])
    best.finish()


def test_three_hundred_jobs_are_a_picture_and_a_list_that_stays_where_it_is_scrolled_to(
    people: People, admin: Api
) -> None:
    run = admin.submit(pipeline_of(300), title="Three hundred")
    runner = admin.runner("many", max_jobs=4)
    runner.take()
    page = people().open(f"/runs/{run}")
    expect(page.locator(".graph-view .box")).to_have_count(3)
    expect(page.locator(".job-list > li")).to_have_count(300)
    jobs = page.locator(".job-list")
    jobs.evaluate("(list) => { list.scrollTop = 5000; window.kept = list.children[150]; }")
    runner.finish(exit_code=0)
    expect(page.locator(".job-list > li").first.locator(".word")).to_have_text("succeeded")
    assert jobs.evaluate("(list) => [list.scrollTop, window.kept === list.children[150]]") == [5000, True]
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert faults_of(page) == []
    admin.call("POST", f"/runs/{run}/cancel")


def test_no_name_or_title_becomes_markup_in_the_picture(people: People, admin: Api) -> None:
    jobs = {"a": {"steps": [EVIL]}, "b": {"needs": ["a"], "steps": ["x"]}}
    run = admin.submit(json.dumps({"version": 1, "jobs": jobs}), title=EVIL, ref=EVIL)
    runner = admin.runner("evil")
    runner.take()
    page = people().open(f"/runs/{run}")
    runner.write(f"##[step 1/1] {EVIL}\n{EVIL}\n".encode())
    expect(page.locator(".fold-name")).to_have_text(EVIL)
    runner.finish("error", error=EVIL)
    expect(page.locator("#run-detail .callout")).to_contain_text(EVIL)
    assert page.locator("img, script:not([src])").count() == 0
