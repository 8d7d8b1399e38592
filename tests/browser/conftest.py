"""Chromium, and a hub of its own for each module.

A page that logs an error, breaks the content security policy or throws fails the test that opened it.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.process import Api, HubProcess

WAIT_MS = 15_000  # for what a page is to show: long, because the machines are small
ROOT_ARGS = ["--no-sandbox"] if os.geteuid() == 0 else []
CALM = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
MISSING = "Failed to load resource"  # a request that was answered with an error, which tests ask for


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("needs Chromium")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ROOT_ARGS + CALM)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    folder: Path = tmp_path_factory.mktemp("hub") / "data"
    process = HubProcess(folder)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def admin(hub: HubProcess) -> Iterator[Api]:
    """Whoever runs the hub. Afterwards nothing waits, nothing runs and no runner is left."""
    api = Api(hub, hub.token)
    yield api
    for run in api.call("GET", "/runs?limit=100")["runs"]:
        if run["status"] in ("queued", "running"):
            api.call("POST", f"/runs/{run['id']}/cancel")
    for runner in api.call("GET", "/runners")["runners"]:
        api.call("DELETE", f"/runners/{runner['name']}")


@dataclass
class Person:
    """Somebody with a browser, at one hub."""

    context: BrowserContext
    hub: HubProcess
    faults: list[str] = field(default_factory=list)

    def page(self) -> Page:
        """A new tab whose faults are remembered."""
        page = self.context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"a dialog: {dialog.message}"))
        return page

    def open(self, path: str) -> Page:
        page = self.page()
        page.goto(self.hub.url + path)
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(MISSING):
            self.faults.append(message.text)


class People:
    """Makes people; looks after them when the test is over."""

    def __init__(self, chromium: Browser, hub: HubProcess) -> None:
        self._chromium, self._hub = chromium, hub
        self._made: list[Person] = []

    def __call__(self, *, signed_in: bool = True, **settings: Any) -> Person:
        context = self._chromium.new_context(**settings)
        if signed_in:
            cookie = {"name": "shunter_session", "value": self._hub.token, "url": self._hub.url}
            context.add_cookies([cookie])  # type: ignore[list-item]  # a TypedDict, made of a plain one
        person = Person(context, self._hub)
        self._made.append(person)
        return person

    def end(self) -> None:
        for person in self._made:
            person.context.close()
        assert [person.faults for person in self._made if person.faults] == []


@pytest.fixture
def people(chromium: Browser, hub: HubProcess) -> Iterator[People]:
    made = People(chromium, hub)
    yield made
    made.end()
