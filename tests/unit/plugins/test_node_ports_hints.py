"""What wakes pods that NodePorts refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, node, on, pod

Json = dict[str, Any]


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
    """Only a wanted port wakes the pod."""
    assert Hints("NodePorts").about(wanted, "AssignedPod", "Delete", on("n", freed)) == expected


def test_a_new_node_has_all_its_ports() -> None:
    """A new node wakes the pod."""
    assert Hints("NodePorts").about(_port(80), "Node", "Add", None, node()) == QUEUE
