"""The events that HTTP extenders and in-tree plugins register."""

import pytest

from trireme.config import gates
from trireme.framework import cluster_event
from trireme.queueing.hints import registrations


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
