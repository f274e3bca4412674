"""A plugin for the end-to-end tests whose filter makes a span of its own, with OpenTelemetry and its own exporter."""

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk import resources
from opentelemetry.sdk import trace as trace_sdk
from opentelemetry.sdk.trace import export

from trireme import sdk


class Tracing:
    """Refuses no node."""

    info = sdk.Info("Tracing", depends_on=sdk.Dependency.NODE)

    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        """Pass, within a span."""
        with self._tracer.start_as_current_span("look at the node"):
            return None


def main() -> int:
    """Serve until SIGTERM. Returns the exit code."""
    provider = trace_sdk.TracerProvider(resource=resources.Resource.create({"service.name": "tracing-plugin"}))
    provider.add_span_processor(export.SimpleSpanProcessor(OTLPSpanExporter()))
    return sdk.main(Tracing(provider.get_tracer("plugin")))


if __name__ == "__main__":
    raise SystemExit(main())
