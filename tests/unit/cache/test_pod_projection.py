"""What is a pod's own is read from it, and is no part of what it shares with equal pods."""

from typing import Any

import pytest

from trireme.cache import pod_projection
from trireme.v1 import core_pb2, meta_pb2
from trireme_kube.apimachinery import decode, field_error

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


def _containers(*containers: Json) -> Json:
    """All kinds of containers of a pod, each with these."""
    return {kind: list(containers) for kind in ("containers", "initContainers", "ephemeralContainers")}


_PORTS = {"ports": [{"hostPort": 80}]}
_ALLOCATED = {"name": "c", "allocatedResources": {"cpu": "1"}}
_REPORTED = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
_MOUNTED = {"volumeMounts": [{"name": "v", "bindMountOptions": ["noexec"]}]}
_CLAIM = {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}


@pytest.mark.parametrize(
    ("given", "same"),
    [
        ({"spec": _containers({}, {"ports": [{"containerPort": 80}]})}, {"spec": _containers({}, {})}),
        (
            {"spec": _containers({"ports": [{"containerPort": 1}, *_PORTS["ports"]]}, _PORTS)},
            {"spec": _containers(_PORTS, _PORTS)},
        ),
        ({"spec": _containers({"resources": {}}, {"resources": {}})}, {"spec": _containers({}, {})}),
        ({"spec": _containers({"restartPolicy": ""}, {"restartPolicy": ""})}, {"spec": _containers({}, {})}),
        (
            {"spec": _containers(*[{"volumeMounts": [{"name": "w"}, *_MOUNTED["volumeMounts"]]}] * 2)},
            {"spec": _containers(_MOUNTED, _MOUNTED)},
        ),
        ({"spec": {"ephemeralContainers": [{"name": "a"}, _PORTS]}}, {}),
        ({"spec": {"volumes": [{"name": "a"}, _CLAIM, {"name": "b"}]}}, {"spec": {"volumes": [_CLAIM]}}),
        *(({"spec": {name: value}}, {}) for name, value in {"priority": 0, "preemptionPolicy": ""}.items()),
        *(({"spec": {name: {}}}, {}) for name in ("affinity", "resources", "schedulingGroup")),
        ({"spec": {"hostUsers": True}}, {}),
        *(({"status": {name: {}}}, {}) for name in ("resources", "extendedResourceClaimStatus")),
        *(
            (
                {"status": {name: [{}, _ALLOCATED, {"resources": {}}, _REPORTED]}},
                {"status": {name: [_ALLOCATED, _REPORTED]}},
            )
            for name in ("containerStatuses", "initContainerStatuses")
        ),
        (
            {"status": {"conditions": [_SCHEDULED, {**_DEFERRED, "lastTransitionTime": _TIME, "message": "m"}]}},
            {"status": {"conditions": [_DEFERRED]}},
        ),
        (
            {"metadata": {"ownerReferences": [{"name": "a"}, {"name": "b", "controller": True}, {"name": "c"}]}},
            {"metadata": {"ownerReferences": [{"name": "b", "controller": True}]}},
        ),
        ({"metadata": {"ownerReferences": [{"name": "a"}, {"name": "c"}]}}, {}),
    ],
)
def test_pods_that_mean_the_same_have_one_base(given: Json, same: Json) -> None:
    """Equal pods would be of two classes, or pods that plugins tell apart of one."""
    base = pod_projection.parse(_pod(**given)).base
    assert base == pod_projection.parse(_pod(**same)).base
    assert (base == pod_projection.parse(_pod()).base) == (not same)


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("spec.nodeName", False),
        ("spec.containers[*].image", False),
        ("spec.containers.image", False),
        ("spec.containers.env", True),
        ("spec.nodeSelector.disk", False),
        ("metadata.labels.app", False),
        ("metadata.annotations.a", True),
        ("spec.tolerations.key", False),
        ("spec.overhead.cpu", False),
        ("spec.priority.none", False),
        ("spec.nothing", True),
        ("spec.nothing.nodeName", True),
        ("nothing", True),
        ("status.startTime", True),
        ("status.startTime.seconds", False),
        ("metadata.generation", True),
        ("metadata.creationTimestamp", True),
    ],
)
def test_a_field_is_missing_if_pods_are_projected_without_it_or_do_not_share_it(path: str, missing: bool) -> None:
    assert pod_projection.missing_fields(["spec.image", path]) == {"spec.image", *([path] if missing else ())}


def test_a_pod_that_stands_in_for_an_invalid_one_requests_nothing_in_its_namespace() -> None:
    pod = core_pb2.Pod.FromString(pod_projection.base_without_requests("ns"))
    assert pod == core_pb2.Pod(metadata=meta_pb2.ObjectMeta(namespace="ns"))


@pytest.mark.parametrize("metadata", [{}, {"creationTimestamp": None}, {"creationTimestamp": _TIME}])
def test_templates_of_claims_are_the_same_in_both_encodings(metadata: Json) -> None:
    """A zero time is an empty message in the one and nothing in the other: each restart would make a class anew."""
    template = {"metadata": metadata, "spec": {"storageClassName": "fast"}}
    pod = _pod(spec={"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}]})
    sent = decode.decode_unchecked(pod, core_pb2.Pod)
    (volume,) = sent.spec.volumes
    volume.volume_source.ephemeral.volume_claim_template.metadata.creation_timestamp.SetInParent()
    assert pod_projection.parse_protobuf(sent.SerializeToString()) == pod_projection.parse(pod)
