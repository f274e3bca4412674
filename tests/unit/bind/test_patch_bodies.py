"""The bodies of bind's writes are those that kube-scheduler v1.37.0 sends, as an API server recorded them."""

from typing import Any

import pytest

from trireme.bind import patch_bodies
from trireme.v1 import bind_pb2, core_pb2

NOW = "2026-01-02T03:04:05Z"
MESSAGE = "default-scheduler: preempting to accommodate a higher priority pod"
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": NOW}
MARK = {
    "lastProbeTime": None,
    "lastTransitionTime": NOW,
    "message": MESSAGE,
    "observedGeneration": 1,
    "reason": "PreemptionByScheduler",
    "status": "True",
    "type": "DisruptionTarget",
}


def unschedulable(nominated: str | None = None) -> bind_pb2.SetCondition:
    condition = core_pb2.PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message="no", observed_generation=1
    )
    condition.last_transition_time.seconds = 1_767_323_045
    return bind_pb2.SetCondition(condition=condition, nominated_node_name=nominated)


@pytest.mark.parametrize(
    ("nominated", "extra"),
    [
        pytest.param(None, {}, id="left-alone"),
        pytest.param("node-c", {"nominatedNodeName": "node-c"}, id="set"),
        pytest.param("", {"nominatedNodeName": None}, id="cleared"),
    ],
)
def test_the_patch_of_a_condition(nominated: str | None, extra: dict[str, Any]) -> None:
    """One condition, complete, and the nomination only where it is meant to change."""
    assert patch_bodies.condition_patch(unschedulable(nominated), "later") == {
        "status": {
            "conditions": [
                {
                    "lastProbeTime": None,
                    "lastTransitionTime": NOW,
                    "message": "no",
                    "observedGeneration": 1,
                    "reason": "Unschedulable",
                    "status": "False",
                    "type": "PodScheduled",
                }
            ],
            **extra,
        }
    }


@pytest.mark.parametrize(("node", "written"), [("node-c", "node-c"), ("", None)])
def test_the_patch_of_a_nomination(node: str, written: str | None) -> None:
    assert patch_bodies.nomination_patch(node) == {"status": {"nominatedNodeName": written}}


def test_a_condition_without_a_time_gets_the_present() -> None:
    """The API server refuses a condition without one."""
    wanted = unschedulable()
    wanted.condition.ClearField("last_transition_time")
    assert patch_bodies.condition_patch(wanted, NOW)["status"]["conditions"][0]["lastTransitionTime"] == NOW


def test_the_patch_of_a_groups_condition() -> None:
    condition = bind_pb2.SetGroupCondition().condition
    condition.type, condition.status, condition.reason, condition.message = "PodGroupScheduled", "False", "Why", "no"
    condition.observed_generation = 3
    condition.last_transition_time.seconds = 1_767_323_045
    assert patch_bodies.group_condition_patch(bind_pb2.SetGroupCondition(condition=condition)) == {
        "status": {
            "conditions": [
                {
                    "type": "PodGroupScheduled",
                    "status": "False",
                    "observedGeneration": 3,
                    "lastTransitionTime": NOW,
                    "reason": "Why",
                    "message": "no",
                }
            ]
        }
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param([], {"conditions": [MARK]}, id="first-condition"),
        pytest.param(
            [SCHEDULED],
            {
                "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
                "conditions": [MARK],
            },
            id="beside-another",
        ),
        pytest.param([SCHEDULED, MARK], None, id="marked-already"),
        pytest.param(None, {"conditions": [MARK]}, id="no-status"),
    ],
)
def test_the_patch_that_marks_a_victim(conditions: list[Any] | None, expected: dict[str, Any] | None) -> None:
    """The mark is added once; marking again changes nothing."""
    pod: dict[str, Any] = {} if conditions is None else {"status": {"conditions": conditions}}
    patch = patch_bodies.disruption_patch(pod, bind_pb2.Evict(message=MESSAGE, observed_generation=1), NOW)
    assert patch == (None if expected is None else {"status": expected})


def test_the_patch_that_marks_a_victim_that_was_not_read() -> None:
    """It names the pod that is meant, and puts the mark where it would be had the pod been read."""
    evict = bind_pb2.Evict(message=MESSAGE, observed_generation=1)
    assert patch_bodies.disruption_patch_of_unread_pod("u", evict, NOW) == {
        "metadata": {"uid": "u"},
        "status": {
            "$setElementOrder/conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
            "conditions": [MARK],
        },
    }
