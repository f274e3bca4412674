"""Rejects mistakes that clients really make, in the API server's words.

Not a second copy of Kubernetes' validation: names, required parts of a pod, quantities, and the fields that a scheduler
or a test could wrongly rely on being able to change. Each function returns the causes that it found.

Source: k8s.io/kubernetes, pkg/apis/core/validation, and k8s.io/apimachinery, pkg/util/validation.

Tests: tests/unit/embedded/registry/test_registry.py, tests/unit/embedded/registry/test_quotas.py,
tests/unit/embedded/controllers/test_persistent_volumes.py, tests/unit/embedded/validation/test_refusals.py.
"""

import base64
import binascii
from collections.abc import Callable

import orjson

from trireme_kube.embedded.api import api_errors, custom_resource_definitions, field_errors, quantities
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.validation import (
    device_validation,
    name_validation,
    pod_group_validation,
    quota_validation,
    workload_validation,
)
from trireme_kube.embedded.validation.pod_validation import (
    EFFECTS,
    PROTOCOLS,
    RANGE_TEXT,
    validate_not_negative_amounts,
    validate_pod_spec,
)
from trireme_kube.embedded.validation.resize_validation import validate_pod_resize

_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_EVICTION = ("AlwaysAllow", "IfHealthyBudget")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
# Fields of a volume's spec that are objects but no volume sources.
_NO_VOLUME_TYPES = frozenset({"capacity", "claimRef", "nodeAffinity"})
_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _validate_pod(obj: Object) -> list[Cause]:
    return validate_pod_spec("spec", obj.get("spec"))


def _validate_node(obj: Object) -> list[Cause]:
    """Return what is wrong with a Node: its taints and amounts."""
    causes: list[Cause] = []
    for index, taint in enumerate(obj["spec"].get("taints") or ()):
        path = f"metadata.taints[{index}]"
        causes += name_validation.validate_qualified_name(f"{path}.key", taint.get("key", ""))
        if not taint.get("effect"):
            causes.append(field_errors.required(f"{path}.effect"))
        elif taint["effect"] not in EFFECTS:
            causes.append(field_errors.unsupported(f"{path}.effect", taint["effect"], EFFECTS))
    status = obj.get("status") or {}
    for part in ("capacity", "allocatable"):
        causes += validate_not_negative_amounts(f"status.{part}", status.get(part))
    return causes


def _validate_service(obj: Object) -> list[Cause]:
    """Return what is wrong with a Service."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(field_errors.required("spec.ports"))
    used_names: set[str] = set()
    for index, port in enumerate(ports):
        causes += _validate_service_port(f"spec.ports[{index}]", port, needs_name=len(ports) > 1)
        if (name := port.get("name", "")) and name in used_names:
            causes.append(field_errors.duplicate(f"spec.ports[{index}].name", name))
        used_names.add(name)
    causes += name_validation.validate_labels("spec.selector", spec.get("selector"))
    if spec.get("type") not in _SERVICE_TYPES:
        causes.append(field_errors.unsupported("spec.type", str(spec.get("type", "")), _SERVICE_TYPES))
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        causes.append(field_errors.required("spec.externalName"))
    return causes


def _validate_service_port(path: str, port: Object, *, needs_name: bool) -> list[Cause]:
    """Return what is wrong with a Service's port; `needs_name`: there are several."""
    causes: list[Cause] = []
    if not port.get("name") and needs_name:
        causes.append(field_errors.required(f"{path}.name"))
    elif port.get("name"):
        causes += name_validation.validate_label(f"{path}.name", port["name"])
    number = port.get("port", 0)
    if not 1 <= number <= 65535:
        causes.append(field_errors.invalid(f"{path}.port", number, RANGE_TEXT))
    if port.get("protocol") not in PROTOCOLS:
        causes.append(field_errors.unsupported(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS))
    target = port.get("targetPort", number)
    if isinstance(target, int) and not 1 <= target <= 65535:
        causes.append(field_errors.invalid(f"{path}.targetPort", target, RANGE_TEXT))
    return causes


