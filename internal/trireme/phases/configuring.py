"""Puts a configuration in force for the services of a process: for all of them, or for none.

Tests: tests/contract/test_local_phases.py.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from trireme.phases import release_skew
from trireme.v1 import snapshot_pb2


class ConfiguredService(Protocol):
    """A service that makes ready for a configuration before it is in force.

    Implementers: trireme.filter.service.FilterPhase, trireme.score.service.ScorePhase.
    """

    def prepare(self, configuration: snapshot_pb2.Configuration) -> Callable[[], None]:
        """Return what puts the configuration in force, and does not fail. Raises: ValueError."""
        ...


def configure(services: Iterable[ConfiguredService], configuration: snapshot_pb2.Configuration) -> None:
    """Put it in force. Raises: ValueError, if a service or this release refuses it; then the one before stays."""
    release_skew.check(configuration)
    for put_in_force in [each.prepare(configuration) for each in services]:
        put_in_force()
