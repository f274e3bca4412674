"""Remote plugins as the frontend has to do with them: the handshake, what they read of pods, and the queue's
questions.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from google.protobuf import message

from trireme.config import commandline, model, own
from trireme.framework import cluster_event, status, supervision
from trireme.framework.registry import ExtensionPoint
from trireme.frontend import phase_configuration
from trireme.frontend.cluster import cluster_watch
from trireme.frontend.queueing import queue_hints, queue_pod, queue_remote
from trireme.kube import encode
from trireme.replica import dialing, remote_client, remote_pod, remote_stages
from trireme.v1 import core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0

_WILDCARD = cluster_event.ClusterEvent(cluster_event.Resource.WILDCARD, cluster_event.ActionType.ALL)


@dataclass(frozen=True, slots=True)
class PodsSeen:
    """What the plugins see of a pod beside what the in-tree ones do: these decide its class. `label_keys` None: all."""

    label_keys: frozenset[str] | None = frozenset()
    paths: frozenset[tuple[str, str]] = frozenset()


async def introduced(completed: commandline.CompletedConfig) -> dict[str, plugin_pb2.PluginInfo]:
    """What each configured plugin says of itself, by name.

    Raises: HandshakeError naming the profiles that want the plugin, the plugin and its address.
    """
    for profile in completed.profiles:
        for name in profile.names(ExtensionPoint.QUEUE_SORT):
            if completed.trireme.remote_plugin(name) is not None:
                raise remote_client.HandshakeError(
                    f"profile {profile.scheduler_name}: plugin {name}: a QueueSort plugin must be in-tree"
                )

    async def greet(plugin: own.RemotePlugin) -> plugin_pb2.PluginInfo:
        tls = dialing.remote_settings(phase_configuration.remote_plugin(plugin, completed.trireme.tls))
        try:
            return await remote_client.handshake(
                plugin.name, plugin.address, deadline_seconds=HANDSHAKE_SECONDS, tls=tls
            )
        except remote_client.HandshakeError as error:
            names = [entry.scheduler_name for entry in completed.profiles if plugin.name in entry.all_names()]
            where = "".join(f"profile {name}: " for name in names)
            raise remote_client.HandshakeError(f"{where}{error}") from error

    plugins = completed.trireme.remote_plugins
    infos = await asyncio.gather(*(greet(plugin) for plugin in plugins))
    return {plugin.name: info for plugin, info in zip(plugins, infos, strict=True)}


async def configure(configuration: snapshot_pb2.Configuration) -> None:
    """Bring each remote plugin its configuration.

    Raises: HandshakeError with the plugin's own words where it refuses it.
    """
    config_hash = phase_configuration.config_hash(configuration)
    await asyncio.gather(
        *(
            remote_client.configure(
                plugin.name,
                plugin.endpoints[0],
                plugin.configurations,
                config_hash,
                deadline_seconds=HANDSHAKE_SECONDS,
                tls=dialing.remote_settings(plugin),
            )
            for plugin in configuration.remote_plugins
        )
    )


def pods_seen(infos: Mapping[str, plugin_pb2.PluginInfo]) -> PodsSeen:
    """What all of them together see of a pod."""
    keys: frozenset[str] | None = frozenset()
    paths = set()
    for info in infos.values():
        own = remote_pod.PodFields(info.pod_fields).label_keys if info.pod_fields else frozenset[str]()
        keys = None if keys is None or own is None else keys | own
        for path in info.pod_fields:
            parts = path.split("[", 1)[0].split(".")
            if len(parts) > 1 and parts[:2] != ["metadata", "labels"]:
                paths.add((parts[0], parts[1]))
    return PodsSeen(keys, frozenset(paths))


def registrations(
    profile: model.CompletedProfile, infos: Mapping[str, plugin_pb2.PluginInfo]
) -> list[queue_hints.Registration]:
    """The events that the profile's remote plugins want to hear of; one that named none hears of all."""
    out = []
    for name in profile.all_names():
        info = infos.get(name)
        if info is None:
            continue
        if not info.events_to_register:
            out.append(queue_hints.Registration(name, _WILDCARD))
        for event in info.events_to_register:
            parsed = cluster_event.parse(event.resource, event.actions)
            out.append(queue_hints.Registration(name, parsed, remote=event.hint))
    return out


