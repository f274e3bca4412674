"""The cluster cache: the frontend's state of the cluster, assumed pods included.

Every snapshot follows it, by the deltas of its `delta_log`; it stores no more of nodes, pods and objects than a full
sync needs. A pod is assumed on a node before it is bound; then the informer confirms it, or the frontend forgets it.

Pure: callers report changes and take deltas; it never waits.

Tests: tests/unit/cache/test_cluster_cache.py, tests/unit/cache/test_cluster_cache_deltas.py,
tests/unit/cache/test_assumed_objects.py, tests/unit/extenders/test_extenders.py.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme.cache import assumed_objects, class_registry, delta_log, label_keys
from trireme.cache.placed_pod import NO_SLOT, PlacedPod
from trireme.cache.pod_projection import PREEMPTED, TERMINATING, Labels, ParsedPod
from trireme.v1 import core_pb2, snapshot_pb2
from trireme_kube.apimachinery import resource_versions

_POD, _NODE = "pod", "node"


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How much the cache holds."""

    generation: int
    nodes: int
    pods: int
    assumed_pods: int
    classes: int


@dataclass(frozen=True, slots=True)
class CacheTables:
    """The tables of a cache; those of a copy of a cluster are not empty."""

    #: The nodes' slots by name.
    slots: dict[str, int] = field(default_factory=dict)
    #: By slot, the serialised NodeEntry, and the node's name with the generation since which it is there.
    entries: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, tuple[str, int]] = field(default_factory=dict)
    #: By UID.
    pods: dict[str, PlacedPod] = field(default_factory=dict)
    #: The pods of each node by the node's name; the node itself may be unknown.
    on_node: dict[str, dict[PlacedPod, None]] = field(default_factory=dict)
    #: By kind, namespace and name.
    objects: dict[tuple[str, str, str], snapshot_pb2.ClusterObject] = field(default_factory=dict)
    #: By pod UID.
    nominations: dict[str, snapshot_pb2.Nomination] = field(default_factory=dict)


