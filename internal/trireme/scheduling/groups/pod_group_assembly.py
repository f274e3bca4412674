"""What a frontend has beside the rest where the gate GenericWorkload is on: a queue with groups, and their cycle."""

import random
from collections.abc import Awaitable, Callable
from typing import Any

from trireme.config import commandline
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.queueing import scheduling_queue
from trireme.queueing.groups import group_queue, queued_group
from trireme.scheduling import binding_cycle, cycle_parts, preempting
from trireme.scheduling.groups import (
    pod_group_conditions,
    pod_group_cycle,
    pod_group_placements,
    pod_group_preempting,
    pod_group_results,
    pod_group_trial,
)
from trireme.v1 import bind_pb2
from trireme_kube.client import events


class PodGroupAssembly:
    """Makes them. The queue is there once it was made."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        recorder: events.EventRecorder,
        send: Callable[[bind_pb2.Action], None],
        preempting_for: Callable[[str], bool],
        now: Callable[[], float],
        wall: Callable[[], float],
    ) -> None:
        """`send` has bind write a condition; `preempting_for` says of a preemptor whether its victims are being
        deleted. `now` measures time, `wall` is for the times that are written.
        """
        self.queue: group_queue.PodGroupQueue
        self._completed = completed
        self._now = now
        self._conditions = pod_group_conditions.PodGroupConditions(send, recorder, now, wall)
        self._preempting_for = preempting_for

    def make_queue(self, *arguments: Any, **named: Any) -> scheduling_queue.SchedulingQueue:
        """The queue, of what any other queue is made of."""
        self.queue = group_queue.PodGroupQueue(
            *arguments,
            gang_profiles=frozenset(
                profile.scheduler_name
                for profile in self._completed.profiles
                if queued_group.GANG_SCHEDULING in profile.names(ExtensionPoint.PRE_ENQUEUE)
            ),
            preempting=self._preempting_for,
            notify=self._conditions.tell_lack,
            gone=self._conditions.gone,
            composite=self._completed.gates.enabled("CompositePodGroup"),
            **named,
        )
        return self.queue

    def make_cycle(
        self,
        parts: cycle_parts.CycleParts,
        preemptions: preempting.Preempting,
        binding: binding_cycle.BindingCycle,
    ) -> Callable[[scheduling_queue.Batch], Awaitable[None]]:
        """What runs the cycle of a group."""
        completed = self._completed
        trials = pod_group_trial.PodGroupTrials(parts)
        post_filters = {
            profile.scheduler_name: profile.names(ExtensionPoint.POD_GROUP_POST_FILTER)
            for profile in completed.profiles
        }
        topology = completed.gates.enabled("TopologyAwareWorkloadScheduling")
        attempt: pod_group_results.Try = trials.anywhere
        if topology:
            attempt = pod_group_placements.PodGroupPlacements(
                parts,
                trials,
                {
                    profile.scheduler_name: profile.names(ExtensionPoint.PLACEMENT_GENERATE)
                    for profile in completed.profiles
                },
                {
                    profile.scheduler_name: profile.plugins.get(ExtensionPoint.PLACEMENT_SCORE, ())
                    for profile in completed.profiles
                },
                random.random,
            ).run
        return pod_group_cycle.PodGroupCycle(
            parts,
            self.queue,
            trials,
            attempt,
            pod_group_preempting.PodGroupPostFilters(
                parts,
                trials,
                attempt,
                post_filters,
                topology=topology,
                group_claims=completed.gates.enabled("DRAWorkloadResourceClaims"),
            ),
            preemptions,
            binding,
            self._conditions,
            frozenset(
                profile.scheduler_name
                for profile in completed.profiles
                if queued_group.GANG_SCHEDULING in profile.all_names()
            ),
            completed.trireme.batch.max_pods,
            asynchronous=completed.gates.enabled("SchedulerAsyncPreemption"),
            own_policy=completed.gates.enabled("PodGroupPreemptionPolicy"),
        ).run
