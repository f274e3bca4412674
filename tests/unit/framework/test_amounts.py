"""What pods on nodes hold while they are resized."""

from typing import Any

import pytest

from trireme.framework import amounts
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import decode


def _resized(spec: str, allocated: str, in_force: str, part: str = "containers", **more: Any) -> core_pb2.Pod:
    """A pod whose container requests so much cpu, was allocated so much, and has so much in force."""
    status = {
        "name": "c",
        "allocatedResources": {"cpu": allocated},
        "resources": {"requests": {"cpu": in_force}},
    }
    statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[part]
    container = {"name": "c", "resources": {"requests": {"cpu": spec}}, **more}
    return decode.decode({"spec": {part: [container]}, "status": {statuses: [status]}}, core_pb2.Pod)


@pytest.mark.parametrize(
    ("spec", "allocated", "in_force", "held"),
    [
        pytest.param("1", "3", "2", 3000, id="down-is-pending-and-up-in-progress"),
        pytest.param("3", "2", "1", 3000, id="up-is-pending"),
        pytest.param("1", "1", "2", 2000, id="down-in-progress"),
    ],
)
def test_the_largest_of_requests_allocation_and_what_is_in_force_counts(
    spec: str, allocated: str, in_force: str, held: int
) -> None:
    """kubernetes/kubernetes#129532: the allocation did not count, so the kubelet refused pods for lack of cpu."""
    for pod in (
        _resized(spec, allocated, in_force),
        _resized(spec, allocated, in_force, "initContainers", restartPolicy="Always"),
    ):
        assert amounts.pod_amounts(pod).placed["cpu"] == held


def test_the_same_holds_for_the_resources_of_a_pod_as_a_whole() -> None:
    """kubernetes/kubernetes#129532, for requests at pod level."""
    raw = {
        "spec": {"containers": [{"name": "c"}], "resources": {"requests": {"cpu": "1"}}},
        "status": {"allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}}},
    }
    assert amounts.pod_amounts(decode.decode(raw, core_pb2.Pod)).placed["cpu"] == 3000


def test_what_a_claim_costs_for_each_container_counts_while_that_container_runs() -> None:
    """As in v1.38; that of an init container counted beside containers that run after it."""
    spec = {
        "initContainers": [{"name": "once", "resources": {"requests": {"memory": "1Gi"}}}],
        "containers": [{"name": "c", "resources": {"requests": {"memory": "1Gi"}}}],
    }
    overhead = [{"name": "memory", "perPod": "1Gi", "perContainer": "2Gi"}]
    claim = {"resourceClaimName": "c", "containers": ["once", "c"], "overhead": overhead}
    pod = decode.decode({"spec": spec, "status": {"nodeAllocatableResourceClaimStatuses": [claim]}}, core_pb2.Pod)
    placed = amounts.pod_amounts(pod, amounts.Rules(claims=True)).placed
    assert placed["memory"] == 4 << 30


def test_an_empty_amount_is_0_and_leaves_the_others() -> None:
    requests = {"cpu": meta_pb2.Quantity(), "memory": meta_pb2.Quantity(string="1Gi")}
    container = core_pb2.Container(name="c", resources=core_pb2.ResourceRequirements(requests=requests))
    found = amounts.pod_amounts(core_pb2.Pod(spec=core_pb2.PodSpec(containers=[container])))
    assert found.placed == {"cpu": 0, "memory": 1 << 30}
