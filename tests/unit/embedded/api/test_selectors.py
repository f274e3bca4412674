"""Label and field selectors as query parameters and in objects."""

from __future__ import annotations

from typing import Any

import pytest

from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS
from trireme_kube.embedded.api.selectors import compile_label_selector, parse_fields, parse_labels, predicate

LABELS = {"app": "web", "tier": "front", "n": "5", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=api", False),
        ("app!=api", True),
        ("missing!=x", True),
        ("app!=web", False),
        ("app in (web, api)", True),
        ("app in (api)", False),
        ("app notin (api,db)", True),
        ("missing notin (a)", True),
        ("app notin (web)", False),
        ("app", True),
        ("missing", False),
        ("!missing", True),
        ("!app", False),
        ("empty=", True),
        ("app=web,tier=front", True),
        ("app=web,tier=back", False),
        ("app in (web),!missing,tier", True),
        ("n>4", True),
        ("n>5", False),
        ("n<6", True),
        ("app>1", False),
    ],
)
def test_label_selectors_of_requests(text: str, matches: bool) -> None:
    """`kubectl -l` and every controller's list send these; a wrong match shows or acts on the wrong objects."""
    assert parse_labels(text)(LABELS) is matches


@pytest.mark.parametrize("text", ["a===b", "=x", "a in b", "a in (b", "a b"])
def test_malformed_label_selectors_are_refused(text: str) -> None:
    """Taking nonsense for "everything" would be worst with deletecollection."""
    with pytest.raises(ApiError) as refusal:
        parse_labels(text)
    assert refusal.value.code == 400


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}, {"key": "n", "operator": "Exists"}]}, True),
    ],
)
def test_selectors_within_objects(selector: dict[str, Any], matches: bool) -> None:
    """Workloads and disruption budgets find their pods with these."""
    assert compile_label_selector(selector)(LABELS) is matches


POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {"nodeName": "n1", "schedulerName": "s"},
    "status": {"phase": "Pending", "podIPs": [{"ip": "1.2.3.4"}]},
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=p", True),
        ("metadata.namespace=d,spec.nodeName=n1", True),
        ("spec.nodeName=", False),
        ("spec.nodeName!=n2", True),
        ("status.phase!=Pending", False),
        ("status.phase!=Failed,status.phase!=Succeeded", True),
        ("spec.schedulerName==s", True),
        ("spec.hostNetwork=false", True),
        ("status.nominatedNodeName=", True),
        ("status.podIPs=1.2.3.4", True),
    ],
)
def test_field_selectors_of_pods(text: str, matches: bool) -> None:
    """The scheduler watches pods by spec.nodeName and phase; kubectl describe node lists them so."""
    assert parse_fields(PODS, text)(POD) is matches


def test_a_node_without_the_flag_is_schedulable() -> None:
    """`--field-selector spec.unschedulable=false` has to find nodes that never were cordoned."""
    node = {"metadata": {"name": "n"}, "spec": {}}
    assert parse_fields(NODES, "spec.unschedulable=false")(node)
    assert parse_fields(NODES, "spec.unschedulable=true")({**node, "spec": {"unschedulable": True}})


def test_unknown_fields_are_refused() -> None:
    """The real server refuses them too: a client must not take "not supported" for "none found"."""
    with pytest.raises(ApiError, match=r"field label not supported: spec\.foo"):
        parse_fields(PODS, "spec.foo=1")


def test_events_by_what_they_are_about() -> None:
    """`kubectl describe` lists an object's events so."""
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "p", "uid": "u"}, "source": {"component": "s"}}
    assert parse_fields(BY_KEY["events"], "involvedObject.name=p,involvedObject.uid=u,source=s")(event)
    assert not parse_fields(BY_KEY["events"], "involvedObject.name=q")(event)


def test_no_selector_is_no_predicate() -> None:
    """Lists of thousands skip the filter altogether then."""
    assert predicate(PODS, "", "") is None
    both = predicate(PODS, "app=x", "spec.nodeName=n1")
    assert both is not None
    assert both({**POD, "metadata": {"labels": {"app": "x"}}})
    assert not both(POD)
