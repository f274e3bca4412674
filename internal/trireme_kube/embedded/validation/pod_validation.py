"""Validates pods and pod templates; all problems are reported at once, in the API server's words and order.

Source: k8s.io/kubernetes, pkg/apis/core/validation (ValidatePodSpec and what it calls).

Also change: internal/trireme/plugins/node_affinity/args.py (operators of node affinity).

Tests: tests/unit/embedded/validation/test_refusals.py, tests/unit/embedded/registry/test_registry.py.
"""

from typing import Any

from trireme_kube.embedded.api import field_errors, quantities
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.validation import name_validation

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PROTOCOLS = ("SCTP", "TCP", "UDP")
RANGE_TEXT = "must be between 1 and 65535, inclusive"
_RESTARTS = ("Always", "OnFailure", "Never")
_PULLS = ("Always", "IfNotPresent", "Never")
_TOLERATION_OPERATORS = ("Equal", "Exists")
# The API server names those behind its feature gate, which is off here, as well.
_NAMED_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")


def validate_not_negative_amounts(path: str, quantities_by_name: Any) -> list[Cause]:
    """The negative ones of some amounts."""
    causes: list[Cause] = []
    for name, amount in (quantities_by_name or {}).items():
        if quantities.nanos(amount) < 0:
            causes.append(field_errors.invalid(f"{path}[{name}]", str(amount), "must be greater than or equal to 0"))
    return causes


def _may_be_overcommitted(name: str) -> bool:
    """Whether a container may request less of a resource than its limit: not of extended resources and huge pages."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith("hugepages-")


def _validate_resources(path: str, resources: Object) -> list[Cause]:
    """Return what is wrong with a container's requests and limits."""
    limits = resources.get("limits") or {}
    causes = validate_not_negative_amounts(f"{path}.limits", limits)
    for name, amount in (resources.get("requests") or {}).items():
        causes += validate_not_negative_amounts(f"{path}.requests", {name: amount})
        if name not in limits:
            if not _may_be_overcommitted(name):
                detail = "Limit must be set for non overcommitable resources"
                causes.append(field_errors.required(f"{path}.limits", detail))
        elif not _may_be_overcommitted(name) and quantities.nanos(amount) != quantities.nanos(limits[name]):
            detail = f"must be equal to {name} limit of {limits[name]}"
            causes.append(field_errors.invalid(f"{path}.requests", str(amount), detail))
        elif quantities.nanos(amount) > quantities.nanos(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(field_errors.invalid(f"{path}.requests", str(amount), detail))
    return causes


def _validate_ports(path: str, container: Object) -> list[Cause]:
    """Return what is wrong with a container's ports."""
    causes: list[Cause] = []
    for index, port in enumerate(container.get("ports") or ()):
        where, number = f"{path}.ports[{index}]", port.get("containerPort", 0)
        if number == 0:
            causes.append(field_errors.required(f"{where}.containerPort"))
        elif not 1 <= number <= 65535:
            causes.append(field_errors.invalid(f"{where}.containerPort", number, RANGE_TEXT))
        if port.get("hostPort") and not 1 <= port["hostPort"] <= 65535:
            causes.append(field_errors.invalid(f"{where}.hostPort", port["hostPort"], RANGE_TEXT))
        if port.get("protocol") not in PROTOCOLS:
            causes.append(field_errors.unsupported(f"{where}.protocol", port.get("protocol", ""), PROTOCOLS))
    return causes


def _validate_container(path: str, container: Object, volumes: set[str]) -> list[Cause]:
    """Return what is wrong with a container; `volumes` are the names that it may mount."""
    name = container.get("name", "")
    causes = name_validation.validate_label(f"{path}.name", name) if name else [field_errors.required(f"{path}.name")]
    if not container.get("image"):
        causes.append(field_errors.required(f"{path}.image"))
    causes += _validate_ports(path, container)
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            causes.append(field_errors.required(f"{where}.name"))
        elif mount["name"] not in volumes:
            causes.append(field_errors.not_found(f"{where}.name", mount["name"]))
        if not mount.get("mountPath"):
            causes.append(field_errors.required(f"{where}.mountPath"))
    if container.get("imagePullPolicy") not in (None, *_PULLS):
        causes.append(field_errors.unsupported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULLS))
    return causes + _validate_resources(f"{path}.resources", container.get("resources") or {})


