"""Serves BindPlugin with a plugin's permit, pre_bind, bind and post_bind.

Also change: sdk/go/binding.go, sdk/java/src/main/java/dev/trireme/sdk/BindHandlers.java,
sdk/java/src/main/java/dev/trireme/sdk/BindItem.java, sdk/rust/src/services/binding.rs,
sdk/typescript/src/services/bind_service.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/bind.proto (the messages).

Tests: tests/contract/test_plugin_sdk_binding.py.
"""

from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from trireme.sdk import state
from trireme.sdk.invoker import Invoker
from trireme.sdk.results import PreBindWait, Wait
from trireme.v1 import bind_pb2, bind_pb2_grpc, status_pb2

METHODS = ("permit", "pre_bind", "bind", "post_bind")

_PERMIT = "None, a status, or a Wait"
# The most seconds that a message of Duration may have: 10,000 years.
_MOST_SECONDS = 315_576_000_000
_PRE_BIND = "None, SKIP, a status, or a PreBindWait"
_SKIPPING = "None, SKIP, or a status"


class BindServicer(bind_pb2_grpc.BindPluginServicer):
    """One plugin's BindPlugin."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def Permit(
        self, request: bind_pb2.PermitRequest, context: aio.ServicerContext[Any, Any]
    ) -> bind_pb2.PermitResponse:
        """Call permit for each pod, in order; a `Wait` becomes a wait with its time-out."""
        await self._invoker.require(context, "permit")
        response = bind_pb2.PermitResponse()
        async with self._invoker.turn(context, "Permit", "permit"):
            call = await self._invoker.call_for(request.cycle, context)
            for item in request.items:
                answer = await self._invoker.call("permit", call, item)
                result = response.results.add()
                if isinstance(answer, Wait):
                    result.status.CopyFrom(self._waiting(answer.message))
                    result.timeout.FromNanoseconds(_nanoseconds(answer.seconds))
                else:
                    result.status.CopyFrom(self._invoker.status_message(answer, _PERMIT))
        return response

    async def PreBindPreFlight(
        self, request: bind_pb2.PreBindPreFlightRequest, context: aio.ServicerContext[Any, Any]
    ) -> bind_pb2.PreBindPreFlightResponse:
        """Call pre_bind_pre_flight for each pod; without one there is work for each: only pre_bind knows better."""
        await self._invoker.require(context, "pre_bind")
        response = bind_pb2.PreBindPreFlightResponse()
        async with self._invoker.turn(context, "PreBindPreFlight", "pre_bind_pre_flight"):
            call = await self._invoker.call_for(request.cycle, context)
            for item in request.items:
                answer = await self._invoker.call("pre_bind_pre_flight", call, item)
                response.statuses.append(self._invoker.status_message(answer, _SKIPPING))
        return response

    async def PreBind(
        self, request: bind_pb2.PreBindRequest, context: aio.ServicerContext[Any, Any]
    ) -> bind_pb2.PreBindResponse:
        """Call pre_bind for each pod."""
        await self._invoker.require(context, "pre_bind")
        response = bind_pb2.PreBindResponse()
        async with self._invoker.turn(context, "PreBind", "pre_bind"):
            call = await self._invoker.call_for(request.cycle, context)
            for item in request.items:
                answer = await self._invoker.call("pre_bind", call, item)
                if isinstance(answer, bind_pb2.PreBindResult):
                    response.results.append(answer)
                elif isinstance(answer, PreBindWait):
                    response.results.append(self._pre_bind_wait(answer))
                else:
                    response.results.add(status=self._invoker.status_message(answer, _PRE_BIND))
        return response

    def _pre_bind_wait(self, wait: PreBindWait) -> bind_pb2.PreBindResult:
        """The message of a wait in PreBind. Raises: TypeError: its state has a value that JSON has not."""
        result = bind_pb2.PreBindResult(
            status=self._waiting(wait.message), wait_for=wait.objects, state=state.encode(wait.state)
        )
        result.timeout.FromNanoseconds(_nanoseconds(wait.seconds))
        return result

    def _waiting(self, message: str) -> status_pb2.Status:
        """The status of a pod that waits; without a message it says nothing."""
        messages = [message] if message else []
        return status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=self._invoker.name, messages=messages)

    async def Bind(
        self, request: bind_pb2.BindRequest, context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[bind_pb2.BindResponse]:
        """Call bind for each pod, and stream each result at once."""
        await self._invoker.require(context, "bind")
        async with self._invoker.turn(context, "Bind", "bind"):
            call = await self._invoker.call_for(request.cycle, context)
            for index, item in enumerate(request.items):
                answer = await self._invoker.call("bind", call, item)
                result = bind_pb2.BindResult(index=index, status=self._invoker.status_message(answer, _SKIPPING))
                yield bind_pb2.BindResponse(results=[result])

    async def PostBind(
        self, request: bind_pb2.PostBindRequest, context: aio.ServicerContext[Any, Any]
    ) -> bind_pb2.PostBindResponse:
        """Call post_bind for each pod."""
        await self._invoker.require(context, "post_bind")
        async with self._invoker.turn(context, "PostBind", "post_bind"):
            call = await self._invoker.call_for(request.cycle, context)
            for item in request.items:
                await self._invoker.call("post_bind", call, item)
        return bind_pb2.PostBindResponse()


def _nanoseconds(seconds: float) -> int:
    """A time above 0 in nanoseconds, from 1 to the most that the message may have."""
    return max(1, round(min(seconds, _MOST_SECONDS) * 1e9))
