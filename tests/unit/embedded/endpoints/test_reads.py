"""Lists: versions, selectors, pages, and the forms that clients ask for."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.helpers.embedded_harness import create, make_registry, pod
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.endpoints.reads import ReadHandler, ResponseForm
from trireme_kube.embedded.endpoints.request_info import RequestInfo, parse_path
from trireme_kube.embedded.registry.registry import Registry

PLAIN = ResponseForm()


@pytest.fixture
def registry() -> Registry:
    made = make_registry()
    for index in range(5):
        create(made, "pods", pod(f"p{index}"))
    return made


def reader(registry: Registry) -> ReadHandler:
    return ReadHandler(registry.store, registry.clock_and_ids.clock, watch_buffer=100)


def listed(
    reader: ReadHandler, form: ResponseForm = PLAIN, target: RequestInfo | None = None, **query: str
) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(reader.list_objects(target or RequestInfo(PODS), query, form))
    return body


def names(body: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def test_a_list_has_the_stores_version_and_bare_items(registry: Registry) -> None:
    """A watch starts from that version; items of a list name no kind, as in the real server's."""
    body = listed(reader(registry))
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert body["metadata"] == {"resourceVersion": str(registry.store.revision)}
    assert names(body) == ["p0", "p1", "p2", "p3", "p4"]
    assert all("kind" not in item and "apiVersion" not in item for item in body["items"])
    assert body["items"][0]["spec"]["containers"][0]["name"] == "c"


def test_an_empty_list_is_a_list(registry: Registry) -> None:
    """Clients iterate over items without looking."""
    assert listed(reader(registry), target=RequestInfo(PODS, "kube-node-lease"))["items"] == []


def test_pages_show_one_version(registry: Registry) -> None:
    """An informer that lists in pages must see the cluster as it was at one moment."""
    read = reader(registry)
    first = listed(read, limit="2")
    assert names(first) == ["p0", "p1"]
    assert first["metadata"]["remainingItemCount"] == 3
    registry.delete(PODS, "default", "p3")
    create(registry, "pods", pod("p25"))
    second = listed(read, limit="2", **{"continue": first["metadata"]["continue"]})
    third = listed(read, limit="2", **{"continue": second["metadata"]["continue"]})
    assert names(second) + names(third) == ["p2", "p3", "p4"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]


def test_a_continue_token_that_has_expired(registry: Registry) -> None:
    """410 with a token to go on from the present: kubectl uses it."""
    token = listed(reader(registry), limit="2")["metadata"]["continue"]
    create(registry, "pods", pod("p9"))
    other = reader(registry)  # one that kept no pages
    with pytest.raises(ApiError) as refusal:
        listed(other, limit="2", **{"continue": token})
    assert refusal.value.code == 410
    rest = listed(other, **{"continue": refusal.value.metadata["continue"]})
    assert names(rest) == ["p2", "p3", "p4", "p9"]


def test_pages_of_different_selectors_do_not_mix(registry: Registry) -> None:
    """Two clients page at the same version with different selectors."""
    read = reader(registry)
    selected = listed(read, limit="1", fieldSelector="metadata.name!=p1")
    everything = listed(read, limit="1")
    assert names(listed(read, **{"continue": everything["metadata"]["continue"]})) == ["p1", "p2", "p3", "p4"]
    rest = listed(read, fieldSelector="metadata.name!=p1", **{"continue": selected["metadata"]["continue"]})
    assert names(rest) == ["p2", "p3", "p4"]


def test_versions_that_a_list_may_ask_for(registry: Registry) -> None:
    """Not older than is any present state; a future version is a timeout that clients retry."""
    read = reader(registry)
    assert len(listed(read, resourceVersion="0")["items"]) == 5
    assert len(listed(read, resourceVersion=str(registry.store.revision))["items"]) == 5
    with pytest.raises(ApiError) as refusal:
        listed(read, resourceVersion="999")
    assert (refusal.value.code, refusal.value.reason) == (504, "Timeout")
    old = str(registry.store.revision)
    assert len(listed(read, resourceVersion=old, resourceVersionMatch="Exact")["items"]) == 5
    create(registry, "pods", pod("p9"))
    with pytest.raises(ApiError) as refusal:
        listed(read, resourceVersion=old, resourceVersionMatch="Exact")
    assert refusal.value.code == 410
    with pytest.raises(ApiError) as refusal:
        listed(read, resourceVersion="x")
    assert refusal.value.code == 400


def test_tables_and_metadata(registry: Registry) -> None:
    """`kubectl get` asks for tables, the garbage collector's clients for metadata alone."""
    table = listed(reader(registry), ResponseForm(table=True))
    assert table["kind"] == "Table"
    assert [row["cells"][0] for row in table["rows"]] == ["p0", "p1", "p2", "p3", "p4"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    partial = listed(reader(registry), ResponseForm(metadata_only=True))
    assert partial["kind"] == "PartialObjectMetadataList"
    assert set(partial["items"][0]) == {"kind", "apiVersion", "metadata"}


def test_events_of_both_groups_are_the_same_objects(registry: Registry) -> None:
    """The scheduler writes events.k8s.io, kubectl describe reads the core group."""
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p0", "namespace": "default"},
        "reason": "Scheduled",
        "message": "yes",
        "reportingComponent": "s",
    }
    create(registry, "events", event)
    shown = BY_KEY["events.events.k8s.io"]
    body = listed(reader(registry), target=RequestInfo(shown), fieldSelector="regarding.name=p0")
    assert body["apiVersion"] == "events.k8s.io/v1"
    assert body["items"][0]["regarding"]["name"] == "p0"
    assert body["items"][0]["note"] == "yes"
    assert body["items"][0]["reportingController"] == "s"
    assert listed(reader(registry), target=RequestInfo(shown), fieldSelector="regarding.name=other")["items"] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", ("pods", "", "", "")),
        ("/api/v1/namespaces", ("namespaces", "", "", "")),
        ("/api/v1/namespaces/d", ("namespaces", "", "d", "")),
        ("/api/v1/namespaces/d/status", ("namespaces", "", "d", "status")),
        ("/api/v1/namespaces/d/pods", ("pods", "d", "", "")),
        ("/api/v1/namespaces/d/pods/p", ("pods", "d", "p", "")),
        ("/api/v1/namespaces/d/pods/p/binding", ("pods", "d", "p", "binding")),
        ("/api/v1/nodes/n/status", ("nodes", "", "n", "status")),
        ("/apis/apps/v1/namespaces/d/deployments/w/scale", ("deployments.apps", "d", "w", "scale")),
        ("/api/v1/namespaces/d/nodes", None),
        ("/api/v1/namespaces/d/pods/p/exec", ("pods", "d", "p", "exec")),
        ("/api/v1/namespaces/d/services/s/proxy/a/b", ("services", "d", "s", "proxy")),
        ("/api/v1/nodes/n/exec", None),
        ("/api/v1/pods/p", None),
        ("/api/v1/namespaces/d/pods/p/nope", None),
        ("/api/v2/pods", None),
        ("/apis/apps/v1", None),
        ("/healthz", None),
        ("/api/v1/namespaces/d/pods/p/status/extra", None),
    ],
)
def test_paths(path: str, expected: tuple[str, str, str, str] | None) -> None:
    """A path read wrongly acts on the wrong object."""
    target = parse_path(path, ResourceCatalog())
    found = target and (target.resource.key, target.namespace, target.name, target.subresource)
    assert found == expected
