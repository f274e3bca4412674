"""What `trireme trace` shows of a trace, as Jaeger and Tempo return it."""

import argparse
from typing import Any

import pytest
from aiohttp import web

from trireme.cli import display, frontend_connection, trace_command, trace_store

Json = dict[str, Any]
_UNIX = 1_700_000_000_000_000_000


def span(span_id: str, parent: str, name: str, start_us: int, end_us: int, **more: Any) -> Json:
    times = {"startTimeUnixNano": str(_UNIX + start_us * 1000), "endTimeUnixNano": str(_UNIX + end_us * 1000)}
    return {"traceId": "a" * 32, "spanId": span_id, "parentSpanId": parent, "name": name, **times, **more}


def attributes(values: dict[str, str]) -> Json:
    return {"attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]}


def resource(service: str, *found: Json) -> Json:
    return {"resource": attributes({"service.name": service}), "scopeSpans": [{"spans": list(found)}]}


def trace() -> list[Json]:
    """A pod that failed once, and was bound by its second attempt in a batch with others."""
    pod = attributes(
        {"k8s.namespace.name": "shop", "k8s.pod.name": "checkout-7c9f8b6d5-x2x4z", "trireme.attempts": "2"}
    )
    failed = {"status": {"code": 2, "message": "0/3 nodes are available: 3 Insufficient cpu."}}
    plugin = attributes({"trireme.extension_point": "Filter"})
    linked = {"links": [{"traceId": "b" * 32, "spanId": "9" * 16}]}
    return [
        resource(
            "trireme-frontend",
            span("1", "", "Pod", 0, 2_400_000, **pod),
            span("2", "1", "Queue", 100, 900),
            span("3", "1", "Attempt", 900, 14_000, **failed),
            span("4", "3", "Filter", 1_000, 9_000),
            span("5", "4", "Filter NodeResourcesFit", 1_000, 1_450, **plugin),
            span("6", "4", "Filter NodePorts", 1_450, 1_451, **plugin),
            span("7", "1", "Attempt", 2_380_000, 2_400_000),
            span("8", "7", "Place", 2_385_000, 2_390_000, **linked),
        ),
        resource("trireme-filter", span("a", "4", "trireme.v1.FilterPhase/Filter", 2_000, 8_000)),
    ]


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("wide", [False, True])
def test_a_trace_fits_the_terminal(columns: int, wide: bool) -> None:
    shown = display.as_text(trace_command.render({"resourceSpans": trace()}, wide), columns)
    assert max(map(len, shown.splitlines())) <= columns
    assert shown.startswith("shop/checkout-7c9f8b6d5-x2x4z was bound 2.4 s after its creation, by attempt 2\n")
    assert "Attempt: 0/3 nodes are available: 3 Insufficient cpu." in shown
    assert ("SERVI" in shown) == wide


def test_spans_are_below_their_parents_by_their_starts_and_plugins_last() -> None:
    lines = display.as_text(trace_command.render({"resourceSpans": trace()}), 120).splitlines()
    table = lines[lines.index("") + 1 :]
    assert [line.split("  ")[0] if line[0] != " " else line.split()[0] for line in table[1 : table.index("")]] == [
        "Pod",
        "Queue",
        "Attempt",
        "Filter",
        "trireme.v1.FilterPhase/Filter",
        "Filter",
        "Attempt",
        "Place",
    ]
    assert not any("NodePorts" in line for line in lines)  # it took a microsecond


def test_a_span_whose_parent_has_not_come_is_shown_all_the_same() -> None:
    """The root comes with the binding: a pod that waits has none."""
    lost = [resource("trireme-frontend", span("3", "1", "Attempt", 0, 1_000))]
    shown = display.as_text(trace_command.render({"resourceSpans": lost}), 80)
    assert "has not been bound, after 1 attempt" in shown
    assert "1 ms" in shown


@pytest.mark.parametrize(
    "answer", [{"resourceSpans": trace()}, {"batches": trace()}, {"result": {"resourceSpans": trace()}}]
)
def test_answers_of_several_stores_are_read(answer: Json) -> None:
    assert len(trace_store.spans_of(answer)) == 9


def _options(store: str) -> argparse.Namespace:
    return argparse.Namespace(store=store)


def test_what_is_missing_is_said(subtests: pytest.Subtests) -> None:
    for trace_id, store, configured, words in (
        ("", "", "", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ("ab", "", "", "--store, or set tracing.storeUrl"),
    ):
        with subtests.test(words), pytest.raises(frontend_connection.ReportUnavailable, match=words):
            trace_command._url(_options(store), trace_id, configured)
    assert trace_command._url(_options("http://s/{traceID}"), "ab", "http://other") == "http://s/ab"


async def test_a_trace_that_the_store_does_not_have_is_an_error() -> None:
    async def answer(request: web.Request) -> web.Response:
        match request.match_info["kind"]:
            case "missing":
                return web.Response(status=404)
            case "text":
                return web.Response(text="<html>")
            case "other":
                return web.json_response({"data": []})
        return web.json_response({"resourceSpans": trace()})

    site = web.Application()
    site.router.add_get("/{kind}", answer)
    runner = web.AppRunner(site)
    await runner.setup()
    server = web.TCPSite(runner, "127.0.0.1", 0)
    await server.start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        assert len(trace_store.spans_of(await trace_store.fetch(f"{base}/there"))) == 9
        for kind, words in (("missing", "no such trace"), ("text", "not JSON"), ("other", "no resourceSpans")):
            with pytest.raises(frontend_connection.ReportUnavailable, match=words):
                await trace_store.fetch(f"{base}/{kind}")
    finally:
        await runner.cleanup()
    with pytest.raises(frontend_connection.ReportUnavailable, match=r"127\.0\.0\.1"):
        await trace_store.fetch(f"{base}/there")
