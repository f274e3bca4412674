"""Which addresses the EndpointSlices of a Service stand for."""

from typing import Any

import pytest

from trireme.frontend.phase_clients import endpoint_slices
from trireme.remote import remote_endpoint

PORTS = [{"name": "grpc", "port": 7001}, {"name": "metrics", "port": 8080}]


def _slice(
    *endpoints: dict[str, Any], ports: list[dict[str, Any]] | None = None, **more: Any
) -> endpoint_slices.EndpointSlice:
    metadata = {"namespace": "kube-system", "name": "filter-x"}
    return endpoint_slices.parse(
        {"metadata": metadata, "endpoints": list(endpoints), "ports": PORTS if ports is None else ports, **more}
    )


def _at(address: str, **conditions: bool) -> dict[str, Any]:
    return {"addresses": [address], "conditions": conditions}


@pytest.mark.parametrize(
    ("slices", "port", "expected"),
    [
        pytest.param([_slice(_at("10.0.0.1"))], "grpc", ["10.0.0.1:7001"], id="unset-is-ready"),
        pytest.param([_slice(_at("10.0.0.1", ready=True))], "7001", ["10.0.0.1:7001"], id="port-by-number"),
        pytest.param([_slice(_at("10.0.0.1", ready=False))], "grpc", [], id="not-ready"),
        pytest.param([_slice(_at("10.0.0.1", ready=True, terminating=True))], "grpc", [], id="terminating"),
        pytest.param([_slice(_at("fd00::1"), addressType="IPv6")], "grpc", ["[fd00::1]:7001"], id="ipv6"),
        pytest.param(
            [_slice(_at("10.0.0.2"), _at("10.0.0.1")), _slice(_at("10.0.0.1"), _at("10.0.0.3"))],
            "grpc",
            ["10.0.0.1:7001", "10.0.0.2:7001", "10.0.0.3:7001"],
            id="each-once-from-all-slices",
        ),
        pytest.param([_slice(_at("10.0.0.1"))], "http", [], id="no-such-port"),
        pytest.param([_slice(_at("10.0.0.1"), ports=[{"name": "grpc"}])], "grpc", [], id="any-port"),
        pytest.param([_slice(ports=None), _slice()], "grpc", [], id="nobody"),
    ],
)
def test_ready_and_serving_addresses_are_used(
    slices: list[endpoint_slices.EndpointSlice], port: str, expected: list[str]
) -> None:
    """A replica that is left out idles; one that is gone, asked all the same, costs each pod a failed call."""
    assert endpoint_slices.replicas_of(slices, port).addresses == expected


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        pytest.param([_slice(_at("10.0.0.1"))], [], id="callable"),
        pytest.param([_slice(_at("10.0.0.1", ready=False))], ["10.0.0.1:7001"], id="not-ready"),
        pytest.param([_slice(_at("10.0.0.1", ready=True, terminating=True))], ["10.0.0.1:7001"], id="terminating"),
        pytest.param(
            [_slice(_at("10.0.0.1", terminating=True)), _slice(_at("10.0.0.1"))], [], id="callable-by-another-slice"
        ),
        pytest.param([_slice(_at("10.0.0.1", ready=False), ports=[{"name": "grpc"}])], [], id="any-port"),
    ],
)
def test_replicas_that_get_no_calls_are_known_apart(
    slices: list[endpoint_slices.EndpointSlice], expected: list[str]
) -> None:
    """A new leader that does not know them places pods beside bindings that they still write for its predecessor."""
    assert endpoint_slices.replicas_of(slices, "grpc").uncallable == expected


def test_null_lists_are_read_as_empty() -> None:
    """Go writes an empty list as null; who stumbles over it follows nobody."""
    parsed = endpoint_slices.parse({"metadata": {}, "endpoints": None, "ports": None})
    nobody = endpoint_slices.ServiceReplicas([], [], listed=True, missing="none of its pods runs")
    assert endpoint_slices.replicas_of([parsed], "grpc") == nobody


@pytest.mark.parametrize(
    ("address_type", "address"),
    [
        ("IPv6", "fe80::1%eth0"),
        ("IPv6", "10.0.0.2"),
        ("IPv4", "fd00::2"),
        ("IPv4", "not an address"),
        ("IPv4", "10.0.0.2:80"),
        ("FQDN", "a b.example"),
        ("FQDN", "unix:/run/other.sock"),
        ("Other", "unix:/run/other.sock"),
    ],
)
def test_what_is_no_address_is_left_out(address_type: str, address: str, caplog: pytest.LogCaptureFixture) -> None:
    """Who may write an EndpointSlice would end the scheduler, or have it call a socket of its own machine."""
    good = {"IPv4": "10.0.0.1", "IPv6": "fd00::1", "FQDN": "a.example", "Other": "a.example"}[address_type]
    found = endpoint_slices.replicas_of([_slice(_at(address), _at(good), addressType=address_type)], "grpc")
    (target,) = found.addresses
    remote_endpoint.check_target(target, "address")
    assert good in target
    assert f"kube-system/filter-x: {address!r} is no {address_type} address; it is left out" in caplog.text


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_are_ports(port: int) -> None:
    found = endpoint_slices.replicas_of([_slice(_at("10.0.0.1"), ports=[{"name": "grpc", "port": port}])], "grpc")
    assert found.addresses == [f"10.0.0.1:{port}"]


@pytest.mark.parametrize("port", [0, -1, 65536, "7001"])
def test_what_is_no_port_is_left_out(port: Any) -> None:
    """As an address that is none."""
    found = endpoint_slices.replicas_of([_slice(_at("10.0.0.1"), ports=[{"name": "grpc", "port": port}])], "grpc")
    assert found.addresses == []
