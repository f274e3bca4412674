"""What several plugins' hints have in common."""

import pytest

from tests.helpers.hint_answers import QUEUE, SKIP, Hints, entry, nominated, on, pod
from tests.helpers.volume_hint_objects import EPHEMERAL, Json, using


def _claim(name: str, namespace: str = "ns") -> Json:
    return entry("PersistentVolumeClaim", name, namespace, spec={})


# Which plugins count claims that were made for the pod.
CLAIM_EVENTS = [
    ("VolumeRestrictions", "Add", False),
    ("NodeVolumeLimits", "Add", True),
    ("VolumeBinding", "Add", True),
    ("VolumeBinding", "Update", True),
    ("VolumeZone", "Add", False),
    ("VolumeZone", "Update", False),
]


@pytest.mark.parametrize(("plugin", "action", "ephemeral"), CLAIM_EVENTS)
def test_claims(plugin: str, action: str, ephemeral: bool) -> None:
    """Only the pod's own claims wake it."""

    def hint(waiting: Json, claim: Json) -> str:
        old = claim if action == "Update" else None
        return Hints(plugin).about(waiting, "PersistentVolumeClaim", action, old, claim)

    assert hint(using("c"), _claim("c")) == QUEUE
    assert hint(using("c"), _claim("d")) == SKIP
    assert hint(using("c"), _claim("c", "other")) == SKIP
    assert hint(EPHEMERAL, _claim("p-v")) == (QUEUE if ephemeral else SKIP)


@pytest.mark.parametrize("plugin", ["NodeResourcesFit", "NodePorts", "NodeVolumeLimits"])
def test_a_pod_that_held_nothing(plugin: str) -> None:
    """The end of a pod without a node wakes nobody."""
    port = {"name": "c", "ports": [{"hostPort": 80}]}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    one = pod("q", containers=[port], volumes=[volume])
    waiting = pod(containers=[port])
    assert Hints(plugin).about(waiting, "AssignedPod", "Delete", one) == SKIP
    assert Hints(plugin).about(waiting, "AssignedPod", "Delete", on("n", one)) == QUEUE
    assert Hints(plugin).about(waiting, "AssignedPod", "Delete", nominated("n", one)) == QUEUE


def test_a_plugin_disabled_by_its_gate_registers_no_events() -> None:
    assert Hints("NodeDeclaredFeatures").events
    assert not Hints("NodeDeclaredFeatures", features={"NodeDeclaredFeatures": False}).events
    assert not Hints("DefaultPreemption", features={"SchedulerAsyncPreemption": False}).events
