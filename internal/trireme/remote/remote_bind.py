"""Remote plugins in the binding cycle, as bind calls them.

Requests and responses stay messages here, because bind forwards them.

Also change: protos/trireme/v1/bind.proto (the service).

Tests: tests/unit/remote/test_remote_bind.py, tests/contract/test_bind_remote.py,
tests/contract/test_plugin_sdk_binding.py.
"""

import dataclasses
import logging
from collections.abc import AsyncGenerator, Sequence

from trireme.framework import status
from trireme.remote import remote_client, remote_connection, remote_endpoint, remote_results
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, snapshot_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

_PERMIT = remote_connection.Method("/trireme.v1.BindPlugin/Permit", bind_pb2.PermitResponse)
_PRE_BIND_PRE_FLIGHT = remote_connection.Method(
    "/trireme.v1.BindPlugin/PreBindPreFlight", bind_pb2.PreBindPreFlightResponse, optional=True
)
_PRE_BIND = remote_connection.Method("/trireme.v1.BindPlugin/PreBind", bind_pb2.PreBindResponse)
_BIND = remote_connection.Method("/trireme.v1.BindPlugin/Bind", bind_pb2.BindResponse)
# What ObjectKey.kind may be: the frontend watches objects of these kinds, and pods.
_KINDS = {field.name for field in snapshot_pb2.ClusterObject.DESCRIPTOR.oneofs_by_name["object"].fields} | {"pod"}
_POST_BIND = remote_connection.Method("/trireme.v1.BindPlugin/PostBind", bind_pb2.PostBindResponse)


