"""Hints of the plugins that look at the node alone."""

from typing import Any

import pytest
from hint_answers import ERROR, QUEUE, SKIP, Hints, node, pod

Json = dict[str, Any]


def _affinity(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"nodeAffinity": required}


def _term(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


SSD = pod(nodeSelector={"disk": "ssd"})
NAMED = pod(affinity=_affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}))
UNREADABLE = pod(affinity=_affinity(_term("disk", "Near", "x"), _term("disk", "In", "ssd")))


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(SSD, None, node(labels={"disk": "ssd"}), QUEUE, id="new-and-right"),
        pytest.param(SSD, None, node(labels={"disk": "hdd"}), SKIP, id="new-and-wrong"),
        pytest.param(SSD, node(), node(labels={"disk": "ssd"}), QUEUE, id="becomes-right"),
        pytest.param(SSD, node(labels={"disk": "ssd"}), node(labels={"disk": "ssd", "a": "b"}), SKIP, id="was-right"),
        pytest.param(SSD, node(labels={"disk": "ssd"}), node(), SKIP, id="becomes-wrong"),
        pytest.param(NAMED, None, node("n"), QUEUE, id="its-name"),
        pytest.param(NAMED, None, node("m"), SKIP, id="another-name"),
        pytest.param(pod(affinity=_affinity(_term("n", "Gt", "5"))), None, node(labels={"n": "6"}), QUEUE, id="more"),
        pytest.param(pod(affinity=_affinity(_term("n", "Gt", "5"))), None, node(labels={"n": "5"}), SKIP, id="no-more"),
        pytest.param(
            pod(affinity=_affinity(_term("n", "Lt", "5"))), None, node(labels={"n": "x"}), SKIP, id="no-number"
        ),
        pytest.param(pod(affinity=_affinity(_term("a", "NotIn", "b"))), None, node(), QUEUE, id="absent-is-not-in"),
        pytest.param(pod(affinity=_affinity(_term("a", "Exists"))), None, node(), SKIP, id="absent"),
        pytest.param(pod(affinity=_affinity(_term("a", "DoesNotExist"))), None, node(), QUEUE, id="absent-as-asked"),
        pytest.param(UNREADABLE, None, node(labels={"disk": "ssd"}), QUEUE, id="one-term-is-enough"),
        pytest.param(UNREADABLE, None, node(), ERROR, id="a-term-that-cannot-be-read"),
    ],
)
def test_node_affinity(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """Else pods wait for a label that is there already, or are tried for labels that they do not ask for."""
    assert (
        Hints("NodeAffinity").about(waiting, "Node", "Add" if old is None else "UpdateNodeLabel", old, new) == expected
    )


@pytest.mark.parametrize(("zone", "expected"), [("z1", QUEUE), ("z2", SKIP)], ids=["as-the-profile-asks", "not"])
def test_node_affinity_of_the_profile(zone: str, expected: str) -> None:
    """Else a node that the profile excludes wakes its pods."""
    args = {"addedAffinity": _affinity(_term("zone", "In", "z1"))["nodeAffinity"]}
    hints = Hints("NodeAffinity", args=args)
    assert hints.about(SSD, "Node", "Add", None, node(labels={"disk": "ssd", "zone": zone})) == expected


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
    """Else pods are tried for taints that they do not tolerate."""
    action = "Add" if old is None else "UpdateNodeTaint"
    assert Hints("TaintToleration").about(waiting, "Node", action, old, new) == expected


@pytest.mark.parametrize(("gate", "expected"), [(True, QUEUE), (False, SKIP)])
def test_tolerations_that_compare_count_in_hints_by_their_gate(gate: bool, expected: str) -> None:
    """Else a pod sleeps though a node has a value now that it tolerates."""
    waiting = pod(tolerations=[{"key": "a", "operator": "Lt", "value": "5", "effect": "NoSchedule"}])
    taints = [node(taints=[{"key": "a", "value": value, "effect": "NoSchedule"}]) for value in ("7", "3")]
    hints = Hints("TaintToleration", features={"TaintTolerationComparisonOperators": gate})
    assert hints.about(waiting, "Node", "UpdateNodeTaint", *taints) == expected


@pytest.mark.parametrize(
    ("plugin", "key", "expected"),
    [
        ("TaintToleration", "other", QUEUE),
        ("NodeUnschedulable", "other", SKIP),
        ("NodeUnschedulable", "node.kubernetes.io/unschedulable", QUEUE),
    ],
)
def test_own_tolerations(plugin: str, key: str, expected: str) -> None:
    """Else a pod that tolerates more now is not tried, or one whose toleration is about something else is."""
    new = pod(tolerations=[{"key": key, "operator": "Exists"}])
    assert Hints(plugin).about(new, "TargetPod", "UpdatePodToleration", pod(), new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(None, node(), QUEUE, id="new"),
        pytest.param(None, node(unschedulable=True), SKIP, id="new-and-cordoned"),
        pytest.param(node(unschedulable=True), node(), QUEUE, id="uncordoned"),
        pytest.param(node(), TAINTED, SKIP, id="was-open"),
        pytest.param(node(unschedulable=True), node(unschedulable=True), SKIP, id="still-cordoned"),
    ],
)
def test_node_unschedulable(old: Json | None, new: Json, expected: str) -> None:
    """Else pods that only an uncordoned node can take are tried when taints change."""
    action = "Add" if old is None else "UpdateNodeTaint"
    assert Hints("NodeUnschedulable").about(pod(), "Node", action, old, new) == expected


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
    """Else pods that need a feature of the kubelet sleep when it is there, or wake at each of their own updates."""
    waiting = new if resource == "TargetPod" else RESTARTING
    assert Hints("NodeDeclaredFeatures").about(waiting, resource, action, old, new) == expected


def test_a_plugin_disabled_by_its_gate_registers_no_events() -> None:
    """Else events are weighed for plugins that refuse nobody."""
    assert Hints("NodeDeclaredFeatures").events
    assert not Hints("NodeDeclaredFeatures", features={"NodeDeclaredFeatures": False}).events
    assert not Hints("DynamicResources", features={"DynamicResourceAllocation": False}).events
    assert not Hints("DefaultPreemption", features={"SchedulerAsyncPreemption": False}).events


def test_names_gates_and_preemption() -> None:
    """Else a pod bound to a node that is not there yet sleeps on, or a preemptor wakes for each pod that ends."""
    assert Hints("NodeName").about(pod(), "Node", "Add", None, node()) == QUEUE
    gone = "UpdatePodSchedulingGatesEliminated"
    assert (
        Hints("SchedulingGates").about(pod(), "TargetPod", gone, pod(schedulingGates=[{"name": "g"}]), pod()) == QUEUE
    )
    assert Hints("DefaultPreemption").about(pod(), "AssignedPod", "Delete", pod("q"), None) == SKIP


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
    """Else a pod that may preempt to grow waits on, or pods are tried in vain."""
    hints = Hints("DeferredPodScheduling", features={"InPlacePodVerticalScalingSchedulerPreemption": True})
    action = "Add" if old is None else "UpdateNodePreemptionPolicy"
    assert hints.about(waiting, "Node", action, old, new) == expected
