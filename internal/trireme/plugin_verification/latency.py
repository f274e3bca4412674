"""How long a plugin takes, by the number of nodes and of concurrent calls, and the settings that follow from it.

`reports.py` writes the figures, `cli/plugin_command.py` shows them, docs/plugin-verification.md explains them.

Tests: tests/contract/test_plugin_examples_verified.py.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from trireme.plugin_verification import node_answer_specifications, outcomes, rpcs, sample_cluster, sample_requests
from trireme.plugin_verification.session import Session
from trireme.remote import remote_request
from trireme.v1 import filter_pb2, plugin_pb2

_CONCURRENT = (1, 4)
# A deadline has room for a busy machine, and ends calls of a plugin that hangs.
_DEADLINE_FACTOR = 5
_LEAST_DEADLINE_MS = 100


@dataclass(frozen=True, slots=True)
class Measurement:
    """Calls of one RPC about so many nodes, so many at a time. Seconds of a call; calls in a second."""

    rpc: str
    nodes: int
    concurrent: int
    median: float
    p99: float
    calls_per_second: float


@dataclass(frozen=True, slots=True)
class LatencyProfile:
    """The measurements, and `deadline` (milliseconds) and `max_concurrent_calls` to configure."""

    measurements: tuple[Measurement, ...]
    deadline_ms: int
    max_concurrent_calls: int


async def measure(session: Session, calls: int) -> LatencyProfile | None:
    """Measure Filter and Score with so many calls for each case. None: the plugin serves neither, or it fails."""
    served = [rpc for rpc in (rpcs.FILTER, rpcs.SCORE) if session.declares(*rpc.points)]
    if not served or not calls:
        return None
    try:
        measurements = [
            await _measure(session, rpc, nodes, concurrent, calls)
            for rpc in served
            for nodes in (len(session.all_nodes), remote_request.NODES_PER_CALL)
            for concurrent in _CONCURRENT
            if nodes == len(session.all_nodes) or session.followed is None
        ]
    except (outcomes.NotApplicable, outcomes.NotChecked):
        return None
    return LatencyProfile(tuple(measurements), _deadline_ms(measurements), _concurrency(measurements))


async def _measure(session: Session, rpc: rpcs.Rpc, nodes: int, concurrent: int, calls: int) -> Measurement:
    """Make the calls. Raises: NotApplicable, NotChecked: a call fails."""
    cycle = await sample_requests.cycle_for(session, rpc)
    request = node_answer_specifications.node_request(rpc, cycle, _selection(session, nodes))
    durations: list[float] = []

    async def call_repeatedly() -> None:
        for _ in range(max(calls // concurrent, 1)):
            done = await session.answer(rpc, request)
            durations.append(done.seconds)

    started = time.monotonic()
    await asyncio.gather(*(call_repeatedly() for _ in range(concurrent)))
    elapsed = time.monotonic() - started
    durations.sort()
    p99 = durations[min(int(len(durations) * 0.99), len(durations) - 1)]
    return Measurement(rpc.name, nodes, concurrent, durations[len(durations) // 2], p99, len(durations) / elapsed)


def _selection(session: Session, nodes: int) -> filter_pb2.NodeSelection:
    """So many nodes in the form that the plugin declares."""
    if session.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT or nodes == len(session.all_nodes):
        return session.selection(session.all_nodes)
    return filter_pb2.NodeSelection(nodes=[session.view(each) for each in sample_cluster.many_nodes(nodes)])


def _deadline_ms(measurements: Sequence[Measurement]) -> int:
    """Several times the slowest 99th percentile, rounded up to 50 ms."""
    slowest = max(each.p99 for each in measurements) * 1000
    return max(-(-int(slowest * _DEADLINE_FACTOR) // 50) * 50, _LEAST_DEADLINE_MS)


def _concurrency(measurements: Sequence[Measurement]) -> int:
    """4 if calls of each RPC at once raise its throughput by half at least; else 1: it answers one after the other."""
    few = min(each.nodes for each in measurements)
    speeds = {(each.rpc, each.concurrent): each.calls_per_second for each in measurements if each.nodes == few}
    one, many = _CONCURRENT
    return many if all(speeds[rpc, many] > 1.5 * speeds[rpc, one] for rpc, _ in speeds) else one
