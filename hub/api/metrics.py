"""GET /metrics, for Prometheus: read off the live fleet at each scrape."""

from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from hub.api.asking import hub_of
from hub.service.hub import Hub
from hub.service.tally import START_BOUNDS_S


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
        yield from self._since_start()
        yield from self._room()

    def _since_start(self) -> Iterator[Metric]:
        tally, holds = self._hub.tally, self._hub.dispatch.holds
        for name, text, value in (
            ("shunter_claims", "Claims of runners that arrived", tally.claims),
            ("shunter_leases_lost", "Attempts lost with their runner", tally.leases_lost),
            ("shunter_bytes_served", "Bytes of images, artifacts and workspaces sent", tally.bytes_served),
        ):
            counter = CounterMetricFamily(name, text)
            counter.add_metric([], value)
            yield counter
        ended = CounterMetricFamily(
            "shunter_holds", "Holds for a better runner by outcome", labels=["outcome"]
        )
        ended.add_metric(["won"], holds.won)
        ended.add_metric(["lost"], holds.lost)
        yield ended
        starts = HistogramMetricFamily("shunter_start_seconds", "From queued to running")
        bounds = [*map(str, map(float, START_BOUNDS_S)), "+Inf"]
        starts.add_metric([], list(zip(bounds, accumulate(tally.starts), strict=True)), tally.starts_s)
        yield starts

    def _room(self) -> Iterator[Metric]:
        """What is left on active runners that told it, all together."""
        dispatch = self._hub.dispatch
        rooms = [
            live.headroom(dispatch.settings)
            for live in dispatch.fleet.live.values()
            if live.state == "active" and live.offer is not None
        ]
        for name, text, figures in (
            (
                "shunter_free_slots",
                "Jobs that active runners could still take",
                [room.free_slots for room in rooms],
            ),
            ("shunter_free_cpus", "CPUs free on active runners", [room.free_cpus for room in rooms]),
            (
                "shunter_free_memory_bytes",
                "Memory free on active runners, after use, commitments and reserve",
                [None if room.free_memory_mib is None else room.free_memory_mib * 2**20 for room in rooms],
            ),
        ):
            gauge = GaugeMetricFamily(name, text)
            gauge.add_metric([], sum(max(0, figure) for figure in figures if figure is not None))
            yield gauge


async def answer(request: Request) -> Response:
    """The text that Prometheus reads. Counts only: it names no project and no runner."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Fleet(hub_of(request)))
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")
