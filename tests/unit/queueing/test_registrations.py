"""The events that HTTP extenders and in-tree plugins register."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.queue_builders import record
from trireme.config import gates
from trireme.framework import cluster_event
from trireme.queueing.hints import registrations
from trireme.queueing.queued_pod import QueuedPodInfo


@pytest.mark.parametrize("groups", [False, True])
def test_any_event_may_help_a_pod_that_an_extender_refused(groups: bool) -> None:
    """An event of a PodGroup too, where the scheduler follows these."""
    found = registrations.of_extenders(gates.FeatureGates(values={"GenericWorkload": groups}))
    assert {(each.plugin, each.hint, each.remote) for each in found} == {("Extender", None, False)}

    def matches(kind: str) -> bool:
        return any(each.event.matches(cluster_event.parse(kind, ("Add",))) for each in found)

    kinds = ("Node", "PersistentVolumeClaim", "storage.k8s.io/CSINode", "resource.k8s.io/ResourceClaim")
    assert all(matches(kind) for kind in kinds)
    assert matches("scheduling.k8s.io/PodGroup") is groups


@pytest.mark.parametrize(
    ("nominee_hint", "expected"),
    [(False, ["Queue", "QueueSkip", "QueueSkip", "Error"]), (True, ["Queue", "Queue", "QueueSkip", "Error"])],
)
def test_a_pod_that_is_nominated_to_the_node_has_a_second_hint(
    monkeypatch: pytest.MonkeyPatch, nominee_hint: bool, expected: list[str]
) -> None:
    """What helps it there helps no other. An error about one pod concerns no other."""

    def hint(old: Any, new: Any) -> Any:
        return lambda number: 1 / number == 1

    registered = SimpleNamespace(
        resource="Node",
        actions=("Add",),
        hint=hint,
        nominee_hint=(lambda old, new: lambda number: True) if nominee_hint else None,
    )
    monkeypatch.setattr(registrations.queue_plugins, "events_to_register", lambda plugin, context: [registered])
    profile: Any = SimpleNamespace(all_names=lambda: ["Fit"], args=lambda name: None)
    view: Any = SimpleNamespace(class_of_waiting_pod=lambda class_id: class_id)
    (found,) = registrations.of_in_tree_plugins(profile, gates.FeatureGates(), view)
    pods = [
        QueuedPodInfo(record("p", number, nominated_node=node), 0)
        for number, node in ((1, "n"), (2, "n"), (2, "m"), (0, "m"))
    ]
    assert found.hint is not None
    node = SimpleNamespace(metadata=SimpleNamespace(name="n"))
    assert [each.value for each in found.hint(found.event, None, node, pods)] == expected
