"""An attempt: Filter, HTTP extenders, Place, assume, Reserve, for pods of one class.

This is the algorithm for a pod, a batch and the members of a pod group alike. What follows is up to the caller: the
scheduling cycle has the pods bound and runs PostFilter on refusal; a group's trial decides after each member, and may
undo everything.

Source: pkg/scheduler/schedule_one.go schedulingCycle, schedulePod, assumeAndReserve.

Tests: tests/unit/scheduling/test_attempt.py, tests/unit/scheduling/test_attempt_metrics.py,
tests/unit/frontend/test_pending_report.py.
"""

import dataclasses
import logging
from collections.abc import Callable, Sequence

from trireme.cache import cluster_cache, placed_pod
from trireme.extenders import extenders
from trireme.framework import status
from trireme.queueing import nominator, queued_pod
from trireme.registry.in_tree import PREEMPTION_PLUGIN
from trireme.scheduling import (
    assumed_pod,
    batch_limit,
    batches_in_turn,
    fit_error,
    ports,
    refusal,
    reserve_calls,
    trial_scope,
)
from trireme.scheduling.failure import Failure
from trireme.v1 import core_pb2, cycle_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

_NO_PREEMPTORS: Sequence[core_pb2.Pod] = ()
# An internal extension point of kube-scheduler's: for each pod of a group that is not on its nominated node.
_RANK_NODES = "RankNodes"


@dataclasses.dataclass(frozen=True, slots=True)
class PlacedPods:
    """Pods that are assumed and reserved, in order, by Filter's answer, and those that Reserve refused."""

    cycle: cycle_pb2.Cycle
    filtered: FilterAnswer
    assumed: list[assumed_pod.AssumedPod]
    unreserved: list[tuple[queued_pod.QueuedPodInfo, Failure]]


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """How an attempt ended for `pods`, the first of those that it was made for: placed, refused, or by error."""

    pods: list[queued_pod.QueuedPodInfo]
    placed: PlacedPods | None = None
    refused: FilterAnswer | None = None
    error: Failure | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NodeChoice:
    """The nodes that were found for the first pods, and by which answer of Filter."""

    filtered: FilterAnswer
    placed: PlaceAnswer
    node_counts: tuple[int, int]  # nodes, and those of them that are feasible
    seconds: float = 0.0  # how long finding them took, if they were found ahead


