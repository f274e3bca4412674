"""One remote plugin for any phase: its connection, its description and its failure policy.

Shared by all extension points; each has a module of its own beside it (remote_filter.py, remote_bind.py and so on). By
`handshake` the frontend gets a plugin's PluginInfo, which it distributes with the configuration so that all replicas
agree on it.

Tests: tests/unit/remote/test_remote_client.py, tests/contract/test_plugin_handshake.py,
tests/contract/test_bind_remote.py.
"""

from collections.abc import Callable, Sequence

import grpc
import tenacity
from google.protobuf import message
from grpc import aio

from trireme.framework import status
from trireme.plugin_api import interfaces, plugin_info_validation, scorers
from trireme.remote import plugin_control, remote_connection, remote_endpoint, remote_request
from trireme.rpc import dialing
from trireme.snapshot import classes
from trireme.v1 import core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2

#: Implementers: trireme.phases.phase_process.caller_identity.
CallerIdentity = Callable[[], cycle_pb2.Cycle]
"""Returns the caller's identity, as the fields `fence` and `config_hash` of a Cycle."""


# The plugin may respond later. Any other error needs a person.
UNREACHABLE = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.CANCELLED,
    }
)


class HandshakeError(Exception):
    """A plugin is unreachable, or does not match its configuration. The text is one line with plugin and address."""


