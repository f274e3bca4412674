"""The frontend's calls to remote plugins: the queue's, with the events about them, and those of pod groups' cycles.

Tests: tests/unit/frontend/test_rejected_plugins.py, tests/contract/test_frontend_plugin_metrics.py.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from google.protobuf import message

from trireme.cache import cluster_cache
from trireme.config import commandline, scheduler_configuration
from trireme.framework import cluster_event
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import placement_plugin_calls
from trireme.queueing import queued_pod, remote_calls
from trireme.queueing.hints import queueing_hint_map
from trireme.remote import (
    remote_client,
    remote_connection,
    remote_placement_feasible,
    remote_queue,
    remote_queue_sort,
)
from trireme.scheduling import plugin_back_offs, pre_enqueue_calls, queue_notifier, queue_ports, queue_sort_keys
from trireme.v1 import core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2
from trireme_kube.apimachinery import encode
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

_PLUGIN_EVENTS = cluster_event.ClusterEvent(
    cluster_event.PLUGIN_JOINED.resource, cluster_event.PLUGIN_JOINED.action | cluster_event.PLUGIN_REJECTED.action
)
_WILDCARD = cluster_event.ClusterEvent(cluster_event.Resource.WILDCARD, cluster_event.ActionType.ALL)


def any_reads_node_json(infos: Mapping[str, plugin_pb2.PluginInfo]) -> bool:
    """Whether one of them reads nodes as the API server's JSON."""
    return any(info.node_data == plugin_pb2.NODE_DATA_JSON for info in infos.values())


def missing_required(
    completed: commandline.CompletedConfig, infos: Mapping[str, plugin_pb2.PluginInfo]
) -> dict[str, str]:
    """By profile, the first plugin with the failure policy Fail that does not take part: its pods wait for that."""
    out: dict[str, str] = {}
    for profile in completed.profiles:
        for plugin in completed.trireme.remote_plugins:
            required = plugin.required and plugin.name in profile.all_names()
            if required and plugin.name not in infos:
                out.setdefault(profile.scheduler_name, plugin.name)
    return out


def registrations(
    profile: scheduler_configuration.CompletedProfile,
    infos: Mapping[str, plugin_pb2.PluginInfo],
    plugins: Iterable[str],
) -> list[queueing_hint_map.EventRegistration]:
    """The events that the profile's remote plugins register for.

    A plugin that names none gets all. In addition each of `plugins`, the configured ones, gets the events about itself:
    it may answer otherwise than before.
    """
    out = [
        queueing_hint_map.EventRegistration(name, _PLUGIN_EVENTS, hint=functools.partial(_hint_for_plugin_event, name))
        for name in plugins
        if name in profile.all_names()
    ]
    for name in profile.all_names():
        info = infos.get(name)
        if info is None:
            continue
        if not info.events_to_register:
            out.append(queueing_hint_map.EventRegistration(name, _WILDCARD))
        for event in info.events_to_register:
            parsed = cluster_event.parse(event.resource, event.actions)
            out.append(queueing_hint_map.EventRegistration(name, parsed, remote=event.hint))
    return out


def _hint_for_plugin_event(
    name: str, event: cluster_event.ClusterEvent, old: Any, new: Any, pods: Sequence[queued_pod.QueuedPodInfo]
) -> list[queueing_hint_map.HintAnswer]:
    """The hint for an event about a remote plugin: it may help the pods that this plugin refused."""
    return [queueing_hint_map.HintAnswer.QUEUE if new == name else queueing_hint_map.HintAnswer.SKIP] * len(pods)


