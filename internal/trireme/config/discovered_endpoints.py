"""The addresses that the Services of remote plugins stand for now.

A configuration names a Service once; its ready endpoints change while the frontend runs. The frontend watches them (the
phases have no access to the API server), writes what it finds here, and sends the phases addresses instead of the name.
"""

from collections.abc import Callable, Iterable, Sequence

#: Begins an address that stands for the ready endpoints of a Service.
SCHEME = "endpointslice:///"


def is_service(address: str) -> bool:
    """Whether the address stands for the endpoints of a Service."""
    return address.startswith(SCHEME)


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
