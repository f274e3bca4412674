"""What wakes pods that InterPodAffinity refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import ERROR, QUEUE, SKIP, Hints, entry, node, nominated, on, pod
from trireme.framework import feature_gates

Json = dict[str, Any]


def _term(labels: Json | None = None, key: str = "zone", **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": labels or {"app": "db"}}, "topologyKey": key, **more}


def _likes(*terms: Json, **more: Any) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms or [_term()])}
    return pod(affinity={"podAffinity": required}, **more)


def _dislikes(*terms: Json, name: str = "p", **more: Any) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms or [_term()])}
    return pod(name, affinity={"podAntiAffinity": required}, **more)


def _placed(labels: Json | None = None, **more: Any) -> Json:
    return on("n", pod("q", labels=labels or {"app": "db"}, **more))


BOTH = (_term({"app": "db"}), _term({"tier": "x"}))


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(_likes(), None, _placed(), QUEUE, id="one-it-likes-came"),
        pytest.param(_likes(), None, _placed({"app": "web"}), SKIP, id="another-came"),
        pytest.param(_likes(), None, pod("q", labels={"app": "db"}), SKIP, id="one-without-a-node"),
        pytest.param(_likes(), None, nominated("n", pod("q", labels={"app": "db"})), QUEUE, id="a-promised-one"),
        pytest.param(_likes(), None, _placed(namespace="other"), SKIP, id="in-another-namespace"),
        pytest.param(_likes(*BOTH), None, _placed(), SKIP, id="not-all-terms"),
        pytest.param(_likes(*BOTH), None, _placed({"app": "db", "tier": "x"}), QUEUE, id="all-terms"),
        pytest.param(_dislikes(), None, _placed(), SKIP, id="one-it-dislikes-came"),
        pytest.param(_likes(), _placed({"app": "web"}), _placed(), QUEUE, id="became-liked"),
        pytest.param(_likes(), _placed(), _placed({"app": "db", "a": "b"}), SKIP, id="was-liked"),
        pytest.param(_likes(), _placed(), _placed({"app": "web"}), SKIP, id="is-liked-no-more"),
        pytest.param(_dislikes(), _placed(), _placed({"app": "web"}), QUEUE, id="is-disliked-no-more"),
        pytest.param(
            _dislikes(*BOTH), _placed({"app": "db", "tier": "x"}), _placed(), SKIP, id="still-disliked-by-one-term"
        ),
        pytest.param(_dislikes(*BOTH), _placed(), _placed({"app": "web"}), QUEUE, id="was-disliked-by-one-term"),
        pytest.param(_dislikes(), _placed(), None, QUEUE, id="disliked-one-left"),
        pytest.param(_dislikes(*BOTH), _placed(), None, QUEUE, id="one-disliked-by-one-term-left"),
        pytest.param(_dislikes(), _placed({"app": "web"}), None, SKIP, id="another-left"),
        pytest.param(_likes(), _placed(), None, SKIP, id="liked-one-left"),
        pytest.param(_dislikes(), pod("q", labels={"app": "db"}), None, SKIP, id="disliked-one-without-a-node-left"),
        pytest.param(
            pod(labels={"app": "db"}), on("n", _dislikes(name="q")), None, QUEUE, id="one-that-disliked-it-left"
        ),
        pytest.param(pod(labels={"app": "web"}), on("n", _dislikes(name="q")), None, SKIP, id="one-that-did-not-left"),
        pytest.param(_likes(_term(labelSelector={})), None, _placed({}), QUEUE, id="an-empty-selector"),
        pytest.param(_likes({"topologyKey": "zone"}), None, _placed(), SKIP, id="no-selector"),
        pytest.param(_dislikes(_term(labelSelector={})), _placed({}), None, QUEUE, id="an-empty-selector-of-one-left"),
        pytest.param(_dislikes({"topologyKey": "zone"}), _placed(), None, SKIP, id="no-selector-of-one-that-left"),
        pytest.param(pod(), on("n", _dislikes({"topologyKey": "zone"}, name="q")), None, SKIP, id="it-had-no-selector"),
        pytest.param(
            _likes(_term(namespaces=["other"])), None, _placed(namespace="other"), QUEUE, id="in-a-named-namespace"
        ),
        pytest.param(
            _likes(_term(namespaceSelector={})), None, _placed(namespace="other"), QUEUE, id="in-any-namespace"
        ),
        pytest.param(
            _likes(_term(namespaceSelector={"matchLabels": {"team": "a"}})),
            None,
            _placed(namespace="other"),
            QUEUE,
            id="in-a-selected-namespace",
        ),
    ],
)
def test_inter_pod_affinity(waiting: Json, old: Json | None, new: Json | None, expected: str) -> None:
    """Only pods that match a term wake the pod."""
    action = "Add" if old is None else "Delete" if new is None else "UpdatePodLabel"
    objects = [entry("Namespace", "other", metadata={"labels": {"team": "a"}})]
    assert Hints("InterPodAffinity", objects).about(waiting, "AssignedPod", action, old, new) == expected


Z1, Z2, NOWHERE = node(labels={"zone": "z1"}), node(labels={"zone": "z2"}), node()


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(_likes(), None, Z1, QUEUE, id="likes-new"),
        pytest.param(_likes(), None, NOWHERE, SKIP, id="likes-new-without-the-key"),
        pytest.param(_likes(), NOWHERE, Z1, QUEUE, id="likes-gets-the-key"),
        pytest.param(_likes(), Z1, Z2, QUEUE, id="likes-moved"),
        pytest.param(_likes(), Z1, Z1, SKIP, id="likes-same"),
        pytest.param(_likes(), Z1, NOWHERE, SKIP, id="likes-loses-the-key"),
        pytest.param(_dislikes(), None, NOWHERE, QUEUE, id="dislikes-new"),
        pytest.param(_dislikes(), NOWHERE, Z1, SKIP, id="dislikes-gets-the-key"),
        pytest.param(_dislikes(), Z1, NOWHERE, QUEUE, id="dislikes-loses-the-key"),
        pytest.param(_dislikes(), Z1, Z2, QUEUE, id="dislikes-moved"),
        pytest.param(_dislikes(), Z1, Z1, SKIP, id="dislikes-same"),
        pytest.param(pod(), None, Z1, SKIP, id="indifferent"),
    ],
)
def test_inter_pod_affinity_and_nodes(waiting: Json, old: Json | None, new: Json, expected: str) -> None:
    """Only nodes with the topology key wake the pod."""
    action = "Add" if old is None else "UpdateNodeLabel"
    assert Hints("InterPodAffinity").about(waiting, "Node", action, old, new) == expected


UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Near"}]}


def test_a_term_that_cannot_be_read_wakes_the_pod() -> None:
    waiting = _likes({"labelSelector": UNREADABLE, "topologyKey": "zone"})
    assert Hints("InterPodAffinity").about(waiting, "AssignedPod", "Add", None, _placed()) == ERROR


TEAM_A = {"matchLabels": {"team": "a"}}
NOT_A = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
FEATURES = {feature_gates.CORRECTED: True}


def _namespace(labels: Json | None = None, name: str = "other") -> Json:
    return entry("Namespace", name, metadata={"labels": labels or {}})


@pytest.mark.parametrize(
    ("waiting", "old", "new", "labels", "expected"),
    [
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), False, True, {"team": "a"}, QUEUE, id="liked-added"),
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), False, True, {"team": "b"}, SKIP, id="not-selected"),
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), False, True, None, QUEUE, id="namespace-unknown"),
        pytest.param(
            _likes(_term({"app": "web"}, namespaceSelector=TEAM_A)), False, True, None, SKIP, id="unknown-but-unlike"
        ),
        pytest.param(_dislikes(_term(namespaceSelector=TEAM_A)), True, False, {"team": "a"}, QUEUE, id="disliked-gone"),
        pytest.param(_dislikes(_term(namespaceSelector=NOT_A)), True, False, {"team": "a"}, SKIP, id="excluded-gone"),
        pytest.param(_dislikes(_term(namespaceSelector=NOT_A)), True, False, {"team": "b"}, QUEUE, id="included-gone"),
        pytest.param(_likes(_term(namespaceSelector=NOT_A)), False, True, {"team": "a"}, SKIP, id="excluded-added"),
    ],
)
def test_the_labels_of_the_pods_namespace_decide(
    waiting: Json, old: bool, new: bool, labels: Json | None, expected: str
) -> None:
    """kubernetes/kubernetes#141953, kubernetes/kubernetes#141954, kubernetes/kubernetes#141526."""
    placed = _placed(namespace="other")
    objects = [] if labels is None else [_namespace(labels)]
    action = "Add" if new else "Delete"
    sides = placed if old else None, placed if new else None
    assert Hints("InterPodAffinity", objects).about(waiting, "AssignedPod", action, *sides) == expected


