"""Incremental scoring against scoring from nothing: after any changes both give every node the same raw scores."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import rule

from tests.helpers import at_once
from tests.helpers.plugin_answers import class_of
from tests.helpers.snapshot_machine import NODES, SnapshotMachine
from tests.helpers.snapshot_views import Json, SnapshotBuilder, pod_of, requesting
from trireme.evaluation.scoring import class_scores, score_chain, score_evaluator
from trireme.framework import status
from trireme.plugins.image_locality import score as image_locality
from trireme.plugins.node_affinity import score as node_affinity
from trireme.plugins.node_resources_balanced_allocation import args as balanced_args
from trireme.plugins.node_resources_balanced_allocation import score as node_resources_balanced_allocation
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import score as node_resources_fit
from trireme.plugins.taint_toleration import score as taint_toleration
from trireme.snapshot import snapshot
from trireme.v1 import snapshot_pb2


def _chain() -> score_chain.ScoreChain:
    balanced = node_resources_balanced_allocation
    plugins: list[Any] = [
        taint_toleration.TaintTolerationScore(comparing=False),
        node_affinity.NodeAffinityScore(),
        node_resources_fit.make_scorer(fit_args.Args()),
        balanced.make_scorer(balanced_args.Args()),
        image_locality.ImageLocality(),
    ]
    return score_chain.ScoreChain({plugin.name: 1 for plugin in plugins}, plugins)


PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
    ]
}
SPECS: list[Json] = [
    {},
    requesting(cpu="1"),
    requesting(cpu="500m", memory="2Gi"),  # states the same about nodes as the one before
    {"containers": [{"image": "a:1"}, {"image": "b:1"}]},
    {**requesting(memory="1Gi"), "affinity": {"nodeAffinity": PREFERRED}},
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
]
CLASSES = {number: pod_of(spec) for number, spec in enumerate(SPECS, start=1)}

node_fields = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.sampled_from([{}, {"zone": "a"}, {"zone": "b"}]),
        "taints": st.sampled_from([[], [("k", "v", "PreferNoSchedule")], [("j", "w", "PreferNoSchedule")]]),
        "images": st.dictionaries(st.sampled_from(["a:1", "b:1"]), st.sampled_from([300 << 20, 900 << 20])),
        "allocatable": st.sampled_from([{"cpu": "2", "pods": "3"}, {"cpu": "4", "memory": "9Gi", "pods": "9"}]),
    },
)


def _said(snap: snapshot.Snapshot, kept: class_scores.ClassScores | status.Status) -> Any:
    assert isinstance(kept, class_scores.ClassScores)
    return {
        plugin: None
        if column.state is None
        else {name: int(column.raw[slot]) for name, slot in sorted(snap.nodes.slot_of_name.items())}
        for plugin, column in kept.plugins.items()
    }


class ScoringMachine(SnapshotMachine):
    """Nodes and pods come, change and go."""

    CLASSES = CLASSES
    NODE_FIELDS = node_fields

    def __init__(self) -> None:
        super().__init__()
        self.evaluator = score_evaluator.ScoreEvaluator(self.builder.snap, {"p": _chain()})

    @rule()
    def reset(self) -> None:
        """Another frontend brings the same nodes in another order, and classes by other numbers."""
        entries = [
            snapshot_pb2.NodeEntry(slot=slot, node=self.builder.objects[name])
            for slot, name in enumerate(sorted(self.alive, reverse=True))
        ]
        numbers = list(CLASSES)
        classes = [
            snapshot_pb2.PodClass(id=number, pod=self.builder.snap.classes[other].pod)
            for number, other in zip(numbers, numbers[1:] + numbers[:1], strict=True)
        ]
        generation = self.builder.snap.generation
        self.builder.snap.apply(
            snapshot_pb2.Delta(reset=True, to_generation=generation, nodes=entries, classes=classes)
        )
        self.builder.follow({entry.node.metadata.name: entry.slot for entry in entries})
        self.rows.clear()

    @rule()
    def evaluate(self) -> None:
        """The scores that were kept are those that would be given now."""
        for number in CLASSES:
            pod_class = self.builder.snap.classes[number]
            kept = at_once.answer(self.evaluator.evaluate("p", pod_class))
            fresh = score_evaluator.ScoreEvaluator(self.builder.snap, {"p": _chain()})
            assert _said(self.builder.snap, kept) == _said(
                self.builder.snap, at_once.answer(fresh.evaluate("p", class_of(pod_class.pod, number)))
            )

    def teardown(self) -> None:
        """All classes at the end."""
        if hasattr(self, "builder"):
            self.evaluate()


TestIncrementalScoring = ScoringMachine.TestCase
TestIncrementalScoring.settings = settings(max_examples=50, stateful_step_count=30)


def test_only_what_changed_is_scored_again() -> None:
    builder = SnapshotBuilder()
    for name in NODES:
        builder.set_node(name)
    builder.add_class(1, CLASSES[2])
    evaluator = score_evaluator.ScoreEvaluator(builder.snap, {"p": _chain()})
    pod_class = builder.snap.classes[1]
    at_once.answer(evaluator.evaluate("p", pod_class))
    # NodeAffinity has nothing to say about this class.
    assert evaluator.statistics().slots_evaluated == 4 * len(NODES)
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert evaluator.statistics().slots_evaluated == 4 * len(NODES)
    builder.place(1, "n0")
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert evaluator.statistics().slots_evaluated == 4 * len(NODES) + 2
    # A node more makes every image a little rarer.
    builder.set_node("n9")
    at_once.answer(evaluator.evaluate("p", pod_class))
    assert evaluator.statistics().slots_evaluated == 4 * len(NODES) + 2 + 3 + len(NODES) + 1
