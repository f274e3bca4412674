"""A leader's status of pending pods is compared with the nodes as they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.pending_checks import wrong_entries
from tests.simulation.placed_pods import PlacedPods
from trireme.v1.scheduler_explanation_pb2 import PendingPod
from trireme_kube.embedded.api.resources import NODES, PODS, Object
from trireme_kube.embedded.storage.store import Store

_EVENT = {"kind": "event", "plugins": ["NodeResourcesFit", "NodeUnschedulable"]}


@pytest.fixture
def store() -> Store:
    """A full node, and one that is cordoned."""
    store = Store()
    for number in (1, 2):
        status = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": str(number - 1)}}
        metadata = {"name": f"node-{number}", "uid": f"node-{number}", "labels": {"zone": "a"}}
        store.put(NODES, {"metadata": metadata, "spec": {"unschedulable": number == 2}, "status": status})
    return store


@pytest.mark.parametrize(
    ("spec", "reason", "waits", "text"),
    [
        ({}, "Unschedulable", _EVENT, ""),
        ({}, "Unschedulable", {**_EVENT, "plugins": [*_EVENT["plugins"], "ClosedNodes"]}, ""),
        ({}, "Unschedulable", {**_EVENT, "plugins": ["NodeResourcesFit"]}, "none of these refuses it on node-2"),
        ({}, "Unschedulable", {**_EVENT, "plugins": [*_EVENT["plugins"], "NodePorts"]}, "NodePorts has no reason"),
        ({}, "Unschedulable", {"kind": "binding"}, "nothing but an event would help it"),
        ({}, "", _EVENT, "its condition is ('False', ''), not Unschedulable"),
        ({"nodeSelector": {"zone": "b"}}, "Unschedulable", {**_EVENT, "plugins": ["NodeAffinity"]}, ""),
        ({"schedulingGates": [{"name": "later"}]}, "SchedulingGated", {"kind": "gate"}, ""),
        ({"schedulingGates": [{"name": "more"}]}, "SchedulingGated", {"kind": "gate"}, "it has the gates ['more']"),
        ({"schedulingGates": [{"name": "later"}]}, "SchedulingGated", _EVENT, "it has the gates ['later']"),
        ({"schedulingGroup": {"podGroupName": "g"}}, "", {"kind": "group"}, ""),
        ({"schedulingGroup": {"podGroupName": "g"}}, "", {"kind": "turn"}, "nothing happens to its group"),
    ],
)
def test_what_is_wrong_is_found(store: Store, spec: Object, reason: str, waits: dict[str, Any], text: str) -> None:
    """If this fails, simulations miss a wrong entry of `trireme status`, or report a right one."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    metadata = {"name": "one", "namespace": "default", "uid": "one"}
    spec = {"containers": [{"name": "c"}], **spec}
    store.put(PODS, {"metadata": metadata, "spec": spec, "status": {"conditions": [condition]}})
    summary = "is held back by SchedulingGates: later"
    entries = [PendingPod(pod={"name": name}, waits_for=waits, summary=summary) for name in ("one", "gone")]
    found = wrong_entries(store, PlacedPods(), entries)
    assert [each.startswith("status of pod one: ") and f"but {text}" in each for each in found] == [True] * bool(text)
