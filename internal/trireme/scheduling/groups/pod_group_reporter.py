"""Reports how the attempt of a pod group ended: failures of members, conditions of PodGroups, and the log.

Tests: tests/unit/scheduling/test_pod_group_cycle.py.
"""

import dataclasses
import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.queueing.groups import forest
from trireme.scheduling import attempt_reporter, failure
from trireme.scheduling.failure import Failure
from trireme.scheduling.groups import pod_group_conditions, pod_group_post_filters, pod_group_results
from trireme.scheduling.groups.pod_group_results import (
    UNSCHEDULABLE_TEXT,
    GroupCode,
    GroupStatus,
    MemberAttempt,
    PodGroupRequest,
    PodGroupResult,
)
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


class PodGroupReporter:
    """Reports to the members' queue entries and events, and to the conditions of PodGroups."""

    def __init__(
        self, reporter: attempt_reporter.AttemptReporter, conditions: pod_group_conditions.PodGroupConditions
    ) -> None:
        self._reporter = reporter
        self._conditions = conditions

    def report_error(self, tree: forest.GroupNode, members: Sequence[queued_pod.QueuedPodInfo], text: str) -> None:
        """Report that the tree's objects contradict each other: this text goes to each member and each PodGroup."""
        self._reporter.report_failures(members, Failure(text, nominated_node=""))
        for leaf in tree.leaves():
            self._conditions.set_condition(leaf.message, pod_group_conditions.POD_GROUP_ERROR_REASON, text)

    def report_result(
        self,
        request: PodGroupRequest,
        result: PodGroupResult,
        post_filter: pod_group_post_filters.PodGroupPostFilterResult | None,
    ) -> None:
        """Report the result of a tree that was tried: to its members, and to each PodGroup as a condition.

        `post_filter`: the result of PodGroupPostFilter, if it ran.
        """
        results = list(pod_group_results.results_of_tree(request.tree, result))
        # PodGroupPostFilter's message is repeated for each group that shares the status, as kube-scheduler does it.
        shares = Counter(id(each.status) for each in results)
        for each in results:
            if each.node.composite:
                continue
            final = (
                each.status
                if post_filter is None
                else _status_after_post_filter(each.status, post_filter, shares[id(each.status)])
            )
            nominated = (
                post_filter.nominated if post_filter is not None and post_filter.code is status.Code.SUCCESS else None
            )
            members = request.members_of(each.node)
            _log_attempt(each, final, nominated is not None, len(members))
            self._report_failed_members(members, each.attempts, each.status, final, nominated)
            self._write_condition(each.node.message, final)

    def _report_failed_members(
        self,
        members: Sequence[queued_pod.QueuedPodInfo],
        attempts: Sequence[MemberAttempt],
        before: GroupStatus,
        final: GroupStatus,
        nominated: Mapping[str, str] | None = None,
    ) -> None:
        """Report the failure of each member of a PodGroup that is not being bound, those not tried included.

        `before` is the group's status before PodGroupPostFilter; `nominated`: room is made, and these members (UID) are
        nominated for these nodes. Members that fitted fail too, with the group's text, if the group does.
        """
        room_made = nominated is not None
        nodes = nominated or {}
        for member in attempts:
            uid = member.pod.uid
            failure = member.failure
            if final.code is GroupCode.ERROR:
                failure = failure if member.failed_by_error else Failure(final.message, nominated_node="")
            elif failure is not None:
                failure = _with_nominated_node(failure, nodes.get(uid))
            elif final.code is GroupCode.UNSCHEDULABLE:
                text = final.message if room_made else f"{UNSCHEDULABLE_TEXT}, {final.message}"
                failure = Failure(text, nominated_node=nodes.get(uid, ""), unschedulable=True)
            if failure is not None:
                self._reporter.report_failure(member.pod, failure)
        error = final.code is GroupCode.ERROR
        for pod in members[len(attempts) :]:
            text = final.message if error else before.message
            node = "" if error else nodes.get(pod.uid)
            self._reporter.report_failure(pod, Failure(text, nominated_node=node, unschedulable=not error))

    def _write_condition(self, pod_group: forest.Group, final: GroupStatus) -> None:
        """Have the condition written that follows from the group's final status."""
        reason = {
            GroupCode.SUCCESS: pod_group_conditions.SCHEDULED_REASON,
            GroupCode.UNSCHEDULABLE: failure.UNSCHEDULABLE_REASON,
        }.get(final.code, failure.SCHEDULER_ERROR_REASON)
        self._conditions.set_condition(pod_group, reason, final.message)


def _status_after_post_filter(
    final: GroupStatus, post_filter: pod_group_post_filters.PodGroupPostFilterResult, times: int
) -> GroupStatus:
    """The group's status after PodGroupPostFilter; its message is repeated `times` times."""
    if post_filter.code is status.Code.ERROR:
        return GroupStatus(GroupCode.ERROR, (post_filter.message,))
    # An empty text is joined too, as kube-scheduler does it.
    return dataclasses.replace(final, reasons=(*final.reasons, *[post_filter.message] * times))


def _log_attempt(result: PodGroupResult, final: GroupStatus, room_made: bool, members: int) -> None:
    """Log the result of the attempt at one PodGroup, in kube-scheduler's words."""
    group = klog.Ref(result.node.key.name)
    if final.code is GroupCode.SUCCESS:
        placed = sum(member.assumed is not None for member in result.attempts)
        text, left = "Successfully scheduled a pod group", members - placed
        klog.info(log, 2, text, podGroup=group, scheduledPods=placed, unschedulablePods=left)
    elif final.code is GroupCode.ERROR:
        text = "Error scheduling pod group"
        klog.error(log, text, err=final.message, logger="UnhandledError", podGroup=group, errorPods=members)
    else:
        text = "Pod group is waiting for preemption" if room_made else "Unable to schedule a pod group"
        klog.info(log, 2, text, podGroup=group, unschedulablePods=members, err=final.message)


def _with_nominated_node(failure: Failure, node: str | None) -> Failure:
    """The failure, with its nomination replaced by `node` (empty: cleared); None: the failure as it is."""
    if node is None:
        return failure
    return Failure(
        failure.message, failure.rejectors, failure.pending_plugins, node, unschedulable=failure.unschedulable
    )
