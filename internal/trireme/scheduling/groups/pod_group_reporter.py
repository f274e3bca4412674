"""Reports how the attempt of a pod group ended: failures of members, conditions of groups, and the log.

Tests: tests/unit/scheduling/test_pod_group_cycle.py.
"""

import dataclasses
import logging
from collections.abc import Mapping, Sequence

from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.queueing.groups import forest
from trireme.scheduling import attempt_reporter, condition_message, failure
from trireme.scheduling.failure import Failure
from trireme.scheduling.groups import pod_group_conditions, pod_group_post_filters, pod_group_results
from trireme.scheduling.groups.pod_group_results import (
    GroupCode,
    GroupStatus,
    PodGroupRequest,
    PodGroupResult,
)
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)


class PodGroupReporter:
    """Reports to the members' queue entries and events, and to the conditions of groups."""

    def __init__(
        self,
        reporter: attempt_reporter.AttemptReporter,
        conditions: pod_group_conditions.PodGroupConditions,
        *,
        json_conditions: bool = False,
    ) -> None:
        """`json_conditions`: messages of conditions are JSON, with the codes of reasons."""
        self._reporter = reporter
        self._conditions = conditions
        self._json_conditions = json_conditions

    def report_error(self, tree: forest.GroupNode, members: Sequence[queued_pod.QueuedPodInfo], text: str) -> None:
        """Report that the tree's objects contradict each other: this text goes to each member and each group."""
        of_members = Failure(text, nominated_node="", reasons=(status.Reason("groupsDisagree"),))
        self._reporter.report_failures(members, of_members)
        for node in tree.nodes():
            self._conditions.set_error(node.message, condition_message.of(of_members, self._json_conditions))

    def report_result(
        self,
        request: PodGroupRequest,
        result: PodGroupResult,
        post_filter: pod_group_post_filters.PodGroupPostFilterResult | None,
    ) -> None:
        """Report the result of a tree that was tried: to its members, and to each group as a condition.

        `post_filter`: the result of PodGroupPostFilter, if it ran.
        """
        for each in pod_group_results.results_of_tree(request.tree, result):
            final = each.status if post_filter is None else _status_after_post_filter(each.status, post_filter)
            nominated = (
                post_filter.nominated if post_filter is not None and post_filter.code is status.Code.SUCCESS else None
            )
            if each.node.composite:
                _log_composite_attempt(each.node, final, nominated is not None)
            else:
                members = request.members_of(each.node)
                _log_attempt(each, final, nominated is not None, len(members))
                self._report_failed_members(each, members, final, nominated)
            self._write_condition(each.node.message, final)

    def _report_failed_members(
        self,
        result: PodGroupResult,
        members: Sequence[queued_pod.QueuedPodInfo],
        final: GroupStatus,
        nominated: Mapping[str, str] | None = None,
    ) -> None:
        """Report the failure of each member of a PodGroup that is not being bound, those not tried included.

        `nominated`: room is made, and these members (UID) are nominated for these nodes. Members that fitted fail too
        if the group does.
        """
        nodes, of_group = nominated or {}, None
        parent = f'parent pod group "{result.node.name}"'
        if final.code is GroupCode.ERROR:
            refusals = _refusals_with_group("groupFailed", result.node.name, f"{parent} encountered an error", final)
            of_group = Failure(f"{parent} encountered an error", nominated_node="", refusals=refusals)
        elif result.status.no_placement:
            # kube-scheduler returns this status as it is, not as a podGroupFitError: its pods get the message itself,
            # and no plugin that an event would have to help.
            refusals = _refusals_with_group("groupUnschedulable", result.node.name, f"{parent} is unschedulable", final)
            of_group = Failure(result.status.message, nominated_node="", unschedulable=True, refusals=refusals)
        elif final.code is GroupCode.UNSCHEDULABLE:
            text = f"{parent} is unschedulable"
            refusals = _refusals_with_group("groupUnschedulable", result.node.name, text, final)
            of_group = Failure(text, final.plugins, nominated_node="", unschedulable=True, refusals=refusals)
        for member in result.attempts:
            failure, node = member.failure, nodes.get(member.pod.uid)
            if failure is None or (final.code is GroupCode.ERROR and not member.failed_by_error):
                failure = of_group
            if failure is not None:
                self._reporter.report_failure(member.pod, _with_nominated_node(failure, node))
        for pod in members[len(result.attempts) :]:
            assert of_group is not None  # all are tried of a group that is scheduled
            node = nodes.get(pod.uid) if of_group.unschedulable else ""
            self._reporter.report_failure(pod, dataclasses.replace(of_group, nominated_node=node))

    def _write_condition(self, group: forest.Group, final: GroupStatus) -> None:
        """Have the condition written that follows from the group's final status."""
        reason = {
            GroupCode.SUCCESS: pod_group_conditions.SCHEDULED_REASON,
            GroupCode.UNSCHEDULABLE: failure.UNSCHEDULABLE_REASON,
        }.get(final.code, failure.SCHEDULER_ERROR_REASON)
        message = final.message
        if final.code is not GroupCode.SUCCESS:
            of_group = Failure(message, refusals=final.as_refusals())
            message = condition_message.of(of_group, self._json_conditions)
        self._conditions.set_condition(group, reason, message)


def _status_after_post_filter(
    final: GroupStatus, post_filter: pod_group_post_filters.PodGroupPostFilterResult
) -> GroupStatus:
    """The group's status after PodGroupPostFilter, with its message."""
    if post_filter.code is status.Code.ERROR:
        return GroupStatus(GroupCode.ERROR, post_filter.message, post_filter.causes)
    texts = filter(None, (final.message, post_filter.message))
    return dataclasses.replace(final, message=", ".join(texts), causes=(*final.causes, *post_filter.causes))


def _refusals_with_group(code: str, group: str, text: str, final: GroupStatus) -> tuple[tuple[status.Status, int], ...]:
    """The statuses of a pod that fails with its group: that it does, and the group's."""
    kind = status.Code.ERROR if final.code is GroupCode.ERROR else status.Code.UNSCHEDULABLE
    reasons = (status.Reason.of(code, {"group": group}),)
    return (status.Status(kind, "", (text,), reasons), 0), *final.as_refusals()


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


def _log_composite_attempt(node: forest.GroupNode, final: GroupStatus, room_made: bool) -> None:
    """Log the result of the attempt at one group of groups, in kube-scheduler's words."""
    group = klog.Ref(node.key.name)
    if final.code is GroupCode.SUCCESS:
        klog.info(log, 2, "Successfully scheduled a composite pod group", compositePodGroup=group)
    elif final.code is GroupCode.ERROR:
        text = "Error scheduling composite pod group"
        klog.error(log, text, err=final.message, logger="UnhandledError", compositePodGroup=group)
    else:
        made = "Composite pod group is waiting for preemption"
        text = made if room_made else "Unable to schedule a composite pod group"
        klog.info(log, 2, text, compositePodGroup=group, err=final.message)


def _with_nominated_node(failure: Failure, node: str | None) -> Failure:
    """The failure, with its nomination replaced by `node` (empty: cleared); None: the failure as it is."""
    if node is None:
        return failure
    return dataclasses.replace(failure, nominated_node=node, placement=None)
