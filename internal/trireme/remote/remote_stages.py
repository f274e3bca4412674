"""The extension points of remote plugins other than Filter and Score, as frontend, filter and bind call them.

Requests and responses stay messages here, because the phases forward them. This module checks that a response fits its
request and has the plugin's name, and applies the plugin's failure policy; each method documents its result then.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

from trireme.framework import status
from trireme.remote import remote_client, remote_connection, remote_response
from trireme.v1 import bind_pb2, bind_phase_pb2, core_pb2, cycle_pb2, filter_pb2, plugin_pb2, queue_pb2, status_pb2
from trireme.wire import status as wire_status

_PRE_ENQUEUE = remote_connection.Method("/trireme.v1.QueueService/PreEnqueue", queue_pb2.PreEnqueueResponse)
_HINT = remote_connection.Method("/trireme.v1.QueueService/QueueingHint", queue_pb2.QueueingHintResponse)
_POST_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/PostFilter", filter_pb2.PostFilterResponse)
_RESERVE = remote_connection.Method("/trireme.v1.FilterPlugin/Reserve", filter_pb2.ReserveResponse)
_UNRESERVE = remote_connection.Method("/trireme.v1.FilterPlugin/Unreserve", filter_pb2.UnreserveResponse)
_PERMIT = remote_connection.Method("/trireme.v1.BindPlugin/Permit", bind_pb2.PermitResponse)
_PRE_BIND_PRE_FLIGHT = remote_connection.Method(
    "/trireme.v1.BindPlugin/PreBindPreFlight", bind_pb2.PreBindPreFlightResponse, optional=True
)
_PRE_BIND = remote_connection.Method("/trireme.v1.BindPlugin/PreBind", bind_pb2.PreBindResponse)
_BIND = remote_connection.Method("/trireme.v1.BindPlugin/Bind", bind_pb2.BindResponse)
_POST_BIND = remote_connection.Method("/trireme.v1.BindPlugin/PostBind", bind_pb2.PostBindResponse)

Result = TypeVar("Result", filter_pb2.Reservation, bind_pb2.PermitResult, bind_pb2.PreBindResult)


class RemoteQueuePlugin:
    """PreEnqueue and QueueingHint, called by the frontend."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        #: The prefix of an error message of PreEnqueue.
        self.pre_enqueue_error_prefix = f'running PreEnqueue plugin "{client.name}"'
        self._client = client

    async def pre_enqueue(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[status.Status]:
        """Whether each pod may enter the queue. On failure each has the error, or passes where that is ignored."""
        request = queue_pb2.PreEnqueueRequest(
            profile=profile, pods=self._client.own_pods(pods), config_hash=self._client.config_hash
        )
        prefix = self.pre_enqueue_error_prefix

        def read(response: queue_pb2.PreEnqueueResponse) -> list[status.Status]:
            _check_count("statuses", response.statuses, len(pods))
            return [
                _read_status(entry, f"statuses[{at}]", self._client, prefix)
                for at, entry in enumerate(response.statuses)
            ]

        try:
            return await self._client.connection.ask(_PRE_ENQUEUE, request.SerializeToString(), read)
        except remote_connection.PluginError as error:
            return [self._client.failure(prefix, str(error)) or status.SUCCESS] * len(pods)

    async def queueing_hint(
        self, event: plugin_pb2.ClusterEvent, old_json: bytes, new_json: bytes, pods: Sequence[core_pb2.Pod]
    ) -> list[bool] | None:
        """Whether the event may help each of the pods; None on failure: then every pod is tried again."""
        request = queue_pb2.QueueingHintRequest(
            plugin=self.name,
            event=event,
            old_json=old_json,
            new_json=new_json,
            pods=self._client.own_pods(pods),
            config_hash=self._client.config_hash,
        )

        def read(response: queue_pb2.QueueingHintResponse) -> list[bool]:
            _check_count("hints", response.hints, len(pods))
            return [hint != queue_pb2.HINT_QUEUE_SKIP for hint in response.hints]

        try:
            return await self._client.connection.ask(_HINT, request.SerializeToString(), read)
        except remote_connection.PluginError:
            return None


class RemoteReservePlugin:
    """PostFilter, Reserve and Unreserve, called by filter."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def post_filter(
        self, cycle: cycle_pb2.Cycle, columns: filter_pb2.NodeColumns, pre_filter: status.Status | None = None
    ) -> filter_pb2.PostFilterResponse | status.Status | None:
        """The plugin's PostFilter result; on failure the error, or None where that is ignored."""
        request = filter_pb2.PostFilterRequest(cycle=self._client.own_cycle(cycle), columns=columns)
        if pre_filter is not None:
            request.pre_filter.CopyFrom(wire_status.to_message(pre_filter))

        def read(response: filter_pb2.PostFilterResponse) -> filter_pb2.PostFilterResponse:
            value = remote_response.read_status(response.status, self.name)
            if value.code is not status.Code.SUCCESS and response.actions:
                raise ValueError("actions: are carried out with a status of success only")
            response.status.CopyFrom(wire_status.to_message(value))
            return response

        try:
            answer = await self._client.connection.ask(_POST_FILTER, request.SerializeToString(), read)
        except remote_connection.PluginError as error:
            return self._client.failure(f'running PostFilter plugin "{self.name}"', str(error))
        if answer.status.code == status_pb2.CODE_ERROR:
            prefix = f'running PostFilter plugin "{self.name}"'
            return self._client.failure(prefix, ", ".join(answer.status.messages))
        return answer

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> list[filter_pb2.Reservation] | status.Status | None:
        """What to assume beside each placement; on failure the error, or None where that is ignored."""
        request = filter_pb2.ReserveRequest(cycle=self._client.own_cycle(cycle), placements=placements)

        prefix = f'running Reserve plugin "{self.name}"'

        def read(response: filter_pb2.ReserveResponse) -> list[filter_pb2.Reservation]:
            return _results("reservations", response.reservations, len(placements), self._client, prefix)

        try:
            return await self._client.connection.ask(_RESERVE, request.SerializeToString(), read)
        except remote_connection.PluginError as error:
            return self._client.failure(prefix, str(error))

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> bool:
        """Notify the plugin that the placements are void; return whether the call succeeded."""
        request = filter_pb2.UnreserveRequest(cycle=self._client.own_cycle(cycle), placements=placements)
        return await _notify(self._client, _UNRESERVE, request.SerializeToString())


class RemoteBindPlugin:
    """Permit, PreBindPreFlight, PreBind, Bind and PostBind, called by bind.

    An item's state between phases is a PluginStates; the plugin gets its own part of it.
    """

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def permit(
        self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem]
    ) -> list[bind_pb2.PermitResult] | status.Status | None:
        """Whether each pod is bound now, waits or is refused; on failure the error, or None where that is ignored."""
        request = bind_pb2.PermitRequest(cycle=self._client.own_cycle(cycle), items=self._own_items(items))

        prefix = f'running Permit plugin "{self.name}"'

        def read(response: bind_pb2.PermitResponse) -> list[bind_pb2.PermitResult]:
            results = _results("results", response.results, len(items), self._client, prefix, status.Code.WAIT)
            for at, result in enumerate(results):
                _check_timeout(f"results[{at}]", result)
            return results

        try:
            return await self._client.connection.ask(_PERMIT, request.SerializeToString(), read)
        except remote_connection.PluginError as error:
            return self._client.failure(prefix, str(error))

    async def pre_bind_pre_flight(
        self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem]
    ) -> list[status_pb2.Status] | status.Status | None:
        """Whether PreBind has work for each pod; on failure the error, or None where that is ignored.

        Success where it has work, and where the plugin does not serve this RPC, else skip.
        """
        request = bind_pb2.PreBindPreFlightRequest(cycle=self._client.own_cycle(cycle), items=self._own_items(items))

        prefix = f'running PreBindPreFlight "{self.name}"'

        def read(response: bind_pb2.PreBindPreFlightResponse) -> list[status_pb2.Status]:
            _check_count("statuses", response.statuses, len(items))
            return [
                wire_status.to_message(_read_status(entry, f"statuses[{at}]", self._client, prefix, status.Code.SKIP))
                for at, entry in enumerate(response.statuses)
            ]

        try:
            return await self._client.connection.ask(_PRE_BIND_PRE_FLIGHT, request.SerializeToString(), read)
        except remote_connection.NotServed:
            return [status_pb2.Status(code=status_pb2.CODE_SUCCESS) for _ in items]
        except remote_connection.PluginError as error:
            return self._client.failure(prefix, str(error))

    async def pre_bind(
        self,
        cycle: cycle_pb2.Cycle,
        items: Sequence[bind_pb2.BindItem],
        during: remote_connection.During,
    ) -> list[bind_pb2.PreBindResult] | status.Status | None:
        """The result for each pod: done or waiting; on failure the error, or None where that is ignored."""
        request = bind_pb2.PreBindRequest(cycle=self._client.own_cycle(cycle), items=self._own_items(items))

        prefix = f'running PreBind plugin "{self.name}"'

        def read(response: bind_pb2.PreBindResponse) -> list[bind_pb2.PreBindResult]:
            also = (status.Code.SKIP, status.Code.WAIT)
            results = _results("results", response.results, len(items), self._client, prefix, *also)
            for at, result in enumerate(results):
                _check_timeout(f"results[{at}]", result)
                if result.status.code == status_pb2.CODE_WAIT and not result.wait_for:
                    raise ValueError(f"results[{at}].wait_for: CODE_WAIT needs an object to wait for")
            return results

        try:
            return await self._client.connection.ask(_PRE_BIND, request.SerializeToString(), read, during)
        except remote_connection.PluginError as error:
            return self._client.failure(prefix, str(error))

    async def bind(
        self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem], during: remote_connection.During
    ) -> AsyncIterator[bind_pb2.BindResult]:
        """Each pod's result as it is known; CODE_SKIP leaves the pod to the next binder.

        Raises:
            PluginError: the stream ended before all results came; the fate of the rest is open, whatever the policy.
        """
        request = bind_pb2.BindRequest(cycle=self._client.own_cycle(cycle), items=self._own_items(items))
        prefix = f'running Bind plugin "{self.name}"'
        missing = set(range(len(items)))
        async for response in self._client.connection.ask_stream(_BIND, request.SerializeToString(), during):
            for result in response.results:
                if result.index not in missing:
                    raise remote_connection.PluginError(f"the answer to Bind is wrong: results.index: {result.index}")
                try:
                    value = _read_status(result.status, "status", self._client, prefix, status.Code.SKIP)
                except ValueError as error:
                    raise remote_connection.PluginError(f"the answer to Bind is wrong: results.{error}") from error
                missing.remove(result.index)
                yield bind_pb2.BindResult(index=result.index, status=wire_status.to_message(value))
        if missing:
            raise remote_connection.PluginError(f"Bind ended without a result for {len(missing)} of {len(items)} pods")

    async def post_bind(self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem]) -> bool:
        """Notify the plugin that the pods were bound; return whether the call succeeded."""
        request = bind_pb2.PostBindRequest(cycle=self._client.own_cycle(cycle), items=self._own_items(items))
        return await _notify(self._client, _POST_BIND, request.SerializeToString())

    def _own_items(self, items: Sequence[bind_pb2.BindItem]) -> list[bind_pb2.BindItem]:
        own = []
        for item in items:
            copy = bind_pb2.BindItem()
            copy.CopyFrom(item)
            copy.state = bind_phase_pb2.PluginStates.FromString(item.state).plugin_states.get(self.name, b"")
            own.append(copy)
        return own


