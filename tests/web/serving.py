"""An application of the pages alone, over made-up views in place of the service.

The hub in it is a clock, a list of tokens and the address; what the pages ask of the service is
answered by the functions of `Answers`, one for each that they call.
"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from hub.errors import HubError, NotFound
from hub.service.access import Principal, Tokens, authorise, hash_secret
from hub.service.queue_day import Day
from hub.web import forms, images_page, pages, preview_page, runner_forms, tokens_page
from hub.wire.fleet import ChangeRunner, NewToken, QueueView, RunnerList, TokenList, TokenMade
from hub.wire.images import ImageList
from hub.wire.results import Results
from hub.wire.runs import ArtifactList, Comparison, JobView, Preview, RunList, RunView, Submit, Submitted
from tests.web import samples

SECRET = "shu_a-token-of-the-tests"
ADMIN_SECRET = "shu_an-admin-of-the-tests"
RUNNER_SECRET = "shr_a-runner-of-the-tests"
BASE_URL = "http://hub.test"


@dataclass
class Answers:
    """What the made-up service answers, and what was asked of it."""

    run: RunView = field(default_factory=samples.run)
    runs: list[RunView] = field(default_factory=samples.run_list)
    next: int | None = 36
    fleet: RunnerList = field(default_factory=samples.fleet)
    queued: QueueView = field(default_factory=samples.queue)
    log_bytes: bytes = samples.LOG
    left: ArtifactList = field(default_factory=samples.artifacts)
    found: Results = field(default_factory=samples.results)
    fault: HubError | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def listing(self, hub: Any, principal: Principal, **filters: Any) -> RunList:
        self.asked.append(("listing", filters))
        return RunList(runs=self.runs, next=self.next)

    async def view(self, hub: Any, principal: Principal, run_id: int) -> RunView:
        if run_id != self.run.id:
            raise NotFound("there is no such thing here, or your token does not reach it")
        return self.run

    async def job_view(self, hub: Any, principal: Principal, job_id: int) -> JobView:
        return self._job(job_id)

    async def placement(self, hub: Any, principal: Principal, job_id: int) -> Comparison:
        return samples.comparison(self._job(job_id).id)

    async def log(
        self,
        hub: Any,
        principal: Principal,
        job_id: int,
        offset: int = 0,
        limit: int = 65_536,
        attempt: int | None = None,
    ) -> tuple[bytes, int]:
        self._job(job_id)
        return self.log_bytes[offset : offset + min(limit, 65_536)], len(self.log_bytes)

    async def artifacts(self, hub: Any, principal: Principal, job_id: int) -> ArtifactList:
        return self.left

    async def act(self, name: str, target: int) -> Submitted:
        self.asked.append((name, target))
        return Submitted(id=43, url=f"{BASE_URL}/runs/43")

    async def runners(self, hub: Any, principal: Principal) -> RunnerList:
        return self.fleet

    async def queue(self, hub: Any, principal: Principal) -> QueueView:
        return self.queued

    async def queue_day(self, hub: Any, principal: Principal) -> Day:
        return samples.day()

    async def results(self, hub: Any, principal: Principal, job_id: int) -> Results:
        return self.found

    async def image_list(self, hub: Any, principal: Principal) -> ImageList:
        return samples.images()

    async def preview(self, hub: Any, principal: Principal, message: Submit) -> Preview:
        self.asked.append(("preview", message))
        if self.fault is not None:
            raise self.fault
        return samples.preview()

    async def change_runner(self, hub: Any, principal: Principal, name: str, message: ChangeRunner) -> None:
        self.asked.append((name, message.state))

    async def token_list(self, hub: Any, principal: Principal) -> TokenList:
        authorise(principal, "admin")
        return samples.tokens()

    async def add_token(self, hub: Any, principal: Principal, message: NewToken) -> TokenMade:
        authorise(principal, "admin")
        self.asked.append(("add token", message))
        return TokenMade(
            token="sht_once", id=9, created_at=samples.at(0), **message.model_dump(exclude={"expires_in_s"})
        )

    async def remove_token(self, hub: Any, principal: Principal, token_id: int) -> None:
        self.asked.append(("remove token", token_id))

    def _job(self, job_id: int) -> JobView:
        for job in self.run.jobs:
            if job.id == job_id:
                return job
        raise NotFound("there is no such thing here, or your token does not reach it")


def application(answers: Answers, patch: pytest.MonkeyPatch, *, base_url: str = BASE_URL) -> Starlette:
    """The pages over `answers`, with one token of kind submit and one of a runner."""

    def doing(name: str) -> Any:
        async def act(hub: Any, principal: Principal, target: int) -> Submitted:
            return await answers.act(name, target)

        return act

    runs = SimpleNamespace(
        listing=answers.listing,
        view=answers.view,
        cancel=doing("cancel run"),
        retry=doing("retry run"),
    )
    jobs = SimpleNamespace(
        view=answers.job_view,
        placement=answers.placement,
        log=answers.log,
        artifacts=answers.artifacts,
        cancel=doing("cancel job"),
        retry=doing("retry job"),
    )
    for module in (pages, forms):
        patch.setattr(module, "runs", runs)
        patch.setattr(module, "jobs", jobs)
    patch.setattr(pages, "runners", SimpleNamespace(listing=answers.runners))
    patch.setattr(pages, "queue", SimpleNamespace(view=answers.queue))
    patch.setattr(pages, "queue_day", SimpleNamespace(day=answers.queue_day))
    patch.setattr(pages, "results_show", SimpleNamespace(view=answers.results))
    patch.setattr(pages, "images_show", SimpleNamespace(listing=answers.image_list))
    patch.setattr(images_page, "images_show", SimpleNamespace(listing=answers.image_list))
    patch.setattr(preview_page, "preview", SimpleNamespace(preview=answers.preview))
    patch.setattr(runner_forms, "runners", SimpleNamespace(change=answers.change_runner))
    token_calls = SimpleNamespace(
        listing=answers.token_list, add=answers.add_token, remove=answers.remove_token
    )
    patch.setattr(tokens_page, "tokens", token_calls)
    tokens = Tokens()
    tokens.by_hash[hash_secret(SECRET)] = Principal(name="andy", kind="submit", token_id=1)
    tokens.by_hash[hash_secret(ADMIN_SECRET)] = Principal(name="root", kind="admin", token_id=2)
    tokens.by_hash[hash_secret(RUNNER_SECRET)] = Principal(name="earth-9", kind="runner")
    app = Starlette(
        routes=pages.routes(),
        exception_handlers={
            HubError: pages.on_hub_error,
            HTTPException: pages.on_http_error,
            Exception: pages.on_any_error,
        },
    )
    app.state.hub = SimpleNamespace(
        tokens=tokens, now_ms=lambda: samples.NOW_MS, config=SimpleNamespace(base_url=base_url)
    )
    return app


def client(app: Starlette, *, signed_in: bool = True) -> httpx.AsyncClient:
    """A browser as far as cookies and headers go; redirects are for the test to follow."""
    browser = httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app, raise_app_exceptions=False), base_url=BASE_URL
    )
    if signed_in:
        browser.cookies.set("shunter_session", SECRET)
    return browser
