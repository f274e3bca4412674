"""Why no replica of a phase can be called."""

from typing import Any

import pytest

from trireme.frontend.phase_clients import endpoint_slices, endpoints, unavailability

SERVICE = "endpointslice:///trireme-system/trireme-filter:grpc"


def _slice(*conditions: dict[str, bool], port: str = "grpc") -> endpoint_slices.EndpointSlice:
    found: list[Any] = [
        {"addresses": [f"10.0.0.{number}"], "conditions": each} for number, each in enumerate(conditions, start=1)
    ]
    metadata = {"namespace": "trireme-system", "name": "a"}
    return endpoint_slices.parse({"metadata": metadata, "endpoints": found, "ports": [{"name": port, "port": 7001}]})


@pytest.mark.parametrize(
    ("slices", "reason"),
    [
        ([], "no addresses: none of its pods runs"),
        ([_slice()], "no addresses: none of its pods runs"),
        ([_slice(port="http")], "no addresses: none of its pods runs"),
        ([_slice({"ready": False})], "no addresses: of its pods 1 is not ready"),
        ([_slice({"ready": False, "terminating": True})], "no addresses: of its pods 1 is terminating"),
        (
            [_slice({"ready": False}, {"ready": False}), _slice({"terminating": True})],
            "no addresses: of its pods 2 are not ready, 1 is terminating",
        ),
        ([_slice({"ready": True}, port="http")], "no addresses: its pods have no port grpc, only 7001, http"),
        ([_slice({"ready": True}), _slice({"ready": False}, port="http")], ""),
    ],
)
def test_the_state_of_pods_is_named_where_none_may_be_called(
    slices: list[endpoint_slices.EndpointSlice], reason: str
) -> None:
    """If this fails, an operator looks for pods that do not run, and all of them do."""
    found = endpoint_slices.replicas_of(slices, "grpc")
    lookup = endpoints.EndpointLookup(SERVICE, found.addresses, found.listed, found.missing)
    assert unavailability.reasons([lookup], []) == (f"{SERVICE}: {reason}" if reason else "")


def test_a_service_that_was_not_looked_up_yet_is_named() -> None:
    assert unavailability.reasons([endpoints.EndpointLookup(SERVICE)], []) == f"{SERVICE}: not looked up yet"
