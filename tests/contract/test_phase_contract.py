"""The phases answer as plugins do, after the stream has brought them a cluster."""

import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import aio

from tests.contract.contract_services import CYCLE, DEADLINE, Served, check_columns, connected, get
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    filter_phase_pb2_grpc,
    plugin_pb2,
    plugin_pb2_grpc,
    score_phase_pb2,
    score_phase_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
)

pytestmark = pytest.mark.processes


@asynccontextmanager
async def synced(
    phase: Served, epoch: int, filters: Sequence[str] = ("NodeUnschedulable",), pod: core_pb2.Pod = CYCLE.pod
) -> AsyncIterator[tuple[aio.Channel, cycle_pb2.Cycle]]:
    """A channel to the phase, which has three nodes, these filters and one class of pods; and a cycle about it."""
    configuration = snapshot_pb2.Configuration(
        profiles=[
            snapshot_pb2.Profile(
                scheduler_name="default-scheduler",
                plugin_sets=[
                    snapshot_pb2.PluginSet(
                        extension_point=point,
                        plugins=[snapshot_pb2.WeightedPlugin(name=name, weight=1) for name in names],
                    )
                    for point, names in (
                        (plugin_pb2.EXTENSION_POINT_FILTER, filters),
                        (plugin_pb2.EXTENSION_POINT_SCORE, ("TaintToleration",)),
                    )
                ],
            )
        ]
    )
    fence = cycle_pb2.Fence(epoch=epoch)
    # A phase that other tests have called takes a configuration whose hash is a new one.
    config_hash = zlib.crc32(",".join(filters).encode())
    nodes = [
        snapshot_pb2.NodeEntry(
            slot=slot, node=core_pb2.Node(metadata={"name": f"n{slot}"}, spec={"unschedulable": slot == 1})
        )
        for slot in range(3)
    ]
    pod_class = snapshot_pb2.PodClass(id=1, pod=pod)
    messages = [
        snapshot_pb2.SyncRequest(
            hello=snapshot_pb2.Hello(fence=fence, config_hash=config_hash, configuration=configuration)
        ),
        snapshot_pb2.SyncRequest(
            delta=snapshot_pb2.Delta(reset=True, to_generation=3, nodes=nodes, classes=[pod_class])
        ),
    ]
    async with connected(phase) as channel:
        stub: Any = snapshot_pb2_grpc.SnapshotFollowerStub(channel)
        stream = stub.Sync(timeout=DEADLINE)
        for message in messages:
            await stream.write(message)
        assert (await stream.read()).applied_generation == 3
        cycle = cycle_pb2.Cycle(
            fence=fence, generation=3, config_hash=config_hash, profile="default-scheduler", pod_class=1
        )
        yield channel, cycle
        stream.cancel()


async def test_the_filter_phase_answers_by_slot(
    running: dict[str, Served], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """If this fails, a phase in another language, written from the contract, is not understood; or ours is not."""
    async with synced(get("filter", running, tmp_path_factory), 1) as (channel, cycle):
        stub: Any = filter_phase_pb2_grpc.FilterPhaseStub(channel)
        response = await stub.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=2), timeout=DEADLINE)
        info_stub: Any = plugin_pb2_grpc.PluginServiceStub(channel)
        info = await info_stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=DEADLINE)
    assert check_columns(response.columns, 3, "NodeUnschedulable").index.tolist() == [0, 1, 0]
    assert response.columns.statuses[0].plugin == "NodeUnschedulable"
    assert [entry.name for entry in info.plugins] == ["NodeUnschedulable"]


async def test_the_filter_phase_counts_the_nodes_that_each_plugin_left(
    running: dict[str, Served], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A name that no node has does not count."""
    names = core_pb2.NodeSelectorRequirement(key="metadata.name", operator="In", values=["n0"])
    pod = core_pb2.Pod(spec={"node_name": "gone"})
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    required.node_selector_terms.add(match_fields=[names])
    phase = get("filter", running, tmp_path_factory)
    async with synced(phase, 1, ("NodeName", "NodeAffinity"), pod) as (channel, cycle):
        stub: Any = filter_phase_pb2_grpc.FilterPhaseStub(channel)
        response = await stub.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), timeout=DEADLINE)
    assert dict(response.nodes_left) == {"NodeAffinity": 1, "NodeName": 0}
    assert set(response.nodes_left) == set(response.narrowed_by)


@pytest.mark.timeout(600)  # the first test of an example builds it
@pytest.mark.parametrize("name", ["score", "score-phase-go"])
async def test_the_score_phase_places_by_slot(
    name: str, running: dict[str, Served], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """If this fails, as for filter."""
    async with synced(get(name, running, tmp_path_factory), 1) as (channel, cycle):
        stub: Any = score_phase_pb2_grpc.ScorePhaseStub(channel)
        capacities = filter_pb2.NodeColumns(generation=3, size=3, status_index=[0, 0, 0], capacity=[0, 1, 1])
        request = score_phase_pb2.PlaceRequest(cycle=cycle, count=3, capacities=capacities)
        response = await stub.Place(request, timeout=DEADLINE)
    assert sorted(response.slots) == [1, 2]
    assert not response.HasField("status")
