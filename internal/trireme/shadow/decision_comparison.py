"""Compares the bindings of another scheduler with Trireme's decisions, each on the state just before the binding.

The model here follows the cluster as it is: pods are where the other scheduler put them. Before the event of a binding
is applied, the pod is evaluated with everything that the watch has shown until then, and itself unbound.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from trireme.cache import object_kinds
from trireme.cache.pod_projection import PREEMPTED, ParsedPod
from trireme.evaluation import engine
from trireme.insight import explanation
from trireme.queueing.pending_pod import PendingPod
from trireme.shadow import cluster_model, judgement, order_search
from trireme.shadow.judgement import Judgement, Outcome
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2
from trireme_kube.client.informers.watch import Event, EventKind

# Bindings, departures and earlier states that are kept for `order_search`, and how many decisions wait for their grace.
_MOVES = 4096
_EARLIER_STATES = 8
_OPEN = 64
# So many decisions are kept with their explanation, the latest ones: different ones, and those that the order explains.
_EXAMPLES = 50
_EXPLAINED = 10


@dataclass(frozen=True, slots=True)
class ComparedPod:
    """One compared binding. Units: seconds of the shadow's clock, and Unix seconds for `wall`."""

    key: str
    profile: str
    created: float
    bound: float
    wall: float
    found: Judgement


@dataclass(slots=True)
class ComparisonCounts:
    """How many bindings had each outcome, and what was not compared."""

    outcomes: collections.Counter[Outcome] = field(default_factory=collections.Counter)
    #: Pods that were created with a node, such as static pods.
    born_bound: int = 0
    #: Pods that the other scheduler preempted, as their condition says.
    preempted: int = 0
    #: Different decisions for which it was not examined whether the order explains them: too many waited.
    unexamined: int = 0

    @property
    def compared(self) -> int:
        """The bindings that were judged by scores or refusals."""
        judged = (Outcome.SAME, Outcome.TIED, Outcome.DIFFERENT, Outcome.ORDER)
        return sum(self.outcomes[each] for each in judged)

    @property
    def agreement(self) -> float:
        """The share of the compared bindings that are the same or tied; 1 before the first."""
        agreed = self.outcomes[Outcome.SAME] + self.outcomes[Outcome.TIED]
        return agreed / self.compared if self.compared else 1.0


