"""What wakes pods that DynamicResources refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, entry, node, pod

Json = dict[str, Any]

CLAIM_EVENT = "resource.k8s.io/ResourceClaim"


def _claim(name: str, *devices: str, metadata: Json | None = None, namespace: str = "ns", **status: Any) -> Json:
    results = [{"request": "r", "driver": "d", "pool": "p", "device": device} for device in devices]
    allocation = {"allocation": {"devices": {"results": results}}} if devices else {}
    return entry("ResourceClaim", name, namespace, metadata, spec={}, status={**allocation, **status})


def _owned(owner: str) -> Json:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}
    return {"ownerReferences": [reference]}


NAMED = pod(resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])
RESERVED = {"reservedFor": [{"resource": "pods", "name": "q", "uid": "q"}]}


def _templated(*made: Json) -> Json:
    claims = [{"name": "c", "resourceClaimTemplateName": "t"}]
    return pod(resourceClaims=claims, status={"resourceClaimStatuses": list(made)})


MADE = _templated({"name": "c", "resourceClaimName": "made"})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(NAMED, None, _claim("mine"), QUEUE, id="its-claim-came"),
        pytest.param(NAMED, None, _claim("other"), SKIP, id="another-came"),
        pytest.param(NAMED, _claim("other", "d1"), _claim("other"), QUEUE, id="another-gave-back"),
        pytest.param(NAMED, _claim("other"), _claim("other", "d1"), SKIP, id="another-was-given"),
        pytest.param(NAMED, _claim("mine"), _claim("mine", "d1"), QUEUE, id="its-own-was-given"),
        pytest.param(NAMED, _claim("mine"), _claim("mine", **RESERVED), QUEUE, id="its-own-was-reserved"),
        pytest.param(
            NAMED, _claim("mine"), _claim("mine", metadata={"finalizers": ["f"]}), SKIP, id="its-own-has-a-finalizer"
        ),
        pytest.param(NAMED, _claim("other", "d1"), None, QUEUE, id="one-with-devices-is-gone"),
        pytest.param(NAMED, _claim("other"), None, SKIP, id="one-without-is-gone"),
        pytest.param(MADE, None, _claim("made", metadata=_owned("uid-p")), QUEUE, id="the-claim-made-for-it-came"),
        pytest.param(MADE, None, _claim("made", metadata=_owned("x")), SKIP, id="somebody-elses-of-that-name"),
        pytest.param(_templated(), _claim("other", "d1"), _claim("other"), SKIP, id="its-claim-is-not-made-yet"),
        pytest.param(_templated({"name": "c"}), _claim("other", "d1"), _claim("other"), QUEUE, id="none-was-needed"),
    ],
)
def test_claims(waiting: Json, old: Json | None, new: Json | None, expected: str) -> None:
    """Only the pod's own claims, and released devices, wake it."""
    there = {each["metadata"]["name"]: each for each in (_claim("mine"), new) if each is not None}
    action = "Add" if old is None else "Delete" if new is None else "Update"
    assert Hints("DynamicResources", there.values()).about(waiting, CLAIM_EVENT, action, old, new) == expected


@pytest.mark.parametrize(
    "there",
    [
        pytest.param([], id="its-own-is-missing"),
        pytest.param(
            [_claim("mine", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], id="its-own-is-on-its-way-out"
        ),
    ],
)
def test_devices_do_not_help_a_pod_that_lacks_a_claim(there: list[Json]) -> None:
    gave_back = _claim("other", "d1"), _claim("other")
    assert Hints("DynamicResources", there).about(NAMED, CLAIM_EVENT, "Update", *gave_back) == SKIP


@pytest.mark.parametrize(
    ("owner", "expected"), [("uid-p", QUEUE), ("x", SKIP)], ids=["made-for-it", "made-for-another"]
)
def test_the_name_of_a_claim_that_was_made(owner: str, expected: str) -> None:
    hints = Hints("DynamicResources", [_claim("made", metadata=_owned(owner))])
    assert hints.about(MADE, "TargetPod", "UpdatePodGeneratedResourceClaim", _templated(), MADE) == expected


@pytest.mark.parametrize(
    ("resource", "action"),
    [
        ("Node", "UpdateNodeLabel"),
        ("resource.k8s.io/DeviceClass", "Update"),
        ("resource.k8s.io/ResourceSlice", "Add"),
    ],
)
def test_events_that_always_wake(resource: str, action: str) -> None:
    """New devices and slices always wake."""
    new = {"Node": node(), "resource.k8s.io/DeviceClass": entry("DeviceClass", "c", spec={})}.get(resource)
    new = new or entry("ResourceSlice", "s", spec={})
    assert Hints("DynamicResources").about(NAMED, resource, action, new, new) == QUEUE


@pytest.mark.parametrize(
    ("gate", "owner", "api", "expected"),
    [
        pytest.param(True, "g", "scheduling.k8s.io/v1beta1", QUEUE, id="of-its-group"),
        pytest.param(True, "g", "scheduling.k8s.io/v9", QUEUE, id="whatever-the-version"),
        pytest.param(True, "h", "scheduling.k8s.io/v1beta1", SKIP, id="of-another-group"),
        pytest.param(True, "g", "example.com/v1", SKIP, id="of-something-else"),
        pytest.param(False, "g", "scheduling.k8s.io/v1beta1", SKIP, id="without-the-gate"),
    ],
)
def test_a_claim_that_was_made_for_its_group_is_the_pods(gate: bool, owner: str, api: str, expected: str) -> None:
    reference = {"apiVersion": api, "kind": "PodGroup", "name": owner, "uid": "any", "controller": True}
    made = _claim("made", metadata={"ownerReferences": [reference]})
    waiting = {**MADE, "spec": {**MADE["spec"], "schedulingGroup": {"podGroupName": "g"}}}
    gates = {"GenericWorkload": gate, "DRAWorkloadResourceClaims": gate}
    assert Hints("DynamicResources", [made], gates).about(waiting, CLAIM_EVENT, "Add", None, made) == expected
