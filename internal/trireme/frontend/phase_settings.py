"""What every phase receives before its first request: the leader, and the configuration in force.

Tests: tests/unit/frontend/test_reconfiguration.py, tests/contract/test_quiet_leader.py.
"""

from collections.abc import Callable

from trireme.frontend import phase_configuration
from trireme.v1 import bind_phase_pb2, cycle_pb2, snapshot_pb2


class PhaseSettings:
    """The configuration in force, which changes when remote plugins come and go, and its hash."""

    def __init__(self, configuration: snapshot_pb2.Configuration, fence: Callable[[], cycle_pb2.Fence]) -> None:
        self.configuration = configuration
        self._hash = phase_configuration.config_hash(configuration)
        self._fence = fence

    def config_hash(self) -> int:
        """The hash that calls carry, so that no replica answers with another configuration."""
        return self._hash

    def replace(self, configuration: snapshot_pb2.Configuration) -> bool:
        """Put this configuration in force; False if it is the same."""
        new = phase_configuration.config_hash(configuration)
        if new == self._hash:
            return False
        self.configuration, self._hash = configuration, new
        return True

    def hello(self) -> snapshot_pb2.Hello:
        """The first message to a replica of filter, score or insight (`rpc/follower.py`).

        A plugin that follows the cluster gets it without what `phase_clients/plugin_streams.py` leaves out.
        """
        return snapshot_pb2.Hello(fence=self._fence(), config_hash=self._hash, configuration=self.configuration)

    def fence_request(self) -> bind_phase_pb2.FenceRequest:
        """The first message to a replica of bind (`bind/service.py`)."""
        return bind_phase_pb2.FenceRequest(
            fence=self._fence(), config_hash=self._hash, configuration=self.configuration
        )
