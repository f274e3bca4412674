"""Traces as stores return them: OTLP JSON by HTTP, of Jaeger (`/api/v3/traces/ID`) or Tempo (`/api/traces/ID`).

Source: opentelemetry/proto/trace/v1/trace.proto. Ids are hexadecimal or base64; they are only compared here.

Tests: tests/unit/cli/test_trace_command.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from trireme.cli import frontend_connection

_FAILED = (2, "STATUS_CODE_ERROR")


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A span of a trace. Times are Unix seconds; `parent_id` empty: it is a root; `error` empty: it did not fail."""

    span_id: str
    parent_id: str
    name: str
    service: str
    start: float
    end: float
    error: str
    links: int
    attributes: Mapping[str, str]


async def fetch(url: str, seconds: float = frontend_connection.DEADLINE_SECONDS) -> Mapping[str, Any]:
    """Get a trace from its store. Raises: ReportUnavailable: there is none, or the store cannot be reached."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=seconds)) as session,
            session.get(url, headers={"Accept": "application/json"}) as response,
        ):
            if response.status == 404:
                raise frontend_connection.ReportUnavailable(
                    f"{url}: the store has no such trace: it was not kept, or has not arrived yet"
                )
            if response.status != 200:
                raise frontend_connection.ReportUnavailable(f"{url}: HTTP status {response.status}")
            answer = await response.json(content_type=None)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        text = str(error) or f"no answer within {seconds:.0f} s"
        raise frontend_connection.ReportUnavailable(f"{url}: {text}") from error
    except ValueError as error:
        raise frontend_connection.ReportUnavailable(f"{url}: the answer is not JSON") from error
    if not isinstance(answer, dict) or not list(_resource_spans(answer)):
        raise frontend_connection.ReportUnavailable(f"{url}: the answer has no resourceSpans, as OTLP JSON has them")
    return answer


def spans_of(answer: Mapping[str, Any]) -> Sequence[StoredSpan]:
    """The spans of a store's answer, by their starts."""
    found = []
    for resource in _resource_spans(answer):
        service = _attributes(resource.get("resource", {})).get("service.name", "")
        for scope in resource.get("scopeSpans", ()):
            found += [_span(service, span) for span in scope.get("spans", ())]
    return sorted(found, key=lambda span: (span.start, -span.end))


def _resource_spans(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What was exported, by resource: as OTLP has it, within Jaeger's `result` or Tempo's `trace` or `batches`."""
    for part in (answer, answer.get("result"), answer.get("trace")):
        if isinstance(part, dict):
            yield from part.get("resourceSpans", ())
            yield from part.get("batches", ())


def _span(service: str, span: Mapping[str, Any]) -> StoredSpan:
    status = span.get("status") or {}
    failed = status.get("code") in _FAILED
    return StoredSpan(
        span_id=span.get("spanId", ""),
        parent_id=span.get("parentSpanId", ""),
        name=span.get("name", ""),
        service=service,
        start=int(span.get("startTimeUnixNano", 0)) / 1e9,
        end=int(span.get("endTimeUnixNano", 0)) / 1e9,
        error=(status.get("message") or "failed") if failed else "",
        links=len(span.get("links", ())),
        attributes=_attributes(span),
    )


def _attributes(holder: Mapping[str, Any]) -> Mapping[str, str]:
    """The attributes with one value, as text."""
    return {entry["key"]: str(next(iter(entry["value"].values()), "")) for entry in holder.get("attributes", ())}
