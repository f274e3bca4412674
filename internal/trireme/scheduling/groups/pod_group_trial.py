"""The trial of a group: filter and score are asked for its members in order, each seeing the ones before it.

What is placed is assumed in the cluster cache and reserved at once, as for single pods, so that the replicas' next
answers count it; nobody else is scheduled meanwhile. If too few fit, everything is undone, newest first, and it is as
if nothing had been. Members in a row that are of one class are placed by one call.

Whether the group can still go is asked before the first member and after each (PlacementFeasible).

Source: pkg/scheduler/schedule_one_podgroup.go podGroupSchedulingDefaultAlgorithm.
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from trireme.cache import cluster_cache
from trireme.extenders import extenders
from trireme.framework import status
from trireme.queueing import queued_pod, scheduling_queue
from trireme.queueing.groups import forest
from trireme.queueing.pre_enqueue import DYNAMIC_RESOURCES
from trireme.results import class_answer
from trireme.results.phase_results import FilterResult, PlaceResult
from trireme.scheduling import batch_limit, binding_cycle, fit_error, outcomes, ports, reservations, scheduling_cycle
from trireme.scheduling.groups.pod_group_results import (
    UNSCHEDULABLE,
    GroupStatus,
    Result,
    Trial,
    Verdict,
    Wanted,
    feasible,
    settled,
)
from trireme.v1 import cycle_pb2, filter_pb2


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Nodes that a group may go to, and no others; `name` is what they have in common."""

    name: str
    slots: tuple[int, ...]

    def narrowed(self, filtered: FilterResult) -> FilterResult:
        """Filter's answer about these nodes alone, as if there were no others."""
        answer = filtered.answer
        inside = np.zeros(answer.index.shape[0], dtype=np.bool_)
        inside[[slot for slot in self.slots if slot < inside.shape[0]]] = True
        laid_over = class_answer.ClassAnswer(
            generation=answer.generation,
            statuses=answer.statuses,
            index=np.where(inside, answer.index, 0).astype(np.int16),
            capacity=np.where(inside, answer.capacity, 0).astype(np.int32),
        )
        return dataclasses.replace(filtered, answer=laid_over, columns=laid_over.message(), of_one=True)


