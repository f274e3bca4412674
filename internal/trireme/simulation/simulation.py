"""A simulation: a fork of a snapshot, the scheduler on it, and what the cluster's controllers would do meanwhile.

Changes come as the events that a watch would show; `run` schedules until nothing more happens. Pods that are bound run,
and victims of preemption leave, when no other pod can be tried; and a pod that has a controller comes again under
another name.

The scheduler is that of the frontend, from the event handlers on (`scheduling/assembly.py`). What a simulation does not
have: HTTP extenders, remote plugins at other points than Filter and Score, and time between attempts.

Also change: internal/trireme/shadow/simulated_cluster.py (a cluster in memory).
"""

import asyncio
import collections
import contextlib
import enum
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme.cache import class_registry, object_kinds, pod_projection, pod_read_set
from trireme.cache.placed_pod import PlacedPod
from trireme.cache.pod_projection import ParsedPod
from trireme.config import gates, scheduler_configuration
from trireme.evaluation import engine, filter_engine, score_engine
from trireme.framework import status
from trireme.queueing import pending_pod
from trireme.scheduling import in_memory, ports
from trireme.simulation import (
    budgets,
    claim_writes,
    forked_cache,
    known_classes,
    simulated_scheduler,
    usage,
    writes,
    yielding_evaluators,
)
from trireme.snapshot import arrays, snapshot
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, snapshot_pb2
from trireme_kube.client.informers.watch import Event, EventKind

# Attempts to schedule, at most, in one simulation.
MAX_CYCLES = 20_000

# How long pods take to end; longer than any back-off, shorter than what moves pods that nothing has woken.
_GRACE_SECONDS = 60.0

# Pods that are added without a pause, at most.
_AT_ONCE = 200

_KINDS = {kind.field: kind for kind in object_kinds.KINDS}


class Origin(enum.Enum):
    """Where a pod of a simulation comes from."""

    #: It was in the queue before.
    QUEUED = enum.auto()
    #: The scenario adds it.
    ADDED = enum.auto()
    #: It takes the place of one that was evicted.
    REPLACEMENT = enum.auto()


class SimulationLimitError(Exception):
    """The simulation goes on for too long; the text says what the caller can do."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How pods are scheduled: the profiles, and their plugins at Filter, Score and what belongs to them."""

    profiles: Sequence[scheduler_configuration.CompletedProfile]
    features: gates.FeatureGates
    filters: filter_engine.FilterProfiles
    scores: score_engine.ScoreProfiles
    #: What plugins read of pods.
    reads: pod_read_set.PodReadSet
    #: What identifies the caller to remote plugins.
    caller: cycle_pb2.Cycle
    #: The simulation that runs keeps what it has computed of classes, of all with this setup.
    evaluating: engine.LastEvaluating = field(default_factory=engine.LastEvaluating, compare=False)

    def asynchronous(self, profile: str) -> bool:
        """Whether the profile has remote plugins at Filter, which know no nodes that do not exist."""
        chain = self.filters.chains.get(profile)
        return chain is not None and bool(chain.asynchronous)


