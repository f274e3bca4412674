"""Claims as all volume plugins read them: which of them a class uses, their storage class, and whether they are bound.

A pod names a claim, or has one made for it (a generic ephemeral volume, whose claim is named after the pod and must be
owned by it). Everything here asks about single objects; what needs all volumes or all nodes is in the other `volumes_…`
modules. Error texts are those of kube-scheduler's listers.
Source: k8s.io/component-helpers/storage.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trireme.framework import quantity
from trireme.snapshot import classes, snapshot
from trireme.v1 import core_pb2, meta_pb2, storage_pb2

CLAIM = "persistent_volume_claim"
VOLUME = "persistent_volume"
STORAGE_CLASS = "storage_class"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_OLD_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """One claim that pods of a class use; `ephemeral`: it is made for the pod."""

    name: str
    ephemeral: bool = False


def claims_of(pod_class: classes.PodClass) -> tuple[ClaimUse, ...]:
    """The claims that a class uses, in the order of its volumes; one that two volumes name is there twice."""

    def derive(of: classes.PodClass) -> tuple[ClaimUse, ...]:
        uses = (claim_use(of.pod, volume) for volume in of.pod.spec.volumes)
        return tuple(use for use in uses if use is not None)

    return pod_class.memo("volumes/claims", derive)


def claim_use(pod: core_pb2.Pod, volume: core_pb2.Volume) -> ClaimUse | None:
    """The claim behind one volume of the pod, None where there is none."""
    source = volume.volume_source
    if source.HasField("persistent_volume_claim"):
        return ClaimUse(source.persistent_volume_claim.claim_name)
    if source.HasField("ephemeral"):
        return ClaimUse(f"{pod.metadata.name}-{volume.name}", ephemeral=True)
    return None


def find_claim(snap: snapshot.Snapshot, namespace: str, name: str) -> core_pb2.PersistentVolumeClaim | None:
    """The claim as it is assumed to be."""
    found: core_pb2.PersistentVolumeClaim | None = snap.objects.get(CLAIM, namespace, name)
    return found


def find_volume(snap: snapshot.Snapshot, name: str) -> core_pb2.PersistentVolume | None:
    """The volume as it is assumed to be."""
    found: core_pb2.PersistentVolume | None = snap.objects.get(VOLUME, "", name)
    return found


def find_storage_class(snap: snapshot.Snapshot, name: str) -> storage_pb2.StorageClass | None:
    """The storage class."""
    found: storage_pb2.StorageClass | None = snap.objects.get(STORAGE_CLASS, "", name)
    return found


def claim_not_found(name: str) -> str:
    """What the lister says of a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def not_owner(pod: core_pb2.Pod, claim: core_pb2.PersistentVolumeClaim) -> str:
    """Why the claim is not the one made for the pod; empty where it is."""
    controllers = [owner.uid for owner in claim.metadata.owner_references if owner.controller]
    if controllers[:1] == [pod.metadata.uid] and claim.metadata.namespace == pod.metadata.namespace:
        return ""
    wanted = f"pod {pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"
    return f"PVC {claim.metadata.namespace}/{claim.metadata.name} was not created for {wanted}"


def class_of_claim(claim: core_pb2.PersistentVolumeClaim) -> str:
    """The name of the storage class that the claim asks for; empty: none."""
    annotated = claim.metadata.annotations.get(_OLD_STORAGE_CLASS)
    return claim.spec.storage_class_name if annotated is None else annotated


def class_of_volume(volume: core_pb2.PersistentVolume) -> str:
    """The name of the volume's storage class; empty: none."""
    annotated = volume.metadata.annotations.get(_OLD_STORAGE_CLASS)
    return volume.spec.storage_class_name if annotated is None else annotated


def fully_bound(claim: core_pb2.PersistentVolumeClaim) -> bool:
    """Whether the claim has its volume, and the volume the claim."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def bound_to(volume: core_pb2.PersistentVolume, claim: core_pb2.PersistentVolumeClaim) -> bool:
    """Whether the volume is meant for the claim: by its name, and by its UID if that is stated."""
    if not volume.spec.HasField("claim_ref"):
        return False
    stated = volume.spec.claim_ref
    if (stated.namespace, stated.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return not stated.uid or stated.uid == claim.metadata.uid


def storage_size(amounts: Mapping[str, meta_pb2.Quantity]) -> quantity.Quantity | None:
    """The amount of storage among these; zero where none is stated, None where it cannot be read."""
    stated = amounts.get("storage")
    if stated is None or not stated.string:
        return quantity.Quantity(0)
    try:
        return quantity.parse_quantity(stated.string)
    except ValueError:
        return None
