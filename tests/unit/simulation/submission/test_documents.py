"""Documents of a submission: errors name the document, the kind and the field, as users find them."""

from typing import Any

import pytest

from trireme.simulation.submission import documents

Json = dict[str, Any]

CONTAINER = {"name": "main", "image": "x"}


def pod(**fields: Any) -> Json:
    spec = {"containers": [CONTAINER]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec, **fields}


def deployment(template_labels: Json | None = None, **template_spec: Any) -> Json:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": template_labels or labels},
        "spec": {"containers": [CONTAINER], **template_spec},
    }
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({}, "document 2: apiVersion: must be given, as in every manifest"),
        ({"apiVersion": "v1"}, "document 2: kind: must be given, as in every manifest"),
        (
            {"apiVersion": "apps/v1", "kind": "Deploymnt", "metadata": {"name": "web"}},
            "document 2 (Deploymnt web): kind: there is no Deploymnt in apps/v1; did you mean Deployment (apps/v1)?",
        ),
        (
            {"apiVersion": "v1", "kind": "Deployment", "metadata": {"name": "web"}},
            "document 2 (Deployment web): kind: Deployment is not in v1: its apiVersion is apps/v1",
        ),
        (pod(metadata={}), "document 2 (Pod): metadata.name: Required value"),
        (pod(spec={}), "document 2 (Pod a): spec.containers: Required value"),
        (
            pod(spec={"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "-1"}}}]}),
            "document 2 (Pod a): spec.containers[0].resources.requests[cpu]: Invalid value",
        ),
        (pod(spec={"containers": 1}), "document 2 (Pod a): Pod in version "),
        (
            deployment(tolerationz=[]),
            "document 2 (Deployment web): spec.template.spec.tolerationz: unknown field of Deployment",
        ),
        (
            deployment({"app": "other"}),
            "document 2 (Deployment web): spec.template.metadata.labels: Invalid value",
        ),
        ({"apiVersion": "example.com/v1", "kind": "Thing"}, "document 2 (Thing): metadata: must be given"),
    ],
)
def test_an_error_names_document_kind_and_field(raw: Json, text: str) -> None:
    with pytest.raises(documents.DocumentError) as caught:
        documents.read([pod(), raw], "")
    assert str(caught.value).startswith(text)


def test_all_wrong_documents_are_named_at_once() -> None:
    with pytest.raises(documents.DocumentError) as caught:
        documents.read([{}, pod(), {}], "")
    assert [problem.number for problem in caught.value.problems] == [1, 3]


def test_too_many_documents_are_refused() -> None:
    with pytest.raises(documents.DocumentError, match="at most 1000"):
        documents.read([pod()] * 1001, "")


def test_kinds_without_a_part_in_scheduling_are_taken_as_they_are() -> None:
    """A chart has many: some of APIs that only the cluster knows."""
    given = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
        {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}},
        {"apiVersion": "batch.example.com/v1", "kind": "Job", "metadata": {"name": "j"}},
    ]
    found = documents.read(given, "")
    assert [each.resource is None for each in found] == [False, True, True]


def test_objects_of_a_list_have_its_number() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [pod(), pod(metadata={"name": "b"})]}
    assert [(each.number, each.name) for each in documents.read([pod(), listed], "")] == [(1, "a"), (2, "a"), (2, "b")]


def test_the_namespace_is_the_given_one_unless_the_manifest_has_one() -> None:
    there = pod(metadata={"name": "b", "namespace": "there"})
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"}, "provisioner": "x"}
    assert [each.namespace for each in documents.read([pod(), there, storage], "here")] == ["here", "there", ""]


def test_amounts_may_be_numbers() -> None:
    """`cpu: 2` is what people write."""
    (found,) = documents.read([pod(spec={"containers": [{**CONTAINER, "resources": {"requests": {"cpu": 2}}}]})], "")
    assert found.raw["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_a_generated_name_stays_one() -> None:
    (found,) = documents.read([pod(metadata={"generateName": "run-"})], "")
    assert found.name == "run"
    assert "name" not in found.raw["metadata"]
