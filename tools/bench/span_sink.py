"""A collector that takes spans by OTLP over gRPC at an address, and forgets them: what traced sides send theirs to."""

import asyncio
import sys
from typing import Any

from grpc import aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


class _Sink(trace_service_pb2_grpc.TraceServiceServicer):
    async def Export(
        self, request: trace_service_pb2.ExportTraceServiceRequest, context: Any
    ) -> trace_service_pb2.ExportTraceServiceResponse:
        return trace_service_pb2.ExportTraceServiceResponse()


async def serve(address: str) -> None:
    """Take spans until the process is ended."""
    server = aio.server()
    # The generated function has no types, as in tests/helpers/otlp_receiver.py, which keeps what it takes.
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(_Sink(), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(address)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
