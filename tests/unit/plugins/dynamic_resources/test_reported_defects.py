"""Situations of devices that users reported: what kube-scheduler decided wrongly, or still does."""

from typing import Any

import numpy as np
import pytest

from tests.helpers import simulated_insight
from tests.helpers.device_searches import all_devices, claim_of, exactly, held_device, named, search, slices_of
from tests.helpers.snapshot_views import Json, SnapshotBuilder
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import allocated_devices, args, features
from trireme.plugins.dynamic_resources import filter as device_filter
from trireme.snapshot import classes
from trireme.v1 import core_pb2, resource_pb2, scheduling_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

DRIVER = "d.example.com"
DRA = "resource.k8s.io/v1"
HOST = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "Exists"}]}
TWO_TERMS = {"nodeSelectorTerms": [HOST, HOST]}
UNREADABLE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}
GOOD = {"nodeSelectorTerms": [HOST]}


def _object(kind: str, raw: Json) -> snapshot_pb2.ClusterObject:
    """An object of one of the kinds that devices are about."""
    made: Any = decode.decode(raw, getattr(resource_pb2, kind))
    field = {"ResourceSlice": "resource_slice", "ResourceClaim": "resource_claim", "DeviceClass": "device_class"}[kind]
    return snapshot_pb2.ClusterObject(**{field: made})