class AttemptRunner:
    """Runs attempts (Filter, Place, assume, Reserve) for the cycles of batches and of pod groups."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        nominations: nominator.Nominator,
        evaluators: ports.Evaluators,
        reserved: reserve_calls.ReserveCalls,
        observer: ports.Observer,
        log: ports.BindingLog,
        http_extenders: extenders.Extenders | None,
        limit: batch_limit.BatchLimit,
        publish: Callable[[], int],
    ) -> None:
        self._cache = cache
        self._nominations = nominations
        self._evaluators = evaluators
        self._reserved = reserved
        self._observer = observer
        self._log = log
        self._http_extenders = http_extenders
        self._limit = limit
        self._publish = publish

    async def attempt(
        self,
        class_key: ports.ClassKey,
        pods: list[queued_pod.QueuedPodInfo],
        within: trial_scope.TrialScope | None = None,
        preemptors: Sequence[core_pb2.Pod] = _NO_PREEMPTORS,
    ) -> Attempt:
        """Try to place the first of the pods, as many as one answer allows.

        `within`: the trial of a group that this is part of. `preemptors`: the first pods, if PostFilter's results for
        them may come with a refusal.

        Raises: PhaseFault, PhaseUnavailable.
        """
        profile, class_id = class_key
        started = self._observer.clock()
        pods = pods[: self._limit.for_filter(class_id, len(pods))]
        generation = self._publish()
        if not self._cache.node_count:
            reasons = (status.Reason("noNodes"),)
            none = Failure(fit_error.NO_NODES, unschedulable=True, nominated_node="", reasons=reasons)
            return Attempt(pods, error=none)
        nominated_node = self._nominations.node_of(pods[0].uid) if len(pods) == 1 else ""
        nominee = identifying_fields(pods[0]) if nominated_node else None
        slot = self._cache.slot_of(nominated_node)
        filtered = await self._evaluators.filter(profile, class_id, len(pods), generation, nominee, preemptors)
        if within is not None and within.placement is not None and filtered.refusal is None:
            filtered = within.placement.restrict_to_nodes(filtered)
        extra_scores: Sequence[int] = ()
        if self._http_extenders is not None and not filtered.is_refused_everywhere(slot):
            try:
                filtered, extra_scores = await self._http_extenders.filter_and_prioritize(
                    pods[0].uid, class_id, filtered, slot
                )
            except extenders.ExtenderError as error:
                reasons = (status.Reason("extenderFailed"),)
                return Attempt(pods, error=Failure(str(error), nominated_node="", reasons=reasons))
        if filtered.is_refused_everywhere(slot):
            self._observe_ranking(within, filtered, slot, profile, 0.0, len(pods))
            return Attempt(pods, refused=filtered)
        if pods[0].record.pod.has_deferred_resize:
            return _attempt_for_deferred_resize(pods)
        ranking = self._observer.clock()
        if within is not None and within.costs is not None and not filtered.columns.admits(slot):
            filtered, are_free = within.costs.restrict_to_cheapest(filtered)
            # What the first pod costs is free for the next one.
            pods = pods if are_free else pods[:1]
        ranking = self._observer.clock() - ranking
        choice = await self._choose_nodes(class_key, len(pods), slot, filtered, extra_scores)
        if choice.placed.failure is not None:
            failed = choice.placed.failure
            return Attempt(pods, error=Failure(failed.message, nominated_node="", refusals=((failed, 0),)))
        placed, seconds = len(choice.placed.slots), self._observer.clock() - started
        self._observer.on_pods_placed(profile, placed, seconds, filtered, choice.placed)
        self._observe_ranking(within, filtered, slot, profile, ranking, placed)
        return await self.assume_and_reserve(class_key, pods, choice, within)

    def _observe_ranking(
        self,
        within: trial_scope.TrialScope | None,
        filtered: FilterAnswer,
        slot: int,
        profile: str,
        seconds: float,
        pods: int,
    ) -> None:
        """Record that nodes were ranked for so many pods of a group: not if PreFilter refused, or `slot` is taken."""
        if within is None or filtered.refusal is not None or filtered.columns.admits(slot):
            return
        self._observer.on_extension_point_run(_RANK_NODES, status.Code.SUCCESS, profile, seconds, pods)
        if within.costs is not None:
            self._observer.on_plugin_run(_RANK_NODES, PREEMPTION_PLUGIN, status.Code.SUCCESS, seconds)

    async def find_places_in_turn(self, ahead: batches_in_turn.BatchesAhead) -> list[NodeChoice]:
        """The nodes of batches that are still in the queue, one batch after the other, as far as they can be found.

        Raises: PhaseFault, PhaseUnavailable.
        """
        started = self._observer.clock()
        generation = self._publish()
        if not self._cache.node_count:
            return []
        answers = await self._evaluators.place_in_turn(ahead.profile, ahead.classes, generation)
        seconds = (self._observer.clock() - started) / max(len(answers), 1)
        return [
            NodeChoice(filtered, placed, node_counts_for_log(filtered, self._cache.node_count), seconds)
            for filtered, placed in answers
        ]

    async def attempt_with_places(
        self, class_key: ports.ClassKey, pods: list[queued_pod.QueuedPodInfo], choice: NodeChoice
    ) -> Attempt:
        """Assume pods that have just left the queue on the nodes that were found for them before."""
        placed = choice.placed.for_pods(0, len(pods))
        self._observer.on_pods_placed(class_key[0], len(pods), choice.seconds, choice.filtered, placed)
        return await self.assume_and_reserve(class_key, pods, dataclasses.replace(choice, placed=placed))

    async def attempt_nominated(
        self, class_key: ports.ClassKey, pods: list[queued_pod.QueuedPodInfo]
    ) -> Attempt | None:
        """Try pods that are nominated for different nodes, each on its node alone, by one call of filter.

        Returns the attempt of the first ones that fit. None: the first pod cannot have its node, or an extender may
        choose another one for it.

        Raises: PhaseFault, PhaseUnavailable.
        """
        slots = self._distinct_nominated_slots(pods) if self._http_extenders is None else []
        if not slots:
            return None
        profile, class_id = class_key
        started = self._observer.clock()
        nominees = [identifying_fields(pod) for pod in pods[: len(slots)]]
        filtered = await self._evaluators.filter_nominated(profile, class_id, self._publish(), nominees, slots)
        if not filtered.admitted:
            return None
        if pods[0].record.pod.has_deferred_resize:
            return _attempt_for_deferred_resize(pods[:1])
        placed = PlaceAnswer(slots=tuple(slots[: filtered.admitted]))
        self._observer.on_pods_placed(profile, filtered.admitted, self._observer.clock() - started, filtered, placed)
        return await self.assume_and_reserve(class_key, pods[: filtered.admitted], NodeChoice(filtered, placed, (1, 1)))

    async def assume_and_reserve(
        self,
        class_key: ports.ClassKey,
        pods: list[queued_pod.QueuedPodInfo],
        choice: NodeChoice,
        within: trial_scope.TrialScope | None = None,
    ) -> Attempt:
        """Assume the pods on the chosen nodes, and reserve what they need there: the second half of an attempt.

        Pods that were deleted meanwhile are left out. From the first whose node is gone on, the pods are not in the
        result and are tried again.
        """
        filtered, generation = choice.filtered, choice.filtered.columns.generation
        cycle = self._evaluators.cycle(*class_key, generation)
        assumed = []
        for pod, slot in zip(pods, choice.placed.slots, strict=False):
            node_name = self._cache.node_at(slot, generation)
            if node_name is None:
                # The node is gone: the pods from here on are tried again.
                break
            if not pod.in_attempt:
                continue
            self.assume_on(pod, node_name)
            if within is None:
                self._nominations.delete(pod.uid)
            assumed.append(assumed_pod.AssumedPod(pod, node_name, slot, node_counts=choice.node_counts))
        self._log.add_placed(class_key, generation, [(one.pod.uid, one.slot) for one in assumed])
        if not filtered.needs_reserve or not assumed:
            return Attempt(pods, PlacedPods(cycle, filtered, assumed, []))
        reserved, unreserved = [], []
        pod_group = "" if within is None else within.pod_group
        results = await self.reserve(cycle, assumed, filtered.needs_pre_bind, pod_group)
        for one, result in zip(assumed, results, strict=True):
            if isinstance(result, assumed_pod.AssumedPod):
                reserved.append(result)
            else:
                unreserved.append((one.pod, result))
        return Attempt(pods, PlacedPods(cycle, filtered, reserved, unreserved))

    def assume_on(self, pod: queued_pod.QueuedPodInfo, node_name: str) -> None:
        """Count the pod on the node in the cache from now on; Reserve is not called."""
        pending = pod.record.pod
        self._cache.assume(pod.key, pod.uid, node_name, pending.base, pending.parsed.labels, pending.class_id)

    async def reserve(
        self, cycle: cycle_pb2.Cycle, assumed: Sequence[assumed_pod.AssumedPod], pre_bind: bool, pod_group: str = ""
    ) -> list[assumed_pod.AssumedPod | Failure]:
        """Run Reserve for assumed pods: each as it is reserved, or why it is not; such a pod is no longer assumed.

        `pre_bind`: the answer of filter was that PreBind has work for the pods. `pod_group`: members of this group may
        share claims; empty: no group is being tried.

        If the call itself fails (an exception, cancellation too), every pod is dropped from the cache and the exception
        raised again; nothing is unreserved, since it is not known what was reserved.
        """
        started = self._observer.clock()
        try:
            answers = await self._reserved.reserve(cycle, [one.placement for one in assumed], pod_group)
        except BaseException:
            for one in reversed(assumed):
                self._cache.forget(one.pod.uid)
            raise
        seconds = (self._observer.clock() - started) / len(assumed)
        results: list[assumed_pod.AssumedPod | Failure] = []
        for one, answer in zip(assumed, answers, strict=True):
            code = answer.code if isinstance(answer, status.Status) else status.Code.SUCCESS
            self._observer.on_extension_point_run("Reserve", code, cycle.profile, seconds)
            if isinstance(answer, bytes):
                results.append(dataclasses.replace(one, reserved=True, pre_bind=pre_bind, state=answer))
                continue
            self._reserved.unreserve(cycle, [one.placement])
            self._cache.forget(one.pod.uid)
            self._observer.on_volume_stage_ended("assume", answer)
            results.append(refusal.failure_by_reserve(answer, one.node_name))
        return results

    def unreserve_and_forget(self, cycle: cycle_pb2.Cycle, assumed: assumed_pod.AssumedPod) -> None:
        """Undo `assume_and_reserve` for a pod that is not bound: forget it, after Unreserve if it was reserved."""
        if assumed.reserved:
            self._reserved.unreserve(cycle, [assumed.placement])
        self._cache.forget(assumed.pod.uid)

    async def _choose_nodes(
        self, class_key: ports.ClassKey, pods: int, slot: int, filtered: FilterAnswer, extra_scores: Sequence[int]
    ) -> NodeChoice:
        """Choose the nodes of the next pods, as many as one answer of score places.

        `slot` is that of the node that the pod is nominated for: if it passes, it is taken without calling score.
        Raises: PhaseFault if score places none.
        """
        if filtered.columns.admits(slot):
            return NodeChoice(filtered, PlaceAnswer(slots=(slot,)), (1, 1))
        nodes = node_counts_for_log(filtered, self._cache.node_count)
        count = self._limit.for_place(filtered, pods)
        placed = await self._evaluators.place(*class_key, count, filtered, extra_scores)
        if placed.failure is None and not placed.slots:
            raise ports.PhaseFault("score placed none of the pods, though filter found nodes for them")
        return NodeChoice(filtered, placed, nodes)

    def _distinct_nominated_slots(self, pods: list[queued_pod.QueuedPodInfo]) -> list[int]:
        """The slots that the pods are nominated for, up to the first pod without one or with the slot of one before."""
        slots: list[int] = []
        for pod in pods[: batch_limit.MAX_NOMINATED]:
            slot = self._cache.slot_of(self._nominations.node_of(pod.uid))
            if slot == placed_pod.NO_SLOT or slot in slots:
                break
            slots.append(slot)
        return slots


def _attempt_for_deferred_resize(pods: list[queued_pod.QueuedPodInfo]) -> Attempt:
    """The attempt at a pod whose deferred resize has room now.

    The kubelet resizes it where it is; kube-scheduler's cache refuses to assume it, and so it is tried again.
    """
    text = f"pod {pods[0].uid}({pods[0].key}) is in the cache, so can't be assumed"
    return Attempt(pods, error=Failure(text, reasons=(status.Reason("resizeFits"),)))


def node_counts_for_log(filtered: FilterAnswer, nodes: int) -> tuple[int, int]:
    """The numbers of nodes and of feasible ones, for the line of a bound pod; (0, 0) while the log has no such line."""
    return (nodes, filtered.feasible_count) if klog.enabled(log, 2) else (0, 0)


def identifying_fields(pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
    """A Pod with only what sets the pod apart from others of its class: name, UID and nomination."""
    parsed = pod.record.pod.parsed
    out = core_pb2.Pod()
    out.metadata.namespace, out.metadata.name, out.metadata.uid = parsed.namespace, parsed.name, parsed.uid
    out.status.nominated_node_name = parsed.nominated_node
    return out
