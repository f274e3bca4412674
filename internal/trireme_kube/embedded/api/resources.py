"""The table of resources: one row per resource that the embedded API server serves.

Everything generic (routing, discovery, storage, selectors, tables) reads this table; what is particular to a kind
(defaults, validation, columns) is looked up by the row's `key` in the module of that concern. Adding a resource
means adding a row.

Also change: internal/trireme_kube/client/informers/resources.py,
internal/trireme/cache/object_kinds.py (the kinds and their paths).
Also change: docs/embedded-cluster.md.
Also change: internal/trireme_kube/embedded/registry/subresources.py (subresources with rules of their own).

Tests: tests/unit/embedded/registry/test_registry.py, tests/unit/embedded/controllers/test_custom_resources.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as JSON has it; never changed once stored."""

STATUS = "status"
SCALE = "scale"


@dataclass(frozen=True, slots=True)
class PrintedColumn:
    """A column of a custom resource's table, as its definition has it."""

    name: str
    type: str
    path: str
    """JSONPath of the value."""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a resource stores the numbers of its scale; JSONPath without wildcards."""

    replicas: str = ".spec.replicas"
    reported: str = ".status.replicas"
    selector: str = ""
    """The selector as a text in the notation of query parameters; empty where `spec.selector` is a label selector."""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One row: how a resource is named, and which of the API server's general behaviours apply to it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    """Subresources that a real cluster has, answered with 501 here."""
    fields: tuple[str, ...] = ()
    """Field selectors beyond metadata.name and metadata.namespace."""
    counts_generations: bool = False
    """metadata.generation starts at 1 and grows with each change of anything but metadata and status."""
    keeps_status: bool = False
    """A status in the body of a create is stored instead of dropped."""
    status_keeps_metadata: bool = False
    """A write to /status leaves labels and annotations alone."""
    returns_deleted: bool = False
    """DELETE answers the object instead of a Status."""
    created_by_update: bool = False
    """PUT to a name that does not exist creates it."""
    needs_version: bool = False
    """PUT without a resourceVersion is refused."""
    view_of: str = ""
    """Key of the resource that stores the objects, where this row only shows them in another group's form."""
    limit: int = 0
    """The oldest objects go beyond this number; 0 is no limit."""
    optional: bool = False
    """Served only where the cluster was told to, like an API that is off by default in the real server."""
    custom: bool = False
    """Defined by a CustomResourceDefinition, and stored without a schema."""
    storage: Resource | None = None
    """What stores the objects of a custom resource; None for that itself."""
    singular_name: str = ""
    list_name: str = ""
    printed: tuple[PrintedColumn, ...] = ()
    scale_paths: ScalePaths = ScalePaths()
    schema: Mapping[str, Any] | None = None
    """OpenAPI schema of a custom resource, shown to clients."""
    key: str = field(init=False)
    """plural.group, as in messages; just the plural in the core group."""
    api_version: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", f"{self.plural}.{self.group}" if self.group else self.plural)
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)

    @property
    def singular(self) -> str:
        """The singular name that `kubectl` accepts."""
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        """The kind of the list."""
        return self.list_name or f"{self.kind}List"

    @property
    def is_view(self) -> bool:
        """Whether the objects are stored as another resource."""
        return bool(self.view_of) or self.storage is not None

    def __str__(self) -> str:
        return self.key

    @property
    def has_status(self) -> bool:
        """Whether status is written through a subresource of its own."""
        return STATUS in self.subresources


# Kubernetes drops events after an hour; here the oldest are dropped beyond this number.
MAX_EVENTS = 20_000

