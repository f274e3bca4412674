"""Requests of a plugin to the scheduler: allow or reject a waiting pod, and activate pods."""

from collections.abc import Awaitable, Iterable
from types import TracebackType
from typing import Self

import grpc
from grpc import aio

from trireme.rpc import dialing
from trireme.v1 import cycle_pb2, frontend_pb2, frontend_pb2_grpc

DEADLINE_SECONDS = 5.0


class Handle:
    """A client of the frontend for the plugin called `plugin`. An async context manager."""

    def __init__(self, address: str, plugin: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        self._plugin = plugin
        options = [dialing.NO_PROXY]
        self._channel = (
            aio.insecure_channel(address, options)
            if credentials is None
            else aio.secure_channel(address, credentials, options)
        )
        self._stub: frontend_pb2_grpc.HandleServiceAsyncStub = frontend_pb2_grpc.HandleServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close(None)

    async def allow(self, pod: cycle_pb2.PodIdentity) -> bool:
        """Allow a pod that waits for this plugin; False if it does not wait."""
        return await self._call_unless_not_found(
            self._stub.Allow(frontend_pb2.AllowRequest(pod=pod, plugin=self._plugin), timeout=DEADLINE_SECONDS)
        )

    async def reject(self, pod: cycle_pb2.PodIdentity, message: str) -> bool:
        """Reject a waiting pod; False if it does not wait."""
        request = frontend_pb2.RejectRequest(pod=pod, plugin=self._plugin, message=message)
        return await self._call_unless_not_found(self._stub.Reject(request, timeout=DEADLINE_SECONDS))

    async def activate(self, pods: Iterable[cycle_pb2.PodIdentity]) -> list[cycle_pb2.PodIdentity]:
        """Move these pods to the active queue, regardless of back-off; return those that are tried next.

        A pod is left out if it is unknown, or an in-tree PreEnqueue plugin or its group holds it back.
        """
        response = await self._stub.Activate(frontend_pb2.ActivateRequest(pods=pods), timeout=DEADLINE_SECONDS)
        return list(response.activated)

    async def _call_unless_not_found(self, call: Awaitable[object]) -> bool:
        """Await the call; False if it ended with NOT_FOUND."""
        try:
            await call
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return False
            raise
        return True
