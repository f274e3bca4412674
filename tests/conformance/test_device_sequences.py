"""Pods with claims for devices one after the other, none of them bound yet.

Two replicas of filter take turns.

What one pod was promised the next must not get, whichever replica answers; and it is free again once it is given back.
"""

import json
import time
from collections.abc import Iterator

import grpc
import pytest

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import Json
from tests.conformance.decision_phases import DEADLINE, Phases
from tests.conformance.unbound_pods import Sequence

pytestmark = pytest.mark.timeout(120)

DRIVER = "dev.example.com"
CANNOT = "cannot allocate all claims"


@pytest.fixture(scope="module")
def phases() -> Iterator[Phases]:
    """Two filters and a score, running."""
    with Phases(decision_profiles.make().configuration, replicas=2) as running:
        yield running


def _pod(name: str, *claims: str, **resources: str) -> Json:
    return {
        "metadata": {"namespace": "default", "name": name, "uid": name},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": resources}}],
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
        },
    }


def _node(name: str) -> Json:
    labels = {"kubernetes.io/hostname": name}
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": "20"}},
    }


def _claim(name: str, count: int = 1, **exactly: object) -> Json:
    exact = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": count, **exactly}
    return {
        "kind": "ResourceClaim",
        "metadata": {"namespace": "default", "name": name, "uid": f"claim-{name}", "resourceVersion": "1"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exact}]}},
    }


