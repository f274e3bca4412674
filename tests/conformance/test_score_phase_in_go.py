"""The example of a score phase in Go scores as kube-scheduler, and places as the phase that it replaces.

It has some of the plugins, so golden decisions are asked of a profile with these alone, by the nodes that passed
kube-scheduler's filters.
"""

import asyncio
import random
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import numpy as np
import pytest

from tests.conformance import decision_phases, decision_profiles, golden_rows
from tests.conformance.decision_cluster import DecisionCluster
from tests.conformance.golden_rows import Row
from tests.contract import contract_services
from trireme.evaluation import score_engine
from trireme.framework import amounts
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.registry import score_profiles
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, score_phase_pb2, score_phase_pb2_grpc, snapshot_pb2
from trireme.wire import node_columns

HOSTED = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "TaintToleration")
PROFILE = "default-scheduler"
GATED = [row for row in golden_rows.read(golden_rows.GATES) if "scores" in row["expect"]]
ROWS = [row for row in golden_rows.read(golden_rows.DECISIONS) if "scores" in row["expect"]]
IN_FULL = frozenset({"resources", "mostallocated", "taints"})
COPIES = 12


class Phase:
    """The process in Go, and beside it the engine of the phase that it replaces; both get the same."""

    def __init__(self, served: contract_services.Served) -> None:
        self.channel = grpc.insecure_channel(served.address)
        self.stub = score_phase_pb2_grpc.ScorePhaseStub(self.channel)
        self.epoch = 0
        self.stream: decision_phases.SnapshotStream | None = None

    def greet(self, configuration: snapshot_pb2.Configuration, deltas: Sequence[snapshot_pb2.Delta]) -> None:
        """A new leader has this configuration, and all of the cluster."""
        self.leave()
        self.epoch += 1
        self.config_hash = decision_phases.hash_of(configuration)
        snap = snapshot.Snapshot()
        snap.amount_rules = amounts.rules_of(configuration.feature_gates)
        for delta in deltas:
            snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))
        profiles = score_profiles.make_profiles(configuration)
        self.engine, self.generation = score_engine.ScoreEngine(snap, profiles), snap.generation
        self.stream = decision_phases.SnapshotStream(self.channel)
        hello = snapshot_pb2.Hello(
            fence=cycle_pb2.Fence(epoch=self.epoch), config_hash=self.config_hash, configuration=configuration
        )
        self.stream.send(snapshot_pb2.SyncRequest(hello=hello))
        for delta in deltas:
            self.stream.send(snapshot_pb2.SyncRequest(delta=delta))
        self.stream.wait_for(self.generation)

    def leave(self) -> None:
        if self.stream is not None:
            self.stream.close()

    def place(
        self, class_id: int, count: int, columns: node_columns.NodeColumns, extra: Sequence[int] = (), seed: int = 0
    ) -> tuple[list[int], list[int]]:
        """The slots and totals, the same of both; fails where they differ."""
        cycle = cycle_pb2.Cycle(
            fence=cycle_pb2.Fence(epoch=self.epoch),
            generation=self.generation,
            config_hash=self.config_hash,
            profile=PROFILE,
            pod_class=class_id,
        )
        request = score_phase_pb2.PlaceRequest(
            cycle=cycle, count=count, capacities=node_columns.to_message(columns), extra_scores=extra, seed=seed
        )
        answer = self.stub.Place(request, timeout=20)
        ours = asyncio.run(self.engine.place(cycle, count, columns, (), extra, seed))
        assert (list(answer.slots), list(answer.totals)) == (list(ours.slots), list(ours.totals))
        assert (set(answer.evaluated_plugins), answer.more) == (set(ours.evaluated), ours.more)
        return list(answer.slots), list(answer.totals)


@pytest.fixture(scope="module")
def phase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phase]:
    """The process in Go."""
    served = contract_services.start("score-phase-go", tmp_path_factory.mktemp("go"))
    made = Phase(served)
    yield made
    made.leave()
    made.channel.close()
    served.process.terminate()
    assert served.process.wait(20) == 0
    served.process.communicate()


