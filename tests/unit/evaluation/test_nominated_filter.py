"""Which pods may run where they are nominated to: each beside those before it, and beside all other nominated pods."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import at_once
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import filter_chain, filter_evaluator, nominated_filter, nominated_pods
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.registry import filter_plugins
from trireme.v1 import cycle_pb2, snapshot_pb2

CLASS, OTHER = 1, 2
UIDS = "abcd"


def _chain(*names: str) -> filter_chain.FilterChain:
    made: list[Any] = [filter_plugins.make_filter_plugin(name, b"{}", {}) for name in names]
    return filter_chain.FilterChain(made)


class Nominated:
    """Nodes of one to three CPUs, and pods of a class that requests one which are nominated to them."""

    def __init__(self, cpus: list[int], only: set[int] | None = None, *plugins: str) -> None:
        self.builder = SnapshotBuilder()
        for number, cpu in enumerate(cpus):
            self.builder.set_node(f"n{number}", allocatable={"cpu": str(cpu), "pods": "9"}, labels={"zone": "z"})
        spec = {**requesting(cpu="1"), "priority": 5}
        if only is not None:
            names = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{number}"]}]}
                     for number in sorted(only)]  # fmt: skip
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": names}}
            spec["affinity"] = {"nodeAffinity": required}
        if plugins:
            term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}}
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            spec["affinity"] = apart
        self.builder.add_class(CLASS, pod_of(spec))
        self.builder.add_class(OTHER, pod_of({**requesting(cpu="1"), "priority": 9}))
        chain = _chain("NodeAffinity", "NodeResourcesFit", *plugins)
        self.evaluator = filter_evaluator.FilterEvaluator(self.builder.snap, {"p": chain})

    def nominate(self, uid: str, number: int, slot: int) -> None:
        pod = cycle_pb2.PodIdentity(uid=uid)
        self.builder.apply(nominations=[snapshot_pb2.Nomination(pod=pod, pod_class=number, slot=slot)])

    def cycle(self, uid: str) -> cycle_pb2.Cycle:
        cycle = cycle_pb2.Cycle(profile="p", pod_class=CLASS)
        cycle.pod.metadata.uid = uid
        return cycle

    def admitted(self, uid: str) -> tuple[Any, int] | None:
        pod_class = self.builder.snap.classes[CLASS]
        return at_once.answer(self.evaluator.admit_nominated(self.cycle(uid), pod_class, plugin_timer.PluginTimer()))

    def following(self, uid: str, *others: str) -> list[int]:
        """The slots of the first of the others that fit, beside this one."""
        cached = at_once.answer(self.evaluator.evaluate("p", self.builder.snap.classes[CLASS]))
        pods = [cycle_pb2.PodIdentity(uid=each) for each in others]
        return self.evaluator.slots_of_next_nominees_that_fit(self.cycle(uid), cached, pods)


@settings(max_examples=150)
@given(
    cpus=st.lists(st.integers(0, 2), min_size=1, max_size=4),
    only=st.none() | st.sets(st.integers(0, 3), min_size=1),
    nominated=st.dictionaries(st.sampled_from(UIDS), st.integers(0, 3)),
    others=st.lists(st.integers(0, 3), max_size=2),
)
def test_the_first_pods_that_fit_where_they_are_nominated_are_all_that_go_there(
    cpus: list[int], only: set[int] | None, nominated: dict[str, int], others: list[int]
) -> None:
    """Up to one that is nominated nowhere, where another of them is, or where there is no room beside the others."""
    case = Nominated(cpus, only)
    at = {uid: slot for uid, slot in nominated.items() if slot < len(cpus)}
    for uid, slot in at.items():
        case.nominate(uid, CLASS, slot)
    for number, slot in enumerate(others):
        if slot < len(cpus):
            case.nominate(f"other-{number}", OTHER, slot)

    def usable(uid: str) -> bool:
        return uid in at and (only is None or at[uid] in only)

    first, *rest = UIDS
    taken = [first] if usable(first) else []
    for uid in rest if taken else ():
        if not usable(uid) or at[uid] in {at[each] for each in taken}:
            break
        taken.append(uid)
    expected = []
    for uid in taken[1:]:
        nominated = others.count(at[uid]) + sum(slot == at[uid] and each not in taken for each, slot in at.items())
        if cpus[at[uid]] - nominated < 1:
            break
        expected.append(at[uid])
    assert case.following(first, *rest) == expected


@settings(max_examples=60)
@given(
    cpus=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    only=st.none() | st.sets(st.integers(0, 3), min_size=1, max_size=3),
    others=st.lists(st.integers(0, 3), max_size=5),
    own=st.integers(0, 3),
)
def test_a_node_has_room_for_pods_beside_those_that_are_nominated_to_it(
    cpus: list[int], only: set[int] | None, others: list[int], own: int
) -> None:
    """A pod that is nominated itself is not counted for itself."""
    case = Nominated(cpus, only)
    for number, slot in enumerate(others):
        if slot < len(cpus):
            case.nominate(f"other-{number}", OTHER, slot)
    left_in = [slot for slot in range(len(cpus)) if only is None or slot in only]
    room = [max(cpu - others.count(slot), 0) if slot in left_in else 0 for slot, cpu in enumerate(cpus)]
    found = at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[CLASS]))
    assert found.capacity[: len(cpus)].tolist() == room
    assert found.passing(len(cpus)).tolist() == [each > 0 for each in room]
    if own < len(cpus):
        case.nominate("a", CLASS, own)
        found = at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[CLASS]))
        verdict = case.evaluator.own_nomination_verdict(case.cycle("a"), found)
        assert (None if verdict is None else (verdict.slot, verdict.capacity, verdict.passes)) == (
            (own, room[own], room[own] > 0) if own in left_in else None
        )
        assert found.capacity[own] == max(room[own] - 1, 0)


def test_a_node_that_no_pod_is_nominated_to_any_more_has_room_again() -> None:
    """Wherever the pod waits instead, or if it is gone, or its node."""
    case = Nominated([1, 1, 1])

    def passing() -> list[bool]:
        found = at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[CLASS]))
        return found.passing(case.builder.snap.nodes.size).tolist()

    assert passing() == [True, True, True]
    case.nominate("o", OTHER, 0)
    assert passing() == [False, True, True]
    case.nominate("o", OTHER, 2)
    assert passing() == [True, True, False]
    case.builder.apply(removed_nominations=["o"])
    assert passing() == [True, True, True]
    case.nominate("o", OTHER, 1)
    case.builder.place(OTHER, "n1")
    assert passing() == [True, False, True]
    case.builder.apply(removed_nominations=["o"])
    assert passing() == [True, False, True]
    case.nominate("o", OTHER, 2)
    assert passing() == [True, False, False]
    case.builder.remove_node("n2")
    assert passing()[:2] == [True, False]
    case.builder.set_node("n2", allocatable={"cpu": "2", "pods": "9"})
    assert passing() == [True, False, True]


@pytest.mark.parametrize(("index", "capacity", "passes"), [(0, 1, True), (0, 0, False), (3, 1, False)])
def test_a_pod_may_run_where_nothing_refuses_it_and_there_is_room(index: int, capacity: int, passes: bool) -> None:
    assert nominated_filter.SlotVerdict(0, index, capacity).passes is passes


def test_nobody_follows_where_a_pod_changes_other_nodes() -> None:
    """Two pods that keep apart in a zone each fit alone."""
    case = Nominated([2, 2], None, "InterPodAffinity")
    case.nominate("a", CLASS, 0)
    case.nominate("b", CLASS, 1)
    assert case.following("a", "b") == []
    case = Nominated([2, 2])
    case.nominate("a", CLASS, 0)
    case.nominate("b", CLASS, 1)
    assert case.following("a", "b") == [1]
    assert case.following("a") == []


def test_a_pod_is_admitted_by_its_node_as_it_is_now() -> None:
    case = Nominated([1, 1])
    assert case.admitted("a") is None
    case.nominate("a", CLASS, 1)
    found = case.admitted("a")
    assert found is not None
    assert found[1] == 1
    case.builder.place(OTHER, "n1")
    assert case.admitted("a") is None
    case.nominate("a", CLASS, 0)
    assert case.admitted("a") is not None
    case.builder.set_node("n0", allocatable={"cpu": "0", "pods": "9"})
    assert case.admitted("a") is None


class Limited:
    """Lets a node have so many pods: three less the number of services."""

    name = "Limited"
    depends_on = interfaces.Dependency.NODE_PODS
    reads = ("service",)

    def pre_filter(self, pod_class: object, snap: Any, table: object) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult(state=3 - len(list(snap.objects.all("service"))))

    def filter(self, pod_class: object, snap: Any, state: int, slots: Any, table: Any) -> interfaces.Verdicts:
        refusal = table.intern(status.unschedulable(self.name, "too many"))
        return interfaces.Verdicts(np.where(snap.pod_count(slots) < state, 0, refusal).astype(np.int16))


def test_a_new_answer_of_pre_filter_counts_with_nominated_pods_too() -> None:
    """Without them nothing changes on their node, so that it would not be looked at again."""
    case = Nominated([2, 2])
    plugin: Any = Limited()
    evaluator = filter_evaluator.FilterEvaluator(case.builder.snap, {"p": filter_chain.FilterChain([plugin])})
    case.nominate("o", OTHER, 0)
    for services, expected in ((0, [True, True]), (1, [True, True]), (2, [False, True])):
        if services:
            entry = snapshot_pb2.ClusterObject()
            entry.service.metadata.namespace, entry.service.metadata.name = "default", f"s{services}"
            case.builder.apply(objects=[entry])
        found = at_once.answer(evaluator.evaluate("p", case.builder.snap.classes[CLASS]))
        assert found.passing(2).tolist() == expected


def test_nodes_with_nominated_pods_are_looked_at_again_only_after_a_change_there() -> None:
    case, asked = Nominated([2, 2, 2]), list[list[int]]()

    class Noting(Limited):
        def filter(self, pod_class: object, snap: Any, state: int, slots: Any, table: Any) -> interfaces.Verdicts:
            asked.append(slots.tolist())
            return super().filter(pod_class, snap, state, slots, table)

    plugin: Any = Noting()
    evaluator = filter_evaluator.FilterEvaluator(case.builder.snap, {"p": filter_chain.FilterChain([plugin])})
    case.nominate("o", OTHER, 0)
    for change, expected in (
        (lambda: None, [[0, 1, 2], [0]]),
        (lambda: case.builder.place(OTHER, "n1"), [[1]]),
        (lambda: case.builder.place(OTHER, "n0"), [[0], [0]]),
        (lambda: case.nominate("o", OTHER, 2), [[0, 2], [2]]),
    ):
        change()
        asked.clear()
        at_once.answer(evaluator.evaluate("p", case.builder.snap.classes[CLASS]))
        assert asked == expected


def test_nodes_with_nominated_pods_are_looked_at_again_where_plugins_look_at_other_nodes() -> None:
    """With the pod that is nominated to n0 its zone has one too many, until there is one in the other zone as well."""
    builder = SnapshotBuilder()
    for name, zone in (("n0", "a"), ("n1", "b")):
        builder.set_node(name, labels={"zone": zone})
    labels = {"app": "x"}
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
                  "labelSelector": {"matchLabels": labels}}  # fmt: skip
    builder.add_class(CLASS, pod_of({"topologySpreadConstraints": [constraint], "priority": 5}, labels=labels))
    builder.add_class(OTHER, pod_of({"priority": 9}, labels=labels))
    evaluator = filter_evaluator.FilterEvaluator(builder.snap, {"p": _chain("PodTopologySpread")})
    nominated = snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid="o"), pod_class=OTHER, slot=0)
    builder.apply(nominations=[nominated])

    def passing() -> list[bool]:
        return at_once.answer(evaluator.evaluate("p", builder.snap.classes[CLASS])).passing(2).tolist()

    assert passing() == [False, True]
    builder.place(OTHER, "n1")
    assert passing() == [True, False]


def test_a_pod_whose_class_or_node_is_gone_is_nominated_nowhere() -> None:
    case = Nominated([2, 2])
    case.nominate("a", CLASS, 1)
    cached = at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[CLASS]))
    own = case.evaluator.own_nomination_verdict(case.cycle("a"), cached)
    assert own is not None
    assert (own.slot, own.passes, own.capacity) == (1, True, 2)
    gone = case.cycle("a")
    gone.pod_class = 77
    assert case.evaluator.own_nomination_verdict(gone, cached) is None
    case.builder.remove_node("n1")
    assert case.evaluator.own_nomination_verdict(case.cycle("a"), cached) is None


@pytest.mark.parametrize(
    ("priority", "but", "expected"),
    [
        (0, (), [(CLASS, 0), (OTHER, 1), (OTHER, 0)]),
        (5, (), [(CLASS, 0), (OTHER, 1), (OTHER, 0)]),
        (6, (), [(OTHER, 1), (OTHER, 0)]),
        (10, (), []),
        (0, ("o",), [(CLASS, 0), (OTHER, 0)]),
        (0, ("a", "p", "unknown"), [(OTHER, 1)]),
    ],
)
def test_nominated_pods_count_by_priority_but_for_those_that_are_meant(
    priority: int, but: tuple[str, ...], expected: list[tuple[int, int]]
) -> None:
    case = Nominated([2, 2, 2])
    for uid, number, slot in (("a", CLASS, 0), ("o", OTHER, 1), ("p", OTHER, 0), ("gone", OTHER, 2), ("odd", 77, 0)):
        case.nominate(uid, number, slot)
    case.builder.remove_node("n2")
    found = nominated_pods.nominees_of_at_least(case.builder.snap, priority, *but)
    assert sorted(zip(found.class_ids.tolist(), found.slots.tolist(), strict=True)) == sorted(expected)
    there = found.limit_to_slots(np.array([1]), 3)
    assert list(zip(there.class_ids.tolist(), there.slots.tolist(), strict=True)) == [
        each for each in expected if each[1] == 1
    ]
