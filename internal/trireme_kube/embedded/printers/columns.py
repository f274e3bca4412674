"""The columns of each resource's table, and how each cell is read from an object.

Names, order and contents follow the API server's, so that output of `kubectl get` looks as people and scripts know it.
Resources without an entry get the name and the age. Source: k8s.io/kubernetes, pkg/printers/internalversion.

Tests: tests/unit/embedded/printers/test_tables.py.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trireme_kube.apimachinery import human_durations
from trireme_kube.embedded.api.resources import Object, PrintedColumn, Resource
from trireme_kube.embedded.api.timestamps import parse_timestamp
from trireme_kube.embedded.printers import ages
from trireme_kube.embedded.printers.pod_cells import ready_cell, restarts_cell, status_cell
from trireme_kube.embedded.registry.subresources import selector_text

Cell = Callable[[Object, float], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False
    """Shown with `-o wide` only."""
    description: str = ""


def value_at(obj: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path, or `default` where a part is missing."""
    for part in path.split("."):
        if not isinstance(obj, dict):
            return default
        obj = obj.get(part)
    return default if obj is None else obj


def _text_column(name: str, path: str, default: str = "", *, wide: bool = False) -> Column:
    return Column(name, lambda obj, now: str(value_at(obj, path, default)), wide=wide)


def _number_column(name: str, path: str) -> Column:
    """A column with the number at the path; 0 if it is missing."""
    return Column(name, lambda obj, now: value_at(obj, path, 0), "integer")


def _flag_column(name: str, path: str) -> Column:
    return Column(name, lambda obj, now: bool(value_at(obj, path, False)), "boolean")


def _age_column(name: str, path: str) -> Column:
    """A column with the time since the moment at the path."""
    return Column(name, lambda obj, now: ages.age_text(value_at(obj, path), now))


def _count_column(name: str, path: str) -> Column:
    return Column(name, lambda obj, now: len(value_at(obj, path, ())), "string")


_NAME = Column("Name", lambda obj, now: obj["metadata"]["name"], description="Name of the object.")
_AGE = _age_column("Age", "metadata.creationTimestamp")


def _template_containers_cell(part: str) -> Cell:
    """The cell that lists a field of all containers of a workload's template."""
    return lambda obj, now: ",".join(
        str(one.get(part, "")) for one in value_at(obj, "spec.template.spec.containers", ())
    )


_CONTAINERS = (
    Column("Containers", _template_containers_cell("name"), wide=True),
    Column("Images", _template_containers_cell("image"), wide=True),
)
_SELECTOR = Column("Selector", lambda obj, now: selector_text(value_at(obj, "spec.selector")) or "<none>", wide=True)


def _pod_group_status(obj: Object, now: float) -> str:
    """The status of a PodGroup, from its conditions."""
    conditions = {one["type"]: one for one in value_at(obj, "status.conditions", ())}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"]["reason"])
    if "PodGroupInitiallyScheduled" not in conditions:
        return "Pending"
    return "Scheduled" if conditions["PodGroupInitiallyScheduled"]["status"] == "True" else "Unschedulable"


_GROUP = (
    _NAME,
    Column("Policy", lambda obj, now: "Gang" if "gang" in value_at(obj, "spec.schedulingPolicy", {}) else "Basic"),
    _text_column("Workload", "spec.workloadRef.workloadName", "<none>"),
)


def _ready_replicas(obj: Object, now: float) -> str:
    """The cell READY of a workload: `ready/wanted`."""
    return f"{value_at(obj, 'status.readyReplicas', 0)}/{value_at(obj, 'spec.replicas', 0)}"


def _node_status(obj: Object, now: float) -> str:
    ready = next((one["status"] for one in value_at(obj, "status.conditions", ()) if one["type"] == "Ready"), None)
    status = "Unknown" if ready is None else ("Ready" if ready == "True" else "NotReady")
    return f"{status},SchedulingDisabled" if value_at(obj, "spec.unschedulable", False) else status


def _node_roles(obj: Object, now: float) -> str:
    """The cell ROLES of a Node, from its labels."""
    prefix = "node-role.kubernetes.io/"
    labels = value_at(obj, "metadata.labels", {})
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


def _node_address_cell(kind: str) -> Cell:
    """The cell of a Node's first address of this kind."""

    def address_of_kind(obj: Object, now: float) -> str:
        addresses = value_at(obj, "status.addresses", ())
        return next((str(one["address"]) for one in addresses if one.get("type") == kind), "<none>")

    return address_of_kind


def _kernel_version(obj: Object, now: float) -> str:
    info = value_at(obj, "status.nodeInfo", {})
    kernel = info.get("kernelVersion") or "<unknown>"
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel


