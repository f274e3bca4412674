"""Who may be a victim, in which order, and which evictions a disruption budget does not allow."""

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.helpers.snapshot_views import node_of
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.evaluation import class_priorities
from trireme.evaluation.preemption import (
    candidate_selection,
    disruption_budgets,
    dry_run,
    dry_run_cache,
    post_filter_context,
    post_filter_plugins,
    potential_victims,
    victims_with_groups,
)
from trireme.framework import status
from trireme.snapshot import arrays, snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, snapshot_pb2, status_pb2
from trireme.wire import status as wire_status


class Pods:
    """Pods on the nodes n0 to n2, as a snapshot has them."""

    def __init__(self) -> None:
        self.registry = class_registry.ClassRegistry()
        self.registry.add_selector_keys(["app"])
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.snap = snapshot.Snapshot()
        for number in range(3):
            self.cache.set_node(node_of(f"n{number}"))

    def add(
        self,
        name: str,
        node: int = 0,
        *,
        priority: int = 0,
        started: int = 0,
        app: str = "",
        namespace: str = "ns",
        group: str = "",
    ) -> None:
        """A pod that started in this second of a minute; 0: it has not."""
        spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
        status = {"startTime": f"2026-01-01T00:00:{started:02}Z"} if started else {}
        parsed = pod_projection.parse(
            {
                "metadata": {"namespace": namespace, "name": name, "uid": name, "labels": {"app": app} if app else {}},
                "spec": {"nodeName": f"n{node}", "priority": priority, **spec},
                "status": status,
            }
        )
        base = self.registry.intern_base(parsed.base)
        self.cache.set_pod(parsed, self.registry.intern(base, parsed.labels), base)

    def allow(self, name: str, disruptions: int, app: str | None, *disrupted: str, namespace: str = "ns") -> None:
        """A budget of the pods of this app; None: it has no selector."""
        entry = snapshot_pb2.ClusterObject()
        budget = entry.pod_disruption_budget
        budget.metadata.namespace, budget.metadata.name = namespace, name
        budget.status.disruptions_allowed = disruptions
        if app is not None:
            budget.spec.selector.SetInParent()
            if app:
                budget.spec.selector.match_labels["app"] = app
        for each in disrupted:
            budget.status.disrupted_pods[each].SetInParent()
        self.cache.set_object(entry)

    def add_group(self, name: str, *, parent: str = "", whole: bool = True, composite: bool = False) -> None:
        """A PodGroup, or a group of groups, which is disrupted as a whole or not."""
        entry = snapshot_pb2.ClusterObject()
        group: Any = entry.composite_pod_group if composite else entry.pod_group
        group.metadata.namespace, group.metadata.name = "ns", name
        group.spec.parent_composite_pod_group_name = parent
        if whole:
            group.spec.disruption_mode.all.SetInParent()
        self.cache.set_object(entry)

    def candidate(self, node: int, *names: str, violations: int = 0) -> dry_run.Candidate:
        rows = tuple(self.snap.pods.uids.index(name) for name in names)
        return dry_run.Candidate(self.cache.slot_of(f"n{node}"), rows, violations)

    def synced(self) -> snapshot.Snapshot:
        while self.cache.take_delta() is not None:
            pass
        for chunk in self.cache.full_sync():
            self.snap.apply(chunk)
        return self.snap

    def names(self, rows: Sequence[int]) -> list[str]:
        return [self.snap.pods.uids[row] for row in rows]

    def victims(self, priority: int, *nodes: int) -> list[str]:
        slots = np.array([self.cache.slot_of(f"n{node}") for node in nodes], dtype=np.intp)
        return self.names(potential_victims.rows_on_slots(self.snap, slots, priority=priority).tolist())

    def violating(self, *names: str) -> set[str]:
        budgets = disruption_budgets.DisruptionBudgets(self.snap)
        rows = [self.snap.pods.uids.index(name) for name in names]
        return set(self.names(sorted(budgets.violating_rows(rows))))


