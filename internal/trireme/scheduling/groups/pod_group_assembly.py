"""What a frontend has beside the rest where the gate GenericWorkload is on: a queue with groups, and their cycle.

Tests: tests/unit/scheduling/test_assembly.py, tests/unit/scheduling/test_pod_group_cycle.py.
"""

from collections.abc import Awaitable, Callable

from trireme.cache import cluster_cache
from trireme.config import gates
from trireme.queueing import remote_calls, scheduling_queue
from trireme.queueing.groups import group_settings, queue_groups, queued_group
from trireme.scheduling import (
    attempt,
    attempt_reporter,
    batch_limit,
    binding_cycle,
    ports,
    preemption_executor,
    profile_roles,
    reserve_calls,
)
from trireme.scheduling.groups import (
    placement_feasibility,
    pod_group_conditions,
    pod_group_cycle,
    pod_group_placements,
    pod_group_post_filters,
    pod_group_reporter,
    pod_group_results,
    pod_group_trial,
)
from trireme.v1 import bind_pb2


class PodGroupAssembly:
    """Makes the parts of scheduling that only pod groups need; there is none if no gate enables groups."""

    def __init__(
        self,
        features: gates.FeatureGates,
        events: ports.Events,
        send: Callable[[bind_pb2.Action, int], None],
        preempting_for: Callable[[str], bool],
        clocks: ports.Clocks,
        random: ports.Random,
        *,
        roles: profile_roles.ProfileRoles,
        json_conditions: bool = False,
    ) -> None:
        """`send` has bind write a condition; `preempting_for`: whether a preemptor's victims are being deleted.

        `json_conditions`: messages of conditions are JSON, with the codes of reasons.
        """
        self._json_conditions = json_conditions
        self._features = features
        self._roles = roles
        self._clocks = clocks
        self._random = random
        self._conditions = pod_group_conditions.PodGroupConditions(send, events, clocks.now, clocks.wall)
        self._preempting_for = preempting_for
        self._topology = self._features.enabled("TopologyAwareWorkloadScheduling")

    def queue_settings(self) -> group_settings.GroupSettings:
        """What the queue has to know of groups."""
        return group_settings.GroupSettings(
            gang_profiles=self._roles.gang_pre_enqueue,
            preempting=self._preempting_for,
            notify=self._conditions.record_waiting,
            gone=self._conditions.forget,
            composite=self._features.enabled("CompositePodGroup"),
        )

    def make_cycle(
        self,
        *,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        groups: queue_groups.QueueGroups,
        evaluators: ports.Evaluators,
        attempts: attempt.AttemptRunner,
        reporter: attempt_reporter.AttemptReporter,
        reserved: reserve_calls.ReserveCalls,
        observer: ports.Observer,
        limit: batch_limit.BatchLimit,
        publish: Callable[[], int],
        execute: Callable[[remote_calls.Instructions], None],
        preemptions: preemption_executor.PreemptionExecutor,
        binding: binding_cycle.BindingCycle,
        remote_plugins: placement_feasibility.RemotePlugins,
    ) -> Callable[[queued_group.PodGroupBatch], Awaitable[None]]:
        """Make the cycle of a group; returns the function that runs it for a batch from the queue."""
        feasibility = placement_feasibility.PlacementFeasibility(
            evaluators=evaluators,
            observer=observer,
            publish=publish,
            plugins=self._roles.placement_feasible,
            remote_plugins=remote_plugins,
        )
        trials = pod_group_trial.PodGroupTrials(
            cache=cache,
            queue=queue,
            evaluators=evaluators,
            attempts=attempts,
            observer=observer,
            reserved=reserved,
            publish=publish,
            feasibility=feasibility,
        )
        try_group = self._make_try_group(cache, evaluators, observer, publish, trials, feasibility)
        post_filters = self._make_post_filters(cache, evaluators, observer, publish, trials, try_group)
        return pod_group_cycle.PodGroupCycle(
            cache=cache,
            queue=queue,
            groups=groups,
            reporter=reporter,
            observer=observer,
            execute=execute,
            now=self._clocks.now,
            trials=trials,
            try_group=try_group,
            post_filters=post_filters,
            preemptions=preemptions,
            binding=binding,
            group_reporter=pod_group_reporter.PodGroupReporter(
                reporter, self._conditions, json_conditions=self._json_conditions
            ),
            limit=limit,
            asynchronous=self._features.enabled("SchedulerAsyncPreemption"),
        ).run

    def _make_try_group(
        self,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        observer: ports.Observer,
        publish: Callable[[], int],
        trials: pod_group_trial.PodGroupTrials,
        feasibility: placement_feasibility.PlacementFeasibility,
    ) -> pod_group_results.TryGroup:
        """What tries a group: on all nodes, or in each placement where groups may have a topology."""
        if not self._topology:
            return trials.try_on_all_nodes
        return pod_group_placements.PodGroupPlacements(
            cache=cache,
            evaluators=evaluators,
            observer=observer,
            publish=publish,
            trials=trials,
            feasibility=feasibility,
            generators=self._roles.placement_generators,
            scorers=self._roles.placement_scorers,
            random=self._random,
        ).run

    def _make_post_filters(
        self,
        cache: cluster_cache.ClusterCache,
        evaluators: ports.Evaluators,
        observer: ports.Observer,
        publish: Callable[[], int],
        trials: pod_group_trial.PodGroupTrials,
        try_group: pod_group_results.TryGroup,
    ) -> pod_group_post_filters.PodGroupPostFilters:
        """PodGroupPostFilter with each profile's plugins."""
        return pod_group_post_filters.PodGroupPostFilters(
            cache=cache,
            evaluators=evaluators,
            observer=observer,
            publish=publish,
            trials=trials,
            try_group=try_group,
            plugins=self._roles.group_post_filters,
            ranking=self._roles.ranking,
            topology=self._topology,
            group_claims=self._features.enabled("DRAWorkloadResourceClaims"),
        )
