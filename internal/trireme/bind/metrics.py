"""Metrics of the bind process.

The counters live in the statistics records of the objects that count; here they are only read, at each scrape.

Also change: internal/trireme/phases/phase_metrics.py (metrics of both).
Also change: docs/runbooks/README.md.
Also change: deploy/chart/files/rules.yaml, docs/metrics_remarks.yaml (alerts, remarks).

Tests: tests/unit/bind/test_metrics.py.
"""

from collections.abc import Iterable, Mapping

from trireme.bind.service import BindPhase
from trireme.phases import phase_metrics
from trireme.remote import plugin_connections
from trireme_kube.client.rest import client
from trireme_kube.componentbase.metrics.instruments import CountedElsewhere, Gauge, Instrument, Reading


def why_not_ready(service: BindPhase) -> str:
    """Why calls would not be served yet: no leader has brought a configuration; empty: they are served."""
    return "" if service.statistics().configured else "no leader has brought a configuration yet"


def instruments(
    service: BindPhase, api: client.ApiClient, connections: plugin_connections.PluginConnections
) -> Iterable[Instrument]:
    """Make the metrics of bind itself and of its calls to remote plugins; their values are read at each scrape."""
    yield from _binding_instruments(service)
    yield from _leadership_instruments(service)
    yield from _request_instruments(api)
    yield from phase_metrics.plugin_instruments(connections.statistics)


def _binding_instruments(service: BindPhase) -> Iterable[Instrument]:
    """What became of bindings, how many are under way, and the writes beside them."""

    def reading_of(attribute: str) -> Reading:
        return lambda: {(): getattr(service.statistics().binder, attribute)}

    def bindings_by_result() -> Mapping[tuple[str], float]:
        binder = service.statistics().binder
        return {("bound",): binder.bound, ("failed",): binder.failed, ("unknown",): binder.unknown}

    yield CountedElsewhere(
        "trireme_bind_pods_total",
        "Pods whose Bind step the in-tree plugin did, by outcome; other Bind plugins and extenders are not counted.",
        bindings_by_result,
        ("result",),
    )
    yield CountedElsewhere("trireme_bind_posts_total", "Bindings posted.", reading_of("posts"))
    yield CountedElsewhere(
        "trireme_bind_conflicts_total", "Bindings that the API server answered with 409.", reading_of("conflicts")
    )
    yield CountedElsewhere(
        "trireme_bind_read_back_total",
        "Pods found bound by reading them after an answer in doubt.",
        reading_of("read_back"),
    )
    yield CountedElsewhere(
        "trireme_bind_joined_total", "Requests that joined a binding under way.", reading_of("joined")
    )
    yield Gauge("trireme_bind_in_flight", "Bindings under way.", reading_of("in_flight"))
    yield Gauge("trireme_bind_waiting", "Bindings that wait for a turn.", reading_of("waiting"))
    yield CountedElsewhere(
        "trireme_bind_actions_total",
        "Writes beside bindings, by kind and result.",
        lambda: service.statistics().actions,
        ("action", "result"),
    )


def _leadership_instruments(service: BindPhase) -> Iterable[Instrument]:
    """The epoch in force, calls refused for an old one, and readings of the Lease."""

    def reading_of(attribute: str) -> Reading:
        return lambda: {(): getattr(service.statistics().leadership, attribute)}

    yield Gauge("trireme_epoch", "The epoch in force.", reading_of("epoch"))
    yield CountedElsewhere(
        "trireme_stale_calls_total", "Calls refused because their epoch was over.", reading_of("refused")
    )
    yield CountedElsewhere("trireme_bind_lease_readings_total", "Readings of the Lease.", reading_of("readings"))


def _request_instruments(api: client.ApiClient) -> Iterable[Instrument]:
    """Requests to the API server: how many, failed, and waiting for the rate limit."""

    def reading_of(attribute: str) -> Reading:
        return lambda: {(): getattr(api.statistics(), attribute)}

    yield CountedElsewhere("trireme_bind_api_requests_total", "Requests to the API server.", reading_of("requests"))
    yield CountedElsewhere(
        "trireme_bind_api_failures_total", "Requests to the API server that ended in an error.", reading_of("failures")
    )
    yield CountedElsewhere(
        "trireme_bind_api_throttled_total", "Requests that waited for the rate limit.", reading_of("throttled")
    )
    yield CountedElsewhere(
        "trireme_bind_api_throttled_seconds_total",
        "Time spent waiting for the rate limit.",
        reading_of("throttled_seconds"),
    )
