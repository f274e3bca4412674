"""What wakes pods that NodeUnschedulable refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, node, pod

Json = dict[str, Any]


@pytest.mark.parametrize(("key", "expected"), [("other", SKIP), ("node.kubernetes.io/unschedulable", QUEUE)])
def test_own_tolerations_and_cordons(key: str, expected: str) -> None:
    """Only a toleration of the unschedulable taint wakes the pod."""
    new = pod(tolerations=[{"key": key, "operator": "Exists"}])
    assert Hints("NodeUnschedulable").about(new, "TargetPod", "UpdatePodToleration", pod(), new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, node(), QUEUE, id="new"),
        pytest.param(None, node(unschedulable=True), SKIP, id="new-and-cordoned"),
        pytest.param(node(unschedulable=True), node(), QUEUE, id="uncordoned"),
        pytest.param(node(), node(taints=[{"key": "a", "effect": "NoSchedule"}]), SKIP, id="was-open"),
        pytest.param(node(unschedulable=True), node(unschedulable=True), SKIP, id="still-cordoned"),
    ],
)
def test_node_unschedulable(old: Json | None, new: Json, expected: str) -> None:
    """Only an uncordoned node wakes the pod."""
    action = "Add" if old is None else "UpdateNodeTaint"
    assert Hints("NodeUnschedulable").about(pod(), "Node", action, old, new) == expected
