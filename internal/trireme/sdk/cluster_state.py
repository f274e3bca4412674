"""The cluster as a plugin with NodeData.SNAPSHOT follows it: nodes, the pods on them, and all other objects.

It is plain Python, for plugins that look at a few nodes at a time. Deltas change it between calls; a method that is not
`async` sees one generation, one that awaits may see a newer one afterwards.

Also change: sdk/go/cluster.go, sdk/go/objects.go, sdk/java/src/main/java/dev/trireme/sdk/ClusterState.java,
sdk/java/src/main/java/dev/trireme/sdk/PlacedPod.java, sdk/rust/src/cluster.rs, sdk/rust/src/objects.rs,
sdk/typescript/src/cluster.ts (the same in the other languages' SDKs).
Also change: internal/trireme/cache/pod_projection.py, internal/trireme/snapshot/pods.py (bits of a pod's flags).
Also change: protos/trireme/v1/core.proto (the messages).
Also change: protos/trireme/v1/snapshot.proto (the messages).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2

TERMINATING = 3  # bits: 1 terminating, 2 terminating because the scheduler preempted it


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """One pod on a node, bound or about to be.

    `pod` is what all pods of its class share: the namespace, the labels that some selector names, and the fields that
    scheduling depends on. `start_time` is in seconds since 1970; 0: not started.
    """

    uid: str
    name: str
    pod: core_pb2.Pod
    slot: int
    start_time: int = 0
    terminating: bool = False


class ClusterState:
    """The cluster as a remote plugin follows it, at `generation`: nodes by slot, pods by node, other objects.

    Subclasses: trireme.sdk.watched_cluster.WatchedCluster.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.synced = False
        self._clear()

    def _clear(self) -> None:
        """Empty the state, as a full sync begins."""
        self.generation, self.synced = 0, False
        self.nodes: dict[int, core_pb2.Node] = {}
        self.classes: dict[int, core_pb2.Pod] = {}
        self._pods: dict[int, PlacedPod] = {}
        self._pods_by_slot: dict[int, dict[int, PlacedPod]] = {}
        self._objects: dict[str, dict[tuple[str, str], Any]] = {}

    def pods_on(self, slot: int) -> Collection[PlacedPod]:
        """The pods on the node at the slot."""
        return self._pods_by_slot.get(slot, {}).values()

    def pod(self, row: int) -> PlacedPod | None:
        """The pod of a row of the pod table."""
        return self._pods.get(row)

    def objects(self, kind: str) -> Mapping[tuple[str, str], Any]:
        """The other objects of a kind, e.g. `persistent_volume_claim`, by namespace and name."""
        return self._objects.get(kind, {})

    def apply(self, delta: snapshot_pb2.Delta) -> None:
        """Advance to the delta's generation.

        Raises: OutOfStepError if it does not start at this generation, or refers to a missing entry.
        """
        if delta.reset:
            self._clear()
        elif delta.from_generation != self.generation:
            raise snapshot.OutOfStepError(f"at generation {self.generation}, not {delta.from_generation}")
        try:
            self._apply_changes(delta)
        except (LookupError, ValueError) as error:
            self._clear()
            raise snapshot.OutOfStepError(f"the delta does not fit: {error!r}") from error
        self.generation = delta.to_generation
        self.synced = not delta.partial

    def _apply_changes(self, delta: snapshot_pb2.Delta) -> None:
        """Apply a delta's changes, in the order in which they may refer to each other.

        Raises: LookupError for a missing entry.
        """
        for row in delta.removed_pods:
            self._remove_pod(row)
        for slot in delta.removed_slots:
            del self.nodes[slot]
        for entry in delta.classes:
            self.classes[entry.id] = entry.pod
        for node in delta.nodes:
            self.nodes[node.slot] = node.node
        self._set_pods(delta.pods)
        for number in delta.removed_classes:
            del self.classes[number]
        for changed in delta.objects:
            kind = changed.WhichOneof("object")
            if kind is not None:
                entry = getattr(changed, kind)
                self._objects.setdefault(kind, {})[entry.metadata.namespace, entry.metadata.name] = entry
        for removed in delta.removed_objects:
            self._objects.get(removed.kind, {}).pop((removed.namespace, removed.name), None)

    def _set_pods(self, columns: snapshot_pb2.PodColumns) -> None:
        """Write the pods of these rows in place of those before; known names may be left out."""
        entries = zip(
            columns.row,
            columns.pod_class,
            columns.slot,
            columns.uid,
            columns.name,
            columns.start_time_s,
            columns.flags,
            strict=True,
        )
        for row, number, slot, uid, name, start, flags in entries:
            old = self._pods.get(row)
            if old is not None:
                uid, name = uid or old.uid, name or old.name
                self._remove_pod(row)
            pod = PlacedPod(uid, name, self.classes[number], slot, start, bool(flags & TERMINATING))
            self._pods[row] = self._pods_by_slot.setdefault(slot, {})[row] = pod

    def _remove_pod(self, row: int) -> None:
        pod = self._pods.pop(row)
        neighbours = self._pods_by_slot[pod.slot]
        del neighbours[row]
        if not neighbours:
            del self._pods_by_slot[pod.slot]
