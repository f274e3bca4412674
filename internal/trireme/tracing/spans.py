"""Spans of this process, and the recorder that exports them while tracing is on.

`recorder` is None while it is off: places that calls pass look at nothing else, and OpenTelemetry is not imported.

Tests: tests/unit/tracing/test_spans.py.
"""

import asyncio
import contextlib
import enum
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from trireme.tracing import trace_context
from trireme.tracing.trace_context import TraceContext
from trireme_kube.componentbase import clocks

Answer = TypeVar("Answer")


class Kind(enum.Enum):
    """Which end of a call a span is; INTERNAL: of none."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


#: By OpenTelemetry's names where there are some.
Attributes = Mapping[str, str | int]


@dataclass(slots=True)
class Span:
    """A span that has ended. Times are Unix seconds of the steady clock.

    `parent_id` 0: it is the root of its trace. `error` is why it failed; empty: it did not. `events` are names with
    times.
    """

    name: str
    context: TraceContext
    parent_id: int
    start: float
    end: float
    kind: Kind = Kind.INTERNAL
    attributes: Attributes = field(default_factory=dict)
    links: Sequence[TraceContext] = ()
    events: Sequence[tuple[str, float]] = ()
    error: str = ""


class Recorder(Protocol):
    """Decides which traces are sampled, and exports spans.

    Implementers: trireme.tracing.otlp.OtlpRecorder, tests.helpers.recorded_spans.RecordedSpans.
    """

    def samples(self, trace_id: int) -> bool:
        """Whether traces with this id are sampled, whatever happens in them."""
        ...

    def add(self, span: Span) -> None:
        """Export the span, later; returns at once."""
        ...


#: None: tracing is off.
recorder: Recorder | None = None


def new_id() -> int:
    """A random id of a span."""
    return random.getrandbits(64) or 1


class OpenSpan:
    """A child of a caller's span, recorded when it ends if that is sampled; else calls go on as the caller's."""

    def __init__(self, name: str, parent: TraceContext, kind: Kind, attributes: Attributes) -> None:
        self._name = name
        self._parent = parent
        self._kind = kind
        self._attributes = attributes
        self._started = clocks.steady()
        self.context = TraceContext(parent.trace_id, new_id(), True) if parent.sampled else parent

    def end(self, error: str = "") -> None:
        """Record it; `error` is why it failed."""
        if recorder is not None and self._parent.sampled:
            times = self._started, clocks.steady()
            span = Span(self._name, self.context, self._parent.span_id, *times, self._kind, self._attributes)
            span.error = error
            recorder.add(span)


@contextlib.contextmanager
def child(name: str, parent: TraceContext, kind: Kind, attributes: Attributes) -> Iterator[None]:
    """Make the block a child of the caller's span; calls in it are a part of it."""
    span, error = OpenSpan(name, parent, kind, attributes), ""
    try:
        with trace_context.use(span.context):
            yield
    except BaseException as failure:
        error = _text(failure)
        raise
    finally:
        span.end(error)


async def stream(
    name: str, parent: TraceContext, kind: Kind, attributes: Attributes, answers: AsyncIterator[Answer]
) -> AsyncIterator[Answer]:
    """The answers, as they come, as a child of the caller's span."""
    span, error = OpenSpan(name, parent, kind, attributes), ""
    try:
        async for answer in trace_context.use_for_each(span.context, answers):
            yield answer
    except (Exception, asyncio.CancelledError) as failure:
        error = _text(failure)
        raise
    finally:
        span.end(error)


def _text(failure: BaseException) -> str:
    return str(failure) or type(failure).__name__
