"""A long log in a browser: only what is in sight is on the page, and everything can be found."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import People, Person
from tests.browser.process import Api

pytestmark = pytest.mark.browser

ONE = "version: 1\njobs:\n  only: {steps: [make, verify]}\n"
LINES = 200_000
PIECE = 4000  # lines a request: below the bound of one
ON_PAGE = 2500  # lines that are elements at once, at most: ten screens of the server's, or a few blocks
LONGEST_MS = 200  # no task of the page is longer, on a machine that does eight things at once
HOSTILE = '<img src=x onerror="alert(1)">\x1b[31m\u202e</div><script>alert(2)</script>'


def text_of(number: int) -> bytes:
    """Line `number`, from 1: a colour on every tenth, one that is found once in ten thousand."""
    if number % 10_000 == 0:
        return f"needle {number} \x1b[1;31min\x1b[0m a \x1b[32mhaystack\x1b[0m {HOSTILE}\n".encode()
    if number % 10 == 0:
        return b"\x1b[32mok\x1b[0m %d compiled without a warning\n" % number
    return b"   cc -O2 -Wall -c src/module_%06d.c -o build/module_%06d.o\n" % (number, number)


@pytest.fixture(scope="module")
def _written() -> dict[str, int]:
    return {}


@pytest.fixture
def long_run(admin: Api, _written: dict[str, int]) -> int:
    """A run whose one job wrote LINES lines in two steps, and is over."""
    if not _written:
        _written["run"] = admin.submit(ONE, title="Long")
        runner = admin.runner("long")
        runner.take()
        runner.write(b"##[step 1/2] make\n")
        middle = LINES // 2
        for start in range(2, LINES, PIECE):
            piece = b"".join(map(text_of, range(start, min(LINES, start + PIECE))))
            if start <= middle < start + PIECE:
                piece += b"##[exit 0] 61.2 s\n##[step 2/2] verify\n"
            runner.write(piece)
        runner.write(b"the very last line\n##[exit 1] 2.0 s\n")
        runner.finish("failed", exit_code=1)
    return _written["run"]


@pytest.fixture
def person(people: People) -> Person:
    return people()


def watched(person: Person, path: str) -> Page:
    """The page, with its long tasks counted from its first moment on."""
    page = person.page()
    page.add_init_script(
        "window.tasks = []; new PerformanceObserver((list) => window.tasks.push("
        "...list.getEntries().map((each) => each.duration))).observe({type: 'longtask', buffered: true});"
    )
    page.goto(person.hub.url + path)
    return page


def find(page: Page, text: str) -> None:
    page.get_by_placeholder("Search").fill(text)
    page.get_by_placeholder("Search").press("Enter")


def test_a_long_log_opens_at_its_end_and_keeps_the_page_small(person: Person, long_run: int) -> None:
    page = watched(person, f"/runs/{long_run}")
    expect(page.locator("#log-lines")).to_contain_text("the very last line")
    expect(page.get_by_text("Only the end is shown")).to_be_visible()
    page.get_by_role("button", name=re.compile("Show all of it")).click()
    expect(page.get_by_text("Only the end is shown")).to_be_hidden()
    page.locator("#log-lines").evaluate("(log) => { log.scrollTop = 0; }")
    page.locator("#log-lines summary").first.click()
    expect(page.locator("#L2")).to_contain_text("module_000002.c")
    assert page.locator("#log-lines .l").count() <= ON_PAGE
    assert max(page.evaluate("window.tasks"), default=0) < LONGEST_MS


def test_every_part_of_a_long_log_can_be_scrolled_to(person: Person, long_run: int) -> None:
    page = person.open(f"/runs/{long_run}#L60000")
    expect(page.locator("#L60000")).to_be_in_viewport()
    log = page.locator("#log-lines")
    for share in (0.1, 0.9, 0.4):
        log.evaluate("(log, share) => { log.scrollTop = share * log.scrollHeight; }", share)
        page.wait_for_function(
            "() => { const log = document.getElementById('log-lines').getBoundingClientRect();"
            " return [0.2, 0.5, 0.8].every((part) => document.elementFromPoint("
            "log.left + 200, Math.min(innerHeight - 2, log.top + part * log.height))?.closest('.l')); }"
        )
        assert page.locator("#log-lines .l").count() <= ON_PAGE


def test_a_link_to_a_line_leads_to_it_wherever_it_is(person: Person, long_run: int) -> None:
    page = watched(person, f"/runs/{long_run}#L12345")
    line = page.locator("#L12345")
    expect(line).to_be_in_viewport()
    expect(line).to_have_class(re.compile("is-target"))
    expect(line).to_contain_text("module_012345.c")
    page.goto(f"{page.url.partition('#')[0]}#L150000")
    expect(page.locator("#L150000")).to_be_in_viewport()
    assert max(page.evaluate("window.tasks"), default=0) < LONGEST_MS


def test_search_goes_through_all_lines_in_and_out_of_sight(person: Person, long_run: int) -> None:
    page = watched(person, f"/runs/{long_run}")
    find(page, "NEEDLE")
    said = page.locator(".search-said")
    expect(said).to_have_text("1 of 19 lines")
    found = page.locator("#log-lines .is-found")
    expect(found).to_contain_text("needle 10000 in a haystack <img src=x")
    expect(found).to_be_in_viewport()
    page.get_by_placeholder("Search").press("Enter")
    expect(found).to_contain_text("needle 20000")
    page.get_by_placeholder("Search").press("Shift+Enter")
    page.get_by_placeholder("Search").press("Shift+Enter")
    expect(said).to_have_text("19 of 19 lines")
    expect(found).to_contain_text("needle 190000")
    assert page.evaluate("[...CSS.highlights.get('found')].map(String)") == ["needle"]
    find(page, "in a haystack")  # across colours
    expect(said).to_have_text("1 of 19 lines")
    find(page, "not there at all")
    expect(said).to_have_text("not found")
    page.get_by_placeholder("Search").press("Escape")
    expect(said).to_have_text("")
    assert page.locator("#log-lines img, #log-lines script").count() == 0
    assert max(page.evaluate("window.tasks"), default=0) < LONGEST_MS


def test_a_flood_of_lines_is_followed_to_its_end_without_a_long_task(person: Person, admin: Api) -> None:
    run = admin.submit(ONE, title="Flood")
    runner = admin.runner("flood")
    runner.take()
    page = watched(person, f"/runs/{run}")
    expect(page.locator("#log-live")).to_have_text("live")
    for start in range(1, 40_001, PIECE):
        runner.write(b"".join(map(text_of, range(start, start + PIECE))))
    expect(page.locator("#L40000")).to_contain_text("needle")
    from_end = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight"
    assert page.locator("#log-lines").evaluate(from_end) < 5
    assert page.get_by_label("Follow").is_checked()
    assert page.locator("#log-lines .l").count() <= ON_PAGE
    assert max(page.evaluate("window.tasks"), default=0) < LONGEST_MS
    runner.finish()


def test_the_whole_log_of_a_job_that_runs_goes_on_where_it_ended(person: Person, admin: Api) -> None:
    run = admin.submit(ONE, title="Whole and live")
    runner = admin.runner("whole")
    runner.take()
    runner.write(b"".join(map(text_of, range(1, 4001))) + "half a li\u00f1".encode()[:-1])
    page = person.open(f"/runs/{run}")
    page.get_by_role("button", name=re.compile("Show all of it")).click()
    expect(page.get_by_text("Only the end is shown")).to_be_hidden()
    runner.write("\u00f1".encode()[1:] + b"e\nand more\n")
    page.get_by_label("Follow").check()
    expect(page.locator("#L4001")).to_have_text("half a liñe")
    expect(page.locator("#L4002")).to_have_text("and more")
    page.locator("#log-lines").evaluate("(log) => { log.scrollTop = 0; }")
    expect(page.locator("#L1")).to_contain_text("module_000001.c")
    runner.finish()


def test_without_scripts_a_long_log_is_read_by_pages(people: People, long_run: int) -> None:
    page = people(java_script_enabled=False).open(f"/runs/{long_run}")
    expect(page.locator("#log-lines")).to_contain_text("the very last line")
    page.get_by_role("link", name="By page").click()
    expect(page.locator("#L2")).to_contain_text("module_000002.c")
    page.get_by_role("link", name="After →").first.click()
    expect(page.locator("#L1001")).to_be_visible()
    page.get_by_label("Go to line").fill("123456")
    page.get_by_role("button", name="Go").click()
    expect(page.locator("#L123456")).to_be_in_viewport()
