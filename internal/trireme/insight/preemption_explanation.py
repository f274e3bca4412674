"""Explains preemption for a pod that no node takes: whom it evicts and why these, or why it evicts nobody.

The candidates are those of PostFilter's own dry runs, on a cluster that does not change meanwhile.

Also change: console/src/views/preemption.tsx,
internal/trireme/cli/decision_display.py (the words for fates and criteria).
Also change: protos/trireme/v1/decision_explanation.proto (the messages).
Also change: internal/trireme/evaluation/preemption/candidate_selection.py (criteria in their order).
"""

from collections.abc import Collection, Sequence

import numpy as np

from trireme.evaluation import class_priorities, filter_engine
from trireme.evaluation.preemption import (
    candidate_selection,
    disruption_budgets,
    dry_run,
    post_filter_context,
    potential_victims,
)
from trireme.framework import status
from trireme.snapshot import arrays, pods, snapshot
from trireme.v1 import cycle_pb2, decision_explanation_pb2, filter_pb2, filter_phase_pb2
from trireme.wire import phase_answers
from trireme.wire.post_filter_result import PostFilterResult

# How many candidates are named.
_CANDIDATES = 10
# What candidates are compared by, in this order, as `candidate_selection` has it.
_CRITERIA = ("budgetViolations", "highestPriority", "prioritySum", "victims", "startTime")
_SUM, _COUNT = 2, 3

_Reason = decision_explanation_pb2.PreemptionPodReason


async def explain(
    filters: filter_engine.FilterEngine,
    snap: snapshot.Snapshot,
    cycle: cycle_pb2.Cycle,
    preemptor: filter_phase_pb2.Preemptor,
    nominated_node: str = "",
    answer: phase_answers.FilterAnswer | None = None,
) -> decision_explanation_pb2.PreemptionExplanation:
    """Explain what preemption does for the cycle's pod, on the snapshot of the engine.

    `nominated_node` is the node that it chose, and `answer` what the engine answered at Filter, if they are known.
    Raises: OutOfStepError where the snapshot changed meanwhile.
    """
    answer = answer or await filters.filter(cycle)
    found = await filters.list_preemption_candidates(cycle, answer.columns, answer.refusal, preemptor)
    out = decision_explanation_pb2.PreemptionExplanation()
    _count_nodes(out, answer, snap, snap.classes[cycle.pod_class].priority)
    if not found.candidates:
        policy = snap.classes[cycle.pod_class].pod.spec.preemption_policy
        code, out.reason = _reason_for_none(found.answer, out, policy, preemptor, answer.refusal)
        out.reasons.add(code=code)
        return out
    candidates = candidate_selection.from_messages(found.candidates, snap)
    if not candidates:
        out.reason = "the pods that it would evict are gone"
        out.reasons.add(code="victimsGone")
        return out
    best = candidate_selection.select_candidate(candidates, snap)
    slot = snap.nodes.slot_of_name.get(nominated_node, best.slot)
    chosen = next((each for each in candidates if each.slot == slot), best)
    others = sorted((each for each in candidates if each is not chosen), key=lambda each: each.cost)
    _add_candidates(out, chosen, others, snap)
    _add_pods_of_node(out, chosen, snap, snap.classes[cycle.pod_class].priority)
    out.not_enough_count = max(out.not_enough_count - len(candidates), 0)
    return out


def _count_nodes(
    out: decision_explanation_pb2.PreemptionExplanation,
    answer: phase_answers.FilterAnswer,
    snap: snapshot.Snapshot,
    priority: int,
) -> None:
    """Count the nodes by whether evictions may help there; candidates are among `not_enough_count` so far."""
    live = snap.nodes.live_slots()
    if answer.refusal is not None:
        resolvable = live if answer.refusal.code == status.Code.UNSCHEDULABLE else live[:0]
    else:
        codes = np.array([0, *(entry.code for entry in answer.columns.statuses)])
        resolvable = live[codes[answer.columns.index[live]] == status.Code.UNSCHEDULABLE]
    with_victims = int(np.count_nonzero(potential_victims.has_victims(snap, priority)[resolvable]))
    out.unresolvable_count = live.size - resolvable.size
    out.without_victims_count = resolvable.size - with_victims
    out.not_enough_count = with_victims


