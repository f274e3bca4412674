"""Dry runs of preemption against the obvious way: of each node by itself, on a cluster that is built without the pods.

Pods that are being deleted, or have a host port or claim that another pod has, are left out: dry runs count these as
kube-scheduler does, otherwise than in a cluster that is built so (`test_overlay_verdicts.py`).
"""

import asyncio
import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from tests.helpers import at_once, changed_clusters
from tests.helpers.changed_clusters import WANTED
from tests.helpers.fake_remote_filter import FakeRemoteFilter
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.evaluation.filtering import (
    class_verdicts,
    dry_run_filter,
    filter_chain,
    filter_column,
    filter_evaluator,
    nominated_pods,
)
from trireme.evaluation.preemption import (
    async_dry_runs,
    disruption_budgets,
    dry_run,
    dry_run_cache,
    potential_victims,
    victims_with_groups,
    whole_group_dry_run,
)
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.registry import filter_plugins
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

PLUGINS = ("TaintToleration", *changed_clusters.PLUGINS)
PRIORITY = 5

# Class, node and whether it is being deleted, which none is; the place in the list is the pod's row.
Placed = tuple[int, int, bool]
Refusal = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """A cluster, and what counts where a pod of the class WANTED preempts.

    `starts` are by row; `budgets` the apps that they select and how many disruptions they allow; `nominated` pods'
    class and node. `limit`: a service refuses nodes with so many pods, and without any; None: there is none. `closed`
    are the nodes that another service refuses whatever their pods. `groups`: the pods of some classes are of a group
    that is disrupted as a whole.
    """

    cluster: changed_clusters.Change
    starts: tuple[int, ...]
    budgets: tuple[tuple[str, int], ...]
    nominated: tuple[tuple[int, int], ...]
    limit: int | None
    closed: frozenset[int]
    groups: bool = False


class PodLimit(FakeRemoteFilter):
    """A service that refuses nodes with too many pods, or none."""

    def __init__(self, limit: int) -> None:
        super().__init__("PodLimit", interfaces.Dependency.NODE_PODS)
        self._limit = limit

    def passes(self, snap: snapshot.Snapshot, slot: int) -> bool:
        return 0 < int(snap.nodes.pod_count[slot]) < self._limit

    async def dry_runs(self, *request: Any) -> interfaces.Verdicts:
        _, snap, _, runs, table = request
        counts = (int(snap.nodes.pod_count[r.slot]) - len(r.removed_rows) + len(r.added_classes) for r in runs)
        refusal = table.intern(status.unschedulable(self.name, "no"))
        return interfaces.Verdicts(
            np.array([0 if 0 < count < self._limit else refusal for count in counts], dtype=np.int16)
        )


class Closed(FakeRemoteFilter):
    """A service that refuses some nodes, whatever pods are there."""

    def __init__(self, slots: frozenset[int]) -> None:
        super().__init__("Closed", interfaces.Dependency.NODE)
        self._slots = slots

    def passes(self, snap: snapshot.Snapshot, slot: int) -> bool:
        return slot not in self._slots


def _exclusive(pod: core_pb2.Pod) -> list[str]:
    """What no two pods of a situation have: claims of one pod at a time, and host ports."""
    claims = [each.volume_source.persistent_volume_claim.claim_name for each in pod.spec.volumes]
    ports = [str(each.host_port) for each in pod.spec.containers[0].ports]
    return [*(each for each in claims if each in changed_clusters.EXCLUSIVE), *ports]


