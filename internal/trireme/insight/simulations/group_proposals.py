"""Checks proposals for a member of a group: with the change, the scheduler's own cycle places the group.

That nodes take one member says little: the others need room, too, and a group is scheduled as a whole.

Tests: tests/unit/simulation/test_group_proposals.py.
"""

import asyncio
from collections.abc import Sequence

from trireme.cache import class_registry
from trireme.scheduling import ports
from trireme.simulation import known_classes, node_copies, simulation
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, insight_pb2, snapshot_pb2

# A check that takes longer fails: a search ends soon, and callers wait for its turn. Units: seconds.
SECONDS = 5.0

_NOT_SIMULATED = (
    TimeoutError,
    simulation.SimulationLimitError,
    known_classes.UnknownLabelKeyError,
    class_registry.InvalidPod,
    ports.PhaseFault,
    ports.PhaseUnavailable,
)


class GroupCheck:
    """Whether a proposal lets the group of a pod be scheduled: `search.Works`."""

    def __init__(
        self,
        setup: simulation.Setup,
        known: known_classes.KnownClasses,
        queued: snapshot_pb2.QueuedPod,
        members: Sequence[snapshot_pb2.QueuedPod],
        *,
        seconds: float = SECONDS,
    ) -> None:
        """`known` are the classes of the cluster; `members` wait, `queued` among them."""
        self._setup = setup
        self._known = known
        self._queued = queued
        self._members = members
        self._seconds = seconds

    async def __call__(
        self, snap: snapshot.Snapshot, proposal: insight_pb2.Proposal, changed: core_pb2.Pod | None
    ) -> bool:
        """Whether the pod has a node when its group was scheduled with the change, alone and without evictions.

        `snap` is the cluster, which stays as it is.

        Members of the pod's class change as it does: they are of one template. Raises: OutOfStepError.
        """
        sim = simulation.Simulation(snap, self._setup, self._known)
        try:
            async with asyncio.timeout(self._seconds):
                _change_cluster(sim, proposal)
                await sim.add_queued_pods(self._members, {} if changed is None else {self._queued.pod_class: changed})
                await sim.run()
            return bool(sim.node_of(self._queued.pod.uid)) and not sim.writes.evicted
        except _NOT_SIMULATED:
            # Then it is not known to work.
            return False
        finally:
            await sim.close()


def _change_cluster(sim: simulation.Simulation, proposal: insight_pb2.Proposal) -> None:
    """Make the change of the cluster, if the proposal is one."""
    kind = proposal.WhichOneof("change")
    if kind == "add_node":
        slot = sim.snap.nodes.slot_of_name[proposal.add_node.like_node]
        sim.set_node(node_copies.node_like(sim.snap, slot, f"{proposal.add_node.like_node}-"))
    elif kind == "label_node":
        slot = sim.snap.nodes.slot_of_name[proposal.label_node.node_name]
        sim.set_node(node_copies.node_with_labels(sim.snap, slot, proposal.label_node.labels))
    elif kind == "delete_pods":
        for pod in proposal.delete_pods.pods:
            sim.remove_pod(pod.uid, replace=False)
