"""CustomResourceDefinitions and the objects of the kinds that they define."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.helpers.embedded_harness import Cluster, Object
from trireme_kube.apimachinery.api_writes import STRATEGIC_MERGE
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import Resource, stored_as
from trireme_kube.embedded.discovery import openapi_protobuf
from trireme_kube.embedded.discovery.discovery import Discovery
from trireme_kube.embedded.endpoints.reads import ReadHandler, ResponseForm
from trireme_kube.embedded.endpoints.request_info import RequestInfo
from trireme_kube.embedded.endpoints.writes import APPLY_PATCH, WriteHandler, patch_types
from trireme_kube.embedded.printers.tables import table

NAME = "crontabs.stable.example.com"
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


def version(name: str, **more: Any) -> Object:
    properties = {
        "spec": {"type": "object", "description": "What is wanted.", "properties": {"size": {"type": "integer"}}}
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **more}


def definition(*versions: Object, **spec: Any) -> Object:
    names = {"plural": "crontabs", "kind": "CronTab", "shortNames": ["ct"]}
    chosen = list(versions) or [version("v1", storage=True, subresources={"status": {}, "scale": SCALE})]
    body = {"group": "stable.example.com", "scope": "Namespaced", "names": names, "versions": chosen, **spec}
    return {"metadata": {"name": NAME}, "spec": body}


SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.chosen"}


class Served(Cluster):
    """A cluster that serves CronTabs, written as requests write."""

    def __init__(self, body: Object | None = None) -> None:
        super().__init__(0)
        self.create(DEFINITIONS, body or definition())
        self.run(1)
        self.reader = ReadHandler(self.store, self.time.clock, watch_buffer=10)
        self.writer = WriteHandler(self.registry, self.reader)

    def resource(self, served: str = "v1") -> Resource:
        found = self.registry.catalog.find("stable.example.com", served, "crontabs")
        assert found is not None
        return found

    def target(self, name: str = "", subresource: str = "", served: str = "v1") -> Any:
        return RequestInfo(self.resource(served), "default", name, subresource)

    def post(self, name: str, served: str = "v1", **body: Any) -> Object:
        sent = {"apiVersion": f"stable.example.com/{served}", "kind": "CronTab", "metadata": {"name": name}, **body}
        return orjson.loads(self.writer.post(self.target(served=served), {}, sent, ResponseForm()).body)

    def read(self, name: str, served: str = "v1") -> Object:
        return orjson.loads(self.reader.get(self.target(name, served=served), ResponseForm()))


def test_a_definition_is_established_and_discovered() -> None:
    """`kubectl wait --for=condition=Established` is what installers do next."""
    cluster = Served()
    status = cluster.get(DEFINITIONS, NAME)["status"]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"]["listKind"] == "CronTabList"
    found = Discovery(cluster.registry.catalog).document("/apis/stable.example.com/v1", "")
    assert found is not None
    by_name = {one["name"]: one for one in orjson.loads(found[1])["resources"]}
    assert set(by_name) == {"crontabs", "crontabs/status", "crontabs/scale"}
    assert by_name["crontabs"]["shortNames"] == ["ct"]


def test_objects_without_a_schema_are_stored_unchanged() -> None:
    """Without a schema: what the definition does not name stays, and what it types is not looked at."""
    cluster = Served()
    cluster.post("a", spec={"size": "many", "more": [None, {"deep": True}]}, status={"dropped": True})
    stored = cluster.read("a")
    assert stored["spec"] == {"size": "many", "more": [None, {"deep": True}]}
    assert "status" not in stored
    assert stored["metadata"]["generation"] == 1


def test_status_and_generation() -> None:
    """A controller that writes the status must not wake itself by a new generation."""
    cluster = Served()
    stored = cluster.post("a", spec={"size": 1})
    cluster.writer.put(
        cluster.target("a", "status"), {}, {**stored, "spec": {"size": 9}, "status": {"ready": 1}}, ResponseForm()
    )
    after = cluster.read("a")
    assert (after["spec"], after["status"], after["metadata"]["generation"]) == ({"size": 1}, {"ready": 1}, 1)
    cluster.writer.put(cluster.target("a"), {}, {**after, "spec": {"size": 2}, "status": {"ready": 2}}, ResponseForm())
    after = cluster.read("a")
    assert (after["spec"], after["status"], after["metadata"]["generation"]) == ({"size": 2}, {"ready": 1}, 2)


def test_scale() -> None:
    """Where the definition says that the numbers are."""
    cluster = Served()
    stored = cluster.post("a", spec={"size": 1})
    cluster.writer.put(
        cluster.target("a", "status"), {}, {**stored, "status": {"size": 1, "chosen": "app=a"}}, ResponseForm()
    )
    scale = orjson.loads(
        cluster.writer.put(cluster.target("a", "scale"), {}, {"spec": {"replicas": 4}}, ResponseForm()).body
    )
    assert scale["spec"] == {"replicas": 4}
    assert scale["status"] == {"replicas": 1, "selector": "app=a"}
    assert cluster.read("a")["spec"] == {"size": 4}


def test_metadata_is_checked_all_the_same() -> None:
    """It is the same for every kind."""
    cluster = Served()
    with pytest.raises(ApiError, match="cannot unmarshal number"):
        cluster.post("a", metadata={"name": "a", "labels": {"x": 1}})
    with pytest.raises(ApiError, match="a lowercase RFC 1123 subdomain"):
        cluster.post("Not_A_Name")
    cluster.post("a")
    with pytest.raises(ApiError, match="must be specified for an update"):
        cluster.writer.put(cluster.target("a"), {}, {"metadata": {"name": "a"}}, ResponseForm())


def test_versions_differ_in_name_alone() -> None:
    """One stored form, shown as the version that is asked for; the preferred one comes first."""
    cluster = Served(definition(version("v1beta1"), version("v1", storage=True), version("v1alpha1", served=False)))
    cluster.post("a", "v1beta1", spec={"size": 1})
    assert cluster.read("a", "v1")["apiVersion"] == "stable.example.com/v1"
    assert cluster.read("a", "v1beta1")["apiVersion"] == "stable.example.com/v1beta1"
    listed = orjson.loads(cluster.reader.list_objects(cluster.target(served="v1beta1"), {}, ResponseForm()))
    assert (listed["kind"], listed["apiVersion"]) == ("CronTabList", "stable.example.com/v1beta1")
    assert [one["metadata"]["name"] for one in listed["items"]] == ["a"]
    group = orjson.loads((Discovery(cluster.registry.catalog).document("/apis/stable.example.com", "") or ("", b""))[1])
    assert [one["version"] for one in group["versions"]] == ["v1", "v1beta1"]


def test_a_new_version_is_served_and_one_that_is_dropped_is_not() -> None:
    """Upgrades of an operator do this, with objects in place."""
    cluster = Served()
    cluster.post("a", spec={"size": 1})
    versions = [version("v1", served=False), version("v2", storage=True)]
    cluster.edit(DEFINITIONS, NAME, {"spec": {"versions": versions}})
    cluster.run(1)
    assert cluster.registry.catalog.find("stable.example.com", "v1", "crontabs") is None
    assert cluster.read("a", "v2")["spec"] == {"size": 1}
    assert cluster.get(DEFINITIONS, NAME)["status"]["storedVersions"] == ["v1", "v2"]


def test_deleting_a_definition_deletes_its_objects() -> None:
    """As the finalizer of the API server has it; an object with a finalizer of its own is waited for."""
    cluster = Served()
    cluster.post("a")
    cluster.post("b", metadata={"name": "b", "finalizers": ["example.com/wait"]})
    ended: list[Resource] = []
    cluster.registry.catalog.listen(ended.append)
    storage = cluster.resource().storage
    assert storage is not None
    cluster.delete(DEFINITIONS, NAME)
    cluster.run(1)
    assert [one.name for one in cluster.store.scan(storage)] == ["b"]
    cluster.registry.edit_object(
        storage, "default", "b", lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}}
    )
    cluster.run(1)
    assert cluster.objects(DEFINITIONS) == []
    assert [one.key for one in ended] == [NAME]
    assert cluster.registry.catalog.find("stable.example.com", "v1", "crontabs") is None


def test_owners_and_namespaces_hold_for_custom_objects() -> None:
    """Garbage collection and the end of a namespace do not know kinds."""
    cluster = Served()
    owner = cluster.post("owner")
    reference = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    cluster.create("configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
    cluster.create("namespaces", {"metadata": {"name": "brief"}})
    cluster.registry.create(stored_as(cluster.resource()), "brief", {"metadata": {"name": "c"}})
    cluster.writer.delete(cluster.target("owner"), {}, {}, ResponseForm())
    cluster.delete("namespaces", "brief")
    cluster.run(2)
    assert cluster.objects("configmaps") == []
    assert [
        one["metadata"]["name"] for one in cluster.objects("namespaces") if one["metadata"]["name"] == "brief"
    ] == []


def test_columns_are_the_definitions() -> None:
    """`kubectl get` shows what the author chose."""
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "None", "type": "string", "jsonPath": ".status.missing"},
    ]
    cluster = Served(definition(version("v1", storage=True, additionalPrinterColumns=columns)))
    cluster.post("a", spec={"size": 3, "list": [{"name": "x"}]})
    resource = cluster.resource()
    records = cluster.store.scan(stored_as(resource))
    made = table(resource, records, cluster.time.clock() + 90, "None", {})
    assert [one["name"] for one in made["columnDefinitions"]] == ["Name", "Size", "First", "Age", "None"]
    assert made["rows"][0]["cells"] == ["a", 3, "x", "90s", None]


def test_strategic_patches_are_refused() -> None:
    """They need to know the type; clients fall back to another kind when they hear so."""
    cluster = Served()
    assert STRATEGIC_MERGE not in patch_types(cluster.resource())
    assert APPLY_PATCH in patch_types(cluster.resource())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"metadata": {"name": "other.stable.example.com"}}, "metadata.name"),
        ({"spec": {"scope": "Galaxy"}}, "spec.scope"),
        ({"spec": {"versions": [version("v1")]}}, "spec.versions"),
        ({"spec": {"versions": [{"name": "v1", "served": True, "storage": True}]}}, "openAPIV3Schema"),
        ({"spec": {"names": {"plural": "crontabs"}}}, "spec.names.kind"),
    ],
    ids=["name", "scope", "no storage version", "no schema", "no kind"],
)
def test_definitions_that_are_refused(change: Object, field: str) -> None:
    """By the field that is wrong."""
    body = definition()
    for part, below in change.items():
        body[part] = {**body[part], **below}
    with pytest.raises(ApiError) as caught:
        Cluster(0).create(DEFINITIONS, body)
    assert field in str(caught.value)


def test_conversion_by_webhook_is_refused_with_a_reason() -> None:
    """Serving one version in the words of another would be worse."""
    hook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    with pytest.raises(ApiError) as caught:
        Cluster(0).create(DEFINITIONS, definition(conversion=hook))
    assert caught.value.code == 501


def test_names_that_are_taken() -> None:
    """The second definition of a kind waits, as in a real cluster."""
    cluster = Served()
    second = definition(names={"plural": "others", "kind": "CronTab"})
    second["metadata"]["name"] = "others.stable.example.com"
    cluster.create(DEFINITIONS, second)
    cluster.run(1)
    conditions = cluster.get(DEFINITIONS, "others.stable.example.com")["status"]["conditions"]
    assert {one["type"]: one["status"] for one in conditions} == {"NamesAccepted": "False", "Established": "False"}
    assert cluster.registry.catalog.find("stable.example.com", "v1", "others") is None


def test_openapi_describes_built_in_and_custom_kinds() -> None:
    """`kubectl explain` reads version 3; Helm and older kubectl version 2 in protobuf."""
    discovery = Discovery(Served().registry.catalog)

    def fetch(path: str, accept: str = "") -> bytes:
        found = discovery.document(path, accept)
        assert found is not None
        return found[1]

    pods = orjson.loads(fetch("/openapi/v3/api/v1"))["components"]["schemas"]
    assert "node" in pods["io.k8s.api.core.v1.PodSpec"]["properties"]["nodeName"]["description"]
    assert {name.rpartition(".")[2] for name in pods} >= {"Pod", "PodSpec", "ObjectMeta", "Quantity"}
    custom = orjson.loads(fetch("/openapi/v3/apis/stable.example.com/v1"))
    (schema,) = [one for name, one in custom["components"]["schemas"].items() if name.endswith("CronTab")]
    assert schema["properties"]["spec"]["description"] == "What is wanted."
    paths = orjson.loads(fetch("/openapi/v3"))["paths"]
    assert {"api/v1", "apis/batch/v1", "apis/stable.example.com/v1"} <= set(paths)
    older = orjson.loads(fetch("/openapi/v2"))["definitions"]
    node_name = older["io.k8s.api.core.v1.PodSpec"]["properties"]["affinity"]
    assert node_name["$ref"] == "#/definitions/io.k8s.api.core.v1.Affinity"
    encoded = fetch("/openapi/v2", openapi_protobuf.MEDIA_TYPE)
    assert encoded[:5] == b"\n\x032.0"
    assert b"com.example.stable.v1.CronTab" in encoded


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (openapi_protobuf.MEDIA_TYPE, True),
        ("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", True),
        ("application/json, " + openapi_protobuf.MEDIA_TYPE, False),
        ("*/*", False),
        ("", False),
    ],
)
def test_which_encoding_a_client_gets(accept: str, expected: bool) -> None:
    """The first of those that it names."""
    assert openapi_protobuf.is_accepted(accept) is expected
