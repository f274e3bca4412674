"""What is to be placed of a tree of groups, and how it went: the words between a group's cycle and who tries it.

A result is a tree as the groups are. A group succeeds by itself; whether it goes is up to those above it: what fails
takes down with it whatever succeeded in it, and the whole tree has to have somebody placed.

Source: pkg/scheduler/schedule_one_podgroup.go (podGroupAlgorithmResult, completeCompositePodGroupAlgorithmResult).
"""

import dataclasses
import enum
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

from trireme.queueing import queued_pod
from trireme.queueing.groups import forest, queued_group
from trireme.scheduling import binding_cycle
from trireme.scheduling.failure import SCHEDULER_ERROR, Failure
from trireme.v1 import cycle_pb2, filter_pb2

UNSCHEDULABLE = "pod group is unschedulable"


class Verdict(enum.Enum):
    """What is to be said of a group, or of its prospects."""

    SUCCESS = "success"
    #: Not yet: more members have to fit.
    WAIT = "wait"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


@dataclasses.dataclass(frozen=True, slots=True)
class GroupStatus:
    """How it stands with a group. `summary`: the reasons begin with the one that is all that is passed on."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    summary: bool = False

    @property
    def message(self) -> str:
        """For events and conditions."""
        return ", ".join(self.reasons)


@dataclasses.dataclass(slots=True)
class MemberAttempt:
    """What the trial found for one member: a place, or why there is none."""

    pod: queued_pod.QueuedPodInfo
    assumed: binding_cycle.Assumed | None = None
    cycle: cycle_pb2.Cycle | None = None
    failure: Failure | None = None
    # What filter said of the nodes, where devices that the pod has already are not available on some.
    columns: filter_pb2.NodeColumns | None = None

    @property
    def failed_by_error(self) -> bool:
        """It was not refused: something went wrong."""
        return self.failure is not None and self.failure.reason == SCHEDULER_ERROR


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroupRequest:
    """What is to be placed: the pods of a tree of groups. `members` and `scheduled` are by name of a PodGroup: those
    who wait, in order, and how many have a node already. `minimums`: the groups' minimums hold.
    """

    group: queued_group.QueuedPodGroupInfo
    tree: forest.GroupNode
    members: Mapping[str, Sequence[queued_pod.QueuedPodInfo]]
    scheduled: Mapping[str, int]
    minimums: bool

    @property
    def profile(self) -> str:
        """The profile of all of them."""
        return next(pods[0].record.profile for pods in self.members.values() if pods)

    def of(self, node: forest.GroupNode) -> Sequence[queued_pod.QueuedPodInfo]:
        """Who waits of a PodGroup."""
        return self.members.get(node.name, ())

    def everybody(self) -> list[queued_pod.QueuedPodInfo]:
        """Who waits, in order."""
        return [pod for leaf in self.tree.leaves() for pod in self.of(leaf)]


@dataclasses.dataclass(slots=True)
class Result:
    """How it went with a group: with its pods, or with those of its groups that were tried."""

    node: forest.GroupNode
    status: GroupStatus
    attempts: list[MemberAttempt] = dataclasses.field(default_factory=list)
    children: "list[Result]" = dataclasses.field(default_factory=list)

    @property
    def succeeded(self) -> bool:
        """It goes, if those above it do."""
        return self.status.verdict is Verdict.SUCCESS

    def placed(self) -> Iterator[MemberAttempt]:
        """The members that have a place as long as this stands, in the order in which they were placed."""
        if self.succeeded:
            yield from (member for member in self.attempts if member.assumed is not None)
            for child in self.children:
                yield from child.placed()

    def proposed(self) -> Iterator[MemberAttempt]:
        """The members that had a place when they were tried, whatever became of their groups."""
        yield from (member for member in self.attempts if member.assumed is not None)
        for child in self.children:
            yield from child.proposed()


# Tries groups. On success everybody who has a place is assumed there.
TryGroup = Callable[[PodGroupRequest], Awaitable[Result]]


def settled(result: Result) -> Result:
    """The whole tree's result: where nobody has a place, nothing was scheduled."""
    if result.succeeded and not any(result.placed()):
        result.status = GroupStatus(Verdict.UNSCHEDULABLE, (UNSCHEDULABLE,), summary=True)
    return result


def feasible(min_count: int, scheduled: int, remaining: int) -> GroupStatus:
    """Whether so many can still have a node, where some have one, and others have not been tried.

    Source: pkg/scheduler/framework/plugins/gangscheduling PlacementFeasible.
    """
    if scheduled + remaining < min_count:
        text = f"minCount ({min_count}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"
        return GroupStatus(Verdict.UNSCHEDULABLE, (text,))
    if scheduled < min_count:
        text = f"minCount ({min_count}) is not yet satisfied: {scheduled} scheduled, {remaining} remaining"
        return GroupStatus(Verdict.WAIT, (text,))
    return GroupStatus(Verdict.SUCCESS)


def completed(node: forest.GroupNode, result: Result | None, above: Result | None = None) -> Iterator[Result]:
    """The result of each group of the tree, as it is to be told of: those that were not tried, and those that succeeded
    below one that failed, have the status of that one: the very same.
    """
    tried = {} if result is None else {child.node.key: child for child in result.children}
    if above is not None and (result is None or (result.succeeded and not above.succeeded)):
        result = Result(node, above.status)
    assert result is not None  # the root was tried
    yield result
    for child in node.children:
        yield from completed(child, tried.get(child.key), result)
