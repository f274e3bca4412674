"""What is a pod's own is read from it, and is no part of what it shares with equal pods."""

from typing import Any

import pytest

from trireme.cache import pod_projection
from trireme_kube.apimachinery import field_error

Json = dict[str, Any]

_TIME, _SECONDS = "2026-01-02T03:04:05Z", 1_767_323_045
_PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
_SCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
_DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
_TERMINATING = {"deletionTimestamp": _TIME}
_BOTH = pod_projection.TERMINATING | pod_projection.PREEMPTED


def _pod(metadata: Json | None = None, spec: Json | None = None, status: Json | None = None) -> Json:
    return {
        "metadata": {"namespace": "ns", "name": "p", **(metadata or {})},
        "spec": spec or {},
        "status": status or {},
    }


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({}, "node_name", ""),
        ({"metadata": {"name": "q"}}, "name", "q"),
        ({"metadata": {"uid": "u"}}, "uid", "u"),
        ({"metadata": {"resourceVersion": "7"}}, "resource_version", 7),
        ({"metadata": {"generation": 3}}, "generation", 3),
        ({"metadata": {"creationTimestamp": _TIME}}, "created", _SECONDS),
        ({"metadata": {"labels": {"b": "2", "a": "1"}}}, "labels", (("a", "1"), ("b", "2"))),
        ({"metadata": _TERMINATING}, "flags", pod_projection.TERMINATING),
        ({"metadata": _TERMINATING, "status": {"conditions": [_SCHEDULED, _PREEMPTED]}}, "flags", _BOTH),
        (
            {"metadata": _TERMINATING, "status": {"conditions": [{**_PREEMPTED, "status": "False"}]}},
            "flags",
            pod_projection.TERMINATING,
        ),
        (
            {"metadata": _TERMINATING, "status": {"conditions": [{**_PREEMPTED, "reason": "EvictionByAPI"}]}},
            "flags",
            pod_projection.TERMINATING,
        ),
        ({"status": {"conditions": [_PREEMPTED]}}, "flags", 0),
        ({"spec": {"nodeName": "n"}}, "node_name", "n"),
        ({"status": {"nominatedNodeName": "n"}}, "nominated_node", "n"),
        ({"status": {"startTime": _TIME}}, "start", _SECONDS),
        ({"status": {"conditions": [_PREEMPTED]}}, "condition", ()),
        ({"status": {"conditions": [_SCHEDULED]}}, "condition", ("False", "Unschedulable", "no", "")),
        (
            {"status": {"conditions": [_PREEMPTED, {**_SCHEDULED, "lastTransitionTime": _TIME}]}},
            "condition",
            ("False", "Unschedulable", "no", _TIME),
        ),
        ({"spec": {"nodeName": "n"}, "status": {"conditions": [_SCHEDULED]}}, "condition", ()),
    ],
)
def test_what_is_a_pods_own_is_not_in_its_base(changes: Json, field: str, value: object) -> None:
    """Each pod would be a class of its own, or two different pods would look alike."""
    parsed = pod_projection.parse(_pod(**changes))
    assert getattr(parsed, field) == value
    assert parsed.base == pod_projection.parse(_pod()).base


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        ({"schedulerName": "mine"}, "scheduler_name", "mine"),
        ({"priority": 5}, "priority", 5),
        ({"schedulingGates": [{"name": "a"}, {"name": "b"}]}, "gates", ("a", "b")),
        ({"schedulingGroup": {"podGroupName": "g"}}, "group", "g"),
    ],
)
def test_what_the_queue_reads_of_a_pod_is_also_shared(spec: Json, field: str, value: object) -> None:
    parsed = pod_projection.parse(_pod(spec=spec))
    assert getattr(parsed, field) == value
    assert parsed.base == pod_projection.parse(_pod({"name": "q"}, spec)).base != pod_projection.parse(_pod()).base


@pytest.mark.parametrize(("node", "deferred"), [("n", True), ("", False)])
def test_only_a_pod_that_runs_has_a_deferred_resize(node: str, deferred: bool) -> None:
    assert pod_projection.parse(_pod(spec={"nodeName": node}, status={"conditions": [_DEFERRED]})).deferred is deferred


@pytest.mark.parametrize("metadata", [{"name": ""}, {"namespace": ""}, {"resourceVersion": "x"}])
def test_a_pod_without_a_name_a_namespace_or_a_version_is_refused(metadata: Json) -> None:
    with pytest.raises(field_error.FieldError, match=r"^metadata"):
        pod_projection.parse(_pod(metadata))


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"resourceClaims": [{"name": "r"}]}, {}),
        ({}, {"resourceClaimStatuses": [{"name": "r"}]}),
        ({}, {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}),
        ({"volumes": [{"name": "v"}, {"name": "e", "ephemeral": {}}]}, {}),
    ],
)
def test_pods_whose_names_matter_are_equal_to_no_other(spec: Json, status: Json) -> None:
    """What is made of their templates is named after them."""
    bases = {pod_projection.parse(_pod(each, spec, status)).base for each in ({}, {"name": "q"}, {"uid": "u"})}
    assert len(bases) == 3