class QueuePluginCaller:
    """Makes the calls to remote plugins that the queue requests, and reports the answers to it."""

    def __init__(
        self,
        configuration: snapshot_pb2.Configuration,
        config_hash: Callable[[], int],
        profiles: Sequence[scheduler_configuration.CompletedProfile],
        reports: queue_ports.QueueReports,
        *,
        pod_of: Callable[[queued_pod.QueuedPodInfo], core_pb2.Pod],
        now: Callable[[], float],
        node_at: Callable[[int, int], str | None],
    ) -> None:
        """Call the plugins that `configuration` names, and report their answers to the queue.

        `config_hash` is the configuration's hash, `pod_of` returns a pod as plugins see it, `now` is the queue's clock,
        `node_at` names the node at a slot since a generation.
        """
        self._config_hash = config_hash
        self._profiles = profiles
        self._clients: dict[bytes, remote_client.PluginClient] = {}
        self._plugins: dict[str, remote_queue.RemoteQueuePlugin] = {}
        self._gates: dict[str, list[remote_queue.RemoteQueuePlugin]] = {}
        self._pod_of = pod_of
        self._node_at = node_at
        self._placement_feasible: dict[str, dict[str, placement_plugin_calls.PlacementFeasibleCaller]] = {}
        self._hint_answered = reports.hint_answered
        self.background = supervision.Supervisor()
        back_offs = plugin_back_offs.PluginBackOffs(now)
        self.sort_keys = queue_sort_keys.QueueSortKeys(
            pod_of, reports.sort_anew, reports.queued_pods, back_offs, self.background
        )
        self.pre_enqueue_calls = pre_enqueue_calls.PreEnqueueCalls(
            lambda profile: self._gates.get(profile, ()),
            pod_of,
            reports.pre_enqueue_answered,
            reports.repeat_pre_enqueue,
            back_offs,
            self.sort_keys,
        )
        self.configure(configuration)

    def configure(
        self,
        configuration: snapshot_pb2.Configuration,
        profiles: Sequence[scheduler_configuration.CompletedProfile] | None = None,
    ) -> None:
        """Connect to the plugins of `configuration`, which replaces the one before; `profiles` None: they are the same.

        A plugin whose entry is the same keeps its connection; connections of others are closed in the background.
        PreEnqueue calls that waited for a plugin are tried at once.
        """
        if profiles is not None:
            self._profiles = profiles
        before, self._clients, self._plugins = self._clients, {}, {}
        for config in configuration.remote_plugins:
            key = config.SerializeToString(deterministic=True)
            client = before.pop(key, None) or remote_client.connect(
                config, lambda: cycle_pb2.Cycle(config_hash=self._config_hash())
            )
            self._clients[key] = client
            self._plugins[config.name] = remote_queue.RemoteQueuePlugin(client)
        self._gates = {
            profile.scheduler_name: [
                self._plugins[name] for name in profile.names(ExtensionPoint.PRE_ENQUEUE) if name in self._plugins
            ]
            for profile in self._profiles
        }
        feasible = {
            client.name: placement_plugin_calls.PlacementFeasibleCaller(
                remote_placement_feasible.RemotePlacementFeasiblePlugin(client), self._node_at, self._pod_of
            )
            for client in self._clients.values()
        }
        self._placement_feasible = {
            profile.scheduler_name: {
                name: feasible[name] for name in profile.names(ExtensionPoint.PLACEMENT_FEASIBLE) if name in feasible
            }
            for profile in self._profiles
        }
        self.sort_keys.reconnect(self.queue_sort_plugin())
        for client in before.values():
            self.background.start(client.connection.close())
        self.pre_enqueue_calls.retry_failed_now()

    def statistics(self) -> dict[str, remote_connection.ConnectionStatistics]:
        """The statistics of the calls to each plugin, by name."""
        return {client.name: client.connection.statistics() for client in self._clients.values()}

    def has_to_be_called(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether a remote plugin has a PreEnqueue for the pod, or has to give it a sort key."""
        return bool(self._gates.get(pod.record.profile)) or self.sort_keys.lacks_key(pod)

    def queue_sort_plugin(self) -> remote_queue_sort.RemoteQueueSortPlugin | None:
        """The remote plugin that orders the queue; None: there is none, or it does not take part."""
        # The first: a canary of it would come after it, and one plugin orders the whole queue.
        name = self._profiles[0].names(ExtensionPoint.QUEUE_SORT)[0]
        client = next((client for client in self._clients.values() if client.name == name), None)
        return None if client is None else remote_queue_sort.RemoteQueueSortPlugin(client)

    def placement_feasible_plugins(self, profile: str) -> Mapping[str, placement_plugin_calls.PlacementFeasibleCaller]:
        """The remote plugins at PlacementFeasible, by name."""
        return self._placement_feasible.get(profile, {})

    def pre_enqueue_plugins(self, profile: str) -> list[str]:
        """The remote plugins with a PreEnqueue."""
        return [plugin.name for plugin in self._gates.get(profile, ())]

    def execute(self, instructions: remote_calls.Instructions) -> None:
        """Make the calls in the background."""
        for instruction in instructions:
            if isinstance(instruction, remote_calls.CallPreEnqueue):
                self.background.start(self.pre_enqueue_calls.call(instruction))
            elif isinstance(instruction, remote_calls.RenewSortKey):
                self.sort_keys.renew(instruction.pod)
            else:
                self.background.start(self._call_hint(instruction))

    async def _call_hint(self, call: remote_calls.CallQueueingHint) -> None:
        """Call a remote plugin's queueing hint for these pods, and report a hint for each to the queue.

        If the plugin is gone or does not answer, the queue gets None, which stands for a call that failed.
        """
        event = plugin_pb2.ClusterEvent(
            resource=call.event.resource, actions=cluster_event.action_names(call.event.action), hint=True
        )
        pods = [self._pod_of(pod) for pod in call.pods]
        plugin = self._plugins.get(call.plugin)
        # A plugin that was rejected meanwhile cannot be called.
        answers = None
        if plugin is not None:
            answers = await plugin.queueing_hint(
                event, _event_object_json(call.old), _event_object_json(call.new), pods
            )
        if answers is None:
            self._hint_answered(call.call_id, None)
            return
        hints = [
            queueing_hint_map.HintAnswer.QUEUE if helps else queueing_hint_map.HintAnswer.SKIP for helps in answers
        ]
        self._hint_answered(call.call_id, hints)


def pod_for_plugins(cache: cluster_cache.ClusterCache, pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
    """The pod as remote plugins see it: the fields of its class, with its own namespace, name and UID."""
    pending = pod.record.pod
    out = core_pb2.Pod()
    if pending.class_id:
        out = cache.registry.pod_of(pending.class_id, pending.parsed.base, pending.parsed.labels)
    out.metadata.namespace, out.metadata.name = pending.parsed.namespace, pending.parsed.name
    out.metadata.uid = pending.parsed.uid
    return out


def _event_object_json(entry: Any) -> bytes:
    """Encode an event's old or new object as the JSON that plugins get; empty for None."""
    if isinstance(entry, queue_notifier.PodInEvent):
        pod = core_pb2.Pod()
        pod.CopyFrom(entry.pod)
        pod.metadata.namespace, _, pod.metadata.name = entry.key.partition("/")
        pod.metadata.uid = entry.uid
        pod.spec.node_name = entry.node_name
        entry = pod
    return orjson.dumps(encode.encode(entry)) if isinstance(entry, message.Message) else b""
