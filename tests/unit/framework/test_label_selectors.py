"""Label selectors: what matches, and kube-scheduler's errors for those that cannot be read."""

from typing import Any

import pytest

from trireme.framework import label_selectors
from trireme.v1 import meta_pb2
from trireme_kube.apimachinery import decode

LABELS = {"app": "red", "tier": "", "a.io/b": "x"}

MATCHES = [
    pytest.param({}, True, id="empty-matches-everything"),
    pytest.param({"matchLabels": {"app": "red"}}, True, id="label"),
    pytest.param({"matchLabels": {"app": "red", "zone": "a"}}, False, id="one-label-missing"),
    pytest.param({"matchLabels": {"tier": ""}}, True, id="empty-value"),
    pytest.param({"matchExpressions": [("app", "In", ["blue", "red"])]}, True, id="in"),
    pytest.param({"matchExpressions": [("zone", "In", ["a"])]}, False, id="in-without-key"),
    pytest.param({"matchExpressions": [("app", "NotIn", ["red"])]}, False, id="not-in"),
    pytest.param({"matchExpressions": [("zone", "NotIn", ["a"])]}, True, id="not-in-without-key"),
    pytest.param({"matchExpressions": [("a.io/b", "Exists", [])]}, True, id="exists"),
    pytest.param({"matchExpressions": [("zone", "Exists", [])]}, False, id="exists-not"),
    pytest.param({"matchExpressions": [("zone", "DoesNotExist", [])]}, True, id="does-not-exist"),
    pytest.param({"matchExpressions": [("app", "DoesNotExist", [])]}, False, id="does-not-exist-but-does"),
    pytest.param(
        {"matchLabels": {"app": "red"}, "matchExpressions": [("zone", "Exists", [])]}, False, id="all-must-hold"
    ),
]


def _selector(stated: dict[str, Any]) -> meta_pb2.LabelSelector:
    expressions = [
        {"key": key, "operator": operator, "values": values}
        for key, operator, values in stated.get("matchExpressions", ())
    ]
    return decode.decode({**stated, "matchExpressions": expressions}, meta_pb2.LabelSelector)


@pytest.mark.parametrize(("stated", "expected"), MATCHES)
def test_selectors_match_as_in_the_api(stated: dict[str, Any], expected: bool) -> None:
    """A selector read otherwise counts the wrong pods."""
    assert label_selectors.parse(_selector(stated)).matches(LABELS) is expected


def test_nothing_stays_nothing() -> None:
    """An unset selector that came to match something would spread a pod over all pods there are."""
    assert not label_selectors.NOTHING.matches({})
    assert label_selectors.NOTHING.and_labels({"a": "b"}) == label_selectors.NOTHING
    assert not label_selectors.NOTHING.empty


def test_equal_demands_are_equal_selectors() -> None:
    """Counts are shared by equal selectors: the order in which one is stated must not matter."""
    one = label_selectors.from_labels({"a": "1", "b": "2"})
    other = label_selectors.from_labels({"b": "2"}).and_labels({"a": "1"})
    assert one == other
    assert one.keys == {"a", "b"}
    assert label_selectors.LabelSelector().and_selector(one) == one


BAD = [
    pytest.param(("app", "Near", ["x"]), '"Near" is not a valid label selector operator', id="operator"),
    pytest.param(
        ("app", "In", []),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        id="in-without-values",
    ),
    pytest.param(
        ("app", "Exists", ["x"]),
        'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        id="exists-with-values",
    ),
    pytest.param(("a.io/", "Exists", []), 'key: Invalid value: "a.io/": name part must be non-empty; name', id="name"),
    pytest.param(("/a", "Exists", []), 'key: Invalid value: "/a": prefix part must be non-empty', id="prefix"),
    pytest.param(("a/b/c", "Exists", []), 'key: Invalid value: "a/b/c": a valid label key must', id="slashes"),
    pytest.param(("x" * 64, "Exists", []), f'key: Invalid value: "{"x" * 64}": name part must be no more', id="long"),
    pytest.param(("app", "In", ["ok", "a b"]), 'values[1][app]: Invalid value: "a b": a valid label must', id="value"),
    pytest.param(
        ("app", "In", ["v" * 64]), f'values[0][app]: Invalid value: "{"v" * 64}": must be no more than 63', id="length"
    ),
]


@pytest.mark.parametrize(("expression", "text"), BAD)
def test_invalid_selectors_have_the_message_of_kube_scheduler(
    expression: tuple[str, str, list[str]], text: str
) -> None:
    """The text ends in the pod's condition, where people and tools look for the words they know."""
    with pytest.raises(label_selectors.InvalidSelectorError) as raised:
        label_selectors.parse(_selector({"matchExpressions": [expression]}))
    assert str(raised.value).startswith(text)
