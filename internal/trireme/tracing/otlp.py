"""Exports spans by OTLP over gRPC, with OpenTelemetry's SDK, which batches them in a thread.

Spans are made as the SDK's records of ended spans: their ids and times are known already.

Tests: tests/contract/test_otlp_export.py.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from trireme.framework import release
from trireme.tracing import environment, spans
from trireme.tracing.trace_context import TraceContext

# How long the last spans may take when the process ends.
CLOSE_SECONDS = 3.0

_KINDS = {
    spans.Kind.INTERNAL: trace.SpanKind.INTERNAL,
    spans.Kind.SERVER: trace.SpanKind.SERVER,
    spans.Kind.CLIENT: trace.SpanKind.CLIENT,
}
_OK = trace.Status(trace.StatusCode.UNSET)
_SAMPLED, _NOT_SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED), trace.TraceFlags(trace.TraceFlags.DEFAULT)


QUEUE_VARIABLE = "OTEL_BSP_MAX_QUEUE_SIZE"
MAX_QUEUED_SPANS = 16_384
"""Without the variable. The spans of a batch of 1,000 pods, which end within a moment, are some 12,000."""


class _Resource(Resource):
    """A resource whose hash is computed once: the exporter groups spans by resource, and the SDK's is one of JSON."""

    def __init__(self, attributes: Mapping[str, Any], schema_url: str | None = None) -> None:
        super().__init__(attributes, schema_url)
        self._hash = super().__hash__()

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)

    def __hash__(self) -> int:
        return self._hash


class _EndedSpan(ReadableSpan):
    """A span without limits: nothing of it is dropped, and the SDK would look for that in each of its parts."""

    dropped_attributes = dropped_events = dropped_links = 0


class OtlpRecorder:
    """Samples a ratio of the traces by their ids, as TraceIdRatioBased does, and exports spans."""

    def __init__(self, settings: environment.Settings) -> None:
        self._bound = round(settings.ratio * 2**64)
        resource = Resource.create({SERVICE_NAME: settings.service}).merge(OTELResourceDetector().detect())
        self._resource = _Resource(resource.attributes, resource.schema_url)
        self._scope = InstrumentationScope("trireme", release.TRIREME)
        queue = None if QUEUE_VARIABLE in os.environ else MAX_QUEUED_SPANS
        self._processor = BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=queue)

    def samples(self, trace_id: int) -> bool:
        """Whether traces with this id are sampled, whatever happens in them."""
        return trace_id & (2**64 - 1) < self._bound

    def add(self, span: spans.Span) -> None:
        """Export the span, later; if the collector is too slow, it is dropped."""
        context = _context(span.context.trace_id, span.context.span_id)
        self._processor.on_end(
            _EndedSpan(
                span.name,
                context,
                _context(span.context.trace_id, span.parent_id) if span.parent_id else None,
                self._resource,
                span.attributes,
                [Event(name, timestamp=_nanoseconds(at)) for name, at in span.events],
                [trace.Link(_linked(link)) for link in span.links],
                _KINDS[span.kind],
                status=trace.Status(trace.StatusCode.ERROR, span.error) if span.error else _OK,
                start_time=_nanoseconds(span.start),
                end_time=_nanoseconds(span.end),
                instrumentation_scope=self._scope,
            )
        )

    def close(self) -> None:
        """Export what is left, for a limited time."""
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


def _context(trace_id: int, span_id: int) -> trace.SpanContext:
    return trace.SpanContext(trace_id, span_id, False, _SAMPLED)


def _linked(context: TraceContext) -> trace.SpanContext:
    return trace.SpanContext(context.trace_id, context.span_id, True, _SAMPLED if context.sampled else _NOT_SAMPLED)


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1_000_000_000)
