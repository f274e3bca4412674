"""Incremental evaluation against evaluation from nothing: after any changes both say the same of every node."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from tests.helpers import at_once
from tests.helpers.plugin_answers import class_of
from tests.helpers.snapshot_machine import NODES, SnapshotMachine
from tests.helpers.snapshot_views import Json, SnapshotBuilder, pod_of, requesting
from trireme.evaluation import column_cache, plugin_timer
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_evaluator
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.plugins.node_affinity import filter as node_affinity
from trireme.plugins.node_name import filter as node_name
from trireme.plugins.node_ports import filter as node_ports
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import filter as node_resources_fit
from trireme.plugins.node_unschedulable import filter as node_unschedulable
from trireme.plugins.taint_toleration import filter as taint_toleration
from trireme.snapshot import classes, snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2


def _plugins() -> list[Any]:
    return [
        node_name.NodeName(),
        node_unschedulable.NodeUnschedulable(comparing=False),
        taint_toleration.TaintTolerationFilter(comparing=False),
        node_affinity.NodeAffinityFilter(),
        node_ports.NodePorts(),
        node_resources_fit.NodeResourcesFitFilter(fit_args.Args()),
    ]


def _chain() -> filter_chain.FilterChain:
    plugins = _plugins()
    return filter_chain.FilterChain(plugins)


def _affinity(key: str, operator: str, *values: str) -> Json:
    expression = {"key": key, "operator": operator, "values": list(values)}
    part = "matchFields" if key == "metadata.name" else "matchExpressions"
    terms = {"nodeSelectorTerms": [{part: [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


SPECS: list[Json] = [
    {},
    requesting(cpu="1"),
    requesting(**{"example.com/gpu": "1"}),
    {"containers": [{"ports": [{"hostPort": 80}]}]},
    {"tolerations": [{"operator": "Exists"}], **requesting(cpu="2")},
    _affinity("zone", "In", "a"),
    _affinity("zone", "DoesNotExist"),
    _affinity("metadata.name", "In", "n1"),
    _affinity("metadata.name", "In", "nobody"),
    {"nodeName": "n2"},
]
CLASSES = {number: pod_of(spec) for number, spec in enumerate(SPECS, start=1)}

node_fields = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]),
        "taints": st.sampled_from([[], [("k", "v", "NoSchedule")], [("k", "w", "NoExecute")]]),
        "unschedulable": st.booleans(),
        "allocatable": st.sampled_from(
            [{"cpu": "2", "pods": "3"}, {"cpu": "1", "pods": "9", "example.com/gpu": "1"}, {"pods": "0"}]
        ),
    },
)


def said(snap: snapshot.Snapshot, kept: class_verdicts.ClassVerdicts) -> Any:
    """What the columns say, by node, without the numbers by which they say it."""
    if kept.refusal is not None:
        return kept.refusal
    return {
        name: (
            kept.table.statuses[int(kept.index[slot]) - 1] if kept.index[slot] else None,
            int(kept.capacity[slot]),
        )
        for name, slot in sorted(snap.nodes.slot_of_name.items())
    }


class EvaluationMachine(SnapshotMachine):
    """Nodes and pods come, change and go; a caller who patches what it has must have what a newcomer is told."""

    CLASSES = CLASSES
    NODE_FIELDS = node_fields

    def __init__(self) -> None:
        super().__init__()
        self.evaluator = filter_evaluator.FilterEvaluator(self.builder.snap, {"p": _chain()})
        self.nominated: dict[str, str] = {}
        # By class: a caller's copy of the answer, and its generation.
        self.copies: dict[int, tuple[int, dict[int, tuple[int, int]]]] = {}

    def before_removal(self, name: str) -> None:
        """Nominations to the node."""
        self._denominate([uid for uid, node in self.nominated.items() if node == name])

    @rule(name=st.sampled_from(NODES), number=st.sampled_from(list(CLASSES)), uid=st.sampled_from("uvw"))
    def nominate(self, name: str, number: int, uid: str) -> None:
        """A pod is promised a node, or another one than before."""
        if name in self.alive:
            slot = self.builder.snap.nodes.slot_of_name[name]
            pod = cycle_pb2.PodIdentity(uid=uid)
            self.builder.apply(nominations=[snapshot_pb2.Nomination(pod=pod, pod_class=number, slot=slot)])
            self.nominated[uid] = name

    @rule(uid=st.sampled_from("uvw"))
    def denominate(self, uid: str) -> None:
        """A promise is taken back."""
        self._denominate([uid] if uid in self.nominated else [])

    def _denominate(self, uids: list[str]) -> None:
        if uids:
            self.builder.apply(removed_nominations=uids)
        for uid in uids:
            del self.nominated[uid]

    @rule(uid=st.sampled_from("uvw"))
    def ask_about_a_nominated_pod(self, uid: str) -> None:
        """Its own node, asked about before all others, is what it is among all of them."""
        nominee = self.builder.snap.nominations.get(uid)
        if nominee is None:
            return
        pod_class = self.builder.snap.classes[nominee.pod_class]
        cycle = cycle_pb2.Cycle(profile="p", pod_class=pod_class.id)
        cycle.pod.metadata.uid = uid
        admitted = at_once.answer(self.evaluator.admit_nominated(cycle, pod_class, plugin_timer.PluginTimer()))
        fresh = filter_evaluator.FilterEvaluator(self.builder.snap, {"p": _chain()})
        own = fresh.own_nomination_verdict(
            cycle, at_once.answer(fresh.evaluate("p", class_of(pod_class.pod, pod_class.id)))
        )
        passes = own is not None and own.passes
        assert (None if admitted is None else admitted[1]) == (nominee.slot if passes else None)

    @rule(left_out=st.sets(st.sampled_from(list(CLASSES)), max_size=3))
    def evaluate(self, left_out: set[int]) -> None:
        """Most classes are asked about."""
        for number in CLASSES.keys() - left_out:
            self._evaluate(number)

    def _evaluate(self, number: int) -> None:
        """The columns that were kept say what new ones would."""
        pod_class = self.builder.snap.classes[number]
        kept = at_once.answer(self.evaluator.evaluate("p", pod_class))
        fresh = at_once.answer(
            filter_evaluator.FilterEvaluator(self.builder.snap, {"p": _chain()}).evaluate(
                "p", class_of(pod_class.pod, number)
            )
        )
        assert said(self.builder.snap, kept) == said(self.builder.snap, fresh)
        assert kept.narrowed == fresh.narrowed
        if kept.refusal is None:
            self._patch(number, kept)

    def _patch(self, number: int, kept: class_verdicts.ClassVerdicts) -> None:
        size = self.builder.snap.nodes.size
        empty = np.flatnonzero(~self.builder.snap.nodes.alive[:size])
        assert not kept.index[empty].any()
        assert not kept.capacity[empty].any()
        known, copy = self.copies.get(number, (-1, {}))
        changed = kept.changed.since(known, size).tolist() if known >= 0 else range(size)
        copy.update({slot: (int(kept.index[slot]), int(kept.capacity[slot])) for slot in changed})
        self.copies[number] = (kept.generation, copy)
        # A slot that the copy does not know of holds no node.
        assert {slot: copy.get(slot, (0, 0)) for slot in range(size)} == {
            slot: (int(kept.index[slot]), int(kept.capacity[slot])) for slot in range(size)
        }

    def teardown(self) -> None:
        """All classes at the end."""
        if hasattr(self, "builder"):
            self.evaluate(set())


TestIncrementalEvaluation = EvaluationMachine.TestCase
TestIncrementalEvaluation.pytestmark = [pytest.mark.timeout(600)]
TestIncrementalEvaluation.settings = settings(max_examples=400, stateful_step_count=30)


def _cluster() -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for name in NODES:
        builder.set_node(name, labels={"zone": "a"})
    for number, pod in CLASSES.items():
        builder.add_class(number, pod)
    return builder


def test_only_changed_slots_are_evaluated_again() -> None:
    builder = _cluster()
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": _chain()})
    pod_class = builder.snap.classes[2]
    at_once.answer(evaluator.evaluate("p", pod_class))
    first = evaluator.statistics()
    # NodeUnschedulable, TaintToleration and NodeResourcesFit look at this class.
    assert first.slots_evaluated == 3 * len(NODES)
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert evaluator.statistics().slots_evaluated == first.slots_evaluated
    builder.place(2, "n0", "n1")
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert evaluator.statistics().slots_evaluated == first.slots_evaluated + 2
    builder.set_node("n2", labels={"zone": "b"})
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert evaluator.statistics().slots_evaluated == first.slots_evaluated + 2 + 3
    assert evaluator.statistics().first_evaluations == 1


def test_a_refusal_of_the_pod_ends_with_what_caused_it() -> None:
    builder = _cluster()
    plugin = _Moody()
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": filter_chain.FilterChain((plugin,))})
    pod_class = builder.snap.classes[1]
    assert at_once.answer(evaluator.evaluate("p", pod_class)).refusal is None
    plugin.answer = interfaces.PreFilterResult(status=status.unresolvable("Moody", "no"))
    builder.place(1, "n0")
    assert at_once.answer(evaluator.evaluate("p", pod_class)).refusal == status.unresolvable("Moody", "no")
    plugin.answer = interfaces.PreFilterResult()
    builder.place(1, "n1")
    kept = at_once.answer(evaluator.evaluate("p", pod_class))
    assert kept.refusal is None
    assert said(builder.snap, kept) == dict.fromkeys(NODES, (None, interfaces.UNLIMITED))


class _Moody:
    """A plugin that depends on everything and answers PreFilter as it is told."""

    depends_on = interfaces.Dependency.CLUSTER
    reads: tuple[str, ...] = ()

    def __init__(self, name: str = "Moody", answer: interfaces.PreFilterResult | None = None) -> None:
        self.name = name
        self.answer = answer or interfaces.PreFilterResult()

    def pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, table: interfaces.StatusTable
    ) -> interfaces.PreFilterResult:
        return self.answer

    def filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: Any, table: Any
    ) -> interfaces.Verdicts:
        return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))


def _pre_filtered(*answers: interfaces.PreFilterResult) -> class_verdicts.ClassVerdicts:
    builder = _cluster()
    plugins = [_Moody(f"P{number}", answer) for number, answer in enumerate(answers)]
    chain = filter_chain.FilterChain(plugins)
    return at_once.answer(
        filter_evaluator.FilterEvaluator(builder.snap, {"p": chain}).evaluate("p", builder.snap.classes[1])
    )


def _only(*names: str) -> interfaces.PreFilterResult:
    return interfaces.PreFilterResult(nodes=frozenset(names))


UNRESOLVABLE = interfaces.PreFilterResult(status=status.unresolvable("U", "never"))
LATER = interfaces.PreFilterResult(status=status.unschedulable("L", "not now"))
LATEST = interfaces.PreFilterResult(status=status.unschedulable("M", "not now either"))


def test_nodes_that_plugins_narrow_to_are_those_of_all_of_them() -> None:
    kept = _pre_filtered(_only("n0", "n1"), interfaces.PreFilterResult(), _only("n1", "n2"))
    assert kept.narrowed == frozenset({"n1"})
    assert [kept.table.statuses[index - 1].messages[0] if index else "" for index in kept.index[:5]] == [
        "node(s) didn't satisfy plugin(s) [P0 P2]",
        "",
        *["node(s) didn't satisfy plugin(s) [P0 P2]"] * 3,
    ]
    assert kept.capacity[:5].tolist() == [0, interfaces.UNLIMITED, 0, 0, 0]


def test_nodes_that_are_left_out_name_the_plugins_that_leave_them_out_now() -> None:
    """Also where the nodes that are left are the same as before."""
    builder, first, second = _cluster(), _Moody("P0", _only("n0")), _Moody("P1")
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": filter_chain.FilterChain((first, second))})
    for answer, named in ((_only("n0"), "P0 P1"), (_only("n0", "n1"), "P0 P1"), (interfaces.PreFilterResult(), "P0")):
        second.answer = answer
        builder.place(1, "n3")
        kept = at_once.answer(evaluator.evaluate("p", builder.snap.classes[1]))
        (message,) = kept.table.statuses[kept.index[1] - 1].messages
        assert message == f"node(s) didn't satisfy plugin(s) [{named}]"


def test_plugins_that_leave_no_node_together_refuse_the_pod() -> None:
    alone = status.unresolvable("", "node(s) didn't satisfy plugin P0", reasons=(_no_common_node("P0"),))
    assert _pre_filtered(_only()).refusal == alone
    together = "node(s) didn't satisfy plugin(s) [P0 P1] simultaneously"
    reasons = (_no_common_node("P0,P1"),)
    assert _pre_filtered(_only("n0"), _only("n1")).refusal == status.unresolvable("", together, reasons=reasons)


def _no_common_node(plugins: str) -> status.Reason:
    return status.Reason.of("noCommonNode", {"plugins": plugins})


def test_a_new_class_fits_on_the_named_nodes_that_have_room() -> None:
    """A plugin may let a node take pods, and none more of this class."""
    builder, plugin = _cluster(), _Moody("P", _only("n0", "n1", "gone"))
    room = np.array([0, 2, 5, 5, 5], dtype=np.int32)
    filtering: Any = plugin
    filtering.filter = lambda pod_class, snap, state, slots, table: interfaces.Verdicts(
        np.zeros(slots.shape[0], dtype=np.int16), room[slots]
    )
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": filter_chain.FilterChain([filtering])})
    found = at_once.answer(evaluator.evaluate_new("p", builder.snap.classes[1], plugin_timer.NO_TIMER))
    assert found is not None
    assert found.passing.tolist() == [False, True, False, False, False]
    assert at_once.answer(evaluator.evaluate_new("p", builder.snap.classes[1], plugin_timer.NO_TIMER)) is None


class _Demanding(_Moody):
    """The plugin that reads what pods request: each takes a CPU."""

    def demand(self, pod_class: classes.PodClass, state: Any) -> dict[str, int]:
        return {"cpu": 1000}


_SKIPPED, _NEITHER = interfaces.SKIPPED, interfaces.PreFilterResult()


@pytest.mark.parametrize(
    ("answer", "other", "known"),
    [
        (_NEITHER, (_SKIPPED, _SKIPPED), True),
        (_NEITHER, (_SKIPPED, _NEITHER), False),
        (_NEITHER, (_NEITHER, _SKIPPED), False),
        (_SKIPPED, (_SKIPPED, _SKIPPED), False),
        (interfaces.PreFilterResult(status=status.unschedulable("D", "no")), (_SKIPPED, _SKIPPED), False),
        (_only("n0"), (_SKIPPED, _SKIPPED), False),
    ],
)
def test_a_class_of_a_known_family_fits_where_there_is_room_if_its_requests_refuse_nothing_more(
    answer: interfaces.PreFilterResult,
    other: tuple[interfaces.PreFilterResult, interfaces.PreFilterResult],
    known: bool,
) -> None:
    """`other` is what another plugin that reads requests answers about the family's first class, and about this one."""
    builder, plugin, reading = _cluster(), _Demanding("D"), _Moody("R", other[0])
    chain = filter_chain.FilterChain([node_unschedulable.NodeUnschedulable(comparing=False), plugin, reading])
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": chain})
    reading.depends_on = plugin.depends_on = interfaces.Dependency.NODE
    at_once.answer(evaluator.evaluate("p", builder.snap.classes[2]))
    builder.set_node("n1", allocatable={"cpu": "500m", "pods": "9"})
    builder.add_class(90, pod_of(requesting(cpu="500m")))
    plugin.answer, reading.answer = answer, other[1]
    found = at_once.answer(evaluator.evaluate_new("p", builder.snap.classes[90], plugin_timer.NO_TIMER))
    assert (None if found is None else np.flatnonzero(found.passing).tolist()) == ([0, 2, 3, 4] if known else None)


