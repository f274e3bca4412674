"""Paths and queries as requests of RPCs."""

import pytest

from trireme.insight import request_errors
from trireme.insight.console import views
from trireme.insight.http_api import requests
from trireme.v1 import insight_pb2, snapshot_pb2

PATH = requests.PodPath("explanation")


def test_a_path_names_a_pod() -> None:
    """Namespace and pod would be mixed up."""
    path = "/v1/namespaces/kube-system/pods/coredns-1.a/explanation"
    assert PATH.pod_of(path) == ("kube-system", "coredns-1.a")
    requests.check_names("kube-system", "coredns-1.a")


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("a", "b" * 64),
        ("a", "b" * 253),
        ("a" * 63, "b"),
        ("a", f"{'b' * 100}.{'c' * 100}.1"),
        ("a", "b." * 126 + "b"),
        ("1", "0"),
        ("a--b", "b--c"),
    ],
)
def test_names_that_kubernetes_accepts_are_names(namespace: str, name: str) -> None:
    """A pod whose name has a label of more than 63 characters, as operators make them, would have no page."""
    assert PATH.pod_of(f"/v1/namespaces/{namespace}/pods/{name}/explanation") == (namespace, name)
    requests.check_names(namespace, name)
    assert views.find(f"/v1/namespaces/{namespace}/pods/{name}/timeline") is not None
    assert views.find(f"/v1/nodes/{name}") is not None


@pytest.mark.parametrize(
    "path",
    [
        "/v1/namespaces/a/pods/b",
        "/v1/namespaces/a/pods/b/explanation/",
        "/v1/namespaces/a/pods/b/c/explanation",
        "//v1/namespaces/a/pods/b/explanation",
        "/v1/namespaces/a/../pods/b/explanation",
        "/V1/namespaces/a/pods/b/explanation",
        "/v1/namespaces/a/pods%2fb/explanation",
        "",
    ],
)
def test_another_path_is_no_page(path: str) -> None:
    """Two spellings of a path could be authorised apart."""
    assert PATH.pod_of(path) is None


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        ("..", "b"),
        ("a", ".."),
        ("a", ""),
        ("", "b"),
        ("a.b", "c"),
        ("A", "b"),
        ("a", "%2e%2e"),
        ("a", "b%00"),
        ("a", "b\n"),
        ("a", "b" * 254),
        ("a", "b." * 126 + "bb"),
        ("a", "b..c"),
        ("a", "b-.c"),
        ("a", ".b"),
        ("a" * 64, "b"),
        ("*", "b"),
    ],
)
def test_only_dns_names_are_names(namespace: str, name: str) -> None:
    """`..` in a review would be about another object than the explanation."""
    path = f"/v1/namespaces/{namespace}/pods/{name}/explanation"
    assert PATH.pod_of(path) == (namespace, name)
    with pytest.raises(request_errors.BadRequest, match="as `kubectl get"):
        requests.check_names(namespace, name)
    assert views.find(f"/v1/namespaces/{namespace}/pods/{name}/timeline") is None


def test_a_query_sets_fields_by_their_names_in_json() -> None:
    """A field that an RPC gets is a name of the query without further code."""
    request = insight_pb2.ExplainRequest()
    requests.fill_from_query(request, {"nodes": ["a,b", "c,"], "scores": ["true"]})
    assert (list(request.nodes), request.scores) == (["a", "b", "c"], True)
    delta = snapshot_pb2.QueuedPod()
    requests.fill_from_query(delta, {"podClass": ["7"], "reason": ["why"], "plugins": ["A"]})
    assert (delta.pod_class, delta.reason, list(delta.plugins)) == (7, "why", ["A"])


@pytest.mark.parametrize(
    ("query", "match"),
    [
        ({"score": ["true"]}, "unknown name; known are nodes, .*scores and pretty"),
        ({"pod": ["x"]}, "unknown name"),
        ({"scores": ["yes"]}, "scores: .* no boolean"),
        ({"scores": [""]}, "scores: .* no boolean"),
        ({"scores": ["true", "false"]}, "scores: .* more than once"),
        ({"nodes": ["a\nb"]}, "nodes: .* no printable text"),
        ({"nodes": ["\ud800"]}, "nodes: .* no printable text"),
    ],
)
def test_a_wrong_query_is_named(query: dict[str, list[str]], match: str) -> None:
    """A misspelt name would be ignored, and the answer be to another question."""
    with pytest.raises(request_errors.BadRequest, match=match):
        requests.fill_from_query(insight_pb2.ExplainRequest(), query)


@pytest.mark.parametrize("value", ["x", "-1", "99999999999", "1" * 5000])
def test_a_number_out_of_range_is_refused(value: str) -> None:
    with pytest.raises(request_errors.BadRequest, match=r"podClass: .* no number"):
        requests.fill_from_query(snapshot_pb2.QueuedPod(), {"podClass": [value]})
