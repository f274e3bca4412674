"""A collector in this process: takes spans by OTLP over gRPC, and keeps them."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from grpc import aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1 import trace_pb2


class Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """What exporters have sent: each span with the name of its service."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, trace_pb2.Span]] = []
        self.resources: list[trace_pb2.ResourceSpans] = []
        self.address = ""

    async def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        """Take spans."""
        for resource in request.resource_spans:
            self.resources.append(resource)
            attributes = {entry.key: entry.value.string_value for entry in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.spans += [(attributes["service.name"], span) for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()

    def names(self, trace_id: int) -> set[tuple[str, str]]:
        """The services and names of a trace's spans."""
        wanted = trace_id.to_bytes(16)
        return {(service, span.name) for service, span in self.spans if span.trace_id == wanted}


@contextlib.asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    """A collector that listens within the block."""
    receiver, server = Receiver(), aio.server()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]
    receiver.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield receiver
    finally:
        await server.stop(0)
