"""Statistics of the calls to remote plugins, by the frontend and by every replica of a phase.

Also change: docs/operating-plugins.md.
Also change: protos/trireme/v1/plugin.proto (the service).
Also change: internal/trireme/remote/remote_health.py (how the text of what is not called begins).
"""

import asyncio
import collections
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import grpc
from grpc import aio

from trireme.frontend import monitored_plugin, plugin_monitor, queue_plugin_calls
from trireme.frontend.phase_clients import phase_links, replica_link
from trireme.remote import plugin_statistics, remote_breaker
from trireme.rpc import call_durations
from trireme.v1 import plugin_pb2, scheduler_status_pb2

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
TIMEOUT_SECONDS = 2.0
# How long a plugin is shown as failing after a failed call, unless a poll finds that later ones were answered.
FAILING_SECONDS = 60.0

_METHOD = "/trireme.v1.PluginService/GetPluginStatistics"
# From good to bad: of several processes' states the worst counts.
_BREAKERS = [state.value for state in remote_breaker.BEST_TO_WORST]


class PluginStatisticsPoller:
    """Polls all processes for the statistics of their calls to remote plugins, for /trireme/v1/status."""

    def __init__(
        self,
        monitor: plugin_monitor.PluginMonitor,
        links: phase_links.PhaseLinks,
        remote_queue: queue_plugin_calls.QueuePluginCaller,
        streams: Callable[[], Mapping[str, replica_link.LinkStatistics]],
    ) -> None:
        """`streams` returns the state of the snapshot streams to plugins, by plugin."""
        self._monitor = monitor
        self._links = links
        self._remote_queue = remote_queue
        self._streams = streams
        self._of_phases: Sequence[plugin_pb2.PluginStatistics] = ()
        self._failures = _LastFailures()

    async def run(self) -> None:
        """Poll the phases every few seconds until cancelled. Those that do not answer are left out."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if not self._monitor.statuses():
                self._of_phases = ()
                continue
            of_followers = [entry for each in self._links.followers().values() for entry in each.channels()]
            channels = [*of_followers, *self._links.binders.channels()]
            answers = await asyncio.gather(*(_request_statistics(channel) for _, channel in channels))
            self._of_phases = [entry for answer in answers for entry in answer]
            for (address, _), answer in zip(channels, answers, strict=True):
                self._failures.observe(address, answer)
            self._failures.observe("", self._own_statistics())

    def plugins(self) -> list[scheduler_status_pb2.PluginStatus]:
        """Each remote plugin as `trireme status` shows it."""
        own = self._own_statistics()
        # A reload begins its counters anew: what failed before it is over now, and not at the next poll.
        self._failures.observe("", own)
        found = [*self._of_phases, *own]
        streams = self._streams()
        return [
            _plugin_message(
                status,
                [entry for entry in found if entry.plugin == status.name],
                self._failures.last(status.name),
                streams.get(status.name),
            )
            for status in self._monitor.statuses()
        ]

    def _own_statistics(self) -> list[plugin_pb2.PluginStatistics]:
        """The statistics of the frontend's own calls to plugins, in the form in which phases send theirs."""
        own = self._remote_queue.statistics()
        return [plugin_statistics.to_message(name, entry) for name, entry in own.items()]


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """The last failed call of one process to one plugin."""

    at: float  # by time.monotonic; minus infinity: before this frontend came
    text: str
    answered: int  # calls of the process, when it was noticed
    is_over: bool = False  # calls of the process were answered since, and none has failed

    @property
    def age(self) -> float:
        """Seconds since then."""
        return time.monotonic() - self.at

    @property
    def is_recent(self) -> bool:
        """Whether the plugin counts as failing because of it."""
        return not self.is_over and self.age < FAILING_SECONDS


class _LastFailures:
    """The last failed call to each plugin, over all processes, from what they report."""

    def __init__(self) -> None:
        # By process, plugin, and number of the entry: one that serves two phases has one for each.
        self._counts: dict[tuple[str, str, int], int] = {}
        self._last: dict[tuple[str, str, int], _Failure] = {}

    def observe(self, process: str, statistics: Sequence[plugin_pb2.PluginStatistics]) -> None:
        """Compare a process's statistics with its last ones; it is known by its address.

        The first ones of a process may count failures of long ago. One whose counter is back at none has another
        configuration, or is another process: what failed before says nothing of it. One that reports others alone does
        not call the plugin there any more; one that reports nothing may just not have answered.
        """
        numbers = collections.Counter[str]()
        for entry in statistics:
            key = process, entry.plugin, numbers[entry.plugin]
            numbers[entry.plugin] += 1
            before = self._counts.get(key)
            self._counts[key] = entry.failed
            if not entry.failed:
                self._last.pop(key, None)
            elif entry.failed == before:
                # The same failure; whether its RPC is called may be different by now.
                last = self._last[key]
                is_over = last.is_over or entry.answered > last.answered
                self._last[key] = dataclasses.replace(last, text=entry.last_error, is_over=is_over)
            else:
                at = _failed_at(entry, is_new=before is not None)
                self._last[key] = _Failure(at, entry.last_error, entry.answered)
        if statistics:
            for key in [key for key in self._counts if key[0] == process and key[2] >= numbers[key[1]]]:
                del self._counts[key]
                self._last.pop(key, None)

    def last(self, plugin: str) -> _Failure | None:
        """The last failed call to the plugin; of processes where it fails now, if there are any."""
        found = [failure for (_, name, _), failure in self._last.items() if name == plugin]
        return max(found, key=lambda failure: (failure.is_recent, failure.at), default=None)