class DecisionComparison:
    """Applies events to a model in order, and judges each binding in them."""

    def __init__(
        self,
        observed: cluster_model.ClusterModel,
        profiles: Sequence[str],
        clock: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`profiles` are the names of the configured profiles; pods of other schedulers are judged by the first."""
        self._world = observed
        self._profiles = frozenset(profiles)
        self._first_profile = profiles[0]
        self._clock = clock
        self._wall = wall
        self._created: dict[str, float] = {}  # by UID of pending pods
        self._nominated: dict[str, str] = {}  # by UID of pending pods: the node
        self._bindings: collections.deque[order_search.Move] = collections.deque(maxlen=_MOVES)
        self._departures: collections.deque[order_search.Move] = collections.deque(maxlen=_MOVES)
        self._earlier: collections.deque[order_search.EarlierState] = collections.deque(maxlen=_EARLIER_STATES)
        self._open: collections.deque[tuple[ComparedPod, order_search.OpenDecision]] = collections.deque()
        self.counts = ComparisonCounts()
        self._different: collections.deque[ComparedPod] = collections.deque(maxlen=_EXAMPLES)
        self._explained: collections.deque[ComparedPod] = collections.deque(maxlen=_EXPLAINED)

    @property
    def snap(self) -> snapshot.Snapshot:
        """The cluster as of the last event."""
        return self._world.snap

    @property
    def examples(self) -> list[ComparedPod]:
        """The latest bindings that are different or errors, then those that the order explains; each newest first."""
        return [*reversed(self._different), *reversed(self._explained)]

    @property
    def open_count(self) -> int:
        """How many different decisions wait until it is known whether the order explains them."""
        return len(self._open)

    @property
    def pending_count(self) -> int:
        """How many pods wait for a node."""
        return len(self._created)

    def publish(self) -> None:
        """Bring `snap` up to the last event."""
        self._world.publish()

    async def apply_pods(self, events: Sequence[Event[ParsedPod]], *, judging: bool = True) -> None:
        """Apply events of pods, in order, and judge each binding before it is applied.

        `judging`: False where not everything was listed yet, or the caller is too far behind: bindings are unknown.
        """
        for event in events:
            kind, parsed = event
            if parsed is None:
                self._world.handlers.pods.on_pods([event])
                if kind is EventKind.LIST_END:
                    self._forget_missing()
                continue
            if parsed.scheduler_name not in self._profiles:
                parsed = parsed._replace(scheduler_name=self._first_profile)
                event = Event(kind, parsed)
            pending = self._world.scheduling.pending.get(parsed.uid)
            if kind is EventKind.DELETED:
                self._note_departure(parsed)
            elif parsed.node_name and pending is not None:
                await self._on_binding(kind, parsed, pending, judging=judging)
            elif parsed.node_name:
                self._note_born_bound(kind, parsed)
            self._world.handlers.pods.on_pods([event])
            if kind is not EventKind.DELETED and not parsed.node_name:
                self._note_pending(parsed)
        await self.close_decisions(self._clock())

    def apply_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Apply events of nodes."""
        self._apply_change(lambda: self._world.handlers.objects.on_nodes(events))

    def apply_objects(self, kind: object_kinds.ObjectKind, events: Sequence[Event[Any]]) -> None:
        """Apply events of other objects."""
        self._apply_change(lambda: self._world.handlers.objects.on_objects(kind, events))

    async def close_decisions(self, now: float) -> None:
        """Settle the different decisions whose grace is over, or for which there is no more room."""
        while self._open and (len(self._open) > _OPEN or self._open[0][1].bound + order_search.GRACE_SECONDS <= now):
            pod, decision = self._open.popleft()
            if len(self._open) >= _OPEN:
                self.counts.unexamined += 1
                self._count(pod)
                continue
            text = await order_search.explain_by_order(decision, self._evaluate_fork)
            if text:
                found = replace(pod.found, outcome=Outcome.ORDER, detail=f"{pod.found.detail}; {text}")
                pod = replace(pod, found=found)
            self._count(pod)

    async def _on_binding(self, kind: EventKind, parsed: ParsedPod, pending: PendingPod, *, judging: bool) -> None:
        """Judge the binding, or say why that cannot be done, before it is applied."""
        uid, now = parsed.uid, self._clock()
        created, nominated = self._created.pop(uid, now), self._nominated.pop(uid, "")
        if kind is EventKind.LISTED:
            found = Judgement(Outcome.UNKNOWN, parsed.node_name, detail="it was bound while the watch was interrupted")
        elif not judging:
            found = Judgement(Outcome.UNKNOWN, parsed.node_name, detail="not all was listed yet, or too much was bound")
        elif not pending.class_id:
            found = Judgement(Outcome.ERROR, parsed.node_name, detail=f"the pod is invalid: {pending.invalid}")
        else:
            self._world.publish()
            evaluated = await self._evaluate(pending)
            found = judgement.judge(
                evaluated, self.snap.nodes.names, parsed.node_name, nominated=nominated == parsed.node_name
            )
        pod = ComparedPod(parsed.key, pending.parsed.scheduler_name, created, now, self._wall(), found)
        move = order_search.Move(now, uid, pending.class_id, parsed.node_name)
        for _, decision in self._open:
            if created <= decision.bound:
                decision.after.append(move)
        if found.outcome is Outcome.DIFFERENT:
            self._open.append((pod, self._open_decision(pod, pending)))
        else:
            self._count(pod)
        self._bindings.append(move)

    def _open_decision(self, pod: ComparedPod, pending: PendingPod) -> order_search.OpenDecision:
        """The state at this moment, for the search for an explanation by the order."""
        return order_search.OpenDecision(
            pod.profile,
            pending.class_id,
            pod.created,
            pod.bound,
            pod.found,
            self._fork(),
            list(_since(self._bindings, pod.created)),
            list(_since(self._departures, pod.created - order_search.GRACE_SECONDS)),
            [state for state in self._earlier if state.at >= pod.created],
        )

    async def _evaluate(self, pending: PendingPod) -> explanation.Explanation:
        """Evaluate a pending pod on the state of now."""
        parsed = pending.parsed
        cycle = self._world.evaluators.cycle(parsed.scheduler_name, pending.class_id, self.snap.generation)
        metadata = cycle.pod.metadata
        metadata.namespace, metadata.name, metadata.uid = parsed.namespace, parsed.name, parsed.uid
        return await explanation.explain(self._world.engine, cycle, scores=True)

    async def _evaluate_fork(self, snap: snapshot.Snapshot, profile: str, pod_class: int) -> explanation.Explanation:
        configured = self._world.engine_profiles
        cycle = cycle_pb2.Cycle(generation=snap.generation, profile=profile, pod_class=pod_class)
        return await explanation.explain(engine.Engine(snap, *configured), cycle, scores=True)

    def _fork(self) -> snapshot.Snapshot:
        return self.snap.fork(order_search.NO_ROWS, order_search.NO_PODS, order_search.NO_PODS)

    def _apply_change(self, change: Callable[[], None]) -> None:
        """Apply a change of nodes or objects; the state before it is kept while pods wait for a node."""
        cache = self._world.cache
        if not self._created:
            change()
            return
        self._world.publish()
        revision = cache.revision
        before = self._fork()
        change()
        if cache.revision != revision:
            self._earlier.append(order_search.EarlierState(self._clock(), before))

    def _note_pending(self, parsed: ParsedPod) -> None:
        """A pod has no node, unless the event is late and the pod is bound already."""
        if self._world.scheduling.pending.get(parsed.uid) is not None:
            self._created.setdefault(parsed.uid, self._clock())
            self._nominated[parsed.uid] = parsed.nominated_node

    def _forget_missing(self) -> None:
        """After a list, drop the pending pods that were deleted while the watch was interrupted."""
        for uid in self._created.keys() - self._world.scheduling.pending.uids():
            del self._created[uid], self._nominated[uid]

    def _note_departure(self, parsed: ParsedPod) -> None:
        """A pod is gone."""
        self._created.pop(parsed.uid, None)
        self._nominated.pop(parsed.uid, None)
        placed = self._world.cache.pod(parsed.uid)
        if placed is not None:
            self.counts.preempted += bool(parsed.flags & PREEMPTED)
            move = order_search.Move(self._clock(), parsed.uid, placed.class_id, placed.node_name)
            self._departures.append(move)

    def _note_born_bound(self, kind: EventKind, parsed: ParsedPod) -> None:
        """A pod with a node that was not pending: counted if it is new, and not of a list."""
        if kind is not EventKind.LISTED and self._world.cache.pod(parsed.uid) is None:
            self.counts.born_bound += 1

    def _count(self, pod: ComparedPod) -> None:
        """Count a settled outcome."""
        self.counts.outcomes[pod.found.outcome] += 1
        if pod.found.outcome in (Outcome.DIFFERENT, Outcome.ERROR):
            self._different.append(pod)
        elif pod.found.outcome is Outcome.ORDER:
            self._explained.append(pod)


def _since(moves: Iterable[order_search.Move], at: float) -> Iterator[order_search.Move]:
    """The moves from this moment on, oldest first."""
    return (each for each in moves if each.at >= at)
