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

from trireme.cache import cluster_cache
from trireme.queueing import queued_pod, scheduling_queue
from trireme.queueing.groups import forest, queued_group
from trireme.registry import group_sides
from trireme.results.phase_results import FilterResult
from trireme.scheduling import attempt, binding_cycle, group_trial, outcomes, ports, refusal, reservations
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


class PodGroupTrials:
    """Tries groups."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        evaluators: ports.Evaluators,
        attempts: attempt.Attempts,
        observer: ports.Observer,
        reserved: reservations.Reservations,
        publish: Callable[[], int],
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._evaluators = evaluators
        self._attempts = attempts
        self._observer = observer
        self._reserved = reserved
        self._publish = publish

    async def run(
        self,
        members: Sequence[queued_pod.QueuedPodInfo],
        min_count: int,
        scheduled: int,
        within: group_trial.Placement | None = None,
    ) -> tuple[GroupStatus, list[Trial]]:
        """Try the members in this order, while so many others have a node. Without success nothing is left assumed;
        `min_count` 0: whatever fits will do. `within`: on these nodes alone.
        """
        trials: list[Trial] = []
        pod_group = queued_group.group_of(members[0]) if members else ""
        trial = group_trial.GroupTrial(pod_group, within)
        try:
            verdict = await self._run(members, min_count, scheduled, trial, trials)
        except BaseException:
            self.undo(trials)
            raise
        if verdict.verdict is not Verdict.SUCCESS:
            self.undo(trials)
        return verdict, trials

    async def anywhere(self, wanted: Wanted) -> Result:
        """Try a PodGroup on all nodes."""
        return settled(await self.leaf(wanted, wanted.tree, None))

    async def leaf(self, wanted: Wanted, node: forest.GroupNode, within: group_trial.Placement | None) -> Result:
        """Try a PodGroup of the tree; `within`: on these nodes alone."""
        min_count = node.min_count if wanted.minimums else 0
        said, trials = await self.run(wanted.of(node), min_count, wanted.scheduled.get(node.name, 0), within)
        return Result(node, said, trials)

    async def _run(
        self,
        members: Sequence[queued_pod.QueuedPodInfo],
        min_count: int,
        scheduled: int,
        within: group_trial.GroupTrial,
        trials: list[Trial],
    ) -> GroupStatus:
        stands = feasible(min_count, scheduled, len(members))
        if stands.verdict is Verdict.UNSCHEDULABLE:
            return GroupStatus(Verdict.UNSCHEDULABLE, (UNSCHEDULABLE, *stands.reasons), summary=True)
        for batch in self._batches(members):
            tried = await self._try(batch, within)
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
        """Assume members once more where they fitted before they were undone; answers why that is not possible: then
        none of them is assumed.
        """
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
        if self._cache.pod(trial.pod.uid) is not None:
            return f"pod {trial.pod.key} is on a node already"
        self._attempts.assume_on(trial.pod, assumed.node_name)
        return ""

    async def _reserve_again(self, cycle: cycle_pb2.Cycle, trials: Sequence[Trial]) -> str:
        """Reserve for those of the members, all of one class, that had something reserved; answers what failed."""
        again: list[tuple[Trial, binding_cycle.Assumed]] = []
        for trial in trials:
            if trial.assumed is not None and trial.assumed.reserved:
                trial.assumed = dataclasses.replace(trial.assumed, reserved=False)
                again.append((trial, trial.assumed))
        if not again:
            return ""
        first, assumed = again[0]
        results = await self._attempts.reserve(
            cycle, [each for _, each in again], assumed.pre_bind, queued_group.group_of(first.pod)
        )
        for (trial, _), result in zip(again, results, strict=True):
            if isinstance(result, binding_cycle.Assumed):
                trial.assumed = result
            else:
                trial.assumed, trial.failure = None, result
        return next((trial.failure.message for trial, _ in again if trial.failure is not None), "")

    def undo(self, trials: Sequence[Trial]) -> None:
        """None of this was, newest first. The trials keep where the pods fitted."""
        for trial in reversed(trials):
            self.take_back(trial)

    def take_back(self, trial: Trial) -> None:
        """The member is not on its node."""
        if trial.assumed is not None and trial.cycle is not None:
            self._attempts.unassume(trial.cycle, trial.assumed)

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

    async def _try(self, pods: list[queued_pod.QueuedPodInfo], within: group_trial.GroupTrial) -> list[Trial]:
        """One trial for each of the pods, which are of one class, in their order. A failure of the last is that of all
        who would come after it.
        """
        trials: list[Trial] = []
        try:
            while len(trials) < len(pods):
                trials += await self._attempt(pods[len(trials) :], within)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            trials.append(Trial(pods[len(trials)], failure=outcomes.Failure(str(error), nominated_node="")))
        except BaseException:
            self.undo(trials)
            raise
        return trials

    async def _attempt(self, pods: list[queued_pod.QueuedPodInfo], within: group_trial.GroupTrial) -> list[Trial]:
        """Trials for as many of the pods, from the first, as one attempt is about."""
        started = self._observer.clock()
        record = pods[0].record
        if not record.class_id:
            return [Trial(pod, failure=outcomes.Failure(record.pod.invalid)) for pod in pods]
        made = await self._attempts.attempt((record.profile, record.class_id), pods, within)
        if made.placed is not None:
            return self._placed(made.pods, made.placed)
        columns, failure = None, made.error
        if made.refused is not None:
            seconds = self._observer.clock() - started
            self._observer.refused(record.profile, len(made.pods), seconds, made.refused)
            columns = self._about_devices(record.class_id, made.refused)
            nodes = self._cache.node_count if within.placement is None else len(within.placement.slots)
            failure = refusal.Refusal.of(made.refused, nodes).failure()
        return [Trial(pod, failure=failure, columns=columns) for pod in made.pods]

    def _placed(self, pods: Sequence[queued_pod.QueuedPodInfo], placed: attempt.Placed) -> list[Trial]:
        """Trials for the first of the pods, up to one that has to be tried anew."""
        columns = self._about_devices(pods[0].record.class_id, placed.filtered)
        assumed = {each.pod.uid: each for each in placed.assumed}
        failures = {pod.uid: failure for pod, failure in placed.unreserved}
        trials = []
        for pod in pods:
            if pod.uid in assumed:
                trials.append(Trial(pod, assumed[pod.uid], placed.cycle, columns=columns))
            elif pod.uid in failures:
                trials.append(Trial(pod, failure=failures[pod.uid], columns=columns))
            elif not pod.in_attempt:
                trials.append(Trial(pod, failure=outcomes.Failure("the pod is gone", unschedulable=True)))
            else:
                break
        return trials

    def settle(self, trials: Sequence[Trial]) -> None:
        """The group's trial is over, and these go on to be bound: nobody shares what they have reserved any more."""
        uids = {trial.pod.uid for trial in trials if trial.assumed is not None and trial.assumed.reserved}
        if uids:
            self._reserved.close_to_group(uids)

    def _about_devices(self, class_id: int, filtered: FilterResult) -> filter_pb2.NodeColumns | None:
        """Filter's answer, where a plugin that may have claims released refuses nodes to a pod with claims."""
        if not self._cache.registry.of_one_pod(class_id) or filtered.refusal is not None:
            return None
        said = any(group_sides.releases_claims(refusal.plugin) for refusal in filtered.answer.statuses)
        return filtered.answer.message() if said else None
