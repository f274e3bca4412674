"""One verification of one plugin: its description, the calls to it, and their answers, which many checks share.

Tests: tests/unit/plugin_verification/test_stream_specifications.py, tests/contract/test_plugin_verification.py.
"""

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from grpc import aio

from trireme.plugin_verification import exchanges, followed_cluster, outcomes, rpcs, sample_cluster
from trireme.remote import remote_request
from trireme.rpc import channels, dialing, fencing
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, plugin_pb2

CONFIG_HASH = 0x7265_6D65
"""The hash of the configuration under which a plugin is called."""
EPOCH = 1000
GENERATION = 7


@dataclass(frozen=True, slots=True)
class Settings:
    """How a plugin is verified."""

    address: str
    #: The plugin's name; empty: of the one that the service hosts.
    name: str = ""
    tls: dialing.TlsSettings | None = None
    deadline_seconds: float = 5.0
    args_json: bytes = b"{}"
    profile: str = "default-scheduler"
    feature_gates: dict[str, bool] = field(default_factory=dict)
    cluster: sample_cluster.SampleCluster = field(default_factory=sample_cluster.sample_cluster)


class Session:
    """Calls one plugin, and records what it answered."""

    def __init__(
        self, channel: channels.DrainingChannel, settings: Settings, handshake: exchanges.Exchange | None = None
    ) -> None:
        self.channel = channel
        self.settings = settings
        self.cluster = settings.cluster
        #: The first call of GetPluginInfo.
        self.handshake = handshake
        self.info = _select_info(handshake, settings.name)
        self.scheduler_id = f"verify-{uuid.uuid4().hex}"
        self.followed: followed_cluster.FollowedCluster | None = None
        #: The first call of Configure; None before it.
        self.configuration: exchanges.Exchange | None = None
        self._samples: dict[str, Sequence[exchanges.Exchange]] = {}
        self._hanging: dict[str, exchanges.Failure] = {}
        #: The first call of each RPC that was not answered in time.
        self.late: dict[str, exchanges.Exchange] = {}
        try:
            self._pods = remote_request.PodBytes(self.info.name, self.info.pod_fields)
        except ValueError:
            # The check of the handshake says so; other checks go on with the default fields.
            self._pods = remote_request.PodBytes(self.info.name, ())

    def declares(self, *points: rpcs.Point) -> bool:
        """Whether the plugin lists one of these extension points."""
        return any(point in self.info.extension_points for point in points)

    @property
    def takes_configuration(self) -> bool:
        """Whether the plugin serves Configure."""
        call = self.configuration
        return call is not None and not (call.failure and call.failure.code is grpc.StatusCode.UNIMPLEMENTED)

    def pod(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """The fields of the pod that the plugin gets."""
        return self._pods.project(pod)

    def named_pod(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """The same, with namespace, name and UID, as QueueService gets it."""
        out = self.pod(pod)
        source = pod.metadata
        out.metadata.namespace, out.metadata.name, out.metadata.uid = source.namespace, source.name, source.uid
        return out

    def cycle(self, pod: int, state: bytes = b"", **fields: Any) -> cycle_pb2.Cycle:
        """The cycle of a call about the sample pod of this index; `fields` replace others."""
        generation = GENERATION if self.followed is None else self.followed.generation
        values: dict[str, Any] = {
            "fence": cycle_pb2.Fence(epoch=EPOCH, scheduler_id=self.scheduler_id, lease_valid_ms=10_000),
            "generation": generation,
            "config_hash": CONFIG_HASH,
            "profile": self.settings.profile,
            "pod": self.pod(self.cluster.pods[pod]),
            "pod_class": pod + 1,
            "state": state,
        }
        return cycle_pb2.Cycle(**{**values, **fields})

    def selection(self, nodes: Sequence[int]) -> filter_pb2.NodeSelection:
        """The sample nodes of these indices, in the form that the plugin declares."""
        if self.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT:
            return filter_pb2.NodeSelection(slots=nodes)
        return filter_pb2.NodeSelection(nodes=[self.view(self.cluster.nodes[at]) for at in nodes])

    def view(self, node: sample_cluster.SampleNode) -> filter_pb2.NodeView:
        """The node in the form that the plugin declares."""
        if self.info.node_data == plugin_pb2.NODE_DATA_MESSAGES:
            return filter_pb2.NodeView(name=node.name, node=node.message)
        if self.info.node_data == plugin_pb2.NODE_DATA_JSON:
            return filter_pb2.NodeView(name=node.name, json=node.json)
        return filter_pb2.NodeView(name=node.name)

    @property
    def all_nodes(self) -> range:
        """The indices of all sample nodes."""
        return range(len(self.cluster.nodes))

    async def samples(self, rpc: rpcs.Rpc, requests: Sequence[Message] | None = None) -> Sequence[exchanges.Exchange]:
        """The answers to the RPC's sample requests; they are made once, with `requests`."""
        if rpc.name not in self._samples:
            assert requests is not None, f"no requests of {rpc.name}"
            self._samples[rpc.name] = [await self.call(rpc, request) for request in requests]
        return self._samples[rpc.name]

    def has_samples(self, rpc: rpcs.Rpc) -> bool:
        """Whether the sample requests of the RPC were made."""
        return rpc.name in self._samples

    async def call(
        self, rpc: rpcs.Rpc, request: Message, payload: bytes | None = None, timeout: float | None = None
    ) -> exchanges.Exchange:
        """Make a call, with `payload` in place of the serialised request.

        After an RPC has once taken longer than the deadline, its further calls fail at once.
        """
        if rpc.name in self._hanging:
            return exchanges.Exchange(rpc, request, None, self._hanging[rpc.name])
        data = request.SerializeToString() if payload is None else payload
        started = time.monotonic()
        response, failure = await self._exchange(rpc, data, timeout or self.settings.deadline_seconds)
        done = exchanges.Exchange(rpc, request, response, failure, time.monotonic() - started)
        if failure is not None and failure.code is grpc.StatusCode.DEADLINE_EXCEEDED and timeout is None:
            self._hanging[rpc.name] = failure
            self.late[rpc.name] = done
        return done

    async def answer(self, rpc: rpcs.Rpc, request: Message) -> exchanges.Exchange:
        """Make a call that has to be answered. Raises: NotChecked if it fails."""
        done = await self.call(rpc, request)
        if done.failure is not None:
            raise outcomes.NotChecked(f"{rpc.name} fails: {done.failure}")
        return done

    async def _exchange(
        self, rpc: rpcs.Rpc, data: bytes, timeout: float
    ) -> tuple[Message | None, exchanges.Failure | None]:
        """The response, with those of a stream joined, or the failure."""
        response = rpc.response()
        try:
            if rpc.streams:
                async for part in self.channel.unary_stream(rpc.path)(data, timeout=timeout):
                    response.MergeFromString(part)
            else:
                response.MergeFromString(await self.channel.unary_unary(rpc.path)(data, timeout=timeout))
        except aio.AioRpcError as error:
            return None, exchanges.Failure(error.code(), error.details() or "", fencing.reason_of(error))
        except DecodeError as error:
            text = f"the answer is no {rpc.response.DESCRIPTOR.name}: {error}"
            return None, exchanges.Failure(grpc.StatusCode.INTERNAL, text)
        return response, None

    async def call_many(self, rpc: rpcs.Rpc, requests: Sequence[Message]) -> Sequence[exchanges.Exchange]:
        """Make the calls at once."""
        return await asyncio.gather(*(self.call(rpc, request) for request in requests))


def _select_info(handshake: exchanges.Exchange | None, name: str) -> plugin_pb2.PluginInfo:
    """The description of the plugin of this name, or the first; empty if there is none."""
    if handshake is None or not isinstance(handshake.response, plugin_pb2.GetPluginInfoResponse):
        return plugin_pb2.PluginInfo()
    plugins = handshake.response.plugins
    named = [info for info in plugins if info.name == name]
    return (named or list(plugins) or [plugin_pb2.PluginInfo()])[0]
