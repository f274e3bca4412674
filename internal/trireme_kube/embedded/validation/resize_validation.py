"""Validates the resize of a pod: which amounts of its containers may change.

Source: k8s.io/kubernetes, pkg/apis/core/validation (ValidatePodResize).

Tests: tests/unit/embedded/registry/test_resizes.py.
"""

from trireme_kube.embedded.api import field_errors, pod_resources
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object

_PARTS = ("containers", "initContainers")
_MUTABLE = ("cpu", "memory")


def validate_pod_resize(obj: Object, before: Object) -> list[Cause]:
    """The changes of a pod that a resize does not allow."""
    causes: list[Cause] = []
    qos = (before.get("status") or {}).get("qosClass", "")
    if pod_resources.qos_class(obj["spec"]) != qos:
        causes.append(field_errors.invalid("spec", qos, "Pod QOS Class may not change as a result of resizing"))
    if _kubelet_cannot_resize(before):
        causes.append(field_errors.forbidden("spec", "Pod running on node without support for resize"))
    order = [cause for part in _PARTS for cause in _validate_order(part, obj["spec"], before["spec"])]
    if order:
        return causes + order
    for part in reversed(_PARTS):
        for index, (new, old) in enumerate(_pairs(part, obj, before)):
            causes += _validate_nothing_removed(f"spec.{part}[{index}].resources", new, old)
    for part in _PARTS:
        for index, (new, old) in enumerate(_pairs(part, obj, before)):
            if _without_mutable_amounts(new) != _without_mutable_amounts(old):
                causes.append(_immutable(part, index))
    return causes


def _kubelet_cannot_resize(pod: Object) -> bool:
    """Whether the pod runs, and its kubelet does not report with which amounts."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    running = [one for one in statuses if (one.get("state") or {}).get("running") is not None]
    return bool(running) and running[0].get("resources") is None


def _pairs(part: str, obj: Object, before: Object) -> list[tuple[Object, Object]]:
    """The containers as they are to be, each with what it was."""
    return list(zip(obj["spec"].get(part) or (), before["spec"].get(part) or (), strict=True))


def _validate_order(part: str, spec: Object, before: Object) -> list[Cause]:
    """Return what is wrong with the number, names and order of the containers."""
    new, old = ([one.get("name") for one in each.get(part) or ()] for each in (spec, before))
    if len(new) != len(old):
        return [field_errors.forbidden(f"spec.{part}", f"{part} may not be added or removed on resize")]
    text = f"{part} may not be renamed or reordered on resize"
    moved = (index for index, name in enumerate(old) if new[index] != name)
    return [field_errors.forbidden(f"spec.{part}[{index}].name", text) for index in moved]


def _validate_nothing_removed(path: str, new: Object, old: Object) -> list[Cause]:
    """Return the requests and limits that a container had and is not to have any more."""
    causes = []
    for part in ("requests", "limits"):
        before, after = ((one.get("resources") or {}).get(part) or {} for one in (old, new))
        if before.keys() - after.keys():
            causes.append(field_errors.forbidden(f"{path}.{part}", f"resource {part} cannot be removed"))
    return causes


def _without_mutable_amounts(container: Object) -> Object:
    """A container without what a resize may change."""
    resources = {part: value for part, value in (container.get("resources") or {}).items() if value}
    for part in ("requests", "limits"):
        amounts = {name: amount for name, amount in resources.pop(part, {}).items() if name not in _MUTABLE}
        if amounts:
            resources[part] = amounts
    return {**container, "resources": resources}


def _immutable(part: str, index: int) -> Cause:
    if part == "containers":
        return field_errors.forbidden("spec", "only cpu and memory resources are mutable")
    text = "only cpu and memory resources for init or sidecar containers are mutable"
    return field_errors.forbidden(f"spec.{part}[{index}]", text)
