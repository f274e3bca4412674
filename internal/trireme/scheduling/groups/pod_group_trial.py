"""The trial of a pod group: attempts for its members in order, each seeing the members before it.

Members that fit are assumed in the cluster cache and reserved at once, as single pods are, so that the replicas' next
answers count them; no other pods are scheduled meanwhile. If too few fit, everything is undone, newest first, and
nothing is left of the trial. Consecutive members of one class share an attempt.

Before the first member and after each, PlacementFeasible decides whether the group can still be scheduled. A remote
plugin is called about several members at once, twice as many each time; what came behind its refusal is undone.

Source: pkg/scheduler/schedule_one_podgroup.go podGroupSchedulingDefaultAlgorithm.

Tests: tests/unit/scheduling/test_pod_group_cycle.py, tests/unit/scheduling/test_pod_group_trial_marks.py,
tests/unit/scheduling/test_pod_group_trees.py.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence

from trireme.cache import cluster_cache
from trireme.framework import status
from trireme.plugin_api.placements import PlacementProgress
from trireme.queueing import queued_pod, scheduling_queue
from trireme.queueing.groups import forest, queued_group
from trireme.registry import group_plugins
from trireme.scheduling import assumed_pod, attempt, ports, refusal, reserve_calls, trial_scope
from trireme.scheduling.failure import Failure
from trireme.scheduling.groups.placement_feasibility import PlacementFeasibility, TrialStep
from trireme.scheduling.groups.pod_group_results import (
    GroupCode,
    GroupStatus,
    MemberAttempt,
    PodGroupRequest,
    PodGroupResult,
    unschedulable_if_none_placed,
)
from trireme.scheduling.groups.victim_costs import VictimCosts
from trireme.v1 import cycle_pb2, filter_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer

# So many pods of different classes are tried before a remote plugin at PlacementFeasible is called about them.
_MOST_STEPS = 64


class PodGroupTrials:
    """Tries the members of a group in order, each assumed for those after it, and undoes that; one trial at a time."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        evaluators: ports.Evaluators,
        attempts: attempt.AttemptRunner,
        observer: ports.Observer,
        reserved: reserve_calls.ReserveCalls,
        publish: Callable[[], int],
        feasibility: PlacementFeasibility,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._evaluators = evaluators
        self._attempts = attempts
        self._observer = observer
        self._reserved = reserved
        self._publish = publish
        self._feasibility = feasibility
        self._costs: VictimCosts | None = None

    @contextlib.contextmanager
    def choosing_by(self, costs: VictimCosts) -> Iterator[None]:
        """Within this context members go to the nodes that cost least."""
        self._costs = costs
        try:
            yield
        finally:
            self._costs = None

    async def try_on_all_nodes(self, request: PodGroupRequest) -> PodGroupResult:
        """Try a PodGroup on all nodes."""
        return unschedulable_if_none_placed(await self.try_pod_group(request, request.tree, None))

    async def try_pod_group(
        self, request: PodGroupRequest, node: forest.GroupNode, within: trial_scope.GroupPlacement | None
    ) -> PodGroupResult:
        """Try the members of a PodGroup of the tree in order. Without success nothing is left assumed.

        `within`: on these nodes alone.
        """
        attempts: list[MemberAttempt] = []
        try:
            group_status = await self._try_members_without_undo(request, node, within, attempts)
        except BaseException:
            self.unassume_all(attempts)
            raise
        if group_status.code is not GroupCode.SUCCESS:
            self.unassume_all(attempts)
        return PodGroupResult(node, group_status, attempts)

    async def _try_members_without_undo(
        self,
        request: PodGroupRequest,
        node: forest.GroupNode,
        within: trial_scope.GroupPlacement | None,
        attempts: list[MemberAttempt],
    ) -> GroupStatus:
        """Attempt the members in order, adding to `attempts`, until the plugins at PlacementFeasible end it.

        Returns the group's status. The attempts before it stand: the caller undoes them where the group fails.
        """
        members = request.members_of(node)
        trial = trial_scope.TrialScope(node.name, within, self._costs)
        progress = PlacementProgress(len(members), request.scheduled.get(node.name, 0), 0)
        (prospect,) = await self._feasibility.evaluate(request, node, within, (), [TrialStep(progress, 0)])
        if prospect.ends_trial:
            return prospect
        decided, most_steps, steps = 0, 1, list[TrialStep]()
        for batch in self._batches_of_one_class(members):
            attempts += await self._try_pods_of_class(batch, trial)
            for member in attempts[decided + len(steps) :]:
                if member.failed_by_error:
                    break
                progress = progress.after(member.assumed is not None)
                steps.append(TrialStep(progress, decided + len(steps) + 1))
            failed = attempts[decided + len(steps)].failure if decided + len(steps) < len(attempts) else None
            more = failed is None and len(attempts) < len(members) and len(steps) < most_steps
            if more and self._feasibility.may_wait(request.profile, node, steps[-1]):
                continue
            statuses = await self._feasibility.evaluate(request, node, within, attempts, steps)
            prospect = statuses[-1] if statuses else prospect
            if prospect.ends_trial:
                self._undo_behind(attempts, decided + len(statuses))
                return prospect
            if failed is not None:
                self._undo_behind(attempts, decided + len(steps) + 1)
                text = f"failed to schedule other pod from a pod group: {failed.message}"
                cause = status.error("", text, reasons=(status.Reason("memberFailed"),))
                # The first status is the error, whatever other nodes say.
                return GroupStatus(GroupCode.ERROR, text, (cause, failed.statuses[0][0]))
            # A refusal undoes at most as many attempts as were made before them.
            decided, most_steps, steps = len(attempts), min(2 * most_steps, _MOST_STEPS), []
        return prospect.at_end()

    def _undo_behind(self, attempts: list[MemberAttempt], kept: int) -> None:
        """Undo and remove the attempts behind the first `kept`."""
        self.unassume_all(attempts[kept:])
        del attempts[kept:]

    async def reassume(self, attempts: Sequence[MemberAttempt]) -> str:
        """Assume members again where they fitted before they were undone, and reserve again what they had reserved.

        Returns why that is not possible (a node is gone, Reserve failed), and then none of them is assumed; empty: they
        are.
        """
        done: list[MemberAttempt] = []
        cycle: cycle_pb2.Cycle | None = None
        try:
            for member in attempts:
                record = member.pod.record
                assert member.assumed is not None  # it fitted
                reserves = member.assumed.reserved
                if cycle is None or reserves or cycle.pod_class != record.class_id:
                    # What is reserved for a member is not free for the next one.
                    cycle = self._evaluators.cycle(record.profile, record.class_id, self._publish())
                failed = self._reassume_member(member)
                if not failed:
                    member.cycle = cycle
                    done.append(member)
                    failed = await self._reserve_again(member) if reserves else ""
                if failed:
                    self.unassume_all(done)
                    return failed
        except BaseException:
            self.unassume_all(done)
            raise
        return ""

    def _reassume_member(self, member: MemberAttempt) -> str:
        """Why the member cannot be where it was; empty: it is."""
        assumed = member.assumed
        assert assumed is not None  # it fitted
        assert member.cycle is not None
        if self._cache.node_at(assumed.slot, member.cycle.generation) != assumed.node_name:
            return f"node {assumed.node_name} is gone"
        if self._cache.pod(member.pod.uid) is not None:
            return f"pod {member.pod.key} is on a node already"
        self._attempts.assume_on(member.pod, assumed.node_name)
        if self._costs is not None:
            self._costs.condemn(member.pod.uid, assumed.slot)
        return ""

    async def _reserve_again(self, member: MemberAttempt) -> str:
        """Reserve for the member what it had reserved, beside the members before it; returns the failure."""
        assert member.assumed is not None
        assert member.cycle is not None
        member.assumed = assumed = dataclasses.replace(member.assumed, reserved=False)
        group = queued_group.pod_group_name(member.pod)
        (result,) = await self._attempts.reserve(member.cycle, [assumed], assumed.pre_bind, group)
        if isinstance(result, assumed_pod.AssumedPod):
            member.assumed = result
            return ""
        member.assumed, member.failure = None, result
        return result.message

    def unassume_all(self, attempts: Sequence[MemberAttempt]) -> None:
        """Unassume these members, newest first. The attempts still hold where they fitted."""
        for member in reversed(attempts):
            self.unassume(member)

    def unassume(self, member: MemberAttempt) -> None:
        """Undo the assumption and Reserve of the member, if it is assumed; `assumed` still says where."""
        if member.assumed is not None and member.cycle is not None:
            self._attempts.unreserve_and_forget(member.cycle, member.assumed)
            if self._costs is not None:
                self._costs.pardon(member.pod.uid)

    def _batches_of_one_class(
        self, members: Sequence[queued_pod.QueuedPodInfo]
    ) -> list[list[queued_pod.QueuedPodInfo]]:
        """Consecutive members of one class; a member that is nominated for a node is tried alone."""
        batches: list[list[queued_pod.QueuedPodInfo]] = []
        joined = False
        for pod in members:
            alone = bool(self._queue.nominator.node_of(pod.uid))
            if joined and not alone and batches[-1][0].record.class_id == pod.record.class_id:
                batches[-1].append(pod)
            else:
                batches.append([pod])
            joined = not alone
        return batches

    async def _try_pods_of_class(
        self, pods: list[queued_pod.QueuedPodInfo], within: trial_scope.TrialScope
    ) -> list[MemberAttempt]:
        """Attempts for these pods of one class, in their order.

        If the last one failed by error, the pods behind it were not tried.
        """
        attempts: list[MemberAttempt] = []
        try:
            while len(attempts) < len(pods):
                attempts += await self._attempt_once(pods[len(attempts) :], within)
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            failure = Failure(str(error), nominated_node="", reasons=(status.Reason("phaseFailed"),))
            attempts.append(MemberAttempt(pods[len(attempts)], failure=failure))
        except BaseException:
            self.unassume_all(attempts)
            raise
        return attempts

    async def _attempt_once(
        self, pods: list[queued_pod.QueuedPodInfo], within: trial_scope.TrialScope
    ) -> list[MemberAttempt]:
        """Make one attempt, for as many of the pods, from the first, as one answer of filter and score allows.

        Returns one result for each of them. A refusal or an error holds for all pods; pods without a class (their
        object is invalid) fail without a call.
        """
        started = self._observer.clock()
        record = pods[0].record
        if not record.class_id:
            invalid = Failure(record.pod.invalid, reasons=(status.Reason("podInvalid"),))
            return [MemberAttempt(pod, failure=invalid) for pod in pods]
        made = await self._attempts.attempt((record.profile, record.class_id), pods, within)
        if made.placed is not None:
            return self._attempts_of_placed(made.pods, made.placed)
        columns, failure = None, made.error
        if made.refused is not None:
            seconds = self._observer.clock() - started
            self._observer.on_pods_refused(record.profile, len(made.pods), seconds, made.refused)
            columns = self._columns_for_claim_release(record.class_id, made.refused)
            nodes = self._cache.node_count if within.placement is None else len(within.placement.slots)
            failure = refusal.Refusal.of(made.refused, nodes).as_failure()
        return [MemberAttempt(pod, failure=failure, columns=columns) for pod in made.pods]

    def _attempts_of_placed(
        self, pods: Sequence[queued_pod.QueuedPodInfo], placed: attempt.PlacedPods
    ) -> list[MemberAttempt]:
        """The results of the pods, in order, up to the first one that was not decided and is tried again."""
        columns = self._columns_for_claim_release(pods[0].record.class_id, placed.filtered)
        assumed = {each.pod.uid: each for each in placed.assumed}
        if self._costs is not None:
            for each in placed.assumed:
                self._costs.condemn(each.pod.uid, each.slot)
        failures = {pod.uid: failure for pod, failure in placed.unreserved}
        attempts = []
        for pod in pods:
            if pod.uid in assumed:
                attempts.append(MemberAttempt(pod, assumed[pod.uid], placed.cycle, columns=columns))
            elif pod.uid in failures:
                attempts.append(MemberAttempt(pod, failure=failures[pod.uid], columns=columns))
            elif not pod.in_attempt:
                gone = Failure("the pod is gone", unschedulable=True, reasons=(status.Reason("podGone"),))
                attempts.append(MemberAttempt(pod, failure=gone))
            else:
                break
        return attempts

    def end_claim_sharing(self, attempts: Sequence[MemberAttempt]) -> None:
        """End the trial of members that will be bound: no other pod shares their claims any more."""
        self._reserved.end_claim_sharing({member.pod.uid for member in attempts})

    def _columns_for_claim_release(self, class_id: int, filtered: FilterAnswer) -> filter_pb2.NodeColumns | None:
        """The columns by which PodGroupPostFilter finds claims to release: those where their plugin refuses nodes.

        None: it refuses none, the class has more than one pod (so no claims), or PreFilter refused everywhere.
        """
        if not self._cache.registry.is_of_one_pod(class_id) or filtered.refusal is not None:
            return None
        refused = any(group_plugins.releases_claims(refusal.plugin) for refusal in filtered.columns.statuses)
        return node_columns.to_message(filtered.columns) if refused else None
