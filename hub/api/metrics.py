"""GET /metrics, for Prometheus: read off the live fleet at each scrape."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from hub.api.asking import hub_of
from hub.service.hub import Hub


class _Fleet(Collector):
    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        """The families. The names and their meanings are part of the product: keep them."""
        dispatch = self._hub.dispatch
        queued = GaugeMetricFamily("shunter_queued_jobs", "Jobs that could run now, if a runner took them")
        queued.add_metric([], len(dispatch.queue))
        yield queued
        held = sum(1 for live in dispatch.fleet.live.values() for _ in live.awaited_by)
        holds = GaugeMetricFamily("shunter_held_jobs", "Jobs held for a better runner now")
        holds.add_metric([], held)
        yield holds
        attempts = GaugeMetricFamily("shunter_open_attempts", "Attempts that are out on runners")
        attempts.add_metric([], len(dispatch.attempts))
        yield attempts
        claims = GaugeMetricFamily("shunter_open_claims", "Runners that wait in a claim now")
        claims.add_metric([], sum(1 for live in dispatch.fleet.live.values() if live.open_claim is not None))
        yield claims
        runners = GaugeMetricFamily("shunter_runners", "Registered runners by state", labels=["state"])
        for state in ("active", "draining", "quarantined"):
            count = sum(1 for live in dispatch.fleet.live.values() if live.state == state)
            runners.add_metric([state], count)
        yield runners
        rescued = CounterMetricFamily("shunter_rescued_by_sweep", "Jobs that no wake-up had placed")
        rescued.add_metric([], dispatch.rescued_by_sweep)
        yield rescued


async def answer(request: Request) -> Response:
    """The text that Prometheus reads. Counts only: it names no project and no runner."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fleet(hub_of(request)))
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")
