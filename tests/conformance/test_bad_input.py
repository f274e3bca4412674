"""What cannot be read in one pod is refused as kube-scheduler refuses it, and other pods are decided as without it."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance import decision_profiles
from tests.conformance.decision_phases import Phases
from tests.conformance.decisions import Decider

Json = dict[str, Any]

SETUPS = decision_profiles.Setups()

_BAD_KEY = {"matchExpressions": [{"key": "app", "operator": "Bogus"}]}


def _node(name: str) -> Json:
    labels = {"kubernetes.io/hostname": name, "zone": f"z{name[-1]}"}
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    metadata = {"name": name, "labels": labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {},
        "status": {"allocatable": allocatable},
    }


def _pod(name: str, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def _affinity(kind: str, term: Json) -> Json:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


_SELECTOR = '"Bogus" is not a valid label selector operator'
_NODE_TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["many"]}]}]}
_CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _BAD_KEY}
_CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "nobody"}}
_EPHEMERAL = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}

# What is wrong with the bad pod, and what it is refused with at PreFilter.
FAULTS = [
    pytest.param(
        _affinity("podAffinity", {"topologyKey": "zone", "labelSelector": _BAD_KEY}),
        f"parsing pod: requiredAffinityTerms: {_SELECTOR}",
        id="selector-of-affinity",
    ),
    pytest.param(
        _affinity("podAntiAffinity", {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": _BAD_KEY}),
        f"parsing pod: requiredAntiAffinityTerms: {_SELECTOR}",
        id="namespace-selector",
    ),
    pytest.param(
        {"topologySpreadConstraints": [_CONSTRAINT]},
        'running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod\'s hard topology spread '
        f"constraints: {_SELECTOR}",
        id="selector-of-spread",
    ),
    pytest.param({"volumes": [_CLAIM]}, 'persistentvolumeclaim "nobody" not found', id="claim"),
    pytest.param(
        {"volumes": [_EPHEMERAL]},
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "bad-v"',
        id="claim-of-an-ephemeral-volume",
    ),
    pytest.param(
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _NODE_TERM}}},
        None,
        id="node-term",
    ),
    pytest.param(_affinity("podAffinity", {"topologyKey": "", "labelSelector": {}}), None, id="topology-key"),
]


@pytest.fixture(scope="module")
def decider() -> Iterator[Decider]:
    """Someone to ask."""
    with Phases(SETUPS.default.configuration) as running:
        yield Decider(running, SETUPS)


def _decided(decider: Decider, pod: Json, placed: list[Json], waiting: list[Json]) -> Json:
    nodes = [_node(f"n{number}") for number in range(3)]
    return decider.decide({"name": "bad", "case": {"nodes": nodes, "pods": placed, "pod": pod, "nominated": waiting}})


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
def test_a_pod_that_cannot_be_read_is_refused(decider: Decider, fault: Json, reason: str | None) -> None:
    answer = _decided(decider, _pod("bad", **fault), [_pod("p", nodeName="n0")], [])
    assert answer["feasible"] == []
    if reason is None:
        assert set(answer["filter"]) == {"n0", "n1", "n2"}
    else:
        assert answer["preFilter"]["reasons"] == [reason]


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
def test_other_pods_are_decided_as_without_it(decider: Decider, fault: Json, reason: str | None) -> None:
    good = _pod("good")
    good["spec"] |= {
        "affinity": {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
                ]
            }
        }
    }
    fine = _pod("bad", nodeName="n1")
    bad = copy.deepcopy(fine)
    bad["spec"] |= fault
    waits = {**_pod("waits", **fault), "status": {"phase": "Pending", "nominatedNodeName": "n2"}}
    waits["spec"]["priority"] = -1
    alone = _decided(decider, good, [fine], [])
    assert alone["feasible"] == ["n0", "n1", "n2"]
    assert _decided(decider, good, [bad], [waits]) == alone