def _pod(draw: random.Random, priority: int) -> core_pb2.Pod:
    """A pod that any of the plugins may refuse."""
    requests = {"cpu": str(draw.randint(1, 2))}
    ports = [{"containerPort": 1, "hostPort": draw.choice((80, 81))}] if draw.random() < 0.2 else []
    claims = draw.sample((*changed_clusters.EXCLUSIVE, *changed_clusters.ATTACHED), draw.choice((0, 0, 1, 2)))
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(claims)]
    affinity: dict[str, Any] = {}
    for name in ("podAffinity", "podAntiAffinity"):
        if draw.random() < 0.15:
            key, app = draw.choice((changed_clusters.ZONE, changed_clusters.HOST)), draw.choice("ab")
            term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
            affinity[name] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    constraints = []
    if draw.random() < 0.2:
        selector = {"matchLabels": {"app": draw.choice("ab")}}
        constraints.append(
            {
                "topologyKey": draw.choice((changed_clusters.ZONE, changed_clusters.HOST)),
                "maxSkew": draw.randint(1, 2),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        )
    spec = {
        "containers": [{"name": "main", "resources": {"requests": requests}, "ports": ports}],
        "volumes": volumes,
        "affinity": affinity,
        "topologySpreadConstraints": constraints,
        "priority": priority,
    }
    return pod_of(spec, labels={"app": draw.choice("ab")})


def _situation(seed: int, *, groups: bool = False) -> Situation:
    """A cluster whose nodes are nearly full. Of each kind of rule many situations have some, and many have none."""
    draw = random.Random(seed)
    classes = {number: _pod(draw, priority) for number, priority in enumerate((0, 0, 1, 1, 2, 9), start=1)}
    for number in (3, 4) if groups else ():
        classes[number].spec.scheduling_group.pod_group_name = "g"
    classes[WANTED] = _pod(draw, PRIORITY)
    nodes = []
    for number in range(draw.randint(2, 4)):
        labels = {changed_clusters.HOST: f"n{number}", changed_clusters.ZONE: draw.choice("xy")}
        size = {"cpu": str(draw.randint(3, 6)), "pods": str(draw.randint(4, 6))}
        taints = [("k", "", "NoSchedule")] if draw.random() < 0.1 else []
        nodes.append({"labels": labels, "allocatable": size, "taints": taints})
    taken: set[str] = set()

    def some(numbers: Sequence[int], least: int, most: int) -> Iterator[tuple[int, int]]:
        for at in range(len(nodes)):
            for number in draw.choices(numbers, k=draw.randint(least, most)):
                exclusive = _exclusive(classes[number])
                if taken.isdisjoint(exclusive):
                    taken.update(exclusive)
                    yield number, at

    placed = [(number, at, False) for number, at in some((1, 2, 3, 4, 5, 5, 6), 2, 5)]
    draw.shuffle(placed)
    # A plugin that is skipped, as nobody uses the pod's claim, is skipped with nominated pods too.
    plain = [number for number in (6, WANTED, 5) if not _exclusive(classes[number])]
    nominated = tuple(some(plain, 0, 1)) if plain and draw.random() < 0.5 else ()
    with_services = draw.random() < 0.4
    cluster = changed_clusters.Change(
        tuple(nodes), tuple(draw.randint(1, 2) for _ in nodes), classes, tuple(placed), (), frozenset(), ()
    )
    return Situation(
        cluster,
        tuple(draw.choice((0, 7, 8)) for _ in placed),
        tuple((draw.choice(("a", "b", "")), draw.randint(0, 2)) for _ in range(draw.choice((0, 1, 2)))),
        nominated,
        draw.randint(2, 5) if with_services else None,
        frozenset(draw.sample(range(len(nodes)), draw.choice((0, 0, 1)))) if with_services else frozenset(),
        groups,
    )


def _chain(situation: Situation) -> filter_chain.FilterChain:
    made: list[Any] = [filter_plugins.make_filter_plugin(name, b"{}", {}) for name in PLUGINS]
    if situation.limit is not None:
        made += [Closed(situation.closed), PodLimit(situation.limit)]
    return filter_chain.FilterChain(made)


def _built(situation: Situation, placed: Sequence[Placed]) -> SnapshotBuilder:
    builder = changed_clusters.build(situation.cluster, list(placed))
    budgets = []
    for number, (app, allowed) in enumerate(situation.budgets):
        entry = snapshot_pb2.ClusterObject()
        budget = entry.pod_disruption_budget
        budget.metadata.namespace, budget.metadata.name = "default", f"b{number}"
        budget.spec.selector.SetInParent()
        if app:
            budget.spec.selector.match_labels["app"] = app
        budget.status.disruptions_allowed = allowed
        budgets.append(entry)
    if situation.groups:
        entry = snapshot_pb2.ClusterObject()
        entry.pod_group.metadata.namespace, entry.pod_group.metadata.name = "default", "g"
        entry.pod_group.spec.disruption_mode.all.SetInParent()
        budgets.append(entry)
    builder.apply(objects=budgets)
    return builder


def _found(situation: Situation) -> tuple[dict[int, tuple[list[int], int]], dict[int, Refusal]]:
    """By slot the victims of the candidates, with how many violate a budget, and the refusals of other slots."""
    builder = _built(situation, situation.cluster.placed)
    snap = builder.snap
    snap.pods.start[: len(situation.starts)] = situation.starts
    nominations = [
        snapshot_pb2.Nomination(pod=cycle_pb2.PodIdentity(uid=f"u{number}"), pod_class=pod_class, slot=slot)
        for number, (pod_class, slot) in enumerate(situation.nominated)
    ]
    builder.apply(nominations=nominations)
    chain, pod_class = _chain(situation), snap.classes[WANTED]

    async def run() -> dry_run.DryRunResult:
        evaluator = filter_evaluator.FilterEvaluator(snap, {"p": chain})
        cached = await evaluator.evaluate("p", pod_class)
        nominees = nominated_pods.nominees_of_at_least(snap, PRIORITY)
        asynchronous = async_dry_runs.async_dry_runs_of_class(chain, cached, pod_class, snap, nominees)
        assert (asynchronous is None) == (situation.limit is None)
        excluded = frozenset[str]() if asynchronous is None else asynchronous.names
        of_class = chain, cached, pod_class, snap, nominees, excluded
        filters = dry_run_filter.DryRunFilter(*of_class, isolated=not situation.groups)
        budgets = disruption_budgets.DisruptionBudgets(snap)
        runs: dry_run_cache.DryRuns = dry_run.DryRun(
            snap,
            filters,
            budgets,
            lambda slots: potential_victims.rows_on_slots(snap, slots, priority=PRIORITY),
            asynchronous,
        )
        if situation.groups:
            runs = whole_group_dry_run.WholeGroupDryRun(snap, filters, budgets, PRIORITY, asynchronous)
        result = await runs.run(np.flatnonzero(potential_victims.has_victims(snap, PRIORITY)))
        statuses = cached.table.statuses
        refused.update({slot: statuses[number - 1].messages for slot, number in result.refused})
        return result

    refused: dict[int, Refusal] = {}
    result = asyncio.run(run())
    return {each.slot: (list(each.rows), each.violations) for each in result.candidates}, refused


class ByHand:
    """What the same comes to where each step is a cluster of its own."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation
        self._placed = situation.cluster.placed
        self._priorities = {number: pod.spec.priority for number, pod in situation.cluster.classes.items()}

    def victims(self, slot: int) -> list[tuple[int, ...]]:
        """The rows of those of lower priority, the most important first: a pod, or all of a group wherever they are."""
        if self._situation.groups:
            snap = _built(self._situation, self._placed).snap
            snap.pods.start[: len(self._situation.starts)] = self._situation.starts
            found = victims_with_groups.victims(snap, PRIORITY, np.array([slot]))
            return [tuple(each.rows) for each in found]

        def importance(row: int) -> tuple[int, float, str]:
            start = self._situation.starts[row] or float("inf")
            return -self._priorities[self._placed[row][0]], start, f"uid-{row}"

        lower = [
            row
            for row, (pod_class, at, _) in enumerate(self._placed)
            if at == slot and self._priorities[pod_class] < PRIORITY
        ]
        return [(row,) for row in sorted(lower, key=importance)]

    def violating(self, rows: Sequence[int]) -> set[int]:
        """Those whose eviction a budget does not allow, after those before them."""
        left = [allowed for _, allowed in self._situation.budgets]
        out = set()
        for row in rows:
            app = self._situation.cluster.classes[self._placed[row][0]].metadata.labels["app"]
            for number, (selected, _) in enumerate(self._situation.budgets):
                if selected in ("", app):
                    left[number] -= 1
                    if left[number] < 0:
                        out.add(row)
                        break
        return out

    def refusal(self, slot: int, gone: Sequence[int]) -> Refusal:
        """Why the node refuses the pod without these pods, with the pods nominated there or without; () if neither."""
        left = [pod for row, pod in enumerate(self._placed) if row not in gone]
        nominated = [
            (pod_class, at, False)
            for pod_class, at in self._situation.nominated
            if at == slot and self._priorities[pod_class] >= PRIORITY
        ]
        worlds = [[*left, *nominated], left] if nominated else [left]
        plain = dataclasses.replace(self._situation, limit=None)
        for world in worlds:
            snap = _built(self._situation, world).snap
            evaluator = filter_evaluator.FilterEvaluator(snap, {"p": _chain(plain)})
            found = at_once.answer(evaluator.evaluate("p", snap.classes[WANTED]))
            if found.refusal is not None:
                return found.refusal.messages
            if found.index[slot]:
                return found.table.statuses[int(found.index[slot]) - 1].messages
        limit = self._situation.limit
        if limit is None:
            return ()
        passes = all(0 < sum(at == slot for _, at, _ in world) < limit for world in worlds)
        return ("no",) if not passes or slot in self._situation.closed else ()

    def dry_run(self, slot: int) -> tuple[list[int], int] | Refusal:
        """The victims, the most important first, and how many violate a budget; or why the node takes no pod at all."""
        victims = self.victims(slot)
        rows = list(itertools.chain(*victims))
        refusal = self.refusal(slot, rows)
        if refusal:
            return refusal
        violating = self.violating(rows)
        gone = rows
        for victim in sorted(victims, key=violating.isdisjoint):
            without = [each for each in gone if each not in victim]
            if not self.refusal(slot, without):
                gone = without
        return gone, len(violating.intersection(gone))


def _with_a_claim_of(priority: int) -> Situation:
    """The pod wants a claim that only one pod may use, and which one of this priority uses on the node."""
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": changed_clusters.EXCLUSIVE[0]}}
    classes = {1: pod_of({"volumes": [volume]}), 2: pod_of(), WANTED: pod_of({"volumes": [volume]})}
    for number, each in ((1, priority), (2, 0), (WANTED, PRIORITY)):
        classes[number].spec.priority = each
    cluster = changed_clusters.Change(
        ({"labels": {}, "allocatable": {"pods": "9"}},),
        (1,),
        classes,
        ((1, 0, False), (2, 0, False)),
        (),
        frozenset(),
        (),
    )
    return Situation(cluster, (0, 0), (), (), None, frozenset())


def _check(situation: Situation) -> int:
    """Compare both; returns how many nodes would have to evict some of their pods, and not all."""
    candidates, refused = _found(situation)
    by_hand = ByHand(situation)
    some = 0
    for slot in range(len(situation.cluster.nodes)):
        victims = by_hand.victims(slot)
        if not victims:
            assert slot not in candidates
            assert slot not in refused
            continue
        expected = by_hand.dry_run(slot)
        if isinstance(expected[0], list):
            assert candidates[slot] == expected
            some += 0 < len(expected[0]) < sum(map(len, victims))
        else:
            assert slot in refused
            assert slot not in candidates
    return some


@pytest.mark.parametrize("part", range(4))
def test_the_victims_on_each_node_are_those_that_cannot_stay(part: int) -> None:
    """One too many is evicted for nothing, one too few leaves the pod nominated to a node that it does not fit on."""
    assert sum(_check(_situation(100 * part + number)) for number in range(20)) >= 5


@pytest.mark.parametrize("part", range(2))
def test_a_group_that_is_disrupted_as_a_whole_goes_or_stays_on_all_of_its_nodes(part: int) -> None:
    assert sum(_check(_situation(1000 * part + number, groups=True)) for number in range(20)) >= 5


def test_a_dry_run_ends_where_the_cluster_changes_while_a_service_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was tried is not the cluster any more."""
    classes = {1: pod_of(), WANTED: pod_of()}
    classes[WANTED].spec.priority = PRIORITY
    nodes = ({"labels": {}, "allocatable": {"pods": "9"}},)
    cluster = changed_clusters.Change(nodes, (1,), classes, ((1, 0, False),) * 3, (), frozenset(), ())
    situation = Situation(cluster, (0, 0, 0), (), (), 3, frozenset())
    assert _found(situation)[1] == {0: ("no",)}
    dry_runs = PodLimit.dry_runs

    async def change(plugin: PodLimit, *request: Any) -> interfaces.Verdicts:
        snap = request[1]
        generation = snap.generation
        snap.apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, removed_pods=[0]))
        return await dry_runs(plugin, *request)

    monkeypatch.setattr(PodLimit, "dry_runs", change)
    with pytest.raises(snapshot.OutOfStepError):
        _found(situation)