def _validate_volume_claim(obj: Object) -> list[Cause]:
    """Return what is wrong with a PersistentVolumeClaim."""
    spec = obj.get("spec") or {}
    modes = spec.get("accessModes") or ()
    causes = [] if modes else [field_errors.required("spec.accessModes", "at least 1 access mode is required")]
    causes += [field_errors.unsupported("spec.accessModes", one, _ACCESS) for one in modes if one not in _ACCESS]
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        causes.append(field_errors.required("spec.resources[storage]"))
    elif quantities.nanos(requests["storage"]) <= 0:
        causes.append(
            field_errors.invalid("spec.resources[storage]", str(requests["storage"]), "must be greater than zero")
        )
    return causes


def _validate_persistent_volume(obj: Object) -> list[Cause]:
    """Return what is wrong with a PersistentVolume: modes, capacity, policy, type."""
    spec = obj.get("spec") or {}
    modes, capacity = spec.get("accessModes") or (), spec.get("capacity")
    causes = [] if modes else [field_errors.required("spec.accessModes")]
    causes += [field_errors.unsupported("spec.accessModes", one, _ACCESS) for one in modes if one not in _ACCESS]
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        causes.append(field_errors.forbidden("spec.accessModes", text))
    if not capacity:
        causes.append(field_errors.required("spec.capacity"))
    if not capacity or capacity.keys() != {"storage"}:
        value = orjson.dumps(capacity, option=orjson.OPT_SORT_KEYS).decode()
        text = f'Unsupported value: {value}: supported values: "storage"'
        causes.append(Cause("FieldValueNotSupported", "spec.capacity", text))
    for name, amount in (capacity or {}).items():
        if quantities.nanos(amount) < 0:
            text = f"Invalid value: {amount}: must be a valid resource quantity"
            causes.append(Cause("FieldValueInvalid", f"spec.capacity[{name}]", text))
        if quantities.nanos(amount) <= 0:
            causes.append(field_errors.invalid(f"spec.capacity[{name}]", str(amount), "must be greater than zero"))
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy not in _RECLAIM:
        causes.append(field_errors.unsupported("spec.persistentVolumeReclaimPolicy", str(policy), _RECLAIM))
    if not any(isinstance(value, dict) for key, value in spec.items() if key not in _NO_VOLUME_TYPES):
        causes.append(field_errors.required("spec", "must specify a volume type"))
    return causes


def _validate_disruption_budget(obj: Object) -> list[Cause]:
    """Return what is wrong with a PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    for part in ("minAvailable", "maxUnavailable"):
        causes += workload_validation.validate_number_or_percentage(f"spec.{part}", spec.get(part))
    causes += workload_validation.validate_label_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _EVICTION:
        causes.append(field_errors.unsupported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION))
    return causes


def _validate_storage_class(obj: Object) -> list[Cause]:
    """Return what is wrong with a StorageClass."""
    causes = [] if obj.get("provisioner") else [field_errors.required("provisioner")]
    for part, supported in (("reclaimPolicy", ("Delete", "Retain")), ("volumeBindingMode", _BINDING)):
        if obj.get(part) not in supported:
            causes.append(field_errors.unsupported(part, str(obj.get(part)), supported))
    return causes


def _validate_ingress(obj: Object) -> list[Cause]:
    """Return what is wrong with an Ingress: rules, paths, backends."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        causes.append(field_errors.invalid("spec", None, "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        causes += _validate_backend("spec.defaultBackend", spec["defaultBackend"])
    for index, rule in enumerate(spec.get("rules") or ()):
        path = f"spec.rules[{index}]"
        if rule.get("host"):
            causes += name_validation.validate_subdomain(f"{path}.host", rule["host"].removeprefix("*."))
        for number, one in enumerate((rule.get("http") or {}).get("paths") or ()):
            where = f"{path}.http.paths[{number}]"
            if not one.get("pathType"):
                causes.append(field_errors.required(f"{where}.pathType", "pathType must be specified"))
                continue
            if one["pathType"] not in _PATH_TYPES:
                causes.append(field_errors.unsupported(f"{where}.pathType", one["pathType"], _PATH_TYPES))
            elif not one.get("path", "").startswith("/") and (one.get("path") or one["pathType"] != _PATH_TYPES[1]):
                causes.append(field_errors.invalid(f"{where}.path", one.get("path", ""), "must be an absolute path"))
            causes += _validate_backend(f"{where}.backend", one.get("backend") or {})
    return causes