class RemoteBindPlugin:
    """Permit, PreBindPreFlight, PreBind, Bind and PostBind, called by bind.

    An item's state between phases is a PluginStates; the plugin gets its own part of it. The cycle has the pod with the
    fields that any plugin names, because bind does not follow the snapshot stream.
    """

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self._client = client

    async def permit(
        self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem]
    ) -> list[bind_pb2.PermitResult] | status.Status | None:
        """Whether each pod is bound now, waits or is refused; on failure the error, or None where that is ignored."""
        request = bind_pb2.PermitRequest(
            cycle=self._client.project_cycle(cycle, cycle.pod), items=self._own_items(items)
        )

        prefix = f'running Permit plugin "{self.name}"'

        def read_permit_results(response: bind_pb2.PermitResponse) -> list[bind_pb2.PermitResult]:
            results = remote_results.read_results(
                "results", response.results, len(items), self._client, prefix, status.Code.WAIT
            )
            for at, result in enumerate(results):
                _check_timeout(f"results[{at}]", result)
            return results

        try:
            return await self._client.connection.call(_PERMIT, request.SerializeToString(), read_permit_results)
        except remote_connection.PluginError as error:
            return self._client.apply_failure_policy(prefix, str(error))

    async def pre_bind_pre_flight(
        self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem]
    ) -> list[status_pb2.Status] | status.Status | None:
        """Whether PreBind has work for each pod; on failure the error, or None where that is ignored.

        Success where it has work, and where the plugin does not serve this RPC, else skip.
        """
        request = bind_pb2.PreBindPreFlightRequest(
            cycle=self._client.project_cycle(cycle, cycle.pod), items=self._own_items(items)
        )

        prefix = f'running PreBindPreFlight "{self.name}"'

        def read_pre_flight_statuses(response: bind_pb2.PreBindPreFlightResponse) -> list[status_pb2.Status]:
            remote_results.check_count("statuses", response.statuses, len(items))
            return [
                wire_status.to_message(
                    remote_results.read_status_by_policy(
                        entry, f"statuses[{at}]", self._client, prefix, status.Code.SKIP
                    )
                )
                for at, entry in enumerate(response.statuses)
            ]

        try:
            return await self._client.connection.call(
                _PRE_BIND_PRE_FLIGHT, request.SerializeToString(), read_pre_flight_statuses
            )
        except remote_connection.NotServed:
            return [status_pb2.Status(code=status_pb2.CODE_SUCCESS) for _ in items]
        except remote_connection.PluginError as error:
            return self._client.apply_failure_policy(prefix, str(error))

    async def pre_bind(
        self,
        cycle: cycle_pb2.Cycle,
        items: Sequence[bind_pb2.BindItem],
        during: remote_connection.During,
    ) -> list[bind_pb2.PreBindResult] | status.Status | None:
        """Return the result for each pod, done or waiting; on failure the error, or None where that is ignored.

        The error of a plugin that was not called has the reason NOT_CALLED: pods that wait can wait on.

        `during` registers the call for as long as it may write.
        """
        request = bind_pb2.PreBindRequest(
            cycle=self._client.project_cycle(cycle, cycle.pod), items=self._own_items(items)
        )

        prefix = f'running PreBind plugin "{self.name}"'

        def read_pre_bind_results(response: bind_pb2.PreBindResponse) -> list[bind_pb2.PreBindResult]:
            also = (status.Code.SKIP, status.Code.WAIT)
            results = remote_results.read_results("results", response.results, len(items), self._client, prefix, *also)
            for at, result in enumerate(results):
                _check_timeout(f"results[{at}]", result)
                _check_wait_for(f"results[{at}].wait_for", result)
            return results

        try:
            return await self._client.connection.call(
                _PRE_BIND, request.SerializeToString(), read_pre_bind_results, during
            )
        except remote_connection.NotCalled as error:
            failure = self._client.apply_failure_policy(prefix, str(error))
            return failure and dataclasses.replace(failure, reasons=(status.NOT_CALLED,))
        except remote_connection.PluginError as error:
            return self._client.apply_failure_policy(prefix, str(error))

    async def bind(
        self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem], during: remote_connection.During
    ) -> AsyncGenerator[bind_pb2.BindResult, None]:
        """Each pod's result as it is known; CODE_SKIP leaves the pod to the next binder.

        Raises:
            PluginError: the stream ended before all results came; the fate of the rest is open, whatever the policy.
        """
        request = bind_pb2.BindRequest(cycle=self._client.project_cycle(cycle, cycle.pod), items=self._own_items(items))
        prefix = f'running Bind plugin "{self.name}"'
        missing = set(range(len(items)))
        async for response in self._client.connection.call_stream(_BIND, request.SerializeToString(), during):
            for result in response.results:
                if result.index not in missing:
                    raise remote_connection.PluginError(f"the answer to Bind is wrong: results.index: {result.index}")
                try:
                    value = remote_results.read_status_by_policy(
                        result.status, "status", self._client, prefix, status.Code.SKIP
                    )
                except ValueError as error:
                    raise remote_connection.PluginError(f"the answer to Bind is wrong: results.{error}") from error
                missing.remove(result.index)
                yield bind_pb2.BindResult(index=result.index, status=wire_status.to_message(value))
        if missing:
            raise remote_connection.PluginError(f"Bind ended without a result for {len(missing)} of {len(items)} pods")

    async def post_bind(self, cycle: cycle_pb2.Cycle, items: Sequence[bind_pb2.BindItem]) -> None:
        """Notify the plugin that the pods were bound.

        A failure changes nothing. It is logged in kube-scheduler's words, once for the call, unless it is ignored.
        """
        request = bind_pb2.PostBindRequest(
            cycle=self._client.project_cycle(cycle, cycle.pod), items=self._own_items(items)
        )
        try:
            await self._client.connection.call(_POST_BIND, request.SerializeToString(), lambda _: None)
        except remote_connection.PluginError as error:
            if items and not self._client.ignores_failure:
                self._log_post_bind_failure_once(items, error)

    def _log_post_bind_failure_once(
        self, items: Sequence[bind_pb2.BindItem], error: remote_connection.PluginError
    ) -> None:
        """Log the failure in kube-scheduler's words; it names the first pod."""
        first = items[0]
        klog.error(
            log,
            "Plugin failed",
            plugin=self.name,
            pod=klog.Ref(f"{first.pod.namespace}/{first.pod.name}"),
            node=first.node_name,
            pods=len(items),
            err=f'running PostBind plugin "{self.name}": {error}',
        )

    def _own_items(self, items: Sequence[bind_pb2.BindItem]) -> list[bind_pb2.BindItem]:
        """The items with the plugin's own part of their state alone."""
        own = []
        for item in items:
            copy = bind_pb2.BindItem()
            copy.CopyFrom(item)
            copy.state = bind_phase_pb2.PluginStates.FromString(item.state).plugin_states.get(self.name, b"")
            own.append(copy)
        return own


def _check_wait_for(field: str, result: bind_pb2.PreBindResult) -> None:
    """Check a waiting result's objects: a key that names nothing would have the pod wait until the timeout."""
    if result.status.code != status_pb2.CODE_WAIT:
        return
    if not result.wait_for:
        raise ValueError(f"{field}: CODE_WAIT needs an object to wait for")
    for at, key in enumerate(result.wait_for):
        if key.kind not in _KINDS:
            kind = remote_endpoint.one_line(key.kind)
            raise ValueError(f"{field}[{at}].kind: {kind!r} is not known here; allowed: {', '.join(sorted(_KINDS))}")
        if not key.name:
            raise ValueError(f"{field}[{at}].name is not set")


def _check_timeout(field: str, result: bind_pb2.PermitResult | bind_pb2.PreBindResult) -> None:
    """Check that a waiting result has a timeout above 0. Raises: ValueError naming the field."""
    if result.status.code == status_pb2.CODE_WAIT and result.timeout.ToNanoseconds() <= 0:
        raise ValueError(f"{field}.timeout: CODE_WAIT needs one above 0")
