"""What wakes pods that DeferredPodScheduling refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, node, pod

Json = dict[str, Any]


def _resized(node_name: str = "n", reason: str = "Deferred") -> Json:
    """A pod that runs and waits for room to grow."""
    condition = {"type": "PodResizePending", "status": "True", "reason": reason}
    return pod(status={"conditions": [condition]}, nodeName=node_name)


OPEN, CLOSED = node("n"), node("n", podPreemptionPolicy={"disableResizePreemption": ["Always"]})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(_resized(), None, OPEN, QUEUE, id="its-node-came"),
        pytest.param(_resized(), None, CLOSED, SKIP, id="its-node-came-closed"),
        pytest.param(_resized("m"), None, OPEN, SKIP, id="another-node-came"),
        pytest.param(pod(), None, OPEN, SKIP, id="no-resize"),
        pytest.param(pod(nodeName="n"), None, OPEN, SKIP, id="runs-there-and-is-not-resized"),
        pytest.param(_resized(reason="Infeasible"), None, OPEN, SKIP, id="infeasible"),
        pytest.param(_resized(), CLOSED, OPEN, QUEUE, id="its-node-opened"),
        pytest.param(_resized("m"), CLOSED, OPEN, SKIP, id="another-node-opened"),
        pytest.param(_resized(), OPEN, OPEN, SKIP, id="was-open"),
        pytest.param(_resized(), CLOSED, CLOSED, SKIP, id="stays-closed"),
        pytest.param(_resized(), OPEN, CLOSED, SKIP, id="closed"),
    ],
)
def test_deferred_resizes(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """Only events that allow its own resize to preempt wake a deferred pod."""
    hints = Hints("DeferredPodScheduling", features={"InPlacePodVerticalScalingSchedulerPreemption": True})
    action = "Add" if old is None else "UpdateNodePreemptionPolicy"
    assert hints.about(waiting, "Node", action, old, new) == expected
