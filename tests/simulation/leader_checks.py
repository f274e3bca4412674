"""What must hold when a leader decides, by what it knows at that moment: its own cache, not the API server's store.

So a watch that lags is no excuse, and none is needed. Each check looks at the result of a decision of the product and
computes from the pods' objects whether it may be; what a pod asks for is as when it was created.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

from tests.simulation.observed_calls import observe
from tests.simulation.placed_pods import PlacedPod, excluded, has_room, placed_pod, used
from tests.simulation.pod_demands import (
    device_claims_of,
    extended_devices_of,
    group_of,
    is_done,
    is_guarded,
    is_reserved,
    may_run_on,
    volume_claims_of,
)
from tests.simulation.simulated_workloads import GROUPS
from trireme.cache import cluster_cache
from trireme.frontend import app
from trireme.scheduling import assumed_pod, binding_cycle, preemption_executor, scheduler
from trireme_kube.embedded.api.resources import LEASES, NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import DELETED, Event, Store

# For so long nothing must have changed on a node that a decision should have seen. Units: seconds.
SETTLED_SECONDS = 10.0
# How many of the pods that were deleted last are known: a frontend's watch may lag.
DELETED_PODS = 2000


class LeaderChecks:
    """Observes the decisions of all frontends. `violations` are in the order in which they happened."""

    def __init__(self, store: Store, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self.violations: list[str] = []
        # Every pod that exists, and the last ones that did, which a frontend may still know: its object as it was
        # created, and the members of each group.
        self._pods: dict[str, Object] = {}
        self._deleted: collections.deque[str] = collections.deque()
        self._members: dict[str, set[str]] = collections.defaultdict(set)
        self._node_of: dict[str, str] = {}
        # When something happened on a node, at the API server.
        self._changed: dict[str, float] = {}
        # Who holds the Lease, and the pods that were bound when it got it, until it begins to schedule.
        self._successor = ""
        self._bound_before: set[str] = set()
        self._apps: list[app.App] = []
        # By the cache of a frontend, the members of groups that had a node there when it last began to try a group.
        self._placed_before_trial: weakref.WeakKeyDictionary[Any, Set[str]] = weakref.WeakKeyDictionary()
        # By UID, the nodes that leaders chose whose CSINode they did not have yet: then nothing says how many volumes
        # they attach, and kube-scheduler takes them for unlimited, too.
        self._chosen_without_limit: dict[str, set[str]] = collections.defaultdict(set)
        store.listen_to_all(self._on_write)
        observe(scheduler.Scheduler, "run_cycle", self._on_cycle)
        observe(binding_cycle.BindingCycle, "start", self._on_binding)
        observe(cluster_cache.ClusterCache, "begin_trial", self._on_trial)
        observe(cluster_cache.ClusterCache, "assume", self._on_assume)
        for method in ("evict_in_background", "evict"):
            observe(preemption_executor.PreemptionExecutor, method, self._on_eviction)

    def add(self, built: app.App) -> None:
        """Observe this frontend."""
        self._apps = [*self._apps[-20:], built]

    def knew_limits(self, uid: str, node: str) -> bool:
        """Whether each leader that chose the node for the pod knew how many volumes it attaches."""
        return node not in self._chosen_without_limit.get(uid, ())

    def _on_write(self, resource: Resource, event: Event) -> None:
        if resource is NODES:
            self._changed[event.record.name] = self._now()
            if event.type == DELETED:
                del self._changed[event.record.name]
        elif resource is LEASES and event.record.name == "kube-scheduler":
            self._on_lease(event.record.object["spec"].get("holderIdentity") or "")
        elif resource is PODS:
            self._on_pod(event)

    def _on_pod(self, event: Event) -> None:
        pod, uid = event.record.object, event.record.uid
        if uid not in self._pods:
            self._pods[uid] = pod
            self._members[group_of(pod)].add(uid)
        node = pod["spec"].get("nodeName")
        if node:
            self._node_of[uid] = node
            if node in self._changed:  # else it was removed
                self._changed[node] = self._now()
        if event.type == DELETED or is_done(pod):
            self._node_of.pop(uid, None)
        if event.type == DELETED:
            self._deleted.append(uid)
            if len(self._deleted) > DELETED_PODS:
                self._forget(self._deleted.popleft())

    def _forget(self, uid: str) -> None:
        self._chosen_without_limit.pop(uid, None)
        group = group_of(self._pods.pop(uid))
        self._members[group].discard(uid)
        if not self._members[group]:
            del self._members[group]

    def _violated(self, text: str) -> None:
        self.violations.append(text)

    # Successions

    def _on_lease(self, holder: str) -> None:
        if holder != self._successor:
            self._successor, self._bound_before = holder, set(self._node_of)

    def _on_cycle(self, running: Any, batch: Any) -> None:
        """A leader schedules nothing before it knows what was bound when it got the Lease."""
        built = next((each for each in self._apps if each.scheduling.scheduler is running), None)
        term = None if built is None else built.context.leader.term
        if built is None or term is None or term.holder != self._successor:
            return
        unknown = [uid for uid in self._bound_before if uid in self._node_of and built.cluster.cache.pod(uid) is None]
        self._bound_before = set()
        if unknown:
            names = sorted(self._pods[uid]["metadata"]["name"] for uid in unknown)
            self._violated(f"a leader schedules without knowing that these are bound since before it led: {names}")

    # Groups

    def _on_trial(self, cache: Any) -> None:
        self._placed_before_trial[cache] = {
            uid for name, members in self._members.items() if name for uid in members if cache.pod(uid) is not None
        }

    def _on_binding(self, binding: Any, cycle: Any, pods: Sequence[assumed_pod.AssumedPod]) -> None:
        """No pod of a group is on its way to be bound unless so many were placed as have to go together.

        A member that had a node when the trial began counts, also if its PreBind or Bind has failed since: each member
        is bound, and retried, by itself, and kube-scheduler counts by the snapshot of the cycle, too. So does a member
        that has been deleted: it may have been placed with them.
        """
        before = self._placed_before_trial.get(binding._cache, frozenset())
        groups = {group_of(self._pods[each.pod.uid]) for each in pods} - {""}
        for name in groups:
            record, gone = self._store.get(GROUPS, "default", name), self._members[name].intersection(self._deleted)
            left = self._members[name] - gone
            placed = len(gone) + sum(uid in before or binding._cache.pod(uid) is not None for uid in left)
            if record is not None and placed < record.object["spec"]["schedulingPolicy"]["gang"]["minCount"]:
                self._violated(f"{placed} pods of {name} are bound alone")

    # Nominated pods

    def _on_assume(self, cache: Any, key: str, uid: str, node_name: str, *_: Any) -> None:
        """A pod leaves the room of pods that are nominated to its node and no less important."""
        built = next((each for each in self._apps if each.cluster.cache is cache), None)
        if built is None or uid not in self._pods:
            return
        if ("csi_node", "", node_name) not in cache._objects:
            self._chosen_without_limit[uid].add(node_name)
        nominator = built.scheduling.queue.nominator
        priority = _priority(self._pods[uid])
        nominees = [
            each.uid
            for each in nominator.pods_for(node_name)
            if each.uid != uid and each.priority >= priority and each.uid not in nominator._withheld
        ]
        if not nominees:
            return
        there = [*self._on_node(cache, node_name), *self._placed(nominees)]
        node, wanted = self._store.get(NODES, "", node_name), placed_pod(self._pods[uid])
        if node is not None and not has_room(node.object, there, wanted):
            self._violated(f"pod {key} takes the room on {node_name} of nominated pods: {used([*there, wanted])}")

    def _on_node(self, cache: Any, node_name: str) -> list[PlacedPod]:
        """The pods that a frontend knows on a node, without those that a trial has hidden."""
        return self._placed(each.uid for each in cache._on_node.get(node_name, ()) if each.slot >= 0)

    def _placed(self, uids: Iterable[str]) -> list[PlacedPod]:
        return [placed_pod(self._pods[uid]) for uid in uids if uid in self._pods]

    # Victims, and disruption budgets

    def _on_eviction(self, executor: Any, pod: Any, node_name: str, victims: Sequence[Any], nodes: Any = ()) -> None:
        """Victims are less important than the preemptor, and a budget is violated only where that is the only way."""
        preemptor = self._pods.get(pod.uid)
        named = [self._pods[each.pod.uid] for each in victims if each.pod.uid in self._pods]
        if preemptor is not None:
            equal = [each["metadata"]["name"] for each in named if _priority(each) >= _priority(preemptor)]
            if equal:
                self._violated(f"{equal} are to go for {preemptor['metadata']['name']}, which is no more important")
        guarded = [each["metadata"]["name"] for each in named if is_guarded(each)]
        if preemptor is None or not node_name or not guarded:
            return
        if device_claims_of(preemptor) or extended_devices_of(preemptor) or volume_claims_of(preemptor):
            return
        for record in self._store.scan(NODES):
            if record.name != node_name and self._has_unguarded_way(executor, preemptor, record.object):
                name = preemptor["metadata"]["name"]
                self._violated(f"{guarded} go from {node_name} for {name}, which fits on {record.name} without")
                return

    def _has_unguarded_way(self, executor: Any, preemptor: Object, node: Object) -> bool:
        """Whether the pod would long have fitted on the node if only pods that no budget protects went."""
        name = node["metadata"]["name"]
        if not may_run_on(preemptor, node) or is_reserved(name):  # by what it is configured now is not looked at
            return False
        if self._now() - self._changed.get(name, 0.0) < SETTLED_SECONDS or executor._nominations.pods_for(name):
            return False
        there = list(executor._cache._on_node.get(name, ()))
        if any(each.assumed or each.flags or each.evicting or each.uid not in self._pods for each in there):
            return False
        if {each.uid for each in there} != {uid for uid, node in self._node_of.items() if node == name}:
            return False
        priority = _priority(preemptor)
        pods = [self._pods[each.uid] for each in there]
        staying = [
            placed_pod(each) for each in pods if is_guarded(each) or group_of(each) or _priority(each) >= priority
        ]
        wanted = placed_pod(preemptor)
        return (
            len(staying) < len(pods) and not excluded(staying) & wanted.exclusions and has_room(node, staying, wanted)
        )


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))