def _reason_for_none(
    found: filter_pb2.PostFilterResponse,
    out: decision_explanation_pb2.PreemptionExplanation,
    policy: str,
    preemptor: filter_phase_pb2.Preemptor,
    refusal: status.Status | None,
) -> tuple[str, str]:
    """Why nobody is evicted, as a code and in words."""
    text = PostFilterResult.from_message(found).message.removeprefix(post_filter_context.TEXT_PREFIX)
    if "nodes are available" not in text:
        # No node was looked at.
        out.unresolvable_count = out.without_victims_count = out.not_enough_count = 0
    if not text:
        return "noPreemptionPlugin", "the profile has no plugin that preempts"
    if policy == "Never":
        return "neverPreempts", "its preemptionPolicy is Never"
    if "terminating pod on the nominated node" in text:
        where = f"it is nominated to {preemptor.nominated_node}, where pods preempted for it are still being deleted"
        return "victimsTerminating", where
    if refusal is not None and refusal.code == status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        # PreFilter left nothing for PostFilter's plugins, whose error ("not found") says no more.
        return "evictionsDoNotHelp", "evicting pods would not help"
    if "nodes are available" not in text:
        return "preemptionRefused", text
    if not out.without_victims_count and not out.not_enough_count:
        return "evictionsDoNotHelp", "evicting pods would not help"
    if not out.not_enough_count:
        return "noVictims", "no node where evictions might help has a pod of lower priority"
    return "victimsNotEnough", "even without all pods of lower priority it fits on no node"


def _add_candidates(
    out: decision_explanation_pb2.PreemptionExplanation,
    chosen: dry_run.Candidate,
    others: Sequence[dry_run.Candidate],
    snap: snapshot.Snapshot,
) -> None:
    """Add the chosen node, the next ones, and by what it is better than these."""
    out.node_name = snap.nodes.names[chosen.slot]
    out.candidate_count = 1 + len(others)
    out.budget_violations = chosen.violations
    for each in [chosen, *others][:_CANDIDATES]:
        # Each victim adds 2^31 to the sum that candidates are compared by.
        total = each.cost[_SUM] - each.cost[_COUNT] * 2**31
        out.candidates.add(
            name=snap.nodes.names[each.slot],
            victims=len(each.rows),
            budget_violations=each.violations,
            highest_priority=each.cost[1],
            priority_sum=total,
        )
    if others:
        different = (
            name for name, own, other in zip(_CRITERIA, chosen.cost, others[0].cost, strict=True) if own != other
        )
        out.decided_by = next(different, "order")


def _add_pods_of_node(
    out: decision_explanation_pb2.PreemptionExplanation,
    chosen: dry_run.Candidate,
    snap: snapshot.Snapshot,
    priority: int,
) -> None:
    """Add the victims, and the pods of the node that stay, with the reason of each."""
    potential = potential_victims.rows_on_slots(snap, np.array([chosen.slot]), priority=priority).tolist()
    violating = disruption_budgets.DisruptionBudgets(snap).violating_rows(potential)
    evicted, lower = frozenset(chosen.rows), frozenset(potential)
    for row in chosen.rows:
        reason = _Reason.PREEMPTION_POD_REASON_UNSPECIFIED
        if snap.pods.flags[row] & pods.TERMINATING:
            reason = _Reason.PREEMPTION_POD_REASON_TERMINATING
        elif row in violating:
            reason = _Reason.PREEMPTION_POD_REASON_BUDGET_VIOLATED
        out.victims.append(_pod(snap, row, reason))
    there = np.flatnonzero(snap.pods.slot[: snap.pods.size] == chosen.slot)
    for row in _most_important_first(snap, there):
        if row not in evicted:
            out.spared.append(_pod(snap, row, _reason_to_stay(row, lower, violating)))


def _reason_to_stay(
    row: int, lower: Collection[int], violating: Collection[int]
) -> decision_explanation_pb2.PreemptionPodReason.ValueType:
    """Why the pod of a row is not evicted."""
    if row not in lower:
        return _Reason.PREEMPTION_POD_REASON_PRIORITY
    if row in violating:
        return _Reason.PREEMPTION_POD_REASON_BUDGET
    return _Reason.PREEMPTION_POD_REASON_REPRIEVED


def _most_important_first(snap: snapshot.Snapshot, rows: arrays.RowArray) -> list[int]:
    """The rows in the order of their pods' priorities, the highest first. Shape: rows (n,)."""
    priority = class_priorities.priorities_by_class(snap)[snap.pods.class_index[rows]]
    found: list[int] = rows[np.argsort(-priority, kind="stable")].tolist()
    return found


def _pod(
    snap: snapshot.Snapshot, row: int, reason: decision_explanation_pb2.PreemptionPodReason.ValueType
) -> decision_explanation_pb2.PreemptionPod:
    return decision_explanation_pb2.PreemptionPod(
        pod=candidate_selection.pod_identity(snap, row),
        priority=snap.classes[int(snap.pods.pod_class[row])].priority,
        reason=reason,
    )