def test_the_most_important_victims_come_first() -> None:
    """By priority, then by who started earlier, then by UID; one that has not started is the least important."""
    pods = Pods()
    for name, priority, started in (
        ("new", 1, 0),
        ("also-new", 1, 0),
        ("late", 1, 30),
        ("b", 1, 10),
        ("c", 1, 10),
        ("a", 1, 10),
        ("early", 1, 5),
        ("high", 3, 0),
        ("equal", 5, 1),
    ):
        pods.add(name, priority=priority, started=started)
    for name in ("z", "y", "x"):
        pods.add(name, 1, started=7)
    pods.add("elsewhere", 2)
    pods.synced()
    assert pods.victims(5, 0) == ["high", "early", "a", "b", "c", "late", "also-new", "new"]
    assert pods.victims(5, 1, 0)[-3:] == ["x", "y", "z"]
    assert pods.victims(1, 0, 1, 2) == ["x", "y", "z", "elsewhere"]
    assert pods.victims(0, 0, 1, 2) == []
    for priority, nodes in ((6, [True] * 3), (1, [False, True, True]), (0, [False] * 3)):
        assert potential_victims.has_victims(pods.snap, priority).tolist() == nodes


BUDGETS: list[Any] = [
    pytest.param([("one", 1, "web")], {"w2", "w3"}, id="as many as are allowed"),
    pytest.param([("none", 0, "web")], {"w1", "w2", "w3"}, id="none"),
    pytest.param([("other", 9, "db"), ("one", 2, "web")], {"w3"}, id="the second of two"),
    pytest.param([("strict", 0, "web"), ("lax", 9, "web")], {"w1", "w2", "w3"}, id="one of two that select the pod"),
    pytest.param([("lax", 9, "web"), ("strict", 0, "web")], {"w1", "w2", "w3"}, id="the other of two"),
    pytest.param([("counted", 0, "web", "w2")], {"w1", "w3"}, id="but for a pod that is disrupted already"),
    pytest.param([("all", 1, "")], {"w2", "w3", "d1"}, id="an empty selector"),
    pytest.param([("nobody", 0, None)], set(), id="no selector"),
    pytest.param([], set(), id="no budget"),
]


@pytest.mark.parametrize(("budgets", "violating"), BUDGETS)
def test_evictions_that_a_budget_does_not_allow(budgets: list[tuple[Any, ...]], violating: set[str]) -> None:
    """In the order of importance: the first ones are those that are allowed."""
    pods = Pods()
    for name in ("w1", "w2", "w3"):
        pods.add(name, app="web")
    pods.add("d1", app="db")
    pods.add("other", app="web", namespace="elsewhere")
    for budget in budgets:
        pods.allow(*budget)
    pods.synced()
    assert pods.violating("w1", "w2", "w3", "d1", "other") == violating
    assert bool(disruption_budgets.DisruptionBudgets(pods.snap)) == (violating != set())


class Runs:
    """Dry runs that find a candidate on even slots; notes the slots that they are made for."""

    def __init__(self) -> None:
        self.made: list[list[int]] = []

    async def run(self, slots: arrays.SlotArray) -> dry_run.DryRunResult:
        self.made.append(slots.tolist())
        found = tuple(dry_run.Candidate(slot, (), 0) for slot in slots.tolist() if slot % 2 == 0)
        return dry_run.DryRunResult(found, tuple((slot, 7) for slot in slots.tolist() if slot % 2))


@pytest.mark.parametrize("own", [-1, 2])
def test_only_what_is_not_known_is_tried_again(own: int) -> None:
    """And the slot of the preemptor's own nomination, whose result holds for it alone."""
    cache, runs = dry_run_cache.DryRunCache(()), Runs()
    pending: MutableMapping[int, Any] = {5: None}
    cached = dry_run_cache._CachedDryRuns(cache, runs, own, pending)

    async def slots_of(*slots: int) -> tuple[list[int], list[int]]:
        result = await cached.run(np.array(slots, dtype=np.intp))
        return [each.slot for each in result.candidates], [slot for slot, _ in result.refused]

    async def main() -> None:
        assert await slots_of(0, 1, 2) == ([0, 2], [1])
        assert await slots_of(0, 1, 2, 3, 4, 5) == ([0, 2, 4], [1, 3, 5])
        assert await slots_of(0, 1, 2, 3, 4, 5) == ([0, 2, 4], [1, 3, 5])

    asyncio.run(main())
    again = [2] if own == 2 else []
    assert runs.made == [[0, 1, 2], [*again, 3, 4, 5], *([again] if again else [])]
    assert set(cache.results) == {0, 1, 2, 3, 4} - {own}
    assert pending[5] == 7