def test_a_pod_that_left_is_judged_by_the_waiting_pods_namespace() -> None:
    """kubernetes/kubernetes#141526: what the gone pod's anti-affinity excludes was not kept out by it."""
    gone = on("n", _dislikes(_term(namespaceSelector=NOT_A), name="q", namespace="other"))
    waiting = pod(labels={"app": "db"})
    for labels, expected in (({"team": "a"}, SKIP), ({"team": "b"}, QUEUE)):
        hints = Hints("InterPodAffinity", [_namespace(labels, "ns")])
        assert hints.about(waiting, "AssignedPod", "Delete", gone, None) == expected


@pytest.mark.parametrize(
    ("waiting", "old", "new", "expected"),
    [
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), {}, {"team": "a"}, QUEUE, id="liked-is-selected"),
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), None, {"team": "a"}, QUEUE, id="liked-is-there"),
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), {"team": "a"}, {}, SKIP, id="liked-is-no-more"),
        pytest.param(_likes(_term(namespaceSelector=TEAM_A)), {}, {"team": "b"}, SKIP, id="other-label"),
        pytest.param(_dislikes(_term(namespaceSelector=TEAM_A)), {"team": "a"}, {}, QUEUE, id="disliked-is-no-more"),
        pytest.param(_dislikes(_term(namespaceSelector=TEAM_A)), {}, {"team": "a"}, SKIP, id="disliked-is-selected"),
        pytest.param(_dislikes(_term(namespaceSelector=TEAM_A)), None, {}, SKIP, id="disliked-is-not-there"),
        pytest.param(pod(namespace="other"), {}, {"team": "a"}, QUEUE, id="its-own-namespace"),
        pytest.param(pod(namespace="other"), {"team": "a"}, {"team": "a"}, SKIP, id="same-labels"),
        pytest.param(_likes(), {}, {"team": "a"}, SKIP, id="no-namespace-selector"),
    ],
)
def test_other_labels_of_a_namespace_wake_the_pods_that_select_by_them(
    waiting: Json, old: Json | None, new: Json, expected: str
) -> None:
    """kubernetes/kubernetes#141953: the pod waited for the flush after five minutes."""
    before = None if old is None else _namespace(old)
    hints = Hints("InterPodAffinity", [_namespace(new)], FEATURES)
    assert hints.about(waiting, "Namespace", "Add" if old is None else "Update", before, _namespace(new)) == expected
    assert Hints("InterPodAffinity").about(waiting, "Namespace", "Update", before, _namespace(new)) == ""