async def _notify(client: remote_client.PluginClient, method: remote_connection.Method[Any], request: bytes) -> bool:
    try:
        return await client.connection.ask(method, request, lambda _: True)
    except remote_connection.PluginError:
        return False


def _check_count(field: str, entries: Sequence[object], count: int) -> None:
    if len(entries) != count:
        raise ValueError(f"{field}: has {len(entries)} entries, must have {count}")


def _read_status(
    message: status_pb2.Status, field: str, client: remote_client.PluginClient, prefix: str, *also: status.Code
) -> status.Status:
    """The status; an error as kube-scheduler words it, or success where the plugin's errors are ignored.

    Raises:
        ValueError: names what is wrong with it.
    """
    value = remote_response.read_status(message, client.name, field, also)
    if value.code is status.Code.ERROR:
        return client.failure(prefix, value.message) or status.SUCCESS
    return value


def _results(
    field: str,
    results: Sequence[Result],
    count: int,
    client: remote_client.PluginClient,
    prefix: str,
    *also: status.Code,
) -> list[Result]:
    """The results with their statuses as `_read_status` has them. Raises: ValueError naming what is wrong."""
    _check_count(field, results, count)
    for at, result in enumerate(results):
        value = _read_status(result.status, f"{field}[{at}].status", client, prefix, *also)
        result.status.CopyFrom(wire_status.to_message(value))
    return list(results)


def _check_timeout(field: str, result: bind_pb2.PermitResult | bind_pb2.PreBindResult) -> None:
    if result.status.code == status_pb2.CODE_WAIT and result.timeout.ToNanoseconds() <= 0:
        raise ValueError(f"{field}.timeout: CODE_WAIT needs one above 0")
