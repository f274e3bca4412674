"""Which addresses the EndpointSlices of a Service stand for."""

from typing import Any

import pytest

from trireme.frontend.phase_clients import endpoint_slices
from trireme.remote import remote_endpoint
from trireme_kube.client.informers import watch

Json = dict[str, Any]

PORTS = [{"name": "grpc", "port": 7001}, {"name": "metrics", "port": 8080}]


def _slice(*endpoints: Json, ports: list[Json] | None = None, name: str = "filter-x", **more: Any) -> Json:
    metadata = {"namespace": "kube-system", "name": name}
    return {"metadata": metadata, "endpoints": list(endpoints), "ports": PORTS if ports is None else ports, **more}


def _replicas(slices: list[Json], port: str = "grpc") -> endpoint_slices.ServiceReplicas:
    return endpoint_slices.replicas_of(map(endpoint_slices.parse, slices), port)


def _at(address: str, **conditions: bool) -> Json:
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
        pytest.param(
            [_slice({"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": None})],
            "grpc",
            ["10.0.0.1:7001", "10.0.0.2:7001"],
            id="several-of-one-endpoint",
        ),
        pytest.param(
            [_slice(_at("10.0.0.1"), ports=[{"port": 7001}])], "", ["10.0.0.1:7001"], id="port-without-a-name"
        ),
    ],
)
def test_ready_and_serving_addresses_are_used(slices: list[Json], port: str, expected: list[str]) -> None:
    """A replica that is left out idles; one that is gone, asked all the same, costs each pod a failed call."""
    assert _replicas(slices, port).addresses == expected


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
def test_replicas_that_get_no_calls_are_known_apart(slices: list[Json], expected: list[str]) -> None:
    """A new leader that does not know them places pods beside bindings that they still write for its predecessor."""
    assert _replicas(slices).uncallable == expected


def test_null_lists_are_read_as_empty() -> None:
    """Go writes an empty list as null; who stumbles over it follows nobody."""
    nobody = endpoint_slices.ServiceReplicas([], [], listed=True, missing="none of its pods runs")
    assert _replicas([{"metadata": {}, "endpoints": None, "ports": None}]) == nobody
    assert _replicas([_slice({"addresses": None})]) == nobody


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
    found = _replicas([_slice(_at(address), _at(good), addressType=address_type)])
    (target,) = found.addresses
    remote_endpoint.check_target(target, "address")
    assert good in target
    assert f"kube-system/filter-x: {address!r} is no {address_type} address; it is left out" in caplog.text


@pytest.mark.parametrize("port", [1, 65535])
def test_the_first_and_the_last_port_are_ports(port: int) -> None:
    found = _replicas([_slice(_at("10.0.0.1"), ports=[{"name": "grpc", "port": port}])])
    assert found.addresses == [f"10.0.0.1:{port}"]


@pytest.mark.parametrize("port", [0, -1, 65536, "7001"])
def test_what_is_no_port_is_left_out(port: Any) -> None:
    """As an address that is none."""
    found = _replicas([_slice(_at("10.0.0.1"), ports=[{"name": "grpc", "port": port}])])
    assert found.addresses == []


def test_the_replicas_are_reported_after_each_batch_and_whether_all_are_known() -> None:
    found: list[endpoint_slices.ServiceReplicas] = []
    store = endpoint_slices._SliceStore("grpc", found.append)
    one, other = (endpoint_slices.parse(_slice(_at(f"10.0.0.{number}"), name=f"s{number}")) for number in (1, 2))
    kinds = watch.EventKind
    for events in (
        [(kinds.LIST_START, None), (kinds.LISTED, one)],
        [(kinds.LISTED, other), (kinds.LIST_END, None)],
        [(kinds.DELETED, one)],
        [(kinds.ADDED, one)],
    ):
        store.on_events([watch.Event(kind, entry) for kind, entry in events])
    both = ["10.0.0.1:7001", "10.0.0.2:7001"]
    assert [(list(each.addresses), each.listed) for each in found] == [
        (both[:1], False),
        (both, True),
        (both[1:], True),
        (both, True),
    ]


@pytest.mark.parametrize(
    ("slices", "text"),
    [
        ([], "none of its pods runs"),
        ([_slice()], "none of its pods runs"),
        ([_slice(_at("10.0.0.1"), ports=[{"port": 7001}])], "its pods have no port http, only 7001"),
        ([_slice(_at("10.0.0.1"))], "its pods have no port http, only 7001, 8080, grpc, metrics"),
        ([_slice(_at("10.0.0.1"), ports=[])], "its pods have no port http, only none"),
    ],
)
def test_why_no_replica_has_the_port_is_said(slices: list[Json], text: str) -> None:
    assert _replicas(slices, "http").missing == text


def test_addresses_of_a_slice_without_a_type_are_those_of_version_4() -> None:
    assert _replicas([_slice(_at("10.0.0.1"), _at("fd00::1"), _at("a.example"))]).addresses == ["10.0.0.1:7001"]


def test_the_slices_of_the_service_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(endpoint_slices.informer, "Informer", lambda *args: made.append(args))
    found: list[endpoint_slices.ServiceReplicas] = []
    api: Any = object()
    endpoint_slices.make_informer(api, "endpointslice:///kube-system/filter:grpc", found.append)
    ((used, watched, parse, handlers),) = made
    assert (used, parse) == (api, endpoint_slices.parse)
    assert watched.path == "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
    assert watched.label_selector == "kubernetes.io/service-name=filter"
    for handler in handlers:
        handler([watch.Event(watch.EventKind.ADDED, parse(_slice(_at("10.0.0.1"))))])
    assert [each.addresses for each in found] == [["10.0.0.1:7001"]]


@pytest.mark.parametrize(
    ("idle", "terminating", "text"),
    [
        (1, 0, "of its pods 1 is not ready"),
        (0, 2, "of its pods 2 are terminating"),
        (2, 1, "of its pods 2 are not ready, 1 is terminating"),
    ],
)
def test_why_no_replica_may_be_called_is_said(idle: int, terminating: int, text: str) -> None:
    hosts = iter(f"10.0.0.{number}" for number in range(1, 9))
    away = [_at(next(hosts), ready=False) for _ in range(idle)]
    away += [_at(next(hosts), ready=False, terminating=True) for _ in range(terminating)]
    assert _replicas([_slice(*away), _slice()]).missing == text