class RemoteQueue:
    """Carries out what the queue wants asked, and tells it the answers."""

    def __init__(
        self,
        configuration: snapshot_pb2.Configuration,
        config_hash: Callable[[], int],
        profiles: Sequence[model.CompletedProfile],
        pod_of: Callable[[queue_pod.QueuedPod], core_pb2.Pod],
        pre_enqueue_answered: Callable[[int, str], None],
        hint_answered: Callable[[int, Sequence[queue_hints.Hint] | None], None],
    ) -> None:
        """`configuration` names the plugins, `config_hash` is its hash; the last two tell the queue."""
        self._plugins: dict[str, remote_stages.RemoteQueuePlugin] = {}
        for config in configuration.remote_plugins:
            client = remote_client.connect(config, lambda: cycle_pb2.Cycle(config_hash=config_hash()))
            self._plugins[config.name] = remote_stages.RemoteQueuePlugin(client)
        self._gates = {
            profile.scheduler_name: [
                self._plugins[name] for name in profile.names(ExtensionPoint.PRE_ENQUEUE) if name in self._plugins
            ]
            for profile in profiles
        }
        self._pod_of = pod_of
        self._pre_enqueue_answered = pre_enqueue_answered
        self._hint_answered = hint_answered
        self.background = supervision.Supervisor()

    def gated(self, profile: str) -> bool:
        """Whether a remote plugin has a say on who enters the queue."""
        return bool(self._gates.get(profile))

    def gates(self, profile: str) -> list[str]:
        """The remote plugins that have a say on who enters the queue."""
        return [plugin.name for plugin in self._gates.get(profile, ())]

    def carry_out(self, instructions: queue_remote.Instructions) -> None:
        """Ask, beside everything else."""
        for instruction in instructions:
            if isinstance(instruction, queue_remote.AskPreEnqueue):
                self.background.start(self._ask_pre_enqueue(instruction))
            else:
                self.background.start(self._ask_hint(instruction))

    async def _ask_pre_enqueue(self, asked: queue_remote.AskPreEnqueue) -> None:
        pod = self._pod_of(asked.pod)
        for plugin in self._gates[asked.pod.record.profile]:
            (said,) = await plugin.pre_enqueue(asked.pod.record.profile, [pod])
            if said.code != status.Code.SUCCESS:
                log.info("pod %s waits: %s: %s", asked.pod.key, plugin.name, said.message)
                self._pre_enqueue_answered(asked.ask_id, plugin.name)
                return
        self._pre_enqueue_answered(asked.ask_id, "")

    async def _ask_hint(self, asked: queue_remote.AskHint) -> None:
        event = plugin_pb2.ClusterEvent(
            resource=asked.event.resource, actions=cluster_event.action_names(asked.event.action), hint=True
        )
        pods = [self._pod_of(pod) for pod in asked.pods]
        answers = await self._plugins[asked.plugin].queueing_hint(event, _json(asked.old), _json(asked.new), pods)
        if answers is None:
            self._hint_answered(asked.ask_id, None)
            return
        hints = [queue_hints.Hint.QUEUE if helps else queue_hints.Hint.SKIP for helps in answers]
        self._hint_answered(asked.ask_id, hints)


def _json(entry: Any) -> bytes:
    """An object of an event as the JSON that plugins get; empty for none."""
    if isinstance(entry, cluster_watch.PodInEvent):
        pod = core_pb2.Pod()
        pod.CopyFrom(entry.pod)
        pod.metadata.namespace, _, pod.metadata.name = entry.key.partition("/")
        pod.metadata.uid = entry.uid
        pod.spec.node_name = entry.node_name
        entry = pod
    return orjson.dumps(encode.encode(entry)) if isinstance(entry, message.Message) else b""
