"""Filter plugins that are services, evaluated while the cluster changes under their calls."""

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.helpers.fake_remote_filter import FakeRemoteFilter
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_evaluator, nominated_filter, preparing
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2

CLASS = 1
# More nodes than the table has room for at first, so that it grows under a call.
NAMES = [f"n{number}" for number in range(arrays.MIN_CAPACITY + 6)]

# What a plugin sees of a node: its name, its label, how many pods it has.
NodeState = tuple[str, str, int]
Mutation = Callable[["Cluster"], None]


class Cluster:
    """Nodes with a label `v`, and pods on them."""

    def __init__(self, nodes: int) -> None:
        self.builder = SnapshotBuilder()
        self.builder.add_class(CLASS, pod_of())
        self.rows: dict[str, list[int]] = {}
        for name in NAMES[:nodes]:
            self.set_node(name, "a")

    @property
    def snap(self) -> snapshot.Snapshot:
        return self.builder.snap

    def set_node(self, name: str, label: str) -> None:
        """The node is there with this label."""
        self.builder.set_node(name, labels={"v": label})
        self.rows.setdefault(name, [])

    def remove_node(self, name: str) -> None:
        """The node and its pods are gone."""
        if name in self.rows:
            rows = self.rows.pop(name)
            if rows:
                self.builder.remove(*rows)
            self.builder.remove_node(name)

    def add_pod(self, name: str) -> None:
        """One pod more on the node."""
        if name in self.rows:
            self.rows[name] += self.builder.place(CLASS, name)

    def state(self, slot: int) -> NodeState:
        """The node at the slot as a plugin sees it now."""
        nodes = self.snap.nodes
        return nodes.names[slot], nodes.labels.labels_of(slot).get("v", ""), int(nodes.pod_count[slot])


class SlowPlugin(FakeRemoteFilter):
    """A service: it reads the nodes when its call begins, and the cluster changes before it answers.

    It refuses nodes with label `b` and, unless it depends on the node alone, nodes with an odd number of pods.
    """

    def __init__(self, name: str, cluster: Cluster, depends_on: interfaces.Dependency, meanwhile: Any) -> None:
        super().__init__(name, depends_on)
        self.fails = False
        self.skips = False
        self.calls = 0
        self.slots: list[list[int]] = []
        self.pre_filter_calls = 0
        self._cluster = cluster
        self._meanwhile = meanwhile

    def accepts(self, state: NodeState) -> bool:
        """The verdict about a node in this state."""
        _, label, pods = state
        return label != "b" and (self.depends_on is interfaces.Dependency.NODE or pods % 2 == 0)

    def passes(self, snap: snapshot.Snapshot, slot: int) -> bool:
        return self.accepts(self._cluster.state(slot))

    async def prepare(self, *request: Any) -> status.Status | None:
        self.slots.append(request[3].tolist())
        return await super().prepare(*request)

    async def answering(self) -> None:
        self.calls += 1
        await self._meanwhile()

    @property
    def unanswered(self) -> bool:
        return self.fails

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        self.pre_filter_calls += 1
        await self._meanwhile()
        return dataclasses.replace(await super().pre_filter(pod_class, snap), skip=self.skips)


class Evaluation:
    """An evaluator over slow plugins; `mutations` are applied one at a time while they answer."""

    def __init__(
        self, nodes: int, dependencies: Sequence[interfaces.Dependency], mutations: Sequence[Mutation]
    ) -> None:
        self.cluster = Cluster(nodes)
        self._mutations: Iterator[Mutation] = iter(mutations)
        self.plugins = [
            SlowPlugin(f"P{number}", self.cluster, depends_on, self._change_meanwhile)
            for number, depends_on in enumerate(dependencies)
        ]
        self.evaluator = filter_evaluator.FilterEvaluator(
            self.cluster.snap, {"p": filter_chain.FilterChain(self.plugins)}
        )

    def script(self, *mutations: Mutation) -> None:
        """What happens during the next calls."""
        self._mutations = iter(mutations)

    async def _change_meanwhile(self) -> None:
        await asyncio.sleep(0)
        mutation = next(self._mutations, None)
        if mutation is not None:
            mutation(self.cluster)
        await asyncio.sleep(0)

    async def evaluate(self) -> dict[str, int]:
        """The copies that each node takes; checked on return, before anything else can change."""
        kept = await self.evaluator.evaluate("p", self.cluster.snap.classes[CLASS])
        self.check(kept)
        return {} if kept.refusal is not None else self.capacities(kept)

    def capacities(self, kept: class_verdicts.ClassVerdicts) -> dict[str, int]:
        """By node name."""
        return {name: int(kept.capacity[slot]) for name, slot in self.cluster.snap.nodes.slot_of_name.items()}

    def check(self, kept: class_verdicts.ClassVerdicts) -> None:
        """No node is feasible that a plugin refuses as it is now, and no pod is refused for a call that is missing."""
        if kept.refusal is not None:
            assert kept.refusal.code is status.Code.ERROR
            return
        feasible = 0
        for name, slot in self.cluster.snap.nodes.slot_of_name.items():
            admitted = all(plugin.accepts(self.cluster.state(slot)) for plugin in self.plugins)
            passes = kept.index[slot] == interfaces.PASSES
            assert passes == (kept.capacity[slot] > 0)
            assert admitted or not passes, name
            feasible += passes
        if not feasible:
            assert not any(
                all(plugin.accepts(self.cluster.state(slot)) for plugin in self.plugins)
                for slot in self.cluster.snap.nodes.slot_of_name.values()
            )


