"""The scheduling cycle of one group, or of one tree of groups: all of its members that fit are bound, or none is.

The members are tried (`pod_group_trial`); then each goes on to be bound, or goes back with why, and the PodGroups get
their conditions. Binding goes on beside the next cycle, as for single pods.

Source: pkg/scheduler/schedule_one_podgroup.go.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from trireme.cache import cluster_cache
from trireme.cache.pod_projection import TERMINATING
from trireme.framework import status
from trireme.queueing import queued_pod, remote_calls, scheduling_queue
from trireme.queueing.groups import forest, queue_groups, queued_group
from trireme.queueing.groups.queue_groups import Attempt
from trireme.scheduling import attempt_reporter, batch_limit, binding_cycle, ports, preemption_executor
from trireme.scheduling.failure import Failure
from trireme.scheduling.groups import pod_group_conditions, pod_group_post_filters
from trireme.scheduling.groups.pod_group_results import (
    UNSCHEDULABLE,
    GroupStatus,
    MemberAttempt,
    PodGroupRequest,
    Result,
    TryGroup,
    Verdict,
    completed,
)
from trireme.scheduling.groups.pod_group_trial import PodGroupTrials
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2
from trireme_kube.componentbase import klog

log = logging.getLogger(__name__)

# How long a member may wait on Permit for the others, in seconds.
PERMIT_SECONDS = 300.0

_LOWER = "PreemptLowerPriority"

_ATTEMPTS = {
    Verdict.SUCCESS: Attempt.SCHEDULED,
    Verdict.UNSCHEDULABLE: Attempt.UNSCHEDULABLE,
    Verdict.ERROR: Attempt.ERROR,
}
# Where PodGroupPostFilter was run, by how that ended.
_AFTER = {status.Code.SUCCESS: Attempt.WAITING, status.Code.ERROR: Attempt.ERROR}


class PodGroupCycle:
    """Runs the cycles of groups."""

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
        conditions: pod_group_conditions.PodGroupConditions,
        gang_profiles: frozenset[str],
        limit: batch_limit.BatchLimit,
        asynchronous: bool,
        own_policy: bool = False,
    ) -> None:
        """`try_group` tries a group, `trials` undoes what it assumed. `gang_profiles` have the GangScheduling plugin;
        without it whatever fits is bound. `asynchronous`: victims are deleted beside the scheduling of others.
        `own_policy`: groups have a preemption policy of their own.
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
        self._conditions = conditions
        self._gang_profiles = gang_profiles
        self._limit = limit
        self._asynchronous = asynchronous
        self._own_policy = own_policy

    async def run(self, batch: queued_group.PodGroupBatch) -> None:
        """Place the members that wait, or say of each why not."""
        group, started = batch.group, self._observer.clock()
        how = Attempt.ERROR
        try:
            how = await self._attempt(group)
        finally:
            self._execute(self._groups.finish_attempt(group, how, self._now()))
            self._observer.group_attempted(batch.profile, how.value, self._observer.clock() - started)

    async def _attempt(self, group: queued_group.QueuedPodGroupInfo) -> Attempt:
        tree = group.tree
        members = self._members(group)
        if tree is None:
            self._fail_all(members, f'{group.group_key.kind}.scheduling.k8s.io "{group.name}" not found')
            return Attempt.ERROR
        odd = self._odd(group, members)
        if odd:
            self._fail_all(members, odd)
            for leaf in tree.leaves():
                self._conditions.set(leaf.message, pod_group_conditions.SCHEDULER_ERROR, odd)
            return Attempt.ERROR
        members = [pod for pod in members if self._to_be_tried(pod)]
        if not members:
            return Attempt.SCHEDULED
        klog.info(log, 3, "Attempting to schedule pod group", podGroup=klog.Ref(group.full_name))
        request = self._request(group, tree, members)
        self._queue.nominator.withhold(pod.uid for pod in members)
        try:
            started = self._observer.clock()
            result = await self._try(request)
            self._observer.group_evaluated(self._observer.clock() - started)
            how, post_filter = _ATTEMPTS[result.status.verdict], None
            if how is Attempt.UNSCHEDULABLE:
                post_filter = await self._run_post_filters(request, result)
                how = _AFTER.get(post_filter.code, how)
        finally:
            self._queue.nominator.show()
        if result.succeeded:
            self._bind(group, result)
        self._tell(request, result, post_filter)
        return how

    async def _run_post_filters(
        self, request: PodGroupRequest, result: Result
    ) -> pod_group_post_filters.PodGroupPostFilterResult:
        """Run the PodGroupPostFilter plugins, and start on what they decided."""
        group, started = request.group, self._observer.clock()
        post_filter = await self._post_filters.find(request, result)
        self._observer.point("PodGroupPostFilter", post_filter.code, request.profile, self._observer.clock() - started)
        await self._free_devices(group, post_filter.actions)
        if post_filter.code is not status.Code.SUCCESS:
            return post_filter
        failed = await self._make_room(group, [action for action in post_filter.actions if action.HasField("evict")])
        return pod_group_post_filters.not_made(failed) if failed else post_filter

    def _members(self, group: queued_group.QueuedPodGroupInfo) -> list[queued_pod.QueuedPodInfo]:
        """Those who are tried now, in order within each PodGroup."""
        return queued_group.in_order([group.members[uid] for uid in group.attempt or () if uid in group.members])

    def _request(
        self,
        group: queued_group.QueuedPodGroupInfo,
        tree: forest.GroupNode,
        members: Sequence[queued_pod.QueuedPodInfo],
    ) -> PodGroupRequest:
        by_group: dict[str, list[queued_pod.QueuedPodInfo]] = {}
        for pod in members:
            by_group.setdefault(queued_group.group_of(pod), []).append(pod)
        minimums = members[0].record.profile in self._gang_profiles
        return PodGroupRequest(group, tree, by_group, self._scheduled(group), minimums)

    async def _make_room(self, group: queued_group.QueuedPodGroupInfo, victims: Sequence[bind_pb2.Action]) -> str:
        """Have the victims deleted, beside the scheduling of others where that may be; else answers what failed."""
        if self._asynchronous:
            self._preemptions.start(group, "", victims)
            return ""
        return await self._preemptions.finish(group, "", victims)

    async def _free_devices(self, group: queued_group.QueuedPodGroupInfo, actions: Sequence[bind_pb2.Action]) -> None:
        """Have claims given up that the group cannot use as they are."""
        claims = [action for action in actions if not action.HasField("evict")]
        failed = await self._preemptions.execute(claims) if claims else ""
        if failed:
            log.warning("claims that pod group %s cannot use are not given up: %s", group.full_name, failed)

    def _scheduled(self, group: queued_group.QueuedPodGroupInfo) -> Counter[str]:
        """How many members have a node, assumed ones included, by name of their PodGroup."""
        scheduled = Counter(group.placed.values())
        scheduled.update(
            queued_group.group_of(pod) for uid, pod in group.members.items() if self._cache.is_assumed(uid)
        )
        return scheduled

    def _odd(self, group: queued_group.QueuedPodGroupInfo, members: Sequence[queued_pod.QueuedPodInfo]) -> str:
        """What is wrong with the group as a whole; empty: nothing is."""
        name, policy, whose = "", "", ""
        if self._own_policy and group.tree is not None:
            policy, whose = group.tree.message.spec.preemption_policy or _LOWER, " as the pod group's preemption policy"
        for scheduler, priority, preemption in self._seen_by_the_group(group, members):
            name, policy = name or scheduler, policy or preemption
            if scheduler != name:
                return (
                    "all pods in a single pod group should have the same .spec.schedulerName set, got: "
                    f'"{scheduler}" and "{name}"'
                )
            if priority != group.priority:
                return (
                    "all pods in a single pod group should have the same priority as the pod group's priority, got "
                    f"{priority} and {group.priority}"
                )
            if preemption != policy:
                return (
                    f"all pods in a single pod group should have the same preemption policy{whose}, got "
                    f"{preemption} and {policy}"
                )
        return ""

    def _seen_by_the_group(
        self, group: queued_group.QueuedPodGroupInfo, members: Sequence[queued_pod.QueuedPodInfo]
    ) -> Iterator[tuple[str, int, str]]:
        """What all members have to agree on: schedulerName, priority, preemption policy. Each class is seen once."""
        seen: set[int] = set()
        for pod in members:
            class_id = pod.record.class_id
            if class_id and class_id not in seen:
                seen.add(class_id)
                yield _agreed(self._cache.registry[class_id].pod)
        assumed = [uid for uid in group.members if self._cache.is_assumed(uid)]
        for uid in (*group.placed, *assumed):
            placed = self._cache.pod(uid)
            if placed is not None and placed.class_id not in seen:
                seen.add(placed.class_id)
                yield _agreed(self._cache.registry[placed.class_id].pod)

    def _to_be_tried(self, pod: queued_pod.QueuedPodInfo) -> bool:
        if pod.record.pod.parsed.flags & TERMINATING:
            self._reporter.skipped(pod)
            return False
        if self._cache.pod(pod.uid) is not None or not pod.in_attempt:
            self._queue.done(pod.uid, self._now())
            return False
        return True

    def _bind(self, group: queued_group.QueuedPodGroupInfo, result: Result) -> None:
        """Have those that fitted bound; those that went away meanwhile are not there any more."""
        attempts = list(result.placed())
        self._trials.settle(attempts)
        placed = []
        for member in attempts:
            if member.assumed is None or member.cycle is None:
                continue
            self._queue.nominator.delete(member.pod.uid)
            if not member.pod.in_attempt:
                self._trials.unassume(member)
            else:
                placed.append((member.cycle, member.assumed))
        gang = bool(placed) and placed[0][0].profile in self._gang_profiles
        waits: Mapping[str, float] = {}
        if gang and not result.node.has_minimum(self._scheduled(group).__getitem__):
            waits = {queued_group.GANG_SCHEDULING: PERMIT_SECONDS}
        for cycle, batch in self._batches(placed):
            self._binding.start(cycle, batch, waits)
        if gang and not waits:
            self._binding.allow(group.members, queued_group.GANG_SCHEDULING)

    def _batches(
        self, placed: Sequence[tuple[cycle_pb2.Cycle, binding_cycle.Assumed]]
    ) -> Iterator[tuple[cycle_pb2.Cycle, list[binding_cycle.Assumed]]]:
        batch: list[binding_cycle.Assumed] = []
        for index, (cycle, assumed) in enumerate(placed):
            batch.append(assumed)
            last = index + 1 == len(placed) or placed[index + 1][0].pod_class != cycle.pod_class
            if last or len(batch) >= self._limit.max_pods:
                yield cycle, batch
                batch = []

    def _tell(
        self,
        request: PodGroupRequest,
        result: Result,
        post_filter: pod_group_post_filters.PodGroupPostFilterResult | None,
    ) -> None:
        """What each group of pods, and each member, is told. `post_filter`: what PodGroupPostFilter answered."""
        results = list(completed(request.tree, result))
        # What PodGroupPostFilter says is said once for each group that has the status, as kube-scheduler does it.
        shares = Counter(id(each.status) for each in results)
        for each in results:
            if each.node.composite:
                continue
            said = each.status if post_filter is None else _after(each.status, post_filter, shares[id(each.status)])
            nominated = (
                post_filter.nominated if post_filter is not None and post_filter.code is status.Code.SUCCESS else None
            )
            members = request.of(each.node)
            _log_attempt(each, said, nominated is not None, len(members))
            self._report(members, each.attempts, each.status, said, nominated)
            self._write_condition(each.node.message, said)

    def _report(
        self,
        members: Sequence[queued_pod.QueuedPodInfo],
        attempts: Sequence[MemberAttempt],
        before: GroupStatus,
        said: GroupStatus,
        nominated: Mapping[str, str] | None = None,
    ) -> None:
        """Each member of a PodGroup that is not being bound goes back with why. `before` is what was said of the group
        before PodGroupPostFilter was run; `nominated`: room is made, and these members (UID) wait for these nodes.
        """
        waiting = nominated is not None
        nodes = nominated or {}
        for member in attempts:
            uid = member.pod.uid
            failure = member.failure
            if said.verdict is Verdict.ERROR:
                failure = failure if member.failed_by_error else Failure(said.message, nominated_node="")
            elif failure is not None:
                failure = _nominated(failure, nodes.get(uid))
            elif said.verdict is Verdict.UNSCHEDULABLE:
                text = said.message if waiting else f"{UNSCHEDULABLE}, {said.message}"
                failure = Failure(text, nominated_node=nodes.get(uid, ""), unschedulable=True)
            if failure is not None:
                self._reporter.failed(member.pod, failure)
        error = said.verdict is Verdict.ERROR
        for pod in members[len(attempts) :]:
            text = said.message if error else before.message
            node = "" if error else nodes.get(pod.uid)
            self._reporter.failed(pod, Failure(text, nominated_node=node, unschedulable=not error))

    def _fail_all(self, members: Sequence[queued_pod.QueuedPodInfo], text: str) -> None:
        for pod in members:
            self._reporter.failed(pod, Failure(text, nominated_node=""))

    def _write_condition(self, pod_group: forest.Group, said: GroupStatus) -> None:
        reason = {
            Verdict.SUCCESS: pod_group_conditions.SCHEDULED,
            Verdict.UNSCHEDULABLE: pod_group_conditions.UNSCHEDULABLE,
        }.get(said.verdict, pod_group_conditions.SCHEDULER_ERROR)
        self._conditions.set(pod_group, reason, said.message)


