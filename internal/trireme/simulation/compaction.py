"""Which nodes can be emptied: drains that were simulated one after the other, each on the outcome of those before.

A node counts if all of its pods have another node then, budgets are kept, nobody is preempted, and none of the nodes
that are empty already is used: those are cordoned from the beginning, and so is each node that was emptied.

Tests: tests/unit/simulation/test_questions.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.simulation import drains, known_classes, simulation
from trireme.snapshot import resources, snapshot

DEFAULT_TRIED = 100
MAX_TRIED = 1000


@dataclass(frozen=True, slots=True)
class EmptiedNode:
    """A node that can be emptied, and where its pods go: the new pod, the pod in whose place it is, its node."""

    node_name: str
    moves: Sequence[tuple[simulation.OncePendingPod, str]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The nodes to empty, in order; `cordoned` are those that are empty already. `sim` has the outcome: close it."""

    cordoned: Sequence[str]
    #: How many of the nodes with pods were tried, and how many there are.
    tried: int
    candidates: int
    emptied: Sequence[EmptiedNode]
    sim: simulation.Simulation


async def plan(start: simulation.Simulation, *, max_nodes: int, max_tried: int, time_is_up: Callable[[], bool]) -> Plan:
    """Look for nodes to empty, at most `max_nodes`, among the `max_tried` with the smallest share in use.

    `start` is closed if it is not the plan's simulation. No node is tried once `time_is_up`. Raises: as Simulation.run.
    """
    empty, candidates = _nodes_by_use(start.snap)
    for name in empty:
        drains.cordon(start, name)
    start.publish()
    sim, emptied, tries = start, list[EmptiedNode](), 0
    for name in candidates[:max_tried]:
        if len(emptied) >= max_nodes or time_is_up():
            break
        await asyncio.sleep(0)
        tries += 1
        if not _all_have_controllers(sim, name):
            continue
        tried = simulation.Simulation(sim.snap, sim.setup, known_classes.of_snapshot(sim.snap), names=sim.names)
        moves = await _simulate_emptying(tried, name)
        if moves is None:
            await tried.close()
            continue
        await sim.close()
        sim = tried
        # A fork of a fork of a fork is read through all of them.
        sim.snap.make_independent()
        emptied.append(EmptiedNode(name, moves))
    return Plan(empty, tries, len(candidates), emptied, sim)


async def _simulate_emptying(
    sim: simulation.Simulation, name: str
) -> list[tuple[simulation.OncePendingPod, str]] | None:
    """Drain the node; return where its pods go. None: not all of them have a node then, or another pod has to leave."""
    leaving = sum(drains.may_leave(sim.class_pod(uid)) for uid in sim.uids_on(name))
    if await drains.drain(sim, [name]):
        return None
    moves = [(pod, sim.node_of(uid)) for uid, pod in sim.pods.items()]
    if len(moves) < leaving or len(sim.writes.evicted) > leaving or not all(node for _, node in moves):
        return None
    return moves


def _nodes_by_use(snap: snapshot.Snapshot) -> tuple[list[str], list[str]]:
    """The schedulable nodes without pods that a drain evicts, and those with some, the least used first."""
    nodes, pods = snap.nodes, snap.pods
    leaving = [number for number, each in snap.classes.items() if drains.may_leave(each.pod)]
    counts = pods.count_by_slot(snap.class_mask(leaving), nodes.size)
    live = nodes.live_slots()
    live = live[~nodes.unschedulable[live]]
    of_both = [resources.CPU, resources.MEMORY]
    has = nodes.allocatable[of_both][:, live].clip(1)
    share = (nodes.requested[of_both][:, live] / has).max(axis=0) if live.size else np.zeros(0)
    order = live[np.lexsort((live, counts[live], share))].tolist()
    return (
        [nodes.names[slot] for slot in live.tolist() if not counts[slot]],
        [nodes.names[slot] for slot in order if counts[slot]],
    )


def _all_have_controllers(sim: simulation.Simulation, name: str) -> bool:
    """Whether each pod of the node that a drain evicts has a controller, which makes another one."""
    pods = (sim.class_pod(uid) for uid in sim.uids_on(name))
    return all(any(owner.controller for owner in pod.metadata.owner_references) for pod in pods)
