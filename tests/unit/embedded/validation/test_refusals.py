"""Objects that kube-apiserver refuses, with its texts."""

from __future__ import annotations

from typing import Any

import pytest

from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY
from trireme_kube.embedded.validation.object_validation import validate_create

NODES = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ONE = "exactly one of `exactly` or `firstAvailable` is required"


def refusal(key: str, spec: dict[str, Any]) -> str:
    """The errors for an object with that spec; empty if it is accepted."""
    try:
        validate_create(BY_KEY[key], {"metadata": {"name": "x"}, "spec": spec})
    except ApiError as error:
        return error.message.partition(" is invalid: ")[2]
    return ""


def refusal_of_pod(resources: dict[str, Any] | None = None, **spec: Any) -> str:
    """The errors for a pod with one container."""
    return refusal("pods", {"containers": [{"name": "c", "image": "i", "resources": resources or {}}], **spec})


@pytest.mark.parametrize("name", ["example.com/fpga", "hugepages-2Mi"])
def test_resources_that_may_not_be_overcommitted(name: str) -> None:
    """Extended resources and huge pages need a limit that equals the request."""
    place = "spec.containers[0].resources"
    text = f"{place}.limits: Required value: Limit must be set for non overcommitable resources"
    assert refusal_of_pod({"requests": {name: "2"}}) == text
    text = f'{place}.requests: Invalid value: "2": must be equal to {name} limit of 3'
    assert refusal_of_pod({"requests": {name: "2"}, "limits": {name: "3"}}) == text
    assert refusal_of_pod({"requests": {name: "2"}, "limits": {name: "2"}}) == ""
    assert refusal_of_pod({"requests": {"cpu": "2"}}) == ""


def test_node_affinity_without_terms() -> None:
    """A required node affinity has at least one term."""
    place = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    text = f"{place}: Required value: must have at least one node selector term"
    assert refusal_of_pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}) == text


def test_claim_name_twice() -> None:
    """The names of a pod's resource claims are unique."""
    claims = [{"name": "g", "resourceClaimName": "one"}, {"name": "g", "resourceClaimName": "two"}]
    assert refusal_of_pod(resourceClaims=claims) == 'spec.resourceClaims[1].name: Duplicate value: "g"'


def test_request_that_asks_for_nothing() -> None:
    """A request is exact or has alternatives, in claims and templates."""
    spec = {"devices": {"requests": [{"name": "r"}]}}
    text = f"devices.requests[0]: Required value: {ONE}"
    assert refusal("resourceclaims.resource.k8s.io", spec) == f"spec.{text}"
    assert refusal("resourceclaimtemplates.resource.k8s.io", {"spec": spec}) == f"spec.spec.{text}"


def test_slice_for_no_node() -> None:
    """A slice says for which nodes it is."""
    assert refusal("resourceslices.resource.k8s.io", {}) == f"spec: Required value: {NODES}"
    assert refusal("resourceslices.resource.k8s.io", {"allNodes": True}) == ""


def test_operator_behind_a_gate_that_is_off() -> None:
    """Tolerations compare no numbers unless the API server's gate is on; its text names the operators all the same."""
    tolerations = [{"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}]
    text = 'Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"'
    assert refusal_of_pod(tolerations=tolerations) == f"spec.tolerations[0].operator: {text}"
    assert refusal_of_pod(tolerations=[{"operator": "Exists"}]) == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"nodeSelector": {"a" * 64: "b"}}, "name part must be no more than 63 bytes"),
        ({"hostname": "a.b"}, "must not contain dots"),
        ({"nodeSelector": {"a": "ä" * 40}}, "must be no more than 63 bytes, "),
    ],
    ids=["long key", "dotted label", "long value"],
)
def test_names_are_refused_in_the_words_of_the_api_server(spec: dict[str, Any], words: str) -> None:
    assert words in refusal_of_pod(**spec)
