"""What the Services of remote plugins stand for."""

from trireme.config import addresses

SERVICE = "endpointslice:///plugins/p:grpc"


def test_a_service_is_replaced_by_its_ready_endpoints() -> None:
    """If this fails, the phases get a name that they cannot look up, or an address twice."""
    found = addresses.DiscoveredEndpoints()
    found.watch(SERVICE, str)
    assert found.targets(["10.0.0.9:1", SERVICE]) == ("10.0.0.9:1",)
    assert found.replace(SERVICE, ["10.0.0.1:9", "10.0.0.9:1"])
    assert not found.replace(SERVICE, ["10.0.0.1:9", "10.0.0.9:1"])
    assert found.targets(["10.0.0.9:1", SERVICE]) == ("10.0.0.9:1", "10.0.0.1:9")
    found.forget(SERVICE)
    assert found.targets([SERVICE]) == ()


def test_why_there_is_nothing_to_call_is_named() -> None:
    """If this fails, a missing role looks like a plugin that does not run."""
    found = addresses.DiscoveredEndpoints()
    found.watch(SERVICE, str)
    assert found.explain_none(["unix:/p", SERVICE]) == f"no endpoint of {SERVICE} is ready"
    found.watch(SERVICE, lambda: "403 Forbidden")
    assert found.explain_none([SERVICE]) == f"{SERVICE} cannot be read: 403 Forbidden"