def _validate_volumes(path: str, volumes: Any) -> tuple[set[str], list[Cause]]:
    """The names of the volumes, and their problems."""
    used_names: set[str] = set()
    causes: list[Cause] = []
    for index, volume in enumerate(volumes or ()):
        name, where = volume.get("name", ""), f"{path}[{index}].name"
        wrong = name_validation.validate_label(where, name) if name else [field_errors.required(where)]
        if not wrong and name in used_names:
            wrong = [field_errors.duplicate(where, name)]
        if not wrong:
            used_names.add(name)
        causes += wrong
    return used_names, causes


def _validate_containers(path: str, spec: Object, volumes: set[str]) -> list[Cause]:
    """Return what is wrong with a pod's containers and init containers."""
    if not spec.get("containers"):
        return [field_errors.required(f"{path}.containers")]
    causes: list[Cause] = []
    used_names: set[str] = set()
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            where, name = f"{path}.{part}[{index}]", container.get("name", "")
            causes += _validate_container(where, container, volumes)
            if name and name in used_names:
                causes.append(field_errors.duplicate(f"{where}.name", name))
            used_names.add(name)
    return causes


def _validate_node_affinity(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with the node affinity: the required one has terms, and their expressions are complete."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    path = f"{path}.affinity.nodeAffinity"
    causes: list[Cause] = []
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    if required is not None:
        terms = required.get("nodeSelectorTerms") or ()
        if not terms:
            causes.append(field_errors.required(where, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            causes += _validate_node_selector_term(f"{where}[{index}]", term)
    where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        weight = preferred.get("weight", 0)
        if not 1 <= weight <= 100:
            causes.append(field_errors.invalid(f"{where}[{index}].weight", weight, "must be in the range 1-100"))
        causes += _validate_node_selector_term(f"{where}[{index}].preference", preferred.get("preference") or {})
    return causes


def _validate_node_selector_term(path: str, term: Object) -> list[Cause]:
    """Return the expressions on labels with an unknown operator, or not the values that theirs takes."""
    causes: list[Cause] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where, operator = f"{path}.matchExpressions[{index}]", expression.get("operator", "")
        values = expression.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(field_errors.required(f"{where}.values", text))
        elif operator in ("Exists", "DoesNotExist") and values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(field_errors.forbidden(f"{where}.values", text))
        elif operator in ("Gt", "Lt") and len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            causes.append(field_errors.required(f"{where}.values", text))
        elif operator not in _NODE_OPERATORS:
            causes.append(field_errors.invalid(f"{where}.operator", operator, "not a valid selector operator"))
        causes += name_validation.validate_qualified_name(f"{where}.key", expression.get("key", ""))
    return causes


def _validate_resource_claims(path: str, spec: Object) -> list[Cause]:
    """Return the names of resource claims that the pod has twice."""
    causes: list[Cause] = []
    used_names: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        name = claim.get("name", "")
        if name in used_names:
            causes.append(field_errors.duplicate(f"{path}[{index}].name", name))
        used_names.add(name)
    return causes


def validate_pod_spec(path: str, spec: Any) -> list[Cause]:
    """The problems of a pod's spec."""
    spec = spec if isinstance(spec, dict) else {}
    volumes, causes = _validate_volumes(f"{path}.volumes", spec.get("volumes"))
    causes += _validate_resource_claims(f"{path}.resourceClaims", spec)
    causes += _validate_containers(path, spec, volumes)
    for part, supported in (("restartPolicy", _RESTARTS), ("dnsPolicy", _DNS)):
        if spec.get(part) and spec[part] not in supported:
            causes.append(field_errors.unsupported(f"{path}.{part}", spec[part], supported))
    causes += name_validation.validate_labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    if spec.get("nodeName"):
        causes += name_validation.validate_subdomain(f"{path}.nodeName", spec["nodeName"])
        if spec.get("schedulingGates"):
            text = "cannot be set until all schedulingGates have been cleared"
            causes.append(field_errors.forbidden(f"{path}.nodeName", text))
    for part in ("hostname", "subdomain"):
        if spec.get(part):
            causes += name_validation.validate_label(f"{path}.{part}", spec[part])
    causes += _validate_node_affinity(path, spec)
    return causes + _validate_tolerations(f"{path}.tolerations", spec)


def _validate_tolerations(path: str, spec: Object) -> list[Cause]:
    """Return the operators and effects of tolerations that do not exist."""
    causes: list[Cause] = []
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        operator, effect = toleration.get("operator"), toleration.get("effect")
        if operator and operator not in _TOLERATION_OPERATORS:
            where = f"{path}[{index}].operator"
            causes.append(field_errors.unsupported(where, operator, _NAMED_TOLERATION_OPERATORS))
        if effect and effect not in EFFECTS:
            causes.append(field_errors.unsupported(f"{path}[{index}].effect", effect, EFFECTS))
    return causes