class PodGroupTrials:
    """Tries groups."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        evaluators: ports.Evaluators,
        reserved: reservations.Reservations,
        observer: ports.Observer,
        extension: extenders.Extenders | None,
        limit: batch_limit.BatchLimit,
        publish: Callable[[], int],
    ) -> None:
        self._limit = limit
        self._extension = extension
        self._cache = cache
        self._queue = queue
        self._evaluators = evaluators
        self._publish = publish
        self._observer = observer
        self._reserved = reserved
        # One trial at a time: where it is held.
        self._within: Placement | None = None

    async def run(
        self,
        members: Sequence[queued_pod.QueuedPodInfo],
        min_count: int,
        scheduled: int,
        within: Placement | None = None,
    ) -> tuple[GroupStatus, list[Trial]]:
        """Try the members in this order, while so many others have a node. Without success nothing is left assumed;
        `min_count` 0: whatever fits will do. `within`: on these nodes alone.
        """
        trials: list[Trial] = []
        self._within = within
        try:
            verdict = await self._run(members, min_count, scheduled, trials)
        except BaseException:
            self.undo(trials)
            raise
        if verdict.verdict is not Verdict.SUCCESS:
            self.undo(trials)
        return verdict, trials

    async def anywhere(self, wanted: Wanted) -> Result:
        """Try a PodGroup on all nodes."""
        return settled(await self.leaf(wanted, wanted.tree, None))

    async def leaf(self, wanted: Wanted, node: forest.GroupNode, within: Placement | None) -> Result:
        """Try a PodGroup of the tree; `within`: on these nodes alone."""
        min_count = node.min_count if wanted.minimums else 0
        said, trials = await self.run(wanted.of(node), min_count, wanted.scheduled.get(node.name, 0), within)
        return Result(node, said, trials)

    async def _run(
        self, members: Sequence[queued_pod.QueuedPodInfo], min_count: int, scheduled: int, trials: list[Trial]
    ) -> GroupStatus:
        stands = feasible(min_count, scheduled, len(members))
        if stands.verdict is Verdict.UNSCHEDULABLE:
            return GroupStatus(Verdict.UNSCHEDULABLE, (UNSCHEDULABLE, *stands.reasons), summary=True)
        for batch in self._batches(members):
            tried = await self._try(batch)
            for index, trial in enumerate(tried):
                trials.append(trial)
                if trial.failed_by_error and trial.failure is not None:
                    text = f"failed to schedule other pod from a pod group: {trial.failure.message}"
                    self.undo(tried[index + 1 :])
                    return GroupStatus(Verdict.ERROR, (text,))
                scheduled += trial.assumed is not None
                stands = feasible(min_count, scheduled, len(members) - len(trials))
                if stands.verdict is Verdict.UNSCHEDULABLE:
                    self.undo(tried[index + 1 :])
                    return stands
        return stands

    async def again(self, trials: Sequence[Trial]) -> str:
        """Have these be where they fitted before they were undone; answers what is in the way: then none is there."""
        done: list[Trial] = []
        try:
            for class_id, run in itertools.groupby(trials, key=lambda trial: trial.pod.record.class_id):
                of_class = list(run)
                cycle = self._evaluators.cycle(of_class[0].pod.record.profile, class_id, self._publish())
                for trial in of_class:
                    failed = self._assume_again(trial)
                    if failed:
                        self.undo(done)
                        return failed
                    trial.cycle = cycle
                    done.append(trial)
                failed = await self._reserve_again(cycle, of_class)
                if failed:
                    self.undo(done)
                    return failed
        except BaseException:
            self.undo(done)
            raise
        return ""

    def _assume_again(self, trial: Trial) -> str:
        """Why the member cannot be where it was; empty: it is."""
        assumed = trial.assumed
        assert assumed is not None  # it fitted
        assert trial.cycle is not None
        if self._cache.node_at(assumed.slot, trial.cycle.generation) != assumed.node_name:
            return f"node {assumed.node_name} is gone"
        pod, pending = trial.pod, trial.pod.record.pod
        if self._cache.pod(pod.uid) is not None:
            return f"pod {pod.key} is on a node already"
        self._cache.assume(pod.key, pod.uid, assumed.node_name, pending.base, pending.parsed.labels, pending.class_id)
        return ""

    async def _reserve_again(self, cycle: cycle_pb2.Cycle, trials: Sequence[Trial]) -> str:
        reserved = [trial for trial in trials if trial.assumed is not None and trial.assumed.reserved]
        if not reserved or reserved[0].assumed is None:
            return ""
        pre_bind = reserved[0].assumed.pre_bind
        for trial in reserved:
            assert trial.assumed is not None  # they were chosen by it
            trial.assumed = dataclasses.replace(trial.assumed, reserved=False)
        await self._reserve(cycle, reserved, pre_bind)
        return next((trial.failure.message for trial in reserved if trial.failure is not None), "")

    def undo(self, trials: Sequence[Trial]) -> None:
        """Nothing of this was, newest first. The trials keep where the pods fitted."""
        for trial in reversed(trials):
            self.take_back(trial)

    def take_back(self, trial: Trial) -> None:
        """The member is not on its node."""
        if trial.assumed is None or trial.cycle is None:
            return
        if trial.assumed.reserved:
            self._reserved.unreserve(trial.cycle, [trial.assumed.placement])
        self._cache.forget(trial.pod.uid)

    def _batches(self, members: Sequence[queued_pod.QueuedPodInfo]) -> list[list[queued_pod.QueuedPodInfo]]:
        """Members in a row that are of one class; one that is nominated for a node goes alone."""
        batches: list[list[queued_pod.QueuedPodInfo]] = []
        joined = False
        for pod in members:
            alone = bool(self._queue.nominator.node_of(pod.uid))
            if batches and joined and not alone and batches[-1][0].record.class_id == pod.record.class_id:
                batches[-1].append(pod)
            else:
                batches.append([pod])
            joined = not alone
        return batches

    async def _try(self, pods: list[queued_pod.QueuedPodInfo]) -> list[Trial]:
        """One trial for each of the pods, which are of one class, in their order. A failure of the last is that of all
        who would come after it.
        """
        trials: list[Trial] = []
        try:
            while len(trials) < len(pods):
                trials += await self._round(pods[len(trials) :])
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            trials.append(Trial(pods[len(trials)], failure=outcomes.Failure(str(error), nominated_node="")))
        except BaseException:
            self.undo(trials)
            raise
        return trials

    async def _round(self, pods: list[queued_pod.QueuedPodInfo]) -> list[Trial]:
        """Trials for as many of the pods, from the first, as one answer allows; at least one."""
        started = self._observer.clock()
        record = pods[0].record
        if not record.class_id:
            return [Trial(pod, failure=outcomes.Failure(record.pod.invalid)) for pod in pods]
        pods = pods[: self._limit.for_filter(record.class_id, len(pods))]
        generation = self._publish()
        if not self._cache.node_count:
            failure = outcomes.Failure(fit_error.NO_NODES, unschedulable=True, nominated_node="")
            return [Trial(pod, failure=failure) for pod in pods]
        nominated_node = self._queue.nominator.node_of(pods[0].uid) if len(pods) == 1 else ""
        nominee = scheduling_cycle.named(pods[0]) if nominated_node else None
        filtered = await self._evaluators.filter(record.profile, record.class_id, len(pods), generation, nominee)
        if self._within is not None and filtered.refusal is None:
            filtered = self._within.narrowed(filtered)
        slot = self._cache.slot_of(nominated_node)
        extra_scores: Sequence[int] = ()
        if self._extension is not None and not filtered.refuses(slot):
            try:
                filtered, extra_scores = await self._extension.consult(pods[0].uid, record.class_id, filtered, slot)
            except extenders.ExtenderError as error:
                return [Trial(pods[0], failure=outcomes.Failure(str(error), nominated_node=""))]
        if filtered.refuses(slot):
            self._observer.refused(record.profile, len(pods), self._observer.clock() - started, filtered)
            columns = self._about_devices(record.class_id, filtered)
            return [Trial(pod, failure=self._refusal(filtered), columns=columns) for pod in pods]
        if filtered.answer.admits(slot):
            placed = PlaceResult((slot,), None, False)
        else:
            count = self._limit.for_place(filtered, len(pods))
            placed = await self._evaluators.place(record.profile, record.class_id, count, filtered, extra_scores)
        if placed.failure is not None:
            return [Trial(pods[0], failure=outcomes.Failure(placed.failure.message, nominated_node=""))]
        if not placed.slots:
            raise ports.PhaseFault("score placed none of the pods, though filter found nodes for them")
        self._observer.placed(record.profile, len(placed.slots), self._observer.clock() - started, filtered, placed)
        cycle = self._evaluators.cycle(record.profile, record.class_id, generation)
        return await self._assume(pods, placed.slots, filtered, cycle)

    async def _assume(
        self,
        pods: list[queued_pod.QueuedPodInfo],
        slots: Sequence[int],
        filtered: FilterResult,
        cycle: cycle_pb2.Cycle,
    ) -> list[Trial]:
        trials = []
        looked_at = outcomes.looked_at(filtered.answer, self._cache.node_count)
        columns = self._about_devices(pods[0].record.class_id, filtered)
        for pod, slot in zip(pods, slots, strict=False):
            node_name = self._cache.node_at(slot, filtered.answer.generation)
            if node_name is None:
                # The node went away meanwhile: from here on it is tried anew.
                break
            if not pod.in_attempt:
                trials.append(Trial(pod, failure=outcomes.Failure("the pod is gone", unschedulable=True)))
                continue
            pending = pod.record.pod
            self._cache.assume(pod.key, pod.uid, node_name, pending.base, pending.parsed.labels, pending.class_id)
            assumed_pod = binding_cycle.Assumed(pod, node_name, slot, looked_at=looked_at)
            trials.append(Trial(pod, assumed_pod, cycle, columns=columns))
        assumed = [trial for trial in trials if trial.assumed is not None]
        if filtered.needs_reserve and assumed:
            try:
                await self._reserve(cycle, assumed, filtered.needs_pre_bind)
            except BaseException:
                self.undo(trials)
                raise
        return trials

    async def _reserve(self, cycle: cycle_pb2.Cycle, trials: list[Trial], pre_bind: bool) -> None:
        placements = [trial.assumed.placement for trial in trials if trial.assumed is not None]
        answers = await self._reserved.reserve(cycle, placements, trials[0].pod.record.pod.parsed.group)
        for trial, answer in zip(trials, answers, strict=True):
            assert trial.assumed is not None  # all of them were just assumed
            if isinstance(answer, bytes):
                trial.assumed = dataclasses.replace(trial.assumed, reserved=True, pre_bind=pre_bind, state=answer)
                continue
            self._reserved.unreserve(cycle, [trial.assumed.placement])
            self._cache.forget(trial.pod.uid)
            trial.assumed = None
            trial.failure = scheduling_cycle.not_reserved(answer)

    def settle(self, trials: Sequence[Trial]) -> None:
        """The group's trial is over, and these go on to be bound: nobody shares what they have reserved any more."""
        uids = {trial.pod.uid for trial in trials if trial.assumed is not None and trial.assumed.reserved}
        if uids:
            self._reserved.close_to_group(uids)

    def _about_devices(self, class_id: int, filtered: FilterResult) -> filter_pb2.NodeColumns | None:
        """Filter's answer, where DynamicResources had something to say of a pod with claims."""
        if not self._cache.registry.of_one_pod(class_id) or filtered.refusal is not None:
            return None
        said = any(refusal.plugin == DYNAMIC_RESOURCES for refusal in filtered.answer.statuses)
        return filtered.answer.message() if said else None

    def _refusal(self, filtered: FilterResult) -> outcomes.Failure:
        """Why no node takes the class."""
        answer = filtered.answer
        nodes = self._cache.node_count if self._within is None else len(self._within.slots)
        if filtered.refusal is not None:
            refusals = [(filtered.refusal, nodes)]
        else:
            refusals = fit_error.counted(answer.statuses, answer.index)
        for refusal, _ in refusals:
            if refusal.code == status.Code.ERROR:
                return outcomes.Failure(refusal.message, nominated_node="")
        rejectors, pending_plugins = outcomes.rejectors_of(refusals)
        rejectors |= filtered.narrowed_by
        text = fit_error.message(nodes, filtered.refusal, refusals, "")
        return outcomes.Failure(text, rejectors | filtered.narrowed_by, pending_plugins, unschedulable=True)
