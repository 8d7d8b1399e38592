"""How long pages take: `python -m tests.bench.pages` starts a hub and Chromium, and prints figures.

A run of JOBS jobs, against a server that answers with the very same bytes, and a log of LINES lines.
No verdict: the machine decides most of it.
"""

import json
import shutil
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.conftest import CALM, ROOT_ARGS
from tests.browser.process import Api, HubProcess

JOBS = 300
LINES = 200_000
ROUNDS = 15
PIECE = 4000  # lines of a log that are sent at once
CLIENT = httpx.Client(timeout=30)  # one: to make one takes longer than an answer
OBSERVE = (
    "window.tasks = []; new PerformanceObserver((list) => window.tasks.push("
    "...list.getEntries().map((each) => each.duration))).observe({type: 'longtask', buffered: true});"
)
TIMES = """() => {
  const [page] = performance.getEntriesByType('navigation');
  const paint = performance.getEntriesByName('first-contentful-paint')[0];
  return {first_byte: page.responseStart - page.requestStart, painted: paint ? paint.startTime : null,
    interactive: page.domInteractive, loaded: page.loadEventEnd};
}"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        hub = HubProcess(Path(folder) / "data")
        hub.start()
        found = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=found, args=ROOT_ARGS + CALM)
        try:
            api = Api(hub, hub.token)
            many_jobs(api, browser)
            long_log(api, browser)
        finally:
            browser.close()
            hub.stop()


def many_jobs(api: Api, browser: Browser) -> None:
    """A run of JOBS jobs, of which some ran and the others wait."""
    shards = {f"shard-{number:03d}": {"needs": ["build"], "steps": ["make"]} for number in range(JOBS - 2)}
    report = {"needs": list(shards), "steps": ["./report"]}
    jobs = {"build": {"steps": ["make"]}, **shards, "report": report}
    run = api.submit(json.dumps({"version": 1, "jobs": jobs}), title=f"{JOBS} jobs")
    runner = api.runner("bench", max_jobs=4)
    for _ in range(30):
        runner.take()
        runner.finish(exit_code=0)
    path = f"/runs/{run}"
    body = answer_of(api, path)
    print(f"{JOBS} jobs: a page of {len(body) / 1024:.0f} KiB, its parts {kib(answer_of(api, path + PARTS))}")
    whole = median_ms(lambda: answer_of(api, path))
    plain = same_bytes(body)
    print(
        f"  whole answer {whole:.1f} ms; the same bytes from a plain server {plain:.1f} ms:"
        f" {whole / plain:.0f} x"
    )
    print(f"  its parts, as exchanged live {median_ms(lambda: answer_of(api, path + PARTS)):.1f} ms")
    page = opened(api, browser, path)
    print(f"  in Chromium: {said(page)}")
    page.context.close()
    api.call("POST", f"/runs/{run}/cancel")
    api.call("DELETE", "/runners/bench")


PARTS = "?fragment=jobs"


def long_log(api: Api, browser: Browser) -> None:
    """A log of LINES lines, every tenth in colour."""
    run = api.submit("version: 1\njobs:\n  only: {steps: [make]}\n", title="A long log")
    runner = api.runner("scribe")
    job = runner.take()
    for start in range(0, LINES, PIECE):
        runner.write(b"".join(line(number) for number in range(start, start + PIECE)))
    runner.finish(exit_code=0)
    path = f"/runs/{run}"
    print(f"{LINES} lines of log, {runner.written / 2**20:.1f} MiB: a page of {kib(answer_of(api, path))}")
    print(f"  whole answer {median_ms(lambda: answer_of(api, path)):.1f} ms")
    last = f"/jobs/{job}/lines?page={LINES // 1000}"
    print(f"  the last page without scripts {median_ms(lambda: answer_of(api, last)):.1f} ms")
    page = opened(api, browser, path)
    print(f"  in Chromium: {said(page)}; heap {heap_mib(page):.0f} MiB")
    begun = time.perf_counter()
    page.get_by_placeholder("Search").fill(f"line {LINES - 20}")
    page.wait_for_function("() => document.querySelector('.search-said').textContent.includes(' of ')")
    took = 1000 * (time.perf_counter() - begun)
    print(f"  the whole fetched and searched in {took:.0f} ms; {said(page)}; heap {heap_mib(page):.0f} MiB")
    begun = time.perf_counter()
    page.evaluate("location.hash = 'L100000'")
    page.wait_for_function("() => document.getElementById('L100000')")
    print(f"  to line 100000 in {1000 * (time.perf_counter() - begun):.0f} ms")
    count = page.evaluate("document.getElementsByTagName('*').length")
    print(f"  {count} elements on the page; longest task {max(page.evaluate('tasks'), default=0):.0f} ms")
    page.context.close()


def line(number: int) -> bytes:
    colour = (b"\x1b[32m", b"\x1b[0m") if number % 10 == 0 else (b"", b"")
    return b"%sline %d%s of a log, as long as the lines of compilers are: src/module_%06d.c\n" % (
        colour[0],
        number,
        colour[1],
        number,
    )


def opened(api: Api, browser: Browser, path: str) -> Page:
    """The page in a browser of its own, its long tasks counted."""
    context = browser.new_context()
    context.add_cookies([{"name": "shunter_session", "value": api.token, "url": api.hub.url}])
    page = context.new_page()
    page.add_init_script(OBSERVE)
    page.goto(api.hub.url + path)
    page.wait_for_timeout(1500)  # what the page does after it was loaded counts too
    return page


def said(page: Page) -> str:
    times: dict[str, Any] = page.evaluate(TIMES)
    words = ", ".join(f"{name} {value:.0f} ms" for name, value in times.items() if value is not None)
    return f"{words}, longest task {max(page.evaluate('tasks'), default=0):.0f} ms"


def heap_mib(page: Page) -> float:
    """What its scripts hold, after a collection."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 2**20


def answer_of(api: Api, path: str) -> bytes:
    answer = CLIENT.get(api.hub.url + path, headers={"cookie": f"shunter_session={api.token}"})
    assert answer.status_code == 200, path
    return answer.content


def same_bytes(body: bytes) -> float:
    """Milliseconds that a server takes which has `body` in memory."""

    class Plain(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # keeps the connection, as the hub does

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ThreadingHTTPServer(("127.0.0.1", port), Plain)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    took = median_ms(lambda: CLIENT.get(f"http://127.0.0.1:{port}/").content)
    server.shutdown()
    server.server_close()
    return took


def median_ms(act: Callable[[], object]) -> float:
    took = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        act()
        took.append(1000 * (time.perf_counter() - begun))
    return statistics.median(took)


def kib(body: bytes) -> str:
    return f"{len(body) / 1024:.0f} KiB"


if __name__ == "__main__":
    main()
