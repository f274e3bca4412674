"""The scheduling cycle of one pod group, or of one tree of groups: all of its members that fit are bound, or none is.

The members are tried (`pod_group_trial`); then each is bound, or requeued with the reason, and the PodGroups get their
conditions (`pod_group_reporter`). Binding goes on during the next cycle, as for single pods.

Source: pkg/scheduler/schedule_one_podgroup.go.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from trireme.cache import cluster_cache
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import queued_pod, remote_calls, scheduling_queue
from trireme.queueing.groups import forest, queue_groups, queued_group
from trireme.queueing.groups.queue_groups import GroupAttemptResult
from trireme.scheduling import assumed_pod, attempt_reporter, batch_limit, binding_cycle, ports, preemption_executor
from trireme.scheduling.failure import Failure
from trireme.scheduling.groups import pod_group_agreement, pod_group_post_filters, pod_group_reporter
from trireme.scheduling.groups.pod_group_results import (
    GroupCode,
    PodGroupRequest,
    PodGroupResult,
    TryGroup,
)
from trireme.scheduling.groups.pod_group_trial import PodGroupTrials
from trireme.v1 import bind_pb2, cycle_pb2
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

_ATTEMPTS = {
    GroupCode.SUCCESS: GroupAttemptResult.SCHEDULED,
    GroupCode.UNSCHEDULABLE: GroupAttemptResult.UNSCHEDULABLE,
    GroupCode.ERROR: GroupAttemptResult.ERROR,
}
# The attempt's end after PodGroupPostFilter, by the code of its result.
_AFTER_POST_FILTER = {status.Code.SUCCESS: GroupAttemptResult.WAITING, status.Code.ERROR: GroupAttemptResult.ERROR}


class PodGroupCycle:
    """Runs the scheduling cycle of a pod group: tries it once, then binds what fitted, or preempts for it."""

    def __init__(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        groups: queue_groups.QueueGroups,
        reporter: attempt_reporter.AttemptReporter,
        observer: ports.Observer,
        execute: Callable[[remote_calls.Instructions], None],
        now: Callable[[], float],
        trials: PodGroupTrials,
        try_group: TryGroup,
        post_filters: pod_group_post_filters.PodGroupPostFilters,
        preemptions: preemption_executor.PreemptionExecutor,
        binding: binding_cycle.BindingCycle,
        group_reporter: pod_group_reporter.PodGroupReporter,
        limit: batch_limit.BatchLimit,
        asynchronous: bool,
    ) -> None:
        """`try_group` tries a group, `trials` undoes what it assumed.

        `asynchronous`: victims are deleted while others are scheduled.
        """
        self._cache = cache
        self._reporter = reporter
        self._observer = observer
        self._execute = execute
        self._now = now
        self._queue = queue
        self._groups = groups
        self._trials = trials
        self._try = try_group
        self._post_filters = post_filters
        self._preemptions = preemptions
        self._binding = binding
        self._group_reporter = group_reporter
        self._limit = limit
        self._asynchronous = asynchronous

    async def run(self, batch: queued_group.PodGroupBatch) -> None:
        """Try the members that wait: bind or requeue each."""
        group, started = batch.group, self._observer.clock()
        end = GroupAttemptResult.ERROR
        try:
            end = await self._attempt_group(group)
        finally:
            self._execute(self._groups.finish_attempt(group, end, self._now()))
            self._observer.on_group_attempted(
                batch.profile, group.group_key.kind, end.value, self._observer.clock() - started
            )

    async def _attempt_group(self, group: queued_group.QueuedPodGroupInfo) -> GroupAttemptResult:
        """Try the group once, and have its members bound or reported.

        During the trial its members' nominations are withheld, and deltas are marked. Returns how it ended; a group
        without members to try counts as scheduled.
        """
        tree = group.tree
        members = self._members_to_try(group)
        self._observer.on_group_popped(members)
        if tree is None:
            text = f'{group.group_key.kind}.scheduling.k8s.io "{group.name}" not found'
            reasons = (status.Reason.of("groupNotFound", {"group": group.name}),)
            self._reporter.report_failures(members, Failure(text, nominated_node="", reasons=reasons))
            return GroupAttemptResult.ERROR
        disagreement = pod_group_agreement.find_disagreement(self._cache, group, tree, members)
        if disagreement:
            self._group_reporter.report_error(tree, members, disagreement)
            return GroupAttemptResult.ERROR
        members = [pod for pod in members if self._may_be_tried(pod)]
        if not members:
            return GroupAttemptResult.SCHEDULED
        klog.info(log, 3, "Attempting to schedule pod group", podGroup=klog.Ref(group.full_name))
        request = self._make_group_request(group, tree, members)
        self._cache.begin_trial()
        self._queue.nominator.withhold(pod.uid for pod in members)
        try:
            started = self._observer.clock()
            result = await self._try(request)
            self._observer.on_group_evaluated(request.profile, tree.key.kind, self._observer.clock() - started)
            end, post_filter = _ATTEMPTS[result.status.code], None
            if end is GroupAttemptResult.UNSCHEDULABLE:
                post_filter = await self._run_post_filters(request, result)
                end = _AFTER_POST_FILTER.get(post_filter.code, end)
        finally:
            self._queue.nominator.restore_withheld()
            self._cache.end_trial()
        if result.succeeded:
            self._bind_placed_members(result)
        self._group_reporter.report_result(request, result, post_filter)
        return end

    async def _run_post_filters(
        self, request: PodGroupRequest, result: PodGroupResult
    ) -> pod_group_post_filters.PodGroupPostFilterResult:
        """Run the PodGroupPostFilter plugins, and execute what they decide."""
        group, started = request.group, self._observer.clock()
        post_filter = await self._post_filters.run(request, result)
        self._observer.on_extension_point_run(
            "PodGroupPostFilter", post_filter.code, request.profile, self._observer.clock() - started
        )
        await self._release_claims(group, post_filter.actions)
        if post_filter.code is not status.Code.SUCCESS:
            return post_filter
        victims = [action for action in post_filter.actions if action.HasField("evict")]
        failed = await self._evict_victims(group, victims, post_filter.nominated.values())
        return pod_group_post_filters.failed_preemption_result(failed) if failed else post_filter

    def _members_to_try(self, group: queued_group.QueuedPodGroupInfo) -> list[queued_pod.QueuedPodInfo]:
        return queued_group.in_scheduling_order(
            [group.members[uid] for uid in group.attempt or () if uid in group.members]
        )

    def _make_group_request(
        self,
        group: queued_group.QueuedPodGroupInfo,
        tree: forest.GroupNode,
        members: Sequence[queued_pod.QueuedPodInfo],
    ) -> PodGroupRequest:
        """Describe the trial: the members by PodGroup, and how many have a node."""
        by_group: dict[str, list[queued_pod.QueuedPodInfo]] = {}
        for pod in members:
            by_group.setdefault(queued_group.pod_group_name(pod), []).append(pod)
        return PodGroupRequest(group, tree, by_group, self._scheduled_per_group(group))

    async def _evict_victims(
        self, group: queued_group.QueuedPodGroupInfo, victims: Sequence[bind_pb2.Action], nodes: Iterable[str]
    ) -> str:
        """Have the victims deleted, so that there is room on these nodes.

        Returns the failure; empty: none, or others are scheduled meanwhile.
        """
        if self._asynchronous:
            self._preemptions.evict_in_background(group, "", victims, frozenset(nodes))
            return ""
        return await self._preemptions.evict(group, "", victims, frozenset(nodes))

    async def _release_claims(self, group: queued_group.QueuedPodGroupInfo, actions: Sequence[bind_pb2.Action]) -> None:
        """Have bind release claims that the group cannot use as they are; a failure is only logged."""
        claims = [action for action in actions if not action.HasField("evict")]
        failed = await self._preemptions.execute(claims) if claims else ""
        if failed:
            log.warning(
                "claims that pod group %s cannot use are not released: %s; its next attempt tries again",
                group.full_name,
                failed,
            )

    def _scheduled_per_group(self, group: queued_group.QueuedPodGroupInfo) -> Counter[str]:
        """How many members have a node, assumed ones included, by name of their PodGroup."""
        scheduled = Counter(group.placed.values())
        scheduled.update(
            queued_group.pod_group_name(pod) for uid, pod in group.members.items() if self._cache.is_assumed(uid)
        )
        return scheduled

    def _may_be_tried(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """Whether the member is to be tried; ends the attempt of one that is being deleted, is gone, or has a node."""
        if pod.record.pod.parsed.flags & TERMINATING:
            self._reporter.report_skipped(pod)
            return False
        if self._cache.pod(pod.uid) is not None or not pod.in_attempt:
            self._queue.done(pod.uid, self._now())
            return False
        return True

    def _bind_placed_members(self, result: PodGroupResult) -> None:
        """Have the members that fitted bound; those that were deleted meanwhile are unassumed."""
        attempts = list(result.placed_members())
        self._trials.end_claim_sharing(attempts)
        placed = []
        for member in attempts:
            self._queue.nominator.delete(member.pod.uid)
            if not member.pod.in_attempt:
                self._trials.unassume(member)
                continue
            assert member.assumed is not None  # it was placed
            assert member.cycle is not None
            placed.append((member.cycle, member.assumed))
        for cycle, batch in self._binding_batches(placed):
            self._binding.start(cycle, batch)

    def _binding_batches(
        self, placed: Sequence[tuple[cycle_pb2.Cycle, assumed_pod.AssumedPod]]
    ) -> Iterator[tuple[cycle_pb2.Cycle, list[assumed_pod.AssumedPod]]]:
        """Split the placed members into batches of one class, no larger than the queue's, in order."""
        batch: list[assumed_pod.AssumedPod] = []
        for index, (cycle, assumed) in enumerate(placed):
            batch.append(assumed)
            last = index + 1 == len(placed) or placed[index + 1][0].pod_class != cycle.pod_class
            if last or len(batch) >= self._limit.max_pods:
                yield cycle, batch
                batch = []
