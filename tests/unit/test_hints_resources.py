"""Hints of NodeResourcesFit and NodePorts."""

from typing import Any

import pytest
from hint_answers import QUEUE, SKIP, Hints, asking, entry, node, nominated, on, pod

Json = dict[str, Any]


def _has(**allocatable: str) -> Json:
    named = {key.replace("__", "/").replace("_", "."): amount for key, amount in allocatable.items()}
    return node(status={"allocatable": {"pods": "10", **named}})


GPU = "example_com__gpu"
DEVICES = [entry("DeviceClass", "gpus", spec={"extendedResourceName": "example.com/gpu"})]


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(asking(cpu="2"), None, _has(cpu="2"), QUEUE, id="new-and-large-enough"),
        pytest.param(asking(cpu="2"), None, _has(cpu="1900m"), SKIP, id="new-and-too-small"),
        pytest.param(asking(cpu="2"), None, _has(cpu="2", pods="0"), SKIP, id="takes-no-pods"),
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
    """Else pods are tried on nodes that are too small for them even when empty."""
    action = "Add" if old is None else "UpdateNodeAllocatable"
    assert Hints("NodeResourcesFit").about(waiting, "Node", action, old, new) == expected


@pytest.mark.parametrize(
    ("objects", "features", "new", "expected"),
    [
        pytest.param(DEVICES, {}, _has(cpu="1"), QUEUE, id="devices-may-stand-for-it"),
        pytest.param(DEVICES, {}, _has(**{GPU: "1"}), SKIP, id="not-where-the-node-has-some-of-its-own"),
        pytest.param([], {}, _has(cpu="1"), SKIP, id="no-class-stands-for-it"),
    ],
)
def test_a_resource_that_devices_stand_for(objects: list[Json], features: Json, new: Json, expected: str) -> None:
    """Else a pod that devices could serve waits for a node that has the resource itself."""
    hints = Hints("NodeResourcesFit", objects, features)
    assert hints.about(asking(**{GPU: "2"}), "Node", "Add", None, new) == expected
    assert hints.about(asking(**{GPU: "2"}), "Node", "UpdateNodeAllocatable", _has(cpu="1"), new) == expected


OTHER = asking("q", cpu="1")


@pytest.mark.parametrize("plugin", ["NodeResourcesFit", "NodePorts", "NodeVolumeLimits"])
def test_a_pod_that_held_nothing(plugin: str) -> None:
    """Else pods are tried when one ends that never had a node."""
    port = {"name": "c", "ports": [{"hostPort": 80}]}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    one = pod("q", containers=[port], volumes=[volume])
    waiting = pod(containers=[port])
    assert Hints(plugin).about(waiting, "AssignedPod", "Delete", one) == SKIP
    assert Hints(plugin).about(waiting, "AssignedPod", "Delete", on("n", one)) == QUEUE
    assert Hints(plugin).about(waiting, "AssignedPod", "Delete", nominated("n", one)) == QUEUE


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
    """Else pods are tried when a pod gives back what they do not ask for."""
    old = on("n", asking("q", cpu="1", memory="1Gi"))
    assert Hints("NodeResourcesFit").about(waiting, "AssignedPod", "UpdatePodScaleDown", old, new) == expected
    assert Hints("NodeResourcesFit").about(waiting, "TargetPod", "UpdatePodScaleDown", old, new) == QUEUE


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
    """Else a pod that asks for a resource of devices sleeps when their class comes."""
    action = "Add" if old is None else "Update"
    assert Hints("NodeResourcesFit").about(waiting, "resource.k8s.io/DeviceClass", action, old, new) == expected


def _port(number: int, ip: str = "", protocol: str = "TCP") -> Json:
    port = {"hostPort": number, "hostIP": ip, "protocol": protocol}
    return pod("q" if ip == "" else "r", containers=[{"name": "c", "ports": [port]}])


@pytest.mark.parametrize(
    ("wanted", "freed", "expected"),
    [
        pytest.param(_port(80), _port(80), QUEUE, id="same"),
        pytest.param(_port(80), _port(81), SKIP, id="other-port"),
        pytest.param(_port(80), _port(80, protocol="UDP"), SKIP, id="other-protocol"),
        pytest.param(_port(80, "10.0.0.1"), _port(80), QUEUE, id="any-address"),
        pytest.param(_port(80, "10.0.0.1"), _port(80, "10.0.0.2"), SKIP, id="other-address"),
        pytest.param(_port(80), pod("q"), SKIP, id="no-ports"),
    ],
)
def test_host_ports(wanted: Json, freed: Json, expected: str) -> None:
    """Else pods are tried when a port is given back that they do not want."""
    assert Hints("NodePorts").about(wanted, "AssignedPod", "Delete", on("n", freed)) == expected


def test_a_new_node_has_all_its_ports() -> None:
    """Else a pod sleeps while there is a node without any pod."""
    assert Hints("NodePorts").about(_port(80), "Node", "Add", None, node()) == QUEUE


def test_what_is_registered_follows_the_gates() -> None:
    """Else events are weighed that cannot come to pass."""
    assert "resource.k8s.io/DeviceClassAdd" in Hints("NodeResourcesFit").events
    assert "AssignedPodUpdatePodScaleUp" not in Hints("NodeResourcesFit").events
