"""Remote plugins at Permit, PreBindPreFlight, PreBind, Bind and PostBind, as the plugin host wants its plugins.

What a plugin is asked and how its failure is worded is `trireme.remote.remote_stages`' matter; here the failure of a
whole call becomes a result for each pod. Bind is the one where a failure says nothing: the plugin may have bound pods
before it went silent. So those without a result are read back; what is bound is a success whatever the plugin said.
"""

import asyncio
import contextlib
import functools
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing

from trireme.bind import binding_retries, in_flight
from trireme.framework import status
from trireme.plugin_kit import bind_phase_plugin
from trireme.remote.remote_client import PluginClient
from trireme.remote.remote_connection import ConnectionStatistics, PluginConnection, PluginError
from trireme.remote.remote_stages import RemoteBindPlugin
from trireme.rpc.fencing import Leader, Tenure
from trireme.v1 import bind_pb2, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery import api_writes
from trireme_kube.client import writes


class RemotePlugins:
    """The remote plugins of this replica; connections live as long as a configuration in use names them."""

    def __init__(
        self,
        writer: writes.Writer,
        register: in_flight.InFlight,
        clock: Callable[[], float],
        config_hash: Callable[[], int] = lambda: 0,
    ) -> None:
        """`register` lists the calls that may write, for a new leader to wait for; `clock` is the register's.
        `config_hash` answers the hash of the configuration in force.
        """
        self._writer = writer
        self._in_flight = register
        self._clock = clock
        self._config_hash = config_hash
        self._connections: weakref.WeakValueDictionary[bytes, PluginConnection] = weakref.WeakValueDictionary()

    def plugins_of(self, configs: Iterable[snapshot_pb2.RemotePlugin]) -> dict[str, bind_phase_plugin.BindPhasePlugin]:
        """The plugins that have a part in binding.

        Raises:
            ValueError: naming the plugin and the field that is wrong.
        """
        made = {}
        for config in configs:
            key = config.SerializeToString(deterministic=True)
            connection = self._connections.get(key)
            if connection is None:
                connection = self._connections[key] = PluginConnection(config, config_hash=self._config_hash)
            client = PluginClient(config, cycle_pb2.Cycle, connection)
            made[config.name] = _plugin(client, self._writer, self._listed)
        return made

    def _listed(self, client: PluginClient, leader: Leader) -> contextlib.AbstractContextManager[object]:
        """Lists one call to the plugin; where it ends without an answer, until its deadline: the plugin may go on
        though its caller does not wait any more.
        """
        until = self._clock() + client.connection.deadline_seconds + binding_retries.SETTLE_SECONDS
        return self._in_flight.under(leader, until)

    def statistics(self) -> dict[str, ConnectionStatistics]:
        """What each plugin in use was asked, by name."""
        return {connection.name: connection.statistics() for connection in list(self._connections.values())}

    async def close(self) -> None:
        """Ends all calls and disconnects."""
        for connection in list(self._connections.values()):
            await connection.close()


def _plugin(
    client: PluginClient,
    writer: writes.Writer,
    listed: Callable[[PluginClient, Leader], contextlib.AbstractContextManager[object]],
) -> bind_phase_plugin.BindPhasePlugin:
    remote = RemoteBindPlugin(client)

    async def permit(request: bind_pb2.PermitRequest) -> Sequence[bind_pb2.PermitResult]:
        answer = await remote.permit(request.cycle, request.items)
        if isinstance(answer, list):
            return answer
        return [bind_pb2.PermitResult(status=to_message(answer or status.SUCCESS)) for _ in request.items]

    async def pre_bind_pre_flight(request: bind_pb2.PreBindPreFlightRequest) -> Sequence[status_pb2.Status]:
        answer = await remote.pre_bind_pre_flight(request.cycle, request.items)
        if isinstance(answer, list):
            return answer
        return [to_message(answer or status.SKIP) for _ in request.items]

    async def pre_bind(request: bind_pb2.PreBindRequest) -> Sequence[bind_pb2.PreBindResult]:
        fence = request.cycle.fence
        during = functools.partial(listed, client, Leader(fence.scheduler_id, fence.epoch))
        answer = await remote.pre_bind(request.cycle, request.items, during)
        if isinstance(answer, list):
            return answer
        return [bind_pb2.PreBindResult(status=to_message(answer or status.SKIP)) for _ in request.items]

    async def bind(
        request: bind_pb2.BindRequest, tenure: Tenure
    ) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        missing = set(range(len(request.items)))
        if not tenure.active:
            failed = status.error(client.name, f"not bound: {tenure.ended_because}")
            yield [bind_pb2.BindResult(index=index, status=to_message(failed)) for index in missing]
            return

        def during() -> contextlib.AbstractContextManager[object]:
            if not tenure.active:
                raise PluginError(f"not bound: {tenure.ended_because}")
            return listed(client, tenure.leader)

        try:
            async with aclosing(remote.bind(request.cycle, request.items, during)) as results:  # type: ignore[type-var]
                async for result in results:
                    missing.discard(result.index)
                    yield [result]
        except PluginError as error:
            # Where its failure is ignored the next plugin binds what is not bound.
            words = f'running Bind plugin "{client.name}"'
            otherwise = to_message(client.failure(words, str(error)) or status.SKIP)
            left = sorted(missing)
            found = await asyncio.gather(*(_read_back(writer, request.items[index], otherwise) for index in left))
            yield [
                bind_pb2.BindResult(index=index, status=told)
                for index, told in zip(left, found, strict=True)
                if told is not None
            ]
            unread = found.count(None)
            if unread:
                raise bind_phase_plugin.BindResultUnknown(f"{unread} pods may be bound or not: {error}") from error

    async def post_bind(request: bind_pb2.PostBindRequest) -> None:
        await remote.post_bind(request.cycle, request.items)

    return bind_phase_plugin.BindPhasePlugin(
        client.name,
        permit if client.serves(plugin_pb2.EXTENSION_POINT_PERMIT) else None,
        pre_bind if client.serves(plugin_pb2.EXTENSION_POINT_PRE_BIND) else None,
        bind if client.serves(plugin_pb2.EXTENSION_POINT_BIND) else None,
        post_bind if client.serves(plugin_pb2.EXTENSION_POINT_POST_BIND) else None,
        pre_bind_pre_flight,
    )


async def _read_back(
    writer: writes.Writer, item: bind_pb2.BindItem, otherwise: status_pb2.Status
) -> status_pb2.Status | None:
    """The status of a pod whose binder went silent; None: it cannot be read."""
    pod = api_writes.PodName(item.pod.namespace, item.pod.name, item.pod.uid)
    outcome = await writer.settle_binding(pod, item.node_name, binding_retries.READ_DEADLINE_SECONDS)
    match outcome:
        case api_writes.Written():
            return to_message(status.SUCCESS)
        case api_writes.Uncertain() | api_writes.Refused():
            return None
        case _:
            return otherwise