def _job_completions(obj: Object, now: float) -> str:
    """The cell COMPLETIONS of a Job."""
    succeeded, completions = value_at(obj, "status.succeeded", 0), value_at(obj, "spec.completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = value_at(obj, "spec.parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_status(obj: Object, now: float) -> str:
    """The cell STATUS of a Job."""
    true = {one["type"] for one in value_at(obj, "status.conditions", ()) if one["status"] == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if value_at(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    return next((one for one in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if one in true), "Running")


def _job_duration(obj: Object, now: float) -> str:
    """The cell DURATION of a Job."""
    started, ended = value_at(obj, "status.startTime"), value_at(obj, "status.completionTime")
    if not started:
        return ""
    return ages.age_text(started, parse_timestamp(ended) if ended else now)


def _service_ports(obj: Object, now: float) -> str:
    """The cell PORT(S) of a Service."""
    ports = []
    for port in value_at(obj, "spec.ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or "<none>"


def _event_object(obj: Object, now: float) -> str:
    """The cell OBJECT of an Event: what it is about."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_first_seen(obj: Object, now: float) -> str:
    """The cell FIRST SEEN of an Event."""
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    return ages.age_text(first or obj.get("eventTime"), now)


def _event_last_seen(obj: Object, now: float) -> str:
    last = value_at(obj, "series.lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    return ages.age_text(last, now) if last else _event_first_seen(obj, now)


def _event_source(obj: Object, now: float) -> str:
    """The cell SOURCE of an Event."""
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


_EVENT = (
    Column("Last Seen", _event_last_seen),
    _text_column("Type", "type"),
    _text_column("Reason", "reason"),
    Column("Object", _event_object),
    _text_column("Subobject", "involvedObject.fieldPath", wide=True),
    Column("Source", _event_source, wide=True),
    Column("Message", lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip()),
    Column("First Seen", _event_first_seen, wide=True),
    Column("Count", lambda obj, now: str(value_at(obj, "series.count") or obj.get("count") or 1), wide=True),
    Column("Name", lambda obj, now: obj["metadata"]["name"], wide=True),
)


def _access_modes_cell(path: str) -> Cell:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return lambda obj, now: ",".join(short.get(mode, mode) for mode in value_at(obj, path, ()))


def _phase_or_terminating(obj: Object, now: float) -> str:
    """The cell STATUS of an object with a phase, `Terminating` while it is being deleted."""
    return "Terminating" if value_at(obj, "metadata.deletionTimestamp") else str(value_at(obj, "status.phase", ""))


def _claim_reference(obj: Object, now: float) -> str:
    claim = value_at(obj, "spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _storage_class_name(obj: Object, now: float) -> str:
    """The cell NAME of a StorageClass, with `(default)` for the default one."""
    name = obj["metadata"]["name"]
    annotations = value_at(obj, "metadata.annotations", {})
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{name} (default)" if default else name


def _device_claim_state(obj: Object, now: float) -> str:
    """The cell STATE of a ResourceClaim."""
    states = ["deleted"] if value_at(obj, "metadata.deletionTimestamp") else []
    if value_at(obj, "status.allocation"):
        states.append("allocated")
        if value_at(obj, "status.reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def _nominated_column(name: str, path: str) -> Column:
    """A wide column with the text at the path, `<none>` without one."""
    return Column(name, lambda obj, now: str(value_at(obj, path, "") or "<none>"), wide=True)


def _readiness_gates(obj: Object, now: float) -> str:
    gates = [one["conditionType"] for one in value_at(obj, "spec.readinessGates", ())]
    true = {one["type"] for one in value_at(obj, "status.conditions", ()) if one["status"] == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else "<none>"


def _class_parameters(obj: Object, now: float) -> str:
    """The cell PARAMETERS of an IngressClass."""
    parameters = value_at(obj, "spec.parameters", {})
    if not parameters:
        return "<none>"
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


def _certificate_request_condition(obj: Object, now: float) -> str:
    """The condition of a CertificateSigningRequest."""
    kinds = {one["type"] for one in value_at(obj, "status.conditions", ())}
    parts = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    parts += ["Failed"] if "Failed" in kinds else []
    parts += ["Issued"] if value_at(obj, "status.certificate") else []
    return ",".join(parts)


def _certificate_duration(obj: Object, now: float) -> str:
    seconds = value_at(obj, "spec.expirationSeconds")
    return "<none>" if seconds is None else human_durations.human_duration(seconds)


def _quota_cell(obj: Object, *, limits: bool) -> str:
    """What is used of each limit of a quota: of the names that begin with `limits.`, or of the others."""
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    shown = [name for name in sorted(hard) if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in shown)


_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", lambda obj, now: ready_cell(obj)),
        Column("Status", lambda obj, now: status_cell(obj)),
        Column("Restarts", lambda obj, now: restarts_cell(obj)),
        _AGE,
        _nominated_column("IP", "status.podIP"),
        _nominated_column("Node", "spec.nodeName"),
        _nominated_column("Nominated Node", "status.nominatedNodeName"),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        _text_column("Version", "status.nodeInfo.kubeletVersion"),
        Column("Internal-IP", _node_address_cell("InternalIP"), wide=True),
        Column("External-IP", _node_address_cell("ExternalIP"), wide=True),
        _text_column("OS-Image", "status.nodeInfo.osImage", "<unknown>", wide=True),
        Column("Kernel-Version", _kernel_version, wide=True),
        _text_column("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>", wide=True),
    ),
    "namespaces": (_NAME, _text_column("Status", "status.phase"), _AGE),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "configmaps": (
        _NAME,
        Column("Data", lambda obj, now: len(obj.get("data") or {}) + len(obj.get("binaryData") or {})),
        _AGE,
    ),
    "secrets": (_NAME, _text_column("Type", "type"), Column("Data", lambda obj, now: len(obj.get("data") or {})), _AGE),
    "services": (
        _NAME,
        _text_column("Type", "spec.type"),
        _text_column("Cluster-IP", "spec.clusterIP", "<none>"),
        Column("External-IP", lambda obj, now: ",".join(value_at(obj, "spec.externalIPs", ())) or "<none>"),
        Column("Port(s)", _service_ports),
        _AGE,
        _SELECTOR,
    ),
    "persistentvolumes": (
        _NAME,
        _text_column("Capacity", "spec.capacity.storage"),
        Column("Access Modes", _access_modes_cell("spec.accessModes")),
        _text_column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        Column("Status", _phase_or_terminating),
        Column("Claim", _claim_reference),
        _text_column("StorageClass", "spec.storageClassName"),
        _text_column("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        _text_column("Reason", "status.reason"),
        _AGE,
        _text_column("VolumeMode", "spec.volumeMode", "<unset>", wide=True),
    ),
    "persistentvolumeclaims": (
        _NAME,
        Column("Status", _phase_or_terminating),
        _text_column("Volume", "spec.volumeName"),
        _text_column("Capacity", "status.capacity.storage"),
        Column("Access Modes", _access_modes_cell("status.accessModes")),
        _text_column("StorageClass", "spec.storageClassName"),
        _text_column("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        _AGE,
        _text_column("VolumeMode", "spec.volumeMode", "<unset>", wide=True),
    ),
    "deployments.apps": (
        _NAME,
        Column("Ready", _ready_replicas),
        _number_column("Up-to-date", "status.updatedReplicas"),
        _number_column("Available", "status.availableReplicas"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "statefulsets.apps": (
        _NAME,
        Column("Ready", _ready_replicas),
        _AGE,
        *_CONTAINERS,
    ),
    "daemonsets.apps": (
        _NAME,
        _number_column("Desired", "status.desiredNumberScheduled"),
        _number_column("Current", "status.currentNumberScheduled"),
        _number_column("Ready", "status.numberReady"),
        _number_column("Up-to-date", "status.updatedNumberScheduled"),
        _number_column("Available", "status.numberAvailable"),
        Column(
            "Node Selector",
            lambda obj, now: selector_text(value_at(obj, "spec.template.spec.nodeSelector")) or "<none>",
        ),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "jobs.batch": (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "poddisruptionbudgets.policy": (
        _NAME,
        _text_column("Min Available", "spec.minAvailable", "N/A"),
        _text_column("Max Unavailable", "spec.maxUnavailable", "N/A"),
        _number_column("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    "storageclasses.storage.k8s.io": (
        Column("Name", _storage_class_name),
        _text_column("Provisioner", "provisioner"),
        _text_column("ReclaimPolicy", "reclaimPolicy"),
        _text_column("VolumeBindingMode", "volumeBindingMode"),
        _flag_column("AllowVolumeExpansion", "allowVolumeExpansion"),
        _AGE,
    ),
    "csinodes.storage.k8s.io": (_NAME, _count_column("Drivers", "spec.drivers"), _AGE),
    "csistoragecapacities.storage.k8s.io": (
        _NAME,
        _text_column("StorageClassName", "storageClassName"),
        _text_column("Capacity", "capacity"),
    ),
    "volumeattachments.storage.k8s.io": (
        _NAME,
        _text_column("Attacher", "spec.attacher"),
        _text_column("PV", "spec.source.persistentVolumeName"),
        _text_column("Node", "spec.nodeName"),
        _flag_column("Attached", "status.attached"),
        _AGE,
    ),
    "resourceclaims.resource.k8s.io": (_NAME, Column("State", _device_claim_state), _AGE),
    "resourceslices.resource.k8s.io": (
        _NAME,
        _text_column("Node", "spec.nodeName"),
        _text_column("Driver", "spec.driver"),
        _text_column("Pool", "spec.pool.name"),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _NAME,
        _number_column("Value", "value"),
        _flag_column("Global-Default", "globalDefault"),
        _AGE,
        _text_column("PreemptionPolicy", "preemptionPolicy"),
    ),
    "podgroups.scheduling.k8s.io": (*_GROUP, Column("Status", _pod_group_status), _AGE),
    "compositepodgroups.scheduling.k8s.io": (*_GROUP, _AGE),
    "cronjobs.batch": (
        _NAME,
        _text_column("Schedule", "spec.schedule"),
        _text_column("Timezone", "spec.timeZone", "<none>"),
        Column("Suspend", lambda obj, now: str(bool(value_at(obj, "spec.suspend", False)))),
        Column("Active", lambda obj, now: len(value_at(obj, "status.active", ())), "integer"),
        _age_column("Last Schedule", "status.lastScheduleTime"),
        _AGE,
    ),
    "resourcequotas": (
        _NAME,
        Column("Request", lambda obj, now: _quota_cell(obj, limits=False)),
        Column("Limit", lambda obj, now: _quota_cell(obj, limits=True)),
        _AGE,
    ),
    "ingresses.networking.k8s.io": (
        _NAME,
        _text_column("Class", "spec.ingressClassName", "<none>"),
        Column(
            "Hosts", lambda obj, now: ",".join(one.get("host") or "*" for one in value_at(obj, "spec.rules", ())) or "*"
        ),
        Column(
            "Address",
            lambda obj, now: ",".join(
                one.get("hostname") or one.get("ip", "") for one in value_at(obj, "status.loadBalancer.ingress", ())
            ),
        ),
        Column("Ports", lambda obj, now: "80, 443" if value_at(obj, "spec.tls", ()) else "80"),
        _AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        _NAME,
        _text_column("Controller", "spec.controller"),
        Column("Parameters", _class_parameters),
        _AGE,
    ),
    "runtimeclasses.node.k8s.io": (_NAME, _text_column("Handler", "handler"), _AGE),
    "certificatesigningrequests.certificates.k8s.io": (
        _NAME,
        _AGE,
        _text_column("SignerName", "spec.signerName"),
        _text_column("Requestor", "spec.username"),
        Column("RequestedDuration", _certificate_duration),
        Column("Condition", _certificate_request_condition),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        _NAME,
        Column("Created At", lambda obj, now: obj["metadata"]["creationTimestamp"]),
    ),
    "leases.coordination.k8s.io": (_NAME, _text_column("Holder", "spec.holderIdentity"), _AGE),
    "endpointslices.discovery.k8s.io": (
        _NAME,
        _text_column("AddressType", "addressType"),
        Column(
            "Ports", lambda obj, now: ",".join(str(one.get("port", "*")) for one in obj.get("ports") or ()) or "<unset>"
        ),
        _count_column("Endpoints", "endpoints"),
        _AGE,
    ),
}
_REPLICAS = (
    _NAME,
    _number_column("Desired", "spec.replicas"),
    _number_column("Current", "status.replicas"),
    _number_column("Ready", "status.readyReplicas"),
    _AGE,
    *_CONTAINERS,
    _SELECTOR,
)
_COLUMNS["replicasets.apps"] = _COLUMNS["replicationcontrollers"] = _REPLICAS
_DEFAULT = (_NAME, _AGE)


_INDEX = re.compile(r"\[(\d+)\]")


def _custom_column(column: PrintedColumn) -> Column:
    """A column that a definition declares. Supports fields and numbers in brackets of JSONPath."""
    parts = _INDEX.sub(r".\1", column.path).strip(".").split(".")

    def value_of_path(obj: Object, now: float) -> Any:
        value: Any = obj
        for part in parts:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                return None
        if column.type == "date":
            return ages.age_text(value, now) if isinstance(value, str) else None
        return value if column.type != "string" or value is None or isinstance(value, str) else str(value)

    return Column(column.name, value_of_path, column.type, column.priority > 0, column.description)


def _custom_columns(resource: Resource) -> tuple[Column, ...]:
    return (_NAME, *(_custom_column(one) for one in resource.printed)) if resource.printed else _DEFAULT


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """The columns of a resource's table."""
    if resource.custom:
        return _custom_columns(resource)
    return _COLUMNS.get(resource.key, _DEFAULT)