def test_memory_of_columns_of_classes_is_counted() -> None:
    pods = Pods()
    pods.add("p", priority=3)
    snap = pods.synced()
    priorities = class_priorities.class_priorities_of(snap)
    size, known = snap.class_capacity, len(snap.classes)
    assert priorities.nbytes == 8 * (size + 2 * known)
    membership = victims_with_groups.group_membership_of(snap)
    assert membership.nbytes == (8 + 8 + 1) * size


def test_what_dry_runs_found_holds_until_the_node_or_what_plugins_read_changes() -> None:
    """Nothing else changes it: between two preemptors of a class, most nodes stay as they are."""
    pods = Pods()
    snap = pods.synced()
    cache = dry_run_cache.DryRunCache([("node",), ("persistent_volume",)])
    assert cache.nbytes == 0
    cache.refresh(snap)
    cache.results.update({0: 7, 1: 7, 2: 7})
    assert cache.nbytes == 3 * dry_run_cache.DryRunCache([]).nbytes + 900

    def follow() -> list[int]:
        while (delta := pods.cache.take_delta()) is not None:
            snap.apply(delta)
        cache.refresh(snap)
        return sorted(cache.results)

    assert follow() == [0, 1, 2]
    pods.allow("b", 0, "web")
    assert follow() == [0, 1, 2]
    pods.add("p", 1)
    assert follow() == [slot for slot in (0, 1, 2) if slot != pods.cache.slot_of("n1")]
    entry = snapshot_pb2.ClusterObject()
    entry.persistent_volume.metadata.name = "pv"
    pods.cache.set_object(entry)
    assert follow() == []


def test_pods_of_a_group_that_is_disrupted_as_a_whole_are_one_victim() -> None:
    """The outermost such group counts; a group of groups is more important than a group, and that than a pod."""
    pods = Pods()
    pods.add_group("outer", composite=True)
    pods.add_group("inner", parent="outer")
    pods.add_group("whole")
    pods.add_group("alone", whole=False)
    for name, node, group in (
        ("pod", 0, ""),
        ("w1", 0, "whole"),
        ("w2", 1, "whole"),
        ("o1", 2, "inner"),
        ("a1", 1, "alone"),
        ("a2", 1, "alone"),
        ("n1", 2, "unknown"),
    ):
        pods.add(name, node, group=group, started=5)
    snap = pods.synced()
    found = victims_with_groups.victims(snap, 1)
    assert [(pods.names(each.rows), each.of_group, each.of_composite_group) for each in found] == [
        (["o1"], True, True),
        (["w1", "w2"], True, False),
        *[([name], False, False) for name in ("a1", "a2", "n1", "pod")],
    ]
    there = victims_with_groups.victims(snap, 1, np.array([pods.cache.slot_of("n1")]))
    assert [pods.names(each.rows) for each in there] == [["w1", "w2"], ["a1"], ["a2"]]
    assert victims_with_groups.victims(snap, 0) == []
    assert not victims_with_groups.has_no_groups(snap)
    # Of a group that is disrupted pod by pod from now on, each pod is a victim.
    pods.add_group("whole", whole=False)
    snap = pods.synced()
    assert [pods.names(each.rows) for each in victims_with_groups.victims(snap, 1)][:3] == [["o1"], ["a1"], ["a2"]]


_CHEAPER: list[Any] = [
    pytest.param(("cheap", 1), ("cheap", 0), id="fewer violations of budgets"),
    pytest.param(("high",), ("low", "low2", "low3"), id="a lower highest priority"),
    pytest.param(("middle", "low"), ("middle2",), id="a lower sum of priorities"),
    pytest.param(("low", "low2"), ("low3",), id="fewer pods"),
    pytest.param(("low",), ("started",), id="a later start"),
]


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(("dear", "cheap"), _CHEAPER)
def test_preemption_takes_the_node_where_it_costs_least(
    dear: tuple[Any, ...], cheap: tuple[Any, ...], is_first: bool
) -> None:
    pods = Pods()
    for name, priority, started in (
        ("cheap", 0, 9),
        ("low", 0, 9),
        ("low2", 0, 9),
        ("low3", 0, 9),
        ("started", 0, 30),
        ("middle", 2, 9),
        ("middle2", 2, 9),
        ("high", 5, 9),
    ):
        pods.add(name, priority=priority, started=started)
    snap = pods.synced()
    made = [
        pods.candidate(
            node,
            *(each for each in names if isinstance(each, str)),
            violations=sum(each for each in names if isinstance(each, int)),
        )
        for node, names in enumerate((dear, cheap))
    ]
    ordered = made[::-1] if is_first else made
    assert candidate_selection.select_candidate(ordered, snap) is made[1]
    # One whose cost is known already is compared as well.
    assert candidate_selection.select_candidate(ordered, snap) is made[1]


