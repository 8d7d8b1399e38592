"""What the server renders and what the scripts render are the same, and a log loses nothing on its way.

The scripts are loaded as the pages load them: from the hub, under its content security policy.
"""

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from hub.web import words
from hub.web.ansi import MAX_LINE, draw
from tests.browser.conftest import People, Person
from tests.browser.process import Api, HubProcess
from tests.web.samples import FRAGMENTS_OF_LINES, LOG

pytestmark = pytest.mark.browser

ONE = "version: 1\njobs:\n  only: {steps: [make]}\n"


@pytest.fixture
def person(people: People) -> Person:
    return people()


def with_module(page: Page, name: str, body: str, argument: Any) -> Any:
    """The value of `body`, a function of a script's module and `argument`."""
    folder = page.locator("link[rel=stylesheet]").get_attribute("href")
    assert folder
    address = folder.replace("css/shunter.css", f"js/{name}.js")
    return page.evaluate(
        f"async ([address, argument]) => ({body})(await import(address), argument)", [address, argument]
    )


def test_durations_and_ages_are_said_in_the_same_words(person: Person) -> None:
    spans = [-1, 0, 99, 100, 9_999, 10_000, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000]
    spans += [random.Random(7).randrange(10**10) for _ in range(200)]
    now_ms = 1_796_092_500_000
    page = person.open("/runs")
    said = with_module(page, "words", "(words, spans) => spans.map(words.elapsed)", spans)
    assert said == [words.elapsed(span) for span in spans]
    said = with_module(
        page,
        "words",
        "(words, [spans, now]) => spans.map((span) => words.age(now - span, now))",
        [spans, now_ms],
    )
    moments = [datetime.fromtimestamp((now_ms - span) / 1000, UTC) for span in spans]
    assert said == [words.age(moment, now_ms) for moment in moments]


def test_lines_are_drawn_the_same_way(person: Person) -> None:
    dice = random.Random(11)
    lines = ["".join(dice.choices(FRAGMENTS_OF_LINES, k=dice.randrange(1, 16))) for _ in range(3000)]
    lines += [f"\x1b[38;5;{index}mx\x1b[48;5;{index}my" for index in range(258)]
    lines += [
        f"\x1b[38;2;{dice.randrange(260)};{dice.randrange(260)};{dice.randrange(260)}mx" for _ in range(300)
    ]
    lines += ["𝄞" * (MAX_LINE + extra) for extra in (-1, 0, 1)] + [LOG.decode()]
    page = person.open("/runs")
    seen = with_module(
        page,
        "ansi",
        "({draw, classesOf}, lines) => lines.map((line) => { const [pieces, pen] = draw(line);"
        " return [pieces.map(({classes, text}) => [classes, text]), classesOf(pen)]; })",
        lines,
    )
    for line, (pieces, pen) in zip(lines, seen, strict=True):
        expected, after = draw(line)
        assert (pieces, pen) == ([[one.classes, one.text] for one in expected], after.classes), repr(line)


# The elements of a log, attributes in order, without the mark of folds that the reader touched.
SHOWN = """(log) => {
  log.normalize();
  const told = (node) => {
    if (node.nodeType === Node.TEXT_NODE) return node.data;
    const attributes = [...node.attributes].filter(({name}) => name !== "data-touched");
    const named = attributes.map(({name, value}) => ` ${name}=${value}`).sort().join("");
    return `<${node.localName}${named}>${[...node.childNodes].map(told).join("")}</${node.localName}>`;
  };
  // how lines are put into blocks is nobody's business but the script's
  for (const block of [...log.querySelectorAll(".block")]) block.replaceWith(...block.childNodes);
  return [...log.children].map(told);
}"""


@pytest.mark.parametrize("seed", range(3))
def test_a_log_that_came_live_is_the_log_that_a_new_page_shows(person: Person, admin: Api, seed: int) -> None:
    dice = random.Random(seed)
    text = b"before\n" + LOG + b"##[exit 1] 2.0 s\n##[step 3/3] \x1b[1mnoise\n"
    for _ in range(120):
        line = "".join(dice.choices(FRAGMENTS_OF_LINES, k=dice.randrange(0, 12)))
        text += line.encode() + dice.choice([b"\n", b"\r\n", b"\xff\n", b""])
    text += b"\n##[exit 0] 3.4 s\nafter, without a newline"
    run = admin.submit(ONE, title=f"Live {seed}")
    runner = admin.runner(f"live-{seed}")
    runner.take()
    page = person.open(f"/runs/{run}")
    expect(page.locator("#log-live")).to_have_text("live")
    at = 0
    while at < len(text):
        size = dice.choice([1, 2, 3, 50, 400])
        runner.write(text[at : at + size])
        at += size
    runner.finish()
    expect(page.locator("#log-lines")).to_contain_text("after, without a newline")
    expect(page.locator("#run-head .status")).to_have_text("succeeded")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # all lines, in sight or not
    live = page.locator("#log-lines").evaluate(SHOWN)
    page.reload()
    anew = page.locator("#log-lines").evaluate(SHOWN)
    for one, two in zip(live, anew, strict=True):
        assert one.split("<div") == two.split("<div")


