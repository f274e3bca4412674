"""Simulated cluster: the pods that arrive and leave in the cluster, placed by Trireme.

The watch's events are delivered to the simulated cluster with its own placements in place of the other scheduler's:

- A pod that has a node when it is first seen keeps that node in both clusters.
- A pod that arrives without a node is scheduled here, whatever the other scheduler does with it.
- A pod with claims to volumes or devices goes where the other scheduler puts it, once it does: its volume and its
  devices are in the one cluster that there is. Such pods count as followed.
- A pod that is deleted in the cluster leaves both clusters, no matter which client deleted it.
- A pod that is evicted here for another one leaves the simulated cluster. If it has a controller, which would create
  another one, it comes back as a pending pod.
- A pod whose node here is removed, drained, or evicts it by a taint comes back as a pending pod, with a controller or
  without: it is in the cluster, on another node or pending, and both have the same pods. One that the cluster has on
  that node too stays, and leaves as the watch says: the cluster deletes it.
- Nominations of the other scheduler do not count here.

Also change: internal/trireme/simulation/simulation.py (a cluster in memory).

Tests: tests/unit/shadow/test_simulated_cluster.py, tests/unit/shadow/test_simulated_cluster_nodes.py.
"""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trireme.cache import object_kinds
from trireme.cache.pod_projection import PREEMPTED, ParsedPod
from trireme.config import commandline
from trireme.framework import tolerations
from trireme.scheduling import in_memory, ports, relists
from trireme.shadow import cluster_model, durations, simulated_nodes, simulated_pods
from trireme.v1 import bind_pb2, core_pb2
from trireme_kube.client.informers.watch import Event, EventKind


@dataclasses.dataclass(slots=True)
class SimulatedClusterCounts:
    """What happened in the simulated cluster."""

    arrivals: int = 0
    bound: int = 0
    #: Victims of preemption here.
    evicted: int = 0
    #: Pods with claims, which go where the other scheduler puts them.
    followed: int = 0
    #: Pods that lost their node here because it was removed, drained, or evicted them by a taint.
    node_losses: int = 0


