// Also change: internal/trireme/sdk/metrics.py (which names the other languages' files).
package dev.trireme.sdk;

import io.grpc.Status;
import io.prometheus.metrics.core.metrics.Counter;
import io.prometheus.metrics.core.metrics.Gauge;
import io.prometheus.metrics.core.metrics.Histogram;
import io.prometheus.metrics.model.registry.PrometheusRegistry;
import io.prometheus.metrics.model.snapshots.Labels;

/** Metrics of a plugin's calls, as Prometheus reads them. */
final class Metrics {
  /** A plugin's calls take from a fraction of a millisecond to its deadline; seconds. */
  private static final double[] BUCKETS =
      {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};

  private final PrometheusRegistry registry;
  private final Counter calls;
  private final Histogram durations;
  private final Gauge running;

  Metrics(String plugin, PrometheusRegistry registry) {
    this.registry = registry;
    Labels labels = Labels.of("plugin", plugin);
    calls = Counter.builder().name("trireme_plugin_calls_total").help("Calls that ended, by RPC and gRPC code.")
        .labelNames("rpc", "code").constLabels(labels).register(registry);
    durations = Histogram.builder().name("trireme_plugin_call_duration_seconds").help("Duration of calls, by RPC.")
        .labelNames("rpc").constLabels(labels).classicOnly().classicUpperBounds(BUCKETS).register(registry);
    running = Gauge.builder().name("trireme_plugin_calls_in_flight").help("Calls that have begun and not ended.")
        .constLabels(labels).register(registry);
  }

  PrometheusRegistry registry() {
    return registry;
  }

  void begin() {
    running.inc();
  }

  void end(String rpc, Status.Code code, long nanoseconds) {
    running.dec();
    calls.labelValues(rpc, code.name()).inc();
    durations.labelValues(rpc).observe(nanoseconds / 1e9);
  }
}
