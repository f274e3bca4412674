"""Finding claims, volumes and storage classes in the snapshot, and which claims a class uses.

A pod names a claim, or has one made for it (a generic ephemeral volume, whose claim is named after the pod and must be
owned by it).

Tests: tests/unit/plugin_kit/test_volumes_matching.py.
"""

from trireme.plugin_kit import volumes_objects
from trireme.snapshot import classes, snapshot_view
from trireme.v1 import core_pb2, storage_pb2

CLAIM = "persistent_volume_claim"
VOLUME = "persistent_volume"
STORAGE_CLASS = "storage_class"


def claims_of(pod_class: classes.PodClass) -> tuple[volumes_objects.ClaimUse, ...]:
    """The claims that a class uses, in the order of its volumes; one that two volumes name is there twice."""

    def find_claim_uses(of: classes.PodClass) -> tuple[volumes_objects.ClaimUse, ...]:
        uses = (volumes_objects.claim_of_volume(of.pod, volume) for volume in of.pod.spec.volumes)
        return tuple(use for use in uses if use is not None)

    return pod_class.memo("volumes/claims", find_claim_uses)


def find_claim(snap: snapshot_view.SnapshotView, namespace: str, name: str) -> core_pb2.PersistentVolumeClaim | None:
    """The claim, with what the scheduler has assumed about it; None where there is none."""
    found: core_pb2.PersistentVolumeClaim | None = snap.objects.get(CLAIM, namespace, name)
    return found


def find_volume(snap: snapshot_view.SnapshotView, name: str) -> core_pb2.PersistentVolume | None:
    """The volume, with what the scheduler has assumed about it; None where there is none."""
    found: core_pb2.PersistentVolume | None = snap.objects.get(VOLUME, "", name)
    return found


def find_storage_class(snap: snapshot_view.SnapshotView, name: str) -> storage_pb2.StorageClass | None:
    """The storage class."""
    found: storage_pb2.StorageClass | None = snap.objects.get(STORAGE_CLASS, "", name)
    return found
