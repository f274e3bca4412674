"""Spans of calls that are served or made."""

from collections.abc import AsyncIterator

import pytest

from tests.helpers import recorded_spans
from trireme.tracing import spans, trace_context
from trireme.tracing.trace_context import TraceContext

CALLER = TraceContext(1, 2, True)
UNSAMPLED = TraceContext(1, 2, False)


def test_calls_in_the_block_are_a_part_of_its_span() -> None:
    with recorded_spans.recorded() as recorder:
        with spans.child("served", CALLER, spans.Kind.SERVER, {}):
            inside = trace_context.current.get()
        (span,) = recorder.spans
    assert span.context == inside
    assert (span.context.trace_id, span.parent_id, span.kind) == (1, 2, spans.Kind.SERVER)
    assert trace_context.current.get() is None


def test_an_exception_says_why_the_span_failed() -> None:
    with recorded_spans.recorded() as recorder:
        with pytest.raises(ValueError, match="wrong"), spans.child("served", CALLER, spans.Kind.SERVER, {}):
            raise ValueError("wrong")
        assert recorder.spans[0].error == "wrong"


def test_a_trace_that_is_not_sampled_is_passed_on_and_not_recorded() -> None:
    with recorded_spans.recorded() as recorder:
        with spans.child("served", UNSAMPLED, spans.Kind.SERVER, {}):
            assert trace_context.current.get() == UNSAMPLED
        assert not recorder.spans


async def test_the_context_of_a_stream_holds_only_where_answers_are_awaited() -> None:
    inside = []

    async def answers() -> AsyncIterator[int]:
        for number in range(2):
            inside.append(trace_context.current.get())
            yield number

    with recorded_spans.recorded() as recorder:
        async for _ in spans.stream("served", CALLER, spans.Kind.SERVER, {}, answers()):
            assert trace_context.current.get() is None
        (span,) = recorder.spans
    assert inside == [span.context, span.context]


async def test_a_stream_that_its_reader_leaves_is_no_failure() -> None:
    async def answers() -> AsyncIterator[int]:
        while True:
            yield 1

    with recorded_spans.recorded() as recorder:
        stream = spans.stream("served", CALLER, spans.Kind.SERVER, {}, answers())
        assert await anext(stream) == 1
        await stream.aclose()  # type: ignore[attr-defined]  # it is a generator
        assert [span.error for span in recorder.spans] == [""]
