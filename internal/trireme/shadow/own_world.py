"""Own world: the pods that arrive and leave in the cluster, placed by Trireme in a world of its own.

The events of the watch are delivered to the world with its own placements in place of the other scheduler's:

- A pod that has a node when it is first seen keeps that node in both worlds.
- A pod that arrives without a node is scheduled here, whatever the other scheduler does with it.
- A pod with claims to volumes or devices goes where the other scheduler puts it, once it does: its volume and its
  devices are in the one cluster that there is. Such pods count as followed.
- A pod that is deleted in the cluster leaves both worlds, whoever deleted it.
- A pod that is evicted here for another one leaves this world. If it has a controller, which would create another one,
  it comes back as a pending pod.
- Nominations of the other scheduler do not count here.
"""

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from trireme.cache import object_kinds
from trireme.cache.pod_projection import PREEMPTED, ParsedPod
from trireme.config import commandline
from trireme.scheduling import ports
from trireme.shadow import discarded_writes, durations, world
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import Event, EventKind


@dataclasses.dataclass(slots=True)
class _Pod:
    """A pod of the cluster. `uid` is its UID here, another one after each eviction; `node` its node here, "": none.

    `arrival` in seconds of the clock; None: it had a node when it was first seen, or it is followed.
    """

    parsed: ParsedPod
    uid: str
    node: str
    arrival: float | None
    is_bound_there: bool
    is_evicted: bool = False


@dataclasses.dataclass(slots=True)
class OwnWorldCounts:
    """What happened in this world."""

    arrivals: int = 0
    bound: int = 0
    #: Victims of preemption here.
    evicted: int = 0
    #: Pods with claims, which go where the other scheduler puts them.
    followed: int = 0


