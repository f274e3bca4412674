"""Who may be a victim, in which order, and which evictions a disruption budget does not allow."""

import asyncio
from collections.abc import MutableMapping, Sequence
from typing import Any

import numpy as np
import pytest

from tests.helpers.snapshot_views import node_of
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.evaluation.preemption import disruption_budgets, dry_run, dry_run_cache, potential_victims
from trireme.snapshot import arrays, snapshot
from trireme.v1 import snapshot_pb2


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
        self, name: str, node: int = 0, *, priority: int = 0, started: int = 0, app: str = "", namespace: str = "ns"
    ) -> None:
        """A pod that started in this second of a minute; 0: it has not."""
        status = {"startTime": f"2026-01-01T00:00:{started:02}Z"} if started else {}
        parsed = pod_projection.parse(
            {
                "metadata": {"namespace": namespace, "name": name, "uid": name, "labels": {"app": app} if app else {}},
                "spec": {"nodeName": f"n{node}", "priority": priority},
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
