"""A remote plugin at PlacementFeasible, as the cycles of pod groups call it: the trial of a group as messages.

Tests: tests/contract/test_plugin_placement_feasible.py.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.remote import remote_placement_feasible
from trireme.v1 import core_pb2, pod_groups_pb2, scheduling_pb2

if TYPE_CHECKING:
    # Modules that are needed only with the gate of groups.
    from trireme.scheduling.groups.placement_feasibility import GroupTrial, TrialStep


class PlacementFeasibleCaller:
    """Calls one remote plugin about the trials of groups."""

    def __init__(
        self,
        plugin: remote_placement_feasible.RemotePlacementFeasiblePlugin,
        node_at: Callable[[int, int], str | None],
        pod_of: Callable[[queued_pod.QueuedPodInfo], core_pb2.Pod],
    ) -> None:
        """`node_at` names the node at a slot since a generation, `pod_of` returns a pod as plugins see it."""
        self._plugin = plugin
        self._node_at = node_at
        self._pod_of = pod_of

    async def placement_feasible(self, trial: "GroupTrial", steps: "Sequence[TrialStep]") -> Sequence[status.Status]:
        """A status for each step, up to the first that ends the trial."""
        message = pod_groups_pb2.PlacementFeasibleRequest(cycle=trial.cycle, min_count=trial.group.min_count)
        group = trial.group.message
        if isinstance(group, scheduling_pb2.CompositePodGroup):
            message.composite_pod_group.metadata.CopyFrom(group.metadata)
            message.composite_pod_group.spec.CopyFrom(group.spec)
        else:
            message.pod_group.metadata.CopyFrom(group.metadata)
            message.pod_group.spec.CopyFrom(group.spec)
        if trial.placement is not None:
            message.placement = trial.placement.name
            names = (self._node_at(slot, trial.cycle.generation) for slot in trial.placement.slots)
            message.node_names.extend(name for name in names if name is not None)
        for progress, attempts in steps:
            message.steps.add(
                tried=attempts,
                remaining=progress.remaining,
                scheduled=progress.scheduled,
                unschedulable=progress.unschedulable,
            )
        tried = [
            (self._pod_of(each.pod), "" if each.assumed is None else each.assumed.node_name) for each in trial.attempts
        ]
        return await self._plugin.placement_feasible(message, tried)
