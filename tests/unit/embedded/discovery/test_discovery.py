"""Discovery: what clients are told about resources, in both forms."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from trireme_kube.embedded.api.resource_catalog import ResourceCatalog
from trireme_kube.embedded.api.resources import Resource
from trireme_kube.embedded.discovery import discovery

Object = dict[str, Any]
_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_OWN_VERBS = ("get", "patch", "update")


def _document(served: discovery.Discovery, path: str, accept: str = "") -> Object:
    found = served.document(path, accept)
    assert found is not None, path
    kind, body = found
    assert kind == (accept or "application/json")
    return orjson.loads(body)


def _kind(entry: Object) -> tuple[str, str, str]:
    return entry["group"], entry["version"], entry["kind"]


def _aggregated(served: discovery.Discovery) -> Iterator[tuple[str, Object]]:
    """Each resource and subresource of the aggregated documents by group, version and name."""
    for path in ("/api", "/apis"):
        for group in _document(served, path, discovery.AGGREGATED)["items"]:
            name = group["metadata"].get("name", "")
            assert bool(name) == (path == "/apis")
            for version in group["versions"]:
                where = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
                for entry in version["resources"]:
                    common = {"namespaced": entry["scope"] == "Namespaced"}
                    whole = {
                        **common,
                        "singular": entry["singularResource"],
                        "kind": _kind(entry["responseKind"]),
                        "verbs": tuple(entry["verbs"]),
                        "short": entry.get("shortNames"),
                        "categories": entry.get("categories"),
                    }
                    yield f"{where}/{entry['resource']}", whole
                    for each in entry.get("subresources", ()):
                        part = {**common, "kind": _kind(each["responseKind"]), "verbs": tuple(each["verbs"])}
                        part.update(singular="", short=None, categories=None)
                        yield f"{where}/{entry['resource']}/{each['subresource']}", part


def _plain(served: discovery.Discovery, paths: set[str]) -> Iterator[tuple[str, Object]]:
    """The same of the plain documents of these groups and versions."""
    for path in paths:
        document = _document(served, path)
        group, _, version = document["groupVersion"].rpartition("/")
        for entry in document["resources"]:
            yield (
                f"{path}/{entry['name']}",
                {
                    "namespaced": entry["namespaced"],
                    "singular": entry["singularName"],
                    "kind": (entry.get("group", group), entry.get("version", version), entry["kind"]),
                    "verbs": tuple(entry["verbs"]),
                    "short": entry.get("shortNames"),
                    "categories": entry.get("categories"),
                },
            )


def test_both_forms_have_the_same_resources() -> None:
    served = discovery.Discovery(ResourceCatalog())
    aggregated = dict(_aggregated(served))
    plain = dict(_plain(served, {"/".join(name.split("/")[: 3 if name[4] == "/" else 4]) for name in aggregated}))
    assert len(plain) > 50
    assert plain == aggregated


@pytest.mark.parametrize(
    ("name", "kind", "verbs"),
    [
        ("/api/v1/pods", ("", "v1", "Pod"), _ALL_VERBS),
        ("/api/v1/pods/status", ("", "v1", "Pod"), _OWN_VERBS),
        ("/api/v1/pods/binding", ("", "v1", "Binding"), ("create",)),
        ("/api/v1/pods/eviction", ("policy", "v1", "Eviction"), ("create",)),
        ("/api/v1/pods/log", ("", "v1", "Pod"), ("get",)),
        ("/api/v1/namespaces/finalize", ("", "v1", "Namespace"), ("update",)),
        ("/apis/apps/v1/deployments/scale", ("autoscaling", "v1", "Scale"), _OWN_VERBS),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            ("authentication.k8s.io", "v1", "TokenReview"),
            ("create",),
        ),
    ],
)
def test_clients_learn_kind_and_verbs(name: str, kind: tuple[str, str, str], verbs: tuple[str, ...]) -> None:
    found = dict(_aggregated(discovery.Discovery(ResourceCatalog())))[name]
    assert (found["kind"], found["verbs"]) == (kind, verbs)


@pytest.mark.parametrize(
    ("plural", "namespaced"), [("localsubjectaccessreviews", True), ("subjectaccessreviews", False)]
)
def test_clients_learn_which_reviews_are_of_a_namespace(plural: str, namespaced: bool) -> None:
    found = dict(_aggregated(discovery.Discovery(ResourceCatalog())))
    assert found[f"/apis/authorization.k8s.io/v1/{plural}"]["namespaced"] is namespaced


def test_clients_learn_short_names_and_categories() -> None:
    found = dict(_aggregated(discovery.Discovery(ResourceCatalog())))["/api/v1/pods"]
    assert (found["short"], found["categories"]) == (["po"], ["all"])


def test_a_new_definition_is_seen_at_once() -> None:
    """Clients cache an OpenAPI document by the hash in its address."""
    catalog = ResourceCatalog()
    served = discovery.Discovery(catalog)
    paths = _document(served, "/openapi/v3")["paths"]
    assert not served.serves_version("/apis/example.com/v1/things")
    catalog.replace("things.example.com", (Resource("example.com", "v1", "things", "Thing"),))
    again = _document(served, "/openapi/v3")["paths"]
    assert again.keys() - paths.keys() == {"apis/example.com/v1"}
    assert again["api/v1"] != paths["api/v1"]
    assert served.serves_version("/apis/example.com/v1/things")
    assert served.serves_version("/api/v1/pods")
    assert "/apis/example.com/v1" in _document(served, "/")["paths"]
