"""Metrics of a plugin's calls, as Prometheus reads them, and what the plugin registers with the default registry.

Also change: sdk/go/metrics.go, sdk/java/src/main/java/dev/trireme/sdk/Metrics.java, sdk/rust/src/metrics.rs,
sdk/typescript/src/metrics.ts (the same in the other languages' SDKs).
Also change: internal/trireme/phases/phase_metrics.py (the metrics that the scheduler shows too).

Tests: tests/contract/test_plugin_sdk_results.py.
"""

from collections.abc import Iterable, Mapping

import grpc
import prometheus_client
from prometheus_client import registry

# A plugin's calls take from a fraction of a millisecond to its deadline; seconds.
_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_NAMES: Mapping[int, str] = {code.value[0]: code.name for code in grpc.StatusCode}


class CallMetrics:
    """The metrics of one plugin."""

    def __init__(self, plugin: str) -> None:
        self._own = prometheus_client.CollectorRegistry()
        calls = prometheus_client.Counter(
            "trireme_plugin_calls",
            "Calls that ended, by RPC and gRPC code.",
            ("plugin", "rpc", "code"),
            registry=self._own,
        )
        durations = prometheus_client.Histogram(
            "trireme_plugin_call_duration_seconds",
            "Duration of calls, by RPC.",
            ("plugin", "rpc"),
            buckets=_BUCKETS,
            registry=self._own,
        )
        running = prometheus_client.Gauge(
            "trireme_plugin_calls_in_flight",
            "Calls that have begun and not ended.",
            ("plugin",),
            registry=self._own,
        )
        self._plugin = plugin
        self._calls, self._durations, self._running = calls, durations, running.labels(plugin)

    def begin(self) -> None:
        """Note that a call begins."""
        self._running.inc()

    def end(self, rpc: str, code: int, seconds: float) -> None:
        """Note that a call ends, with this gRPC code."""
        self._running.dec()
        self._calls.labels(self._plugin, rpc, _NAMES.get(code, "UNKNOWN")).inc()
        self._durations.labels(self._plugin, rpc).observe(seconds)

    def serve(self, listen: str) -> None:
        """Serve them on `host:port`, on threads that end with the process.

        Raises:
            ValueError: the address cannot be listened on.
        """
        host, _, port = listen.rpartition(":")
        if not port.isdigit():
            raise ValueError(f"--metrics-listen: {listen!r} is not host:port")
        both = prometheus_client.CollectorRegistry()
        both.register(_Both(self._own))
        try:
            prometheus_client.start_http_server(int(port), host.strip("[]") or "0.0.0.0", both)
        except OSError as error:
            raise ValueError(f"--metrics-listen: {listen}: {error.strerror or error}") from error


class _Both(registry.Collector):
    """The metrics of the plugin's calls, and those of the default registry."""

    def __init__(self, own: prometheus_client.CollectorRegistry) -> None:
        self._own = own

    def collect(self) -> Iterable[prometheus_client.Metric]:
        """All of them."""
        yield from self._own.collect()
        yield from prometheus_client.REGISTRY.collect()
