"""What the volume plugins derive from all volumes and classes of one snapshot, brought up to date by what changed.

There is one `VolumeIndex` a snapshot, in its store of derived values. It answers without looking through
all objects: which volumes of a storage class are free, smallest first; which are meant for a claim; which classes use a
claim, and which have disks of their own; what free storage drivers report for a storage class.

Tests: tests/unit/plugin_kit/test_volumes_matching.py, tests/conformance/test_decisions.py.
"""

import bisect
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

from trireme.framework import label_selectors, selectors
from trireme.plugin_kit import volumes_claims, volumes_nodes, volumes_objects
from trireme.snapshot import classes, objects, snapshot, snapshot_view
from trireme.v1 import core_pb2, storage_pb2

CAPACITY = "csi_storage_capacity"

_AVAILABLE = "Available"

Rank = tuple[int, str]  # size in nanos, name


@dataclass(frozen=True, slots=True)
class IndexedVolume:
    """One volume as claims are matched with it. `terms` None: it can be reached from everywhere."""

    volume: core_pb2.PersistentVolume
    size: int  # in nanos
    capacity_value: int  # the same in bytes, rounded up
    storage_class: str
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    reach_key: bytes
    terms: volumes_nodes.Terms | None

    @property
    def name(self) -> str:
        """The volume's name."""
        return self.volume.metadata.name


@dataclass(frozen=True, slots=True)
class IndexedCapacity:
    """Storage that a driver can still provide for one storage class, where."""

    largest_volume: int  # in billionths of bytes, exact
    capacity: int  # in bytes, rounded up
    topology_key: bytes
    terms: volumes_nodes.Terms


