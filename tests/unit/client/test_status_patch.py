"""Status patches hold exactly what changes, as kube-scheduler v1.37.0 sends it."""

from typing import Any

import pytest

from trireme_kube.client import status_patch
from trireme_kube.client.status_patch import Condition

TIME = "2026-01-02T03:00:00Z"
LATER = "2026-01-02T04:00:00Z"
MESSAGE = "0/2 nodes are available: 2 Insufficient cpu."
UNSCHEDULABLE = Condition("PodScheduled", "False", "Unschedulable", MESSAGE, 1)
WRITTEN = {
    "lastProbeTime": None,
    "lastTransitionTime": TIME,
    "message": MESSAGE,
    "observedGeneration": 1,
    "reason": "Unschedulable",
    "status": "False",
    "type": "PodScheduled",
}
VICTIM = {
    "lastProbeTime": None,
    "lastTransitionTime": LATER,
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
    "observedGeneration": 1,
    "reason": "PreemptionByScheduler",
    "status": "True",
    "type": "DisruptionTarget",
}
ORDER = "$setElementOrder/conditions"
SCHEDULED = {"lastProbeTime": None, "lastTransitionTime": TIME, "status": "True", "type": "PodScheduled"}


@pytest.mark.parametrize(
    ("old", "condition", "old_nomination", "nomination", "expected"),
    [
        pytest.param(
            [], UNSCHEDULABLE, "", None, {"conditions": [{**WRITTEN, "lastTransitionTime": LATER}]}, id="first"
        ),
        pytest.param([WRITTEN], UNSCHEDULABLE, "", None, None, id="unchanged"),
        pytest.param(
            [WRITTEN],
            Condition("PodScheduled", "False", "Unschedulable", "0/3 nodes", 1),
            "",
            None,
            {ORDER: [{"type": "PodScheduled"}], "conditions": [{"message": "0/3 nodes", "type": "PodScheduled"}]},
            id="other-message-keeps-the-time",
        ),
        pytest.param(
            [SCHEDULED],
            Condition("DisruptionTarget", "True", "PreemptionByScheduler", VICTIM["message"], 1),
            "",
            None,
            {ORDER: [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}], "conditions": [VICTIM]},
            id="victim",
        ),
        pytest.param(
            [SCHEDULED],
            Condition("PodScheduled", "False", "SchedulerError"),
            "",
            None,
            {
                ORDER: [{"type": "PodScheduled"}],
                "conditions": [
                    {
                        "lastTransitionTime": LATER,
                        "reason": "SchedulerError",
                        "status": "False",
                        "type": "PodScheduled",
                    }
                ],
            },
            id="other-status-changes-the-time",
        ),
        pytest.param(
            [],
            UNSCHEDULABLE,
            "",
            "node-c",
            {"conditions": [{**WRITTEN, "lastTransitionTime": LATER}], "nominatedNodeName": "node-c"},
            id="with-nomination",
        ),
        pytest.param([WRITTEN], None, "", "node-a", {"nominatedNodeName": "node-a"}, id="nomination-alone"),
        pytest.param([WRITTEN], UNSCHEDULABLE, "node-a", "", {"nominatedNodeName": None}, id="nomination-cleared"),
        pytest.param([WRITTEN], UNSCHEDULABLE, "node-a", "node-a", None, id="nomination-unchanged"),
        pytest.param([WRITTEN], UNSCHEDULABLE, "", "", None, id="nothing-to-clear"),
        pytest.param(
            [WRITTEN],
            Condition("PodScheduled", "False", "Unschedulable", "", 0),
            "",
            None,
            {
                ORDER: [{"type": "PodScheduled"}],
                "conditions": [{"message": None, "observedGeneration": None, "type": "PodScheduled"}],
            },
            id="fields-removed",
        ),
    ],
)
def test_the_patch_is_what_changes(
    old: list[dict[str, Any]],
    condition: Condition | None,
    old_nomination: str,
    nomination: str | None,
    expected: dict[str, Any] | None,
) -> None:
    """If this fails, conditions flap, other writers' conditions are overwritten, or needless writes are made."""
    patch = status_patch.pod_status_patch(old, condition, LATER, old_nomination=old_nomination, nomination=nomination)
    assert patch == (None if expected is None else {"status": expected})
