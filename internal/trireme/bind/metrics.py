"""Metrics and probes of the bind process over HTTP.

The counters live in the statistics records of the objects that count; here they are only read, when somebody asks.
Ready means: calls would be served, so a leader has come and brought a configuration.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from trireme.bind.remote import RemotePlugins
from trireme.bind.service import BindService
from trireme.kube import client
from trireme.replica.listening import ListenError
from trireme.replica.remote_breaker import State


class BindCollector(Collector):
    """The metrics of one bind process."""

    def __init__(self, service: BindService, api: client.ApiClient, remotes: RemotePlugins) -> None:
        self._service = service
        self._api = api
        self._remotes = remotes

    def collect(self) -> Iterable[Metric]:
        """The families, as of now."""
        return self._families()

    def _families(self) -> Iterator[Metric]:
        statistics = self._service.statistics()
        binder, leadership, api = statistics.binder, statistics.leadership, self._api.statistics()
        results = CounterMetricFamily("trireme_bind_pods", "Pods by what became of their binding.", labels=["result"])
        for result, number in (("bound", binder.bound), ("failed", binder.failed), ("unknown", binder.unknown)):
            results.add_metric([result], number)
        yield results
        for name, help_text, value in (
            ("trireme_bind_posts", "Bindings posted.", binder.posts),
            ("trireme_bind_conflicts", "Bindings that the API server answered with 409.", binder.conflicts),
            ("trireme_bind_read_back", "Pods found bound by reading them after an answer in doubt.", binder.read_back),
            ("trireme_bind_joined", "Requests that joined a binding under way.", binder.joined),
            ("trireme_bind_lease_readings", "Readings of the Lease.", leadership.readings),
            ("trireme_bind_stale_calls", "Calls refused because their epoch was over.", leadership.refused),
            ("trireme_bind_api_requests", "Requests to the API server.", api.requests),
            ("trireme_bind_api_failures", "Requests to the API server that ended in an error.", api.failures),
            ("trireme_bind_api_throttled_seconds", "Time spent waiting for the rate limit.", api.throttled_seconds),
        ):
            yield CounterMetricFamily(name, help_text, value)
        actions = CounterMetricFamily(
            "trireme_bind_actions", "Writes beside bindings, by kind and result.", labels=["action", "result"]
        )
        for (kind, result), number in sorted(statistics.actions.items()):
            actions.add_metric([kind, result], number)
        yield actions
        yield from self._plugins()
        yield GaugeMetricFamily("trireme_bind_in_flight", "Bindings under way.", binder.in_flight)
        yield GaugeMetricFamily("trireme_bind_waiting", "Bindings that wait for a turn.", binder.waiting)
        yield GaugeMetricFamily("trireme_bind_epoch", "The epoch in force.", leadership.epoch)

    def _plugins(self) -> Iterator[Metric]:
        questions = CounterMetricFamily(
            "trireme_bind_plugin_questions", "Questions to remote plugins.", labels=["plugin", "result"]
        )
        states = GaugeMetricFamily(
            "trireme_bind_plugin_breaker", "1 for the state of a remote plugin's breaker.", labels=["plugin", "state"]
        )
        for name, asked in sorted(self._remotes.statistics().items()):
            for result, number in (
                ("answered", asked.answered),
                ("failed", asked.failed),
                ("not_asked", asked.not_asked),
            ):
                questions.add_metric([name, result], number)
            for state in State:
                states.add_metric([name, state.value], state is asked.breaker)
        yield questions
        yield states


@asynccontextmanager
async def serve(
    listen: str, service: BindService, api: client.ApiClient, remotes: RemotePlugins
) -> AsyncIterator[None]:
    """Serves them for as long as the block runs; empty `listen`: does nothing.

    Raises:
        ListenError: the address cannot be listened on.
    """
    if not listen:
        yield
        return
    registry = CollectorRegistry()
    registry.register(BindCollector(service, api, remotes))
    # They register themselves.
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def healthy(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(request: web.Request) -> web.Response:
        if service.statistics().configured:
            return web.Response(text="ok")
        return web.Response(status=503, text="no leader has brought a configuration yet")

    application = web.Application()
    application.router.add_get("/metrics", metrics)
    application.router.add_get("/healthz", healthy)
    application.router.add_get("/readyz", ready)
    host, _, port = listen.rpartition(":")
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host.strip("[]") or None, int(port)).start()
    except OSError as error:
        await runner.cleanup()
        raise ListenError(f"--metrics-listen: {listen}: {error.strerror or error}") from error
    try:
        yield
    finally:
        await runner.cleanup()
