"""The columns of each resource's table, and how each cell is read from an object.

Names, order and contents follow the API server's, so that output of `kubectl get` looks as people and scripts know it.
Resources without an entry get the name and the age. Source: k8s.io/kubernetes, pkg/printers/internalversion.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trireme_kube.embedded.api.resources import Object, PrintedColumn, Resource
from trireme_kube.embedded.api.timestamps import parse_timestamp
from trireme_kube.embedded.printers import human_durations
from trireme_kube.embedded.printers.pod_cells import pod_ready, pod_restarts, pod_status
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


def at(obj: Any, path: str, default: Any = None) -> Any:
    """The value at a dotted path, or `default` where a part is missing."""
    for part in path.split("."):
        if not isinstance(obj, dict):
            return default
        obj = obj.get(part)
    return default if obj is None else obj


def _text(name: str, path: str, default: str = "", *, wide: bool = False) -> Column:
    return Column(name, lambda obj, now: str(at(obj, path, default)), wide=wide)


def _number(name: str, path: str) -> Column:
    return Column(name, lambda obj, now: at(obj, path, 0), "integer")


def _flag(name: str, path: str) -> Column:
    return Column(name, lambda obj, now: bool(at(obj, path, False)), "boolean")


def _since(name: str, path: str, *, wide: bool = False) -> Column:
    return Column(name, lambda obj, now: human_durations.since(at(obj, path), now), wide=wide)


def _count(name: str, path: str) -> Column:
    return Column(name, lambda obj, now: len(at(obj, path, ())), "string")


_NAME = Column("Name", lambda obj, now: obj["metadata"]["name"], description="Name of the object.")
_AGE = _since("Age", "metadata.creationTimestamp")


def _containers(part: str) -> Cell:
    return lambda obj, now: ",".join(str(one.get(part, "")) for one in at(obj, "spec.template.spec.containers", ()))


_CONTAINERS = (Column("Containers", _containers("name"), wide=True), Column("Images", _containers("image"), wide=True))
_SELECTOR = Column("Selector", lambda obj, now: selector_text(at(obj, "spec.selector")) or "<none>", wide=True)


def _group_status(obj: Object, now: float) -> str:
    """The status of a PodGroup, from its conditions."""
    conditions = {one["type"]: one for one in at(obj, "status.conditions", ())}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"]["reason"])
    if "PodGroupInitiallyScheduled" not in conditions:
        return "Pending"
    return "Scheduled" if conditions["PodGroupInitiallyScheduled"]["status"] == "True" else "Unschedulable"


_GROUP = (
    _NAME,
    Column("Policy", lambda obj, now: "Gang" if "gang" in at(obj, "spec.schedulingPolicy", {}) else "Basic"),
    _text("Workload", "spec.workloadRef.workloadName", "<none>"),
)


def _of(part: str, whole: str, whole_default: int = 0) -> Cell:
    return lambda obj, now: f"{at(obj, part, 0)}/{at(obj, whole, whole_default)}"


def _node_status(obj: Object, now: float) -> str:
    ready = next((one["status"] for one in at(obj, "status.conditions", ()) if one["type"] == "Ready"), None)
    status = "Unknown" if ready is None else ("Ready" if ready == "True" else "NotReady")
    return f"{status},SchedulingDisabled" if at(obj, "spec.unschedulable", False) else status


def _node_roles(obj: Object, now: float) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = at(obj, "metadata.labels", {})
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles)) or "<none>"


def _address(kind: str) -> Cell:
    def cell(obj: Object, now: float) -> str:
        addresses = at(obj, "status.addresses", ())
        return next((str(one["address"]) for one in addresses if one.get("type") == kind), "<none>")

    return cell


def _kernel(obj: Object, now: float) -> str:
    info = at(obj, "status.nodeInfo", {})
    kernel = info.get("kernelVersion") or "<unknown>"
    return f"{kernel} ({info['architecture']})" if info.get("architecture") else kernel


def _completions(obj: Object, now: float) -> str:
    succeeded, completions = at(obj, "status.succeeded", 0), at(obj, "spec.completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = at(obj, "spec.parallelism", 0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_status(obj: Object, now: float) -> str:
    true = {one["type"] for one in at(obj, "status.conditions", ()) if one["status"] == "True"}
    for condition in ("Complete", "Failed"):
        if condition in true:
            return condition
    if at(obj, "metadata.deletionTimestamp"):
        return "Terminating"
    return next((one for one in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if one in true), "Running")


def _job_duration(obj: Object, now: float) -> str:
    started, ended = at(obj, "status.startTime"), at(obj, "status.completionTime")
    if not started:
        return ""
    return human_durations.since(started, parse_timestamp(ended) if ended else now)


def _service_ports(obj: Object, now: float) -> str:
    ports = []
    for port in at(obj, "spec.ports", ()):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(ports) or "<none>"


def _event_object(obj: Object, now: float) -> str:
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def _event_first(obj: Object, now: float) -> str:
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp")
    return human_durations.since(first or obj.get("eventTime"), now)


def _event_last(obj: Object, now: float) -> str:
    last = at(obj, "series.lastObservedTime") or obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    return human_durations.since(last, now) if last else _event_first(obj, now)


def _event_source(obj: Object, now: float) -> str:
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    return f"{component}, {host}" if host else component


_EVENT = (
    Column("Last Seen", _event_last),
    _text("Type", "type"),
    _text("Reason", "reason"),
    Column("Object", _event_object),
    _text("Subobject", "involvedObject.fieldPath", wide=True),
    Column("Source", _event_source, wide=True),
    Column("Message", lambda obj, now: str(obj.get("message") or obj.get("note") or "").strip()),
    Column("First Seen", _event_first, wide=True),
    Column("Count", lambda obj, now: str(at(obj, "series.count") or obj.get("count") or 1), wide=True),
    Column("Name", lambda obj, now: obj["metadata"]["name"], wide=True),
)


def _modes(path: str) -> Cell:
    short = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
    return lambda obj, now: ",".join(short.get(mode, mode) for mode in at(obj, path, ()))


def _phase(obj: Object, now: float) -> str:
    return "Terminating" if at(obj, "metadata.deletionTimestamp") else str(at(obj, "status.phase", ""))


def _claim_of(obj: Object, now: float) -> str:
    claim = at(obj, "spec.claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class_name(obj: Object, now: float) -> str:
    name = obj["metadata"]["name"]
    annotations = at(obj, "metadata.annotations", {})
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return f"{name} (default)" if default else name


def _device_claim_state(obj: Object, now: float) -> str:
    states = ["deleted"] if at(obj, "metadata.deletionTimestamp") else []
    if at(obj, "status.allocation"):
        states.append("allocated")
        if at(obj, "status.reservedFor"):
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def _nominated(name: str, path: str) -> Column:
    return Column(name, lambda obj, now: str(at(obj, path, "") or "<none>"), wide=True)


def _readiness_gates(obj: Object, now: float) -> str:
    gates = [one["conditionType"] for one in at(obj, "spec.readinessGates", ())]
    true = {one["type"] for one in at(obj, "status.conditions", ()) if one["status"] == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}" if gates else "<none>"


def _class_parameters(obj: Object, now: float) -> str:
    parameters = at(obj, "spec.parameters", {})
    if not parameters:
        return "<none>"
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters['kind']}{group}/{parameters['name']}"


def _request_condition(obj: Object, now: float) -> str:
    """The condition of a CertificateSigningRequest."""
    kinds = {one["type"] for one in at(obj, "status.conditions", ())}
    parts = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    parts += ["Failed"] if "Failed" in kinds else []
    parts += ["Issued"] if at(obj, "status.certificate") else []
    return ",".join(parts)


def _requested_duration(obj: Object, now: float) -> str:
    seconds = at(obj, "spec.expirationSeconds")
    return "<none>" if seconds is None else human_durations.short_text(seconds)


_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", lambda obj, now: pod_ready(obj)),
        Column("Status", lambda obj, now: pod_status(obj)),
        Column("Restarts", lambda obj, now: pod_restarts(obj)),
        _AGE,
        _nominated("IP", "status.podIP"),
        _nominated("Node", "spec.nodeName"),
        _nominated("Nominated Node", "status.nominatedNodeName"),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        _text("Version", "status.nodeInfo.kubeletVersion"),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        _text("OS-Image", "status.nodeInfo.osImage", "<unknown>", wide=True),
        Column("Kernel-Version", _kernel, wide=True),
        _text("Container-Runtime", "status.nodeInfo.containerRuntimeVersion", "<unknown>", wide=True),
    ),
    "namespaces": (_NAME, _text("Status", "status.phase"), _AGE),
    "events": _EVENT,
    "events.events.k8s.io": _EVENT,
    "configmaps": (
        _NAME,
        Column("Data", lambda obj, now: len(obj.get("data") or {}) + len(obj.get("binaryData") or {})),
        _AGE,
    ),
    "secrets": (_NAME, _text("Type", "type"), Column("Data", lambda obj, now: len(obj.get("data") or {})), _AGE),
    "services": (
        _NAME,
        _text("Type", "spec.type"),
        _text("Cluster-IP", "spec.clusterIP", "<none>"),
        Column("External-IP", lambda obj, now: ",".join(at(obj, "spec.externalIPs", ())) or "<none>"),
        Column("Port(s)", _service_ports),
        _AGE,
        _SELECTOR,
    ),
    "persistentvolumes": (
        _NAME,
        _text("Capacity", "spec.capacity.storage"),
        Column("Access Modes", _modes("spec.accessModes")),
        _text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        Column("Status", _phase),
        Column("Claim", _claim_of),
        _text("StorageClass", "spec.storageClassName"),
        _text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        _text("Reason", "status.reason"),
        _AGE,
        _text("VolumeMode", "spec.volumeMode", "<unset>", wide=True),
    ),
    "persistentvolumeclaims": (
        _NAME,
        Column("Status", _phase),
        _text("Volume", "spec.volumeName"),
        _text("Capacity", "status.capacity.storage"),
        Column("Access Modes", _modes("status.accessModes")),
        _text("StorageClass", "spec.storageClassName"),
        _text("VolumeAttributesClass", "spec.volumeAttributesClassName", "<unset>"),
        _AGE,
        _text("VolumeMode", "spec.volumeMode", "<unset>", wide=True),
    ),
    "deployments.apps": (
        _NAME,
        Column("Ready", _of("status.readyReplicas", "spec.replicas")),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "statefulsets.apps": (_NAME, Column("Ready", _of("status.readyReplicas", "spec.replicas")), _AGE, *_CONTAINERS),
    "daemonsets.apps": (
        _NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        Column("Node Selector", lambda obj, now: selector_text(at(obj, "spec.template.spec.nodeSelector")) or "<none>"),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "jobs.batch": (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _completions),
        Column("Duration", _job_duration),
        _AGE,
        *_CONTAINERS,
        _SELECTOR,
    ),
    "poddisruptionbudgets.policy": (
        _NAME,
        _text("Min Available", "spec.minAvailable", "N/A"),
        _text("Max Unavailable", "spec.maxUnavailable", "N/A"),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    "storageclasses.storage.k8s.io": (
        Column("Name", _class_name),
        _text("Provisioner", "provisioner"),
        _text("ReclaimPolicy", "reclaimPolicy"),
        _text("VolumeBindingMode", "volumeBindingMode"),
        _flag("AllowVolumeExpansion", "allowVolumeExpansion"),
        _AGE,
    ),
    "csinodes.storage.k8s.io": (_NAME, _count("Drivers", "spec.drivers"), _AGE),
    "csistoragecapacities.storage.k8s.io": (
        _NAME,
        _text("StorageClassName", "storageClassName"),
        _text("Capacity", "capacity"),
    ),
    "volumeattachments.storage.k8s.io": (
        _NAME,
        _text("Attacher", "spec.attacher"),
        _text("PV", "spec.source.persistentVolumeName"),
        _text("Node", "spec.nodeName"),
        _flag("Attached", "status.attached"),
        _AGE,
    ),
    "resourceclaims.resource.k8s.io": (_NAME, Column("State", _device_claim_state), _AGE),
    "resourceslices.resource.k8s.io": (
        _NAME,
        _text("Node", "spec.nodeName"),
        _text("Driver", "spec.driver"),
        _text("Pool", "spec.pool.name"),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _NAME,
        _number("Value", "value"),
        _flag("Global-Default", "globalDefault"),
        _AGE,
        _text("PreemptionPolicy", "preemptionPolicy"),
    ),
    "podgroups.scheduling.k8s.io": (*_GROUP, Column("Status", _group_status), _AGE),
    "compositepodgroups.scheduling.k8s.io": (*_GROUP, _AGE),
    "cronjobs.batch": (
        _NAME,
        _text("Schedule", "spec.schedule"),
        _text("Timezone", "spec.timeZone", "<none>"),
        Column("Suspend", lambda obj, now: str(bool(at(obj, "spec.suspend", False)))),
        Column("Active", lambda obj, now: len(at(obj, "status.active", ())), "integer"),
        _since("Last Schedule", "status.lastScheduleTime"),
        _AGE,
    ),
    "ingresses.networking.k8s.io": (
        _NAME,
        _text("Class", "spec.ingressClassName", "<none>"),
        Column("Hosts", lambda obj, now: ",".join(one.get("host") or "*" for one in at(obj, "spec.rules", ())) or "*"),
        Column(
            "Address",
            lambda obj, now: ",".join(
                one.get("hostname") or one.get("ip", "") for one in at(obj, "status.loadBalancer.ingress", ())
            ),
        ),
        Column("Ports", lambda obj, now: "80, 443" if at(obj, "spec.tls", ()) else "80"),
        _AGE,
    ),
    "ingressclasses.networking.k8s.io": (
        _NAME,
        _text("Controller", "spec.controller"),
        Column("Parameters", _class_parameters),
        _AGE,
    ),
    "runtimeclasses.node.k8s.io": (_NAME, _text("Handler", "handler"), _AGE),
    "certificatesigningrequests.certificates.k8s.io": (
        _NAME,
        _AGE,
        _text("SignerName", "spec.signerName"),
        _text("Requestor", "spec.username"),
        Column("RequestedDuration", _requested_duration),
        Column("Condition", _request_condition),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        _NAME,
        Column("Created At", lambda obj, now: obj["metadata"]["creationTimestamp"]),
    ),
    "leases.coordination.k8s.io": (_NAME, _text("Holder", "spec.holderIdentity"), _AGE),
    "endpointslices.discovery.k8s.io": (
        _NAME,
        _text("AddressType", "addressType"),
        Column(
            "Ports", lambda obj, now: ",".join(str(one.get("port", "*")) for one in obj.get("ports") or ()) or "<unset>"
        ),
        _count("Endpoints", "endpoints"),
        _AGE,
    ),
}
_REPLICAS = (
    _NAME,
    _number("Desired", "spec.replicas"),
    _number("Current", "status.replicas"),
    _number("Ready", "status.readyReplicas"),
    _AGE,
    *_CONTAINERS,
    _SELECTOR,
)
_COLUMNS["replicasets.apps"] = _COLUMNS["replicationcontrollers"] = _REPLICAS
_DEFAULT = (_NAME, _AGE)


_INDEX = re.compile(r"\[(\d+)\]")


def _printed(column: PrintedColumn) -> Column:
    """A column that a definition declares. Supports fields and numbers in brackets of JSONPath."""
    parts = _INDEX.sub(r".\1", column.path).strip(".").split(".")

    def cell(obj: Object, now: float) -> Any:
        value: Any = obj
        for part in parts:
            if isinstance(value, dict):
                value = value.get(part)
            elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            else:
                return None
        if column.type == "date":
            return human_durations.since(value, now) if isinstance(value, str) else None
        return value if column.type != "string" or value is None or isinstance(value, str) else str(value)

    return Column(column.name, cell, column.type, column.priority > 0, column.description)


def _custom(resource: Resource) -> tuple[Column, ...]:
    return (_NAME, *(_printed(one) for one in resource.printed)) if resource.printed else _DEFAULT


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """The columns of a resource's table."""
    if resource.custom:
        return _custom(resource)
    return _COLUMNS.get(resource.key, _DEFAULT)
