"""How many copies of a pod fit: one call of Filter, which answers how many each node takes, and perhaps one of Place.

Where a copy changes what other nodes take (topology spread, affinity between the copies), Place answers how far
Filter's constraints let the copies go. Where plugins place one pod at a time, the copies are scheduled one by one.

Also change: protos/trireme/v1/simulation.proto (the limits).
Also change: docs/simulate.md (how many copies are scheduled).

Tests: tests/unit/simulation/test_questions.py.
"""

import collections
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from trireme.cache.pod_projection import ParsedPod
from trireme.simulation import simulation

MAX_COPIES = 1_000_000
# Copies that are scheduled, where they have to be.
_MAX_SCHEDULED = 2000


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many copies fit, on each node that takes one. `bounded`: there may be more, which were not looked for."""

    nodes: Mapping[str, int]
    bounded: bool = False

    @property
    def pods(self) -> int:
        """How many fit."""
        return sum(self.nodes.values())


async def simulate_capacity(sim: simulation.Simulation, pod: ParsedPod) -> Capacity:
    """Find how many copies of the pod fit, with the pods that are there. Raises: as Evaluators.filter; InvalidPod."""
    class_id = sim.class_of(pod)
    generation = sim.publish()
    profile = pod.scheduler_name
    filtered = await sim.evaluators.filter(profile, class_id, MAX_COPIES, generation)
    columns = filtered.columns
    if filtered.refusal is not None:
        return Capacity({})
    alive = sim.snap.nodes.alive[: columns.index.shape[0]]
    room = np.where((columns.index == 0) & alive, columns.capacity, 0).clip(0)
    if not room.any():
        return Capacity({})
    # Copies may open nodes to others, by which an area comes level with the rest: then more fit than there is room now.
    wanted = min(_free_places(sim) if filtered.constraints else int(room.sum()), MAX_COPIES)
    if filtered.max_batch or filtered.needs_reserve:
        return await _schedule_copies(sim, pod, min(wanted, _MAX_SCHEDULED), wanted)
    if not filtered.constraints:
        slots = np.flatnonzero(room)
        return Capacity({sim.snap.nodes.names[slot]: int(room[slot]) for slot in slots.tolist()})
    placed = await sim.evaluators.place(profile, class_id, wanted, filtered)
    if placed.more:
        return await _schedule_copies(sim, pod, min(wanted, _MAX_SCHEDULED), wanted)
    counted = collections.Counter(sim.snap.nodes.names[slot] for slot in placed.slots)
    return Capacity(dict(counted))


def _free_places(sim: simulation.Simulation) -> int:
    """How many pods the nodes take beside those that they have, whatever these request."""
    nodes = sim.snap.nodes
    live = nodes.live_slots()
    return int((nodes.allowed_pods[live] - nodes.pod_count[live]).clip(0, MAX_COPIES).sum())


async def _schedule_copies(sim: simulation.Simulation, pod: ParsedPod, count: int, wanted: int) -> Capacity:
    """Schedule copies until one does not fit; at most `count` of the `wanted` that nodes have room for."""
    copies = [
        pod._replace(name=f"{pod.name}-{number}", uid=f"{pod.uid}-{number}", priority=0) for number in range(count)
    ]
    sim.add_pods(copies, simulation.Origin.ADDED)
    await sim.run()
    counted = collections.Counter(node for copy in copies if (node := sim.node_of(copy.uid)))
    return Capacity(dict(counted), bounded=sum(counted.values()) == count < wanted)
