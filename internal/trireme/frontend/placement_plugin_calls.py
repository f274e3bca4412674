"""A remote plugin at PlacementFeasible, as the cycles of pod groups call it: the trial of a group as messages.

Tests: tests/contract/test_plugin_placement_feasible.py.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.remote import remote_placement_feasible
from trireme.v1 import core_pb2, cycle_pb2, pod_groups_pb2, scheduling_pb2

# Of so many classes the fields are kept, for the next call about their pods.
_MAX_KEPT = 1024

if TYPE_CHECKING:
    # Modules that are needed only with the gate of groups.
    from trireme.scheduling.groups.placement_feasibility import GroupTrial, TrialStep
    from trireme.scheduling.groups.pod_group_results import MemberAttempt


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
        # By class, whose number is never that of another one.
        self._fields: dict[int, bytes] = {}

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
        messages = [
            pod_groups_pb2.PlacementStep(
                tried=attempts,
                remaining=progress.remaining,
                scheduled=progress.scheduled,
                unschedulable=progress.unschedulable,
            )
            for progress, attempts in steps
        ]
        return await self._plugin.placement_feasible(message, [self._tried(each) for each in trial.attempts], messages)

    def _tried(self, attempt: "MemberAttempt") -> remote_placement_feasible.TriedPod:
        node_name = "" if attempt.assumed is None else attempt.assumed.node_name
        parsed = attempt.pod.record.pod.parsed
        identity = cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid)
        return remote_placement_feasible.TriedPod(identity, self._fields_of(attempt.pod), node_name)

    def _fields_of(self, pod: queued_pod.QueuedPodInfo) -> bytes:
        """What the plugin reads of the pod, projected once for the pods of its class."""
        class_id = pod.record.class_id
        fields = self._fields.get(class_id)
        if fields is None:
            if len(self._fields) >= _MAX_KEPT:
                self._fields.clear()
            fields = self._fields[class_id] = self._plugin.project_fields(self._pod_of(pod))
        return fields