def _configuration(case: Any, percentage: int = 0) -> snapshot_pb2.Configuration:
    """A profile of the plugins in Go, with the case's arguments and gates."""
    gates = decision_profiles.feature_gates(decision_profiles.gates_of(case))
    completed = decision_profiles.completed_profile(decision_profiles.arguments_of(case), gates)
    profile = snapshot_pb2.Profile(scheduler_name=PROFILE, percentage_of_nodes_to_score=percentage)
    scores = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE).plugins
    for plugin in completed.plugins[ExtensionPoint.SCORE]:
        if plugin.name in HOSTED:
            scores.add(name=plugin.name, weight=plugin.weight)
            profile.plugin_args.add(name=plugin.name, args_json=completed.args_json(plugin.name))
    return snapshot_pb2.Configuration(profiles=[profile], feature_gates=gates.all())


def _columns(capacities: dict[int, int], generation: int, base: int = 0, size: int = 0) -> node_columns.NodeColumns:
    """Filter's answer: so many copies at these slots, and none elsewhere; a patch of these slots with `base`."""
    size = size or max(capacities) + 1
    slots = np.array(sorted(capacities), dtype=np.intp) if base else None
    numbers = range(size) if slots is None else slots.tolist()
    room = np.array([capacities.get(number, 0) for number in numbers], dtype=np.int32)
    return node_columns.NodeColumns(generation, base, size, slots, (), np.zeros(room.size, dtype=np.int16), room)


def _decide(phase: Phase, row: Row) -> None:
    """The pod goes to one of kube-scheduler's best nodes, and copies where our own phase has them go."""
    case, expect = row["case"], row["expect"]
    cluster = DecisionCluster(case)
    cluster.fill()
    class_id = cluster.class_of(case["pod"])
    phase.greet(_configuration(case), list(cluster.cache.full_sync()))
    slots = {name: cluster.cache.slot_of(name) for name in expect["feasible"]}
    totals = {
        name: sum(score for plugin, score in scores.items() if plugin in HOSTED)
        for name, scores in expect["scores"].items()
    }
    (slot,), (total,) = phase.place(class_id, 1, _columns(dict.fromkeys(slots.values(), 1), 5))
    best = max(totals.values())
    assert slot in [slots[name] for name, each in totals.items() if each == best], row["name"]
    assert total == (best if len(totals) > 1 else 0), row["name"]
    draw = random.Random(zlib.crc32(row["name"].encode()))
    room = {slot: draw.randint(0, 4) for slot in slots.values()}
    phase.place(class_id, COPIES, _columns(room, 6))
    size = max(slots.values()) + 1
    patch = {draw.choice(list(slots.values())): draw.randint(0, 9)}
    extra = [draw.randint(0, 300) for _ in range(size)]
    phase.place(class_id, COPIES, _columns(patch, 7, base=6, size=size), extra)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("category", dict.fromkeys(golden_rows.category_of(row) for row in ROWS))
def test_golden_decisions_by_the_plugins_that_it_has(phase: Phase, category: str) -> None:
    """If this fails, a phase in another language places pods elsewhere than the one that it replaces."""
    rows = [row for row in ROWS if golden_rows.category_of(row) == category]
    for row in rows if category in IN_FULL else rows[::4]:
        _decide(phase, row)


@pytest.mark.timeout(600)
def test_golden_decisions_with_other_feature_gates(phase: Phase) -> None:
    """If this fails, resizes or pod-level requests count otherwise there."""
    decided = 0
    for row in GATED[::4]:
        if not (row["case"].get("featureGates") or {}).get("TopologyAwareWorkloadScheduling"):
            _decide(phase, row)
            decided += 1
    assert decided > 20


def test_a_share_of_the_nodes_is_scored(phase: Phase) -> None:
    """If this fails, percentageOfNodesToScore has no effect, or depends on something else than the seed."""
    row = next(row for row in ROWS if golden_rows.category_of(row) == "resources")
    nodes = [
        {**node, "metadata": {**node["metadata"], "name": f"{node['metadata']['name']}-{copy}"}}
        for copy in range(30)
        for node in row["case"]["nodes"]
    ]
    case = {**row["case"], "nodes": nodes, "pods": []}
    cluster = DecisionCluster(case)
    cluster.fill()
    class_id = cluster.class_of(case["pod"])
    phase.greet(_configuration(case, percentage=10), list(cluster.cache.full_sync()))
    everywhere = _columns({cluster.cache.slot_of(node["metadata"]["name"]): 1 for node in nodes}, 5)
    chosen = {phase.place(class_id, 1, everywhere, seed=seed)[0][0] for seed in range(1, 20)}
    assert len(chosen) > 3
