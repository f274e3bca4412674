"""VolumeRestrictions: disks that pods on one node may not share, and claims that only one pod may use at a time.

Both look at the classes of placed pods (few have such disks or use such a claim), and count their pods in the pod
table. A claim of one pod is in use wherever that pod is, so the answer depends on the whole cluster.

In a dry run kube-scheduler counts: a claim in use is one, however many pods use it, and each pod that goes takes one
off for each of its volumes that names a claim so, in whatever namespace. That decides who is evicted where several pods
use such a claim, so it is counted like that here.

Tests: tests/conformance/test_decisions.py, tests/conformance/test_volume_sequences.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugin_kit import plugin_context, volumes_claims, volumes_index, volumes_objects
from trireme.plugins.volume_restrictions.spec import SPEC
from trireme.snapshot import arrays, classes, snapshot_view
from trireme.v1 import core_pb2

_DISK_CONFLICT = "node(s) had no available disk"
_CLAIM_CONFLICT = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class _FilterState:
    """What Filter goes by.

    `disks`: the pod has disks that conflict; `exclusive` are its ReadWriteOncePod claims, and `in_use` how many of
    these are used, without a dry run's changes.
    """

    disks: bool
    exclusive: frozenset[str]
    in_use: int


class VolumeRestrictions:
    """The filter of VolumeRestrictions: disks and ReadWriteOncePod claims that another pod uses."""

    name = SPEC.name
    depends_on = interfaces.Dependency.CLUSTER
    ignores_requests: Literal[True] = True
    ignores_node_affinity: Literal[True] = True
    reads: tuple[str, ...] = (volumes_claims.CLAIM,)

    def __init__(self) -> None:
        self._disk_conflict = status.unschedulable(self.name, _DISK_CONFLICT, reasons=(status.Reason("disk"),))
        self._claim_conflict = status.unschedulable(self.name, _CLAIM_CONFLICT, reasons=(status.Reason("claimInUse"),))

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot_view.SnapshotView, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        """Refuse where a claim is missing; skip where the pod has no disk and none of its exclusive claims is in use.

        Pods with an exclusive claim (ReadWriteOncePod) are placed one at a time, even if skipped.
        """
        exclusive = set()
        for use in volumes_claims.claims_of(pod_class):
            if use.ephemeral:
                continue
            claim = volumes_claims.find_claim(snap, pod_class.namespace, use.name)
            if claim is None:
                missing = status.unresolvable(
                    self.name,
                    volumes_objects.claim_not_found(use.name),
                    reasons=(status.Reason.of("claimNotFound", {"claim": use.name}),),
                )
                return interfaces.PreFilterResult(status=missing)
            if volumes_objects.READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(use.name)
        disks = any(volumes_index.has_disk(volume.volume_source) for volume in pod_class.pod.spec.volumes)
        max_batch = 1 if exclusive else 0
        in_use = sum(_is_claim_in_use(pod_class.namespace, claim, snap) for claim in exclusive)
        if not disks and not in_use:
            return interfaces.PreFilterResult(skip=True, max_batch=max_batch)
        return interfaces.PreFilterResult(state=_FilterState(disks, frozenset(exclusive), in_use), max_batch=max_batch)

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Refuse slots with a conflicting disk, and all slots where a claim is in use, in this order."""
        return self._verdicts(pod_class, snap, state, slots, table, np.sum)

    def filter_isolated(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """As filter, of each slot with the claims that are in use but for the changes on the slot itself."""
        decided = self.pre_filter(pod_class, snap, table)
        if decided.status is not None:
            return interfaces.Verdicts(np.full(slots.shape[0], table.intern(decided.status), dtype=np.int16))
        if decided.skip:
            return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
        return self._verdicts(pod_class, snap, decided.state, slots, table, lambda changes: changes[slots])

    def _verdicts(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
        seen: Callable[[arrays.Int64Array], Any],
    ) -> interfaces.Verdicts:
        """Refuse every slot if an exclusive claim is in use, and slots with a pod whose disk conflicts.

        `seen`: what each slot sees of the changes to all slots. Shapes: both (slot,).
        """
        assert isinstance(state, _FilterState)
        index = np.zeros(slots.shape[0], dtype=np.int16)
        if state.exclusive:
            index[state.in_use + seen(_change_in_claim_users(state.exclusive, snap)) > 0] = table.intern(
                self._claim_conflict
            )
        if not state.disks:
            return interfaces.Verdicts(index)
        conflicting = [
            class_id
            for class_id in volumes_index.volume_index_of(snap).classes_with_disks()
            if disks_conflict(pod_class.pod, snap.classes[class_id].pod)
        ]
        taken = snap.count_pods(snap.class_mask(conflicting))[slots] > 0
        index[taken] = table.intern(self._disk_conflict)
        if not disks_conflict(pod_class.pod, pod_class.pod):
            return interfaces.Verdicts(index)
        return interfaces.Verdicts(index, np.ones(slots.shape[0], dtype=np.int32))


def _is_claim_in_use(namespace: str, claim: str, snap: snapshot_view.SnapshotView) -> bool:
    """Return whether a placed pod uses the claim, as without the overlay's changes."""
    users = snap.class_mask(volumes_index.volume_index_of(snap).classes_naming_claim(namespace, claim))
    if not users.any():
        return False
    counted = snap if snap.dry_run is None else snap.base
    return bool(counted.count_pods(users).any())


def _change_in_claim_users(exclusive: frozenset[str], snap: snapshot_view.SnapshotView) -> arrays.Int64Array:
    """Return how many users of these claims a dry run adds on each slot, less those it removes. Shape: (slot,)."""
    none = np.zeros(snap.nodes.size, dtype=np.int64)
    if snap.dry_run is None:
        return none
    weights = np.zeros(snap.class_capacity, dtype=np.int64)
    for class_id in snap.dry_run.classes:
        used_by = snap.classes[class_id]
        uses = volumes_claims.claims_of(used_by)
        weights[used_by.index] = sum(not use.ephemeral and use.name in exclusive for use in uses)
    return snap.dry_run.adjusted(none, weights, live_only=False)


def disks_conflict(wanted: core_pb2.Pod, placed: core_pb2.Pod) -> bool:
    """Whether a pod on the same node has one of the wanted pod's disks in a way that excludes it."""
    return any(
        _sources_conflict(mine.volume_source, theirs.volume_source)
        for mine in wanted.spec.volumes
        for theirs in placed.spec.volumes
    )


def _sources_conflict(mine: core_pb2.VolumeSource, theirs: core_pb2.VolumeSource) -> bool:
    """Whether both are the same disk and two pods of a node must not have it.

    They may have a disk of GCE, iSCSI or RBD if both only read it.
    """
    if mine.HasField("gce_persistent_disk") and theirs.HasField("gce_persistent_disk"):
        disk, other = mine.gce_persistent_disk, theirs.gce_persistent_disk
        return disk.pd_name == other.pd_name and not (disk.read_only and other.read_only)
    if mine.HasField("aws_elastic_block_store") and theirs.HasField("aws_elastic_block_store"):
        return mine.aws_elastic_block_store.volume_id == theirs.aws_elastic_block_store.volume_id
    if mine.HasField("iscsi") and theirs.HasField("iscsi"):
        return mine.iscsi.iqn == theirs.iscsi.iqn and not (mine.iscsi.read_only and theirs.iscsi.read_only)
    if mine.HasField("rbd") and theirs.HasField("rbd"):
        image, known = mine.rbd, theirs.rbd
        same = (image.pool, image.image) == (known.pool, known.image) and set(image.monitors) & set(known.monitors)
        return bool(same) and not (image.read_only and known.read_only)
    return False


def make(context: plugin_context.PluginContext) -> VolumeRestrictions:
    """Make the plugin, which depends on nothing in its profile."""
    return VolumeRestrictions()
