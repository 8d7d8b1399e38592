"""The server: parts put together, started in order, and ended in order.

Start: migrate, open the store, rebuild the live fleet, and only then listen. Stop: on the first
signal every open poll and stream ends, so that the process is gone within seconds.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hub.api import casync, metrics, openapi, problems
from hub.api.routes import BASE
from hub.api.routes import routes as api_routes
from hub.blobs import Blobs
from hub.clock import Clock, SystemClock
from hub.config import VERSION, Config
from hub.dispatch.dispatcher import Dispatcher
from hub.errors import HubError
from hub.logs import Logs
from hub.service import attempts, images, images_names, queue, ready, runners, tokens
from hub.service.hub import Hub
from hub.store.engine import open_store
from hub.store.errors import StoreError
from hub.web import pages
from hub.wire.pipeline import json_schema

log = logging.getLogger(__name__)

GRACE_S = 3  # for calls under way when the hub stops


async def start(config: Config, clock: Clock | None = None) -> Hub:
    """Open everything and rebuild what was live. The caller ends it with `stop`."""
    clock = clock or SystemClock()
    config.data.mkdir(parents=True, exist_ok=True)
    spool = config.data / "spool"
    spool.mkdir(exist_ok=True)
    for left in spool.glob("upload-*"):  # of an earlier life: nobody was told that it was kept
        left.unlink(missing_ok=True)
    store = await open_store(config.database_url)
    dispatch = Dispatcher(
        writer=store.writer,
        now_ms=clock.now_ms,
        settings=config.placement(),
        lease_ms=config.lease_ms,
        start_ms=config.start_ms,
        journal_entries=config.journal_entries,
    )
    hub = Hub(
        config=config,
        clock=clock,
        store=store,
        dispatch=dispatch,
        blobs=Blobs.open(config.blobs, config.data),
        logs=Logs(config.data / "logs", config.log_mib * 2**20),
        spool=spool,
    )
    dispatch.leases.on_lapsed = lambda attempt, how: attempts.lapsed(hub, attempt, how)
    dispatch.on_superseded = lambda job_ids: ready.superseded(hub, job_ids)
    dispatch.on_invalid = lambda job_id, error: ready.invalid(hub, job_id, error)
    dispatch.on_unsure = lambda job_id: ready.reload(hub, job_id)
    try:
        await tokens.load(hub)
        await runners.load(hub)
        await images.load(hub)
        await images_names.load(hub)
        await ready.start_up(hub)
        await dispatch.tasks.settled()
    except BaseException:
        await store.close()
        raise
    return hub


async def stop(hub: Hub) -> None:
    """Write what is still to be written, and close."""
    hub.dispatch.shut()
    await hub.dispatch.tasks.settled()
    with suppress(Exception):  # what was last heard of runners and tokens is no reason not to stop
        await tokens.save_uses(hub)
        await asyncio.gather(*(runners.save(hub, live) for live in hub.dispatch.fleet.live.values()))
    await hub.store.close()


async def run_timers(hub: Hub) -> None:
    """Carry out what falls due, and sweep. Runs until it is cancelled."""
    timers, wake = hub.dispatch.timers, asyncio.Event()
    timers.changed = wake.set
    sweep_ms = int(hub.config.sweep_s * 1000)
    next_sweep_ms = hub.now_ms() + sweep_ms
    while True:
        now_ms = hub.now_ms()
        timers.run(now_ms)
        if now_ms >= next_sweep_ms:
            next_sweep_ms = now_ms + sweep_ms
            hub.dispatch.sweep()
            await queue.expire(hub)
        due_ms = next_sweep_ms if timers.next_ms is None else min(timers.next_ms, next_sweep_ms)
        wake.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0, due_ms - hub.now_ms()) / 1000):
                await wake.wait()


def build(hub: Hub) -> Starlette:
    """The application around a hub that was started."""
    routes = [
        *api_routes(),
        *casync.routes(),
        Route("/healthz", _healthz),
        Route("/readyz", _readyz),
        Route("/metrics", metrics.answer),
        Route("/openapi.json", _openapi),
        Route("/pipeline.schema.json", _pipeline_schema),
        *pages.routes(),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HubError: _by_path(problems.on_hub_error, pages.on_hub_error),
            HTTPException: _by_path(problems.on_http_error, pages.on_http_error),
            Exception: _by_path(problems.on_any_error, pages.on_any_error),
        },
    )
    app.state.hub = hub
    return app


async def _guarded(work: Callable[[Hub], Awaitable[None]], hub: Hub) -> None:
    """Start the timers, or the rounds, again should one ever raise: without them nothing is woken."""
    while True:
        try:
            await work(hub)
        except Exception:
            log.exception("what goes on by itself failed; it goes on")
            await asyncio.sleep(0.1)


def _by_path(
    api: Callable[[Request, Exception], Awaitable[Response]],
    page: Callable[[Request, Exception], Awaitable[Response]],
) -> Callable[[Request, Exception], Awaitable[Response]]:
    """A problem for a program, a page for a person."""

    async def answer(request: Request, error: Exception) -> Response:
        path = request.url.path
        for_program = path.startswith((BASE, casync.BASE, "/openapi", "/metrics", "/healthz", "/readyz"))
        return await (api if for_program else page)(request, error)

    return answer


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _readyz(request: Request) -> Response:
    hub: Hub = request.app.state.hub
    await hub.store.ping()
    return PlainTextResponse("ready\n")


async def _openapi(request: Request) -> Response:
    return JSONResponse(openapi.document(VERSION))


async def _pipeline_schema(request: Request) -> Response:
    return JSONResponse(json_schema())


class _Server(uvicorn.Server):
    """Ends polls and streams at the first signal; uvicorn alone would wait for them."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.dispatch.shut()
        await super().shutdown(sockets)


def serve(config: Config) -> None:
    """Serve until a signal. Ends the process with a message where the hub cannot start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)  # the store says which schema it made
    try:
        uvloop.run(_serve(config))
    except StoreError as error:
        raise SystemExit(f"shunter: {error}") from None


async def _serve(config: Config) -> None:
    hub = await start(config)
    timers = asyncio.create_task(_guarded(run_timers, hub))
    rounds = asyncio.create_task(_guarded(lambda hub: hub.dispatch.rounds.run(), hub))
    try:
        if (file := await tokens.first_admin(hub)) is not None:
            log.warning("the first admin token is in %s", file)
        server = _Server(
            uvicorn.Config(
                build(hub),
                host=config.host,
                port=config.port,
                http="httptools",
                lifespan="off",  # the hub is started before, so that what keeps it from it is told plainly
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=GRACE_S,
                timeout_keep_alive=75,  # longer than a proxy keeps its own side open
                server_header=False,
            ),
            hub,
        )
        log.info("serving %s, data in %s", config.base_url, config.data.resolve())
        await server.serve()
    finally:
        timers.cancel()
        rounds.cancel()
        await asyncio.wait({timers, rounds})
        await stop(hub)
