"""Remote plugins at Permit, PreBindPreFlight, PreBind, Bind and PostBind, as plugins of the bind phase.

`trireme.remote.remote_bind` makes the requests and words the failures; here the failure of a whole call becomes a
result for each pod. A failure of Bind does not show what happened, because the plugin may have bound pods before. So
the pods without a result are read back: one that is bound is a success, whatever the plugin answered.

Also change: protos/trireme/v1/bind.proto (the messages).
Also change: internal/trireme/plugin_verification/sample_requests.py (the requests that a plugin gets).

Tests: tests/unit/bind/test_remote_bind_plugins.py, tests/contract/test_bind_remote.py.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing

from trireme.bind import binding_retries, work_in_flight
from trireme.framework import status
from trireme.plugin_kit import bind_phase_plugin
from trireme.remote import plugin_connections
from trireme.remote.remote_bind import RemoteBindPlugin
from trireme.remote.remote_client import PluginClient
from trireme.remote.remote_connection import PluginError
from trireme.rpc.fencing import Leader, Tenure
from trireme.v1 import bind_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.wire.status import to_message
from trireme_kube.apimachinery import api_writes
from trireme_kube.client import writes


class RemoteBindPlugins:
    """Makes the remote plugins of this replica."""

    def __init__(
        self,
        connections: plugin_connections.PluginConnections,
        writer: writes.Writer,
        register: work_in_flight.WorkInFlight,
        clock: Callable[[], float],
    ) -> None:
        """`register` lists the calls that may write, for a new leader to wait for; `clock` is its clock."""
        self._connections = connections
        self._writer = writer
        self._in_flight = register
        self._clock = clock

    def plugins_of(self, configs: Iterable[snapshot_pb2.RemotePlugin]) -> dict[str, bind_phase_plugin.BindPhasePlugin]:
        """Make the plugins that have a part in binding, by name.

        Raises:
            ValueError: naming the plugin and the field that is wrong.
        """
        made = {}
        for config in configs:
            client = self._connections.make_client(config)
            made[config.name] = _RemoteCalls(client, self._writer, self._track_call).plugin()
        return made

    def _track_call(self, client: PluginClient, leader: Leader) -> contextlib.AbstractContextManager[object]:
        """List one call to the plugin.

        If it ends without an answer, it stays listed until its deadline: the plugin may go on although its caller does
        not wait any more.
        """
        until = self._clock() + client.connection.deadline_seconds + binding_retries.SETTLE_SECONDS
        return self._in_flight.track(leader, until)


class _RemoteCalls:
    """The calls of one plugin in the form of BindPhasePlugin: where a call fails, each pod gets the failure."""

    def __init__(
        self,
        client: PluginClient,
        writer: writes.Writer,
        track_call: Callable[[PluginClient, Leader], contextlib.AbstractContextManager[object]],
    ) -> None:
        self._client = client
        self._remote = RemoteBindPlugin(client)
        self._writer = writer
        self._track_call = track_call

    def plugin(self) -> bind_phase_plugin.BindPhasePlugin:
        """The plugin, with the calls of the extension points that it serves."""
        serves = self._client.serves
        return bind_phase_plugin.BindPhasePlugin(
            self._client.name,
            self._permit if serves(plugin_pb2.EXTENSION_POINT_PERMIT) else None,
            self._pre_bind if serves(plugin_pb2.EXTENSION_POINT_PRE_BIND) else None,
            self._bind if serves(plugin_pb2.EXTENSION_POINT_BIND) else None,
            self._post_bind if serves(plugin_pb2.EXTENSION_POINT_POST_BIND) else None,
            self._pre_bind_pre_flight,
        )

    async def _permit(self, request: bind_pb2.PermitRequest) -> Sequence[bind_pb2.PermitResult]:
        """Call Permit; without an answer (the failure policy decides) all pods get one status."""
        answer = await self._remote.permit(request.cycle, request.items)
        if isinstance(answer, list):
            return answer
        return [bind_pb2.PermitResult(status=to_message(answer or status.SUCCESS)) for _ in request.items]

    async def _pre_bind_pre_flight(self, request: bind_pb2.PreBindPreFlightRequest) -> Sequence[status_pb2.Status]:
        """Call PreBindPreFlight; without an answer all pods get the failure, or SKIP if it is ignored."""
        answer = await self._remote.pre_bind_pre_flight(request.cycle, request.items)
        if isinstance(answer, list):
            return answer
        return [to_message(answer or status.SKIP) for _ in request.items]

    async def _pre_bind(self, request: bind_pb2.PreBindRequest) -> Sequence[bind_pb2.PreBindResult]:
        """Call PreBind; without an answer all pods get the failure, or SKIP if it is ignored."""
        fence = request.cycle.fence
        during = functools.partial(self._track_call, self._client, Leader(fence.scheduler_id, fence.epoch))
        answer = await self._remote.pre_bind(request.cycle, request.items, during)
        if isinstance(answer, list):
            return answer
        return [bind_pb2.PreBindResult(status=to_message(answer or status.SKIP)) for _ in request.items]

    async def _bind(
        self, request: bind_pb2.BindRequest, tenure: Tenure
    ) -> AsyncGenerator[Sequence[bind_pb2.BindResult], None]:
        """Have the remote plugin bind the pods; yields results as they come.

        Without a tenure nothing is called. If the call fails, pods without a result are read, and those found bound or
        not bound have their result; BindResultUnknown is raised for the rest.
        """
        missing = set(range(len(request.items)))
        if not tenure.active:
            reasons = (status.Reason("notBegun"),)
            failed = status.error(self._client.name, f"not bound: {tenure.ended_because}", reasons=reasons)
            yield [bind_pb2.BindResult(index=index, status=to_message(failed)) for index in missing]
            return

        def during() -> contextlib.AbstractContextManager[object]:
            if not tenure.active:
                raise PluginError(f"not bound: {tenure.ended_because}")
            return self._track_call(self._client, tenure.leader)

        try:
            async with aclosing(self._remote.bind(request.cycle, request.items, during)) as results:
                async for result in results:
                    missing.discard(result.index)
                    yield [result]
        except PluginError as error:
            left = sorted(missing)
            statuses = await self._statuses_by_reading_pods([request.items[index] for index in left], error)
            yield [
                bind_pb2.BindResult(index=index, status=found)
                for index, found in zip(left, statuses, strict=True)
                if found is not None
            ]
            unread = statuses.count(None)
            if unread:
                raise bind_phase_plugin.BindResultUnknown(f"{unread} pods may be bound or not: {error}") from error

    async def _statuses_by_reading_pods(
        self, items: Sequence[bind_pb2.BindItem], error: PluginError
    ) -> list[status_pb2.Status | None]:
        """The statuses of pods whose plugin failed before it answered about them; None: the pod cannot be read."""
        # Where the failure is ignored, the next plugin binds what is not bound.
        failure = self._client.apply_failure_policy(f'running Bind plugin "{self._client.name}"', str(error))
        otherwise = to_message(failure or status.SKIP)
        return await asyncio.gather(*(_status_by_reading_pod(self._writer, item, otherwise) for item in items))

    async def _post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """Call PostBind; failures are logged."""
        await self._remote.post_bind(request.cycle, request.items)


async def _status_by_reading_pod(
    writer: writes.Writer, item: bind_pb2.BindItem, otherwise: status_pb2.Status
) -> status_pb2.Status | None:
    """The status of a pod that may be bound: success if it is, else `otherwise`; None: it cannot be read."""
    pod = api_writes.PodName(item.pod.namespace, item.pod.name, item.pod.uid)
    outcome = await writer.settle_binding(pod, item.node_name, binding_retries.READ_DEADLINE_SECONDS)
    match outcome:
        case api_writes.Written():
            return to_message(status.SUCCESS)
        case api_writes.Uncertain():
            return None
        case _:
            return otherwise
