"""Claims and volumes as single objects: their storage class, what they are bound to, how large they are.

It needs no snapshot and no arrays, so that bind, which reads single objects, can use it too. Error texts are those of
kube-scheduler's listers.
Source: k8s.io/component-helpers/storage.

Also change: internal/trireme_kube/embedded/controllers/persistent_volumes.py (annotations of volumes).

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import quantity

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


def claim_of_volume(pod: core_pb2.Pod, volume: core_pb2.Volume) -> ClaimUse | None:
    """The claim behind one volume of the pod, None where there is none."""
    source = volume.volume_source
    if source.HasField("persistent_volume_claim"):
        return ClaimUse(source.persistent_volume_claim.claim_name)
    if source.HasField("ephemeral"):
        return ClaimUse(f"{pod.metadata.name}-{volume.name}", ephemeral=True)
    return None


def claim_not_found(name: str) -> str:
    """The lister's error for a claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def not_owner(pod: core_pb2.Pod, claim: core_pb2.PersistentVolumeClaim) -> str:
    """Why the claim is not the one that was made for the pod's ephemeral volume; empty where it is."""
    controllers = [owner.uid for owner in claim.metadata.owner_references if owner.controller]
    if controllers[:1] == [pod.metadata.uid] and claim.metadata.namespace == pod.metadata.namespace:
        return ""
    wanted = f"pod {pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"
    return f"PVC {claim.metadata.namespace}/{claim.metadata.name} was not created for {wanted}"


def storage_class_of_claim(claim: core_pb2.PersistentVolumeClaim) -> str:
    """The name of the storage class that the claim asks for; empty: none."""
    annotated = claim.metadata.annotations.get(_OLD_STORAGE_CLASS)
    return claim.spec.storage_class_name if annotated is None else annotated


def storage_class_of_volume(volume: core_pb2.PersistentVolume) -> str:
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
