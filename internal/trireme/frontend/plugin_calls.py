"""Statistics of the calls to remote plugins, by the frontend and by every replica of a phase."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import grpc
from grpc import aio

from trireme.frontend import plugin_monitor, remote_plugins
from trireme.frontend.phase_clients import phase_links
from trireme.remote import plugin_statistics, remote_breaker
from trireme.rpc import call_durations
from trireme.v1 import plugin_pb2

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
TIMEOUT_SECONDS = 2.0

Json = dict[str, Any]

_METHOD = "/trireme.v1.PluginService/GetPluginStatistics"
# From good to bad: of several processes' states the worst counts.
_BREAKERS = [
    state.value for state in (remote_breaker.State.CLOSED, remote_breaker.State.HALF_OPEN, remote_breaker.State.OPEN)
]


class PluginCalls:
    """Collects the phases' statistics and adds them up."""

    def __init__(
        self,
        monitor: plugin_monitor.PluginMonitor,
        links: phase_links.PhaseLinks,
        remote_queue: remote_plugins.RemoteQueue,
    ) -> None:
        self._monitor = monitor
        self._links = links
        self._remote_queue = remote_queue
        self._of_phases: Sequence[plugin_pb2.PluginStatistics] = ()

    async def run(self) -> None:
        """Poll the phases every few seconds until cancelled. Those that do not answer are left out."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            of_followers = [entry for each in self._links.followers().values() for entry in each.channels()]
            channels = [channel for _, channel in (*of_followers, *self._links.binders.channels())]
            answers = await asyncio.gather(*(_ask(channel) for channel in channels))
            self._of_phases = [entry for answer in answers for entry in answer]

    def rows(self) -> list[Json]:
        """Each remote plugin as `trireme status` shows it."""
        own = self._remote_queue.statistics()
        found = [*self._of_phases, *(plugin_statistics.to_message(name, entry) for name, entry in own.items())]
        return [
            _row(status, [entry for entry in found if entry.plugin == status.name])
            for status in self._monitor.statuses()
        ]


def one_line(row: Json) -> str:
    """A plugin on a line of /readyz?verbose."""
    p99 = "none yet" if row["p99Seconds"] is None else f"{row['p99Seconds'] * 1000:.1f} ms"
    problem = f": {row['problem']}" if row["problem"] else ""
    return (
        f"plugin {row['name']} {row['health']}{problem}: {row['address']}, version {row['version'] or 'unknown'}, "
        f"breaker {row['breaker']}, failure policy {row['failurePolicy']}, {row['calls']} calls, "
        f"{row['failedCalls']} failed, p99 {p99}"
    )


async def _ask(channel: aio.Channel) -> Sequence[plugin_pb2.PluginStatistics]:
    # Does not wait for a phase that is not connected, and does not connect to it.
    if channel.get_state() is not grpc.ChannelConnectivity.READY:
        return ()
    call: Any = channel.unary_unary(
        _METHOD,
        request_serializer=plugin_pb2.GetPluginStatisticsRequest.SerializeToString,
        response_deserializer=plugin_pb2.GetPluginStatisticsResponse.FromString,
    )
    try:
        response = await call(plugin_pb2.GetPluginStatisticsRequest(), timeout=TIMEOUT_SECONDS)
    except aio.AioRpcError as error:
        log.debug("a phase does not report its calls to plugins: %s", error.details())
        return ()
    statistics: Sequence[plugin_pb2.PluginStatistics] = response.plugins
    return statistics


def _row(status: plugin_monitor.PluginStatus, found: Sequence[plugin_pb2.PluginStatistics]) -> Json:
    durations = call_durations.CallDurations()
    for entry in found:
        durations.add(entry.durations)
    # A phase of another version may report states that we do not know.
    breakers = [entry.breaker for entry in found if entry.breaker in _BREAKERS]
    failed = sum(entry.failed for entry in found)
    return {
        "name": status.name,
        "address": status.address,
        "version": status.version,
        "health": _health(status),
        "problem": status.problem,
        "failurePolicy": status.failure_policy,
        "breaker": max(breakers, key=_BREAKERS.index, default=_BREAKERS[0]),
        "calls": failed + sum(entry.answered for entry in found),
        "failedCalls": failed,
        "p99Seconds": durations.quantile(0.99),
        "lastError": next((entry.last_error for entry in found if entry.last_error), ""),
    }


def _health(status: plugin_monitor.PluginStatus) -> str:
    if not status.reachable:
        return "unreachable"
    if status.changing:
        return "changing"
    return "ok" if status.takes_part and not status.problem else "rejected"
