"""TracedPluginConnection: each call of a plugin is a span below the caller's, if there is one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.helpers import recorded_spans
from trireme.remote import remote_connection, traced_connection
from trireme.tracing import spans, trace_context
from trireme.v1 import filter_pb2, snapshot_pb2

FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)
PARENT = trace_context.TraceContext(7, 8, sampled=True)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[trace_context.TraceContext | None]:
    """The span within which each call was made."""
    found: list[trace_context.TraceContext | None] = []

    async def call(*_: object) -> str:
        found.append(trace_context.current.get())
        return "answer"

    async def call_stream(*_: object) -> AsyncIterator[str]:
        found.append(trace_context.current.get())
        yield "answer"

    monkeypatch.setattr(remote_connection.PluginConnection, "call", call)
    monkeypatch.setattr(remote_connection.PluginConnection, "call_stream", call_stream)
    return found


@contextlib.contextmanager
def within(parent: trace_context.TraceContext | None) -> Iterator[None]:
    with trace_context.use(parent) if parent else contextlib.nullcontext():
        yield


@pytest.mark.parametrize("streams", [False, True], ids=["answer", "stream"])
@pytest.mark.parametrize("parent", [None, PARENT], ids=["without", "within"])
async def test_a_call_within_a_span_is_a_span(
    parent: trace_context.TraceContext | None, streams: bool, seen: list[trace_context.TraceContext | None]
) -> None:
    config = snapshot_pb2.RemotePlugin(name="Quota", deadline_ms=1000)
    connection = traced_connection.TracedPluginConnection(config, asyncio.get_running_loop().time)

    def read(response: Any) -> Any:
        return response

    with recorded_spans.recorded() as recorder, within(parent):
        if streams:
            answers: list[Any] = [each async for each in connection.call_stream(FILTER, b"")]
        else:
            answers = [await connection.call(FILTER, b"", read)]
    assert answers == ["answer"]
    if parent is None:
        assert (recorder.spans, seen) == ([], [None])
        return
    (span,) = recorder.spans
    assert (span.name, span.parent_id, span.kind) == ("Quota Filter", 8, spans.Kind.CLIENT)
    assert span.attributes == {"trireme.plugin": "Quota", "rpc.system": "grpc", "rpc.method": "Filter"}
    assert seen == [span.context]
