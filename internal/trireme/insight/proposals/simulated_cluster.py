"""A copy of the cluster, on which filter answers for a pod as it is and for changed ones.

A proposal is made only if this says that it works: the copy is a fork of the snapshot, and the engine and its plugins
are those that explain the pod.

Also change: docs/explain.md (how many nodes a proposal names).

Tests: tests/unit/insight/test_volume_proposals.py.
"""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np

from trireme.evaluation import filter_engine
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2, snapshot_pb2
from trireme.wire import phase_answers

_NO_ROWS = np.zeros(0, dtype=np.intp)
_NO_PODS = np.zeros(0, dtype=np.int32)

# How many feasible nodes a proposal names.
_EXAMPLES = 3


class SimulatedCluster:
    """A fork of a snapshot without the pods of some rows; deltas of the snapshot do not change it.

    Its generation is the snapshot's, for remote plugins are called with it.
    """

    def __init__(
        self,
        snap: snapshot.Snapshot,
        profiles: filter_engine.FilterProfiles,
        cycle: cycle_pb2.Cycle,
        removed: arrays.RowArray = _NO_ROWS,
    ) -> None:
        """`cycle` names the pod that is filtered, its profile and its class. Shape: removed (n,)."""
        self.snap = snap.fork(removed, _NO_PODS, _NO_PODS)
        self.profiles = profiles
        self.cycle = cycle
        self.engine = filter_engine.FilterEngine(self.snap, profiles)

    def fork(self, removed: arrays.RowArray = _NO_ROWS) -> "SimulatedCluster":
        """The same cluster without the pods of these rows, to be changed by itself. Shape: removed (n,)."""
        return SimulatedCluster(self.snap, self.profiles, self.cycle, removed)

    def add_classes(self, pods: Sequence[core_pb2.Pod]) -> list[int]:
        """Add a class for each of the pods, which are changed copies of the pod's class; return their numbers.

        To be called before anything is filtered: what is derived from classes is not refreshed at one generation.
        """
        projected = self.snap.classes[self.cycle.pod_class].labels_projected
        numbers = [self.snap.highest_class + 1 + number for number in range(len(pods))]
        added = [
            snapshot_pb2.PodClass(id=number, pod=pod, labels_projected=projected)
            for number, pod in zip(numbers, pods, strict=True)
        ]
        generation = self.snap.generation
        self.snap.apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation, classes=added))
        return numbers

    def set_node(self, slot: int, node: core_pb2.Node) -> None:
        """Put the node at the slot, in the cluster's next generation."""
        generation = self.snap.generation
        entry = snapshot_pb2.NodeEntry(slot=slot, node=node)
        self.snap.apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, nodes=[entry]))

    def cycle_of_class(self, pod_class: int) -> cycle_pb2.Cycle:
        """The cycle of the pod, as if it were of this class."""
        out = cycle_pb2.Cycle()
        out.CopyFrom(self.cycle)
        out.pod_class, out.generation = pod_class, self.snap.generation
        return out

    async def filter(self, pod_class: int) -> phase_answers.FilterAnswer:
        """What filter answers for the pod, as if it were of this class. Other calls are answered first."""
        await asyncio.sleep(0)
        return await self.engine.filter(self.cycle_of_class(pod_class))

    async def feasible_slots(self, pod_class: int) -> arrays.SlotArray:
        """The slots that are feasible for the pod, as if it were of this class. Shape: (n,), ascending."""
        return slots_of_answer(await self.filter(pod_class), self.snap)

    async def slots_refused_by_plugin(self) -> Mapping[str, arrays.BoolArray]:
        """By plugin, which slots it refuses to the pod as it is; empty where PreFilter refuses it. Shapes: (slot,)."""
        verdicts = await self.engine.evaluate(self.cycle_of_class(self.cycle.pod_class))
        if verdicts.refusal is not None:
            return {}
        slots = arrays.first_slots(self.snap.nodes.size)
        return {
            name: column.read(slots, verdicts.table)[0] != interfaces.PASSES
            for name, column in verdicts.plugins.items()
            if column.has_verdicts(slots.shape[0])
        }

    def with_nodes(self, proposal: insight_pb2.Proposal, slots: arrays.SlotArray) -> insight_pb2.Proposal:
        """The proposal with the number of feasible nodes, and the names of the first ones that have one."""
        names = [self.snap.nodes.names[slot] for slot in slots[: _EXAMPLES + 1].tolist()]
        proposal.feasible_count = slots.size
        proposal.example_nodes.extend([name for name in names if name != ADDED_NODE][:_EXAMPLES])
        return proposal


# The name of a node that is simulated. No node of a cluster has it: the API server refuses a name that ends in a dash.
ADDED_NODE = "added-"


def slots_of_answer(answer: phase_answers.FilterAnswer, snap: snapshot.Snapshot) -> arrays.SlotArray:
    """The feasible slots of an answer about all nodes. Shape: (n,), ascending."""
    columns = answer.columns
    alive = snap.nodes.alive[: columns.size]
    return np.flatnonzero((columns.index == interfaces.PASSES) & (columns.capacity > 0) & alive)