def _failed_at(entry: plugin_pb2.PluginStatistics, *, is_new: bool) -> float:
    """When a process's last call failed, by time.monotonic. A process of an older version does not say it.

    Then it was just now if the failure `is_new`, and else before this frontend came.
    """
    if entry.HasField("last_error_age_ms"):
        return time.monotonic() - entry.last_error_age_ms / 1000
    return time.monotonic() if is_new else -math.inf


def one_line(plugin: scheduler_status_pb2.PluginStatus) -> str:
    """A plugin on a line of /readyz?verbose."""
    p99 = f"{plugin.p99_s * 1000:.1f} ms" if plugin.HasField("p99_s") else "none yet"
    problem = f": {plugin.problem}" if plugin.problem else ""
    follows = f", follows at generation {plugin.follows.generation}" if plugin.HasField("follows") else ""
    budget = f", {plugin.bypassed_calls} not made: over its budget" if plugin.bypassed_calls else ""
    canary = f", canary for {plugin.canary.percent}% of the pods" if plugin.HasField("canary") else ""
    compared = plugin.shadow
    mode = f", in shadow: {compared.differed} of {compared.compared} would differ" if plugin.HasField("shadow") else ""
    return (
        f"plugin {plugin.name} {plugin.health}{problem}: {plugin.address}, version {plugin.version or 'unknown'}, "
        f"breaker {plugin.breaker}, failure policy {plugin.failure_policy}, {plugin.calls} calls, "
        f"{plugin.failed_calls} failed, p99 {p99}{follows}{budget}{canary}{mode}"
    )


async def _request_statistics(channel: aio.Channel) -> Sequence[plugin_pb2.PluginStatistics]:
    """Get one process's statistics of its calls to plugins; none if it is not connected or does not answer."""
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


def _plugin_message(
    status: monitored_plugin.PluginStatus,
    found: Sequence[plugin_pb2.PluginStatistics],
    failure: _Failure | None,
    stream: replica_link.LinkStatistics | None,
) -> scheduler_status_pb2.PluginStatus:
    """A plugin as the status shows it: calls and durations of all processes together, and its health.

    The breaker shown is the worst of all processes. The problem is what explains the health: the last failure of all
    processes, or what is not called since, the error of the snapshot stream, or that of the handshake.
    """
    durations = call_durations.CallDurations()
    for entry in found:
        durations.add(entry.durations)
    # A phase of another version may report states that we do not know.
    known = [entry for entry in found if entry.breaker in _BREAKERS]
    breaker = max((entry.breaker for entry in known), key=_BREAKERS.index, default=_BREAKERS[0])
    last_error = _not_called(found) or (failure.text if failure is not None else "")
    failing = breaker != _BREAKERS[0] or (failure is not None and failure.is_recent)
    health = _health_text(status, failing, stream is not None and not stream.in_step)
    problems = {"failing": last_error, "not following": _stream_problem(stream)}
    if failure is not None and failure.is_over and failure.age < FAILING_SECONDS:
        problems["ok"] = f"answers again; the last error, {failure.age:.0f} s ago: {failure.text}"
    failed = sum(entry.failed for entry in found)
    if health == "ok" and any(entry.over_budget for entry in found):
        health = "over budget"
        problems[health] = "its calls take longer than budgetPerSecond allows: pods go without it for a while"
    out = scheduler_status_pb2.PluginStatus(
        name=status.name,
        address=status.address,
        version=status.version,
        health=health,
        problem=problems.get(health, status.problem),
        failure_policy=status.failure_policy,
        hedged_calls=sum(entry.hedged for entry in found),
        bypassed_calls=sum(entry.bypassed for entry in found),
        over_budget=any(entry.over_budget for entry in found),
        shadow=_comparison(found) if status.compared_only else None,
        breaker=breaker,
        calls=failed + sum(entry.answered for entry in found),
        failed_calls=failed,
        p99_s=durations.quantile(0.99),
        last_error=last_error,
    )
    if stream is not None:
        out.follows.in_step, out.follows.generation = stream.in_step, stream.acknowledged
    if status.canary_of:
        out.canary.of, out.canary.percent = status.canary_of, status.canary_percent
    return out


def _not_called(found: Sequence[plugin_pb2.PluginStatistics]) -> str:
    """What is not called in any of the processes because its breaker is not closed, each with its last failure.

    Replicas that do not call the same RPCs are one: the text begins with these.
    """
    not_called: dict[str, str] = {}
    for entry in found:
        if entry.breaker in _BREAKERS[1:] and entry.last_error:
            not_called.setdefault(entry.last_error.partition(":")[0], entry.last_error)
    return "; ".join(not_called.values())


def _comparison(found: Sequence[plugin_pb2.PluginStatistics]) -> scheduler_status_pb2.PluginComparison:
    """What the answers of a plugin in shadow mode would change, in all processes together."""
    return scheduler_status_pb2.PluginComparison(
        compared=sum(entry.shadow_compared for entry in found),
        differed=sum(entry.shadow_differed for entry in found),
        failed=sum(entry.shadow_failed for entry in found),
        skipped=sum(entry.shadow_skipped for entry in found),
        refused_nodes=sum(entry.shadow_refused_nodes for entry in found),
    )


def _stream_problem(stream: replica_link.LinkStatistics | None) -> str:
    """Why the plugin does not follow the cluster, as text."""
    reason = stream.last_error if stream is not None else ""
    return f"does not follow the cluster: {reason or 'it has not acknowledged what it was sent'}"


def _health_text(status: monitored_plugin.PluginStatus, failing: bool, not_following: bool) -> str:
    """`ok`, or the reason why not: the worst one."""
    if not status.reachable:
        return "unreachable"
    if status.changing:
        return "changing"
    if not status.takes_part or status.problem:
        return "rejected"
    if not_following:
        return "not following"
    return "failing" if failing else "ok"