def _validate_backend(path: str, backend: Object) -> list[Cause]:
    """Return what is wrong with an Ingress's backend."""
    service = backend.get("service")
    if service is None:
        text = "resource or service backend is required"
        return [] if backend.get("resource") else [field_errors.invalid(path, "", text)]
    name, port = service.get("name", ""), service.get("port") or {}
    causes = (
        name_validation.validate_label(f"{path}.service.name", name)
        if name
        else [field_errors.required(f"{path}.service.name")]
    )
    if not port.get("name") and not port.get("number"):
        causes.append(field_errors.required(path, "port name or number is required"))
    return causes


def _validate_ingress_class(obj: Object) -> list[Cause]:
    return [] if (obj.get("spec") or {}).get("controller") else [field_errors.required("spec.controller")]


def _validate_runtime_class(obj: Object) -> list[Cause]:
    handler = obj.get("handler")
    return name_validation.validate_label("handler", handler) if handler else [field_errors.required("handler")]


def _validate_signing_request(obj: Object) -> list[Cause]:
    """Return what is wrong with a CertificateSigningRequest."""
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    try:
        text = base64.b64decode(spec.get("request") or "", validate=True)
    except binascii.Error:
        text = b""
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        detail = "PEM block type must be CERTIFICATE REQUEST"
        causes.append(field_errors.invalid("spec.request", spec.get("request"), detail))
    return causes + [field_errors.required(f"spec.{part}") for part in ("usages", "signerName") if not spec.get(part)]


def _validate_priority_class(obj: Object) -> list[Cause]:
    """Return what is wrong with a PriorityClass."""
    name, value = obj["metadata"]["name"], obj["value"]
    if not name.startswith("system-") and isinstance(value, int) and value > 1_000_000_000:
        text = "maximum allowed value of a user defined priority is 1000000000"
        return [field_errors.forbidden("value", text)]
    return []


_CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "pods": _validate_pod,
    "nodes": _validate_node,
    "services": _validate_service,
    "persistentvolumeclaims": _validate_volume_claim,
    "priorityclasses.scheduling.k8s.io": _validate_priority_class,
    "customresourcedefinitions.apiextensions.k8s.io": custom_resource_definitions.validate_definition,
    "persistentvolumes": _validate_persistent_volume,
    "poddisruptionbudgets.policy": _validate_disruption_budget,
    "storageclasses.storage.k8s.io": _validate_storage_class,
    "ingresses.networking.k8s.io": _validate_ingress,
    "ingressclasses.networking.k8s.io": _validate_ingress_class,
    "runtimeclasses.node.k8s.io": _validate_runtime_class,
    "certificatesigningrequests.certificates.k8s.io": _validate_signing_request,
    **workload_validation.CREATE,
    **device_validation.CREATE,
    **pod_group_validation.CREATE,
    **quota_validation.CREATE,
}


def _raise_if_invalid(resource: Resource, name: str, causes: list[Cause]) -> None:
    """Raise ApiError 422 if there are causes."""
    if causes:
        raise api_errors.invalid_object(resource.group, resource.kind, name, causes)


