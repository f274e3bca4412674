"""What wakes pods that NodeDeclaredFeatures refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, node, pod

Json = dict[str, Any]


def _declares(*features: str) -> Json:
    return node(status={"declaredFeatures": list(features)})


RESTARTING = pod(containers=[{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}])


@pytest.mark.parametrize(
    ("resource", "action", "old", "new", "expected"),
    [
        pytest.param("Node", "Add", None, _declares("a"), QUEUE, id="new-node"),
        pytest.param("Node", "UpdateNodeDeclaredFeature", _declares("a"), _declares("a", "b"), QUEUE, id="other"),
        pytest.param("Node", "UpdateNodeDeclaredFeature", _declares("a"), _declares("a"), SKIP, id="same"),
        pytest.param("TargetPod", "Update", RESTARTING, pod(), QUEUE, id="needs-less"),
        pytest.param("TargetPod", "UpdatePodLabel", pod(), pod(labels={"a": "b"}), SKIP, id="needs-the-same"),
    ],
)
def test_declared_features(resource: str, action: str, old: Json | None, new: Json, expected: str) -> None:
    """Only a node with the needed kubelet feature wakes the pod, not its own updates."""
    waiting = new if resource == "TargetPod" else RESTARTING
    assert Hints("NodeDeclaredFeatures").about(waiting, resource, action, old, new) == expected
