"""What a tree of pod groups asks for, and the result of trying it.

Results form a tree as the groups do. Each group succeeds or fails by itself. A group that fails undoes what succeeded
below it, and without any pod placed the whole tree is unschedulable.

Source: pkg/scheduler/schedule_one_podgroup.go (podGroupAlgorithmResult, completeCompositePodGroupAlgorithmResult).

Tests: tests/unit/scheduling/test_pod_group_cycle.py.
"""

import dataclasses
import enum
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.queueing.groups import forest, queued_group
from trireme.scheduling import assumed_pod
from trireme.scheduling.failure import SCHEDULER_ERROR_REASON, Failure
from trireme.v1 import cycle_pb2, filter_pb2


class GroupCode(enum.Enum):
    """Whether a group is scheduled, or can still be."""

    SUCCESS = "success"
    #: Not yet: more members have to fit.
    WAIT = "wait"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, slots=True)
class GroupStatus:
    """A code with the reason, for events and conditions. `plugins`: those that it is of.

    `causes` say it as data, with the statuses behind it, and are empty for SUCCESS alone. `no_placement`: there is no
    placement to try the group in.
    """

    code: GroupCode
    message: str
    causes: tuple[status.Status, ...]
    plugins: frozenset[str] = frozenset()
    no_placement: bool = False

    @property
    def ends_trial(self) -> bool:
        """Whether nothing more of the group is tried."""
        return self.code in (GroupCode.UNSCHEDULABLE, GroupCode.ERROR)

    def as_refusals(self) -> tuple[tuple[status.Status, int], ...]:
        """The causes as refusals of a failure, each of no node."""
        return tuple((cause, 0) for cause in self.causes)

    def at_end(self) -> "GroupStatus":
        """The status if nothing more is tried: what waits for more is unschedulable."""
        if self.code is not GroupCode.WAIT:
            return self
        causes = tuple(dataclasses.replace(cause, code=status.Code.UNSCHEDULABLE) for cause in self.causes)
        return dataclasses.replace(self, code=GroupCode.UNSCHEDULABLE, causes=causes)


@dataclasses.dataclass(slots=True)
class MemberAttempt:
    """The result of the attempt for one member: where it fitted, or why it failed.

    `assumed` stays set where the trial is undone: it says where the member fitted, not that it is assumed now.
    """

    pod: queued_pod.QueuedPodInfo
    assumed: assumed_pod.AssumedPod | None = None
    cycle: cycle_pb2.Cycle | None = None
    failure: Failure | None = None
    # Filter's answer, if devices that the pod has already are not available on some nodes.
    columns: filter_pb2.NodeColumns | None = None

    @property
    def failed_by_error(self) -> bool:
        """The attempt ended by error, not by a refusal."""
        return self.failure is not None and self.failure.reason == SCHEDULER_ERROR_REASON


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroupRequest:
    """The pods of a tree of groups that are to be placed.

    `members` and `scheduled` are by name of a PodGroup: the pods that wait, in order, and how many have a node already.
    """

    group: queued_group.QueuedPodGroupInfo
    tree: forest.GroupNode
    members: Mapping[str, Sequence[queued_pod.QueuedPodInfo]]
    scheduled: Mapping[str, int]

    @property
    def profile(self) -> str:
        """The profile of all waiting pods, which is that of the first: groups agree on one."""
        return next(pods[0].record.profile for pods in self.members.values() if pods)

    def members_of(self, node: forest.GroupNode) -> Sequence[queued_pod.QueuedPodInfo]:
        """The waiting pods of a PodGroup of the tree, in order; empty: none of it waits."""
        return self.members.get(node.name, ())

    def all_pods(self) -> list[queued_pod.QueuedPodInfo]:
        """All waiting pods, in order."""
        return [pod for leaf in self.tree.leaves() for pod in self.members_of(leaf)]


