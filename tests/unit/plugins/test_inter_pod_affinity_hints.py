"""What wakes pods that InterPodAffinity refused."""

from typing import Any

import pytest

from tests.helpers.hint_answers import ERROR, QUEUE, SKIP, Hints, entry, node, nominated, on, pod

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
            SKIP,
            id="selected-namespaces-are-not-looked-up",
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