@dataclass(slots=True)
class OncePendingPod:
    """A pod that was pending at some time."""

    parsed: ParsedPod
    origin: Origin
    #: The pod whose place it takes.
    replaces: cycle_pb2.PodIdentity | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """The numbers in the names and UIDs of pods that do not exist, each given once."""

    of_pods: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    uids: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class Simulation:
    """One simulation; `close` it in the end. Its methods are for one task."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        setup: Setup,
        known: known_classes.KnownClasses,
        *,
        names: "Names | None" = None,
    ) -> None:
        """Fork the snapshot. `known` are its classes; `names` are those of the simulation whose outcome it is."""
        self.setup = setup
        self.known = known
        self.snap = snap.fork(arrays.no_slots(), arrays.no_numbers(), arrays.no_numbers())
        self._forked = forked_cache.ForkedCache(self.snap, known, setup.reads)
        self.cache = self._forked.cache
        self.engine = engine.Engine(self.snap, setup.filters, setup.scores)
        self.evaluators = yielding_evaluators.YieldingEvaluators(self.engine, setup.caller)
        self.writes = writes.Writes()
        #: All pods that were pending, by UID, in the order in which they came.
        self.pods: dict[str, OncePendingPod] = {}
        #: Pods that nobody replaces, though they have a controller, as claims of their own cannot be made again.
        self.not_replaced: list[str] = []
        self._due: collections.deque[Callable[[], None]] = collections.deque()
        # UIDs of pods with a node that budgets do not count yet: a pod takes longer to be ready than an attempt.
        self._starting: dict[str, None] = {}
        # UIDs of pods that preemption evicted, and that are still there.
        self._leaving: list[str] = []
        self._clock = simulated_scheduler.SteppedClock(1_000_000_000.0)
        self.names = Names() if names is None else names
        self.budgets = budgets.Budgets(self.cache, lambda budget: self._show_object(budgets.KIND, budget))
        self._claims = claim_writes.ClaimWrites(
            self.cache,
            lambda claim: self._show_object(claim_writes.KIND, claim),
            lambda claim: self.remove_object(claim_writes.KIND, claim.metadata.namespace, claim.metadata.name),
        )
        self._parts = simulated_scheduler.assemble(
            self.cache,
            self._forked.publish,
            self.evaluators,
            ports.Effects(
                in_memory.Binder(self._on_bound, self._on_action), in_memory.Events(self.writes.failures.__setitem__)
            ),
            profiles=setup.profiles,
            features=setup.features,
            clock=self._clock,
        )
        self._outbox: asyncio.Task[None] | None = None
        self._add_known_groups()

    # Changes

    def publish(self) -> int:
        """Bring the fork up to date with the changes so far; returns its generation."""
        return self._forked.publish()

    def add_pods(
        self, pods: Iterable[ParsedPod], origin: Origin, replaces: cycle_pb2.PodIdentity | None = None
    ) -> None:
        """Add pods: pending ones, or placed ones if they have a node. Raises: UnknownLabelKeyError."""
        added = list(pods)
        for pod in added:
            if not pod.node_name:
                self.pods[pod.uid] = OncePendingPod(pod, origin, replaces)
        self._parts.handlers.pods.on_pods([Event(EventKind.ADDED, pod) for pod in added])

    async def add_many_pods(self, pods: Iterable[ParsedPod], origin: Origin) -> None:
        """Add pods as `add_pods` does, some at a time: other tasks run in between."""
        left = iter(pods)
        while some := list(itertools.islice(left, _AT_ONCE)):
            self.add_pods(some, origin)
            await asyncio.sleep(0)

    async def add_queued_pods(
        self, queued: Iterable[snapshot_pb2.QueuedPod], changed: Mapping[int, core_pb2.Pod] | None = None
    ) -> None:
        """Add the pods of the live queue, in its order; those of classes in `changed` as the pods are there."""
        await self.add_many_pods([self._parsed_of_queued(pod, changed or {}) for pod in queued], Origin.QUEUED)

    def remove_pod(self, uid: str, *, replace: bool) -> None:
        """Delete a pod; with `replace` its controller makes another one. Placed pods leave their budgets."""
        placed = self.cache.pod(uid)
        of_class = None if placed is None else self.cache.registry[placed.class_id].pod
        again = self._replacement(placed, of_class) if replace and placed is not None and of_class is not None else None
        self._parts.handlers.pods.on_pods([Event(EventKind.DELETED, _named(uid))])
        self.pods.pop(uid, None)
        if placed is None or of_class is None:
            return
        self._claims.on_pod_left(uid)
        if uid in self._starting:
            del self._starting[uid]
        else:
            self.budgets.on_left(of_class)
        if again is not None:
            identity = cycle_pb2.PodIdentity(namespace=of_class.metadata.namespace, name=placed.name, uid=uid)
            self.add_pods([again], Origin.REPLACEMENT, identity)

    def set_node(self, node: core_pb2.Node) -> None:
        """Add or change a node."""
        self._parts.handlers.objects.on_nodes([Event(EventKind.MODIFIED, node)])

    def remove_node(self, name: str) -> None:
        """Remove a node, with its pods, whose controllers make others."""
        self.publish()
        uids = self._forked.uids_on(name)
        for uid in uids:
            self.remove_pod(uid, replace=True)
        node = core_pb2.Node()
        node.metadata.name = name
        self._parts.handlers.objects.on_nodes([Event(EventKind.DELETED, node)])

    def set_object(self, kind: str, entry: Any) -> None:
        """Add or change an object of a kind, as ClusterObject names it. Raises: UnknownLabelKeyError."""
        self.budgets.forget_selections()
        self._show_object(kind, entry)

    def _show_object(self, kind: str, entry: Any) -> None:
        self._parts.handlers.objects.on_objects(_KINDS[kind], [Event(EventKind.MODIFIED, entry)])

    def remove_object(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object."""
        self.budgets.forget_selections()
        entry = _KINDS[kind].message()
        entry.metadata.namespace, entry.metadata.name = namespace, name  # type: ignore[attr-defined]
        self._parts.handlers.objects.on_objects(_KINDS[kind], [Event(EventKind.DELETED, entry)])

    def take_unknown_labels_as_absent(self) -> set[str]:
        """No pod of the cluster has a label key that nothing selects by; returns these keys, a set that grows."""
        return self._forked.take_unknown_labels_as_absent()

    def uids_on(self, node_name: str) -> list[str]:
        """The UIDs of the pods on a node, as of the last `publish`."""
        return self._forked.uids_on(node_name)

    def class_pod(self, uid: str) -> core_pb2.Pod:
        """What a placed pod has in common with its class. Raises: KeyError: it is not on a node."""
        placed = self.cache.pod(uid)
        if placed is None:
            raise KeyError(uid)
        return self.cache.registry[placed.class_id].pod

    def last_reasons(self, uid: str) -> list[status.Reason]:
        """Why the pod's last attempt failed, as far as that is not of a node."""
        found = self._parts.reporter.last_statuses(uid)
        return [reason for each, nodes in found if not nodes for reason in each.reasons]

    def pending(self, uid: str) -> pending_pod.PendingPod | None:
        """The pending pod of this UID."""
        return self._parts.pending.get(uid)

    def pending_pods(self) -> list[core_pb2.Pod]:
        """What each pod without a node has in common with its class."""
        found = (self.pending(uid) for uid in self.pods)
        return [self.cache.registry[each.class_id].pod for each in found if each is not None and each.class_id]

    def uid_of(self, namespace: str, name: str) -> str | None:
        """The UID of the pod of this name, pending or placed; None: there is none."""
        for uid, pod in self.pods.items():
            if (pod.parsed.namespace, pod.parsed.name) == (namespace, name):
                return uid
        self.publish()
        pods = self.snap.pods
        for row in [row for row, known in enumerate(pods.names) if known == name]:
            if pods.slot[row] >= 0 and self.snap.classes[int(pods.pod_class[row])].namespace == namespace:
                return pods.uids[row]
        return None

    def names_in_use(self, namespace: str, names: Collection[str]) -> list[str]:
        """Those of the names that a pod of the namespace has, pending or placed, in order."""
        pending = (pod.parsed for pod in self.pods.values())
        found = {pod.name for pod in pending if pod.name in names and pod.namespace == namespace}
        self.publish()
        pods = self.snap.pods
        for row in [row for row, known in enumerate(pods.names) if known in names]:
            if pods.slot[row] >= 0 and self.snap.classes[int(pods.pod_class[row])].namespace == namespace:
                found.add(pods.names[row])
        return sorted(found)

    def invalid_reason(self, pod: ParsedPod) -> str:
        """Why the pod's fields cannot be read; empty: they can."""
        try:
            self.cache.registry.intern_base(pod.base)
        except class_registry.InvalidPod as error:
            return str(error)
        return ""

    def class_of(self, pod: ParsedPod) -> int:
        """The number of the pod's class, made if there is none. Raises: InvalidPod, UnknownLabelKeyError."""
        registry = self.cache.registry
        base = registry.intern_base(pod.base)
        registry.intern(base, pod.labels)
        # A new class may select by labels that other pods have, and the pod itself.
        self._parts.handlers.pods.on_pods([])
        return registry.intern(base, pod.labels)

    def new_uid(self, name: str) -> str:
        """A UID that no pod of the cluster has."""
        return f"simulated-{next(self.names.uids)}-{name}"

    # Scheduling

    async def run(self) -> None:
        """Schedule until nothing more happens. Other tasks run between attempts. Raises: SimulationLimitError."""
        if self._outbox is None:
            self._outbox = asyncio.create_task(self._parts.outbox.run())
        self.setup.evaluating.hold(self.engine)
        queue, progress = self._parts.queue, -1
        for _ in range(MAX_CYCLES):
            await self._settle()
            queue.flush_backoff(self._clock.time)
            batch = queue.pop(self._clock.time, self._parts.limit.max_pods)
            if batch is not None:
                await self._parts.scheduler.run_cycle(batch)
                continue
            if self._leaving:
                self._remove_evicted()
                continue
            # Pods that failed by error are tried again only if something happened since.
            done = len(self.writes.bound) + len(self.writes.evicted)
            expiry = queue.next_backoff()
            if expiry is None or done == progress:
                self._count_started()
                self.publish()
                self.snap.compact()
                return
            progress, self._clock.time = done, expiry + 1.0
        raise SimulationLimitError(f"more than {MAX_CYCLES} attempts: simulate fewer pods at once")

    async def close(self) -> None:
        """Cancel what waits, as pods do on Permit."""
        if self._outbox is not None:
            self._outbox.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._outbox
        await self._parts.close()

    def node_of(self, uid: str) -> str:
        """The node that a pod of the simulation was bound to and is on; empty: none."""
        placed = self.cache.pod(uid)
        return placed.node_name if placed is not None and uid in self.writes.bound else ""

    def nominated_node_of(self, uid: str) -> str:
        """The node that the pod is nominated to; empty: none."""
        return self._parts.queue.nominator.node_of(uid)

    async def _settle(self) -> None:
        """Let everything beside the scheduling cycle end, and other tasks run."""
        await asyncio.sleep(0)
        while self._due or self._parts.settling:
            while self._due:
                self._due.popleft()()
            await asyncio.sleep(0)

    # What the cluster does

    def _on_bound(self, items: Sequence[bind_pb2.BindItem]) -> None:
        """Pods are bound: show them on their nodes."""
        for item in items:
            self.writes.bound[item.pod.uid] = item.node_name
            self.writes.failures.pop(item.pod.uid, None)
        self._due.append(lambda: self._show_bound(items))

    def _on_action(self, action: bind_pb2.Action) -> None:
        """Evict a pod, or release a claim; conditions and nominations are not kept."""
        if action.HasField("evict"):
            evict = action.evict
            self.writes.evicted.append(writes.Eviction(action.pod, evict.node_name, evict.preemptor))
            # Deleted when no other pod can be tried: an attempt takes less time than a victim to leave.
            self._leaving.append(action.pod.uid)
        elif action.HasField("deallocate"):
            self._claims.deallocate(action)

    def _show_bound(self, items: Sequence[bind_pb2.BindItem]) -> None:
        """Have the cache and the queue see bound pods, and what is written for them."""
        events = []
        for item in items:
            placed = self.cache.pod(item.pod.uid)
            known = self.pods.get(item.pod.uid)
            if placed is None or known is None:
                continue
            base = self.cache.registry.base_text(placed.base)
            events.append(Event(EventKind.MODIFIED, known.parsed._replace(node_name=item.node_name, base=base)))
        self._parts.handlers.pods.on_pods(events)
        for item in items:
            if self.cache.pod(item.pod.uid) is not None:
                self._claims.on_pod_bound(item.pod, self.class_pod(item.pod.uid))
                self._starting[item.pod.uid] = None

    def _remove_evicted(self) -> None:
        """Delete the pods that preemption evicted, after the back-off of those for which they leave."""
        self._clock.time += _GRACE_SECONDS
        leaving, self._leaving = self._leaving, []
        for uid in leaving:
            self.remove_pod(uid, replace=True)
        self._count_started()

    def _count_started(self) -> None:
        """Have budgets count the pods that were placed since they last did."""
        starting, self._starting = self._starting, {}
        for uid in starting:
            if self.cache.pod(uid) is not None:
                self.budgets.on_placed(self.class_pod(uid))

    def _replacement(self, placed: PlacedPod, of_class: core_pb2.Pod) -> ParsedPod | None:
        """The pod that a placed one's controller makes in its place; None: nobody makes one that is scheduled."""
        owner = next((each for each in of_class.metadata.owner_references if each.controller), None)
        if owner is None or owner.kind in usage.BOUND_TO_NODE:
            return None
        if of_class.metadata.uid:
            self.not_replaced.append(placed.key)
            return None
        keeps_name = owner.kind == "StatefulSet"
        name = placed.name if keeps_name else self.new_name(owner.name)
        return self.parsed_of_class(placed.class_id, name, placed.labels)

    def new_name(self, prefix: str) -> str:
        """A name that no pod of the cluster has."""
        return f"{prefix}-simulated-{next(self.names.of_pods)}"

    def parsed_of_class(self, class_id: int, name: str, labels: pod_projection.Labels) -> ParsedPod:
        """A new pending pod of a class."""
        entry = self.cache.registry[class_id]
        text = self.cache.registry.base_text(entry.identity[0])
        return parsed_pod(entry.pod, text, name, self.new_uid(name), labels)

    def _parsed_of_queued(self, queued: snapshot_pb2.QueuedPod, changed: Mapping[int, core_pb2.Pod]) -> ParsedPod:
        """A pod of the live queue, as in `changed` if its class is there."""
        number = queued.pod_class
        of_class, text = self.known.classes[number].pod, self.known.texts[self.known.base_of(number)]
        if number in changed:
            of_class, text = changed[number], known_classes.base_text(changed[number])
        nominee = self.snap.nominations.get(queued.pod.uid)
        nominated = "" if nominee is None else self.snap.nodes.names[nominee.slot]
        made = parsed_pod(of_class, text, queued.pod.name, queued.pod.uid, self.known.labels_of(number))
        return made._replace(scheduler_name=queued.profile, nominated_node=nominated)

    def _add_known_groups(self) -> None:
        """Show the queue the pod groups of the fork, and their members that have a node."""
        groups = self._parts.queue.groups
        if groups is None:
            return
        for kind in ("pod_group", "composite_pod_group"):
            for each in self.snap.objects.all(kind):
                groups.set_group(each, self._clock.time)
        members: Mapping[int, str] = {
            number: each.pod_group_name for number, each in self.snap.classes.items() if each.pod_group_name
        }
        if not members:
            return
        for row in self.snap.pods.rows_of(self.snap.class_mask(list(members))).tolist():
            number = int(self.snap.pods.pod_class[row])
            key = f"{self.snap.classes[number].namespace}/{members[number]}"
            groups.member_placed(key, self.snap.pods.uids[row], self._clock.time)


def parsed_pod(of_class: core_pb2.Pod, base: bytes, name: str, uid: str, labels: pod_projection.Labels) -> ParsedPod:
    """A pending pod of a class, as an informer would show it."""
    spec = of_class.spec
    return ParsedPod(
        namespace=of_class.metadata.namespace,
        name=name,
        uid=uid,
        resource_version=0,
        node_name="",
        nominated_node="",
        scheduler_name=spec.scheduler_name,
        priority=spec.priority,
        flags=0,
        start=0,
        labels=labels,
        base=base,
        gates=(),
        group=spec.scheduling_group.pod_group_name,
        generation=0,
        condition=(),
    )


def _named(uid: str) -> ParsedPod:
    """A pod with only a UID, as in the event of its deletion."""
    return parsed_pod(core_pb2.Pod(), b"", "", uid, ())
