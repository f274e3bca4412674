"""Which volumes are attached to which node, and how many per driver: kept per slot, and recounted where it changed.

A volume counts once a node, however many pods there use it; so does one that is attached (VolumeAttachment) though no
pod uses it any more. What a class's pods attach is derived once per class and again when one of its claims, or a
claim's volume, changes; then the nodes of its pods are counted anew, as are those whose pods or attachments changed.
Only nodes with a CSINode have limits, so in-tree volumes are counted here as their drivers' throughout.

Tests: tests/unit/plugin_kit/test_volumes_attachments.py, tests/unit/plugin_kit/test_volumes_matching.py,
tests/unit/evaluation/test_overlay_verdicts.py.
"""

import weakref
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from trireme.plugin_kit import volumes_claims, volumes_objects, volumes_translation
from trireme.snapshot import arrays, classes, objects, pod_overlay, snapshot, snapshot_view
from trireme.v1 import core_pb2, storage_pb2

ATTACHMENT = "volume_attachment"

Attached = tuple[str, str]  # driver, handle
MemberT = TypeVar("MemberT")


# So many classes that exist no more are remembered, and as many again as were left when they were last forgotten.
SLACK = 64


class MissingClaimError(Exception):
    """A claim of a pod that is to be scheduled is not there: the pod is refused until it is. `claim` is its name."""

    def __init__(self, text: str, claim: str) -> None:
        super().__init__(text)
        self.claim = claim


class VolumeError(Exception):
    """The volumes of a pod are unknown."""


@dataclass(frozen=True, slots=True)
class _VolumesOfClass:
    """What pods of a class attach, and why that is unknown of one of their volumes."""

    attached: frozenset[Attached] = frozenset()
    error: str = ""


_NOTHING: frozenset[Attached] = frozenset()


def new_volumes(pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, csi_node: bool) -> frozenset[Attached]:
    """What a new pod of the class attaches to a node; `csi_node`: the node has a CSINode.

    Raises: MissingClaimError, VolumeError.
    """
    found = (_attached_by(volume, pod_class, snap, csi_node, new=True) for volume in pod_class.pod.spec.volumes)
    return frozenset(attached for attached in found if attached is not None)


def uses_volumes(pod: core_pb2.Pod) -> bool:
    """Whether the pod has a volume of a kind that may be attached."""
    return any(
        volumes_objects.claim_of_volume(pod, volume) is not None
        or volumes_translation.in_tree_kind_of_inline(volume.volume_source) is not None
        for volume in pod.spec.volumes
    )


def _attached_by(
    volume: core_pb2.Volume, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, csi_node: bool, new: bool
) -> Attached | None:
    """Driver and handle of what pods of the class attach by this volume; None: nothing that counts.

    `new`: as `new_volumes`, else as pods that are on the node already. Raises: MissingClaimError, VolumeError.
    """
    use = volumes_objects.claim_of_volume(pod_class.pod, volume)
    if use is None:
        return _attached_inline(volume, csi_node)
    return _attached_by_claim(pod_class, use, snap, csi_node, new)


def _attached_inline(volume: core_pb2.Volume, csi_node: bool) -> Attached | None:
    """Driver and handle of an inline volume, if its driver serves it on nodes with a CSINode. Raises: VolumeError."""
    kind = volumes_translation.in_tree_kind_of_inline(volume.volume_source)
    if kind is None or not kind.migrated or not csi_node:
        return None
    try:
        return kind.driver, kind.inline_handle(getattr(volume.volume_source, kind.field))
    except volumes_translation.TranslationError as error:
        raise VolumeError(f"converting volume({volume.name}) from inline to csi: {error}") from error


