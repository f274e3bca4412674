"""Draining nodes: cordon, then evict as far as disruption budgets allow, in turns with scheduling.

Tests: tests/unit/simulation/test_budgets.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trireme.simulation import pacing, simulation, usage, writes
from trireme.v1 import core_pb2, cycle_pb2


@dataclass(frozen=True, slots=True)
class Blocked:
    """A pod that cannot leave its node, and the budgets (namespace/name) that allow no eviction."""

    pod: cycle_pb2.PodIdentity
    node_name: str
    budgets: Sequence[str]


async def drain(sim: simulation.Simulation, node_names: Sequence[str]) -> list[Blocked]:
    """Drain the nodes, scheduling meanwhile; returns the pods that could not leave. Raises: as Simulation.run."""
    async for name in pacing.paced(node_names):
        cordon(sim, name)
    sim.publish()
    waiting = [
        uid async for name in pacing.paced(node_names) for uid in sim.uids_on(name) if may_leave(sim.class_pod(uid))
    ]
    while waiting:
        left = [uid async for uid in pacing.paced(waiting) if not _evict_if_allowed(sim, uid)]
        if len(left) == len(waiting):
            break
        # Pods in the place of those that left may free the budgets for others.
        await sim.run()
        waiting = [uid for uid in left if sim.cache.pod(uid) is not None]
    return [_blocked(sim, uid) for uid in waiting]


def cordon(sim: simulation.Simulation, node_name: str) -> None:
    """Mark the node as unschedulable."""
    node = sim.cache.node(node_name)
    assert node is not None  # callers have checked the name
    changed = core_pb2.Node()
    changed.CopyFrom(node)
    changed.spec.unschedulable = True
    sim.set_node(changed)


def may_leave(pod: core_pb2.Pod) -> bool:
    """Whether a drain evicts the pod, given as its class."""
    return not any(owner.controller and owner.kind in usage.BOUND_TO_NODE for owner in pod.metadata.owner_references)


def _evict_if_allowed(sim: simulation.Simulation, uid: str) -> bool:
    """Evict the pod, if its budgets allow it; return whether it is gone."""
    placed = sim.cache.pod(uid)
    if placed is None:
        return True
    if sim.budgets.blocking(sim.class_pod(uid)):
        return False
    identity = _identity(placed.key, uid)
    sim.writes.evicted.append(writes.Eviction(identity, placed.node_name))
    sim.remove_pod(uid, replace=True)
    return True


def _blocked(sim: simulation.Simulation, uid: str) -> Blocked:
    placed = sim.cache.pod(uid)
    assert placed is not None  # those that are gone were left out
    return Blocked(_identity(placed.key, uid), placed.node_name, sim.budgets.blocking(sim.class_pod(uid)))


def _identity(key: str, uid: str) -> cycle_pb2.PodIdentity:
    namespace, _, name = key.partition("/")
    return cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=uid)