def _slice(name: str = "s", **spec: Any) -> snapshot_pb2.ClusterObject:
    pool = {"name": f"pool-{name}", "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "pool": pool, **spec}
    return _object("ResourceSlice", {"metadata": {"name": name}, "spec": body})


def _refusals(
    *objects: snapshot_pb2.ClusterObject, corrected: bool, request: Json | None = None
) -> list[status.Status]:
    """Why a pod with a claim for a device, or for this request, cannot be on the only node; empty: it can."""
    builder = SnapshotBuilder()
    builder.set_node("n", labels={"kubernetes.io/hostname": "n"})
    requests = [request or exactly()]
    claim = {"metadata": {"namespace": "default", "name": "c", "uid": "c"}, "spec": {"devices": {"requests": requests}}}
    builder.apply(
        objects=[
            *objects,
            _object("DeviceClass", {"metadata": {"name": "any"}, "spec": {}}),
            _object("ResourceClaim", claim),
        ]
    )
    pod = decode.decode(
        {
            "metadata": {"namespace": "default", "name": "p", "uid": "p"},
            "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}], "containers": []},
        },
        core_pb2.Pod,
    )
    plugin = device_filter.DynamicResourcesFilter(args.Args(on=features.Features(corrected=corrected)))
    pod_class, table = classes.PodClass(99, pod), interfaces.StatusTable()
    answer = plugin.pre_filter(pod_class, builder.snap, table)
    if answer.status is not None:
        return [answer.status]
    verdicts = plugin.filter(pod_class, builder.snap, answer.state, np.array([0]), table)
    return [table.statuses[int(index) - 1] for index in verdicts.index if index != interfaces.PASSES]


@pytest.mark.parametrize("malformed", [TWO_TERMS, UNREADABLE], ids=["two-terms", "unreadable"])
@pytest.mark.parametrize("malformed_first", [True, False], ids=["malformed-first", "malformed-last"])
def test_a_device_with_a_malformed_node_selector_is_refused_and_others_are_usable(
    malformed: Json, malformed_first: bool
) -> None:
    """kubernetes/kubernetes#141214: the error ended the attempt for all nodes; it concerns that device alone."""
    devices = [{"name": "bad", "nodeSelector": malformed}, {"name": "good", "nodeSelector": GOOD}]
    entry = _slice(perDeviceNodeSelection=True, devices=devices if malformed_first else devices[::-1])
    assert _refusals(entry, corrected=True) == []
    assert (
        _refusals(entry, corrected=True, request=exactly(count=2))[0].code is status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    )


def test_a_slice_with_a_malformed_node_selector_gives_no_device_and_others_do() -> None:
    """kubernetes/kubernetes#141214 for a whole slice: kube-scheduler schedules no pod with claims at all."""
    slices = (
        _slice("a", nodeSelector=UNREADABLE, devices=[{"name": "x"}]),
        _slice("b", nodeName="n", devices=[{"name": "x"}]),
    )
    assert _refusals(*slices, corrected=True) == []
    assert _refusals(*slices, corrected=False)[0].code is status.Code.ERROR


@pytest.mark.parametrize(("size", "state"), [(2, "being updated"), (1, "invalid")])
def test_all_devices_of_a_broken_pool_are_to_be_had_on_other_nodes(size: int, state: str) -> None:
    """kubernetes/kubernetes#141829: the error ended the attempt for all nodes; it concerns those that see the pool."""
    twice = [{"name": "x"}, {"name": "x"}] if state == "invalid" else [{"name": "x"}]
    pool = {"name": "p", "generation": 1, "resourceSliceCount": size}
    broken = _slice("broken", nodeName="n", pool=pool, devices=twice)
    (refusal,) = _refusals(broken, corrected=True, request=all_devices())
    assert refusal.code is status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert f"resource pool {DRIVER}/p is currently {state}" in refusal.message
    elsewhere = _slice("broken", nodeName="other", pool=pool, devices=twice)
    good = _slice("good", nodeName="n", devices=[{"name": "x"}])
    assert _refusals(elsewhere, good, corrected=True, request=all_devices()) == []


def test_a_claim_that_consumes_less_than_nothing_has_its_device_and_others_are_usable() -> None:
    """One such claim ended the attempts of all pods with claims. What is left of its device is not known."""
    shared = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
    result = {"request": "r", "driver": DRIVER, "pool": "pool-s", "device": "a", "shareID": "x"}
    allocation = {"devices": {"results": [{**result, "consumedCapacity": {"memory": "-1"}}]}}
    metadata = {"namespace": "default", "name": "other", "uid": "other"}
    other = _object("ResourceClaim", {"metadata": metadata, "spec": {}, "status": {"allocation": allocation}})
    one = _slice(nodeName="n", devices=[{"name": "a", **shared}])
    two = _slice(nodeName="n", devices=[{"name": "a", **shared}, {"name": "b", **shared}])
    assert _refusals(two, other, corrected=True) == []
    assert _refusals(one, other, corrected=True)[0].code is status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    (error,) = _refusals(two, other, corrected=False)
    assert error.code is status.Code.ERROR
    assert 'consumed capacity "memory" must not be negative' in error.message


@pytest.mark.parametrize("consumed", [{}, {"memory": 1}], ids=["no-capacity", "capacity"])
def test_a_device_that_claims_share_is_not_given_to_one_alone(consumed: dict[str, int]) -> None:
    """kubernetes/kubernetes#140797: its driver then declares it exclusive, and a claim had it beside those shares."""
    held = held_device("a", True, **consumed)
    exclusive, shareable = slices_of(named("a")), slices_of(named("a", allowMultipleAllocations=True))
    assert search(exclusive, claim_of(exactly()), taken=[held]) is None
    assert search(exclusive, claim_of(exactly())) == [["r=a"]]
    assert search(exclusive, claim_of(exactly(adminAccess=True)), taken=[held]) == [["r=a"]]
    assert search(shareable, claim_of(exactly()), taken=[held]) == [["r=a"]]


def test_a_device_that_a_claim_has_alone_is_not_shared_later() -> None:
    """The other way round: a driver declares a device shareable while a claim has all of it."""
    slices = slices_of(named("a", allowMultipleAllocations=True))
    assert search(slices, claim_of(exactly()), taken=[held_device("a")]) is None


@pytest.mark.parametrize(
    ("selector", "free"),
    [
        ({}, ["a"]),
        ({"deviceSelector": {}}, None),
        ({"deviceSelector": {"device": "a"}}, ["b"]),
        ({"deviceSelector": {"driver": "other.example.com"}}, ["a"]),
        ({"deviceSelector": {"pool": "other"}}, ["a"]),
    ],
    ids=["none", "empty", "device", "driver", "pool"],
)
def test_a_taint_rule_without_a_selector_selects_no_device(selector: Json, free: list[str] | None) -> None:
    """kubernetes/kubernetes#141620: it tainted every device of the cluster; an empty selector does that."""
    rule = {**selector, "taint": {"key": "broken", "effect": "NoSchedule"}}
    found = search(slices_of(named("a", "b"), rules=[rule]), claim_of(exactly()))
    assert found == (None if free is None else [[f"r={name}" for name in free]])


def test_shared_counters_count_what_claims_hold_of_a_device_that_they_share() -> None:
    """kubernetes/kubernetes#139034: after a restart, counters of such a device were free again."""
    counters = {"sharedCounters": [{"name": "all", "counters": {"slots": {"value": "2"}}}]}
    draws = {"consumesCounters": [{"counterSet": "all", "counters": {"slots": {"value": "2"}}}]}
    slices = slices_of(
        counters, {"devices": [{"name": "a", "allowMultipleAllocations": True, **draws}, {"name": "b", **draws}]}
    )
    for consumed in (None, {"memory": 1}):
        held = allocated_devices.ClaimedDevice((DRIVER, "pool", "a"), True, consumed)
        assert search(slices, claim_of(exactly(count=2)), taken=[held]) is None
        assert search(slices, claim_of(exactly()), taken=[held]) == [["r=a"]]


def _devices_everywhere(*names: str) -> list[Json]:
    """A device class, and devices that every node reaches, as documents."""
    pool = {"name": "fabric", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": name} for name in names]
    spec = {"driver": DRIVER, "pool": pool, "allNodes": True, "devices": devices}
    return [
        {"apiVersion": DRA, "kind": "DeviceClass", "metadata": {"name": "any"}, "spec": {}},
        {"apiVersion": DRA, "kind": "ResourceSlice", "metadata": {"name": "fabric"}, "spec": spec},
    ]


def _claim_document(name: str, request: Json) -> Json:
    spec = {"devices": {"requests": [request]}}
    return {
        "apiVersion": DRA,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _pod_with_claims(name: str, *claims: str, **spec: Any) -> Json:
    stated = [{"name": claim, "resourceClaimName": claim} for claim in claims]
    return {"addPods": {"manifest": simulated_insight.manifest(name, resourceClaims=stated, **spec)}}


async def test_a_pod_with_a_claim_of_its_own_and_one_that_is_allocated_on_all_nodes_is_scored() -> None:
    """kubernetes/kubernetes#139016: Score counted the allocated claim as one without a solution, and failed."""
    wanted = {"deviceClassName": "any", "allocationMode": "ExactCount", "count": 1}
    ranked = {"name": "r", "firstAvailable": [{"name": "best", **wanted}]}
    documents = [
        *_devices_everywhere("a", "b", "c"),
        _claim_document("shared", ranked),
        _claim_document("own-1", ranked),
        _claim_document("own-2", exactly()),
    ]
    insight = await simulated_insight.SimulatedInsight(n0="1", n1="1").start()
    answer = await insight.change(
        *({"apply": {"manifest": each}} for each in documents),
        _pod_with_claims("first", "shared", "own-1"),
        _pod_with_claims("second", "shared", "own-2"),
    )
    assert sorted(simulated_insight.nodes_of(answer).items()) == [("first", "n0"), ("second", "n1")]


@pytest.mark.parametrize("kinds", [["a", "a", "a"], ["a", "b", "a"]], ids=["one-class", "two-classes"])
async def test_a_gang_whose_pods_name_one_unallocated_claim_is_bound(kinds: list[str]) -> None:
    """kubernetes/kubernetes#137617: the claim that was in allocation for the first pod refused the second."""
    insight = await simulated_insight.SimulatedInsight(n0="1", n1="2").start({"GenericWorkload": True})
    group = scheduling_pb2.PodGroup()
    group.metadata.namespace, group.metadata.name, group.metadata.uid = "default", "gang", "gang"
    group.spec.scheduling_policy.gang.min_count = 3
    insight.builder.apply(objects=[snapshot_pb2.ClusterObject(pod_group=group)])
    member = {"schedulingGroup": {"podGroupName": "gang"}}
    pods = [
        _pod_with_claims(f"p{number}", "shared", tolerations=[{"key": kind}], **member)
        for number, kind in enumerate(kinds)
    ]
    documents = [*_devices_everywhere("a"), _claim_document("shared", exactly())]
    answer = await insight.change(*({"apply": {"manifest": each}} for each in documents), *pods)
    assert sorted(simulated_insight.nodes_of(answer).values()) == ["n0", "n1", "n1"]
