"""One remote plugin as the monitor knows it: its description in force, whether it is called, and its last problem.

Tests: tests/unit/frontend/test_plugin_discovery.py, tests/contract/test_plugin_monitor.py.
"""

import math
import time
from dataclasses import dataclass

from trireme.config import remote_plugin_settings
from trireme.config.addresses import is_service
from trireme.frontend import plugin_changes, replica_channels
from trireme.v1 import plugin_pb2


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """One remote plugin."""

    name: str
    address: str
    version: str  # of the instance; empty if it was never reached, or reports none
    failure_policy: str
    takes_part: bool
    reachable: bool  # at the last check
    problem: str  # why it does not take part, is unreachable, runs with an older description or replicas differ
    compared_only: bool  # its answers are compared and do not count
    canary_of: str  # the plugin that it is the canary of; empty: it is none
    canary_percent: int  # the percentage of the pods that a canary answers for
    changing: bool  # its replicas differ, or its description changes again and again and has no effect for a while


class MonitoredPlugin:
    """One configured plugin: its connection, the description in force, and whether it is called."""

    def __init__(
        self, config: remote_plugin_settings.RemotePlugin, connection: replica_channels.ReplicaChannels
    ) -> None:
        self.config = config
        self.connection = connection
        self.info: plugin_pb2.PluginInfo | None = None  # in its normal form
        self.version = ""
        self.changes = plugin_changes.DescriptionChanges(time.monotonic)
        #: The answer that is in force, as the plugin gave it.
        self.admitted = plugin_pb2.GetPluginInfoResponse()
        self.restarts = plugin_changes.Restarts(time.monotonic)
        self.reachable = False
        #: It took part, and by its newest description it may not.
        self.rejected = False
        self.problem = ""
        #: How its replicas differ; empty: they do not, or there is one.
        self.difference = ""
        self.compared_at = -math.inf

    @property
    def takes_part(self) -> bool:
        """Whether it is called: it has a description, and fits its profiles."""
        return self.info is not None and not self.rejected

    @property
    def in_configuration(self) -> bool:
        """Whether the phases have it in their configuration. While pods wait for it, those under way still need it."""
        return self.info is not None and not (self.rejected and not self.config.required)

    @property
    def where(self) -> str:
        """Its name and address, for messages."""
        return f"plugin {self.config.name} at {self.config.where}"

    def status(self) -> PluginStatus:
        """Its state as status shows it."""
        config = self.config
        fits = self.reachable and not self.problem
        changing = fits and self.changes.is_repeating
        ready = f" ({len(self.connection.targets)} ready)" if any(map(is_service, config.endpoints)) else ""
        return PluginStatus(
            config.name,
            config.where + ready,
            self.version,
            config.failure_policy,
            self.takes_part,
            self.reachable,
            self.changes.problem() if changing else self.problem or (self.difference if fits else ""),
            config.compared_only,
            config.canary_of,
            config.canary_percent,
            changing or (fits and bool(self.difference)),
        )
