"""Defects of how pods are queued, evaluated, preempted for and bound."""

from __future__ import annotations

import collections
import uuid
from typing import Any

from tests.simulation.defects import mutations
from tests.simulation.defects.registry import defect


@defect("answer_with_error", "kill", seed=14, found_by="pods stay pending that fit")
def assumed_pod_stays() -> None:
    """A pod whose binding failed stays assumed on its node."""
    mutations.drop_calls("BindingCycle", "_cache.forget")


@defect("kill", "cut", "answer_with_error", found_by="pods stay pending that fit")
def back_off_without_end() -> None:
    """Pods that back off after an error are never flushed."""

    def next_backoff(original: Any, self: Any) -> None:
        return None

    mutations.replace("SchedulingQueue.next_backoff", next_backoff)


@defect("kill", needs_oracle=True, found_by="kube-scheduler decides otherwise")
def budget_ignored() -> None:
    """Preemption chooses among nodes without regard to disruption budgets."""

    def compute(original: Any, candidates: Any, snap: Any) -> None:
        original(candidates, snap)
        for candidate in candidates:
            candidate.cost = (0, *candidate.cost[1:])

    mutations.replace("candidate_selection._compute_preemption_costs", compute)


@defect("disturb_plugin", "kill", found_by="a pod is on a closed node")
def bypassed_remote_filter() -> None:
    """Filter goes on without a remote plugin that fails, whatever its failure policy."""

    def ignore_failure(original: Any, self: Any, detail: str) -> None:
        original(self, detail)

    mutations.replace("RemoteFilterPlugin._apply_filter_failure", ignore_failure)


@defect("lag", "slow", "stall", found_by="a device belongs to two claims")
def device_given_twice() -> None:
    """Filter does not learn which devices were given until the API server shows it."""
    mutations.drop_calls("ClusterCache.assume_objects", "_record_object_changes")


@defect("lose_answers", "hang", "kill", "pause", seed=38, found_by="two claims are made for a pod")
def duplicate_claim() -> None:
    """A PreBind that is called again makes a second claim for the pod's extended resources.

    The first answer was lost; names that the API server generates would do the same.
    """

    def claim_name(original: Any, pod: Any, one: Any, number: int) -> Any:
        return original(pod, one, uuid.uuid4().int % 2**53)

    mutations.replace("extended_claims._generated_claim_name", claim_name)


@defect("kill", found_by="a victim is no less important")
def equal_pods_are_victims() -> None:
    """Preemption takes pods of the same priority for victims."""

    def has_victims(original: Any, snap: Any, priority: int) -> Any:
        return original(snap, priority + 1)

    def rows_on_slots(original: Any, snap: Any, slots: Any, *, priority: int) -> Any:
        return original(snap, slots, priority=priority + 1)

    mutations.replace("potential_victims.has_victims", has_victims)
    mutations.replace("potential_victims.rows_on_slots", rows_on_slots)


@defect("kill", found_by="too few pods of a group are bound")
def group_in_part() -> None:
    """The members of a group that fit are bound, though they are too few."""

    def placement_feasible(original: Any, self: Any, min_count: int, progress: Any) -> Any:
        return original(self, min(min_count, 1), progress)

    def scheduled_per_group(original: Any, self: Any, group: Any) -> Any:
        return collections.defaultdict(lambda: 1_000_000)

    mutations.replace("GangPlacementFeasible.placement_feasible", placement_feasible)
    mutations.replace("PodGroupCycle._scheduled_per_group", scheduled_per_group)


@defect("kill", found_by="a pod takes the room of a nominated one")
def nomination_ignored() -> None:
    """A node whose victims left for a pod takes others of lower priority."""

    def nominees(original: Any, snap: Any, priority: int, *but: str) -> Any:
        return original(snap, 2**31 - 1, *but)  # above the priority of any pod

    mutations.replace("nominated_pods.nominees_of_at_least", nominees)


@defect("kill", found_by="a frontend keeps what is of pods that are gone")
def reports_kept() -> None:
    """What was last written about a pod is kept when the pod is gone."""
    mutations.drop_calls("AttemptReporter.forget", "_sent.pop")


@defect("kill", found_by="a cached column differs from one computed anew")
def scores_not_renewed() -> None:
    """Score does not compute a node's scores anew when its pods change."""
    from trireme.plugin_api.interfaces import Dependency

    def due_slots(original: Any, self: Any, depends_on: Any, snap: Any) -> Any:
        return original(self, Dependency.NODE if depends_on == Dependency.NODE_PODS else depends_on, snap)

    mutations.replace("ScoreColumn.due_slots", due_slots)


@defect("kill", found_by="status says what is not so")
def status_names_one_plugin() -> None:
    """The status of a pending pod names only one of the plugins that refused it."""

    def waits_for_event(original: Any, self: Any, pod: Any, status: Any) -> Any:
        waits, text = original(self, pod, status)
        del waits.plugins[1:]
        return waits, text

    mutations.replace("PendingReport._waits_for_event", waits_for_event)


@defect("kill", "lag", found_by="a node has more volumes than it can attach")
def volumes_not_counted() -> None:
    """The limits of volumes on a node are not checked."""
    mutations.drop_calls("NodeVolumeLimits", "_check_limits")


@defect("kill", found_by="weights are in force that no file says")
def wrong_weight() -> None:
    """NodeResourcesBalancedAllocation counts four times as much as by default."""

    def default_plugins(original: Any, gates: Any) -> Any:
        return [(name, 4 if name == "NodeResourcesBalancedAllocation" else weight) for name, weight in original(gates)]

    mutations.replace("default_profile.default_plugins", default_plugins)


@defect("kill", features=("plugins", "insight"), found_by="a pod is a missed wake-up")
def hint_answers_skip() -> None:
    """NodeResourcesFit's queueing hint answers Skip when a pod has left its node."""

    def after_delete(original: Any, elsewhere: Any) -> Any:
        return lambda old, new: lambda pod_class: False

    mutations.replace("hints._make_hint_after_delete", after_delete)


@defect("kill", found_by="only the flush has woken a pod")
def wake_up_lost() -> None:
    """No pod is woken by a pod that is gone from its node."""

    def notify(original: Any, self: Any, event: Any, old: Any, new: Any) -> None:
        if event.label != "AssignedPodDelete":
            original(self, event, old, new)

    mutations.replace("QueueNotifier.notify_of_event", notify)