@dataclasses.dataclass(slots=True)
class PodGroupResult:
    """The result for a group: of the attempts for its pods, or of those of its groups that were tried."""

    node: forest.GroupNode
    status: GroupStatus
    attempts: list[MemberAttempt] = dataclasses.field(default_factory=list)
    children: "list[PodGroupResult]" = dataclasses.field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        """Whether the group fits; it is scheduled if the groups above it fit too."""
        return self.status.code is GroupCode.SUCCESS

    def placed_members(self) -> Iterator[MemberAttempt]:
        """The members that the attempt assumed, in the order in which they were placed; none if the group failed."""
        if self.succeeded:
            yield from (member for member in self.attempts if member.assumed is not None)
            for child in self.children:
                yield from child.placed_members()

    def fitting_members(self) -> Iterator[tuple[MemberAttempt, assumed_pod.AssumedPod]]:
        """The members that fitted when they were tried, and where, whether or not their group succeeded."""
        yield from ((member, member.assumed) for member in self.attempts if member.assumed is not None)
        for child in self.children:
            yield from child.fitting_members()


# Tries a tree of groups. On success all members that fit are assumed.
# Implementers: trireme.scheduling.groups.pod_group_trial.PodGroupTrials.try_on_all_nodes,
# trireme.scheduling.groups.pod_group_placements.PodGroupPlacements.run.
TryGroup = Callable[[PodGroupRequest], Awaitable[PodGroupResult]]


def refused_cause(text: str, code: str, plugin: str = "") -> status.Status:
    """A cause of a group that does not fit, with this code."""
    return status.unschedulable(plugin, text, reasons=(status.Reason(code),))


def failed_cause(text: str, code: str, plugin: str = "") -> status.Status:
    """A cause of a group whose attempt failed, with this code."""
    return status.error(plugin, text, reasons=(status.Reason(code),))


def unschedulable_if_none_placed(result: PodGroupResult) -> PodGroupResult:
    """The result for the whole tree: without any pod placed it is unschedulable."""
    if result.succeeded and not any(result.placed_members()):
        text = "no pods were schedulable"
        result.status = GroupStatus(GroupCode.UNSCHEDULABLE, text, (refused_cause(text, "noPodPlaced"),))
    return result


def results_of_tree(
    node: forest.GroupNode, result: PodGroupResult | None, failed: PodGroupResult | None = None
) -> Iterator[PodGroupResult]:
    """The result of each group of the tree, for events and conditions; `failed` is the nearest one above that failed.

    A group that succeeded below it, or was not tried, fails because of it; and an error above comes before a refusal.
    """
    tried = {} if result is None else {child.node.key: child for child in result.children}
    if failed is None:
        assert result is not None  # the root was tried
        failed = None if result.succeeded else result
    elif result is None or result.succeeded or (_is_error(failed) and not _is_error(result)):
        attempts = [] if result is None else result.attempts
        result = PodGroupResult(node, _status_below(failed), attempts)
    else:
        failed = result
    yield result
    for child in node.children:
        yield from results_of_tree(child, tried.get(child.key), failed)


def _is_error(result: PodGroupResult) -> bool:
    return result.status.code is GroupCode.ERROR


def _status_below(failed: PodGroupResult) -> GroupStatus:
    """The status of a group that fails because of this one above it."""
    name = f'ancestor composite pod group "{failed.node.name}"'
    above = {"group": failed.node.name}
    if _is_error(failed):
        text = f"{name} encountered an error"
        cause = status.error("", text, reasons=(status.Reason.of("ancestorFailed", above),))
        return GroupStatus(GroupCode.ERROR, text, (cause, *failed.status.causes))
    text = f"{name} is unschedulable"
    cause = status.unschedulable("", text, reasons=(status.Reason.of("ancestorUnschedulable", above),))
    return GroupStatus(GroupCode.UNSCHEDULABLE, text, (cause, *failed.status.causes), failed.status.plugins)
