"""JSON patch, merge patch and strategic merge patch on plain documents."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.endpoints.patches import apply_json_patch, apply_merge_patch, apply_strategic_patch

CONTAINERS = [{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}]
CONDITIONS = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False", "reason": "No"}]


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1, "b": 2}, {"b": None}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
    ],
)
def test_merge_patch(document: Any, patch: Any, result: Any) -> None:
    """RFC 7386, by its own examples in Kubernetes' shapes: labels and annotations are changed with it."""
    assert apply_merge_patch(document, patch) == result


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        pytest.param(
            {"containers": CONTAINERS},
            {"containers": [{"name": "b", "image": "2"}]},
            {"containers": [CONTAINERS[0], {"name": "b", "image": "2"}]},
            id="list merged by name",
        ),
        pytest.param(
            {"containers": CONTAINERS},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]},
            {
                "containers": [
                    {**CONTAINERS[0], "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]},
                    CONTAINERS[1],
                ]
            },
            id="lists within lists; new items first",
        ),
        pytest.param(
            {"containers": CONTAINERS},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [CONTAINERS[1]]},
            id="item deleted",
        ),
        pytest.param(
            {"containers": CONTAINERS},
            {"containers": [{"$patch": "replace"}, {"name": "z", "image": "9"}]},
            {"containers": [{"name": "z", "image": "9"}]},
            id="list replaced by directive",
        ),
        pytest.param(
            {"conditions": CONDITIONS},
            {"conditions": [{"type": "PodScheduled", "status": "True", "reason": None}]},
            {"conditions": [CONDITIONS[0], {"type": "PodScheduled", "status": "True"}]},
            id="condition changed in place",
        ),
        pytest.param(
            {"conditions": CONDITIONS},
            {"conditions": [{"type": "New", "status": "True"}]},
            {"conditions": [{"type": "New", "status": "True"}, *CONDITIONS]},
            id="new condition before the others",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]},
            {"tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="list without a merge key replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["b"]}},
            id="taken from a list of strings",
        ),
        pytest.param(
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
            id="other keys not retained",
        ),
        pytest.param(
            {"containers": CONTAINERS},
            {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "b", "image": "2"}],
            },
            {"containers": [{"name": "b", "image": "2"}, CONTAINERS[0]]},
            id="order set",
        ),
        pytest.param(
            {"ports": [{"containerPort": 80}]},
            {"ports": [{"containerPort": 80, "name": "http"}]},
            {"ports": [{"containerPort": 80, "name": "http"}]},
            id="container ports by number",
        ),
        pytest.param(
            {"ports": [{"port": 80, "targetPort": 1}]},
            {"ports": [{"port": 81, "targetPort": 1}]},
            {"ports": [{"port": 81, "targetPort": 1}, {"port": 80, "targetPort": 1}]},
            id="service ports by number",
        ),
        pytest.param(
            {"spec": {"a": 1}}, {"spec": {"$patch": "replace", "b": 2}}, {"spec": {"b": 2}}, id="map replaced"
        ),
        pytest.param({"spec": {"taints": [1]}}, {"spec": {"taints": None}}, {"spec": {}}, id="null removes"),
    ],
)
def test_strategic_merge_patch(document: Any, patch: Any, result: Any) -> None:
    """`kubectl apply`, label, taint, cordon and the scheduler's status writes are strategic merge patches."""
    before = copy.deepcopy(document)
    assert apply_strategic_patch(document, patch) == result
    assert document == before, "the stored object was changed in place"


def test_an_item_without_its_merge_key_is_refused() -> None:
    """Appending it would make a container without a name."""
    with pytest.raises(ApiError, match="merge key: name"):
        apply_strategic_patch({"containers": CONTAINERS}, {"containers": [{"image": "x"}]})


@pytest.mark.parametrize(
    ("operations", "result"),
    [
        ([{"op": "add", "path": "/a/x", "value": 1}], {"a": {"b": [1, 2], "x": 1}, "c~d": 3}),
        ([{"op": "replace", "path": "/a/b", "value": []}], {"a": {"b": []}, "c~d": 3}),
        ([{"op": "remove", "path": "/a/b/0"}], {"a": {"b": [2]}, "c~d": 3}),
        ([{"op": "add", "path": "/a/b/-", "value": 9}], {"a": {"b": [1, 2, 9]}, "c~d": 3}),
        ([{"op": "add", "path": "/a/b/1", "value": 9}], {"a": {"b": [1, 9, 2]}, "c~d": 3}),
        ([{"op": "remove", "path": "/c~0d"}], {"a": {"b": [1, 2]}}),
        ([{"op": "move", "from": "/c~0d", "path": "/e"}], {"a": {"b": [1, 2]}, "e": 3}),
        ([{"op": "copy", "from": "/a/b", "path": "/e"}], {"a": {"b": [1, 2]}, "c~d": 3, "e": [1, 2]}),
        ([{"op": "test", "path": "/a/b/1", "value": 2}], {"a": {"b": [1, 2]}, "c~d": 3}),
    ],
)
def test_json_patch(operations: Any, result: Any) -> None:
    """RFC 6902; tests of the frontend remove scheduling gates with it."""
    document = {"a": {"b": [1, 2]}, "c~d": 3}
    before = copy.deepcopy(document)
    assert apply_json_patch(document, operations) == result
    assert document == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "frobnicate", "path": "/a"},
        {"op": "add", "path": "/empty/x", "value": 1},
    ],
)
def test_json_patch_that_cannot_be_applied(operation: Any) -> None:
    """A failed test operation is how clients guard a write; it must not write."""
    with pytest.raises(ApiError) as refusal:
        apply_json_patch({"a": 1, "list": [], "empty": ""}, [operation])
    assert refusal.value.code == 422


JSON = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("abc", max_size=2), below, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text("abc", max_size=2), JSON, max_size=4), st.dictionaries(st.text("abc"), JSON, max_size=4))
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    """A retried patch must not change the object again."""
    once = apply_merge_patch(document, patch)
    assert apply_merge_patch(once, patch) == once