def _attached_by_claim(
    pod_class: classes.PodClass,
    use: volumes_objects.ClaimUse,
    snap: snapshot_view.SnapshotView,
    csi_node: bool,
    new: bool,
) -> Attached | None:
    """Driver and handle of the volume that a pod attaches through a claim; None: none that counts, or unknown yet.

    `new`: the pod is to be scheduled, and a missing claim raises MissingClaimError; else it attaches nothing.
    """
    if not use.name:
        raise VolumeError("PersistentVolumeClaim had no name")
    claim = volumes_claims.find_claim(snap, pod_class.namespace, use.name)
    if claim is None:
        if new:
            missing = volumes_objects.claim_not_found(use.name)
            raise MissingClaimError(f"looking up PVC {pod_class.namespace}/{use.name}: {missing}", use.name)
        return None
    if use.ephemeral:
        foreign = volumes_objects.not_owner(pod_class.pod, claim)
        if foreign:
            raise VolumeError(foreign)
    volume = volumes_claims.find_volume(snap, claim.spec.volume_name) if claim.spec.volume_name else None
    found = _attached_when_provisioned(claim, snap, csi_node) if volume is None else _attached_volume(volume, csi_node)
    return found if found is not None and all(found) else None


def _attached_volume(volume: core_pb2.PersistentVolume, csi_node: bool) -> Attached | None:
    """Driver and handle of a volume; None: of no driver, or not migrated to one there."""
    source = volume.spec.persistent_volume_source
    if source.HasField("csi"):
        return source.csi.driver, source.csi.volume_handle
    kind = volumes_translation.in_tree_kind_of_volume(volume)
    if kind is None or not kind.migrated or not csi_node:
        return None
    try:
        return kind.driver, kind.volume_handle(volume)
    except volumes_translation.TranslationError:
        return None


def _attached_when_provisioned(
    claim: core_pb2.PersistentVolumeClaim, snap: snapshot_view.SnapshotView, csi_node: bool
) -> Attached | None:
    """The volume that the claim will have, under a handle that stands for the claim."""
    name = volumes_objects.storage_class_of_claim(claim)
    storage_class = volumes_claims.find_storage_class(snap, name) if name else None
    if storage_class is None:
        return None
    # No driver gives out a handle with a line break in it.
    handle = f"\n{claim.metadata.namespace}/{claim.metadata.name}"
    kind = volumes_translation.in_tree_kind_of_provisioner(storage_class.provisioner)
    if kind is None:
        return storage_class.provisioner, handle
    return (kind.driver, handle) if kind.migrated and csi_node else None


def _discard_from_index(index: dict[str, set[MemberT]], name: str, member: MemberT) -> None:
    """Take it out of the set of that name, and forget the name with the last one."""
    members = index.get(name, set())
    members.discard(member)
    if not members:
        index.pop(name, None)