class SimulatedCluster:
    """The model of it, and the translation of the watch's events into its own."""

    def __init__(
        self, completed: commandline.CompletedConfig, clock: Callable[[], float], clocks: ports.Clocks | None = None
    ) -> None:
        """`clock` in seconds, for how long pods wait. Raises: ValueError: a plugin's arguments cannot be used."""
        effects = ports.Effects(in_memory.Binder(self._on_bound, self._on_action), in_memory.Events())
        self.model = (
            cluster_model.ClusterModel(completed, effects)
            if clocks is None
            else cluster_model.ClusterModel(completed, effects, clocks)
        )
        self._profiles = frozenset(profile.scheduler_name for profile in completed.profiles)
        self._first_profile = completed.profiles[0].scheduler_name
        self._clock = clock
        self._pods = simulated_pods.SimulatedPods()
        self._nodes = simulated_nodes.SimulatedNodes(clock, comparing=completed.gates.enabled(tolerations.GATE))
        self._relists = relists.RelistTracker()
        self.counts = SimulatedClusterCounts()
        #: How long pods that arrived waited for their node, here and in the cluster.
        self.waits_here = durations.Durations()
        self.waits_there = durations.Durations()

    @property
    def pending_here(self) -> int:
        """How many pods wait for a node here, those that lost theirs included."""
        return self._pods.pending_here

    @property
    def pending_there(self) -> int:
        """How many pods that arrived wait for a node in the cluster."""
        return self._pods.pending_there

    @property
    def missing(self) -> int:
        """How many pods of the cluster are not here: they were evicted here, and no controller makes them again."""
        return self._pods.missing

    def begin(self) -> None:
        """The scheduler of the simulated cluster begins: from now on it counts how long pods wait, in both clusters."""
        now = self._clock()
        for pod in self._pods:
            if pod.arrival is not None:
                pod.arrival = now
        self.waits_here, self.waits_there = durations.Durations(), durations.Durations()

    # Events

    def on_pods(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Pods were listed, added, changed or deleted in the cluster."""
        before = self.counts.arrivals
        out: list[Event[ParsedPod]] = []
        for kind, parsed in events:
            if parsed is None:
                self._relists.on_list_marker(kind, "pods", self._pods.cluster_uids, self._forget)
                out.append(Event(kind, None))
            elif kind is EventKind.DELETED:
                out.extend(self._departure(parsed))
            else:
                out.extend(self._arrival_or_change(kind, parsed))
        self.model.handlers.pods.on_pods(out)
        self._empty_drained_nodes(events)
        self.model.record_arrivals(self.counts.arrivals - before)

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Nodes were listed, added, changed or deleted."""
        removed = self._nodes.apply(events)
        self.model.handlers.objects.on_nodes(events)
        for name in sorted(removed):
            self._place_anew(self._pods.pods_on_node(name))
        for name in sorted(self._nodes.cordoned & {node.metadata.name for _, node in events if node is not None}):
            self._empty_if_drained(name)
        self.model.wake()

    def on_objects(self, kind: object_kinds.ObjectKind, events: Sequence[Event[Any]]) -> None:
        """Objects of the kind were listed, added, changed or deleted."""
        self.model.handlers.objects.on_objects(kind, events)
        self.model.wake()

    def evict_by_taints(self) -> None:
        """Place pods anew that the taints of their node evict by now. To be called every second or so."""
        now = self._clock()
        for name in self._nodes.evicting:
            self._place_anew(
                pod
                for pod in self._pods.pods_on_node(name)
                if self._nodes.eviction_time(name, _tolerations(pod.parsed.base), pod.since) <= now
            )

    def _forget(self, cluster_uid: str) -> None:
        """A list does not have the pod any more. The end of the list removes it here, too."""
        self._pods.remove(cluster_uid)

    def _departure(self, parsed: ParsedPod) -> Iterable[Event[ParsedPod]]:
        pod = self._pods.remove(parsed.uid)
        if pod is not None and not pod.is_missing:
            yield Event(EventKind.DELETED, parsed._replace(uid=pod.uid, node_name=pod.node, flags=_flags(parsed)))

    def _arrival_or_change(self, kind: EventKind, parsed: ParsedPod) -> Iterable[Event[ParsedPod]]:
        """The pod is new in the cluster, or changed there."""
        if kind is EventKind.LISTED:
            self._relists.add("pods", parsed.uid)
        pod = self._pods.get(parsed.uid)
        if pod is None:
            pod = self._add(parsed)
        else:
            with self._pods.changing(pod):
                self._note_binding_there(pod, parsed)
                pod.parsed = parsed
        if not pod.is_missing and not pod.follows:
            yield Event(kind, self._as_here(pod))

    def _add(self, parsed: ParsedPod) -> simulated_pods.SimulatedPod:
        """A pod that is seen for the first time."""
        now = self._clock()
        free = not parsed.node_name and not simulated_pods.has_claims(parsed.base)
        pod = simulated_pods.SimulatedPod(parsed, parsed.node_name, now if free else None, bool(parsed.node_name), now)
        self._pods.add(pod)
        self.counts.arrivals += free
        return pod

    def _note_binding_there(self, pod: simulated_pods.SimulatedPod, parsed: ParsedPod) -> None:
        """Note that the pod has a node in the cluster now, if that is new; one with claims follows."""
        if not parsed.node_name or pod.is_bound_there:
            return
        pod.is_bound_there = True
        if pod.arrival is not None:
            self.waits_there.add(self._clock() - pod.arrival)
        elif not pod.node:
            pod.node, pod.since = parsed.node_name, self._clock()
            self.counts.followed += 1

    def _as_here(self, pod: simulated_pods.SimulatedPod) -> ParsedPod:
        """The pod as a watch of the simulated cluster would show it."""
        parsed = pod.parsed
        known = parsed.scheduler_name in self._profiles
        return parsed._replace(
            uid=pod.uid,
            node_name=pod.node,
            nominated_node="",
            condition=(),
            flags=_flags(parsed),
            scheduler_name=parsed.scheduler_name if known else self._first_profile,
        )

    # What nodes do

    def _empty_drained_nodes(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Empty the cordoned nodes from which these events took the last pod in the cluster."""
        cordoned = self._nodes.cordoned
        if not cordoned:
            return
        if all(kind is not EventKind.LIST_END for kind, _ in events):
            cordoned &= {parsed.node_name for _, parsed in events if parsed is not None}
        for name in sorted(cordoned):
            self._empty_if_drained(name)

    def _empty_if_drained(self, name: str) -> None:
        """Place the pods of a cordoned node anew if the cluster emptied it: a drain evicts the cluster's pods."""
        if self._pods.is_empty_there(name):
            self._place_anew(
                pod
                for pod in self._pods.pods_on_node(name)
                if simulated_pods.is_drained(pod.parsed.base)
                and self._nodes.may_drain(name, _tolerations(pod.parsed.base), pod.since)
            )

    def _place_anew(self, pods: Iterable[simulated_pods.SimulatedPod]) -> None:
        """These pods lost their node here: they come back as pending pods.

        But not those that leave the cluster anyway: they are terminating, or on that node in the cluster too.
        """
        for pod in pods:
            if not pod.is_terminating and pod.parsed.node_name != pod.node:
                self.counts.node_losses += 1
                self._lose_node(pod, comes_back=True)

    def _lose_node(self, pod: simulated_pods.SimulatedPod, *, comes_back: bool) -> None:
        """Deliver the deletion of a pod here, and its return as a pending pod with another UID."""
        gone = self._as_here(pod)
        with self._pods.changing(pod):
            pod.node, pod.losses, pod.is_missing = "", pod.losses + 1, not comes_back
        events = [Event(EventKind.DELETED, gone)]
        if comes_back:
            # If a list is under way that has shown the pod already, the end of the list must not remove it.
            is_listed = pod.parsed.uid in self._relists.seen_keys("pods")
            events.append(Event(EventKind.LISTED if is_listed else EventKind.ADDED, self._as_here(pod)))
        self.model.handlers.pods.on_pods(events)
        self.model.wake()

    # What scheduling does

    def _on_bound(self, items: Iterable[bind_pb2.BindItem]) -> None:
        """Scheduling bound pods: the world shows them on their nodes from the next turn of the loop on."""
        for item in items:
            asyncio.get_running_loop().call_soon(self._show_bound, item.pod.uid, item.node_name)

    def _show_bound(self, uid: str, node: str) -> None:
        """Deliver the event of a binding, unless the pod is gone meanwhile. Its node may be gone, too."""
        pod = self._pods.here(uid)
        if pod is None or pod.node:
            return
        with self._pods.changing(pod):
            pod.node, pod.since = node, self._clock()
        if pod.arrival is not None and not pod.losses:
            self.waits_here.add(self._clock() - pod.arrival)
            self.counts.bound += 1
        self.model.handlers.pods.on_pods([Event(EventKind.MODIFIED, self._as_here(pod))])
        if node not in self._nodes:
            self._place_anew([pod])
        elif node in self._nodes.cordoned:
            self._empty_if_drained(node)
        self.model.wake()

    def _on_action(self, action: bind_pb2.Action) -> None:
        """Scheduling evicted a pod; what else it writes about pods changes nothing here."""
        if action.HasField("evict"):
            asyncio.get_running_loop().call_soon(self._show_evicted, action.pod.uid)

    def _show_evicted(self, uid: str) -> None:
        """Deliver the deletion of a victim, and its return as a pending pod if it has a controller."""
        pod = self._pods.here(uid)
        if pod is not None:
            self.counts.evicted += 1
            self._lose_node(pod, comes_back=bool(simulated_pods.controller_kind(pod.parsed.base)))


def _flags(parsed: ParsedPod) -> int:
    """The pod's flags without the mark of a preemption, which the other scheduler made."""
    return parsed.flags & ~PREEMPTED


@functools.lru_cache(maxsize=8192)
def _tolerations(base: bytes) -> tuple[core_pb2.Toleration, ...]:
    return tuple(core_pb2.Pod.FromString(base).spec.tolerations)
