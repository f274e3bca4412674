"""Records a sample of what leaders decide, each with the case that it was decided by.

Sampled are pods that are scheduled alone or in a batch; not the members of groups, which are decided together, and not
what a plugin failed at. A decision is only taken if the leader's cache is as it was when filter was called: else it is
known of no single state. Preemptions, which are rare, are sampled a second time, among themselves.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.simulation.decision_cases import DecisionCases
from trireme.cache import cluster_cache
from trireme.framework import status
from trireme.scheduling import attempt, post_filtering
from trireme_kube.embedded.api.resources import Object


@dataclasses.dataclass
class Decision:
    """What a leader decided about a pod."""

    pod: str
    case: Object
    #: The node that it is nominated to, and the one that was chosen; empty: none.
    nominated_node: str = ""
    chosen: str = ""
    #: Whether `statuses` and `pre_filter` are known: those of a batch are of its first pod.
    has_statuses: bool = False
    #: PreFilter's status, if that refused the pod; and that of each node that refuses it.
    pre_filter: Object | None = None
    statuses: Mapping[str, Object] = dataclasses.field(default_factory=dict)
    #: The weights of the plugins that score, where they are not those of the default profile; and the nodes that remote
    #: plugins close.
    weights: Mapping[str, int] = dataclasses.field(default_factory=dict)
    closed: frozenset[str] = frozenset()
    #: What PostFilter did about a pod that no node takes; None: not known.
    preemption: Object | None = None


class Reservoir:
    """As many decisions as `size` of all that come, each as likely as any other."""

    def __init__(self, source: str, size: int) -> None:
        # A source of its own: nothing else depends on what is drawn here.
        self._random = random.Random(source)
        self._size = size
        self._seen = 0
        self.sample: list[Decision] = []

    def clear(self) -> None:
        """Begin another sample."""
        self.sample, self._seen = [], 0

    def draw(self) -> bool:
        """Whether the next decision is to be in the sample."""
        self._seen += 1
        return self._seen <= self._size or self._random.random() < self._size / self._seen

    def below(self, number: int) -> int:
        """Any of so many numbers."""
        return self._random.randrange(number)

    def add(self, decision: Decision) -> None:
        """Add a decision that was drawn, in place of another one if there are enough."""
        if len(self.sample) < self._size:
            self.sample.append(decision)
        else:
            self.sample[self._random.randrange(self._size)] = decision


@dataclasses.dataclass
class _Refusal:
    """What PostFilter runs for: a pod that no node takes."""

    pod: Any
    revision: int
    filtered: Any
    nominated_node: str
    #: If it is in the sample of all decisions.
    decision: Decision | None = None


class DecisionRecords:
    """Observes the decisions of all frontends.

    The sample has as many as `size`, each as likely as any other, and besides as many as `preemptions` of those that
    have victims.
    """

    def __init__(self, cases: DecisionCases, seed: int, size: int, preemptions: int) -> None:
        self._cases = cases
        self._all = Reservoir(f"decisions {seed}", size)
        self._preemptions = Reservoir(f"preemptions {seed}", preemptions)
        # By the frontend's cache: its revision when the attempt under way began, which is absent if no call was made
        # for it; and the refusal for which PostFilter runs.
        self._revisions: dict[cluster_cache.ClusterCache, int] = {}
        self._refusals: dict[cluster_cache.ClusterCache, _Refusal] = {}
        self._observe_attempts()
        self._observe_post_filters()

    @property
    def sample(self) -> list[Decision]:
        """Those of all decisions, then the preemptions that are not among them."""
        known = {id(each) for each in self._all.sample}
        return [*self._all.sample, *(each for each in self._preemptions.sample if id(each) not in known)]

    def clear(self) -> None:
        """Begin another sample."""
        self._all.clear()
        self._preemptions.clear()

    def _observe_attempts(self) -> None:
        owner: Any = attempt.AttemptRunner
        assume = owner.assume_and_reserve

        def remembering(original: Callable[..., Any]) -> Callable[..., Any]:
            async def method(runner: Any, class_key: Any, pods: Any, within: Any = None, **named: Any) -> Any:
                revision = self._revisions[runner._cache] = runner._cache.revision
                try:
                    made = await original(runner, class_key, pods, *(() if within is None else (within,)), **named)
                finally:
                    del self._revisions[runner._cache]
                if within is None and made is not None and made.refused is not None:
                    self._revisions[runner._cache] = revision  # for PostFilter, which is next
                return made

            return method

        async def observed(runner: Any, class_key: Any, pods: Any, choice: Any, within: Any = None) -> Any:
            if within is None:
                self._on_assume(runner, pods, choice)
            return await assume(runner, class_key, pods, choice, within)

        owner.assume_and_reserve = observed
        owner.attempt, owner.attempt_nominated = remembering(owner.attempt), remembering(owner.attempt_nominated)

    def _observe_post_filters(self) -> None:
        owner: Any = post_filtering.PostFilters
        run, end = owner.run, owner._end_attempt

        async def observed_run(filters: Any, class_key: Any, pods: Any, filtered: Any) -> Any:
            self._on_refusal(filters, pods, filtered)
            return await run(filters, class_key, pods, filtered)

        async def observed_end(filters: Any, class_key: Any, pods: Any, refusal: Any, result: Any) -> Any:
            self._on_post_filter(filters._cache, pods[0], result)
            return await end(filters, class_key, pods, refusal, result)

        owner.run, owner._end_attempt = observed_run, observed_end

    def _on_assume(self, runner: Any, pods: Sequence[Any], choice: Any) -> None:
        """Nodes are chosen for some pods, which are not yet assumed there."""
        cache, filtered = runner._cache, choice.filtered
        revision = self._revisions.get(cache)
        if revision not in (None, cache.revision) or not self._all.draw():
            return
        places: list[tuple[Any, str]] = []
        for pod, slot in zip(pods, choice.placed.slots, strict=False):
            node = cache.node_at(slot, filtered.columns.generation)
            if node is None or not pod.in_attempt:
                break  # the places of the next ones were chosen with this one on its node
            places.append((pod, node))
        if not places:
            return
        number = self._all.below(len(places))
        pod, node = places[number]
        decision = self._decision(cache, pod, runner._nominations.node_of(pod.uid), places[:number])
        if decision is None:
            return
        decision.chosen = node
        if number == 0 and revision is not None and not filtered.admitted:
            _add_statuses(decision, cache, filtered)
        self._all.add(decision)

    def _on_refusal(self, filters: Any, pods: Sequence[Any], filtered: Any) -> None:
        """No node takes the pods."""
        cache = filters._cache
        self._refusals.pop(cache, None)
        if self._revisions.pop(cache, None) != cache.revision or _failed(filtered):
            return
        refusal = _Refusal(pods[0], cache.revision, filtered, filters._nominations.node_of(pods[0].uid))
        if self._all.draw():
            refusal.decision = self._refused(cache, refusal)
            if refusal.decision is not None:
                self._all.add(refusal.decision)
        self._refusals[cache] = refusal

    def _on_post_filter(self, cache: cluster_cache.ClusterCache, pod: Any, result: Any) -> None:
        """PostFilter ran for a pod; nothing of it is carried out yet."""
        refusal = self._refusals.pop(cache, None)
        if refusal is None or refusal.pod is not pod or refusal.revision != cache.revision:
            return
        victims = sorted(action.pod.name for action in result.actions if action.HasField("evict"))
        decision = refusal.decision
        if result.code is status.Code.ERROR or (decision is None and not victims):
            return
        if any(each.evicting for each in cache.pods()):
            return
        if victims and self._preemptions.draw():
            decision = decision or self._refused(cache, refusal)
            if decision is not None:
                self._preemptions.add(decision)
        if decision is not None:
            decision.preemption = {"nominatedNode": result.nominated_node or "", "victims": victims}

    def _refused(self, cache: cluster_cache.ClusterCache, refusal: _Refusal) -> Decision | None:
        """The decision that no node takes a pod; None: what it was made by is not known."""
        decision = self._decision(cache, refusal.pod, refusal.nominated_node)
        if decision is not None:
            _add_statuses(decision, cache, refusal.filtered)
        return decision

    def _decision(
        self, cache: cluster_cache.ClusterCache, pod: Any, nominated_node: str, before: Sequence[tuple[Any, str]] = ()
    ) -> Decision | None:
        """A decision whose maker alone is known; None: nor that."""
        try:
            decision = Decision(pod.key, self._cases.case(cache, pod, nominated_node, before), nominated_node)
            decision.weights = self._cases.weights(cache, pod)
            decision.closed = self._cases.closed(cache, pod)
        except LookupError:
            return None
        return decision


def _failed(filtered: Any) -> bool:
    """Whether a plugin failed, for whatever reason: with the remote one that is what faults bring about."""
    return filtered.columns.error is not None or (
        filtered.refusal is not None and filtered.refusal.code is status.Code.ERROR
    )


def _add_statuses(decision: Decision, cache: cluster_cache.ClusterCache, filtered: Any) -> None:
    """Add what filter answered about each node."""
    if _failed(filtered):
        return
    decision.has_statuses = True
    if filtered.refusal is not None:
        decision.pre_filter = _described(filtered.refusal)
        return
    columns, found = filtered.columns, {}
    for name in cache.node_names():
        slot = cache.slot_of(name)
        number = int(columns.index[slot])
        if number:
            found[name] = _described(columns.statuses[number - 1])
        elif not columns.capacity[slot]:
            found[name] = {"code": "none", "plugin": "", "reasons": ["no room is left"]}
    decision.statuses = found


def _described(value: status.Status) -> Object:
    return {"code": value.code.label, "plugin": value.plugin, "reasons": sorted(value.messages)}
