"""NodePorts: host ports of pods on one node."""

from typing import Any

import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import Json, one_node, pod_of
from trireme.framework import status
from trireme.plugins.node_ports import filter as node_ports
from trireme.v1 import core_pb2

NODE = {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "example.com/gpu": "2", "pods": "3"}
PORT = {"containerPort": 80, "hostPort": 8080}


def _with_ports(*ports: Json, kind: str = "containers", **more: Any) -> core_pb2.Pod:
    container = {"name": "main", "ports": list(ports), **more}
    return pod_of({"containers": [{}], kind: [container]})


@pytest.mark.parametrize(
    ("used", "wanted", "clashes"),
    [
        pytest.param(PORT, PORT, True, id="same"),
        pytest.param(PORT, {**PORT, "hostPort": 8081}, False, id="another-port"),
        pytest.param(PORT, {**PORT, "protocol": "TCP"}, True, id="tcp-is-the-default"),
        pytest.param(PORT, {**PORT, "protocol": "UDP"}, False, id="another-protocol"),
        pytest.param({**PORT, "hostIP": "10.0.0.1"}, PORT, True, id="any-address-wanted"),
        pytest.param(PORT, {**PORT, "hostIP": "10.0.0.1"}, True, id="any-address-used"),
        pytest.param({**PORT, "hostIP": "10.0.0.1"}, {**PORT, "hostIP": "10.0.0.2"}, False, id="another-address"),
        pytest.param({**PORT, "hostIP": "10.0.0.1"}, {**PORT, "hostIP": "10.0.0.1"}, True, id="same-address"),
    ],
)
def test_a_host_port_is_given_once(used: Json, wanted: Json, clashes: bool) -> None:
    builder = one_node(NODE, _with_ports(used))
    answers = Answers(builder, node_ports.NodePorts(), _with_ports(wanted))
    expected = ("node(s) didn't have free ports for the requested pod ports",)
    assert answers.messages() == ({"n0": expected} if clashes else {})
    assert {refusal.code for refusal in answers.refusals().values()} <= {status.Code.UNSCHEDULABLE}


def test_ports_of_sidecars_count_and_those_of_init_containers_do_not() -> None:
    """kubernetes/kubernetes#132037: two pods with one host port in their sidecars were put on one node."""
    plugin = node_ports.NodePorts()
    sidecar = _with_ports(PORT, kind="initContainers", restartPolicy="Always")
    assert Answers(one_node(NODE, sidecar), plugin, _with_ports(PORT)).refusals() != {}
    assert Answers(one_node(NODE, sidecar), plugin, sidecar).refusals() != {}
    ended = _with_ports(PORT, kind="initContainers")
    assert Answers(one_node(NODE, ended), plugin, _with_ports(PORT)).refusals() == {}
    assert Answers(one_node(NODE), plugin, ended).pre_filter.skip
    assert Answers(one_node(NODE), plugin, _with_ports({"containerPort": 80})).pre_filter.skip


def test_one_copy_with_a_host_port_fits_a_node() -> None:
    assert Answers(one_node(NODE), node_ports.NodePorts(), _with_ports(PORT)).copies() == {"n0": 1}
