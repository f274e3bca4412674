"""The connection to a plugin while tracing is on: each call is a span, which the plugin's own spans join.

Tests: tests/unit/remote/test_traced_connection.py, tests/contract/test_trace_propagation.py.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from trireme.remote import remote_connection
from trireme.remote.remote_connection import Answer, Method, Response
from trireme.tracing import spans, trace_context
from trireme.tracing.trace_context import TraceContext


class TracedPluginConnection(remote_connection.PluginConnection):
    """A PluginConnection whose calls are spans, waiting for their turn included."""

    async def call(
        self,
        method: Method[Response],
        request: bytes,
        read: Callable[[Response], Answer],
        during: remote_connection.During = contextlib.nullcontext,
    ) -> Answer:
        """As the base class. Raises: NotServed, PluginError."""
        parent = trace_context.current.get()
        if parent is None:
            return await super().call(method, request, read, during)
        with spans.child(*self._span_of(method, parent)):
            return await super().call(method, request, read, during)

    def call_stream(
        self, method: Method[Response], request: bytes, during: remote_connection.During = contextlib.nullcontext
    ) -> AsyncIterator[Response]:
        """As the base class. Raises: PluginError."""
        responses = super().call_stream(method, request, during)
        parent = trace_context.current.get()
        return responses if parent is None else spans.stream(*self._span_of(method, parent), responses)

    def _span_of(
        self, method: Method[Response], parent: TraceContext
    ) -> tuple[str, TraceContext, spans.Kind, spans.Attributes]:
        """What the span of a call is made of."""
        attributes = {"trireme.plugin": self.name, "rpc.system": "grpc", "rpc.method": method.name}
        return f"{self.name} {method.name}", parent, spans.Kind.CLIENT, attributes
