"""Addresses of services: which texts are addresses, and what those that name a Service stand for now.

A configuration names a Service once; its ready endpoints change while the frontend runs. The frontend watches them (the
phases have no access to the API server), writes what it finds here, and sends the phases addresses instead of the name.

Also change: deploy/chart/templates/roles/plugin-endpoints.yaml (the endpointslice form of an address).
Also change: docs/deployment.md.
Also change: internal/trireme/frontend/phase_clients/endpoints.py,
internal/trireme/remote/endpoint_set.py (the form of addresses).

Tests: tests/unit/config/test_addresses.py, tests/unit/config/test_trireme_configuration.py.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from trireme_kube.apimachinery.field_errors import Problem, duplicate, index, invalid

#: Begins an address that stands for the ready endpoints of a Service.
SCHEME = "endpointslice:///"
#: Begins an address that stands for others, which no certificate names.
RESOLVED = ("dns:///", SCHEME)

_HOST_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?):([0-9]{1,5})")
_SLICE = re.compile(r"endpointslice:///[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9]*[a-z0-9])?:[A-Za-z0-9-]+")
_LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+|\[::1\]):[0-9]+")


def is_service(address: str) -> bool:
    """Whether the address stands for the endpoints of a Service."""
    return address.startswith(SCHEME)


def is_local(address: str) -> bool:
    """Whether only this machine can reach the address."""
    return address.startswith("unix:") or _LOOPBACK.fullmatch(address) is not None


def address_problem(address: str) -> str:
    """Why an address is invalid; empty if it is valid."""
    rule = "must be host:port, unix:/path, dns:///name:port or endpointslice:///namespace/service:port"
    if address.startswith("unix:"):
        return "" if address.removeprefix("unix:").startswith("/") else rule
    if address.startswith("endpointslice:"):
        return "" if _SLICE.fullmatch(address) else rule
    found = _HOST_PORT.fullmatch(address.removeprefix("dns:///"))
    if not found or not 0 < int(found.group(3)) < 1 << 16:
        return rule
    return _name_problem(found.group(1))


def _name_problem(host: str) -> str:
    """Why the host can never be looked up; empty if it can be looked up."""
    try:
        host.strip("[]").encode("idna")
    except UnicodeError:
        return "must be a DNS name, whose labels have 1 to 63 characters each, or an IP address"
    return ""


def is_address(path: str, address: str) -> list[Problem]:
    """The rule of a field with an address, which may be empty."""
    problem = address_problem(address) if address else ""
    return [invalid(path, address, problem)] if problem else []


def are_addresses(path: str, addresses: Sequence[str]) -> list[Problem]:
    """The rule of a field with addresses, each of which may be there once."""
    problems: list[Problem] = []
    for position, address in enumerate(addresses):
        problem = address_problem(address)
        if problem:
            problems.append(invalid(index(path, position), address, problem))
        elif address in addresses[:position]:
            problems.append(duplicate(index(path, position), address))
    return problems


class DiscoveredEndpoints:
    """The ready endpoints of each Service that is watched, and why one cannot be read."""

    def __init__(self) -> None:
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._error: dict[str, Callable[[], str]] = {}

    def watch(self, service: str, error: Callable[[], str]) -> None:
        """Begin with no endpoint of the Service; `error` returns why it cannot be read now, or nothing."""
        self._addresses.setdefault(service, ())
        self._error[service] = error

    def replace(self, service: str, addresses: Sequence[str]) -> bool:
        """Replace the endpoints of the Service; False if they are the same."""
        if self._addresses.get(service) == tuple(addresses):
            return False
        self._addresses[service] = tuple(addresses)
        return True

    def forget(self, service: str) -> None:
        """Forget a Service that is not watched any more."""
        self._addresses.pop(service, None)
        self._error.pop(service, None)

    def targets(self, addresses: Iterable[str]) -> tuple[str, ...]:
        """The addresses to call, each once: a Service is replaced by its ready endpoints, if it has any."""
        found: dict[str, None] = {}
        for address in addresses:
            found.update(dict.fromkeys(self._addresses.get(address, ()) if is_service(address) else (address,)))
        return tuple(found)

    def explain_none(self, addresses: Iterable[str]) -> str:
        """Why there is nothing to call at these addresses."""
        parts = []
        for service in filter(is_service, addresses):
            error = self._error[service]() if service in self._error else ""
            parts.append(f"{service} cannot be read: {error}" if error else f"no endpoint of {service} is ready")
        return "; ".join(parts)
