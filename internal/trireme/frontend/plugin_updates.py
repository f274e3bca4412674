"""Applies changes of the remote plugins while the frontend runs: joins, new descriptions, rejections.

Tests: tests/unit/frontend/test_plugin_updates.py, tests/unit/frontend/test_rejected_plugins.py.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from trireme.cache import class_registry, node_json
from trireme.config import commandline, profiles
from trireme.frontend import phase_configuration, plugin_membership, pod_reads, queue_changes, queue_plugin_calls
from trireme.frontend.leader_status import LeaderStatus
from trireme.frontend.phase_clients import class_answers, phase_links, plugin_streams
from trireme.frontend.phase_settings import PhaseSettings
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme_kube.client.informers import informer

log = logging.getLogger(__name__)


class PluginUpdates:
    """Applies a change first to what is read of the cluster, then to the phases, then to the queue."""

    def __init__(
        self,
        *,
        completed: commandline.CompletedConfig,
        registry: class_registry.ClassRegistry,
        reads: pod_reads.PodReads,
        nodes: node_json.NodeJson,
        pod_informer: informer.Informer[Any],
        node_informer: informer.Informer[Any],
        membership: plugin_membership.PluginMembership,
        settings: PhaseSettings,
        leader: LeaderStatus,
        answers: class_answers.ClassAnswers,
        links: phase_links.PhaseLinks,
        streams: plugin_streams.PluginStreams,
        queue: queue_changes.QueueChanges,
    ) -> None:
        self._completed = completed
        self._registry = registry
        self._pod_reads = reads
        self._nodes = nodes
        self._pod_informer = pod_informer
        self._node_informer = node_informer
        self._membership = membership
        self._settings = settings
        self._leader = leader
        self._answers = answers
        self._links = links
        self._streams = streams
        self._queue = queue
        # Whether the cache lacks fields that have been added to what is read.
        self._pods_outdated = self._nodes_outdated = False

    async def apply(self, infos: Mapping[str, plugin_pb2.PluginInfo], changed: str) -> None:
        """Apply the plugins' new descriptions; `changed` is the plugin that joined, changed or was rejected.

        Reconfigures the phases, schedules pods that waited for the plugin or that it refused, and holds back those that
        need a rejected one.
        """
        await self.read_more(infos)
        self._configure_phases(phase_configuration.make_configuration(self._completed, infos))
        self._membership.replace(infos)
        self._queue.plugin_changed(changed)

    def follow_addresses(self, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Have the phases call plugins at the addresses of now; `infos`: the descriptions of those that take part."""
        self._configure_phases(phase_configuration.make_configuration(self._completed, infos))

    async def read_more(self, infos: Mapping[str, plugin_pb2.PluginInfo], in_tree_fields: Sequence[str] = ()) -> None:
        """Read of pods and nodes what these plugins read, and in-tree plugins with these `pod_fields`.

        Returns once the cache has it, also if an earlier call was cancelled before that; one call at a time. Pods get
        the classes that follow from it.
        """
        if self._pod_reads.extend(infos, self._registry, in_tree_fields):
            log.info("reading all pods again: plugins read more of them than before")
            self._pods_outdated = True
        if self._pods_outdated:
            await self.list_pods_again()
            self._pods_outdated = False
        await self._read_node_json(infos)

    async def list_pods_again(self) -> None:
        """Read all pods again, and return once they have been delivered."""
        await self._pod_informer.relist()

    def configure(self, completed: commandline.CompletedConfig) -> bool:
        """Build the phases' configuration from this one from now on.

        Returns whether shares of canaries differ: then pods get their classes once they are listed again.
        """
        self._completed = completed
        shares = profiles.canary_shares(completed.profiles, completed.trireme)
        return self._pod_reads.shares.replace(shares)

    def follow_unsynced(self, unsynced: frozenset[str]) -> None:
        """Have pods wait whose profiles need one of these plugins, which have not received the cluster, under Fail."""
        for name in sorted(self._membership.set_unsynced(unsynced)):
            self._queue.plugin_changed(name)

    async def _read_node_json(self, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Have the cache store the nodes' JSON before the first call to a plugin that reads it."""
        if not self._nodes.enabled and queue_plugin_calls.any_reads_node_json(infos):
            log.info("reading all nodes again, as JSON: a remote plugin reads them in this form")
            self._nodes.enabled = self._nodes_outdated = True
            self._node_informer.request_json()
        if self._nodes_outdated:
            await self._node_informer.relist()
            self._nodes_outdated = False

    def _configure_phases(self, configuration: snapshot_pb2.Configuration) -> None:
        """Send the phases the configuration, if it is another one; what is cached of their answers is dropped."""
        if not self._settings.replace(configuration):
            return
        self._answers.clear()
        self._queue.reconnect(configuration)
        if self._leader.leading:
            self._streams.configure(configuration, self._membership.is_rejected)
        self._links.restart()