class VolumeIndex:
    """Volumes, storage capacities and their users, as claims are matched with them; each snapshot has one."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = weakref.proxy(snap)
        self._generation = -1
        self._volumes: dict[str, IndexedVolume] = {}
        self._free: dict[str, list[Rank]] = {}
        self._meant: dict[objects.Key, set[str]] = {}
        self._capacities: dict[str, dict[objects.Key, IndexedCapacity]] = {}
        self._capacity_class: dict[objects.Key, str] = {}
        self._last_class = 0
        self._users: dict[objects.Key, set[int]] = {}
        self._with_disks: set[int] = set()
        self._indexed_classes = 0
        self.reach = volumes_nodes.ReachableSlots(snap.nodes)
        self.csi = volumes_nodes.CsiColumns()

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Update to the snapshot's current state."""
        if self._generation == snap.generation:
            return
        keys = snap.objects.changed_since(volumes_claims.VOLUME, self._generation)
        if keys is None:
            self._volumes.clear()
            self._free.clear()
            self._meant.clear()
            keys = [("", volume.metadata.name) for volume in snap.objects.all(volumes_claims.VOLUME)]
        for _, name in keys:
            self._reindex_volume(name, volumes_claims.find_volume(snap, name))
        self._refresh_capacities()
        self._refresh_classes()
        self.csi.refresh(snap)
        self._generation = snap.generation

    # Volumes

    def volume(self, name: str) -> IndexedVolume | None:
        """The volume of this name; None where there is none, or its size cannot be read."""
        return self._volumes.get(name)

    def available_volumes(self, storage_class: str, at_least: int) -> Iterator[IndexedVolume]:
        """Available volumes of the class that nobody claims and that are no smaller, by size and then name."""
        ranked = self._free.get(storage_class, [])
        for _, name in ranked[bisect.bisect_left(ranked, (at_least, "")) :]:
            yield self._volumes[name]

    def volumes_reserved_for(self, claim: core_pb2.PersistentVolumeClaim) -> list[IndexedVolume]:
        """The volumes that name this claim, by name."""
        names = self._meant.get((claim.metadata.namespace, claim.metadata.name), ())
        found = (self._volumes[name] for name in sorted(names))
        return [entry for entry in found if volumes_objects.bound_to(entry.volume, claim)]

    def _reindex_volume(self, name: str, volume: core_pb2.PersistentVolume | None) -> None:
        """Index the volume, or drop it (None). One whose size cannot be read is as good as none.

        It is listed for the claim that it names, else, if available and not being deleted, among the free ones of its
        class.
        """
        old = self._volumes.pop(name, None)
        if old is not None:
            self._take_volume_off_lists(old)
        size = None if volume is None else volumes_objects.storage_size(volume.spec.capacity)
        if volume is None or size is None:
            return
        spec = volume.spec
        affinity = spec.node_affinity if spec.HasField("node_affinity") else None
        entry = self._volumes[name] = IndexedVolume(
            volume,
            size.nanos,
            size.value(),
            volumes_objects.storage_class_of_volume(volume),
            spec.volume_mode or "Filesystem",
            spec.volume_attributes_class_name,
            frozenset(spec.access_modes),
            b"" if affinity is None else affinity.SerializeToString(deterministic=True),
            volumes_nodes.volume_terms(affinity),
        )
        if spec.HasField("claim_ref"):
            self._meant.setdefault((spec.claim_ref.namespace, spec.claim_ref.name), set()).add(name)
        elif volume.status.phase == _AVAILABLE and not volume.metadata.HasField("deletion_timestamp"):
            bisect.insort(self._free.setdefault(entry.storage_class, []), (entry.size, name))

    def _take_volume_off_lists(self, entry: IndexedVolume) -> None:
        """Take a volume out of the lists in which it is."""
        spec = entry.volume.spec
        if spec.HasField("claim_ref"):
            key = (spec.claim_ref.namespace, spec.claim_ref.name)
            names = self._meant.get(key, set())
            names.discard(entry.name)
            if not names:
                self._meant.pop(key, None)
            return
        ranked = self._free.get(entry.storage_class, [])
        position = bisect.bisect_left(ranked, (entry.size, entry.name))
        if ranked[position : position + 1] == [(entry.size, entry.name)]:
            del ranked[position]

    # Capacities

    def capacities(self, storage_class: str) -> list[IndexedCapacity]:
        """What drivers report for the storage class, by the objects' namespaces and names."""
        known = self._capacities.get(storage_class, {})
        return [known[key] for key in sorted(known)]

    def _refresh_capacities(self) -> None:
        """Read the CSIStorageCapacity objects that changed; those that cannot be used are left out."""
        keys = self._snap.objects.changed_since(CAPACITY, self._generation)
        if keys is None:
            self._capacities.clear()
            self._capacity_class.clear()
            entries = self._snap.objects.all(CAPACITY)
            keys = [(entry.metadata.namespace, entry.metadata.name) for entry in entries]
        for key in keys:
            old = self._capacity_class.pop(key, None)
            if old is not None:
                del self._capacities[old][key]
            entry: storage_pb2.CSIStorageCapacity | None = self._snap.objects.get(CAPACITY, *key)
            indexed = None if entry is None else _indexed_capacity(entry)
            if entry is not None and indexed is not None:
                self._capacities.setdefault(entry.storage_class_name, {})[key] = indexed
                self._capacity_class[key] = entry.storage_class_name

    # Classes

    def classes_naming_claim(self, namespace: str, claim: str) -> list[int]:
        """The classes whose pods name this claim as it is, not as one made for them."""
        return self._drop_gone_classes(self._users.get((namespace, claim), set()))

    def classes_with_disks(self) -> list[int]:
        """The classes whose pods have disks of their own, of a kind that pods cannot share."""
        return self._drop_gone_classes(self._with_disks)

    def _drop_gone_classes(self, ids: set[int]) -> list[int]:
        """Remove classes that no longer exist from `ids`, and return the others, sorted."""
        gone = [class_id for class_id in ids if class_id not in self._snap.classes]
        ids.difference_update(gone)
        return sorted(ids)

    def _refresh_classes(self) -> None:
        """Index the classes that came; after many have gone, all that are left anew."""
        known = self._snap.classes
        if self._indexed_classes > 2 * len(known) + 64:
            self._last_class = self._indexed_classes = 0
            self._users.clear()
            self._with_disks.clear()
        # Classes are numbered in the order in which they came, and none comes again.
        new = []
        for class_id in reversed(known):
            if class_id <= self._last_class:
                break
            new.append(class_id)
        for class_id in new:
            self._index_pod_class(known[class_id])
        self._indexed_classes += len(new)
        self._last_class = max([self._last_class, *new])

    def _index_pod_class(self, pod_class: classes.PodClass) -> None:
        """Index a class by the claims that it names, and by its disks."""
        for use in volumes_claims.claims_of(pod_class):
            if not use.ephemeral:
                self._users.setdefault((pod_class.namespace, use.name), set()).add(pod_class.id)
        if any(has_disk(volume.volume_source) for volume in pod_class.pod.spec.volumes):
            self._with_disks.add(pod_class.id)


def _indexed_capacity(entry: storage_pb2.CSIStorageCapacity) -> IndexedCapacity | None:
    """Read a capacity; None where no volume can be made from it, or it does not say (validly) where."""
    if not entry.HasField("node_topology"):
        return None
    stated = {"storage": entry.capacity} if entry.HasField("capacity") else {}
    largest = {"storage": entry.maximum_volume_size} if entry.HasField("maximum_volume_size") else stated
    capacity, limit = volumes_objects.storage_size(stated), volumes_objects.storage_size(largest)
    if not largest or capacity is None or limit is None:
        return None
    try:
        requirements = label_selectors.parse(entry.node_topology).requirements
    except label_selectors.InvalidSelectorError:
        return None
    key = entry.node_topology.SerializeToString(deterministic=True)
    return IndexedCapacity(limit.nanos, capacity.value(), key, (selectors.NodeTerm(requirements or ()),))


def has_disk(source: core_pb2.VolumeSource) -> bool:
    """Whether the source is of a kind that pods on one node may not share freely."""
    return any(source.HasField(kind) for kind in ("gce_persistent_disk", "aws_elastic_block_store", "rbd", "iscsi"))


def volume_index_of(snap: snapshot_view.SnapshotView) -> VolumeIndex:
    """The snapshot's index, at the snapshot's generation."""
    return snap.derived("volumes", VolumeIndex)
