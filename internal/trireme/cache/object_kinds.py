"""The kinds of object that plugins read beside pods and nodes.

For each: how it is watched, decoded, streamed, and registered for.

Also change: sdk/rust/src/objects.rs (the fields of ClusterObject).
Also change: internal/trireme_kube/client/informers/resources.py,
internal/trireme_kube/embedded/api/resources.py (the kinds and their paths).
Also change: protos/trireme/v1/core.proto (the messages).
Also change: protos/trireme/v1/apps.proto (the messages).
Also change: protos/trireme/v1/policy.proto (the messages).
Also change: protos/trireme/v1/storage.proto (the messages).
Also change: protos/trireme/v1/scheduling.proto (the messages).
Also change: protos/trireme/v1/resource.proto (the messages).

Tests: tests/conformance/test_decisions.py.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from google.protobuf import message

from trireme.framework import cluster_event
from trireme.v1 import apps_pb2, core_pb2, meta_pb2, policy_pb2, resource_pb2, scheduling_pb2, storage_pb2
from trireme_kube.client.informers import resources

Resource = cluster_event.Resource


def _no_keys(entry: Any) -> Iterable[str]:
    """The label keys by which objects of a kind without selector select pods: none."""
    return ()


def _selector_map_keys(entry: Any) -> Iterable[str]:
    """The label keys of an object whose `spec.selector` is a plain map of labels, such as a Service."""
    return entry.spec.selector.keys()


def _selector_keys(entry: Any) -> Iterable[str]:
    """The label keys of an object whose `spec.selector` is a LabelSelector, such as a ReplicaSet."""
    selector: meta_pb2.LabelSelector = entry.spec.selector
    return {*selector.match_labels, *(expression.key for expression in selector.match_expressions)}


@dataclass(frozen=True, slots=True)
class ObjectKind:
    """One kind. `selected_keys` are the label keys by which an object of it selects pods."""

    watched: resources.Resource
    message: type[message.Message]
    # Its field in trireme.v1.ClusterObject.object.
    field: str
    # The resource that plugins register events of; empty: none do.
    event: str = ""
    selected_keys: Callable[[Any], Iterable[str]] = _no_keys
    # It is watched only if all of these feature gates are on.
    gates: tuple[str, ...] = ()


KINDS = (
    ObjectKind(resources.NAMESPACES, core_pb2.Namespace, "namespace", Resource.NAMESPACE),
    ObjectKind(resources.SERVICES, core_pb2.Service, "service", selected_keys=_selector_map_keys),
    ObjectKind(
        resources.REPLICATION_CONTROLLERS,
        core_pb2.ReplicationController,
        "replication_controller",
        selected_keys=_selector_map_keys,
    ),
    ObjectKind(resources.REPLICA_SETS, apps_pb2.ReplicaSet, "replica_set", selected_keys=_selector_keys),
    ObjectKind(resources.STATEFUL_SETS, apps_pb2.StatefulSet, "stateful_set", selected_keys=_selector_keys),
    ObjectKind(
        resources.POD_DISRUPTION_BUDGETS,
        policy_pb2.PodDisruptionBudget,
        "pod_disruption_budget",
        selected_keys=_selector_keys,
    ),
    ObjectKind(
        resources.PERSISTENT_VOLUMES, core_pb2.PersistentVolume, "persistent_volume", Resource.PERSISTENT_VOLUME
    ),
    ObjectKind(
        resources.PERSISTENT_VOLUME_CLAIMS,
        core_pb2.PersistentVolumeClaim,
        "persistent_volume_claim",
        Resource.PERSISTENT_VOLUME_CLAIM,
    ),
    ObjectKind(resources.STORAGE_CLASSES, storage_pb2.StorageClass, "storage_class", Resource.STORAGE_CLASS),
    ObjectKind(resources.CSI_NODES, storage_pb2.CSINode, "csi_node", Resource.CSI_NODE),
    ObjectKind(resources.CSI_DRIVERS, storage_pb2.CSIDriver, "csi_driver", Resource.CSI_DRIVER),
    ObjectKind(
        resources.CSI_STORAGE_CAPACITIES,
        storage_pb2.CSIStorageCapacity,
        "csi_storage_capacity",
        Resource.CSI_STORAGE_CAPACITY,
    ),
    ObjectKind(
        resources.VOLUME_ATTACHMENTS, storage_pb2.VolumeAttachment, "volume_attachment", Resource.VOLUME_ATTACHMENT
    ),
    ObjectKind(resources.RESOURCE_SLICES, resource_pb2.ResourceSlice, "resource_slice", Resource.RESOURCE_SLICE),
    ObjectKind(resources.RESOURCE_CLAIMS, resource_pb2.ResourceClaim, "resource_claim", Resource.RESOURCE_CLAIM),
    ObjectKind(resources.DEVICE_CLASSES, resource_pb2.DeviceClass, "device_class", Resource.DEVICE_CLASS),
    ObjectKind(
        resources.DEVICE_TAINT_RULES,
        resource_pb2.DeviceTaintRule,
        "device_taint_rule",
        gates=("DRADeviceTaints", "DRADeviceTaintRules"),
    ),
    ObjectKind(
        resources.POD_GROUPS, scheduling_pb2.PodGroup, "pod_group", Resource.POD_GROUP, gates=("GenericWorkload",)
    ),
    ObjectKind(
        resources.COMPOSITE_POD_GROUPS,
        scheduling_pb2.CompositePodGroup,
        "composite_pod_group",
        Resource.COMPOSITE_POD_GROUP,
        gates=("CompositePodGroup",),
    ),
)
