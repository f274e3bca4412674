"""`trireme trace NAMESPACE/POD`: where the time went until a pod was bound, from the store of its trace.

Tests: tests/unit/cli/test_trace_command.py.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import console, table, text

from trireme.cli import display, frontend_connection, pod_names, trace_store
from trireme.cli.display import Report
from trireme.cli.trace_store import StoredSpan
from trireme.framework import programs
from trireme.v1 import insight_pb2
from trireme.wire import json_documents
from trireme_kube.componentbase.cli import arguments

_PLACE = "{traceID}"
_TIME_COLUMNS = len("9.99 ms")
_BAR_COLUMNS = 24


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `trireme trace` to the commands."""
    parser = commands.add_parser("trace", help="show the trace of a pod", description=arguments.description_of(__doc__))
    pod = parser.add_argument(
        "pod", type=pod_names.parse, metavar="NAMESPACE/POD", help="the pod; without a namespace, in `default`"
    )
    pod.completer = frontend_connection.pending_pods  # type: ignore[attr-defined]  # argcomplete reads it there
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help=f"where the trace is read as OTLP JSON, with {_PLACE} for its id (default: tracing.storeUrl)",
    )
    frontend_connection.add_arguments(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the trace of a pod. Returns the exit code."""

    async def ask() -> Mapping[str, Any]:
        report = await frontend_connection.fetch_report(options, programs.EXPLAIN_PATH, {"pod": options.pod})
        found = json_documents.parse(report, insight_pb2.ExplainResponse()).scheduler
        return await trace_store.fetch(_url(options, found.trace.id, found.trace.store_url))

    return frontend_connection.print_report_of(options, ask, render)


def _url(options: argparse.Namespace, trace_id: str, configured: str) -> str:
    """Where the trace is read. Raises: ReportUnavailable, with what to configure."""
    if not trace_id:
        text = "the frontend does not trace: set OTEL_EXPORTER_OTLP_ENDPOINT in its environment"
        raise frontend_connection.ReportUnavailable(text)
    if options.store:
        return str(options.store).replace(_PLACE, trace_id)
    if not configured:
        text = f"where trace {trace_id} is stored is not known: name it with --store, or set tracing.storeUrl"
        raise frontend_connection.ReportUnavailable(text)
    return configured


def render(report: Report, wide: bool = False) -> console.RenderableType:
    """Render a trace as a tree with a bar for the time of each span; `wide`: with services and all plugins."""
    spans = trace_store.spans_of(report)
    start, end = min(span.start for span in spans), max(span.end for span in spans)
    out = table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style=display.HEADER)
    out.add_column("SPAN", no_wrap=True, overflow="ellipsis", ratio=1)
    if wide:
        out.add_column("SERVICE", no_wrap=True)
    for header in ("AT", "TOOK"):
        out.add_column(header, justify="right", no_wrap=True, min_width=_TIME_COLUMNS)
    out.add_column("", no_wrap=True, min_width=_BAR_COLUMNS, max_width=_BAR_COLUMNS)
    errors = []
    for depth, span in _tree(spans, wide):
        name = text.Text("  " * depth + span.name, display.BAD if span.error else "")
        if span.links:
            name.append(" ↗", "dim")
        cells: list[text.Text | str] = [name, *([span.service] if wide else [])]
        bar = _bar(span, start, end)
        out.add_row(*cells, _duration(span.start - start), _duration(span.end - span.start), bar)
        if span.error:
            errors.append(f"{span.name}: {span.error}")
    parts: list[console.RenderableType] = [_heading(spans), "", out]
    if any(span.links for span in spans):
        parts += ["", "↗ made for several pods: what is below it is in the trace of another one"]
    return console.Group(
        *parts, *([""] if errors else []), *(text.Text(each, display.BAD) for each in dict.fromkeys(errors))
    )


def _heading(spans: Sequence[StoredSpan]) -> text.Text:
    """Which pod it is, and what became of it."""
    about = next((span for span in spans if "k8s.pod.name" in span.attributes), None)
    known = {} if about is None else about.attributes
    name = f"{known.get('k8s.namespace.name', '?')}/{known.get('k8s.pod.name', '?')}"
    bound = next((span for span in spans if span.name == "Pod"), None)
    attempts = sum(span.name == "Attempt" for span in spans)
    what = f" has not been bound, after {attempts} {'attempt' if attempts == 1 else 'attempts'}"
    if bound is not None:
        number = bound.attributes.get("trireme.attempts", attempts)
        what = f" was bound {_duration(bound.end - bound.start)} after its creation, by attempt {number}"
    return text.Text.assemble((name, display.HEADER), what)


def _tree(spans: Sequence[StoredSpan], wide: bool) -> Iterator[tuple[int, StoredSpan]]:
    """The spans with their depths, each after its parent; one whose parent is missing is a root."""
    known = {span.span_id for span in spans}
    below: dict[str, list[StoredSpan]] = {}
    for span in spans:
        below.setdefault(span.parent_id if span.parent_id in known else "", []).append(span)

    def walk(parent: str, depth: int) -> Iterator[tuple[int, StoredSpan]]:
        for span in below.get(parent, ()):
            if wide or not _is_negligible(span):
                yield depth, span
                yield from walk(span.span_id, depth + 1)

    for children in below.values():
        children.sort(key=_is_of_plugin)  # last those that are only known to have been a part of the call
    return walk("", 0)


def _is_of_plugin(span: StoredSpan) -> bool:
    """Whether it is what a phase reports about a plugin or an extension point."""
    return "trireme.extension_point" in span.attributes


def _is_negligible(span: StoredSpan) -> bool:
    """Whether it is a plugin that took no time to speak of."""
    return _is_of_plugin(span) and span.end - span.start < 0.0001


def _bar(span: StoredSpan, start: float, end: float) -> text.Text:
    """When the span was, on a line for the whole trace."""
    scale = _BAR_COLUMNS / max(end - start, 1e-9)
    first = min(int((span.start - start) * scale), _BAR_COLUMNS - 1)
    length = max(round((span.end - span.start) * scale), 1)
    return text.Text(" " * first + "━" * min(length, _BAR_COLUMNS - first), display.BAD if span.error else display.GOOD)


def _duration(seconds: float) -> str:
    """A duration in three digits."""
    if seconds < 0.0009995:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s" if seconds < 100 else f"{seconds:.0f} s"
