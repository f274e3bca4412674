"""Why a phase cannot be called: its endpoints that stand for no address, and its replicas that cannot be called.

Tests: tests/unit/frontend/test_unavailability.py, tests/unit/frontend/test_fallback.py,
tests/contract/test_serving_access.py.
"""

from collections.abc import Iterable
from typing import Protocol

from trireme.frontend.phase_clients import endpoints


class ReplicaState(Protocol):
    """What is read of each configured replica.

    Implementers: trireme.frontend.phase_clients.replica_link.LinkStatistics,
    trireme.frontend.phase_clients.bind_link.BindLinkStatistics.
    """

    @property
    def address(self) -> str:
        """Its address, `host:port` or a Unix socket."""
        ...

    @property
    def last_error(self) -> str:
        """Why it cannot be called; empty if it can."""
        ...


def reasons(lookups: Iterable[endpoints.EndpointLookup], replicas: Iterable[ReplicaState]) -> str:
    """The reasons, each with the endpoint or address that it is about; empty: none is known."""
    problems = [(each.endpoint, each.error() or _why_no_address(each)) for each in lookups]
    problems += [(each.address, each.last_error) for each in replicas]
    return "; ".join(f"{where}: {problem}" for where, problem in problems if problem)


def _why_no_address(lookup: endpoints.EndpointLookup) -> str:
    """Why an endpoint stands for no address though no look-up failed; empty: it stands for some."""
    if lookup.addresses:
        return ""
    return f"no addresses: {lookup.missing}" if lookup.listed else "not looked up yet"
