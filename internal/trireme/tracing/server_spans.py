"""The spans of served calls, as children of the caller's.

Tests: tests/contract/test_trace_propagation.py.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from grpc import aio

from trireme.tracing import spans, trace_context
from trireme.tracing.trace_context import TraceContext


class TracingInterceptor(aio.ServerInterceptor):
    """Wraps the handlers of calls with one request: streams of requests are those of deltas, and last for hours."""

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """The handler, in the caller's trace if the caller has one.

        The handler runs in the task of this call: where nothing is recorded, that knows the caller's span is enough.
        """
        handler = await continuation(handler_call_details)
        parent = trace_context.of_metadata(handler_call_details.invocation_metadata)
        if handler is None or parent is None or handler.request_streaming:
            return handler
        if not parent.sampled:
            trace_context.current.set(parent)
            return handler
        return traced_handler(handler, handler_call_details.method, parent)


def traced_handler(handler: Any, method: str, parent: TraceContext) -> Any:
    """The handler of a method, within a child of the caller's span.

    It is the handler itself if the trace is not sampled, or the call is a stream that may last.
    """
    if not parent.sampled or handler.request_streaming:
        return handler
    span = method.lstrip("/"), parent, spans.Kind.SERVER, {"rpc.system": "grpc"}
    behavior: Any = handler.unary_stream or handler.unary_unary
    if handler.response_streaming and not inspect.isasyncgenfunction(behavior):
        return handler  # health's Watch, which lasts as long as its caller likes

    async def answer_once(request: Any, context: aio.ServicerContext[Any, Any]) -> Any:
        with spans.child(*span):
            return await behavior(request, context)

    async def answer_many(request: Any, context: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        async for answer in spans.stream(*span, behavior(request, context)):
            yield answer

    make: Any = grpc.unary_unary_rpc_method_handler
    if handler.response_streaming:
        make = grpc.unary_stream_rpc_method_handler
    return make(
        answer_many if handler.response_streaming else answer_once,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
