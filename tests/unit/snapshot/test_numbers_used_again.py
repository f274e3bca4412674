"""Classes and values of labels come and go, and their places are used again: a replica stays one that is built anew."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.helpers import at_once, changed_clusters
from tests.helpers.snapshot_views import SnapshotBuilder, node_of, pod_of, requesting, view
from trireme.evaluation import class_priorities
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_evaluator, nominated_pods
from trireme.evaluation.preemption import potential_victims
from trireme.evaluation.scoring import class_scores, score_chain, score_evaluator
from trireme.registry import filter_plugins, score_plugins
from trireme.snapshot import class_counters, dictionary, overlay, snapshot
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

FILTERS = (*changed_clusters.PLUGINS, "TaintToleration", "NodeAffinity", "NodeDeclaredFeatures")
SCORERS = ("TaintToleration", "InterPodAffinity", "PodTopologySpread", "NodeResourcesFit")
SLOTS = st.integers(0, 4)


def _filter_chain() -> filter_chain.FilterChain:
    plugins: list[Any] = [filter_plugins.make_filter_plugin(name, b"{}", {}) for name in FILTERS]
    return filter_chain.FilterChain([each for each in plugins if each is not None])


def _score_chain() -> score_chain.ScoreChain:
    plugins: list[Any] = [score_plugins.make_score_plugin(name, b"{}", {}) for name in SCORERS]
    return score_chain.ScoreChain(dict.fromkeys(SCORERS, 1), plugins)


class Replica:
    """A snapshot and what is cached of it, as in filter and score."""

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.snap = snap
        self._filter = filter_evaluator.FilterEvaluator(snap, {"p": _filter_chain()})
        self._scores = score_evaluator.ScoreEvaluator(snap, {"p": _score_chain()})

    def verdicts(self, number: int) -> Any:
        """What Filter answers about a class, by node."""
        found: class_verdicts.ClassVerdicts = at_once.answer(self._filter.evaluate("p", self.snap.classes[number]))
        if found.refusal is not None:
            return found.refusal
        statuses = found.table.statuses
        return {
            name: (statuses[int(found.index[slot]) - 1] if found.index[slot] else None, int(found.capacity[slot]))
            for name, slot in self.snap.nodes.slot_of_name.items()
        }

    def scores(self, number: int) -> Any:
        """What each plugin scores the nodes for a class."""
        pod_class = self.snap.classes[number]
        found = at_once.answer(self._scores.evaluate("p", pod_class))
        assert isinstance(found, class_scores.ClassScores)
        slots, out, joint = self.snap.nodes.live_slots(), {}, _score_chain().joint
        for name, column in found.plugins.items():
            if column.state is None:
                continue
            if name not in joint:
                out[name] = column.raw[slots].tolist()
            elif slots.size:
                scored = joint[name].joint(pod_class, self.snap, column.state, slots)
                scored.set_feasible(np.ones(slots.shape[0], dtype=np.bool_))
                out[name] = scored.raw_scores().tolist()
        return out

    def by_class(self, priority: int) -> Any:
        """What is read of arrays over classes: victims and nominated pods of a priority, and pods by class."""
        nodes = self.snap.nodes
        victims = potential_victims.rows_on_slots(self.snap, nodes.live_slots(), priority=priority)
        nominees = nominated_pods.nominees_of_at_least(self.snap, priority)
        pods = {number: self.snap.count_pods(self.snap.class_mask([number])).tolist() for number in self.snap.classes}
        placed = [column.tolist() for column in self.snap.placed_pods(self.snap.class_mask(list(self.snap.classes)))]
        return sorted(victims.tolist()), nominees.class_ids.tolist(), nominees.slots.tolist(), pods, placed


class ReuseMachine(RuleBasedStateMachine):
    """A replica, forks of it, and the cluster as it is, from which a snapshot is built anew to compare."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes: dict[int, core_pb2.Node] = {}
        self.classes: dict[int, core_pb2.Pod] = {}
        self.pods: dict[int, tuple[int, int, int]] = {}  # by row: class, slot, flags
        self.nominations: dict[str, tuple[int, int]] = {}  # by UID: class, slot
        self.names = self.numbers = self.rows = 0
        self.objects = list(changed_clusters.claims_and_volumes())
        self.generation = 1
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(dictionary, "SLACK", 1)
        self._patch.setattr(snapshot, "SPARE_CLASSES", 0)
        self.replicas = [self._built_anew()]

    def teardown(self) -> None:
        """All answers at the end."""
        try:
            for which in range(len(self.replicas)):
                for number in self.classes:
                    self.ask(which, number, 0)
                self.everything_is_the_same(which)
        finally:
            self._patch.undo()

    # The cluster

    @rule(slot=SLOTS, zone=st.integers(0, 2), taint=st.sampled_from(["", "NoSchedule", "PreferNoSchedule"]))
    def replace_node(self, slot: int, zone: int, taint: str) -> None:
        """A node that is like no other takes the place of one, whose pods are removed."""
        self.names += 1
        name = f"n{self.names}"
        labels = {changed_clusters.HOST: name, changed_clusters.ZONE: f"z{(self.names + zone) // 3}"}
        fields = {
            "labels": labels,
            "features": [name],
            "allocatable": {"cpu": "6", "example.com/gpu": "2", "pods": "8"},
        }
        gone = [row for row, (_, at, _) in self.pods.items() if at == slot]
        waiting = [uid for uid, (_, at) in self.nominations.items() if at == slot]
        removed = [slot] if slot in self.nodes else []
        self._apply(removed_pods=gone, removed_nominations=waiting, removed_slots=removed)
        self.nodes[slot] = node_of(name, taints=[("t", name, taint)] if taint else [], **fields)
        self.objects.append(changed_clusters.csi_node(name, 1))
        for row in gone:
            del self.pods[row]
        for uid in waiting:
            del self.nominations[uid]
        entry = snapshot_pb2.NodeEntry(slot=slot, node=self.nodes[slot])
        self._apply(nodes=[entry], objects=self.objects[-1:])

    @rule(pod=changed_clusters.pods_of_all_kinds(), priority=st.integers(0, 3))
    def add_class(self, pod: core_pb2.Pod, priority: int) -> None:
        """A class comes."""
        self.numbers += 1
        pod.spec.priority = priority
        self.classes[self.numbers] = pod
        self._apply(classes=[snapshot_pb2.PodClass(id=self.numbers, pod=pod)])

    @precondition(lambda self: self.classes)
    @rule(data=st.data(), keep_nominated=st.booleans())
    def remove_class(self, data: st.DataObject, keep_nominated: bool) -> None:
        """A class goes with its last pods; a nomination may still name it."""
        self._remove_class(data.draw(st.sampled_from(sorted(self.classes))), keep_nominated)

    def _remove_class(self, number: int, keep_nominated: bool) -> None:
        gone = [row for row, (of, _, _) in self.pods.items() if of == number]
        waiting = [uid for uid, (of, _) in self.nominations.items() if of == number and not keep_nominated]
        for row in gone:
            del self.pods[row]
        for uid in waiting:
            del self.nominations[uid]
        del self.classes[number]
        self._apply(removed_pods=gone, removed_nominations=waiting, removed_classes=[number])

    @precondition(lambda self: self.classes and self.nodes)
    @rule(data=st.data(), pod=changed_clusters.pods_of_all_kinds(), asked_between=st.booleans())
    def replace_class(self, data: st.DataObject, pod: core_pb2.Pod, asked_between: bool) -> None:
        """A class goes, and another one, which takes its place, has a pod wherever that one had one."""
        number = data.draw(st.sampled_from(sorted(self.classes)))
        places = [(slot, flags) for of, slot, flags in self.pods.values() if of == number]
        self._remove_class(number, keep_nominated=True)
        if asked_between and self.classes:
            self.ask(0, min(self.classes), 0)
        self.add_class(pod, number % 3)
        self._place({self.rows + place: (self.numbers, *where) for place, where in enumerate(places)})
        self.ask(0, min(self.classes), 0)

    @precondition(lambda self: self.classes and self.nodes)
    @rule(data=st.data(), count=st.integers(1, 20), terminating=st.booleans())
    def place(self, data: st.DataObject, count: int, terminating: bool) -> None:
        """Pods of classes that were drawn are placed."""
        number = data.draw(st.sampled_from(sorted(self.classes)))
        slot = data.draw(st.sampled_from(sorted(self.nodes)))
        self._place({self.rows + place: (number, slot, int(terminating)) for place in range(count)})

    def _place(self, pods: dict[int, tuple[int, int, int]]) -> None:
        self.rows += len(pods)
        self.pods.update(pods)
        self._apply(pods=_columns(pods))

    @precondition(lambda self: self.pods and self.classes)
    @rule(data=st.data())
    def move_to_another_class(self, data: st.DataObject) -> None:
        """A label of a pod begins to count."""
        row = data.draw(st.sampled_from(sorted(self.pods)))
        number = data.draw(st.sampled_from(sorted(self.classes)))
        self.pods[row] = (number, *self.pods[row][1:])
        self._apply(pods=_columns({row: self.pods[row]}))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove_pods(self, data: st.DataObject) -> None:
        """Pods end."""
        gone = data.draw(st.lists(st.sampled_from(sorted(self.pods)), min_size=1, max_size=20, unique=True))
        for row in gone:
            del self.pods[row]
        self._apply(removed_pods=gone)

    @precondition(lambda self: self.classes and self.nodes)
    @rule(data=st.data(), uid=st.sampled_from("uvw"))
    def nominate(self, data: st.DataObject, uid: str) -> None:
        """A pod is nominated."""
        number = data.draw(st.sampled_from(sorted(self.classes)))
        self.nominations[uid] = number, data.draw(st.sampled_from(sorted(self.nodes)))
        self._apply(nominations=_nominations({uid: self.nominations[uid]}))

    @precondition(lambda self: len(self.replicas) < 3)
    @rule(which=st.integers(0, 2))
    def fork(self, which: int) -> None:
        """A fork goes on from here: it shares classes and dictionaries with its origin."""
        snap = self.replicas[which % len(self.replicas)].snap
        with overlay.SnapshotOverlay(snap, overlay.Semantics.HYPOTHETICAL) as over:
            self.replicas.append(Replica(over.fork()))

    # What must hold

    @precondition(lambda self: self.classes)
    @rule(which=st.integers(0, 2), data=st.data(), priority=st.integers(0, 3))
    def answer(self, which: int, data: st.DataObject, priority: int) -> None:
        """One replica evaluates one class; what is cached of others, and in the other replicas, falls behind."""
        self.ask(which % len(self.replicas), data.draw(st.sampled_from(sorted(self.classes))), priority)

    def ask(self, which: int, number: int, priority: int) -> None:
        """The replica answers as one that is built anew."""
        replica, anew = self.replicas[which], self._built_anew()
        assert replica.verdicts(number) == anew.verdicts(number)
        assert replica.scores(number) == anew.scores(number)
        assert replica.by_class(priority) == anew.by_class(priority)

    @rule(which=st.integers(0, 2))
    def look(self, which: int) -> None:
        """As `everything_is_the_same`, of one replica."""
        self.everything_is_the_same(which % len(self.replicas))

    def everything_is_the_same(self, which: int) -> None:
        """The replica's columns are those of one that is built anew, and not larger than what there is."""
        snap = self.replicas[which].snap
        assert view(snap) == view(self._built_anew().snap)
        for key in snap.nodes.labels.keys:
            assert len(snap.nodes.labels.column(key).dictionary) <= 2 * len(self.nodes) + 4
        assert len(snap.nodes.taint_sets) <= 2 * len(self.nodes) + 4
        assert len(snap.nodes.feature_sets) <= 2 * len(self.nodes) + 4
        indices = [each.index for each in snap.classes.values()]
        assert len(set(indices)) == len(indices)
        assert snap.class_capacity > max(indices, default=0)

    def _apply(self, **fields: Any) -> None:
        self.generation += 1
        for replica in self.replicas:
            replica.snap.apply(
                snapshot_pb2.Delta(from_generation=self.generation - 1, to_generation=self.generation, **fields)
            )

    def _built_anew(self) -> Replica:
        snap = snapshot.Snapshot()
        delta = snapshot_pb2.Delta(
            reset=True,
            to_generation=self.generation,
            classes=[snapshot_pb2.PodClass(id=number, pod=pod) for number, pod in self.classes.items()],
            nodes=[snapshot_pb2.NodeEntry(slot=slot, node=node) for slot, node in self.nodes.items()],
            objects=self.objects,
            nominations=_nominations(self.nominations),
        )
        if self.pods:
            delta.pods.CopyFrom(_columns(self.pods))
        snap.apply(delta)
        return Replica(snap)


