"""Requests of a plugin to the scheduler: allow or reject a waiting pod, and activate pods.

Also change: sdk/go/handle.go, sdk/go/connection.go, sdk/java/src/main/java/dev/trireme/sdk/Handle.java,
sdk/java/src/main/java/dev/trireme/sdk/HandleTls.java, sdk/rust/src/handle.rs,
sdk/typescript/src/handle.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/frontend.proto (the messages).

Tests: tests/contract/test_plugin_sdk.py.
"""

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc
from grpc import aio

from trireme.rpc import dialing
from trireme.v1 import cycle_pb2, frontend_pb2, frontend_pb2_grpc

DEADLINE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class HandleTls:
    """PEM files: the authority of the scheduler's certificate; the plugin's certificate and its key, or neither.

    A connection that is open goes on when they are replaced; the next one uses what they have.
    """

    ca_file: str
    cert_file: str = ""
    key_file: str = ""


class Handle:
    """A client of the frontend for the plugin called `plugin`. An async context manager."""

    def __init__(
        self, address: str, plugin: str, credentials: grpc.ChannelCredentials | HandleTls | None = None
    ) -> None:
        """Plaintext without credentials, and on a Unix socket, if they are not gRPC's own.

        Raises:
            ValueError: naming the field of `HandleTls` and the file that cannot be used.
        """
        self._plugin = plugin
        self._renewable: dialing.RenewableChannel | None = None
        self._channel: aio.Channel
        if isinstance(credentials, HandleTls):
            self._renewable = _dialer(credentials).open(address, [])
            self._channel = self._renewable.channel
        elif credentials is None:
            self._channel = aio.insecure_channel(address, [dialing.NO_PROXY])
        else:
            self._channel = aio.secure_channel(address, credentials, [dialing.NO_PROXY])
        self._stub: frontend_pb2_grpc.HandleServiceAsyncStub = frontend_pb2_grpc.HandleServiceStub(self._channel)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._renewable is not None:
            await self._renewable.close()
        else:
            await self._channel.close(None)

    async def allow(self, pod: cycle_pb2.PodIdentity) -> bool:
        """Allow a pod that waits for this plugin; False if it does not wait."""
        request = frontend_pb2.AllowRequest(pod=pod, plugin=self._plugin)
        return await self._call_unless_not_found(self._current_stub().Allow(request, timeout=DEADLINE_SECONDS))

    async def reject(self, pod: cycle_pb2.PodIdentity, message: str) -> bool:
        """Reject a waiting pod; False if it does not wait."""
        request = frontend_pb2.RejectRequest(pod=pod, plugin=self._plugin, message=message)
        return await self._call_unless_not_found(self._current_stub().Reject(request, timeout=DEADLINE_SECONDS))

    async def activate(self, pods: Iterable[cycle_pb2.PodIdentity]) -> list[cycle_pb2.PodIdentity]:
        """Move these pods to the active queue, regardless of back-off; return those that are tried next.

        A pod is left out if it is unknown, or an in-tree PreEnqueue plugin or its group holds it back.
        """
        response = await self._current_stub().Activate(
            frontend_pb2.ActivateRequest(pods=pods), timeout=DEADLINE_SECONDS
        )
        return list(response.activated)

    def _current_stub(self) -> "frontend_pb2_grpc.HandleServiceAsyncStub":
        """The stub for a request; without a connection, one for a channel with the files as they are now.

        gRPC itself would try again with those before, after two minutes at worst.
        """
        renewable = self._renewable
        connected = renewable is None or renewable.channel.get_state() is grpc.ChannelConnectivity.READY
        if renewable is not None and not connected and renewable.renew():
            self._stub = frontend_pb2_grpc.HandleServiceStub(renewable.channel)
        return self._stub

    async def _call_unless_not_found(self, call: Awaitable[object]) -> bool:
        """Await the call; False if it ended with NOT_FOUND."""
        try:
            await call
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return False
            raise
        return True


def _dialer(tls: HandleTls) -> dialing.Dialer:
    """Opens channels with these files. Raises: ValueError."""
    if bool(tls.cert_file) != bool(tls.key_file):
        raise ValueError("HandleTls: cert_file and key_file need each other")
    return dialing.Dialer(dialing.TlsSettings(tls.ca_file, tls.cert_file, tls.key_file, field="HandleTls"))
