"""What wakes pods that NodeResourcesFit refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, asking, entry, node, nominated, on, pod

Json = dict[str, Any]


def _has(**allocatable: str) -> Json:
    named = {key.replace("__", "/").replace("_", "."): amount for key, amount in allocatable.items()}
    return node(status={"allocatable": {"pods": "10", **named}})


GPU = "example_com__gpu"
ONE, NO_PODS = _has(cpu="1", memory="1Gi"), node(status={"allocatable": {"cpu": "2"}})
DEVICES = [
    entry("DeviceClass", "a", spec={}),
    entry("DeviceClass", "gpus", spec={"extendedResourceName": "example.com/gpu"}),
    entry("DeviceClass", "z", spec={}),
]


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(asking(cpu="2"), None, _has(cpu="2"), QUEUE, id="new-and-large-enough"),
        pytest.param(asking(cpu="2"), None, _has(cpu="1900m"), SKIP, id="new-and-too-small"),
        pytest.param(asking(cpu="2"), None, _has(cpu="2", pods="0"), SKIP, id="takes-no-pods"),
        pytest.param(asking(cpu="2"), None, _has(cpu="2", pods="1"), QUEUE, id="takes-one-pod"),
        pytest.param(asking(cpu="2"), None, NO_PODS, SKIP, id="says-nothing-of-pods"),
        pytest.param(asking(cpu="2"), NO_PODS, _has(cpu="2", pods="1"), QUEUE, id="takes-pods-now"),
        pytest.param(asking(cpu="2", **{GPU: "0"}), None, _has(cpu="2"), QUEUE, id="needs-none-of-what-it-lacks"),
        pytest.param(asking(cpu="0", memory="1Gi"), ONE, _has(cpu="2", memory="1Gi"), SKIP, id="more-of-no-need"),
        pytest.param(asking(cpu="0", memory="1Gi"), ONE, _has(cpu="1", memory="2Gi"), QUEUE, id="more-of-the-second"),
        pytest.param(asking(cpu="1", memory="0"), ONE, _has(cpu="2", memory="1Gi"), QUEUE, id="more-of-the-first"),
        pytest.param(asking(**{GPU: "1"}), _has(cpu="1"), _has(cpu="1", **{GPU: "1"}), QUEUE, id="one-where-was-none"),
        pytest.param(asking(cpu="2"), _has(cpu="1"), _has(cpu="2"), QUEUE, id="more-of-it"),
        pytest.param(asking(cpu="2"), _has(cpu="3"), _has(cpu="2"), SKIP, id="less-of-it"),
        pytest.param(asking(cpu="2"), _has(cpu="2"), _has(cpu="2", memory="1Gi"), SKIP, id="more-of-something-else"),
        pytest.param(asking(cpu="2"), _has(cpu="2"), _has(cpu="2", pods="11"), QUEUE, id="takes-more-pods"),
        pytest.param(pod(), _has(cpu="1"), _has(cpu="2"), SKIP, id="asks-for-nothing"),
        pytest.param(asking(**{GPU: "1"}), None, _has(cpu="1"), SKIP, id="lacks-an-extended-resource"),
        pytest.param(asking(**{GPU: "2"}), _has(**{GPU: "1"}), _has(**{GPU: "2"}), QUEUE, id="more-of-an-extended-one"),
    ],
)
def test_a_node(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """Only a node that is large enough when empty wakes the pod."""
    action = "Add" if old is None else "UpdateNodeAllocatable"
    assert Hints("NodeResourcesFit").about(waiting, "Node", action, old, new) == expected


WAITS = nominated("n", asking(cpu="2", **{GPU: "1"}))
LARGE = _has(cpu="2", **{GPU: "1"})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(WAITS, LARGE, _has(cpu="1", **{GPU: "1"}), QUEUE, id="too-small-now"),
        pytest.param(WAITS, LARGE, _has(cpu="2"), SKIP, id="its-device-plugin-restarts"),
        pytest.param(WAITS, _has(cpu="2"), _has(cpu="1"), SKIP, id="it-did-not-fit-before"),
        pytest.param(WAITS, None, _has(cpu="1", **{GPU: "1"}), SKIP, id="new"),
        pytest.param(WAITS, None, LARGE, QUEUE, id="new-and-large-enough"),
        pytest.param(nominated("other", WAITS), LARGE, _has(cpu="1"), SKIP, id="nominated-elsewhere"),
        pytest.param(asking(cpu="2", **{GPU: "1"}), LARGE, _has(cpu="1"), SKIP, id="nominated-nowhere"),
        pytest.param(
            {**WAITS, "spec": {**WAITS["spec"], "schedulingGroup": {"podGroupName": "g"}}},
            LARGE,
            _has(cpu="1"),
            SKIP,
            id="of-a-group",
        ),
    ],
)
def test_a_nominated_node_that_shrinks(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """If this fails, a preemptor waits five minutes for a node on which it does not fit any more."""
    action = "Add" if old is None else "UpdateNodeAllocatable"
    assert Hints("NodeResourcesFit").about(waiting, "Node", action, old, new) == expected


@pytest.mark.parametrize(
    ("objects", "features", "new", "expected"),
    [
        pytest.param(DEVICES, {}, _has(cpu="1"), QUEUE, id="devices-may-stand-for-it"),
        pytest.param(DEVICES, {}, _has(**{GPU: "1"}), SKIP, id="not-where-the-node-has-some-of-its-own"),
        pytest.param([], {}, _has(cpu="1"), SKIP, id="no-class-stands-for-it"),
        pytest.param(DEVICES, {"DRAExtendedResource": False}, _has(cpu="1"), SKIP, id="not-without-the-gate"),
    ],
)
def test_a_resource_that_devices_stand_for(objects: list[Json], features: Json, new: Json, expected: str) -> None:
    """A resource that devices can provide does not need a node that has it."""
    hints = Hints("NodeResourcesFit", objects, features)
    assert hints.about(asking(**{GPU: "2"}), "Node", "Add", None, new) == expected
    assert hints.about(asking(**{GPU: "2"}), "Node", "UpdateNodeAllocatable", _has(cpu="1"), new) == expected


def test_devices_do_not_stand_for_what_the_node_has() -> None:
    hints = Hints("NodeResourcesFit", DEVICES)
    old, new = _has(**{GPU: "1"}), _has(cpu="1", **{GPU: "1"})
    assert hints.about(asking(**{GPU: "1"}), "Node", "UpdateNodeAllocatable", old, new) == SKIP


@pytest.mark.parametrize(
    ("waiting", "new", "expected"),
    [
        pytest.param(asking(cpu="1"), on("n", asking("q", cpu="500m", memory="1Gi")), QUEUE, id="of-what-it-asks-for"),
        pytest.param(asking(memory="1Gi"), on("n", asking("q", cpu="500m", memory="1Gi")), SKIP, id="of-another"),
        pytest.param(asking(cpu="0"), on("n", asking("q", cpu="500m", memory="1Gi")), SKIP, id="asks-for-none"),
        pytest.param(asking(cpu="1"), asking("q", cpu="500m"), SKIP, id="of-a-pod-without-a-node"),
    ],
)
def test_scaling_down(waiting: Json, new: Json, expected: str) -> None:
    """Only a pod that releases a requested resource wakes the pod."""
    old = on("n", asking("q", cpu="1", memory="1Gi"))
    assert Hints("NodeResourcesFit").about(waiting, "AssignedPod", "UpdatePodScaleDown", old, new) == expected
    assert Hints("NodeResourcesFit").about(waiting, "TargetPod", "UpdatePodScaleDown", old, new) == QUEUE


@pytest.mark.parametrize(("before", "expected"), [("1", QUEUE), ("0", SKIP)], ids=["its-last-one", "none"])
def test_giving_up_a_resource(before: str, expected: str) -> None:
    """A pod that drops a resource entirely counts as releasing it."""
    old, new = (on("n", asking("q", cpu="1", **more)) for more in ({GPU: before}, {}))
    waiting = asking(**{GPU: "1"})
    assert Hints("NodeResourcesFit").about(waiting, "AssignedPod", "UpdatePodScaleDown", old, new) == expected


def _resized(node_name: str) -> Json:
    """A pod that runs there and waits for room to grow."""
    condition = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
    one = asking(cpu="2")
    return {**one, "spec": {**one["spec"], "nodeName": node_name}, "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("resource", "action", "old", "new"),
    [
        pytest.param("AssignedPod", "Delete", on("n", asking("q", cpu="1")), None, id="a-pod-left"),
        pytest.param(
            "AssignedPod",
            "UpdatePodScaleDown",
            on("n", asking("q", cpu="2")),
            on("n", asking("q", cpu="1")),
            id="shrank",
        ),
        pytest.param(
            "AssignedPod", "UpdatePodScaleUp", on("n", asking("q", cpu="1")), on("n", asking("q", cpu="2")), id="grew"
        ),
        pytest.param("Node", "Add", None, _has(cpu="2"), id="a-node-came"),
        pytest.param("Node", "UpdateNodeAllocatable", _has(cpu="1"), _has(cpu="2"), id="a-node-has-more"),
    ],
)
def test_a_resized_pod_is_woken_by_its_own_node_only(resource: str, action: str, old: Json, new: Json) -> None:
    hints = Hints("NodeResourcesFit", features={"InPlacePodVerticalScalingSchedulerPreemption": True})
    assert hints.about(_resized("n"), resource, action, old, new) == QUEUE
    assert hints.about(_resized("m"), resource, action, old, new) == SKIP
    # A pod that is yet to be placed takes any node, but is not helped by one that grows.
    expected = SKIP if action == "UpdatePodScaleUp" else QUEUE
    assert hints.about(asking(cpu="2"), resource, action, old, new) == expected


def _class(name: str, resource: str | None = None) -> Json:
    return entry("DeviceClass", name, spec={} if resource is None else {"extendedResourceName": resource})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(asking(**{GPU: "1"}), None, _class("c", "example.com/gpu"), QUEUE, id="new-class-of-it"),
        pytest.param(asking(**{GPU: "1"}), None, _class("c", "example.com/nic"), SKIP, id="new-class-of-another"),
        pytest.param(asking(**{GPU: "1"}), _class("c"), _class("c", "example.com/gpu"), QUEUE, id="stands-for-it-now"),
        pytest.param(
            asking(**{GPU: "1"}), _class("c", "example.com/gpu"), _class("c", "example.com/gpu"), SKIP, id="as-before"
        ),
        pytest.param(
            asking(deviceclass_resource_kubernetes_io__c="1"), None, _class("c"), QUEUE, id="asks-for-the-class"
        ),
        pytest.param(
            asking(deviceclass_resource_kubernetes_io__c="1"),
            _class("c"),
            _class("c", "example.com/gpu"),
            SKIP,
            id="the-class-was-there",
        ),
    ],
)
def test_device_classes(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """A new DeviceClass of the requested resource wakes the pod."""
    action = "Add" if old is None else "Update"
    assert Hints("NodeResourcesFit").about(waiting, "resource.k8s.io/DeviceClass", action, old, new) == expected


def test_registered_events_follow_the_gates() -> None:
    assert "resource.k8s.io/DeviceClassAdd" in Hints("NodeResourcesFit").events
    assert "AssignedPodUpdatePodScaleUp" not in Hints("NodeResourcesFit").events