names = st.sampled_from(NAMES)
mutations = st.one_of(
    st.builds(lambda name, label: lambda cluster: cluster.set_node(name, label), names, st.sampled_from("abc")),
    st.builds(lambda name: lambda cluster: cluster.remove_node(name), names),
    st.builds(lambda name: lambda cluster: cluster.add_pod(name), names),
    st.just(lambda cluster: [cluster.set_node(name, "b") for name in NAMES] and None),
)
dependencies = st.lists(st.sampled_from(list(interfaces.Dependency)), min_size=1, max_size=3)


@given(st.integers(0, len(NAMES)), dependencies, st.lists(mutations, max_size=40), st.integers(1, 3))
@settings(max_examples=150)
def test_a_node_is_feasible_only_if_every_plugin_has_answered_for_its_current_state(
    nodes: int, depends_on: list[interfaces.Dependency], changes: list[Mutation], callers: int
) -> None:
    async def main() -> None:
        world = Evaluation(nodes, depends_on, changes)
        for _ in range(3):
            await asyncio.gather(*(world.evaluate() for _ in range(callers)))
        for mutation in world._mutations:
            mutation(world.cluster)
        # Nothing changes any more: now every node has the verdict of all plugins.
        settled = await world.evaluate()
        for name, slot in world.cluster.snap.nodes.slot_of_name.items():
            admitted = all(plugin.accepts(world.cluster.state(slot)) for plugin in world.plugins)
            assert (settled[name] > 0) == admitted, name

    asyncio.run(main())


NODE, NODE_PODS, CLUSTER = interfaces.Dependency


def _refuse(name: str) -> Mutation:
    return lambda cluster: cluster.set_node(name, "b")


def _appear(*names: str) -> Mutation:
    return lambda cluster: [cluster.set_node(name, "a") for name in names] and None


def _add_pod(name: str) -> Mutation:
    return lambda cluster: cluster.add_pod(name)


def _evaluated(world: Evaluation) -> dict[str, int]:
    return asyncio.run(world.evaluate())


def test_a_node_that_appears_during_the_call_gets_a_call_of_its_own() -> None:
    # The first mutation falls into PreFilter, the second into Filter.
    world = Evaluation(2, [NODE], [_appear(), _appear("n5")])
    assert sorted(_evaluated(world)) == ["n0", "n1", "n5"]
    assert world.plugins[0].calls == 2


def test_two_plugins_answer_about_a_table_that_grows_between_their_calls() -> None:
    world = Evaluation(1, [NODE, NODE], [_appear(), _appear(), _appear(), _appear(*NAMES)])
    answer = _evaluated(world)
    assert len(answer) == len(NAMES)
    assert all(answer.values())
    assert [plugin.calls for plugin in world.plugins] == [2, 2]


@pytest.mark.parametrize(
    ("depends_on", "change"),
    [(NODE, _appear("n0")), (NODE_PODS, _appear("n0")), (NODE_PODS, _add_pod("n0")), (CLUSTER, _add_pod("n0"))],
    ids=["node", "node of both", "pods of the node", "pods of the cluster"],
)
def test_a_node_that_keeps_changing_is_skipped_while_others_are_feasible(
    depends_on: interfaces.Dependency, change: Mutation
) -> None:
    world = Evaluation(3, [depends_on], [_appear(), *[change] * 100])
    assert _evaluated(world) == {"n0": 0, "n1": interfaces.UNLIMITED, "n2": interfaces.UNLIMITED}
    assert world.plugins[0].calls == preparing.ROUNDS