def _cluster(*claims: Json, devices: list[Json], nodes: int = 2, **placement: object) -> Json:
    """Nodes with the same devices each, or one pool where `placement` says so."""
    names = [f"n{number}" for number in range(nodes)]
    where = [("shared", placement)] if placement else [(name, {"nodeName": name}) for name in names]
    slices = []
    for pool, place in where:
        spec: Json = {"driver": DRIVER, "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1}, **place}
        spec["devices"] = [{**device, "name": f"{pool}-{device['name']}"} for device in devices]
        slices.append({"kind": "ResourceSlice", "metadata": {"name": pool}, "spec": spec})
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    device_class = {
        "kind": "DeviceClass",
        "metadata": {"name": "any"},
        "spec": {"selectors": [selector], "extendedResourceName": "example.com/dev"},
    }
    return {
        "nodes": [_node(name) for name in names],
        "resourceSlices": slices,
        "deviceClasses": [device_class],
        "resourceClaims": list(claims),
    }


def test_no_device_is_allocated_twice_and_a_deallocated_one_is_free(phases: Phases) -> None:
    """Four devices, five pods: each gets its own, the fifth none until one is taken back."""
    claims = [_claim(f"c{number}") for number in range(5)]
    here = Sequence(phases, _cluster(*claims, devices=[{"name": "a"}, {"name": "b"}]))
    pods = [_pod(f"p{number}", f"c{number}") for number in range(5)]
    for pod in pods[:4]:
        assert here.place(pod).startswith("n")
    assert here.devices() == ["n0-a", "n0-b", "n1-a", "n1-b"]
    assert here.place(pods[4]) == CANNOT
    here.unassume(pods[1])
    assert here.place(pods[4]).startswith("n")
    assert here.devices() == ["n0-a", "n0-b", "n1-a", "n1-b"]


def test_a_device_that_all_nodes_reach_is_given_once(phases: Phases) -> None:
    """One device for the whole cluster: the second pod must not get it on another node."""
    here = Sequence(phases, _cluster(_claim("c0"), _claim("c1"), devices=[{"name": "a"}], allNodes=True))
    assert here.place(_pod("p0", "c0")).startswith("n")
    assert here.place(_pod("p1", "c1")) == CANNOT


def test_a_claim_that_is_being_allocated_is_waited_for(phases: Phases) -> None:
    """A second pod with the same claim is refused until the allocation is written: it could not be reserved yet."""
    here = Sequence(phases, _cluster(_claim("c0"), devices=[{"name": "a"}]))
    first = _pod("p0", "c0")
    assert here.place(first).startswith("n")
    assert here.place(_pod("p1", "c0")) == "resource claim default/c0 is in the process of being allocated"
    here.unassume(first)
    assert here.place(_pod("p1", "c0")).startswith("n")


def test_what_is_assumed_holds_while_the_claim_is_only_protected(phases: Phases) -> None:
    """Between the two writes of an allocation the claim shows a new version without devices: they stay taken."""
    here = Sequence(phases, _cluster(_claim("c0"), _claim("c1"), devices=[{"name": "a"}], nodes=1))
    assert here.place(_pod("p0", "c0")) == "n0"
    protected = _claim("c0")
    protected["metadata"] |= {"resourceVersion": "2", "finalizers": ["resource.kubernetes.io/delete-protection"]}
    here.cluster.set_object(protected)
    assert here.place(_pod("p1", "c1")) == CANNOT
    allocated = {**protected, "status": {"allocation": {"devices": {"results": []}}}}
    allocated["metadata"] = {**protected["metadata"], "resourceVersion": "3"}
    here.cluster.set_object(allocated)
    assert here.place(_pod("p1", "c1")) == "n0"


def test_shares_of_a_device_are_given_until_none_is_left(phases: Phases) -> None:
    """Shares that were promised count before they are written: ten are enough for two that take four each."""
    shared = {"name": "a", "allowMultipleAllocations": True, "capacity": {"lanes": {"value": "10"}}}
    capacity = {"requests": {"lanes": "4"}}
    claims = [_claim(f"c{number}", capacity=capacity) for number in range(3)]
    here = Sequence(phases, _cluster(*claims, devices=[shared], nodes=1))
    assert [here.place(_pod(f"p{number}", f"c{number}")) for number in range(3)] == ["n0", "n0", CANNOT]


def test_counters_of_partitions_run_out(phases: Phases) -> None:
    """Two partitions that were promised leave no counters for a third, though its device is free."""
    draws = {"consumesCounters": [{"counterSet": "all", "counters": {"slots": {"value": "1"}}}]}
    claims = [_claim(f"c{number}") for number in range(3)]
    cluster = _cluster(*claims, devices=[{"name": name, **draws} for name in "abc"], nodes=1)
    spec = cluster["resourceSlices"][0]["spec"]
    spec["pool"] = {**spec["pool"], "resourceSliceCount": 2}
    counters = {
        "kind": "ResourceSlice",
        "metadata": {"name": "counters"},
        "spec": {
            "driver": DRIVER,
            "pool": spec["pool"],
            "nodeName": "n0",
            "sharedCounters": [{"name": "all", "counters": {"slots": {"value": "2"}}}],
        },
    }
    cluster["resourceSlices"].append(counters)
    here = Sequence(phases, cluster)
    assert [here.place(_pod(f"p{number}", f"c{number}")) for number in range(3)] == ["n0", "n0", CANNOT]


def test_extended_resources_of_one_class_get_devices_of_their_own(phases: Phases) -> None:
    """Pods without claims are one class, and go one at a time: the second sees what the first was given."""
    here = Sequence(phases, _cluster(devices=[{"name": "a"}, {"name": "b"}], nodes=1))
    pods = [_pod(f"p{number}", **{"example.com/dev": "1"}) for number in range(3)]
    assert [here.place(pod) for pod in pods] == ["n0", "n0", CANNOT]
    assert here.devices() == ["n0-a", "n0-b"]
    here.unassume(pods[0])
    assert here.place(pods[2]) == "n0"
    assert here.devices() == ["n0-a", "n0-b"]


def test_the_real_claim_takes_the_place_of_the_assumed_one(phases: Phases) -> None:
    """Once the claim for extended resources is there the assumption ends; it does not come back with the claim gone."""
    here = Sequence(phases, _cluster(devices=[{"name": "a"}], nodes=1))
    assert here.place(_pod("p0", **{"example.com/dev": "1"})) == "n0"
    real = _claim("p0-extended-resources-x")
    result = {"request": "r", "driver": DRIVER, "pool": "n0", "device": "n0-a"}
    real["metadata"]["ownerReferences"] = [{"kind": "Pod", "name": "p0", "uid": "p0", "controller": True}]
    real["status"] = {"allocation": {"devices": {"results": [result]}}}
    here.cluster.set_object(real)
    later = _pod("p1", **{"example.com/dev": "1"})
    assert here.place(later) == CANNOT
    here.cluster.cache.remove_object("resource_claim", "default", "p0-extended-resources-x")
    assert here.place(later) == "n0"


def test_a_long_search_lets_others_work_and_ends_with_its_caller(phases: Phases) -> None:
    """A search for devices may take ten seconds: other pods and health checks go on meanwhile."""
    # Two groups of devices, and one more is asked for than there are in either: all subsets of each are tried.
    asked = _claim("hard", count=21)
    asked["spec"]["devices"]["constraints"] = [{"requests": ["r"], "matchAttribute": f"{DRIVER}/group"}]
    devices: list[Json] = [{"name": f"d{number}", "attributes": {"group": {"int": number % 2}}} for number in range(40)]
    here = Sequence(phases, _cluster(asked, _claim("easy"), devices=devices, nodes=1))
    hard, easy = (here.question(_pod(name, name)) for name in ("hard", "easy"))
    replica = phases.filters[0].filter
    searching = replica.Filter.future(hard, timeout=3)
    began = time.monotonic()
    answers = 0
    while not searching.done():
        replica.Filter(easy, timeout=DEADLINE)
        answers += 1
    assert searching.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert answers >= 3
    replica.Filter(easy, timeout=DEADLINE)
    assert time.monotonic() - began < 8


GATE = "DRANodeAllocatableResources"


def test_devices_that_stand_for_cpu_are_counted_like_requests() -> None:
    setup = decision_profiles.make(flipped=json.dumps({GATE: True}))
    device = {"name": "a", "nodeAllocatableResources": {"cpu": {"mapping": {"deviceMultiplier": "6"}}}}
    objects = _cluster(_claim("c0"), _claim("c1"), devices=[device], nodes=1)
    with Phases(setup.configuration, replicas=2) as running:
        here = Sequence(running, {**objects, "featureGates": {GATE: True}})
        assert here.place(_pod("big", cpu="3")) == "n0"
        assert here.place(_pod("claiming", "c0")) == "Insufficient cpu", "six of eight, and five are left"
        here.unassume(_pod("big"))
        assert here.place(_pod("claiming", "c0", cpu="1")) == "n0"
        assert here.place(_pod("plain", cpu="2")) == "Insufficient cpu", "one is left"
        assert here.place(_pod("small", cpu="1")) == "n0"
        here.unassume(_pod("claiming"))
        assert here.place(_pod("plain", cpu="2")) == "n0"
