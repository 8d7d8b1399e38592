"""A person walks through the pages of a real hub, from signing in to a retried run."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import People
from tests.browser.process import Api

pytestmark = pytest.mark.browser

TWO = """\
version: 1
jobs:
  build:
    steps: [make, make check]
  publish:
    needs: [build]
    labels: [vault]
    steps: [./publish]
"""
ONE = """\
version: 1
jobs:
  only: {steps: [make]}
"""


def test_a_person_signs_in_and_out(people: People) -> None:
    page = people(signed_in=False).open("/runs?status=failed")
    expect(page).to_have_url(re.compile(r"/login\?goal="))
    expect(page.get_by_label("Token")).to_be_focused()
    page.keyboard.type("shu_of-nobody")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not valid here")
    page.get_by_label("Token").fill(people().hub.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(r"/runs\?status=failed$"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    page.goto(people().hub.url + "/runs")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_run_is_watched_live_from_waiting_to_its_end(people: People, admin: Api) -> None:
    person = people()
    run = admin.submit(TWO, title="Walk through", ref="main", commit="9f86d081884c7d65")
    page = person.open("/runs")
    page.get_by_role("link", name="Walk through").click()
    expect(page).to_have_url(re.compile(f"/runs/{run}$"))
    page.evaluate("window.stays = true")  # gone if the page is ever loaded anew

    # nobody is there: the page says so, and says when that changes
    headline = page.locator(".waiting .headline")
    expect(headline).to_contain_text("no runner serves andy/demo")
    runner = admin.runner("earth-9", memory_mib=16_384, cpus=4)
    job = runner.take()
    detail = page.locator("#run-detail")
    expect(detail.locator(".status")).to_have_text("running")
    expect(headline).to_have_count(0)
    expect(page.locator("#run-jobs")).to_contain_text("placed: needs no image, idle")

    # the log comes as it is written, in folds, in colour
    runner.write(b"##[step 1/2] make\n\x1b[32mcc\x1b[0m -o demo\nlinking")
    lines = page.locator("#log-lines")
    expect(lines).to_contain_text("linking")
    expect(lines.locator("i.f2")).to_have_text("cc")
    runner.write(b" done\n##[exit 0] 1.2 s\n##[step 2/2] make check\nall 3 passed\n")
    expect(lines.locator("details.fold")).to_have_count(2)
    expect(lines).to_contain_text("all 3 passed")
    expect(lines.locator("details.fold").first).not_to_have_attribute("open", "")
    runner.at_step(1)
    expect(detail.locator(".step.is-running")).to_contain_text("make check")
    runner.leave("dist/demo.txt", b"<script>alert(1)</script>")
    runner.write(b"##[exit 0] 0.4 s\n")
    results = [{"name": "make", "exit_code": 0, "duration_s": 1.2}, {"name": "make check", "exit_code": 0}]
    runner.finish(exit_code=0, steps=results)
    expect(detail.locator(".job-head .status")).to_have_text("succeeded")
    expect(page.locator("#log-live")).to_have_text("")

    # the artifact is a file to keep, not a page to open
    with page.expect_download() as kept:
        page.get_by_role("link", name="dist/demo.txt").click()
    assert kept.value.path().read_bytes() == b"<script>alert(1)</script>"

    # the other job can go nowhere: what lacks, and what would mend it
    assert page.evaluate("window.stays") is True
    page.locator(".job-list").get_by_role("link", name="publish").click()
    expect(headline).to_contain_text("lacks label vault")
    expect(page.locator(".lack.is-lasting")).to_contain_text("lacks label vault")
    expect(page.locator(".lack .remedy").first).to_contain_text("vault")
    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator("#run-head .status")).to_have_text("canceled")

    # and again
    page.get_by_role("button", name="Retry what failed").click()
    expect(page).to_have_url(re.compile(rf"/runs/(?!{run}\b)\d+$"))
    expect(page.locator("#run-head")).to_contain_text(f"retry of #{run}")
    again = int(page.url.rsplit("/", 1)[1])
    admin.call("POST", f"/runs/{again}/cancel")
    expect(page.locator("#run-head .status")).to_have_text("canceled")
    assert job != again


def test_what_the_reader_opened_stays_open_while_the_run_goes_on(people: People, admin: Api) -> None:
    run = admin.submit(ONE, title="Open things")
    runner = admin.runner("mars-1")
    runner.take()
    page = people().open(f"/runs/{run}")
    why = page.locator("details[data-keep=comparison]")
    why.locator("summary").click()
    summary = page.locator("details[data-keep=asked] > summary")
    summary.focus()
    runner.finish("failed", exit_code=2)
    expect(page.locator("#run-head .status")).to_have_text("failed")
    expect(page.locator("#run-detail")).to_contain_text("Exit code")
    expect(why).to_have_attribute("open", "")
    expect(why).to_contain_text("mars-1")
    expect(summary).to_be_focused()


def test_queue_and_runners_stay_fresh(people: People, admin: Api) -> None:
    person = people()
    queue = person.open("/queue")
    expect(queue.locator("#list")).to_contain_text("Nothing waits")
    admin.runner("zion", labels=["ssd"], max_jobs=3).poll()
    run = admin.submit(TWO.replace("vault", "gold").replace("needs: [build]", "needs: []"), title="Fresh")
    expect(queue.locator("#list")).to_contain_text("publish")
    expect(queue.locator("#list")).to_contain_text("lacks label gold")
    admin.call("POST", f"/runs/{run}/cancel")
    expect(queue.locator("#list")).to_contain_text("Nothing waits")
    runners = person.open("/runners")
    card = runners.locator(".runner", has=runners.get_by_role("heading", name="zion"))
    expect(card).to_contain_text("active")
    expect(card).to_contain_text("3 of 3 free")
    admin.call("PATCH", "/runners/zion", json={"state": "draining"})
    expect(card).to_contain_text("draining")


def test_without_scripts_everything_can_be_read_and_done(people: People, admin: Api) -> None:
    run = admin.submit(TWO.replace("vault", "iron"), title="Plain")
    person = people(java_script_enabled=False, signed_in=False)
    page = person.open(f"/runs/{run}")
    page.get_by_label("Token").fill(person.hub.token)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(re.compile(f"/runs/{run}$"))
    runner = admin.runner("venus")
    runner.take()
    runner.write(b"##[step 1/2] make\nread without a script\n")
    page.reload()
    expect(page.locator("#log-lines")).to_contain_text("read without a script")
    page.locator("#run-jobs").get_by_role("link", name="publish").click()
    expect(page.locator("#run-detail .headline")).to_contain_text("waits for build")
    page.get_by_role("button", name="Cancel job").click()
    expect(page.locator("#run-detail .status")).to_have_text("canceled")
    page.get_by_role("link", name="Runs", exact=True).click()
    page.get_by_label("Contains").fill("Plain")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    runner.finish()


def test_the_keyboard_reaches_the_content_and_each_job(people: People, admin: Api) -> None:
    run = admin.submit(TWO.replace("vault", "oak"), title="By keyboard")
    page = people().open(f"/runs/{run}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    reached: list[str] = []
    for _ in range(9):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.innerText.split('\\n')[0].trim()"))
    assert reached[:2] == ["andy/demo", "Cancel run"]
    assert reached[2:5] == ["1 queued", "1 blocked", "What needs what"]
    assert reached[5:7] == ["build", "publish"]
    admin.call("POST", f"/runs/{run}/cancel")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_no_page_is_wider_than_the_screen(people: People, admin: Api, scheme: str, width: int) -> None:
    long = "a-" + "very-" * 30 + "long-name"
    pipeline = f"version: 1\njobs:\n  {long[:90]}:\n    labels: [{long[:90]}]\n    steps: ['{long}']\n"
    run = admin.submit(pipeline, title=f"{long}{long}", ref=f"refs/heads/{long}")
    person = people(color_scheme=scheme, viewport={"width": width, "height": 844})
    for path in ("/runs", f"/runs/{run}", "/queue", "/runners", "/nothing"):
        page = person.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        page.close()
    admin.call("POST", f"/runs/{run}/cancel")
