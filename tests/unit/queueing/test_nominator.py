"""Nominator: who waits for which node."""

import random

import pytest

from tests.helpers.queue_builders import record
from trireme.queueing.nominator import NominatedPod, Nominator
from trireme.queueing.pod_info import PodInfo


def nominations(nominator: Nominator) -> dict[str, list[str]]:
    """UIDs by node."""
    return {node: [pod.uid for pod in nominator.pods_for(node)] for node in ("n1", "n2")}


def test_a_nomination_in_memory_counts_at_once_and_for_one_node() -> None:
    nominator = Nominator()
    nominator.nominate(record("a"), "n1")
    nominator.nominate(record("b"), "n1")
    nominator.nominate(record("a"), "n2")
    assert nominations(nominator) == {"n1": ["uid-b"], "n2": ["uid-a"]}
    assert nominator.node_of("uid-a") == "n2"
    nominator.nominate(record("a"), "")
    assert nominations(nominator) == {"n1": ["uid-b"], "n2": []}
    assert len(nominator) == 1


@pytest.mark.parametrize(
    ("old", "new", "memory", "expected"),
    [
        pytest.param("", "", "n1", "n1", id="an-update-that-names-none-keeps-the-promise"),
        pytest.param("", "n2", "n1", "n2", id="named-now"),
        pytest.param("n1", "n2", "n1", "n2", id="changed"),
        pytest.param("n1", "", "n1", "", id="taken-back"),
        pytest.param("", "", "", "", id="never-any"),
    ],
)
def test_updates_of_the_object(old: str, new: str, memory: str, expected: str) -> None:
    """The object's nomination counts unless a newer one is in memory."""
    nominator = Nominator()
    nominator.nominate(record("a"), memory)
    nominator.update(record("a", nominated_node=old), record("a", nominated_node=new))
    assert nominator.node_of("uid-a") == expected


def test_the_nomination_of_the_object_counts_where_none_is_in_memory() -> None:
    nominator = Nominator()
    nominator.nominate(record("a", nominated_node="n1"))
    assert nominations(nominator)["n1"] == ["uid-a"]


def test_a_record_shows_the_nomination_in_memory() -> None:
    """The pod's own object shows it only once the API server has it."""
    nominator = Nominator()
    nominator.nominate(record("a"), "n1")
    assert nominator.with_nomination(record("a")).nominated
    assert not nominator.with_nomination(record("b")).nominated
    assert nominator.with_nomination(record("b", nominated_node="n2")).nominated


def test_a_pod_that_is_gone_or_bound_is_not_nominated() -> None:
    nominator = Nominator(still_pending=lambda key, uid: key != "ns/gone")
    nominator.nominate(record("gone"), "n1")
    nominator.nominate(record("here"), "n1")
    nominator.delete("uid-here")
    nominator.delete("uid-here")
    assert nominations(nominator) == {"n1": [], "n2": []}


def test_a_recreated_pod_does_not_inherit_the_nomination() -> None:
    nominator = Nominator()
    nominator.nominate(record("a"), "n1")
    nominator.update(record("a"), record("a", uid="other"))
    assert nominations(nominator) == {"n1": [], "n2": []}


def test_a_listener_gets_each_change_of_nominations_once() -> None:
    changes: list[tuple[str, str, str]] = []

    def on_change(pod: NominatedPod, before: str, after: str) -> None:
        changes.append((pod.uid, before, after))

    nominator = Nominator(on_change=on_change)
    nominator.nominate(record("a"), "n1")
    nominator.nominate(record("a"), "n1")
    nominator.nominate(record("a", priority=5), "n1")
    nominator.nominate(record("a"), "n2")
    nominator.nominate(record("b"), "")
    nominator.delete("uid-a")
    assert changes == [
        ("uid-a", "", "n1"),
        ("uid-a", "n1", "n1"),
        ("uid-a", "n1", "n2"),
        ("uid-a", "n2", ""),
    ]


