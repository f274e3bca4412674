"""The collections of the API that the scheduler watches.

One frozen record per collection: its path, which of its objects matter, and whether the scheduler can do without it.
The list is kube-scheduler's.
Source: the informers of kube-scheduler v1.37.0.

Also change: internal/trireme_kube/embedded/api/resources.py,
internal/trireme/cache/object_kinds.py (the kinds and their paths).
Also change: deploy/chart/templates/roles/_roles.tpl, deploy/chart/templates/roles/frontend.yaml,
deploy/chart/templates/roles/bind.yaml, deploy/chart/templates/shadow-roles.yaml (the rights of readers and of bind).
Also change: protos/trireme/v1/apps.proto (the messages).
Also change: protos/trireme/v1/policy.proto (the messages).
Also change: protos/trireme/v1/storage.proto (the messages).
Also change: protos/trireme/v1/scheduling.proto (the messages).
Also change: protos/trireme/v1/resource.proto (the messages).

Tests: tests/unit/client/informers/test_pages.py.
"""

import dataclasses

# Terminated pods use no resources of a node; this makes the API server leave them out.
ACTIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """One collection of objects.

    `optional`: if the API server does not serve it, it counts as empty, and informers check for it now and then.
    `purpose`: what an optional collection is for, which does not happen where it is not served.
    `earlier_path`: that of an earlier version of the API, for servers without this one; its objects have these fields.
    `page`: how many objects the first page has, until their size is known.
    """

    kind: str
    path: str
    field_selector: str = ""
    label_selector: str = ""
    optional: bool = False
    purpose: str = ""
    earlier_path: str = ""
    page: int = 500

    @property
    def name(self) -> str:
        """The plural name, as in the path."""
        return self.path.rpartition("/")[2]

    @property
    def api(self) -> str:
        """Group, version and plural, such as `resource.k8s.io/v1/deviceclasses`; of core without a group."""
        group, _, _ = self.path.removeprefix("/apis/").removeprefix("/api/").partition("/namespaces/")
        return group if group.endswith(f"/{self.name}") else f"{group}/{self.name}"

    def versions(self) -> tuple["Resource", ...]:
        """The collection in this version of the API and in the earlier one, if there is one; tried in this order."""
        return (self, dataclasses.replace(self, path=self.earlier_path)) if self.earlier_path else (self,)

    def path_in(self, namespace: str) -> str:
        """The path of the objects in one namespace."""
        group, _, plural = self.path.rpartition("/")
        return f"{group}/namespaces/{namespace}/{plural}"

    def selectors(self) -> dict[str, str | int]:
        """The request parameters that select the objects that matter."""
        selectors = (("fieldSelector", self.field_selector), ("labelSelector", self.label_selector))
        return {name: selector for name, selector in selectors if selector}


PODS = Resource("Pod", "/api/v1/pods", field_selector=ACTIVE_PODS)
NODES = Resource("Node", "/api/v1/nodes", page=250)
NAMESPACES = Resource("Namespace", "/api/v1/namespaces")
SERVICES = Resource("Service", "/api/v1/services")
REPLICATION_CONTROLLERS = Resource("ReplicationController", "/api/v1/replicationcontrollers")
REPLICA_SETS = Resource("ReplicaSet", "/apis/apps/v1/replicasets")
STATEFUL_SETS = Resource("StatefulSet", "/apis/apps/v1/statefulsets")
POD_DISRUPTION_BUDGETS = Resource("PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets")
PERSISTENT_VOLUMES = Resource("PersistentVolume", "/api/v1/persistentvolumes")
PERSISTENT_VOLUME_CLAIMS = Resource("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims")
STORAGE_CLASSES = Resource("StorageClass", "/apis/storage.k8s.io/v1/storageclasses")
CSI_NODES = Resource("CSINode", "/apis/storage.k8s.io/v1/csinodes")
CSI_DRIVERS = Resource("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers")
CSI_STORAGE_CAPACITIES = Resource("CSIStorageCapacity", "/apis/storage.k8s.io/v1/csistoragecapacities")
VOLUME_ATTACHMENTS = Resource("VolumeAttachment", "/apis/storage.k8s.io/v1/volumeattachments")
_DEVICES = "dynamic resource allocation"
RESOURCE_SLICES = Resource(
    "ResourceSlice", "/apis/resource.k8s.io/v1/resourceslices", optional=True, purpose=_DEVICES, page=250
)
RESOURCE_CLAIMS = Resource("ResourceClaim", "/apis/resource.k8s.io/v1/resourceclaims", optional=True, purpose=_DEVICES)
DEVICE_CLASSES = Resource("DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses", optional=True, purpose=_DEVICES)
DEVICE_TAINT_RULES = Resource(
    "DeviceTaintRule",
    "/apis/resource.k8s.io/v1/devicetaintrules",
    optional=True,
    purpose="taints of devices by DeviceTaintRules",
)
POD_GROUPS = Resource("PodGroup", "/apis/scheduling.k8s.io/v1beta1/podgroups", optional=True, purpose="pod groups")
COMPOSITE_POD_GROUPS = Resource(
    "CompositePodGroup",
    "/apis/scheduling.k8s.io/v1beta1/compositepodgroups",
    optional=True,
    purpose="groups of pod groups",
    earlier_path="/apis/scheduling.k8s.io/v1alpha3/compositepodgroups",
)

# What the default configuration watches.
DEFAULT = (
    PODS,
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
    RESOURCE_SLICES,
    RESOURCE_CLAIMS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
)
