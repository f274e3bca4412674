"""Validates the objects of dynamic resource allocation: what a claim asks for, and whose devices a slice lists.

Source: k8s.io/kubernetes, pkg/apis/resource/validation.

Tests: tests/unit/embedded/validation/test_refusals.py.
"""

from __future__ import annotations

from collections.abc import Callable

from trireme_kube.embedded.api import field_errors
from trireme_kube.embedded.api.field_errors import Cause
from trireme_kube.embedded.api.resources import Object

_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")


def _validate_claim_spec(path: str, spec: Object) -> list[Cause]:
    """Return what is wrong with a claim's requests: each has exactly one of two kinds."""
    causes: list[Cause] = []
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or ()):
        where = f"{path}.devices.requests[{index}]"
        exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
        text = "exactly one of `exactly` or `firstAvailable` is required"
        if exactly is None and not alternatives:
            causes.append(field_errors.required(where, text))
        elif exactly is not None and alternatives:
            causes.append(field_errors.invalid(where, None, f"{text}, but multiple fields are set"))
    return causes


def _validate_claim(obj: Object) -> list[Cause]:
    """Return what is wrong with a ResourceClaim."""
    return _validate_claim_spec("spec", obj.get("spec") or {})


def _validate_claim_template(obj: Object) -> list[Cause]:
    """Return what is wrong with a ResourceClaimTemplate."""
    return _validate_claim_spec("spec.spec", (obj.get("spec") or {}).get("spec") or {})


def _validate_slice(obj: Object) -> list[Cause]:
    """Return what is wrong with a ResourceSlice: exactly one field says for which nodes it is."""
    spec = obj.get("spec") or {}
    named = [name for name in _NODE_FIELDS if spec.get(name)]
    text = f"exactly one of {', '.join(f'`{name}`' for name in _NODE_FIELDS)} is required"
    if not named:
        return [field_errors.required("spec", text)]
    if len(named) > 1:
        return [field_errors.invalid("spec", "{" + ", ".join(named) + "}", text)]
    return []


CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "resourceclaims.resource.k8s.io": _validate_claim,
    "resourceclaimtemplates.resource.k8s.io": _validate_claim_template,
    "resourceslices.resource.k8s.io": _validate_slice,
}
