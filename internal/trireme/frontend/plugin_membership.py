"""Which remote plugins take part, and which profiles wait for a missing one.

Tests: tests/unit/frontend/test_rejected_plugins.py.
"""

from collections.abc import Callable, Mapping, Sequence

from trireme.config import commandline, scheduler_configuration
from trireme.frontend import queue_plugin_calls
from trireme.queueing.hints import queueing_hint_map
from trireme.v1 import plugin_pb2


class PluginMembership:
    """Which remote plugins take part, with their latest descriptions, and which are missing or rejected."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        infos: Mapping[str, plugin_pb2.PluginInfo],
        rejected: Callable[[], frozenset[str]],
    ) -> None:
        """`infos` are the plugins' descriptions by name.

        `rejected` returns those that took part and are rejected now: under Fail they stay in the phases' configuration.
        """
        self._completed = completed
        self._infos = infos
        self._rejected = rejected
        self._unsynced: frozenset[str] = frozenset()
        # Nothing is rejected at the start.
        self._missing = queue_plugin_calls.missing_required(completed, infos)

    def configure(self, completed: commandline.CompletedConfig, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Follow another configuration, with the descriptions of its plugins that take part."""
        self._completed = completed
        self.replace(infos)

    def replace(self, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Replace the descriptions of the plugins that take part."""
        self._infos = infos
        self._find_missing()

    def set_unsynced(self, unsynced: frozenset[str]) -> frozenset[str]:
        """Set the plugins that follow the cluster and have not received it yet; they count as missing.

        Returns those for which that is new, or over.
        """
        changed, self._unsynced = self._unsynced ^ unsynced, unsynced
        self._find_missing()
        return changed

    def is_unsynced(self, name: str) -> bool:
        """Whether the plugin follows the cluster and has not received it yet."""
        return name in self._unsynced

    def called_plugins(self) -> dict[str, plugin_pb2.PluginInfo]:
        """The plugins that are called."""
        rejected = self._rejected()
        return {name: info for name, info in self._infos.items() if name not in rejected}

    def registrations(
        self, profile: scheduler_configuration.CompletedProfile
    ) -> Sequence[queueing_hint_map.EventRegistration]:
        """The events that the profile's remote plugins register for, without those whose answers do not count."""
        plugins = self._completed.trireme.remote_plugins
        compared_only = {plugin.name for plugin in plugins if plugin.compared_only}
        deciding = {name: info for name, info in self.called_plugins().items() if name not in compared_only}
        configured = [plugin.name for plugin in plugins if not plugin.compared_only]
        return queue_plugin_calls.registrations(profile, deciding, configured)

    def is_rejected(self, name: str) -> bool:
        """Whether the plugin took part and is rejected now."""
        return name in self._rejected()

    def _find_missing(self) -> None:
        usable = {name: info for name, info in self.called_plugins().items() if name not in self._unsynced}
        self._missing = queue_plugin_calls.missing_required(self._completed, usable)

    def missing(self) -> Mapping[str, str]:
        """The missing plugin that pods of each profile wait for, by profile."""
        return self._missing

    def missing_plugin(self, profile: str) -> str:
        """The missing plugin that the profile's pods wait for; empty: none."""
        return self._missing.get(profile, "")