def _columns(pods: dict[int, tuple[int, int, int]]) -> snapshot_pb2.PodColumns:
    return snapshot_pb2.PodColumns(
        row=pods,
        pod_class=[number for number, _, _ in pods.values()],
        slot=[slot for _, slot, _ in pods.values()],
        uid=[f"uid-{row}" for row in pods],
        name=[f"pod-{row}" for row in pods],
        start_time_s=[0] * len(pods),
        flags=[flags for _, _, flags in pods.values()],
    )


def _nominations(nominated: dict[str, tuple[int, int]]) -> list[snapshot_pb2.Nomination]:
    return [
        snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=uid), pod_class=number, slot=slot)
        for uid, (number, slot) in nominated.items()
    ]


TestNumbersUsedAgain = ReuseMachine.TestCase
TestNumbersUsedAgain.pytestmark = [pytest.mark.timeout(600)]
TestNumbersUsedAgain.settings = settings(
    max_examples=200, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def _come_and_go(builder: SnapshotBuilder, numbers: range) -> None:
    """Classes come, each with a pod for a while, and go, those that are gone longest first."""
    for number in numbers:
        builder.add_class(number, pod_of(requesting(cpu="1"), labels={"app": f"app-{number}"}))
        builder.remove(*builder.place(number, "n0"))
        builder.apply(removed_classes=[number])


def test_arrays_over_classes_hold_those_that_exist_and_some_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each class costs 8 bytes in each counter, and is released with the class."""
    monkeypatch.setattr(snapshot, "SPARE_CLASSES", 10)
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.add_class(1, pod_of())
    _come_and_go(builder, range(2, 500))
    assert builder.snap.class_capacity == 1 + 1 + 10 + 1
    builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=builder.snap.generation))
    assert builder.snap.class_capacity == 1


def test_a_counter_counts_all_pods_again_only_if_it_was_not_used_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[object] = []
    recount = class_counters.ClassCounter._recount_under_keys
    monkeypatch.setattr(
        class_counters.ClassCounter,
        "_recount_under_keys",
        lambda self, snap, keys: counted.append(keys) or recount(self, snap, keys),
    )
    monkeypatch.setattr(snapshot, "SPARE_CLASSES", 20)
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.add_class(1, pod_of())
    builder.place(1, "n0", "n0")
    counter = class_counters.class_counter(builder.snap, "all", lambda pod_class: {"": 1})
    for begin in range(2, 200, 20):
        _come_and_go(builder, range(begin, begin + 20))
        counter.base.refresh(builder.snap)
        assert counter.at_slots("", 1).tolist() == [2]
    assert len(counted) == 1, "at first all are counted, and then changes"
    _come_and_go(builder, range(202, 300))
    counter.base.refresh(builder.snap)
    assert counter.at_slots("", 1).tolist() == [2]
    assert len(counted) == 2


def test_a_class_that_is_gone_has_no_priority_though_another_one_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "SPARE_CLASSES", 0)
    builder = SnapshotBuilder()
    builder.add_class(7, pod_of({"priority": 5}))
    builder.apply(removed_classes=[7])
    assert builder.snap.highest_class == 7, "a number is given once"
    builder.add_class(8, pod_of({"priority": 9}))
    assert builder.snap.highest_class == 8
    builder.add_class(2, pod_of())
    assert builder.snap.highest_class == 8
    assert builder.snap.classes[8].index == 1
    found = class_priorities.class_priorities_of(builder.snap).of_numbers(np.array([8, 7, 9, 1], dtype=np.int32))
    assert found.tolist() == [9, *[class_priorities._UNKNOWN] * 3]


def test_a_class_of_the_same_number_keeps_its_place() -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.place(1, "n0")
    builder.add_class(1, pod_of(requesting(cpu="1")))
    builder.add_class(2, pod_of(requesting(cpu="1")))
    assert builder.snap.count_pods(builder.snap.class_mask([1])).tolist() == [1]