class AttachmentIndex:
    """The volumes attached to each node, by driver: by its pods and by VolumeAttachments; each snapshot has one."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._snap = weakref.proxy(snap)
        self._forget_everything()

    def _forget_everything(self) -> None:
        """Forget everything, so that the next refresh reads the whole snapshot."""
        self._generation = -1
        self._classes: dict[int, _VolumesOfClass] = {}
        self._classes_left = 0  # when those that exist no more were last forgotten
        self._with_volumes = np.zeros(0, dtype=np.bool_)  # by class index: it is one of the above
        self._last_class = 0
        self._classes_of_claim: dict[objects.Key, set[int]] = {}
        self._claims_of_volume: dict[str, set[objects.Key]] = {}
        self._volume_of_claim: dict[objects.Key, str] = {}
        self._attachments: dict[str, tuple[str, Attached]] = {}  # VolumeAttachment → node, what it attaches
        self._volume_of_attachment: dict[str, str] = {}
        self._attachments_at: dict[str, set[str]] = {}  # node → VolumeAttachments
        self._attachments_of: dict[str, set[str]] = {}  # volume → VolumeAttachments
        self._by_pods: dict[int, frozenset[Attached]] = {}  # slot → what its pods attach
        self._slots_of: dict[Attached, set[int]] = {}
        self._counted: dict[int, dict[str, int]] = {}  # slot → driver → volumes
        self._counts: dict[str, arrays.Int64Array] = {}
        self._errors: dict[int, str] = {}

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Update to the snapshot's current state."""
        if self._generation == snap.generation:
            return
        if not self._can_update_incrementally():
            self._forget_everything()
        if self._with_volumes.shape[0] < self._snap.class_capacity:
            capacity = arrays.grown_capacity(self._snap.class_capacity, self._with_volumes.shape[0])
            self._with_volumes = arrays.grow_last_axis(self._with_volumes, capacity)
        dirty = self._apply_attachment_changes()
        stale = self._classes_to_derive_again()
        for class_id in stale:
            self._classes[class_id] = self._volumes_of_class(self._snap.classes[class_id])
        slots = self._slots_to_recount(dirty, stale)
        self._recount_slots(slots)
        self._generation = self._snap.generation

    # What the limits are compared with

    def counts(self, driver: str) -> arrays.Int64Array:
        """How many volumes of the driver each node has. Shape: (slot,), at least as many as there are nodes."""
        column = self._counts.get(driver)
        if column is None or column.shape[0] < self._snap.nodes.capacity:
            grown = np.zeros(self._snap.nodes.capacity, dtype=np.int64)
            if column is not None:
                grown[: column.shape[0]] = column
            column = self._counts[driver] = grown
        return column

    def slots_with(self, volume: Attached) -> list[int]:
        """The slots where a pod attaches the volume."""
        return list(self._slots_of.get(volume, ()))

    def errors(self) -> dict[int, str]:
        """By slot why a volume of a pod there is unknown; it is not counted."""
        return self._errors

    # Following

    def _can_update_incrementally(self) -> bool:
        """Whether the logs of changed objects reach back to the last refresh."""
        kinds = (volumes_claims.CLAIM, volumes_claims.VOLUME, ATTACHMENT)
        return self._generation < 0 or all(
            self._snap.objects.changed_since(kind, self._generation) is not None for kind in kinds
        )

    def _changed_objects(self, kind: str) -> list[objects.Key]:
        """The keys of objects that changed since the last refresh; at the first all."""
        keys = self._snap.objects.changed_since(kind, self._generation)
        if keys is None:
            keys = [(entry.metadata.namespace, entry.metadata.name) for entry in self._snap.objects.all(kind)]
        return keys

    def _apply_attachment_changes(self) -> set[str]:
        """Take in attachments that changed, or whose volumes did; the nodes that they are, or were, of."""
        names = {name for _, name in self._changed_objects(ATTACHMENT)}
        for _, changed in self._changed_objects(volumes_claims.VOLUME):
            names |= self._attachments_of.get(changed, set())
        nodes = set()
        for name in names:
            old = self._attachments.pop(name, None)
            if old is not None:
                nodes.add(old[0])
                _discard_from_index(self._attachments_at, old[0], name)
            _discard_from_index(self._attachments_of, self._volume_of_attachment.pop(name, ""), name)
            entry: storage_pb2.VolumeAttachment | None = self._snap.objects.get(ATTACHMENT, "", name)
            if entry is not None:
                volume = self._volume_of_attachment[name] = entry.spec.source.persistent_volume_name
                self._attachments_of.setdefault(volume, set()).add(name)
                attached = self._driver_and_handle_of(entry)
                if attached is not None:
                    self._attachments[name] = (entry.spec.node_name, attached)
                    self._attachments_at.setdefault(entry.spec.node_name, set()).add(name)
                    nodes.add(entry.spec.node_name)
        return nodes

    def _driver_and_handle_of(self, entry: storage_pb2.VolumeAttachment) -> Attached | None:
        """Driver and handle of a VolumeAttachment; None: it is of no CSI volume that is known."""
        source = entry.spec.source
        if not entry.spec.attacher or not source.HasField("persistent_volume_name"):
            return None
        volume = volumes_claims.find_volume(self._snap, source.persistent_volume_name)
        if volume is None or not volume.spec.persistent_volume_source.HasField("csi"):
            return None
        return entry.spec.attacher, volume.spec.persistent_volume_source.csi.volume_handle

    def _classes_to_derive_again(self) -> set[int]:
        """Return the classes whose volumes are to be derived again, new ones among them.

        Claims that changed are indexed again on the way.
        """
        snap = self._snap
        if len(self._classes) > 2 * self._classes_left + SLACK:
            self._forget_gone_classes()
        stale: set[int] = set()
        if snap.objects.last_change(volumes_claims.STORAGE_CLASS) > self._generation:
            stale.update(self._classes.keys() & snap.classes.keys())
        claims = self._changed_objects(volumes_claims.CLAIM)
        for key in claims:
            self._reindex_claim(key)
        for _, volume in self._changed_objects(volumes_claims.VOLUME):
            claims.extend(self._claims_of_volume.get(volume, ()))
        for key in claims:
            users = self._classes_of_claim.get(key, set())
            users &= snap.classes.keys()
            stale |= users
        return stale | self._note_new_classes()

    def _forget_gone_classes(self) -> None:
        """Forget the classes that exist no more, and the claims that only they use, which may be gone as well."""
        known = self._snap.classes.keys()
        for class_id in self._classes.keys() - known:
            del self._classes[class_id]
        self._classes_left = len(self._classes)
        left = ((key, users & known) for key, users in self._classes_of_claim.items())
        self._classes_of_claim = {key: users for key, users in left if users}

    def _reindex_claim(self, key: objects.Key) -> None:
        """Index which volume the claim has now; a claim that is gone and unused is forgotten."""
        old = self._volume_of_claim.pop(key, "")
        if old:
            _discard_from_index(self._claims_of_volume, old, key)
        claim = volumes_claims.find_claim(self._snap, *key)
        if claim is None:
            if not self._classes_of_claim.get(key, set()) & self._snap.classes.keys():
                self._classes_of_claim.pop(key, None)
        elif claim.spec.volume_name:
            self._volume_of_claim[key] = claim.spec.volume_name
            self._claims_of_volume.setdefault(claim.spec.volume_name, set()).add(key)

    def _note_new_classes(self) -> set[int]:
        """Note the classes that came since the last refresh and which claims they use; return those with volumes."""
        new = set()
        known = self._snap.classes
        newest = self._last_class
        # Classes are numbered in the order in which they came, and none comes again.
        for class_id in reversed(known):
            if class_id <= self._last_class:
                break
            newest = max(newest, class_id)
            # The class before it at this index may have had volumes.
            has_volumes = self._with_volumes[known[class_id].index] = uses_volumes(known[class_id].pod)
            if has_volumes:
                new.add(class_id)
                for use in volumes_claims.claims_of(known[class_id]):
                    key = (known[class_id].namespace, use.name)
                    self._classes_of_claim.setdefault(key, set()).add(class_id)
        self._last_class = newest
        return new

    def _volumes_of_class(self, pod_class: classes.PodClass) -> _VolumesOfClass:
        """What placed pods of the class attach, and why that is unknown of the first such volume."""
        attached, problems = set(), []
        for volume in pod_class.pod.spec.volumes:
            try:
                found = _attached_by(volume, pod_class, self._snap, csi_node=True, new=False)
            except VolumeError as error:
                problems.append(str(error))
                continue
            if found is not None:
                attached.add(found)
        return _VolumesOfClass(frozenset(attached), problems[0] if problems else "")

    def _slots_to_recount(self, nodes: Iterable[str], stale: set[int]) -> arrays.SlotArray:
        """The slots to recount: of changed nodes, of these nodes, and of pods of the `stale` classes."""
        snap = self._snap
        dirty = np.zeros(snap.nodes.size, dtype=np.bool_)
        dirty[snap.nodes.changed_since(self._generation, pods=True)] = True
        dirty[[snap.nodes.slot_of_name[name] for name in nodes if name in snap.nodes.slot_of_name]] = True
        if stale:
            rows = snap.pods.rows_of(snap.class_mask(list(stale)))
            dirty[snap.pods.slot[rows]] = True
        return np.flatnonzero(dirty)

    def _recount_slots(self, slots: arrays.SlotArray) -> None:
        """Count the volumes on these slots again."""
        if not slots.size:
            return
        attached, errors = self.attached_on(slots, self._snap)
        for slot in slots.tolist():
            self._errors.pop(slot, None)
            self._set_attached(slot, frozenset(attached.get(slot, ())))
        self._errors.update(errors)

    def attached_on(
        self, slots: arrays.SlotArray, snap: snapshot_view.SnapshotView
    ) -> tuple[dict[int, set[Attached]], dict[int, str]]:
        """What the pods of each of these slots attach, and why it is unknown of a volume on some."""
        class_ids, on = snap.placed_pods(self._with_volumes)
        wanted = np.zeros(snap.nodes.size, dtype=np.bool_)
        wanted[slots] = True
        there = wanted[on]
        attached: dict[int, set[Attached]] = {}
        errors: dict[int, str] = {}
        for slot, class_id in zip(on[there].tolist(), class_ids[there].tolist(), strict=True):
            known = self._classes[class_id]
            attached.setdefault(slot, set()).update(known.attached)
            if known.error:
                errors.setdefault(slot, known.error)
        return attached, errors

    def count_drivers(self, slot: int, by_pods: Iterable[Attached]) -> dict[str, int]:
        """How many volumes of each driver the node has if its pods attach these."""
        attachments = self._attachments_at.get(self._snap.nodes.names[slot], ())
        return Counter(driver for driver, _ in {*by_pods, *(self._attachments[name][1] for name in attachments)})

    def _set_attached(self, slot: int, by_pods: frozenset[Attached]) -> None:
        """Set what the pods on a slot attach, and count its volumes by driver anew."""
        old = self._by_pods.pop(slot, _NOTHING)
        for volume in old - by_pods:
            self._slots_of[volume].discard(slot)
            if not self._slots_of[volume]:
                del self._slots_of[volume]
        for volume in by_pods - old:
            self._slots_of.setdefault(volume, set()).add(slot)
        if by_pods:
            self._by_pods[slot] = by_pods
        counted = self.count_drivers(slot, by_pods)
        for driver in self._counted.pop(slot, {}):
            self.counts(driver)[slot] = 0
        for driver, count in counted.items():
            self.counts(driver)[slot] = count
        if counted:
            self._counted[slot] = counted