def test_plugins_that_narrowed_the_nodes_are_named() -> None:
    assert _pre_filtered(_only("n0"), interfaces.PreFilterResult(), _only("n1")).narrowed_by == ("P0", "P2")
    assert _pre_filtered(_only("n0", "n1"), LATER).narrowed_by == ("P0",)
    assert _pre_filtered(_only("n0"), UNRESOLVABLE).narrowed_by == ()
    assert _pre_filtered(interfaces.PreFilterResult()).narrowed_by == ()


def test_which_refusal_of_the_pod_counts() -> None:
    assert _pre_filtered(LATER, LATEST).refusal == LATEST.status
    assert _pre_filtered(LATER, UNRESOLVABLE, LATEST).refusal == UNRESOLVABLE.status
    assert _pre_filtered(UNRESOLVABLE, LATER).refusal == UNRESOLVABLE.status
    outcome = _pre_filtered(LATER, _only()).refusal
    assert outcome == status.unresolvable("", "node(s) didn't satisfy plugin P1", reasons=(_no_common_node("P1"),))


def test_a_replaced_snapshot_is_evaluated_from_scratch() -> None:
    builder = _cluster()
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": _chain()})
    for number in CLASSES:
        at_once.answer(evaluator.evaluate("p", builder.snap.classes[number]))
    generation = builder.snap.generation
    # Another frontend numbers classes and slots by itself, and may come to the same generation.
    other = SnapshotBuilder()
    other.set_node("other", taints=[("x", "y", "NoSchedule")], allocatable={"cpu": "1", "pods": "1"})
    other.set_node("n0", labels={"zone": "b"})
    entries = [snapshot_pb2.NodeEntry(slot=slot, node=node) for slot, node in enumerate(other.objects.values())]
    moved = [snapshot_pb2.PodClass(id=number, pod=CLASSES[len(CLASSES) + 1 - number]) for number in CLASSES]
    builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=generation, nodes=entries, classes=moved))
    for number in CLASSES:
        pod_class = builder.snap.classes[number]
        fresh = at_once.answer(filter_evaluator.FilterEvaluator(builder.snap, {"p": _chain()}).evaluate("p", pod_class))
        assert said(builder.snap, at_once.answer(evaluator.evaluate("p", pod_class))) == said(builder.snap, fresh)