_ALL = ("all",)
_EVENT_FIELDS = (
    *(f"involvedObject.{part}" for part in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion")),
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_DEVICES = "resource.k8s.io"

RESOURCES: tuple[Resource, ...] = (
    Resource(
        "", "v1", "pods", "Pod", short=("po",), categories=_ALL,
        subresources=(STATUS, "binding", "eviction", "ephemeralcontainers", "resize", "log"), fields=_POD_FIELDS,
        unserved=("attach", "exec", "portforward", "proxy"),
        counts_generations=True, returns_deleted=True,
    ),
    Resource(
        "", "v1", "nodes", "Node", namespaced=False, short=("no",), subresources=(STATUS,), unserved=("proxy",),
        fields=("spec.unschedulable",), keeps_status=True,
    ),
    Resource(
        "", "v1", "namespaces", "Namespace", namespaced=False, short=("ns",), subresources=(STATUS, "finalize"),
        fields=("status.phase",), returns_deleted=True,
    ),
    Resource(
        "", "v1", "events", "Event", short=("ev",), fields=_EVENT_FIELDS, created_by_update=True, limit=MAX_EVENTS,
    ),
    Resource("", "v1", "configmaps", "ConfigMap", short=("cm",)),
    Resource("", "v1", "secrets", "Secret", fields=("type",)),
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short=("sa",), unserved=("token",), returns_deleted=True),
    Resource(
        "", "v1", "services", "Service", short=("svc",), categories=_ALL, subresources=(STATUS,), unserved=("proxy",),
        fields=("spec.clusterIP", "spec.type"), returns_deleted=True, created_by_update=True,
    ),
    Resource("", "v1", "endpoints", "Endpoints", short=("ep",), created_by_update=True),
    Resource(
        "", "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short=("pv",), subresources=(STATUS,),
        returns_deleted=True,
    ),
    Resource(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short=("pvc",), subresources=(STATUS,),
        returns_deleted=True,
    ),
    Resource(
        "", "v1", "replicationcontrollers", "ReplicationController", short=("rc",), categories=_ALL,
        subresources=(STATUS, SCALE), fields=("status.replicas",), counts_generations=True,
    ),
    Resource(
        "", "v1", "resourcequotas", "ResourceQuota", short=("quota",), subresources=(STATUS,), returns_deleted=True,
    ),
    Resource("", "v1", "limitranges", "LimitRange", short=("limits",), created_by_update=True),
    Resource(
        "apps", "v1", "deployments", "Deployment", short=("deploy",), categories=_ALL, subresources=(STATUS, SCALE),
        counts_generations=True,
    ),
    Resource(
        "apps", "v1", "replicasets", "ReplicaSet", short=("rs",), categories=_ALL, subresources=(STATUS, SCALE),
        fields=("status.replicas",), counts_generations=True,
    ),
    Resource(
        "apps", "v1", "statefulsets", "StatefulSet", short=("sts",), categories=_ALL, subresources=(STATUS, SCALE),
        counts_generations=True,
    ),
    Resource(
        "apps", "v1", "daemonsets", "DaemonSet", short=("ds",), categories=_ALL, subresources=(STATUS,),
        counts_generations=True,
    ),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision"),
    Resource(
        "batch", "v1", "jobs", "Job", categories=_ALL, subresources=(STATUS,), fields=("status.successful",),
        counts_generations=True,
    ),
    Resource(
        "batch", "v1", "cronjobs", "CronJob", short=("cj",), categories=_ALL, subresources=(STATUS,),
        counts_generations=True,
    ),
    Resource(
        "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short=("pdb",), subresources=(STATUS,),
        counts_generations=True, needs_version=True,
    ),
    Resource(
        "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", short=("hpa",), categories=_ALL,
        subresources=(STATUS,), counts_generations=True,
    ),
    Resource(
        _STORAGE, "v1", "storageclasses", "StorageClass", namespaced=False, short=("sc",), returns_deleted=True,
    ),
    Resource(_STORAGE, "v1", "csinodes", "CSINode", namespaced=False, returns_deleted=True, needs_version=True),
    Resource(_STORAGE, "v1", "csidrivers", "CSIDriver", namespaced=False, returns_deleted=True, needs_version=True),
    Resource(_STORAGE, "v1", "csistoragecapacities", "CSIStorageCapacity", needs_version=True),
    Resource(
        _STORAGE, "v1", "volumeattachments", "VolumeAttachment", namespaced=False, subresources=(STATUS,),
        status_keeps_metadata=True, returns_deleted=True, needs_version=True,
    ),
    Resource(
        _DEVICES, "v1", "deviceclasses", "DeviceClass", namespaced=False, counts_generations=True,
        returns_deleted=True,
    ),
    Resource(
        _DEVICES, "v1", "resourceslices", "ResourceSlice", namespaced=False,
        fields=("spec.nodeName", "spec.driver", "spec.pool.name"), counts_generations=True, returns_deleted=True,
    ),
    Resource(
        _DEVICES, "v1", "resourceclaims", "ResourceClaim", subresources=(STATUS,), status_keeps_metadata=True,
        returns_deleted=True,
    ),
    Resource(_DEVICES, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", returns_deleted=True),
    Resource(
        _DEVICES, "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False, subresources=(STATUS,),
        status_keeps_metadata=True, counts_generations=True,
    ),
    Resource(
        "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False, short=("pc",),
        counts_generations=True,
    ),
    Resource(
        "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", subresources=(STATUS,), status_keeps_metadata=True,
        needs_version=True, optional=True,
    ),
    Resource(
        "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", subresources=(STATUS,),
        status_keeps_metadata=True, needs_version=True, optional=True,
    ),
    Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload", needs_version=True, optional=True),
    Resource("coordination.k8s.io", "v1", "leases", "Lease", created_by_update=True, needs_version=True),
    Resource(
        "events.k8s.io", "v1", "events", "Event", short=("ev",), created_by_update=True, view_of="events",
        fields=tuple(
            one.replace("involvedObject.", "regarding.").replace("reportingComponent", "reportingController")
            for one in _EVENT_FIELDS if one != "source"
        ),
    ),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", counts_generations=True),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", short=("netpol",), counts_generations=True),
    Resource(
        "networking.k8s.io", "v1", "ingresses", "Ingress", short=("ing",), subresources=(STATUS,),
        counts_generations=True,
    ),
    Resource(
        "networking.k8s.io", "v1", "ingressclasses", "IngressClass", namespaced=False, counts_generations=True,
    ),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False, counts_generations=True),
    Resource(
        "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False,
        short=("csr",), subresources=(STATUS, "approval"), fields=("spec.signerName",),
    ),
    Resource(
        "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False,
        short=("crd", "crds"), categories=("api-extensions",), subresources=(STATUS,), counts_generations=True,
        returns_deleted=True,
    ),
    Resource(_RBAC, "v1", "roles", "Role", created_by_update=True),
    Resource(_RBAC, "v1", "rolebindings", "RoleBinding", created_by_update=True),
    Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False, created_by_update=True),
    Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False, created_by_update=True),
)  # fmt: skip

BY_KEY: dict[str, Resource] = {resource.key: resource for resource in RESOURCES}
BY_KIND: dict[tuple[str, str], Resource] = {(one.api_version, one.kind): one for one in RESOURCES}


def stored_as(resource: Resource) -> Resource:
    """The resource that stores the objects of this one: itself, except for views in another group or version."""
    if resource.storage is not None:
        return resource.storage
    return BY_KEY[resource.view_of] if resource.view_of else resource


PODS = BY_KEY["pods"]
NODES = BY_KEY["nodes"]
NAMESPACES = BY_KEY["namespaces"]
LEASES = BY_KEY["leases.coordination.k8s.io"]
EVENTS = BY_KEY["events"]
SERVICE_ACCOUNTS = BY_KEY["serviceaccounts"]
