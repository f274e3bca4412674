"""Spans as a collector gets them, over real gRPC."""

import asyncio
import subprocess
import sys

import pytest
from opentelemetry.proto.trace.v1 import trace_pb2

from tests.helpers import otlp_receiver
from trireme.tracing import exporting, otlp, spans
from trireme.tracing.trace_context import TraceContext


def _span() -> spans.Span:
    span = spans.Span("Filter", TraceContext(0xA, 0xB, True), 0xC, 1000.5, 1001.0, spans.Kind.CLIENT)
    span.attributes = {"k8s.pod.name": "p", "trireme.attempt": 2}
    span.links, span.events, span.error = [TraceContext(0xD, 0xE, True)], [("assumed", 1000.75)], "no"
    return span


async def test_a_collector_gets_all_that_a_span_has(monkeypatch: pytest.MonkeyPatch) -> None:
    async with otlp_receiver.receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{receiver.address}")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=c")
        exporter = exporting.exporting("trireme-filter")
        exporter.__enter__()
        assert spans.recorder is not None
        spans.recorder.add(_span())
        await asyncio.to_thread(exporter.__exit__, None, None, None)
        assert spans.recorder is None
    ((service, span),) = receiver.spans
    assert service == "trireme-filter"
    assert {entry.key for entry in receiver.resources[0].resource.attributes} >= {"service.name", "k8s.cluster.name"}
    assert (int.from_bytes(span.trace_id), int.from_bytes(span.span_id), int.from_bytes(span.parent_span_id)) == (
        0xA,
        0xB,
        0xC,
    )
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_000_500_000_000, 1_001_000_000_000)
    assert span.kind == trace_pb2.Span.SPAN_KIND_CLIENT
    assert {entry.key for entry in span.attributes} == {"k8s.pod.name", "trireme.attempt"}
    assert [int.from_bytes(link.trace_id) for link in span.links] == [0xD]
    assert [(event.name, event.time_unix_nano) for event in span.events] == [("assumed", 1_000_750_000_000)]
    assert (span.status.code, span.status.message) == (trace_pb2.Status.STATUS_CODE_ERROR, "no")


@pytest.mark.parametrize(("variable", "expected"), [("", 4_000), ("600", 600)], ids=["by-default", "by-the-variable"])
async def test_the_spans_of_a_large_batch_wait_for_their_export(
    monkeypatch: pytest.MonkeyPatch, variable: str, expected: int
) -> None:
    """They come within a moment; those that are dropped would leave holes in traces."""
    async with otlp_receiver.receiving() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{receiver.address}")
        if variable:
            monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", variable)
        monkeypatch.setattr(otlp, "CLOSE_SECONDS", 60.0)
        exporter = exporting.exporting("trireme-frontend")
        exporter.__enter__()
        recorder = spans.recorder
        assert recorder is not None
        before = sys.getswitchinterval()
        sys.setswitchinterval(100.0)  # the exporter's thread has no turn meanwhile
        try:
            for _ in range(4_000):
                recorder.add(_span())
        finally:
            sys.setswitchinterval(before)
        await asyncio.to_thread(exporter.__exit__, None, None, None)
    assert len(receiver.spans) == pytest.approx(expected, abs=512 if variable else 0)


def test_a_ratio_of_the_traces_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the low half of the id, as other services that see the id decide."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.25")
    with exporting.exporting("s"):
        assert spans.recorder is not None
        assert [spans.recorder.samples((7 << 64) + low) for low in (0, 2**62 - 1, 2**62, 2**64 - 1)] == [
            True,
            True,
            False,
            False,
        ]


def test_opentelemetry_is_not_imported_while_tracing_is_off() -> None:
    """It takes time and memory in each process."""
    program = (
        "import sys\n"
        "from trireme.filter import process\nfrom trireme.bind import process\nfrom trireme.score import process\n"
        "from trireme.frontend import running\nfrom trireme import sdk\nfrom trireme.tracing import exporting\n"
        "with exporting.exporting('s'):\n"
        "    print(sorted(name for name in sys.modules if name.startswith('opentelemetry')))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env={"PATH": "/bin"}
    )
    assert ended.stdout == "[]\n"