@pytest.mark.parametrize("depends_on", [NODE_PODS, CLUSTER])
def test_later_calls_are_about_what_changed_meanwhile(depends_on: interfaces.Dependency) -> None:
    """The plugin has answered about the others for this evaluation."""
    world = Evaluation(3, [depends_on], [_appear(), _add_pod("n0")])
    _evaluated(world)
    assert world.plugins[0].slots == [[0, 1, 2], [0]]


def test_a_node_that_changes_during_the_last_call_is_skipped() -> None:
    world = Evaluation(3, [NODE_PODS], [])
    assert all(_evaluated(world).values())
    world.cluster.add_pod("n0")
    world.script(*[_add_pod("n0")] * (preparing.ROUNDS - 1), _add_pod("n1"))
    assert _evaluated(world) == {"n0": 0, "n1": 0, "n2": interfaces.UNLIMITED}
    assert world.plugins[0].calls == 1 + preparing.ROUNDS


def test_a_pod_is_not_refused_while_nodes_are_unanswered() -> None:
    world = Evaluation(1, [NODE], [_appear(), *[_appear("n0")] * (preparing.ROUNDS + 2)])
    assert _evaluated(world) == {"n0": interfaces.UNLIMITED}


def test_a_pod_fails_by_error_where_every_call_is_overtaken() -> None:
    world = Evaluation(1, [NODE, NODE], [_appear("n0")] * 1000)
    kept = asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    reason = status.Reason.of("nodesChange", {"plugins": "P0,P1"})
    text = "nodes change faster than plugin P0 and P1 can be called about them"
    assert kept.refusal == status.error("", text, reasons=(reason,))


def test_a_failure_that_is_ignored_passes_nodes_only_as_they_were_then() -> None:
    """With the policy Ignore a failed call passes its nodes only until the plugin answers again."""
    world = Evaluation(2, [NODE], [_appear(), _refuse("n0")])
    world.plugins[0].fails = True
    kept = asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    assert world.capacities(kept) == {"n0": interfaces.UNLIMITED, "n1": interfaces.UNLIMITED}
    world.plugins[0].fails = False
    assert _evaluated(world) == {"n0": 0, "n1": interfaces.UNLIMITED}


def test_nodes_of_a_failed_call_are_evaluated_when_the_plugin_recovers() -> None:
    world = Evaluation(0, [NODE], [])
    for name in NAMES[:3]:
        world.cluster.set_node(name, "b")
    plugin = world.plugins[0]
    plugin.fails = True

    def recover(cluster: Cluster) -> None:
        cluster.set_node("n2", "c")

    world.script(_appear(), recover, lambda cluster: setattr(plugin, "fails", False))
    kept = asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    assert kept.refusal is None
    assert _evaluated(world) == {"n0": 0, "n1": 0, "n2": interfaces.UNLIMITED}


def test_a_plugin_that_skips_the_class_from_now_on_refuses_no_node() -> None:
    world = Evaluation(2, [interfaces.Dependency.CLUSTER], [_refuse("n0")])
    assert _evaluated(world)["n0"] == 0
    world.plugins[0].skips = True
    kept = asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    assert world.capacities(kept) == {"n0": interfaces.UNLIMITED, "n1": interfaces.UNLIMITED}


def test_the_node_of_a_nominated_pod_is_answered_about_as_it_is() -> None:
    world = Evaluation(2, [NODE], [])
    nominated = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="u"), pod_class=CLASS, slot=0)
    world.cluster.builder.apply(nominations=[nominated])
    kept = asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    cycle = cycle_pb2.Cycle(profile="p", pod_class=CLASS)
    cycle.pod.metadata.uid = "u"
    own = world.evaluator.own_nomination_verdict(cycle, kept)
    assert own == nominated_filter.SlotVerdict(0, interfaces.PASSES, interfaces.UNLIMITED)
    world.cluster.set_node("n0", "b")
    own = world.evaluator.own_nomination_verdict(cycle, kept)
    assert own is not None
    assert own.index in kept.unanswered_statuses


def test_no_plugin_is_called_after_pre_filter_of_one_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Evaluation(2, [NODE, NODE], [])
    broken = status.error("P0", "broken")

    async def fail(*_: object) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult(status=broken)

    monkeypatch.setattr(world.plugins[0], "pre_filter", fail)
    kept = asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    assert kept.refusal == broken
    assert [plugin.calls for plugin in world.plugins] == [0, 0]


def test_a_plugin_is_not_called_about_nodes_for_a_class_that_it_skips() -> None:
    world = Evaluation(2, [NODE, NODE], [])
    world.plugins[0].skips = True
    assert _evaluated(world) == {"n0": interfaces.UNLIMITED, "n1": interfaces.UNLIMITED}
    assert [plugin.calls for plugin in world.plugins] == [0, 1]