class PluginClient:
    """Calls one remote plugin: its description, connection, failure policy, and the form of its requests.

    It is made on the running loop.
    """

    def __init__(
        self,
        config: snapshot_pb2.RemotePlugin,
        caller_identity: CallerIdentity,
        connection: remote_connection.PluginConnection,
    ) -> None:
        """Raises: ValueError naming the plugin and the field that is wrong."""
        info = config.info
        if config.HasField("info"):
            try:
                plugin_info_validation.check_configured_info(info)
            except ValueError as error:
                raise ValueError(f"plugin {config.name}: info: {error}") from error
        self.name = config.name
        self.info = info
        self.connection = connection
        self.depends_on = interfaces.Dependency(info.depends_on or interfaces.Dependency.CLUSTER)
        self.normalization = scorers.Normalization(info.normalization or scorers.Normalization.NONE)
        # Whether classes whose pods are equal to it share its answers. In mode Shadow each comparison calls it.
        self.shares_answers = self.depends_on is interfaces.Dependency.NODE and not config.shadow
        # In mode Shadow a failure is counted, whatever the policy.
        self.ignores_failure = config.failure_policy == snapshot_pb2.FAILURE_POLICY_IGNORE and not config.shadow
        self.pods = remote_request.PodBytes(config.name, info.pod_fields)
        self.nodes = remote_request.NodeSelectionBuilder(info.node_data)
        self._caller_identity = caller_identity

    @property
    def config_hash(self) -> int:
        """The hash of the configuration in force."""
        return self._caller_identity().config_hash

    def serves(self, point: plugin_pb2.ExtensionPoint.ValueType) -> bool:
        """Whether it implements this extension point; a plugin without a description counts as implementing all."""
        return not self.info.extension_points or point in self.info.extension_points

    def newest_generation(self, generation: int) -> int | None:
        """The newest generation that the plugin's answer to a call about this one may name; None: any.

        A plugin that follows the snapshot itself may be ahead.
        """
        return None if self.info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT else generation

    def cycle(self, profile: str, pod_class: classes.PodClass, generation: int, state: bytes) -> bytes:
        """Serialise a Cycle for a class."""
        pod = self.pods.of(pod_class)
        return remote_request.cycle(profile, pod_class.id, generation, pod, state, self._caller_identity())

    def project_cycle(self, cycle: cycle_pb2.Cycle, pod: core_pb2.Pod) -> cycle_pb2.Cycle:
        """Copy the cycle without its state, and with the plugin's projection of the pod."""
        own = cycle_pb2.Cycle()
        own.CopyFrom(cycle)
        own.pod.CopyFrom(self.pods.project(pod))
        own.ClearField("state")
        own.ClearField("wants_remote_answers")
        return own

    def project_pods(self, pods: Sequence[core_pb2.Pod]) -> list[core_pb2.Pod]:
        """Project the pods to the fields that the plugin reads."""
        return [self.pods.project(pod) for pod in pods]

    def project_named_pod(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """The fields that the plugin reads, and which pod it is: for an answer about one pod, not about its class."""
        out = self.pods.project(pod)
        out.metadata.namespace, out.metadata.name = pod.metadata.namespace, pod.metadata.name
        out.metadata.uid = pod.metadata.uid
        return out

    def apply_failure_policy(self, prefix: str, detail: str) -> status.Status | None:
        """Apply the failure policy: the error as kube-scheduler words it, or None to ignore the failure."""
        if self.ignores_failure:
            return None
        return status.error(self.name, f"{prefix}: {detail}", reasons=(status.Reason("pluginCallFailed"),))


def connect(
    config: snapshot_pb2.RemotePlugin,
    caller_identity: CallerIdentity = cycle_pb2.Cycle,
) -> PluginClient:
    """Open a connection to the plugin. Raises: ValueError naming the plugin and the invalid field."""
    connection = remote_connection.PluginConnection(config, config_hash=lambda: caller_identity().config_hash)
    return PluginClient(config, caller_identity, connection)


async def handshake(
    name: str,
    address: str,
    *,
    deadline_seconds: float,
    tls: dialing.TlsSettings | None = None,
) -> plugin_pb2.PluginInfo:
    """Get the description of the plugin called `name` at this address.

    Raises:
        HandshakeError: it did not answer in time, hosts no plugin of that name, or describes itself wrongly.
    """
    prefix = f"plugin {name} at {address}"
    try:
        remote_endpoint.check_target(address, "address")
        connection = dialing.Dialer(tls).open(address, remote_endpoint.OPTIONS)
    except ValueError as error:
        raise HandshakeError(f"{prefix}: {error}") from error
    try:
        return select_info(name, await _request_plugin_info(connection, deadline_seconds))
    except (ValueError, message.DecodeError) as error:
        raise HandshakeError(f"{prefix}: {error}") from error
    except aio.AioRpcError as error:
        raise HandshakeError(f"{prefix}: {remote_endpoint.error_line(error, connection)}") from error
    finally:
        await connection.close()


def select_info(name: str, response: plugin_pb2.GetPluginInfoResponse) -> plugin_pb2.PluginInfo:
    """Select the description of the plugin called `name`.

    Raises:
        ValueError: the service hosts no plugin of that name, or describes it wrongly.
    """
    names = [info.name for info in response.plugins]
    if names.count(name) != 1:
        raise ValueError(f"hosts {', '.join(sorted(filter(None, names))) or 'no plugin'}")
    info = response.plugins[names.index(name)]
    plugin_info_validation.check_plugin_info(info)
    return info


async def _request_plugin_info(
    connection: dialing.RenewableChannel, deadline_seconds: float
) -> plugin_pb2.GetPluginInfoResponse:
    """Ask for the descriptions at an address, again while nobody listens there, up to the deadline.

    Raises: AioRpcError.
    """
    # A plugin that starts at the same time may need a moment.
    retrying = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(_nobody_listens),
        stop=tenacity.stop_after_delay(deadline_seconds),
        wait=tenacity.wait_random(0.1, 0.3),
        reraise=True,
    )
    async for attempt in retrying:
        if attempt.retry_state.attempt_number > 1:
            connection.renew()
        with attempt:
            return await plugin_control.get_plugin_info(connection.channel, deadline_seconds)
    raise AssertionError("the last attempt either answers or raises")


def _nobody_listens(error: BaseException) -> bool:
    """Whether the call failed because nobody listens at the address yet."""
    return isinstance(error, aio.AioRpcError) and error.code() in remote_connection.NOT_THERE
