"""Statistics of one process's calls to remote plugins, as a message.

Tests: tests/unit/remote/test_plugin_statistics.py, tests/contract/test_plugin_client.py.
"""

from collections.abc import Mapping

from trireme.remote import comparison_counts, remote_connection
from trireme.v1 import plugin_pb2


def to_response(
    connections: Mapping[str, remote_connection.ConnectionStatistics],
) -> plugin_pb2.GetPluginStatisticsResponse:
    """The response to GetPluginStatistics."""
    return plugin_pb2.GetPluginStatisticsResponse(
        plugins=[to_message(name, statistics) for name, statistics in connections.items()]
    )


def to_message(plugin: str, statistics: remote_connection.ConnectionStatistics) -> plugin_pb2.PluginStatistics:
    """The statistics of one plugin's connection."""
    age = statistics.last_error_age
    comparisons = statistics.comparisons or comparison_counts.ComparisonCounts()
    return plugin_pb2.PluginStatistics(
        plugin=plugin,
        answered=statistics.answered,
        failed=statistics.failed + statistics.not_called,
        breaker=statistics.breaker.value,
        last_error=statistics.last_error,
        durations=statistics.durations,
        shadow_compared=comparisons.compared,
        shadow_differed=comparisons.differed,
        shadow_failed=comparisons.failed,
        shadow_skipped=comparisons.skipped,
        shadow_refused_nodes=comparisons.refused_nodes,
        hedged=statistics.hedged,
        bypassed=statistics.bypassed,
        over_budget=statistics.over_budget,
        last_error_age_ms=None if age is None else round(max(0.0, age) * 1000),
    )
