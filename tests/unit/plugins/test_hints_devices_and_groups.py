"""Hints of DynamicResources and GangScheduling."""

from typing import Any

import pytest
from hint_answers import QUEUE, SKIP, Hints, entry, node, on, pod

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
    """Else pods are tried for claims that are not theirs, or sleep when devices are given back."""
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
    """Else each claim that ends wakes pods that cannot go on without one of their own."""
    gave_back = _claim("other", "d1"), _claim("other")
    assert Hints("DynamicResources", there).about(NAMED, CLAIM_EVENT, "Update", *gave_back) == SKIP


@pytest.mark.parametrize(
    ("owner", "expected"), [("uid-p", QUEUE), ("x", SKIP)], ids=["made-for-it", "made-for-another"]
)
def test_the_name_of_a_claim_that_was_made(owner: str, expected: str) -> None:
    """Else a pod is tried before all of its claims are there."""
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
    """Else a pod sleeps while its devices are there."""
    new = {"Node": node(), "resource.k8s.io/DeviceClass": entry("DeviceClass", "c", spec={})}.get(resource)
    new = new or entry("ResourceSlice", "s", spec={})
    assert Hints("DynamicResources").about(NAMED, resource, action, new, new) == QUEUE


GROUPED = {"GenericWorkload": True}


def _member(group: str, name: str = "p", **more: Any) -> Json:
    return pod(name, schedulingGroup={"podGroupName": group}, **more)


def _group(name: str, minimum: int | None = 2) -> Json:
    policy = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    return entry("PodGroup", name, "ns", spec={"schedulingPolicy": policy})


@pytest.mark.parametrize(
    ("waiting", "resource", "old", "new", "expected"),
    [
        pytest.param(_member("g"), "UnscheduledPod", None, _member("g", "q"), QUEUE, id="one-more"),
        pytest.param(_member("g"), "AssignedPod", None, on("n", _member("g", "q")), QUEUE, id="one-more-with-a-node"),
        pytest.param(_member("g"), "UnscheduledPod", None, _member("h", "q"), SKIP, id="of-another-group"),
        pytest.param(_member("g"), "UnscheduledPod", None, _member("g", "q", namespace="x"), SKIP, id="elsewhere"),
        pytest.param(_member("g"), "UnscheduledPod", None, pod("q"), SKIP, id="of-no-group"),
        pytest.param(pod(), "UnscheduledPod", None, _member("g", "q"), SKIP, id="in-no-group"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", None, _group("g"), QUEUE, id="its-group"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", None, _group("h"), SKIP, id="another-group"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("g", 3), _group("g"), QUEUE, id="fewer-do"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("g", 2), _group("g"), SKIP, id="as-many"),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("g", None), _group("g"), SKIP, id="no-gang"),
        pytest.param(
            _member("g"), "scheduling.k8s.io/PodGroup", _group("g", 3), _group("g", None), SKIP, id="gang-no-more"
        ),
        pytest.param(_member("g"), "scheduling.k8s.io/PodGroup", _group("h", 3), _group("h"), SKIP, id="of-another"),
    ],
)
def test_gangs(waiting: Json, resource: str, old: Json | None, new: Json, expected: str) -> None:
    """Else a gang that is complete sleeps on, or wakes for pods of others."""
    hints = Hints("GangScheduling", features=GROUPED)
    assert hints.about(waiting, resource, "Add" if old is None else "Update", old, new) == expected


def _of_groups(name: str, parent: str | None = None) -> Json:
    spec = {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": parent}
    return entry("CompositePodGroup", name, "ns", spec=spec)


def _in(parent: str, name: str, minimum: int = 2) -> Json:
    group = _group(name, minimum)
    group["spec"]["parentCompositePodGroupName"] = parent
    return group


# Two trees, root (g, m (h)) and other (o); and groups of which nobody knows the root.
TREES = [
    _of_groups("root"),
    _of_groups("m", "root"),
    _of_groups("other"),
    _of_groups("round", "round"),
    *[_in(parent, name) for parent, name in (("root", "g"), ("m", "h"), ("other", "o"), ("none", "n"), ("round", "r"))],
]
COMPOSITE = "scheduling.k8s.io/CompositePodGroup"


@pytest.mark.parametrize(
    ("waiting", "resource", "new", "expected"),
    [
        pytest.param(_member("g"), "UnscheduledPod", _member("h", "q"), QUEUE, id="a-pod-of-the-tree"),
        pytest.param(_member("g"), "UnscheduledPod", _member("o", "q"), SKIP, id="a-pod-of-another-tree"),
        pytest.param(_member("h"), "scheduling.k8s.io/PodGroup", _in("root", "g"), QUEUE, id="a-group-of-the-tree"),
        pytest.param(_member("h"), COMPOSITE, _of_groups("root"), QUEUE, id="its-root"),
        pytest.param(_member("g"), COMPOSITE, _of_groups("m", "root"), QUEUE, id="a-part-of-its-tree"),
        pytest.param(_member("g"), COMPOSITE, _of_groups("other"), SKIP, id="another-root"),
        pytest.param(_member("n"), "UnscheduledPod", _member("n", "q"), SKIP, id="no-root"),
        pytest.param(_member("r"), COMPOSITE, _of_groups("round", "round"), SKIP, id="round-in-a-circle"),
    ],
)
def test_gangs_in_trees(waiting: Json, resource: str, new: Json, expected: str) -> None:
    """Whatever happens to one group of a tree may complete it; without the gate parents mean nothing."""
    gates = dict.fromkeys((*GROUPED, "TopologyAwareWorkloadScheduling", "CompositePodGroup"), True)
    assert Hints("GangScheduling", TREES, gates).about(waiting, resource, "Add", None, new) == expected
    without = Hints("GangScheduling", TREES, GROUPED)
    assert "scheduling.k8s.io/CompositePodGroupAdd" not in without.events
    if resource == "UnscheduledPod":
        same = waiting["spec"]["schedulingGroup"] == new["spec"]["schedulingGroup"]
        assert without.about(waiting, resource, "Add", None, new) == (QUEUE if same else SKIP)


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
    """Else a pod of a group would never be tried, or be tried for a claim that it cannot have."""
    reference = {"apiVersion": api, "kind": "PodGroup", "name": owner, "uid": "any", "controller": True}
    made = _claim("made", metadata={"ownerReferences": [reference]})
    waiting = {**MADE, "spec": {**MADE["spec"], "schedulingGroup": {"podGroupName": "g"}}}
    gates = {"GenericWorkload": gate, "DRAWorkloadResourceClaims": gate}
    assert Hints("DynamicResources", [made], gates).about(waiting, CLAIM_EVENT, "Add", None, made) == expected