class AdjustedAttachments:
    """An index as an overlay's changes adjust it, read like an AttachmentIndex."""

    def __init__(
        self, index: AttachmentIndex, changes: pod_overlay.OverlaidPods, snap: snapshot_view.SnapshotView
    ) -> None:
        self._index = index
        slots = changes.slots
        self._attached, self._own_errors = index.attached_on(slots, snap)
        self._slots = slots.tolist()
        self._counted = {slot: index.count_drivers(slot, self._attached.get(slot, ())) for slot in self._slots}

    def counts(self, driver: str) -> arrays.Int64Array:
        """How many volumes of the driver each node has, with the overlay's changes. Shape: (slot,), or longer."""
        out = self._index.counts(driver).copy()
        out[self._slots] = [self._counted[slot].get(driver, 0) for slot in self._slots]
        return out

    def slots_with(self, volume: Attached) -> list[int]:
        """The slots where a pod attaches the volume, with the overlay's changes."""
        unchanged = set(self._index.slots_with(volume)).difference(self._slots)
        return [*unchanged, *(slot for slot, attached in self._attached.items() if volume in attached)]

    def errors(self) -> dict[int, str]:
        """By slot why a volume of a pod there is unknown, with the overlay's changes."""
        unchanged = {slot: text for slot, text in self._index.errors().items() if slot not in self._counted}
        return unchanged | self._own_errors


def attachment_index_of(snap: snapshot_view.SnapshotView) -> AttachmentIndex | AdjustedAttachments:
    """The view's index, at the snapshot's generation."""
    index = snap.derived("attached_volumes", AttachmentIndex)
    return index if snap.overlaid_pods is None else AdjustedAttachments(index, snap.overlaid_pods, snap)
