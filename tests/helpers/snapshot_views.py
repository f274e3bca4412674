"""Snapshots as plain values, so that two of them can be compared, and what is put into them in tests."""

from typing import Any

import numpy as np

from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]


def view(snap: snapshot.Snapshot) -> Json:
    """All that a plugin can see of the snapshot; the same for equal ones, however they came about."""
    return {
        "nodes": {name: node_view(snap, name) for name in sorted(snap.nodes.slot_of_name)},
        "count": snap.nodes.count,
        "pods": {row: _pod_view(snap, row) for row in _placed_rows(snap)},
        "classes": {number: each.pod.SerializeToString(deterministic=True) for number, each in snap.classes.items()},
        "objects": {kind: [each.metadata.name for each in snap.objects.all(kind)] for kind in ("service", "namespace")},
        "nominations": dict(sorted(snap.nominations.items())),
    }


def node_view(snap: snapshot.Snapshot, name: str) -> Json:
    """All columns of one node."""
    nodes = snap.nodes
    slot = nodes.slot_of_name[name]
    names = nodes.resource_names.names

    def amounts(column: Any) -> dict[str, int]:
        rows = column[:, slot].tolist()
        return {resource: amount for resource, amount in zip(names, rows, strict=False) if amount}

    images = {image: nodes.images.find(image) for image in ("a:1", "b:1", "c:1")}
    at = np.array([slot])
    return {
        "slot": slot,
        "alive": bool(nodes.alive[slot]),
        "allocatable": amounts(nodes.allocatable),
        "requested": amounts(nodes.requested),
        "nonzero": nodes.nonzero[:, slot].tolist(),
        "pods": (int(nodes.allowed_pods[slot]), int(nodes.pod_count[slot])),
        "unschedulable": bool(nodes.unschedulable[slot]),
        "taints": nodes.taint_sets.value(int(nodes.taint_set[slot])),
        "features": nodes.feature_sets.value(int(nodes.feature_set[slot])),
        "labels": nodes.labels.labels_of(slot),
        "images": {
            image: (found.size, found.count) for image, found in images.items() if found is not None and found.has(at)
        },
    }


def _placed_rows(snap: snapshot.Snapshot) -> list[int]:
    return np.flatnonzero(snap.pods.slot[: snap.pods.size] >= 0).tolist()


def _pod_view(snap: snapshot.Snapshot, row: int) -> tuple[Any, ...]:
    pods = snap.pods
    numbers = (int(column[row]) for column in (pods.pod_class, pods.slot, pods.start, pods.flags))
    return (pods.uids[row], pods.names[row], *numbers)


def node_of(name: str, **fields: Any) -> core_pb2.Node:
    """A node; fields as labels, taints, allocatable, images (name to size), unschedulable, features."""
    allocatable = fields.get("allocatable", {"cpu": "4", "memory": "8Gi", "pods": "110"})
    images = [{"names": [image], "sizeBytes": size} for image, size in fields.get("images", {}).items()]
    taints = [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in fields.get("taints", ())]
    return decode.decode(
        {
            "metadata": {"name": name, "labels": fields.get("labels", {})},
            "spec": {"taints": taints, "unschedulable": fields.get("unschedulable", False)},
            "status": {
                "allocatable": allocatable,
                "images": images,
                "declaredFeatures": list(fields.get("features", ())),
            },
        },
        core_pb2.Node,
    )


def pod_of(
    spec: Json | None = None, *, labels: dict[str, str] | None = None, status: Json | None = None
) -> core_pb2.Pod:
    """A pod as a class has it, in the namespace `default`."""
    fields = {"containers": [{}], **(spec or {})}
    metadata = {"namespace": "default", "labels": labels or {}}
    return decode.decode({"metadata": metadata, "spec": fields, "status": status or {}}, core_pb2.Pod)


def requesting(**requests: str) -> Json:
    """The spec of a pod with one container that requests so much."""
    return {"containers": [{"name": "main", "resources": {"requests": requests}}]}


class SnapshotBuilder:
    """Puts nodes, classes and pods into a snapshot, one delta each."""

    def __init__(self) -> None:
        self.snap = snapshot.Snapshot()
        self.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1))
        self.objects: dict[str, core_pb2.Node] = {}
        self._slots: dict[str, int] = {}
        self._rows = 0

    def follow(self, slots: dict[str, int]) -> None:
        """The snapshot was reset by hand: these nodes are at these slots, and no pods are placed."""
        self._slots = dict(slots)
        self._rows = 0

    def apply(self, **fields: Any) -> None:
        """The next delta."""
        generation = self.snap.generation
        self.snap.apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, **fields))

    def set_node(self, name: str, **fields: Any) -> int:
        """The node is this (see node_of); answers its slot."""
        slot = self._slots.setdefault(name, len(self._slots))
        node = self.objects[name] = node_of(name, **fields)
        self.apply(nodes=[snapshot_pb2.NodeEntry(slot=slot, node=node)])
        return slot

    def remove_node(self, name: str) -> None:
        """The node is gone."""
        self.apply(removed_slots=[self._slots[name]])

    def add_class(self, number: int, pod: core_pb2.Pod) -> None:
        """The class exists."""
        self.apply(classes=[snapshot_pb2.PodClass(id=number, pod=pod)])

    def place(self, number: int, *nodes: str, flags: int = 0) -> list[int]:
        """A pod of the class on each of the nodes; answers their rows."""
        rows = list(range(self._rows, self._rows + len(nodes)))
        self._rows += len(nodes)
        columns = snapshot_pb2.PodColumns(
            row=rows,
            pod_class=[number] * len(rows),
            slot=[self._slots[node] for node in nodes],
            uid=[f"uid-{row}" for row in rows],
            name=[f"pod-{row}" for row in rows],
            start_time_s=[0] * len(rows),
            flags=[flags] * len(rows),
        )
        self.apply(pods=columns)
        return rows

    def remove(self, *rows: int) -> None:
        """The pods are gone."""
        self.apply(removed_pods=rows)


def cluster_of(**nodes: Json) -> SnapshotBuilder:
    """Nodes with these fields (see node_of), by name."""
    builder = SnapshotBuilder()
    for name, fields in nodes.items():
        builder.set_node(name, **fields)
    return builder


def one_node(allocatable: Json, *placed: core_pb2.Pod) -> SnapshotBuilder:
    """One node, n0, with these pods on it."""
    builder = cluster_of(n0={"allocatable": allocatable})
    for number, pod in enumerate(placed, start=1):
        builder.add_class(number, pod)
        builder.place(number, "n0")
    return builder
