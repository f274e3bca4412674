"""Validates PodGroups and CompositePodGroups; the two kinds have nearly the same fields.

A group is of pods or of groups, and only its minimum may be changed later. Messages are the API server's; `validation`
turns them into a response.

Source: k8s.io/kubernetes, pkg/apis/scheduling/v1alpha3 and v1beta1, zz_generated.validations.go.

Tests: tests/unit/embedded/registry/test_groups.py.
"""

from collections.abc import Callable
from typing import Any

from trireme_kube.embedded.api import field_errors
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object

_MOST_TOPOLOGIES = 1
# All fields of a group but its policy, whose minimum may change.
_IMMUTABLE = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
)


def _validate_scheduling_policy(spec: Object, minimum: str) -> list[Cause]:
    """Return what is wrong with a scheduling policy; `minimum` is the field of a gang's minimum."""
    policy = spec.get("schedulingPolicy") or {}
    present = [name for name in ("basic", "gang") if policy.get(name) is not None]
    supported = "`basic`, `gang`"
    if not present:
        return [field_errors.invalid("spec.schedulingPolicy", "", f"must specify one of: {supported}")]
    if len(present) > 1:
        return [
            field_errors.invalid("spec.schedulingPolicy", "{basic, gang}", f"must specify exactly one of: {supported}")
        ]
    count = policy["gang"].get(minimum, 0) if present == ["gang"] else 1
    field = f"spec.schedulingPolicy.gang.{minimum}"
    if count == 0:
        return [field_errors.required(field)]
    return [] if count > 0 else [field_errors.invalid(field, count, "must be greater than or equal to 1")]


def _validate_topology_constraints(spec: Object) -> list[Cause]:
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    field = "spec.schedulingConstraints.topology"
    if len(topology) > _MOST_TOPOLOGIES:
        text = f"Too many: {len(topology)}: must have at most {_MOST_TOPOLOGIES} item"
        return [Cause("FieldValueTooMany", field, text)]
    return [field_errors.required(f"{field}[{at}].key") for at, one in enumerate(topology) if not one.get("key")]


def _validate_workload_reference(spec: Object, detail: str) -> list[Cause]:
    """The workload reference; `detail`: why it is required."""
    reference: Any = spec.get("workloadRef")
    if reference is None:
        return [field_errors.required("spec.workloadRef", detail)]
    return [
        field_errors.required(f"spec.workloadRef.{part}")
        for part in ("workloadName", "templateName")
        if not reference.get(part)
    ]


def validate_pod_group(obj: Object) -> list[Cause]:
    """The problems of a PodGroup."""
    spec = obj.get("spec") or {}
    causes = _validate_scheduling_policy(spec, "minCount") + _validate_topology_constraints(spec)
    if spec.get("parentCompositePodGroupName") is not None or spec.get("workloadRef") is not None:
        causes += _validate_workload_reference(spec, "must be set when parentCompositePodGroupName is set")
    return causes


def validate_composite_pod_group(obj: Object) -> list[Cause]:
    """The problems of a CompositePodGroup."""
    spec = obj.get("spec") or {}
    return (
        _validate_scheduling_policy(spec, "minGroupCount")
        + _validate_topology_constraints(spec)
        + _validate_workload_reference(spec, "")
    )


def validate_immutable_fields(obj: Object, before: Object) -> list[Cause]:
    """Changes of immutable fields."""
    new, old = obj["spec"], before["spec"]
    causes = [
        field_errors.invalid(f"spec.{part}", None, "field is immutable")
        for part in _IMMUTABLE
        if new.get(part) != old.get(part)
    ]
    is_gang, was_gang = (spec["schedulingPolicy"].get("gang") is not None for spec in (new, old))
    if is_gang != was_gang:
        detail = "field cannot be set once created" if is_gang else "field cannot be cleared once set"
        causes.append(field_errors.invalid("spec.schedulingPolicy.gang", None, detail))
    if new["schedulingPolicy"].get("basic") != old["schedulingPolicy"].get("basic"):
        causes.append(field_errors.invalid("spec.schedulingPolicy.basic", None, "field is immutable"))
    return causes


CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "podgroups.scheduling.k8s.io": validate_pod_group,
    "compositepodgroups.scheduling.k8s.io": validate_composite_pod_group,
}
UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = dict.fromkeys(CREATE, validate_immutable_fields)
