"""Traces by way of a real collector from a real store: one for each pod, with the spans that docs/tracing.md names."""

import asyncio
import collections
import pathlib
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.e2e import clusters, installation, jaeger
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import plugin, profile, remote

pytestmark = pytest.mark.timeout(300)

REPOSITORY = pathlib.Path(__file__).parents[2]
SCRIPT = REPOSITORY / "tests/e2e/tracing_plugin.py"
TRIREME = [sys.executable, "-u", str(REPOSITORY / "cmd/trireme")]

Json = dict[str, Any]

# Each span with its parent, from the pod to the plugin's own span.
PARENTS = {
    ("trireme-frontend", "Queue"): "Pod",
    ("trireme-frontend", "Attempt"): "Pod",
    ("trireme-frontend", "Filter"): "Attempt",
    ("trireme-frontend", "Place"): "Attempt",
    ("trireme-frontend", "Bind"): "Attempt",
    ("trireme-filter", "trireme.v1.FilterPhase/Filter"): "Filter",
    ("trireme-filter", "Tracing Filter"): "trireme.v1.FilterPhase/Filter",
    ("tracing-plugin", "look at the node"): "Tracing Filter",
    ("trireme-score", "trireme.v1.ScorePhase/Place"): "Place",
    ("trireme-bind", "trireme.v1.BindPhase/Bind"): "Bind",
}


# Instead of the name of a parent that the store does not have, or not yet.
_NOT_STORED = "not stored"


@dataclass(frozen=True, slots=True)
class Stored:
    """A span as the store returns it."""

    service: str
    span: Json

    @property
    def name(self) -> str:
        name: str = self.span["name"]
        return name

    @property
    def attributes(self) -> dict[str, str]:
        """Its attributes with text."""
        return {each["key"]: each["value"].get("stringValue", "") for each in self.span.get("attributes", ())}


class Trace:
    """The spans of one trace."""

    def __init__(self, spans: Sequence[Stored]) -> None:
        self.spans = spans
        self._by_id = {each.span["spanId"]: each for each in spans}

    @property
    def parents(self) -> dict[tuple[str, str], str]:
        """The name of each span's parent; empty: it is the root."""
        return {(each.service, each.name): self._parent(each) for each in self.spans}

    def _parent(self, each: Stored) -> str:
        parent = each.span.get("parentSpanId", "")
        if not parent.strip("0A="):
            return ""
        return self._by_id[parent].name if parent in self._by_id else _NOT_STORED

    def named(self, name: str) -> Stored:
        """The only span of that name."""
        (found,) = (each for each in self.spans if each.name == name)
        return found


def _spans(answer: Json) -> Iterator[tuple[str, Stored]]:
    """Spans with the ids of their traces."""
    for resource in answer.get("result", {}).get("resourceSpans", ()):
        attributes = {each["key"]: each["value"].get("stringValue") for each in resource["resource"]["attributes"]}
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                yield span["traceId"], Stored(str(attributes["service.name"]), span)


async def _traces(store: jaeger.Jaeger) -> dict[str, Trace]:
    """All traces of frontends by their ids."""
    # Of all times: the store wants to be told which.
    times = {"query.start_time_min": "2020-01-01T00:00:00Z", "query.start_time_max": "2100-01-01T00:00:00Z"}
    query = {"query.service_name": "trireme-frontend", "query.num_traces": "1000", **times}
    status, answer = await store.get(f"/api/v3/traces?{urllib.parse.urlencode(query)}")
    if status == 404:
        return {}
    assert status == 200, answer
    spans = collections.defaultdict(list)
    for trace_id, span in _spans(answer):
        spans[trace_id].append(span)
    return {trace_id: Trace(found) for trace_id, found in spans.items()}


def _by_pod(traces: dict[str, Trace]) -> dict[str, list[Trace]]:
    """The traces of each pod that has been tried."""
    out: dict[str, list[Trace]] = collections.defaultdict(list)
    for trace in traces.values():
        names = {each.attributes["k8s.pod.name"] for each in trace.spans if each.name == "Attempt"}
        for name in names:
            out[name].append(trace)
    return out


async def _stored(store: jaeger.Jaeger, pods: Sequence[str]) -> dict[str, Trace]:
    """The trace of each pod, once all of them have arrived and are whole; there is one for each."""
    found: dict[str, list[Trace]] = {}

    async def arrived() -> bool:
        nonlocal found
        found = _by_pod(await _traces(store))
        return found.keys() >= set(pods) and all(
            {("trireme-frontend", "Bind"), ("trireme-frontend", "Pod")} <= trace.parents.keys()
            for name in pods
            for trace in found[name]
        )

    await installation.until(arrived, 60, lambda: f"stored: {sorted(found)}")
    assert {name: len(traces) for name, traces in found.items()} == dict.fromkeys(pods, 1)
    return {name: found[name][0] for name in pods}


@pytest.mark.parametrize("cluster", ["embedded"], indirect=True)
async def test_the_store_returns_one_whole_trace_for_each_pod(
    cluster: clusters.OpenCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jaeger.require()
    equal = [f"equal-{number}" for number in range(8)]
    async with jaeger.running(tmp_path) as store:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{store.otlp}")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        async with cluster(nodes=2) as here, plugin(tmp_path, SCRIPT) as address:
            socket = here.folder / "admin.sock"
            own = {"admin": {"socket": str(socket)}, "tracing": {"storeUrl": store.trace_url}}
            await here.start(
                configuration=profile("Tracing", "filter"), own={**remote("Tracing", address, "filter"), **own}
            )
            await here.create_pods([pod("alone", cpu="200m")])
            await here.bound(1)
            await here.create_pods([pod(name, cpu="100m") for name in equal])
            await here.bound(1 + len(equal))
            traces = await _stored(store, ["alone", *equal])

            alone = traces["alone"]

            async def whole() -> bool:
                nonlocal alone
                alone = (await _stored(store, ["alone", *equal]))["alone"]
                return alone.parents.keys() >= PARENTS.keys() and _NOT_STORED not in alone.parents.values()

            await installation.until(whole, 30, lambda: str(PARENTS.keys() - alone.parents.keys()))
            assert {span: alone.parents[span] for span in PARENTS} == PARENTS
            assert [span for span, parent in alone.parents.items() if not parent] == [("trireme-frontend", "Pod")]
            uid = (await here.pod("alone"))["metadata"]["uid"]
            assert alone.named("Pod").attributes["k8s.pod.uid"] == uid

            # The calls of a batch are a part of one of its pods' traces; the others have links to them.
            everything = await _traces(store)
            for name in equal:
                trace = traces[name]
                assert {trace.parents["trireme-frontend", call] for call in ("Filter", "Bind")} == {"Attempt"}
                for link in trace.named("Attempt").span.get("links", ()):
                    linked = everything[link["traceId"]]
                    assert link["spanId"] in {each.span["spanId"] for each in linked.spans}

            done = await asyncio.to_thread(
                subprocess.run,
                [*TRIREME, "trace", "alone", "--socket", str(socket), "-o", "wide"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env={"COLUMNS": "140", "PATH": ""},
            )
            assert done.stdout.startswith("default/alone was bound "), done.stderr
            assert "tracing-plugin" in done.stdout