class OwnWorld:
    """The world, and the translation of the watch's events into its own."""

    def __init__(
        self, completed: commandline.CompletedConfig, clock: Callable[[], float], clocks: ports.Clocks | None = None
    ) -> None:
        """`clock` in seconds, for how long pods wait. Raises: ValueError: a plugin's arguments cannot be used."""
        effects = ports.Effects(
            discarded_writes.DiscardedWrites(self._on_bound, self._on_evicted), discarded_writes.DiscardedEvents()
        )
        self.world = world.World(completed, effects) if clocks is None else world.World(completed, effects, clocks)
        self._profiles = frozenset(profile.scheduler_name for profile in completed.profiles)
        self._first_profile = completed.profiles[0].scheduler_name
        self._clock = clock
        self._pods: dict[str, _Pod] = {}  # by the UID in the cluster
        self._cluster_uids: dict[str, str] = {}  # by the UID here
        self.counts = OwnWorldCounts()
        #: How long pods that arrived waited for their node, here and in the cluster.
        self.waits_here = durations.Durations()
        self.waits_there = durations.Durations()
        self.pending_here = 0
        self.pending_there = 0

    def begin(self) -> None:
        """The scheduler of this world begins: from now on it counts how long pods wait, in both worlds."""
        now = self._clock()
        for pod in self._pods.values():
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
                out.append(Event(kind, None))
            elif kind is EventKind.DELETED:
                out.extend(self._departure(parsed))
            else:
                out.extend(self._arrival_or_change(kind, parsed))
        self.world.handlers.on_pods(out)
        if any(kind is EventKind.LIST_END for kind, _ in events):
            self._forget_missing()
        self.world.record_arrivals(self.counts.arrivals - before)

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Nodes were listed, added, changed or deleted."""
        self.world.handlers.on_nodes(events)
        self.world.wake()

    def on_objects(self, kind: object_kinds.ObjectKind, events: Sequence[Event[Any]]) -> None:
        """Objects of the kind were listed, added, changed or deleted."""
        self.world.handlers.on_objects(kind, events)
        self.world.wake()

    def _departure(self, parsed: ParsedPod) -> Iterable[Event[ParsedPod]]:
        """The pod is gone in the cluster."""
        pod = self._pods.pop(parsed.uid, None)
        if pod is None:
            return
        self._cluster_uids.pop(pod.uid, None)
        self._count_pending(pod, -1)
        if not pod.is_evicted:
            yield Event(EventKind.DELETED, parsed._replace(uid=pod.uid, node_name=pod.node, flags=_flags(parsed)))

    def _arrival_or_change(self, kind: EventKind, parsed: ParsedPod) -> Iterable[Event[ParsedPod]]:
        """The pod is new in the cluster, or changed there."""
        pod = self._pods.get(parsed.uid)
        if pod is None:
            pod = self._add(parsed)
        else:
            self._count_pending(pod, -1)
            self._note_binding_there(pod, parsed)
            pod.parsed = parsed
            self._count_pending(pod, 1)
        if not pod.is_evicted and (pod.node or not has_claims(parsed.base)):
            yield Event(kind, self._as_here(pod))

    def _add(self, parsed: ParsedPod) -> _Pod:
        """A pod that is seen for the first time."""
        free = not parsed.node_name and not has_claims(parsed.base)
        arrival = self._clock() if free else None
        pod = _Pod(parsed, parsed.uid, parsed.node_name, arrival, bool(parsed.node_name))
        self._pods[parsed.uid], self._cluster_uids[parsed.uid] = pod, parsed.uid
        self.counts.arrivals += free
        self._count_pending(pod, 1)
        return pod

    def _note_binding_there(self, pod: _Pod, parsed: ParsedPod) -> None:
        """Note that the pod has a node in the cluster now, if that is new; one with claims follows."""
        if not parsed.node_name or pod.is_bound_there:
            return
        pod.is_bound_there = True
        if pod.arrival is not None:
            self.waits_there.add(self._clock() - pod.arrival)
        elif not pod.node:
            pod.node = parsed.node_name
            self.counts.followed += 1

    def _as_here(self, pod: _Pod) -> ParsedPod:
        """The pod as a watch of this world would show it."""
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

    def _forget_missing(self) -> None:
        """After a list, drop pods that the world does not know any more."""
        known = {pod.uid for pod in self.world.cache.pods()} | self.world.handlers.pending_uids()
        for uid, pod in list(self._pods.items()):
            waits_for_other = not pod.node and has_claims(pod.parsed.base)
            if pod.uid not in known and not pod.is_evicted and not waits_for_other:
                del self._pods[uid]
                self._cluster_uids.pop(pod.uid, None)
                self._count_pending(pod, -1)

    def _count_pending(self, pod: _Pod, sign: int) -> None:
        """Count the pod among those that wait for a node, or no more (-1)."""
        if pod.arrival is not None:
            self.pending_here += sign * (not pod.node and not pod.is_evicted)
            self.pending_there += sign * (not pod.is_bound_there)

    # What scheduling does

    def _on_bound(self, uid: str, node: str) -> None:
        """Scheduling bound a pod: the world shows it on its node from the next turn of the loop on."""
        asyncio.get_running_loop().call_soon(self._show_bound, uid, node)

    def _show_bound(self, uid: str, node: str) -> None:
        """Deliver the event of a binding, unless the pod is gone meanwhile."""
        pod = self._pods.get(self._cluster_uids.get(uid, ""))
        if pod is None or pod.node:
            return
        self._count_pending(pod, -1)
        pod.node = node
        self._count_pending(pod, 1)
        if pod.arrival is not None and pod.uid == pod.parsed.uid:
            self.waits_here.add(self._clock() - pod.arrival)
            self.counts.bound += 1
        self.world.handlers.on_pods([Event(EventKind.MODIFIED, self._as_here(pod))])
        self.world.wake()

    def _on_evicted(self, uid: str) -> None:
        """Scheduling evicted a pod."""
        asyncio.get_running_loop().call_soon(self._show_evicted, uid)

    def _show_evicted(self, uid: str) -> None:
        """Deliver the deletion of a victim, and its return as a pending pod if it has a controller."""
        pod = self._pods.get(self._cluster_uids.pop(uid, ""))
        if pod is None:
            return
        self.counts.evicted += 1
        gone = self._as_here(pod)
        self._count_pending(pod, -1)
        pod.node, pod.uid = "", f"{pod.uid}~"
        pod.is_evicted = not _has_controller(pod.parsed.base)
        self._count_pending(pod, 1)
        events = [Event(EventKind.DELETED, gone)]
        if not pod.is_evicted:
            self._cluster_uids[pod.uid] = pod.parsed.uid
            events.append(Event(EventKind.ADDED, self._as_here(pod)))
        self.world.handlers.on_pods(events)
        self.world.wake()


def _flags(parsed: ParsedPod) -> int:
    """The pod's flags without the mark of a preemption, which the other scheduler made."""
    return parsed.flags & ~PREEMPTED


@functools.lru_cache(maxsize=8192)
def has_claims(base: bytes) -> bool:
    """Whether pods of this base claim volumes or devices."""
    spec = core_pb2.Pod.FromString(base).spec
    sources = (volume.volume_source for volume in spec.volumes)
    return bool(spec.resource_claims) or any(
        source.HasField("persistent_volume_claim") or source.HasField("ephemeral") for source in sources
    )


@functools.lru_cache(maxsize=8192)
def _has_controller(base: bytes) -> bool:
    """Whether a controller owns pods of this base."""
    return any(owner.controller for owner in core_pb2.Pod.FromString(base).metadata.owner_references)