@pytest.mark.parametrize(
    ("dependencies", "called", "apart"),
    [
        (["NODE"], [], False),
        (["NODE_PODS"], ["0"], False),
        (["CLUSTER", "NODE", "NODE_PODS"], ["0", "2"], True),
    ],
)
def test_services_are_called_in_dry_runs_unless_they_look_at_nodes_alone(
    dependencies: list[str], called: list[str], apart: bool
) -> None:
    """Or skip the class; where one looks at the cluster, nodes are not tried together."""
    snap, columns = SnapshotBuilder().snap, class_verdicts.ClassVerdicts()
    plugins: list[Any] = []
    for number, each in enumerate(dependencies):
        plugin: Any = Closed(frozenset())
        plugin.name, plugin.depends_on = str(number), interfaces.Dependency[each]
        plugins.append(plugin)
        columns.plugins[plugin.name] = filter_column.FilterColumn(interfaces.PreFilterResult(), 0)
    chain, unused = filter_chain.FilterChain(plugins), cast(Any, None)
    found = async_dry_runs.async_dry_runs_of_class(chain, columns, unused, snap, unused)
    assert sorted(found.names if found else ()) == called
    assert (found is not None and found.slots_affect_each_other) is apart
    for column in columns.plugins.values():
        column.prefilter = interfaces.PreFilterResult(skip=True)
    assert async_dry_runs.async_dry_runs_of_class(chain, columns, unused, snap, unused) is None
    # PreFilter of one before has refused the class: these have not answered.
    columns.plugins.clear()
    assert async_dry_runs.async_dry_runs_of_class(chain, columns, unused, snap, unused) is None


@pytest.mark.parametrize("priority", [1, 9])
def test_a_claim_of_one_pod_is_free_only_without_that_pod(priority: int) -> None:
    _check(_with_a_claim_of(priority))