def test_columns_are_forgotten_beyond_the_limit_and_made_again(monkeypatch: Any) -> None:
    monkeypatch.setattr(column_cache, "COLUMN_BYTES", 0)
    monkeypatch.setattr(column_cache, "COLUMN_BYTES_PER_NODE", 0)
    monkeypatch.setattr(column_cache, "MIN_CLASSES", 3)
    builder = _cluster()
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": _chain()})
    before = {
        number: said(builder.snap, at_once.answer(evaluator.evaluate("p", builder.snap.classes[number])))
        for number in CLASSES
    }
    assert evaluator.statistics().classes <= 4
    assert evaluator.statistics().column_bytes > 0
    for number in CLASSES:
        assert (
            said(builder.snap, at_once.answer(evaluator.evaluate("p", builder.snap.classes[number]))) == before[number]
        )


def test_columns_of_all_classes_are_dropped_where_plugins_changed() -> None:
    builder, plugin = _cluster(), _Moody()
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": filter_chain.FilterChain((plugin,))})
    pod_class = builder.snap.classes[1]
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert ("p", 1) in evaluator.cached_classes
    plugin.answer = interfaces.PreFilterResult(status=status.unresolvable("Moody", "no"))
    evaluator.drop_all()
    assert ("p", 1) not in evaluator.cached_classes
    assert at_once.answer(evaluator.evaluate("p", pod_class)).refusal == status.unresolvable("Moody", "no")


def test_memory_counts_all_columns() -> None:
    verdicts = class_verdicts.ClassVerdicts()
    empty = verdicts.nbytes
    verdicts.ensure_capacity(100)
    columns = verdicts.index.nbytes + verdicts.capacity.nbytes + verdicts.changed.nbytes
    assert verdicts.nbytes == columns > empty
