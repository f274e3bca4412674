"""What a placement is worth: figures of one state of the cluster, the same for both clusters.

Pods of DaemonSets count in what is used, and not in nodes in use and spread: every scheduler puts them alike.
"""

from dataclasses import dataclass

import numpy as np

from trireme.snapshot import arrays, classes, resources, snapshot
from trireme_kube.apimachinery import well_known_labels

# The share of pods that request no more CPU than the pod by which fragmentation is measured.
_LARGE = 0.9


@dataclass(frozen=True, slots=True)
class Measures:
    """Figures of one state. Units: shares, 0 to 1, but for counts of nodes and pods."""

    nodes: int
    pods: int
    nodes_in_use: int
    #: Requested of allocatable.
    cpu: float
    memory: float
    #: The share of the free CPU that is on nodes where a large pod of this cluster does not fit: one that requests as
    #: much CPU as nine of ten placed pods do at most, and the memory that they do.
    fragmentation: float
    #: Of each controller's pods, on how many nodes (zones) they are, of as many as they could be on: the mean, weighted
    #: by pods, of controllers with two pods or more. 1 if there is none.
    node_spread: float
    zone_spread: float


def measure(snap: snapshot.Snapshot) -> Measures:
    """The figures of the snapshot as it is."""
    nodes = snap.nodes
    alive = nodes.alive[: nodes.size]
    placed = np.flatnonzero(snap.pods.slot[: snap.pods.size] >= 0)
    placed = placed[alive[snap.pods.slot[placed]]]
    daemons = snap.class_mask([each.id for each in snap.classes.values() if _owner(each)[1] == "DaemonSet"])
    counted = placed[~daemons[snap.pods.class_index[placed]]]
    node_spread, zone_spread = _spread(snap, counted, alive)
    return Measures(
        nodes=int(np.count_nonzero(alive)),
        pods=int(placed.size),
        nodes_in_use=int(np.unique(snap.pods.slot[counted]).size),
        cpu=_share(nodes.requested, nodes.allocatable, resources.CPU, alive),
        memory=_share(nodes.requested, nodes.allocatable, resources.MEMORY, alive),
        fragmentation=_fragmentation(snap, counted, alive),
        node_spread=node_spread,
        zone_spread=zone_spread,
    )


def _share(
    requested: arrays.Int64Array, allocatable: arrays.Int64Array, resource: int, alive: arrays.BoolArray
) -> float:
    """What is requested of what can be allocated. Shapes: (resource, slot), alive (slot,)."""
    size = alive.shape[0]
    whole = int(allocatable[resource, :size][alive].sum())
    return float(requested[resource, :size][alive].sum()) / whole if whole else 0.0


def _fragmentation(snap: snapshot.Snapshot, rows: arrays.RowArray, alive: arrays.BoolArray) -> float:
    """The share of the free CPU where a large pod does not fit; 0 without pods. Shapes: rows (pod,), alive (slot,)."""
    if not rows.size:
        return 0.0
    nodes, size = snap.nodes, alive.shape[0]
    ids, counts = np.unique(snap.pods.pod_class[rows], return_counts=True)
    requests = np.array(
        [_cpu_and_memory(snap.classes[number], nodes.resource_names) for number in ids.tolist()], dtype=np.int64
    )
    cpu, memory = (_large_value(requests[:, column], counts) for column in (0, 1))
    free_cpu = np.maximum(nodes.allocatable[resources.CPU, :size] - nodes.requested[resources.CPU, :size], 0)
    free_memory = nodes.allocatable[resources.MEMORY, :size] - nodes.requested[resources.MEMORY, :size]
    room = nodes.allowed_pods[:size] > nodes.pod_count[:size]
    fits = (free_cpu >= cpu) & (free_memory >= memory) & room
    whole = int(free_cpu[alive].sum())
    return float(free_cpu[alive & ~fits].sum()) / whole if whole else 0.0


def _large_value(values: arrays.Int64Array, counts: arrays.Int64Array) -> int:
    """The value that a share of _LARGE does not exceed. Shapes: (class,)."""
    order = np.argsort(values, kind="stable")
    passed = np.cumsum(counts[order])
    return int(values[order][int(np.searchsorted(passed, _LARGE * passed[-1]))])


def _cpu_and_memory(pod_class: classes.PodClass, names: resources.ResourceNames) -> tuple[int, int]:
    vector = pod_class.placed_requests(names)
    return int(vector[resources.CPU]), int(vector[resources.MEMORY])


def _spread(snap: snapshot.Snapshot, rows: arrays.RowArray, alive: arrays.BoolArray) -> tuple[float, float]:
    """How evenly controllers' pods are spread over nodes and over zones. Shapes: rows (pod,), alive (slot,)."""
    owners: dict[tuple[str, str, str], int] = {}
    numbers = np.zeros(snap.class_capacity, dtype=np.int64)
    for each in snap.classes.values():
        owner = _owner(each)
        numbers[each.index] = owners.setdefault(owner, len(owners) + 1) if owner[2] else 0
    owner_of_pod = numbers[snap.pods.class_index[rows]]
    rows, owner_of_pod = rows[owner_of_pod > 0], owner_of_pod[owner_of_pod > 0]
    slots = snap.pods.slot[rows].astype(np.int64)
    zones = snap.nodes.labels.column(well_known_labels.ZONE).values(snap.nodes.size)
    zone_count = int(np.unique(zones[alive & (zones > 0)]).size)
    over_nodes = _mean_spread(owner_of_pod, slots, int(np.count_nonzero(alive)))
    over_zones = _mean_spread(owner_of_pod, zones[slots].astype(np.int64), zone_count) if zone_count else 1.0
    return over_nodes, over_zones


def _mean_spread(owners: arrays.Int64Array, places: arrays.Int64Array, place_count: int) -> float:
    """The mean share of the places that an owner's pods could be on and are on. Shapes: (pod,), of one pod each."""
    _, pods = np.unique(owners, return_counts=True)
    pairs = np.unique(np.stack([owners, places]), axis=1)
    _, used = np.unique(pairs[0], return_counts=True)
    several = pods > 1
    if not several.any():
        return 1.0
    possible = np.minimum(pods[several], max(place_count, 1))
    return float(np.average(used[several] / possible, weights=pods[several]))


def _owner(pod_class: classes.PodClass) -> tuple[str, str, str]:
    """Namespace, kind and name of the controller of the class's pods; the last two are empty if there is none."""
    for owner in pod_class.pod.metadata.owner_references:
        return pod_class.namespace, owner.kind, owner.name
    return pod_class.namespace, "", ""
