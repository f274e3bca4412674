"""What wakes pods that PodTopologySpread refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import ERROR, QUEUE, SKIP, Hints, entry, node, nominated, on, pod

Json = dict[str, Any]


def _placed(labels: Json | None = None, **more: Any) -> Json:
    return on("n", pod("q", labels=labels or {"app": "db"}, **more))


Z1, Z2, NOWHERE = node(labels={"zone": "z1"}), node(labels={"zone": "z2"}), node()


def _spread(key: str = "zone", app: str = "db", **more: Any) -> Json:
    selector = {"matchLabels": {"app": app}}
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        **more,
    }


SPREADING = pod(topologySpreadConstraints=[_spread()])
SOFT = pod(topologySpreadConstraints=[_spread(whenUnsatisfiable="ScheduleAnyway")])
BY_VERSION = pod(labels={"version": "2"}, topologySpreadConstraints=[_spread(matchLabelKeys=["version"])])
FROM_ALL = pod(topologySpreadConstraints=[_spread(labelSelector={})])
FROM_NONE = pod(topologySpreadConstraints=[{key: value for key, value in _spread().items() if key != "labelSelector"}])


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(SPREADING, None, _placed(), QUEUE, id="one-that-counts-came"),
        pytest.param(FROM_ALL, _placed({}), None, QUEUE, id="all-count-and-one-left"),
        pytest.param(FROM_ALL, _placed({}, namespace="other"), None, SKIP, id="all-count-of-another-namespace"),
        pytest.param(FROM_NONE, _placed(), None, SKIP, id="none-counts"),
        pytest.param(SPREADING, None, _placed({"app": "web"}), SKIP, id="another-came"),
        pytest.param(SPREADING, None, pod("q", labels={"app": "db"}), SKIP, id="one-without-a-node"),
        pytest.param(SPREADING, None, _placed(namespace="other"), SKIP, id="in-another-namespace"),
        pytest.param(SPREADING, _placed(), None, QUEUE, id="one-that-counted-left"),
        pytest.param(SPREADING, nominated("n", pod("q", labels={"app": "db"})), None, QUEUE, id="a-promised-one-left"),
        pytest.param(SPREADING, _placed({"app": "web"}), None, SKIP, id="another-left"),
        pytest.param(SPREADING, _placed({"app": "web"}), _placed(), QUEUE, id="counts-now"),
        pytest.param(SPREADING, _placed(), _placed({"app": "web"}), QUEUE, id="counts-no-more"),
        pytest.param(SPREADING, _placed(), _placed({"app": "db", "a": "b"}), SKIP, id="counts-as-before"),
        pytest.param(SOFT, None, _placed(), SKIP, id="only-preferred"),
        pytest.param(BY_VERSION, None, _placed({"app": "db", "version": "2"}), QUEUE, id="of-its-version"),
        pytest.param(BY_VERSION, None, _placed({"app": "db", "version": "1"}), SKIP, id="of-another-version"),
    ],
)
def test_spread_and_pods(waiting: Json, old: Json | None, new: Json | None, expected: str) -> None:
    """Only pods that a constraint counts wake the pod."""
    action = "Add" if old is None else "Delete" if new is None else "UpdatePodLabel"
    assert Hints("PodTopologySpread").about(waiting, "AssignedPod", action, old, new) == expected


TWO_KEYS = pod(topologySpreadConstraints=[_spread(), _spread("host")])


def _at(zone: str, host: str, **more: Any) -> Json:
    return node(labels={"zone": zone, "host": host}, **more)


TAINT = [{"key": "a", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(SPREADING, None, Z1, QUEUE, id="new"),
        pytest.param(SPREADING, None, NOWHERE, SKIP, id="new-without-the-key"),
        pytest.param(TWO_KEYS, None, Z1, SKIP, id="new-without-one-key"),
        pytest.param(TWO_KEYS, None, _at("z1", "h"), QUEUE, id="new-with-both"),
        pytest.param(SPREADING, Z1, None, QUEUE, id="gone"),
        pytest.param(SPREADING, NOWHERE, None, SKIP, id="gone-without-the-key"),
        pytest.param(SPREADING, NOWHERE, Z1, QUEUE, id="gets-the-key"),
        pytest.param(SPREADING, Z1, NOWHERE, QUEUE, id="loses-the-key"),
        pytest.param(SPREADING, Z1, Z2, QUEUE, id="moved"),
        pytest.param(SPREADING, Z1, node(labels={"zone": "z1", "a": "b"}), SKIP, id="other-label"),
        pytest.param(TWO_KEYS, Z1, Z2, SKIP, id="moved-without-one-key"),
        pytest.param(SPREADING, Z1, node(labels={"zone": "z1"}, taints=TAINT), QUEUE, id="tainted"),
        pytest.param(SPREADING, NOWHERE, node(taints=TAINT), SKIP, id="tainted-without-the-key"),
    ],
)
def test_spread_and_nodes(waiting: Json, old: Json | None, new: Json | None, expected: str) -> None:
    """Only nodes in a domain of a constraint wake the pod."""
    action = "Add" if old is None else "Delete" if new is None else "UpdateNodeLabel"
    assert Hints("PodTopologySpread").about(waiting, "Node", action, old, new) == expected


TOLERATING = {"tolerations": [{"key": "a", "operator": "Exists"}]}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({"labels": {"app": "db"}}, {"labels": {"app": "db", "a": "b"}}, SKIP, id="counts-as-before"),
        pytest.param({}, {"labels": {"app": "db"}}, QUEUE, id="counts-itself-now"),
        pytest.param({}, TOLERATING, SKIP, id="tolerates-more"),
    ],
)
def test_spread_and_its_own_changes(old: Json, new: Json, expected: str) -> None:
    """Only its labels that a constraint selects by wake the pod."""
    before, after = (pod(topologySpreadConstraints=[_spread()], **fields) for fields in (old, new))
    assert Hints("PodTopologySpread").about(after, "TargetPod", "UpdatePodLabel", before, after) == expected


def test_spread_that_honours_taints_and_own_tolerations() -> None:
    constraints = [_spread(nodeTaintsPolicy="Honor")]
    before = pod(topologySpreadConstraints=constraints)
    after = pod(topologySpreadConstraints=constraints, **TOLERATING)
    assert Hints("PodTopologySpread").about(after, "TargetPod", "UpdatePodToleration", before, after) == QUEUE


def test_default_constraints_select_as_the_pods_services_do() -> None:
    args = {
        "defaultingType": "List",
        "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    }
    service = entry("Service", "s", "ns", spec={"selector": {"app": "db"}})
    hints = Hints("PodTopologySpread", [service], args=args)
    mine = pod(labels={"app": "db"})
    assert hints.about(mine, "AssignedPod", "Add", None, _placed()) == QUEUE
    assert hints.about(mine, "AssignedPod", "Add", None, _placed({"app": "web"})) == SKIP
    assert hints.about(pod(labels={"app": "web"}), "AssignedPod", "Add", None, _placed()) == SKIP


REPLICA_SET = {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(None, SKIP, id="not-there"),
        pytest.param({}, SKIP, id="no-selector"),
        pytest.param({"selector": {}}, SKIP, id="an-empty-selector"),
        pytest.param({"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, SKIP, id="unreadable"),
        pytest.param({"selector": {"matchLabels": {"app": "db"}}}, QUEUE, id="a-selector"),
    ],
)
@pytest.mark.parametrize("services", [[], [{}], [{"selector": {}}]], ids=["no-service", "no-selector", "empty"])
def test_default_constraints_need_a_selector(spec: Json | None, services: list[Json], expected: str) -> None:
    """Without one they count nothing, whatever is there of services and owners."""
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    there = [entry("Service", "s", "ns", spec=each) for each in services]
    there += [] if spec is None else [entry("ReplicaSet", "r", "ns", spec=spec)]
    hints = Hints("PodTopologySpread", there, args={"defaultConstraints": [constraint], "defaultingType": "List"})
    waiting = pod(labels={"app": "db"})
    waiting["metadata"] |= REPLICA_SET
    assert hints.about(waiting, "AssignedPod", "Delete", _placed(), None) == expected


UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Near"}]}


def test_a_constraint_that_cannot_be_read_wakes_the_pod() -> None:
    waiting = pod(topologySpreadConstraints=[_spread(labelSelector=UNREADABLE)])
    assert Hints("PodTopologySpread").about(waiting, "AssignedPod", "Add", None, _placed()) == ERROR


def test_a_service_that_comes_makes_default_constraints_count() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    # Another service selects by the same key, so that the pod's class stays as it is.
    other = entry("Service", "web", "ns", spec={"selector": {"app": "web"}})
    hints = Hints("PodTopologySpread", [other], args={"defaultConstraints": [constraint], "defaultingType": "List"})
    waiting, gone = pod(labels={"app": "db"}), _placed()
    assert hints.about(waiting, "AssignedPod", "Delete", gone, None) == SKIP
    hints.add(entry("Service", "db", "ns", spec={"selector": {"app": "db"}}))
    assert hints.about(waiting, "AssignedPod", "Delete", gone, None) == QUEUE
