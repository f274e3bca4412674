"""Spans that a test looks at, in place of those that are exported."""

import contextlib
from collections.abc import Callable, Iterator

from trireme.tracing import spans


class RecordedSpans:
    """A recorder that keeps the spans. `samples` says which traces are sampled."""

    def __init__(self, samples: Callable[[int], bool] = lambda trace_id: True) -> None:
        self.samples = samples
        self.spans: list[spans.Span] = []

    def add(self, span: spans.Span) -> None:
        """Keep it."""
        self.spans.append(span)

    def of_trace(self, trace_id: int) -> list[spans.Span]:
        """The spans of a trace."""
        return [span for span in self.spans if span.context.trace_id == trace_id]

    def named(self, name: str) -> list[spans.Span]:
        """The spans of that name."""
        return [span for span in self.spans if span.name == name]

    def tree(self, trace_id: int) -> list[str]:
        """The names of a trace's spans, each with a blank for each span above it, by their starts."""
        found = self.of_trace(trace_id)

        def below(parent_id: int, depth: int) -> Iterator[str]:
            for span in sorted(found, key=lambda span: span.start):
                if span.parent_id == parent_id:
                    yield " " * depth + span.name
                    yield from below(span.context.span_id, depth + 1)

        return list(below(0, 0))


@contextlib.contextmanager
def recorded(samples: Callable[[int], bool] = lambda trace_id: True) -> Iterator[RecordedSpans]:
    """Tracing is on within the block, and records here."""
    recorder = RecordedSpans(samples)
    spans.recorder = recorder
    try:
        yield recorder
    finally:
        spans.recorder = None