def test_candidates_that_extenders_leave_are_those_that_still_exist() -> None:
    pods = Pods()
    pods.add_group("whole")
    for name, node, group in (("a", 0, ""), ("b", 0, ""), ("c", 1, ""), ("w1", 1, "whole"), ("w2", 2, "whole")):
        pods.add(name, node, group=group)
    snap = pods.synced()
    made = [
        pods.candidate(0, "a", "b", violations=1),
        pods.candidate(1, "c", "w1", "w2"),
        pods.candidate(1, "c", "a"),
        pods.candidate(2, "w1"),
    ]
    messages = candidate_selection.to_messages(made, snap)
    assert [
        (each.node_name, [(pod.namespace, pod.name, pod.uid) for pod in each.victims], each.violations)
        for each in messages[:2]
    ] == [
        ("n0", [("ns", "a", "a"), ("ns", "b", "b")], 1),
        ("n1", [("ns", "c", "c"), ("ns", "w1", "w1"), ("ns", "w2", "w2")], 0),
    ]
    # A victim on another node is none of this one's, unless it goes with its group.
    assert candidate_selection.from_messages(messages, snap) == [made[0], made[1], made[3]]
    assert candidate_selection.from_messages(messages[1:2], snap) == [made[1]]
    gone = filter_phase_pb2.PreemptionCandidate(node_name="gone", victims=messages[0].victims)
    lacking = filter_phase_pb2.PreemptionCandidate(node_name="n0", victims=[cycle_pb2.PodIdentity(uid="x")])
    partly = filter_phase_pb2.PreemptionCandidate(node_name="n0", victims=[*messages[0].victims, *lacking.victims])
    nobody = filter_phase_pb2.PreemptionCandidate(node_name="n0")
    assert candidate_selection.from_messages([gone, lacking, partly, nobody], snap) == []
    for name in ("a", "b"):
        pods.cache.remove_pod(name)
    pods.cache.remove_node("n0")
    while (delta := pods.cache.take_delta()) is not None:
        snap.apply(delta)
    assert candidate_selection.from_messages(messages, snap) == [made[1], made[3]]


def test_a_preemptor_has_its_names_and_nomination_in_the_cycle() -> None:
    cycle = cycle_pb2.Cycle(profile="p", pod_class=3, generation=7)
    cycle.pod.metadata.name = "another"
    pod = cycle_pb2.PodIdentity(namespace="ns", name="p", uid="uid-p")
    found = post_filter_context.cycle_for(cycle, filter_phase_pb2.Preemptor(pod=pod, nominated_node="n1"))
    metadata = found.pod.metadata
    assert (metadata.namespace, metadata.name, metadata.uid) == ("ns", "p", "uid-p")
    assert (found.pod.status.nominated_node_name, found.profile, found.pod_class) == ("n1", "p", 3)
    assert cycle.pod == core_pb2.Pod(metadata={"name": "another"})


def test_a_node_refuses_the_pod_by_its_own_status_or_by_that_of_pre_filter() -> None:
    """Preemption may help where that is not for good."""
    later, never = status.unschedulable("P", "later"), status.unresolvable("P", "never")
    unused: Any = None
    of_pod = cycle_pb2.Cycle(), unused, unused, unused, unused
    by_node = post_filter_context.PostFilterContext(*of_pod, (later, never), np.array([0, 1, 2, 1]), None)
    assert [by_node.status_at(slot) for slot in range(5)] == [None, later, never, later, None]
    assert by_node.slots_where_preemption_may_help(np.array([0, 1, 2, 3, 4])).tolist() == [1, 3]
    for refusal, slots in ((later, [0, 4]), (never, [])):
        everywhere = post_filter_context.PostFilterContext(*of_pod, (), None, refusal)
        assert [everywhere.status_at(slot) for slot in (0, 7)] == [refusal] * 2
        assert everywhere.slots_where_preemption_may_help(np.array([0, 4])).tolist() == slots
    nowhere = post_filter_context.PostFilterContext(*of_pod, (), None, None)
    assert nowhere.slots_where_preemption_may_help(np.array([0, 4])).tolist() == []


