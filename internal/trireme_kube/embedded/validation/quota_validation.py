"""Validates resource quotas.

Source: k8s.io/kubernetes, pkg/apis/core/validation (ValidateResourceQuota and what it calls).

Also change: internal/trireme_kube/embedded/registry/quotas/pod_usage.py (resources of quotas).

Tests: tests/unit/embedded/registry/test_quotas.py.
"""

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from trireme_kube.apimachinery.quantity import NANOS_PER_UNIT
from trireme_kube.embedded.api import field_errors, quantities
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.validation import name_validation

_COUNTED = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_COMPUTING = frozenset({"cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"})
_OF_QUOTAS = (
    _COUNTED
    | _COMPUTING
    | {
        "ephemeral-storage",
        "requests.ephemeral-storage",
        "limits.ephemeral-storage",
        "requests.storage",
    }
)
_HUGE_PAGES = ("hugepages-", "requests.hugepages-")
# What a quota of each scope may limit.
_PODS = _COMPUTING | {"pods"}
_SCOPES: dict[str, frozenset[str]] = {
    "Terminating": _PODS,
    "NotTerminating": _PODS,
    "BestEffort": frozenset({"pods"}),
    "NotBestEffort": _PODS,
    "PriorityClass": _PODS,
    "CrossNamespacePodAffinity": _PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_WITHOUT_VALUES = frozenset(_SCOPES) - {"PriorityClass", "VolumeAttributesClass"}
_MUST_EXIST = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _validate_name(path: str, name: str) -> list[Cause]:
    """Return what is wrong with the name of something that a quota limits."""
    causes = name_validation.validate_qualified_name(path, name)
    if "/" in name or _is_of_quotas(name):
        return causes
    # Quotas know all of Kubernetes' but one.
    if not causes and name != "storage":
        causes = [field_errors.invalid(path, name, "must be a standard resource type or fully qualified")]
    return [*causes, field_errors.invalid(path, name, "must be a standard resource for quota")]


def _is_of_quotas(name: str) -> bool:
    return name in _OF_QUOTAS or name.startswith(_HUGE_PAGES)


def _must_be_whole(name: str) -> bool:
    """Whether it counts things, as extended resources and `count/` do."""
    if name in _COUNTED:
        return True
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return not name_validation.validate_qualified_name("", f"requests.{name}")


def _validate_hard(path: str, hard: Any) -> list[Cause]:
    """Return what is wrong with the limits of a quota."""
    causes: list[Cause] = []
    for name, quantity in sorted((hard or {}).items()):
        where, text = f"{path}[{name}]", quantities.canonical(quantity)
        causes += _validate_name(where, name)
        if quantities.nanos(text) < 0:
            causes.append(field_errors.invalid(where, text, "must be greater than or equal to 0"))
        if _must_be_whole(name) and quantities.nanos(text) % NANOS_PER_UNIT:
            causes.append(field_errors.invalid(where, text, "must be an integer"))
    return causes


def _misplaced(scope: str, hard: Any) -> int:
    allowed = _SCOPES.get(scope)
    return 0 if allowed is None else sum(_is_of_quotas(name) and name not in allowed for name in hard or ())


def _conflicts(path: str, scopes: Iterable[str], shown: Any) -> list[Cause]:
    conflicts = sum(pair <= set(scopes) for pair in _OPPOSITES)
    return [field_errors.invalid(path, shown, "conflicting scopes")] * conflicts


def _validate_scopes(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with the scopes of a quota."""
    scopes = spec.get("scopes") or []
    causes: list[Cause] = []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(field_errors.invalid(path, scopes, "unsupported scope"))
        misplaced = field_errors.invalid(path, scopes, "unsupported scope applied to resource")
        causes += [misplaced] * _misplaced(scope, spec.get("hard"))
    return causes + _conflicts(path, scopes, scopes)


def _validate_scope_selector(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with the scope selector of a quota."""
    requirements = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    causes: list[Cause] = []
    for one in requirements:
        scope, operator, values = one.get("scopeName", ""), one.get("operator", ""), one.get("values") or []
        if scope not in _SCOPES:
            causes.append(field_errors.invalid(f"{path}.scopeName", scope, "unsupported scope"))
        text = f"Invalid value: {_internal_form(requirements)}: unsupported scope applied to resource"
        causes += [Cause("FieldValueInvalid", path, text)] * _misplaced(scope, spec.get("hard"))
        if scope in _WITHOUT_VALUES and operator != "Exists":
            causes.append(field_errors.invalid(f"{path}.operator", operator, _MUST_EXIST))
        causes += _validate_operator(path, operator, values)
    # The message shows the other field, which may be empty.
    return causes + _conflicts(path, [one.get("scopeName", "") for one in requirements], spec.get("scopes"))


def _validate_operator(path: str, operator: str, values: list[str]) -> list[Cause]:
    """Return what is wrong with the operator and the values of a requirement."""
    if operator in ("In", "NotIn"):
        text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        return [] if values else [field_errors.required(f"{path}.values", text)]
    if operator in ("Exists", "DoesNotExist"):
        text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        return [field_errors.invalid(f"{path}.values", values, text)] if values else []
    return [field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")]


def _internal_form(requirements: Iterable[Object]) -> str:
    """A scope selector as the API server's messages show it: by the names of its Go fields."""
    shown = [
        {"ScopeName": one.get("scopeName", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}
        for one in requirements
    ]
    return orjson.dumps({"MatchExpressions": shown}).decode()


def _validate_quota(obj: Object) -> list[Cause]:
    """Return what is wrong with a ResourceQuota."""
    spec = obj.get("spec") or {}
    return [
        *_validate_hard("spec.hard", spec.get("hard")),
        *_validate_scopes("spec.scopes", spec),
        *_validate_scope_selector("spec.scopeSelector.matchExpressions", spec),
    ]


def _validate_quota_update(obj: Object, before: Object) -> list[Cause]:
    """The scopes of a quota cannot change."""
    scopes, old = ((one.get("spec") or {}).get("scopes") for one in (obj, before))
    if set(scopes or ()) == set(old or ()):
        return []
    return [field_errors.invalid("spec.scopes", scopes, "field is immutable")]


CREATE: dict[str, Callable[[Object], list[Cause]]] = {"resourcequotas": _validate_quota}
UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = {"resourcequotas": _validate_quota_update}
