"""Makes the README's picture from a real hub with real runners: `python -m tests.browser.pictures`."""

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.browser.conftest import CALM, ROOT_ARGS
from tests.e2e.processes import House, until

PICTURE = Path(__file__).with_name("run-page.png")

PIPELINE = """\
version: 1
jobs:
  lint:
    steps: [{name: ruff check, run: 'echo "All checks passed!"'}]
  test:
    needs: [lint]
    matrix: {python: ["3.11", "3.13"]}
    steps:
      - {name: install, run: sleep 1; echo installed}
      - {name: pytest, run: 'printf "\\033[32m............ [100%%]\\033[0m\\n12 passed in 1.02s\\n"'}
  train:
    labels: [gpu]
    steps: [{name: train, run: ./train.py}]
"""


def main() -> None:
    """Run the pipeline, and take the page as it then is."""
    with tempfile.TemporaryDirectory() as folder, House(Path(folder)) as house:
        for name, speed in (("earth-9", "100"), ("mars-1", "80"), ("tank", "64")):
            house.start_runner(name, "--speed", speed)
        until("all wait", lambda: all(one["waiting"] for one in house.call("GET", "/runners")["runners"]))
        body = {
            "project": "andy/demo",
            "pipeline": PIPELINE,
            "title": "Sort the queue by priority",
            "ref": "main",
        }
        run = house.call("POST", "/runs", body)["id"]
        until("three jobs are done", lambda: house.run(run)["jobs_done"] == 3)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=ROOT_ARGS + CALM
            )
            context = browser.new_context(viewport={"width": 1200, "height": 1290})
            context.add_cookies([{"name": "shunter_session", "value": house.token, "url": house.url}])
            page = context.new_page()
            jobs = {job["name"]: job["id"] for job in house.run(run)["jobs"]}
            page.goto(f"{house.url}/runs/{run}?job={jobs['train']}")
            page.wait_for_timeout(500)
            page.screenshot(path=PICTURE)
            browser.close()


if __name__ == "__main__":
    main()
