"""Results, runners, preview and tokens in a real browser, at a real hub."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import People
from tests.browser.process import Api

pytestmark = pytest.mark.browser

PIPELINE = "version: 1\njobs:\n  test: {steps: [pytest]}\n  train: {labels: [gpu], steps: [x]}\n"
HOSTILE = "&lt;script&gt;alert(1)&lt;/script&gt;"


@pytest.mark.parametrize("width", [390, 1280])
def test_what_failed_is_read_on_the_run_page(people: People, admin: Api, width: int) -> None:
    run = admin.submit("version: 1\njobs: {test: {steps: [pytest]}}", title="Results")
    runner = admin.runner("earth-9")
    job = runner.take()
    said = f"<failure message='1 != 2'>{'long' * 300}</failure>"
    body = f"<testsuite><testcase name='{HOSTILE}'>{said}</testcase></testsuite>"
    lease = {"Lease": runner.given["lease"]["token"]}
    runner.call("PUT", f"/jobs/{job}/artifacts/r.xml?report=junit", content=body.encode(), headers=lease)
    runner.finish("failed", exit_code=1)
    page = people(viewport={"width": width, "height": 900}).open(f"/runs/{run}")
    panel = page.locator("#run-results")
    expect(panel).to_contain_text("<script>alert(1)</script>")
    expect(panel).to_contain_text("1 != 2")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scripts", [True, False])
def test_a_pipeline_is_tried_with_and_without_scripts(people: People, admin: Api, scripts: bool) -> None:
    admin.runner("mars-1").poll()
    page = people(java_script_enabled=scripts).open("/preview")
    page.get_by_label("Project").fill("andy/demo")
    page.get_by_label("Pipeline file").fill(PIPELINE)
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".previewed").first).to_contain_text("would go to mars-1")
    expect(page.locator(".previewed").last).to_contain_text("lacks label gpu")
    page.get_by_label("Pipeline file").fill(PIPELINE.replace("steps: [x]", "stps: [x]"))
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("line 4 jobs.train.stps")


def test_a_token_is_made_shown_once_and_revoked(people: People, admin: Api) -> None:
    page = people().open("/tokens")
    page.get_by_label("Name").fill("of a browser")
    page.get_by_role("button", name="Add").click()
    expect(page.locator(".token")).to_have_text(re.compile("^sht_"))
    page.get_by_role("link", name="Tokens").click()
    expect(page.locator(".token")).to_have_count(0)
    page.get_by_role("button", name="Revoke of a browser").click()
    expect(page.locator("tbody")).not_to_contain_text("of a browser")


def test_a_runner_is_drained_and_resumed_and_no_page_is_too_wide(people: People, admin: Api) -> None:
    admin.runner("venus", labels=["x" * 90]).poll()
    page = people(viewport={"width": 390, "height": 844}).open("/runners")
    page.get_by_role("button", name="Drain venus").click()
    expect(page.locator(".runner")).to_contain_text("draining")
    page.get_by_role("button", name="Resume venus").click()
    expect(page.locator(".runner")).to_contain_text("active")
    for path in ("/runners", "/queue", "/images", "/preview", "/tokens"):
        page.goto(people().hub.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
