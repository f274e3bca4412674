"""HandleService: what a plugin can do to pods that wait on Permit, and how it has pods tried now.

Also change: docs/protocol.md.
Also change: protos/trireme/v1/frontend.proto (the messages).

Tests: tests/contract/test_replica_dialing.py, tests/contract/test_plugin_sdk.py.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from grpc import aio

from trireme.config import trireme_configuration
from trireme.rpc import grpc_server, listen_flags
from trireme.scheduling import waiting_pods
from trireme.v1 import cycle_pb2, frontend_pb2, frontend_pb2_grpc

# Moves pods, given by key and UID, to the active queue; returns those that are in it now, or will be.
Activate = Callable[[Sequence[tuple[str, str]]], Sequence[tuple[str, str]]]


class HandleService(frontend_pb2_grpc.HandleServiceServicer):
    """The service by which remote plugins act on waiting pods: allow, reject, activate. Only the frontend serves it."""

    def __init__(
        self, config: trireme_configuration.TriremeConfiguration, waiting: waiting_pods.WaitingPods, activate: Activate
    ) -> None:
        self._callers: dict[str, frozenset[str]] = {}
        self._has_tls = config.handle_has_tls
        self.configure(config)
        self._waiting = waiting
        self._activate = activate

    def configure(self, config: trireme_configuration.TriremeConfiguration) -> None:
        """Admit the remote plugins of this configuration."""
        self._callers = {plugin.name: plugin.caller_identities for plugin in config.remote_plugins}

    async def Allow(
        self, request: frontend_pb2.AllowRequest, context: aio.ServicerContext[Any, Any]
    ) -> frontend_pb2.AllowResponse:
        """Let the plugin's pod continue."""
        await self._check_caller(request.plugin, context)
        if not self._waiting.allow(request.pod.uid, request.plugin):
            await _abort_not_waiting(request.pod, context)
        return frontend_pb2.AllowResponse()

    async def Reject(
        self, request: frontend_pb2.RejectRequest, context: aio.ServicerContext[Any, Any]
    ) -> frontend_pb2.RejectResponse:
        """Refuse the pod for the plugin."""
        await self._check_caller(request.plugin, context)
        if not self._waiting.reject(request.pod.uid, request.plugin, request.message):
            await _abort_not_waiting(request.pod, context)
        return frontend_pb2.RejectResponse()

    async def Activate(
        self, request: frontend_pb2.ActivateRequest, context: aio.ServicerContext[Any, Any]
    ) -> frontend_pb2.ActivateResponse:
        """Move the pods to the active queue."""
        pods = {(f"{pod.namespace}/{pod.name}", pod.uid): pod for pod in request.pods}
        return frontend_pb2.ActivateResponse(activated=[pods[pod] for pod in self._activate(list(pods))])

    async def _check_caller(self, plugin: str, context: aio.ServicerContext[Any, Any]) -> None:
        """Abort the call if the caller may not act for the plugin."""
        allowed = self._callers.get(plugin)
        if allowed is None:
            names = ", ".join(sorted(self._callers)) or "none is configured"
            text = f"plugin: {plugin!r} is no remote plugin of this scheduler; allowed: {names}"
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
        elif self._has_tls and allowed.isdisjoint(grpc_server.caller_identities(context)):
            text = f"plugin: the caller's certificate has no identity of plugin {plugin}"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)


@contextlib.asynccontextmanager
async def serve(config: trireme_configuration.TriremeConfiguration, service: HandleService) -> AsyncIterator[None]:
    """Serve HandleService within the block, or nothing if no address is configured. Raises: ListenError."""
    if not config.handle.listen:
        yield
        return
    server = grpc_server.ReplicaServer(
        _make_handle_listener(config),
        [
            grpc_server.Service(
                frontend_pb2.DESCRIPTOR.services_by_name["HandleService"],
                lambda server: frontend_pb2_grpc.add_HandleServiceServicer_to_server(service, server),
            )
        ],
    )
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


def _make_handle_listener(config: trireme_configuration.TriremeConfiguration) -> listen_flags.Listener:
    """The address to serve on; with TLS, where it is configured, for the plugins' identities alone."""
    listen, tls = config.handle.listen, config.tls
    if not config.handle_has_tls:
        return listen_flags.make_listener(listen, guarded=True)
    return listen_flags.make_listener(
        listen,
        certificate=tls.cert_file,
        private_key=tls.key_file,
        client_ca=tls.ca_file,
        identities=tuple(
            {*config.handle.allowed_identities}.union(*(each.caller_identities for each in config.remote_plugins))
        ),
        guarded=True,
    )


async def _abort_not_waiting(pod: cycle_pb2.PodIdentity, context: aio.ServicerContext[Any, Any]) -> None:
    """End the call with NOT_FOUND: the pod does not wait on Permit."""
    await context.abort(grpc.StatusCode.NOT_FOUND, f"pod {pod.namespace}/{pod.name} does not wait on Permit")
