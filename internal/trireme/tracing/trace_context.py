"""W3C trace contexts: which span a call is a part of, from process to process in the metadata `traceparent`.

Source: https://www.w3.org/TR/trace-context/#traceparent-header.

Tests: tests/unit/tracing/test_trace_context.py.
"""

import contextlib
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

Answer = TypeVar("Answer")

#: The key of gRPC metadata.
HEADER = "traceparent"

# Versions after 00 may append fields; ff is not allowed.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A span, as those know it that work for it. Ids are not 0; `sampled`: its trace is exported."""

    trace_id: int  # 128 bits
    span_id: int  # 64 bits
    sampled: bool

    def header(self) -> str:
        """The value of `traceparent`."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.sampled:02x}"


#: The span that calls made now are a part of; None: none.
current: ContextVar[TraceContext | None] = ContextVar("trace_context", default=None)


@contextlib.contextmanager
def use(context: TraceContext) -> Iterator[None]:
    """Have calls within the block be a part of this span."""
    token = current.set(context)
    try:
        yield
    finally:
        current.reset(token)


def _do_nothing() -> None:
    pass


async def use_for_each(
    context: TraceContext, answers: AsyncIterator[Answer], at_end: Callable[[], None] = _do_nothing
) -> AsyncIterator[Answer]:
    """The answers; the context holds while one is awaited, and not between them, where other code runs.

    `at_end` is called when they end, fail, or are left by their reader.
    """
    try:
        while True:
            token = current.set(context)  # as `use`, which would cost as much as the answer
            try:
                answer = await anext(answers)
            except StopAsyncIteration:
                return
            finally:
                current.reset(token)
            yield answer
    finally:
        at_end()


def parse(header: str) -> TraceContext | None:
    """The context of a value of `traceparent`; None if it is invalid, which the standard has ignored."""
    found = _TRACEPARENT.fullmatch(header)
    if found is None:
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    return TraceContext(trace_id, span_id, bool(int(found[3], 16) & 1)) if trace_id and span_id else None


def of_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> TraceContext | None:
    """The caller's context in the metadata of a call; None: it has none."""
    for key, value in metadata or ():
        if key == HEADER and isinstance(value, str):
            return parse(value)
    return None
