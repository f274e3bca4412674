"""What leaders must not decide is found, by what their own cache has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.simulation.leader_checks import SETTLED_SECONDS, LeaderChecks
from tests.simulation.pod_demands import GUARDED
from tests.simulation.simulated_workloads import GROUPS
from trireme.cache import cluster_cache
from trireme.scheduling import binding_cycle, preemption_executor, scheduler
from trireme_kube.embedded.api.resources import LEASES, NODES, PODS, Object
from trireme_kube.embedded.storage.store import Store


class _Cache(SimpleNamespace):
    """What the checks read of a frontend's cache, which they tell from others by its identity."""

    __hash__ = object.__hash__


class _Leader:
    """A store with two nodes of two CPUs, and the parts of a frontend that the checks read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.store = Store()
        self.checks = LeaderChecks(self.store, lambda: self.now)
        for name in ("node-1", "node-2"):
            status = {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "10"}}
            self.store.put(NODES, {"metadata": {"name": name, "uid": name, "labels": {}}, "spec": {}, "status": status})
        self.known: dict[str, str] = {}
        self.on_node: dict[str, list[Any]] = {"node-1": [], "node-2": []}
        self.objects: dict[tuple[str, str, str], object] = {}
        self.cache = _Cache(pod=self.known.get, _on_node=self.on_node, _objects=self.objects)
        self.nominated: list[Any] = []
        self.nominator = SimpleNamespace(pods_for=self._nominated_to, _withheld=set())

    def _nominated_to(self, node: str) -> list[Any]:
        return [each for each in self.nominated if each.node == node]

    def pod(self, name: str, cpu: str = "1", node: str = "", priority: int = 0, **spec: Any) -> None:
        """A pod that the API server has, and the leader, too, if it has a node."""
        labels = {GUARDED: "yes"} if name.startswith("guarded") else {}
        containers = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
        spec |= {"containers": containers, "priority": priority}
        if node:
            spec["nodeName"] = self.known[name] = node
            placed = SimpleNamespace(uid=name, assumed=False, flags=0, evicting=False, slot=0)
            self.on_node[node].append(placed)
        metadata = {"name": name, "uid": name, "namespace": "default", "labels": labels}
        self.store.put(PODS, {"metadata": metadata, "spec": spec, "status": {}})

    def group_of_two(self, placed: int) -> None:
        """A group of two members that have to go together; so many of them have a node."""
        metadata = {"name": "g", "namespace": "default", "uid": "g"}
        self.store.put(GROUPS, {"metadata": metadata, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
        for number in range(2):
            node = "node-1" if number < placed else ""
            self.pod(f"member-{number}", node=node, schedulingGroup={"podGroupName": "g"})

    def bind(self, name: str) -> list[str]:
        """Have the pod go on its way to be bound; returns what is wrong with that."""
        pods: list[Any] = [SimpleNamespace(pod=SimpleNamespace(uid=name))]
        self.checks._on_binding(SimpleNamespace(_cache=self.cache), None, pods)
        return self.checks.violations

    def evict(self, preemptor: str, node: str, *victims: str) -> list[str]:
        """Have the victims go; returns what is wrong with that."""
        executor = SimpleNamespace(_cache=self.cache, _nominations=self.nominator)
        actions = [SimpleNamespace(pod=SimpleNamespace(uid=name)) for name in victims]
        self.checks._on_eviction(executor, SimpleNamespace(uid=preemptor), node, actions)
        return self.checks.violations


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> _Leader:
    """The checks observe methods of the product, which are restored after the test."""
    for owner, name in (
        (scheduler.Scheduler, "run_cycle"),
        (binding_cycle.BindingCycle, "start"),
        (cluster_cache.ClusterCache, "begin_trial"),
        (cluster_cache.ClusterCache, "assume"),
        (preemption_executor.PreemptionExecutor, "evict_in_background"),
        (preemption_executor.PreemptionExecutor, "evict"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    return _Leader()


def test_victims_are_less_important(leader: _Leader) -> None:
    """If this fails, pods go for others that are no more important, and no simulation says so."""
    leader.pod("low", node="node-1", priority=1)
    leader.pod("equal", node="node-1", priority=2)
    leader.pod("preemptor", priority=2)
    assert leader.evict("preemptor", "node-1", "low") == []
    assert leader.evict("preemptor", "node-1", "low", "equal") == [
        "['equal'] are to go for preemptor, which is no more important"
    ]


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("other", ["free", "guarded-too"])
def test_a_budget_is_violated_only_where_it_has_to_be(leader: _Leader, settled: bool, other: str) -> None:
    """If this fails, simulations miss that a budget is violated for nothing, or blame who knew no other way."""
    leader.pod("guarded", "2", "node-1")
    leader.pod(other, "2", "node-2")
    leader.pod("preemptor", "2", priority=5)
    leader.now += SETTLED_SECONDS if settled else 1.0
    found = leader.evict("preemptor", "node-1", "guarded")
    assert found == ["['guarded'] go from node-1 for preemptor, which fits on node-2 without"] * (
        settled and other == "free"
    )


@pytest.mark.parametrize("placed", [1, 2])
def test_a_group_goes_together(leader: _Leader, placed: int) -> None:
    """If this fails, simulations miss that a group is bound in part."""
    leader.group_of_two(placed)
    leader.checks._on_trial(leader.cache)
    assert leader.bind("member-0") == ["1 pods of g are bound alone"] * (placed == 1)


@pytest.mark.parametrize("during_trial", [True, False])
def test_a_member_whose_binding_failed_before_the_trial_does_not_count(leader: _Leader, during_trial: bool) -> None:
    """If this fails, what failed long ago counts, or leaders are blamed for what fails during a trial."""
    leader.group_of_two(2)
    leader.checks._on_trial(leader.cache)
    del leader.known["member-1"]
    if not during_trial:
        leader.checks._on_trial(leader.cache)
    assert leader.bind("member-0") == ["1 pods of g are bound alone"] * (not during_trial)


@pytest.mark.parametrize(("priority", "violated"), [(1, True), (2, True), (3, False)])
def test_nominated_room_is_left(leader: _Leader, priority: int, violated: bool) -> None:
    """If this fails, simulations miss that a pod takes the room that others have left for one no less important."""
    leader.pod("there", node="node-1")
    leader.pod("nominated", priority=2)
    leader.pod("other", priority=priority)
    leader.nominated.append(SimpleNamespace(uid="nominated", priority=2, node="node-1"))
    queue = SimpleNamespace(nominator=leader.nominator)
    built: Any = SimpleNamespace(
        cluster=SimpleNamespace(cache=leader.cache), scheduling=SimpleNamespace(queue=queue, scheduler=None)
    )
    leader.checks.add(built)
    for node in ("node-2", "node-1"):
        leader.checks._on_assume(leader.cache, "default/other", "other", node)
    assert len(leader.checks.violations) == violated


@pytest.mark.parametrize("known", [True, False])
def test_who_leads_knows_what_is_bound(leader: _Leader, known: bool) -> None:
    """If this fails, simulations miss that a leader schedules before it has caught up."""
    leader.pod("bound", node="node-1")
    if not known:
        leader.known.clear()
    lease: Object = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system", "uid": "l"}}
    leader.store.put(LEASES, {**lease, "spec": {"holderIdentity": "me"}})
    running = object()
    context = SimpleNamespace(leader=SimpleNamespace(term=SimpleNamespace(holder="me")))
    built: Any = SimpleNamespace(
        cluster=SimpleNamespace(cache=leader.cache), scheduling=SimpleNamespace(scheduler=running), context=context
    )
    leader.checks.add(built)
    leader.checks._on_cycle(running, None)
    assert len(leader.checks.violations) == (not known)


def test_a_node_that_is_chosen_before_its_limits_are_known_is_noticed(leader: _Leader) -> None:
    """If this fails, leaders are blamed for too many volumes that they could not know of."""
    leader.pod("one")
    built: Any = SimpleNamespace(
        cluster=SimpleNamespace(cache=leader.cache),
        scheduling=SimpleNamespace(queue=SimpleNamespace(nominator=leader.nominator), scheduler=None),
    )
    leader.checks.add(built)
    leader.objects["csi_node", "", "node-1"] = object()
    for node in ("node-1", "node-2"):
        leader.checks._on_assume(leader.cache, "default/one", "one", node)
    assert leader.checks.knew_limits("one", "node-1")
    assert not leader.checks.knew_limits("one", "node-2")