def test_a_page_opened_amid_a_log_goes_on_without_a_gap_or_a_repeat(person: Person, admin: Api) -> None:
    run = admin.submit(ONE, title="Amid")
    runner = admin.runner("amid")
    runner.take()
    runner.write(b"\x1b[35mone\ntwo\nthr")
    page = person.open(f"/runs/{run}")
    expect(page.locator("#log-lines")).to_contain_text("thr")
    runner.write(b"ee\nfour\n")
    expect(page.locator("#log-lines")).to_contain_text("four")
    lines = page.locator("#log-lines .l")
    assert lines.all_inner_texts() == ["one", "two", "three", "four"]
    assert [each.get_attribute("id") for each in lines.all()] == ["L1", "L2", "L3", "L4"]
    expect(page.locator("#log-lines i.f5")).to_have_count(4)
    runner.finish()


def test_a_log_that_is_followed_stays_at_its_end_until_the_reader_scrolls_up(
    person: Person, admin: Api
) -> None:
    run = admin.submit(ONE, title="Follow")
    runner = admin.runner("follow")
    runner.take()
    page = person.open(f"/runs/{run}")
    lines = page.locator("#log-lines")
    runner.write(b"".join(b"line %d\n" % number for number in range(300)))
    expect(lines).to_contain_text("line 299")
    from_end = "(log) => log.scrollHeight - log.scrollTop - log.clientHeight"
    assert lines.evaluate(from_end) < 5
    lines.evaluate("(log) => { log.scrollTop = 0; }")
    expect(page.get_by_label("Follow")).not_to_be_checked()
    before = lines.evaluate("(log) => log.scrollHeight")
    runner.write(b"one more\n")
    page.wait_for_function(
        "(before) => document.getElementById('log-lines').scrollHeight > before", arg=before
    )
    assert lines.evaluate("(log) => log.scrollTop") == 0
    page.get_by_label("Follow").check()
    expect(lines).to_contain_text("one more")
    assert lines.evaluate(from_end) < 5
    runner.finish()


def test_a_log_goes_on_where_it_was_after_the_hub_was_killed_and_came_back(
    person: Person, admin: Api, hub: HubProcess
) -> None:
    run = admin.submit(ONE, title="Cut")
    runner = admin.runner("cut")
    runner.take()
    page = person.open(f"/runs/{run}")
    runner.write(b"one\ntwo\n")
    expect(page.locator("#log-lines")).to_contain_text("two")
    hub.kill()
    expect(page.locator("#log-live")).to_have_text("reconnecting…")
    hub.start()
    runner.write(b"three\n")
    expect(page.locator("#log-lines")).to_contain_text("three")
    assert page.locator("#log-lines .l").all_inner_texts() == ["one", "two", "three"]
    runner.finish()
    expect(page.locator("#run-head .status")).to_have_text("succeeded")


def test_a_job_that_is_queued_again_begins_a_new_log(person: Person, admin: Api) -> None:
    run = admin.submit(ONE, title="Again")
    runner = admin.runner("again")
    job = runner.take()
    page = person.open(f"/runs/{run}")
    runner.write(b"of the first attempt\n")
    expect(page.locator("#log-lines")).to_contain_text("of the first")
    lease = {"lease": runner.given["lease"]["token"], "reason": "it shuts down"}
    runner.call("POST", f"/jobs/{job}/release", json=lease)
    runner.take()
    runner.write(b"of the second attempt\n")
    expect(page.locator("#log-lines")).to_contain_text("of the second")
    expect(page.locator("#log-lines")).not_to_contain_text("of the first")
    expect(page.locator("details[data-keep=attempts]")).to_contain_text("it shuts down")
    runner.finish()


def test_nothing_that_a_job_or_a_title_says_is_run(person: Person, admin: Api) -> None:
    evil = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
    run = admin.submit(ONE, title=evil, ref=evil)
    runner = admin.runner("evil")
    runner.take()
    page = person.open(f"/runs/{run}")
    runner.write(f"##[step 1/1] {evil}\n{evil}\n".encode())
    expect(page.locator("#log-lines .l")).to_have_text(evil)
    expect(page.locator(".fold-name")).to_have_text(evil)
    runner.finish("error", error=evil)
    expect(page.locator("#run-detail .callout")).to_contain_text(evil)
    assert page.locator("img, script:not([src])").count() == 0