class PostFilter:
    """A plugin that answers this."""

    remote = False

    def __init__(self, name: str, answer: Any) -> None:
        self.name = name
        self.called = False
        self._answer = answer

    async def post_filter(self, *_: object) -> Any:
        self.called = True
        return self._answer


def _response(code: status.Code, plugin: str = "", *messages: str, **fields: Any) -> filter_pb2.PostFilterResponse:
    made = status.Status(code, plugin, messages)
    return filter_pb2.PostFilterResponse(status=wire_status.to_message(made), **fields)


async def _run_in_order(*answers: Any) -> tuple[Any, list[bool]]:
    """The answer of plugins A, B, …, and which of them were called."""
    plugins = [PostFilter(name, answer) for name, answer in zip("ABC", answers, strict=False)]
    unused: Any = None
    found = await post_filter_plugins.run_in_order(plugins, unused, unused)
    return found, [plugin.called for plugin in plugins]


_CODE = status.Code


@pytest.mark.parametrize("code", [_CODE.SUCCESS, _CODE.UNSCHEDULABLE_AND_UNRESOLVABLE, _CODE.ERROR])
async def test_post_filter_ends_with_the_first_plugin_that_decides(code: status.Code) -> None:
    """It has the actions of those before, which made no room alone."""
    evicting, deleting = filter_pb2.PostFilterResponse(), filter_pb2.PostFilterResponse()
    evicting.actions.add().evict.SetInParent()
    deleting.actions.add()
    refused = _response(_CODE.UNSCHEDULABLE, "A", "no", actions=evicting.actions)
    decided = _response(code, "B", "yes", actions=deleting.actions, nominated_node="n1")
    found, called = await _run_in_order(refused, decided, _response(_CODE.SUCCESS))
    assert called == [True, True, False]
    assert (found.status.plugin, found.nominated_node) == ("B", "n1")
    assert list(found.actions) == [*evicting.actions, *deleting.actions]


async def test_post_filter_without_room_names_the_first_plugin_and_what_others_say() -> None:
    found, called = await _run_in_order(
        None,
        _response(_CODE.UNSCHEDULABLE, "B", "no", clear_nomination=True),
        _response(_CODE.UNSCHEDULABLE, "", "not here"),
    )
    assert called == [True] * 3
    assert (found.status.code, found.status.plugin, list(found.status.messages)) == (
        status_pb2.CODE_UNSCHEDULABLE,
        "B",
        ["no"],
    )
    assert [(each.plugin, list(each.messages)) for each in found.refusals] == [("C", ["not here"])]
    assert found.clear_nomination


@pytest.mark.parametrize("says", [False, True])
async def test_a_first_plugin_that_refuses_nothing_is_named_all_the_same(says: bool) -> None:
    """As kube-scheduler names it; its messages are refusals beside that."""
    skipped = _response(_CODE.SKIP, "A", *(["nothing to do"] if says else []))
    found, _ = await _run_in_order(skipped, _response(_CODE.UNSCHEDULABLE, "B", "no"))
    assert (found.status.code, found.status.plugin, list(found.status.messages)) == (
        status_pb2.CODE_UNSCHEDULABLE,
        "A",
        [],
    )
    assert [each.plugin for each in found.refusals] == [*(["A"] if says else []), "B"]


async def test_candidates_are_the_answer() -> None:
    candidates = (filter_phase_pb2.PreemptionCandidate(node_name="n1"),)
    found, called = await _run_in_order(None, candidates, _response(_CODE.SUCCESS))
    assert found is candidates
    assert called == [True, True, False]


async def test_without_a_plugin_no_room_is_made() -> None:
    found, _ = await _run_in_order(None)
    assert found == filter_pb2.PostFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE))
