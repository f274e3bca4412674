"""What wakes pods that TaintToleration refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, node, pod

Json = dict[str, Any]

TAINTED = node(taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])
TOLERANT = pod(tolerations=[{"key": "a", "operator": "Exists"}])


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(pod(), None, node(), QUEUE, id="new-and-open"),
        pytest.param(pod(), None, TAINTED, SKIP, id="new-and-tainted"),
        pytest.param(TOLERANT, None, TAINTED, QUEUE, id="new-and-tolerated"),
        pytest.param(pod(), TAINTED, node(), QUEUE, id="taint-removed"),
        pytest.param(TOLERANT, TAINTED, node(), SKIP, id="was-tolerated"),
        pytest.param(pod(), node(), TAINTED, SKIP, id="taint-added"),
        pytest.param(
            pod(),
            TAINTED,
            node(taints=[{"key": "a", "effect": "PreferNoSchedule"}]),
            QUEUE,
            id="a-preference-refuses-nobody",
        ),
    ],
)
def test_taint_toleration(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """Only a node whose taints the pod tolerates wakes it."""
    action = "Add" if old is None else "UpdateNodeTaint"
    assert Hints("TaintToleration").about(waiting, "Node", action, old, new) == expected


@pytest.mark.parametrize(("gate", "expected"), [(True, QUEUE), (False, SKIP)])
def test_tolerations_that_compare_count_in_hints_by_their_gate(gate: bool, expected: str) -> None:
    waiting = pod(tolerations=[{"key": "a", "operator": "Lt", "value": "5", "effect": "NoSchedule"}])
    taints = [node(taints=[{"key": "a", "value": value, "effect": "NoSchedule"}]) for value in ("7", "3")]
    hints = Hints("TaintToleration", features={"TaintTolerationComparisonOperators": gate})
    assert hints.about(waiting, "Node", "UpdateNodeTaint", *taints) == expected


def test_own_tolerations_and_taints() -> None:
    """A new toleration of the pod wakes it."""
    new = pod(tolerations=[{"key": "other", "operator": "Exists"}])
    assert Hints("TaintToleration").about(new, "TargetPod", "UpdatePodToleration", pod(), new) == QUEUE
