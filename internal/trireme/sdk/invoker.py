"""Calls a plugin's methods: sync or async, with limited concurrency, turning every exception into a gRPC error.

Invariant: whatever a method raises or returns, the caller gets a message of the contract or a gRPC error that describes
the plugin's mistake; the process continues.

Also change: sdk/go/service.go, sdk/java/src/main/java/dev/trireme/sdk/Invoker.java,
sdk/java/src/main/java/dev/trireme/sdk/Calls.java, sdk/rust/src/shared.rs, sdk/rust/src/services/mod.rs,
sdk/typescript/src/invoker.ts (the same in the other languages' SDKs).

Tests: tests/contract/test_plugin_sdk.py, tests/contract/test_plugin_sdk_results.py.
"""

import asyncio
import contextlib
import dataclasses
import inspect
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import grpc
from grpc import aio

from trireme.framework import status
from trireme.rpc import fencing, follower, grpc_server
from trireme.sdk import calls, cluster_state, metrics, result_checks, tracing
from trireme.sdk.calls import Call, Node
from trireme.sdk.configuring import Configurations
from trireme.sdk.description import Info, Plugin
from trireme.sdk.values import NodeData
from trireme.v1 import cycle_pb2, status_pb2
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)


class Invoker:
    """Calls the methods of one plugin, synchronous or not, with its limit of concurrent calls."""

    def __init__(self, plugin: Plugin, call_metrics: metrics.CallMetrics | None = None) -> None:
        self._plugin = plugin
        self.name = plugin.info.name
        self._metrics = call_metrics or metrics.CallMetrics(self.name)
        limit = plugin.info.max_concurrent_calls
        self._turns = asyncio.Semaphore(limit) if limit else None
        self.configurations = Configurations()
        self._epochs = fencing.SchedulerEpochs()
        #: The cluster and its follower; None unless the plugin's node_data is SNAPSHOT.
        self.cluster: cluster_state.ClusterState | None = None
        self.follow: follower.Follower | None = None
        if plugin.info.node_data is NodeData.SNAPSHOT:
            self.cluster = cluster_state.ClusterState()
            self.follow = follower.Follower(self.cluster, lambda configuration: None, requires_configuration=False)

    @property
    def info(self) -> Info:
        """The plugin's info, as it is now."""
        return self._plugin.info

    def method(self, name: str) -> Callable[..., Any] | None:
        """The method of that name, or None."""
        return getattr(self._plugin, name, None)

    async def require(self, context: aio.ServicerContext[Any, Any], *names: str) -> None:
        """Abort the call with UNIMPLEMENTED if the plugin has none of these methods."""
        if not any(self.method(name) for name in names):
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"plugin {self.name} has no {names[0]}")

    async def call_for(self, cycle: cycle_pb2.Cycle, context: aio.ServicerContext[Any, Any], count: int = 1) -> Call:
        """The call of a cycle, with the plugin's configuration.

        Ends the RPC with FAILED_PRECONDITION if the calling leader has been deposed.
        """
        try:
            self._epochs.admit(cycle.fence.epoch, cycle.fence.scheduler_id)
        except fencing.Refusal as refusal:
            await grpc_server.refuse(context, refusal)
        await self.require_configuration(cycle.config_hash, context)
        if self.follow is not None:
            await self.follow.wait_until_synced(cycle, context)
        config = self.configurations.get(cycle.config_hash, cycle.profile)
        left = context.time_remaining()
        deadline = None if left is None else time.monotonic() + left
        return dataclasses.replace(
            calls.from_cycle(cycle, count), config=config, cluster=self.cluster, deadline=deadline
        )

    async def require_configuration(self, config_hash: int, context: aio.ServicerContext[Any, Any]) -> None:
        """End the call with FAILED_PRECONDITION if the plugin takes arguments and does not have this configuration.

        The caller then calls Configure.
        """
        if self.method("configure") is not None and not self.configurations.has(config_hash):
            text = f"config_hash: plugin {self.name} does not have this configuration"
            await grpc_server.refuse(context, fencing.Refusal(fencing.RefusalReason.CONFIG_MISMATCH, text))

    async def call(self, name: str, *args: Any, **named: Any) -> Any:
        """Call the method and return its result; None if there is no such method."""
        method = self.method(name)
        if method is None:
            return None
        answer = method(*args, **named)
        return await answer if inspect.isawaitable(answer) else answer

    def config_argument(self, name: str, config: object) -> Mapping[str, object]:
        """The keyword argument `config` for a method that has such a parameter; nothing for another."""
        method = self.method(name)
        return {"config": config} if method and "config" in inspect.signature(method).parameters else {}

    async def call_for_each_node(self, name: str, call: Call, nodes: Sequence[Node]) -> list[Any]:
        """Call the method for each node, one after the other."""
        method = self.method(name)
        if method is None:
            return []
        if inspect.iscoroutinefunction(method):
            return [await method(call, node) for node in nodes]
        return [method(call, node) for node in nodes]

    @contextlib.asynccontextmanager
    async def turn(self, context: aio.ServicerContext[Any, Any], rpc: str, method: str) -> AsyncIterator[None]:
        """Hold one of the plugin's call slots; an exception inside aborts the RPC with INTERNAL.

        The error says which plugin, RPC and method it is about.
        """
        began, code = time.monotonic(), grpc.StatusCode.OK.value[0]
        self._metrics.begin()
        try:
            async with self._held_turn(context, rpc, method):
                yield
        except aio.AbortError:
            # A number, although the types say otherwise.
            ended: Any = context.code()
            code = ended.value[0] if isinstance(ended, grpc.StatusCode) else int(ended)
            raise
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED.value[0]
            raise
        finally:
            self._metrics.end(rpc, code, time.monotonic() - began)

    @contextlib.asynccontextmanager
    async def _held_turn(self, context: aio.ServicerContext[Any, Any], rpc: str, method: str) -> AsyncIterator[None]:
        """The same without metrics."""
        async with self._turns or contextlib.nullcontext():
            try:
                with tracing.caller_as_parent(context):
                    yield
            except (aio.AbortError, asyncio.CancelledError):
                raise
            except Exception as error:
                await context.abort(grpc.StatusCode.INTERNAL, self.failure(rpc, method, error))

    def failure(self, rpc: str, method: str, error: Exception) -> str:
        """Log that a method raised this, or returned what it may not (InvalidResult); returns what callers are told."""
        if isinstance(error, result_checks.InvalidResult):
            text = f"plugin {self.name}: {rpc}: {method} {error}"
            log.error("%s; correct the plugin", text)
        else:
            text = f"plugin {self.name}: {rpc}: {method} failed: {type(error).__name__}: {error}"
            log.error("%s; correct the plugin", text, exc_info=error)
        return text

    def with_own_name(self, value: status.Status) -> status.Status:
        """The status with this plugin's name."""
        if value.code in (status.Code.SUCCESS, status.Code.SKIP):
            return value
        return dataclasses.replace(value, plugin=self.name)

    def status_message(self, answer: object, expected: str = "None or a status") -> status_pb2.Status:
        """The status message of a method's result that is None or a status.

        Raises:
            result_checks.InvalidResult: it is neither, or SKIP or more_members where `expected` does not name it.
        """
        return wire_status.to_message(self.with_own_name(result_checks.check_status(answer, expected)))