class ClusterCache:
    """The frontend's state of the cluster: nodes, placed pods, classes, objects and nominations; makes the deltas.

    Subclasses: trireme.simulation.forked_cache._Cache.
    """

    def __init__(self, registry: class_registry.ClassRegistry, tables: CacheTables | None = None) -> None:
        """Begin with `tables`, or empty without them."""
        tables = CacheTables() if tables is None else tables
        self.registry = registry
        #: Incremented by every change that can affect placements; by one for each assumed pod.
        self.revision = 0
        self._slots, self._entries, self._names = tables.slots, tables.entries, tables.names
        self._pods, self._on_node = tables.pods, tables.on_node
        self._label_keys = label_keys.LabelKeys()
        self._assumed: set[str] = set()
        self._objects = tables.objects
        self._assumed_objects = assumed_objects.AssumedObjects(self._objects)
        self._nominations = tables.nominations
        # Nominations by pod UID, with the node's name; the node may be unknown.
        self._pod_nominations: dict[str, tuple[str, snapshot_pb2.Nomination]] = {}
        self._deltas = delta_log.DeltaLog(registry, self._entries, self._assumed_objects, self._nominations)
        # What to call when a placed pod (UID) is deleted or terminating, or when a node (name) is removed.
        self._deletion_callbacks: dict[tuple[str, str], list[Callable[[], None]]] = {}

    def statistics(self) -> CacheStatistics:
        """Count the entries."""
        return CacheStatistics(
            self.generation, len(self._slots), len(self._pods), len(self._assumed), len(self.registry)
        )

    # Nodes

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._slots)

    def slot_of(self, name: str) -> int:
        """The node's slot, or NO_SLOT."""
        return self._slots.get(name, NO_SLOT)

    def node_at(self, slot: int, generation: int) -> str | None:
        """The node at the slot if it has been there since the generation; else None."""
        name, since = self._names.get(slot, ("", 0))
        return name if name and since <= generation else None

    def has_node(self, name: str) -> bool:
        """Whether the node exists."""
        return name in self._slots

    def node_names(self) -> list[str]:
        """Names of all nodes."""
        return list(self._slots)

    def node(self, name: str) -> core_pb2.Node | None:
        """The node's latest version."""
        slot = self._slots.get(name)
        return None if slot is None else snapshot_pb2.NodeEntry.FromString(self._entries[slot]).node

    def set_node(self, node: core_pb2.Node, json: bytes = b"") -> tuple[bool, core_pb2.Node | None]:
        """Add or update a node; return whether anything changed, and the old node (None: it is new).

        An older version changes nothing. A heartbeat (no change that plugins see) is sent in deltas, but leaves
        `revision` as it is. Pods and nominations that were known before their node get their slot now.
        """
        name = node.metadata.name
        slot = self._slots.get(name)
        exists = slot is not None
        if slot is None:
            slot = self._deltas.assign_slot()
            self._slots[name] = slot
        entry = snapshot_pb2.NodeEntry(slot=slot, node=node, json=json).SerializeToString(deterministic=True)
        old = self._entries.get(slot)
        if exists and old == entry:
            return False, node
        before = None if old is None else snapshot_pb2.NodeEntry.FromString(old).node
        if before is not None and is_older_version(before, node):
            return False, before
        self._entries[slot] = entry
        self._deltas.record_node_change(slot)
        if before is not None:
            self.revision += bool(json) or not _is_heartbeat(before, node)
            return True, before
        self.revision += 1
        self._names[slot] = (name, self.generation + 1)
        for pod in self._on_node.get(name, ()):
            self._assign_row(pod, slot)
        for uid, nomination in self._pod_nominations.items():
            if nomination[0] == name:
                self._place_nomination(uid, slot)
        return True, None

    def remove_node(self, name: str) -> core_pb2.Node | None:
        """Remove the node and nominations to it; its pods stay known until they are deleted too. Returns the node."""
        slot = self._slots.pop(name, None)
        if slot is None:
            return None
        self.revision += 1
        del self._names[slot]
        before = snapshot_pb2.NodeEntry.FromString(self._entries.pop(slot)).node
        for pod in self._on_node.get(name, ()):
            if pod.slot != NO_SLOT:
                self._free_row(pod)
        for uid in [uid for uid, nomination in self._nominations.items() if nomination.slot == slot]:
            self.nominate(uid, None)
        self._deltas.free_slot(slot)
        self._notify_deletion(_NODE, name)
        return before

    # Pods

    def pod(self, uid: str) -> PlacedPod | None:
        """The placed pod of this UID."""
        return self._pods.get(uid)

    def pods(self) -> Iterable[PlacedPod]:
        """All placed pods."""
        return self._pods.values()

    def set_pod(self, parsed: ParsedPod, class_id: int, base: int) -> PlacedPod | None:
        """Store a pod that the informer shows on a node; returns the previous pod. Confirms an assumed pod.

        The pod may be on another node than it was assumed on. Takes over the caller's reference to the class. A pod
        that is terminating now has its deletion callbacks called.
        """
        pod = self._pods.get(parsed.uid)
        if pod is None:
            pod = self._add_placed_pod(parsed.key, parsed.uid, parsed.node_name, base, parsed.labels, class_id)
            before = None
        else:
            before = pod
            self._assumed.discard(parsed.uid)
            pod.assumed = False
            self._change_class(pod, base, parsed.labels, class_id)
            if pod.node_name != parsed.node_name:
                self._take_off_node(pod)
                self._put_on_node(pod, parsed.node_name)
        pod.version, pod.generation = parsed.resource_version, parsed.generation
        if pod.flags != parsed.flags or pod.start != parsed.start:
            # The start time decides who is preempted first, but not where pods can be placed.
            self.revision += pod.flags != parsed.flags
            pod.flags, pod.start = parsed.flags, parsed.start
            self._deltas.record_pod_change(pod)
            if pod.flags & TERMINATING:
                self._notify_deletion(_POD, parsed.uid)
        return before

    def remove_pod(self, uid: str) -> PlacedPod | None:
        """Remove a pod; return it."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._assumed.discard(uid)
        self._take_off_node(pod)
        self.registry.release(pod.class_id)
        self._label_keys.remove(uid, pod.labels)
        if len(self._assumed_objects):
            self.forget_objects(uid)
        self._notify_deletion(_POD, uid)
        return pod

    def call_on_deletion(self, uid: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, when the placed pod is deleted or terminating, before any other notification.

        Returns a function that cancels the callback: a pod may never be deleted.
        """
        return self._add_deletion_callback((_POD, uid), callback)

    def call_on_node_removal(self, name: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, when the node is removed; returns a function that ends that."""
        return self._add_deletion_callback((_NODE, name), callback)

    def _add_deletion_callback(self, key: tuple[str, str], callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, when the object that `key` names is deleted; the returned function cancels that."""
        self._deletion_callbacks.setdefault(key, []).append(callback)

        def drop_callback() -> None:
            callbacks = self._deletion_callbacks.get(key, [])
            if callback in callbacks:
                callbacks.remove(callback)
                if not callbacks:
                    del self._deletion_callbacks[key]

        return drop_callback

    def _notify_deletion(self, kind: str, name: str) -> None:
        """Call the callbacks for the deletion of this pod or node, once."""
        for callback in self._deletion_callbacks.pop((kind, name), ()):
            callback()

    def assume(self, key: str, uid: str, node_name: str, base: int, labels: Labels, class_id: int) -> None:
        """Assume the pod on the node before it is bound. Counts the pod in its class."""
        if uid in self._pods:
            raise ValueError(f"pod {key} is on node {self._pods[uid].node_name} already")
        interned = self.registry.intern(base, labels)
        pod = self._add_placed_pod(key, uid, node_name, base, labels, interned)
        pod.assumed = True
        self._assumed.add(uid)

    def count_claim_resources(self, uid: str, statuses: Sequence[core_pb2.NodeAllocatableResourceClaimStatus]) -> None:
        """Count the resources that the assumed pod takes for its claims, in addition to its requests."""
        pod = self._pods[uid]
        base = self.registry.base_with_claims(pod.base, statuses)
        self._change_class(pod, base, pod.labels, self.registry.intern(base, pod.labels))

    def forget(self, uid: str) -> bool:
        """Forget an assumed pod; False if it was not assumed, or is bound by now."""
        if uid not in self._assumed:
            return False
        self.remove_pod(uid)
        return True

    def begin_trial(self) -> None:
        """Begin the trial of a group: deltas are marked, so that replicas do not count what it assumes."""
        self._deltas.set_trial(True)

    def end_trial(self) -> None:
        """End the trial: the next delta shows its result."""
        self._deltas.set_trial(False)

    def hide_from_replicas(self, uids: Iterable[str]) -> None:
        """Remove these pods from their nodes in the replicas' view, to try the effect of their eviction.

        `show_to_replicas` puts them back.
        """
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is not None and pod.slot != NO_SLOT:
                self._free_row(pod)

    def show_to_replicas(self, uids: Iterable[str]) -> None:
        """Put hidden pods that still exist back on their nodes in the replicas' view."""
        for uid in uids:
            pod = self._pods.get(uid)
            slot = NO_SLOT if pod is None else self.slot_of(pod.node_name)
            if pod is not None and pod.slot == NO_SLOT and slot != NO_SLOT:
                self._assign_row(pod, slot)

    def set_evicting(self, uid: str, evicting: bool) -> None:
        """Mark a pod as being evicted: replicas see it as preempted before its object does."""
        pod = self._pods.get(uid)
        flag = PREEMPTED if evicting else 0
        if pod is not None and pod.evicting != flag:
            pod.evicting = flag
            self.revision += 1
            self._deltas.record_pod_change(pod)

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods."""
        return len(self._assumed)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod is assumed and not confirmed by the informer."""
        return uid in self._assumed

    def reclassify(self, keys: frozenset[str]) -> None:
        """Classify the pods that carry one of these newly selected label keys again."""
        for uid in self._label_keys.pods_with_any(keys):
            pod = self._pods[uid]
            self._change_class(pod, pod.base, pod.labels, self.registry.intern(pod.base, pod.labels))

    # Other objects

    def set_object(self, entry: snapshot_pb2.ClusterObject) -> None:
        """Add or update an object."""
        key = _kind_and_name(entry)
        self._objects[key] = entry
        self._record_object_changes((key, *self._assumed_objects.on_informer_change(key)))

    def remove_object(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object."""
        key = (kind, namespace, name)
        if self._objects.pop(key, None) is not None:
            self._record_object_changes((key, *self._assumed_objects.on_informer_change(key)))

    def get_object(self, kind: str, namespace: str, name: str) -> snapshot_pb2.ClusterObject | None:
        """The object as the informer last delivered it."""
        return self._objects.get((kind, namespace, name))

    def get_assumed(self, kind: str, namespace: str, name: str) -> snapshot_pb2.ClusterObject | None:
        """The assumed object, or the informer's if nothing is assumed."""
        return self._assumed_objects.get((kind, namespace, name))

    def assume_objects(self, uid: str, entries: Iterable[snapshot_pb2.ClusterObject]) -> list[assumed_objects.Change]:
        """Assume these objects for the pod, until their informer shows another version; returns the changed ones.

        Raises: OutOfSyncError if one of them has another version already; then nothing is assumed.
        """
        keyed = {_kind_and_name(entry): entry for entry in entries}
        changes: list[assumed_objects.Change] = [
            (self._assumed_objects.get(key), entry) for key, entry in keyed.items()
        ]
        self._assumed_objects.assume(uid, keyed)
        self._record_object_changes(keyed)
        return changes

    def forget_objects(self, uid: str) -> list[assumed_objects.Change]:
        """Drop the pod's assumed objects; return what that changed."""
        dropped = self._assumed_objects.forget(uid)
        self._record_object_changes(dropped)
        return [(entry, self._assumed_objects.get(key)) for key, entry in dropped.items()]

    def objects_assumed_for(self, uid: str) -> list[snapshot_pb2.ClusterObject]:
        """The objects that are assumed for the pod."""
        return self._assumed_objects.assumed_for(uid)

    def end_object_sharing(self, uids: Collection[str]) -> None:
        """Stop other pods of the group from sharing these pods' assumed objects."""
        closed = self._assumed_objects.end_sharing(uids)
        if closed:
            self._record_object_changes(closed)

    def object_keys(self, kind: str) -> set[tuple[str, str]]:
        """Namespace and name of all objects of a kind."""
        return {(namespace, name) for object_kind, namespace, name in self._objects if object_kind == kind}

    def nominate(self, uid: str, nomination: snapshot_pb2.Nomination | None) -> None:
        """Set the pod's nomination, or clear it with None."""
        self.revision += 1
        if nomination is None:
            self._nominations.pop(uid, None)
        else:
            self._nominations[uid] = nomination
        self._deltas.record_nomination_change(uid)

    def nominate_node(self, nomination: snapshot_pb2.Nomination, node_name: str) -> None:
        """Nominate the node, known or not, for the pod; "" clears the nomination."""
        uid = nomination.pod.uid
        if not node_name:
            self._pod_nominations.pop(uid, None)
            self.nominate(uid, None)
            return
        self._pod_nominations[uid] = (node_name, nomination)
        self._place_nomination(uid, self.slot_of(node_name))

    def _place_nomination(self, uid: str, slot: int) -> None:
        """Move the pod's nomination to its node's slot; NO_SLOT: the node is unknown, replicas see none."""
        if slot == NO_SLOT:
            self.nominate(uid, None)
            return
        nomination = self._pod_nominations[uid][1]
        nomination.slot = slot
        self.nominate(uid, nomination)

    # Deltas

    @property
    def generation(self) -> int:
        """The generation of the last delta."""
        return self._deltas.generation

    @property
    def has_changes(self) -> bool:
        """Whether there is something to publish, see `DeltaLog.has_changes`."""
        return self._deltas.has_changes

    def take_delta(self) -> snapshot_pb2.Delta | None:
        """Return the next delta, see `DeltaLog.take_delta`."""
        return self._deltas.take_delta()

    def drop_delta(self) -> None:
        """Discard the changes if there are no followers: new ones start with a full sync."""
        self._deltas.drop_delta()

    def full_sync(self) -> Iterator[snapshot_pb2.Delta]:
        """Yield the whole cache in chunks, see `DeltaLog.full_sync`."""
        return self._deltas.full_sync(self._pods.values())

    # Rows and slots

    def _record_object_changes(self, keys: Iterable[tuple[str, str, str]]) -> None:
        """Have the next delta show these objects as they are now."""
        self.revision += 1
        for key in keys:
            self._deltas.record_object_change(key)

    def _add_placed_pod(
        self, key: str, uid: str, node_name: str, base: int, labels: Labels, class_id: int
    ) -> PlacedPod:
        """Enter a pod on a node, which may be unknown; its class is counted already."""
        pod = PlacedPod(key, uid, node_name, base, labels, class_id)
        self._pods[uid] = pod
        self._label_keys.add(uid, labels)
        self._put_on_node(pod, node_name)
        return pod

    def _put_on_node(self, pod: PlacedPod, node_name: str) -> None:
        """Put a pod without a node on this one, which may be unknown."""
        pod.node_name = node_name
        pods_on_node = self._on_node.get(node_name)
        if pods_on_node is None:
            pods_on_node = self._on_node[node_name] = {}
        pods_on_node[pod] = None
        slot = self._slots.get(node_name)
        if slot is not None:
            self._assign_row(pod, slot)

    def _take_off_node(self, pod: PlacedPod) -> None:
        if pod.slot != NO_SLOT:
            self._free_row(pod)
        pods_on_node = self._on_node[pod.node_name]
        del pods_on_node[pod]
        if not pods_on_node:
            del self._on_node[pod.node_name]

    def _assign_row(self, pod: PlacedPod, slot: int) -> None:
        self._deltas.assign_row(pod, slot)
        self.revision += 1

    def _free_row(self, pod: PlacedPod) -> None:
        self._deltas.free_row(pod)
        self.revision += 1

    def _change_class(self, pod: PlacedPod, base: int, labels: Labels, class_id: int) -> None:
        """Set the pod's class, already interned for it, and release the old one."""
        self.registry.release(pod.class_id)
        if labels != pod.labels:
            self._label_keys.remove(pod.uid, pod.labels)
            self._label_keys.add(pod.uid, labels)
        pod.base, pod.labels = base, labels
        if pod.class_id != class_id:
            pod.class_id = class_id
            self.revision += 1
            self._deltas.record_pod_change(pod)


def is_older_version(current: Any, update: Any) -> bool:
    """Whether the update is an older version of the current object.

    A recreated object is not, nor is one with a version that is no number.
    """
    old, new = current.metadata, update.metadata
    if old.uid != new.uid:
        return False
    known, shown = (resource_versions.number_of(each.resource_version) for each in (old, new))
    return known is not None and shown is not None and shown < known


def _is_heartbeat(before: core_pb2.Node, now: core_pb2.Node) -> bool:
    """Whether only heartbeat times changed, which the kubelet updates every few minutes."""
    plain_nodes = []
    for node in (before, now):
        plain = core_pb2.Node()
        plain.CopyFrom(node)
        plain.metadata.resource_version = ""
        for condition in plain.status.conditions:
            condition.ClearField("last_heartbeat_time")
        plain_nodes.append(plain)
    return plain_nodes[0] == plain_nodes[1]


def _kind_and_name(entry: snapshot_pb2.ClusterObject) -> tuple[str, str, str]:
    """The key of an object: kind, namespace, name."""
    kind = entry.WhichOneof("object")
    if kind is None:
        raise ValueError("the object is of no known kind")
    metadata = getattr(entry, kind).metadata
    return kind, metadata.namespace, metadata.name