def _after(said: GroupStatus, post_filter: pod_group_post_filters.PodGroupPostFilterResult, times: int) -> GroupStatus:
    """What is said of the group once PodGroupPostFilter was run."""
    if post_filter.code is status.Code.ERROR:
        return GroupStatus(Verdict.ERROR, (post_filter.message,))
    # An empty text is joined too, as kube-scheduler does it.
    return dataclasses.replace(said, reasons=(*said.reasons, *[post_filter.message] * times))


def _log_attempt(result: Result, said: GroupStatus, waiting: bool, members: int) -> None:
    """One line a decision, in kube-scheduler's words."""
    group = klog.Ref(result.node.key.name)
    if said.verdict is Verdict.SUCCESS:
        placed = sum(member.assumed is not None for member in result.attempts)
        text, left = "Successfully scheduled a pod group", members - placed
        klog.info(log, 2, text, podGroup=group, scheduledPods=placed, unschedulablePods=left)
    elif said.verdict is Verdict.ERROR:
        text = "Error scheduling pod group"
        klog.error(log, text, err=said.message, logger="UnhandledError", podGroup=group, errorPods=members)
    else:
        text = "Pod group is waiting for preemption" if waiting else "Unable to schedule a pod group"
        klog.info(log, 2, text, podGroup=group, unschedulablePods=members, err=said.message)


def _agreed(pod: core_pb2.Pod) -> tuple[str, int, str]:
    spec = pod.spec
    return spec.scheduler_name, spec.priority, spec.preemption_policy or _LOWER


def _nominated(failure: Failure, node: str | None) -> Failure:
    if node is None:
        return failure
    return Failure(
        failure.message, failure.rejectors, failure.pending_plugins, node, unschedulable=failure.unschedulable
    )