def test_a_hidden_nomination_reappears_in_its_current_state() -> None:
    """Members of a group would stand in each other's way, or their promises be forgotten or counted twice later."""
    changes: list[tuple[str, str, str]] = []
    nominator = Nominator(on_change=lambda pod, before, after: changes.append((pod.uid, before, after)))
    for name in "abc":
        nominator.nominate(record(name), "n1")
    nominator.nominate(record("other"), "n1")
    changes.clear()
    nominator.withhold(("uid-a", "uid-b", "uid-c", "uid-d"))
    assert sorted(changes) == [("uid-a", "n1", ""), ("uid-b", "n1", ""), ("uid-c", "n1", "")]
    assert nominator.node_of("uid-a") == "n1"
    changes.clear()
    nominator.delete("uid-a")
    nominator.nominate(record("b"), "n2")
    nominator.nominate(record("d"), "n2")
    nominator.delete("uid-other")
    assert changes == [("uid-other", "n1", "")]
    changes.clear()
    nominator.restore_withheld()
    assert sorted(changes) == [("uid-b", "", "n2"), ("uid-c", "", "n1"), ("uid-d", "", "n2")]


class Model:
    """A nominator, a mirror that follows it, and which nominations there should be."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.pending = set("abc")
        self.withheld: set[str] = set()
        self.mirror: dict[str, tuple[str, int]] = {}
        self.expected: dict[str, tuple[str, int]] = {}
        self.nominator = Nominator(lambda key, uid: key.removeprefix("ns/") in self.pending, self._on_change)

    def _on_change(self, pod: NominatedPod, before: str, after: str) -> None:
        assert before or after
        assert self.mirror.pop(pod.uid, ("", 0))[0] == before
        if after:
            self.mirror[pod.uid] = after, pod.class_id

    def step(self) -> None:
        pod = record(self.draw.choice("abc"), self.draw.choice((1, 2)), nominated_node=self.draw.choice(("", "n1")))
        self.draw.choice((self._nominate, self._nominate, self._update, self._delete, self._withhold, self._bind))(pod)
        self._check()

    def _expect(self, pod: PodInfo, node: str) -> None:
        """The pod keeps its place among those of the node if it is nominated as before."""
        if not node or pod.key.removeprefix("ns/") not in self.pending:
            self.expected.pop(pod.uid, None)
        elif self.expected.get(pod.uid) != (node, pod.class_id):
            self.expected.pop(pod.uid, None)
            self.expected[pod.uid] = node, pod.class_id

    def _nominate(self, pod: PodInfo) -> None:
        node = self.draw.choice(("", "n1", "n2", None))
        self.nominator.nominate(pod, node)
        self._expect(pod, pod.nominated_node if node is None else node)

    def _update(self, pod: PodInfo) -> None:
        old = pod._replace(nominated_node=self.draw.choice(("", "n1")))
        self.nominator.update(old, pod)
        named = old.nominated_node or pod.nominated_node
        self._expect(pod, pod.nominated_node if named else self.expected.get(pod.uid, ("", 0))[0])

    def _delete(self, pod: PodInfo) -> None:
        self.nominator.delete(pod.uid)
        self.expected.pop(pod.uid, None)

    def _withhold(self, pod: PodInfo) -> None:
        if self.withheld:
            self.nominator.restore_withheld()
            self.withheld = set()
        else:
            self.withheld = {pod.uid, "uid-a"}
            self.nominator.withhold(self.withheld)

    def _bind(self, pod: PodInfo) -> None:
        self.pending ^= {pod.key.removeprefix("ns/")}

    def _check(self) -> None:
        assert len(self.nominator) == len(self.expected)
        for name in "abc":
            assert self.nominator.node_of(f"uid-{name}") == self.expected.get(f"uid-{name}", ("", 0))[0]
        for node in ("n1", "n2"):
            found = [(pod.uid, pod.class_id) for pod in self.nominator.pods_for(node)]
            assert found == [(uid, class_id) for uid, (there, class_id) in self.expected.items() if there == node]
        assert self.mirror == {uid: each for uid, each in self.expected.items() if uid not in self.withheld}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_the_mirror_has_the_nominations_that_are_not_withheld(seed: int) -> None:
    model = Model(seed)
    for _ in range(200):
        model.step()


def test_the_object_of_a_pod_that_was_made_again_nominates_it() -> None:
    nominator = Nominator()
    nominator.nominate(record("a"), "n1")
    nominator.update(record("a"), record("a", uid="other", nominated_node="n2"))
    assert nominations(nominator) == {"n1": [], "n2": ["other"]}