def validate_create(resource: Resource, obj: Object) -> None:
    """Raises ApiError 422 if a new object is invalid."""
    metadata = obj["metadata"]
    causes = name_validation.validate_object_name(resource, metadata.get("name", ""))
    causes += name_validation.validate_labels("metadata.labels", metadata.get("labels"))
    causes += name_validation.validate_annotation_keys("metadata.annotations", metadata.get("annotations"))
    specific = _CREATE.get(resource.key)
    if specific is not None:
        causes += specific(obj)
    _raise_if_invalid(resource, metadata.get("name", ""), causes)


def _validate_pod_update(obj: Object, before: Object) -> list[Cause]:
    """The changes of a pod's spec that are not allowed; gates and tolerations have rules of their own."""
    new, old = obj["spec"], before["spec"]
    if new == old:
        return []
    causes: list[Cause] = []
    gates = {one["name"] for one in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate["name"] not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            causes.append(field_errors.forbidden(f"spec.schedulingGates[{index}].name", detail))
    tolerations = new.get("tolerations") or []
    if any(one not in tolerations for one in old.get("tolerations") or ()):
        causes.append(
            field_errors.forbidden(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    ignored = {"schedulingGates", "tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}
    if old.get("schedulingGates"):
        ignored |= {"nodeSelector", "affinity"}

    def without_changeable_fields(spec: Object) -> Object:
        compared = {key: value for key, value in spec.items() if key not in ignored}
        for part in ("containers", "initContainers"):
            compared[part] = [{**one, "image": ""} for one in spec.get(part) or ()]
        return compared

    if without_changeable_fields(new) != without_changeable_fields(old):
        causes.append(field_errors.forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}"))
    return causes


def _validate_selector_update(obj: Object, before: Object) -> list[Cause]:
    """Return what is wrong with an update that changes a selector."""
    if obj["spec"].get("selector") != before["spec"].get("selector"):
        return [field_errors.invalid("spec.selector", obj["spec"].get("selector"), "field is immutable")]
    return []


_UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "pods": _validate_pod_update,
    "deployments.apps": _validate_selector_update,
    "replicasets.apps": _validate_selector_update,
    "daemonsets.apps": _validate_selector_update,
    "jobs.batch": _validate_selector_update,
    "customresourcedefinitions.apiextensions.k8s.io": custom_resource_definitions.validate_definition_update,
    **pod_group_validation.UPDATE,
    **quota_validation.UPDATE,
}


def validate_update(resource: Resource, obj: Object, before: Object, subresource: str = "") -> None:
    """Raises ApiError 422 if a write to the object itself, or to a subresource that changes its spec, is invalid."""
    metadata = obj["metadata"]
    causes = name_validation.validate_labels("metadata.labels", metadata.get("labels"))
    causes += name_validation.validate_annotation_keys("metadata.annotations", metadata.get("annotations"))
    specific = _CREATE.get(resource.key)
    if specific is not None:
        causes += specific(obj)
    validate_kind = validate_pod_resize if subresource == "resize" else _UPDATE.get(resource.key)
    if validate_kind is not None:
        causes += validate_kind(obj, before)
    _raise_if_invalid(resource, metadata["name"], causes)


def validate_identity(resource: Resource, metadata: Object, before: Object) -> None:
    """Raises ApiError 422 if a write contradicts the identity of the object that it changes."""
    causes: list[Cause] = []
    if metadata.get("uid") and metadata["uid"] != before["uid"]:
        causes.append(field_errors.invalid("metadata.uid", metadata["uid"], "field is immutable"))
    if "deletionTimestamp" in before:
        added = sorted(set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            listed = ", ".join(f'"{one}"' for one in added)
            text = "no new finalizers can be added if the object is being deleted, "
            text += f"found new finalizers []string{{{listed}}}"
            causes.append(field_errors.forbidden("metadata.finalizers", text))
    _raise_if_invalid(resource, str(before.get("name", "")), causes)
