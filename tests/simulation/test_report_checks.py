"""A condition whose numbers do not add up, and an event of what did not happen, are found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.placed_pods import PlacedPods
from tests.simulation.report_checks import LAG_SECONDS, ReportChecks
from trireme_kube.embedded.api.resources import EVENTS, NODES, PODS, Resource
from trireme_kube.embedded.storage.store import Store


class _Server:
    """A store with three nodes, and a pod on one of them."""

    def __init__(self) -> None:
        self.store, placed, self.now, self.ahead = Store(), PlacedPods(), 0.0, 0.0
        self.store.listen(PODS, placed.on_pod)
        self.checks = ReportChecks(self.store, placed, lambda: self.now, lambda: self.now + self.ahead)
        for name in ("node-1", "node-2", "node-3"):
            self.put(NODES, name)
        self.put(PODS, "bound", spec={"containers": [{"name": "c"}], "nodeName": "node-1"})

    def put(self, resource: Resource, name: str, **fields: Any) -> None:
        namespace = {} if resource is NODES else {"namespace": "default"}
        self.store.put(resource, {"metadata": {"name": name, "uid": f"uid-{name}", **namespace}, **fields})

    def refuse(self, message: str, time: str = "1970-01-01T00:00:00Z", group: str = "") -> None:
        condition = {"type": "PodScheduled", "status": "False", "message": message, "lastTransitionTime": time}
        spec = {"containers": [{"name": "c"}], "schedulingGroup": {"podGroupName": group}}
        for conditions in ([], [condition]):
            self.put(PODS, "p", spec=spec, status={"conditions": conditions})


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("0/3 nodes are available: 1 node(s) were unschedulable, 2 Insufficient cpu.", []),
        ("0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.", []),
        ("0/3 nodes are available: waiting for a volume.", []),
        ("0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No victims.", []),
        ("0/4 nodes are available: 4 Insufficient cpu.", ["and there are [0, 1, 2, 3] nodes"]),
        ("0/3 nodes are available: 2 Insufficient cpu.", ["not each of 3 nodes has a reason in"]),
        ("0/3 nodes are available: 4 Insufficient cpu.", ["not each of 3 nodes has a reason in"]),
        (
            "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/2 nodes are available: 3 No victims.",
            ["preemption was tried on 2 nodes"],
        ),
        (
            "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 2 No victims.",
            ["not each of 3 nodes has a reason in 2 No victims."],
        ),
    ],
)
def test_each_node_has_a_reason_in_a_condition(message: str, found: list[str]) -> None:
    """If this fails, users read of other nodes than there are."""
    server = _Server()
    server.refuse(message)
    texts = server.checks.violations
    assert [part in text for text, part in zip(texts, found, strict=True)] == [True] * len(found)


@pytest.mark.parametrize(("nodes", "found"), [(2, 0), (4, 1)])
def test_a_group_may_be_refused_by_the_nodes_of_a_zone(nodes: int, found: int) -> None:
    """If this fails, groups that have to be in one zone are taken for a defect."""
    server = _Server()
    server.now = LAG_SECONDS * 2
    server.put(NODES, "node-3")
    server.refuse(f"0/{nodes} nodes are available: {nodes} Insufficient cpu.", group="g")
    assert len(server.checks.violations) == found


def test_a_leader_may_know_the_nodes_of_a_while_ago() -> None:
    """If this fails, a watch that lags is taken for a defect."""
    server = _Server()
    server.now = 10.0
    server.store.remove(NODES, "", "node-3")
    server.refuse("0/3 nodes are available: 3 Insufficient cpu.")
    assert server.checks.violations == []
    server.now += LAG_SECONDS + 10
    server.put(NODES, "node-4")
    server.store.remove(NODES, "", "node-4")
    server.now += LAG_SECONDS + 10
    server.put(NODES, "node-4")
    server.store.remove(NODES, "", "node-4")
    server.refuse("0/1 nodes are available: 1 Insufficient cpu.")
    assert len(server.checks.violations) == 1


@pytest.mark.parametrize(("ahead", "found"), [(0.0, 1), (1.0, 1), (3600.0, 0)])
def test_a_condition_of_the_future_is_found(ahead: float, found: int) -> None:
    """If this fails, users read times that no clock has shown."""
    server = _Server()
    server.ahead = ahead
    server.refuse("0/3 nodes are available: 3 Insufficient cpu.", "1970-01-01T00:00:02Z")
    assert len(server.checks.violations) == found


@pytest.mark.parametrize(
    ("uid", "message", "found"),
    [
        ("uid-bound", "Successfully assigned default/bound to node-1", []),
        ("uid-gone", "Successfully assigned default/gone to node-1", []),
        (
            "uid-bound",
            "Successfully assigned default/bound to node-2",
            ["an event says 'Successfully assigned default/bound to node-2', and the pod is on node-1"],
        ),
    ],
)
def test_an_event_names_the_node_of_its_pod(uid: str, message: str, found: list[str]) -> None:
    """If this fails, users look for a pod where it is not."""
    server = _Server()
    server.put(EVENTS, "e", involvedObject={"uid": uid}, reason="Scheduled", message=message)
    assert server.checks.violations == found