SELF = {"app": "db"}
AFAR = _term(namespaceSelector=TEAM_A, namespaces=["ns"])


@pytest.mark.parametrize(
    ("waiting", "resource", "old", "new", "expected"),
    [
        pytest.param(_likes(labels=SELF), "AssignedPod", _placed(), None, QUEUE, id="last-one-left"),
        pytest.param(_likes(), "AssignedPod", _placed(), None, SKIP, id="it-is-none-itself"),
        pytest.param(_likes(*BOTH, labels=SELF), "AssignedPod", _placed(), None, SKIP, id="half-of-its-own-terms"),
        pytest.param(_likes(labels=SELF), "AssignedPod", _placed({"app": "web"}), None, SKIP, id="another-left"),
        pytest.param(_likes(labels=SELF), "AssignedPod", _placed(), _placed({"app": "web"}), QUEUE, id="relabelled"),
        pytest.param(_likes(labels=SELF), "AssignedPod", _placed(), _placed({**SELF, "a": "b"}), SKIP, id="still-one"),
        pytest.param(_likes(labels=SELF), "Node", Z1, NOWHERE, QUEUE, id="its-node-left-the-domain"),
        pytest.param(_likes(labels=SELF), "Node", Z1, None, QUEUE, id="its-node-left"),
        pytest.param(_likes(labels=SELF), "Node", NOWHERE, None, SKIP, id="a-node-of-no-domain-left"),
        pytest.param(_likes(labels=SELF), "Node", Z1, Z1, SKIP, id="same-node"),
        pytest.param(_likes(), "Node", Z1, None, SKIP, id="not-for-others"),
        pytest.param(
            _likes(AFAR, labels=SELF), "Namespace", _namespace({"team": "a"}), _namespace(), QUEUE, id="deselected"
        ),
    ],
)
def test_a_pod_that_may_be_the_first_is_woken_when_the_last_one_goes(
    waiting: Json, resource: str, old: Json, new: Json | None, expected: str
) -> None:
    """kubernetes/kubernetes#141354: the replacement of a drained pod slept until the flush; kube-scheduler skips it."""
    update = {"AssignedPod": "UpdatePodLabel", "Node": "UpdateNodeLabel", "Namespace": "Update"}[resource]
    action = update if new is not None else "Delete"
    assert Hints("InterPodAffinity", features=FEATURES).about(waiting, resource, action, old, new) == expected
    assert Hints("InterPodAffinity").about(waiting, resource, action, old, new) in (SKIP, "")


@pytest.mark.parametrize(
    ("waiting", "gone", "expected"),
    [
        pytest.param(_dislikes(), Z1, QUEUE, id="of-a-domain-of-the-term"),
        pytest.param(_dislikes(), NOWHERE, SKIP, id="of-no-domain"),
        pytest.param(_likes(), Z1, SKIP, id="not-kept-away"),
    ],
)
def test_a_pod_that_was_kept_away_by_pods_of_a_node_is_woken_when_the_node_goes(
    waiting: Json, gone: Json, expected: str
) -> None:
    """The pods of a node that is gone keep nobody away from its domain: it may be long until they are deleted."""
    assert Hints("InterPodAffinity", features=FEATURES).about(waiting, "Node", "Delete", gone, None) == expected
    assert Hints("InterPodAffinity").about(waiting, "Node", "Delete", gone, None) == ""
