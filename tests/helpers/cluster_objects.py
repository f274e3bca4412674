"""Objects of the kinds that the snapshot has, from JSON."""

from typing import Any

from trireme.cache import class_registry, object_kinds
from trireme.v1 import snapshot_pb2
from trireme_kube.apimachinery import decode

KINDS = {kind.message.DESCRIPTOR.name: kind for kind in object_kinds.KINDS}


def to_cluster_object(raw: dict[str, Any], registry: class_registry.ClassRegistry) -> snapshot_pb2.ClusterObject:
    """The object as the cache takes it. Pods are told apart by the labels that it selects from now on."""
    kind = KINDS[raw["kind"]]
    message = decode.decode(raw, kind.message)
    registry.add_selector_keys(kind.selected_keys(message))
    made = snapshot_pb2.ClusterObject()
    getattr(made, kind.field).CopyFrom(message)
    return made