def test_plugins_that_skip_a_class_are_known_once_it_was_evaluated() -> None:
    """Until its columns are dropped: the plugins may answer otherwise by then."""
    world = Evaluation(2, [NODE, NODE], [])
    world.plugins[1].skips = True
    assert world.evaluator.skipping_plugins("p", CLASS) == []
    asyncio.run(world.evaluate())
    assert world.evaluator.skipping_plugins("p", CLASS) == ["P1"]
    world.plugins[1].skips = False
    world.evaluator.drop("p", CLASS)
    assert world.evaluator.skipping_plugins("p", CLASS) == []
    asyncio.run(world.evaluate())
    assert world.evaluator.skipping_plugins("p", CLASS) == []
    assert [plugin.calls for plugin in world.plugins] == [2, 1]


@pytest.mark.parametrize("depends_on", [NODE, CLUSTER])
def test_pre_filter_is_called_once_however_often_nodes_change_meanwhile(depends_on: interfaces.Dependency) -> None:
    """Its answer about the whole cluster may be another one at the next evaluation."""
    world = Evaluation(1, [depends_on], [_appear("n0")] * 1000)
    asyncio.run(world.evaluator.evaluate("p", world.cluster.snap.classes[CLASS]))
    assert world.plugins[0].pre_filter_calls == 1
    assert world.plugins[0].calls > preparing.ROUNDS
    world.script()
    asyncio.run(world.evaluate())
    assert world.plugins[0].pre_filter_calls == (2 if depends_on is CLUSTER else 1)


class Slow:
    """A plugin of this process whose answers take long to find."""

    name = "Slow"
    depends_on = NODE
    reads: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.prepared: list[list[int]] = []
        self.skips = False

    async def prepare(self, pod_class: object, snap: object, slots: Any, *, remembering: bool = True) -> None:
        self.prepared.append(slots.tolist())

    def pre_filter(self, *_: object) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult(skip=self.skips)

    def filter(self, pod_class: object, snap: object, state: object, slots: Any, table: object) -> interfaces.Verdicts:
        return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))


@pytest.mark.parametrize("how", ["filters", "skips", "not for resizes"])
def test_a_slow_plugin_is_prepared_for_what_it_will_be_called_about(how: str) -> None:
    slow, cluster = Slow(), Cluster(2)
    slow.skips = how == "skips"
    not_for_resizes = frozenset({"Slow"} if how == "not for resizes" else ())
    plugin: Any = slow
    chain = filter_chain.FilterChain([plugin], not_for_resizes)
    evaluator = filter_evaluator.FilterEvaluator(cluster.snap, {"p": chain})
    preparation = preparing.Preparation(cluster.snap, chain)
    pod_class = cluster.snap.classes[CLASS]
    pod_class.resize_deferred = how == "not for resizes"
    kept = asyncio.run(evaluator.evaluate("p", pod_class))
    assert slow.prepared == ([] if how == "not for resizes" else [[0, 1]])
    slow.prepared.clear()
    # Nothing has changed: it will be called about nothing.
    asyncio.run(preparation.prepare_in_tree(pod_class, kept))
    assert slow.prepared == []
    asyncio.run(preparation.prepare_slot(pod_class, kept, 1))
    assert slow.prepared == ([[1]] if how == "filters" else [])
    slow.prepared.clear()
    cluster.set_node("n1", "c")
    asyncio.run(preparation.prepare_in_tree(pod_class, kept))
    assert slow.prepared == ([[1]] if how == "filters" else [])


def test_what_was_prepared_is_kept_though_another_plugin_refuses_the_pod() -> None:
    """Preemption may ask about it; and nothing is prepared twice."""
    slow, cluster = Slow(), Cluster(2)
    refusing: Any = Slow()
    refusing.name = "Refusing"
    refusing.prepare = None  # it is no slow one
    refusing.pre_filter = lambda *_: interfaces.PreFilterResult(status=status.unschedulable("Refusing", "no"))
    preparing_one: Any = slow
    preparing_one.pre_filter = lambda *_: interfaces.PreFilterResult(state=1)
    chain = filter_chain.FilterChain([refusing, preparing_one])
    evaluator = filter_evaluator.FilterEvaluator(cluster.snap, {"p": chain})
    pod_class = cluster.snap.classes[CLASS]
    assert asyncio.run(evaluator.evaluate("p", pod_class)).refusal is not None
    assert slow.prepared == [[0, 1]]
    cluster.set_node("n1", "c")
    assert asyncio.run(evaluator.evaluate("p", pod_class)).refusal is not None
    assert slow.prepared == [[0, 1], [1]]
